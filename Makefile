# The commands of attnlab. `make help` lists them; CMakePresets.json says how things are built.
#
#   PRESET=release|debug|asan   what `build`, `test` and `install` work on
#   TESTS=all|fast              what `test` runs; fast leaves out training runs and real builds
#   PARTS="nn series"           what `test` builds and runs, by names of test programs without _test
#   JOBS=N                      compilers or test programs at a time (default: one a core)
#   PREFIX=DIR                  where `install` puts things (default /usr/local)
#   PYTHON=FILE                 the Python whose torch `wheel` builds for (default python3)
#   LINT_UNTIL=SECONDS          when `lint` takes up no further file, in seconds since 1970;
#   ASAN_UNTIL=SECONDS          likewise `asan` no further test program
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

PRESET ?= release
TESTS ?= all
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
PYTHON ?= python3
PARTS ?=
export LINT_UNTIL ASAN_UNTIL
BUILD := build/$(PRESET)
CMAKE_BUILD := cmake --build --preset $(PRESET) --parallel $(JOBS)

# Files that git tracks or would track; deleted ones are still in its list.
SOURCES = $(wildcard $(shell git ls-files --cached --others --exclude-standard '*.h' '*.cpp'))
LINTED = $(filter framework/base/%.cpp framework/config/%.cpp framework/manifest/%.cpp \
  framework/experiment/%.cpp framework/costs/%.cpp framework/runs/%.cpp framework/comparison/%.cpp framework/document/%.cpp framework/suites/%.cpp \
  framework/report/%.cpp framework/sharing/%.cpp framework/tensor/%.cpp framework/contracts/%.cpp framework/nn/%.cpp plugins/attention/%.cpp,$(SOURCES))
LINT_FLAGS := -std=c++20 -include scripts/clang_prelude.h -I. -Ibuild/release/include \
  -isystem /usr/include/torch/csrc/api/include -DATTNLAB_LINT -DATTNLAB_VERSION=\"lint\" \
  -DATTNLAB_LIBTORCH_SONAME=\"lint\" -DATTNLAB_CUDA_VERSION=\"\"
# The project's format is that of version 14; others differ in details.
CLANG_FORMAT ?= $(firstword $(shell command -v clang-format-14 clang-format))
CLANG_TIDY ?= clang-tidy-14

.PHONY: help demo test setup build debug asan tsan fuzz format format-check lint benchmarks bench install deb wheel clean

help:  ## List the commands
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

demo: setup  ## Set up, build what it needs, compare two attentions on real images
	cmake --preset $(PRESET) $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DATTNLAB_TESTS=OFF)
	$(CMAKE_BUILD) --target attnlab_demo
	build/$(PRESET)/bin/attnlab suite quickstart
	@echo "All plugins: make build. Then one attention in every domain: \
	build/$(PRESET)/bin/attnlab suite cross_domain 'attentions=[standard,quest]' (docs/cross_domain.md)"

test: setup  ## Set up, build everything, run the tests (TESTS=fast, PARTS=series: less)
	cmake --preset $(PRESET) -DATTNLAB_TESTS=ON
ifeq ($(PARTS),)
	$(CMAKE_BUILD)
	ctest --preset $(PRESET) --parallel $(JOBS) $(if $(filter fast,$(TESTS)),--label-regex '^fast$$')
else
	@known=$$(ctest --preset $(PRESET) --show-only | sed -nE 's/.*: ([a-z_]+)_test(\.1)?$$/\1/p'); \
	for part in $(PARTS); do grep -qx "$$part" <<<"$$known" || \
	  { echo "PARTS: there is no part '$$part'; there are" $$known >&2; exit 2; }; done
	$(CMAKE_BUILD) --target $(PARTS:%=%_test)
	ctest --preset $(PRESET) --parallel $(JOBS) --no-tests=error \
	  --tests-regex '^($(shell tr ' ' '|' <<<'$(strip $(PARTS))'))_test(\.[0-9])?$$'
endif

setup:  ## Install what is missing (Debian; as root or with sudo)
	scripts/setup.sh

# A first build leaves the tests out; once `make test` has asked for them they stay in.
build:  ## Build the program and the plugins
	cmake --preset $(PRESET) $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DATTNLAB_TESTS=OFF)
	$(CMAKE_BUILD)

debug:  ## Build without optimisation, with assertions
	$(MAKE) build PRESET=debug

asan:  ## Build with address and undefined-behaviour checks, run the fast tests (ASAN_UNTIL=SECONDS)
	cmake --preset asan -DATTNLAB_TESTS=ON
	scripts/asan.sh build/asan $(JOBS)

tsan:  ## Build the tests of our threads with ThreadSanitizer, run them
	cmake --preset tsan -DATTNLAB_TESTS=ON
	cmake --build --preset tsan --parallel $(JOBS)
	ctest --preset tsan

fuzz:  ## Build the fuzz targets with Clang and libFuzzer, for scripts/night.sh
	scripts/setup.sh --with fuzz
	cmake --preset fuzz -DATTNLAB_TESTS=ON
	cmake --build --preset fuzz --parallel $(JOBS)

format:  ## Format every source file in place
	$(CLANG_FORMAT) -i $(SOURCES)

format-check:  ## Fail where a source file is not formatted, or includes what it must not know
	$(CLANG_FORMAT) --version
	$(CLANG_FORMAT) --dry-run -Werror $(SOURCES)
	scripts/check_includes.sh

lint:  ## clang-tidy over the core, the building blocks and the attentions (LINT_UNTIL=SECONDS)
	scripts/by_change.sh $(LINTED) | xargs -P $(JOBS) -I{} scripts/lint_one.sh {} \
	  $(CLANG_TIDY) --quiet --warnings-as-errors='*' {} -- $(LINT_FLAGS)

benchmarks:  ## Build the programs of tests/benchmarks
	$(CMAKE_BUILD) --target attnlab_benchmarks

bench:  ## Time attnlab against PyTorch, and the start of the program
	scripts/setup.sh --with bench
	cmake --preset $(PRESET) -DATTNLAB_TESTS=ON
	$(MAKE) --no-print-directory benchmarks
	tests/benchmarks/list_latency.py --build $(BUILD)
	tests/benchmarks/compare_vit_step.py --build $(BUILD)

install: build  ## Install under PREFIX
	cmake --install $(BUILD) --prefix $(PREFIX)

deb: setup  ## Build a Debian package, build/PRESET/packages/attnlab_*.deb
	scripts/setup.sh --with deb
	$(MAKE) build
	cmake --build --preset $(PRESET) --target package
	@ls -l $(BUILD)/packages/*.deb

wheel: setup  ## Build a wheel for the torch of PYTHON, build/wheels/attnlab-*.whl
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) scripts/wheel.sh $(PYTHON) build/wheels

clean:  ## Remove everything that was built (runs/ stays)
	rm -rf build
