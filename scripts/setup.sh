#!/usr/bin/env bash
# Makes a Debian machine (12, 13 or sid) ready to build and run attnlab.
#
#   scripts/setup.sh [--with lint] [--with bench] [--with browser] [--with slurm] [--with minisign]
#                    [--with fuzz] [--with deb]
#
# Installs the packages that are missing and makes the OpenMP build of OpenBLAS the BLAS: the
# pthread build has threads of its own beside LibTorch's, and makes a training step several times
# slower. Asks nothing. Where nothing is missing it does nothing, and needs no root.
# Exit status: 0 ready, 1 a step failed (its whole output is shown), 2 usage, or root is needed.
set -euo pipefail

required=(
  g++ cmake make ninja-build ccache binutils git ca-certificates
  libtorch-dev libopenblas0-openmp libtbb-dev libyaml-cpp-dev libfmt-dev nlohmann-json3-dev zlib1g-dev
  libhwy-dev
  libboost-dev libboost-program-options-dev libboost-filesystem-dev
  libgtest-dev libgmock-dev libjs-chart.js libopencv-imgcodecs-dev libjpeg62-turbo-dev
)
# What a release may lack: then the demo makes up data, and what needs a library is left out.
#   dataset-fashion-mnist           real images for the demo
#   libeigen3-dev, libspectra-dev   Laplacian encodings of graphs
#   librdkit-dev                    the dataset `molecules`; from Debian 14 on its headers include
#   libringdecomposerlib-dev        this one's
#   libpugixml-dev                  the datasets `voc` and `one_shot_pairs`
#   libarchive-dev, libsodium-dev,  sharing between labs
#   libcurl4-openssl-dev
#   libdnnl-dev                     large products of matrices without LibTorch's way to them
#   libgloo-dev                     runs on several processes
#   python3-torch, python3-dev,     attentions in Python files, and attnlab's in Python
#   pybind11-dev
optional=(dataset-fashion-mnist libeigen3-dev libspectra-dev librdkit-dev libringdecomposerlib-dev
          libpugixml-dev libdnnl-dev libgloo-dev libarchive-dev libsodium-dev libcurl4-openssl-dev
          python3-torch python3-dev pybind11-dev)

usage() {
  echo "usage: scripts/setup.sh [--with lint] [--with bench] [--with browser] [--with slurm]"
  echo "                        [--with minisign] [--with fuzz] [--with deb]"
  echo "  --with lint   also clang-format and clang-tidy"
  echo "  --with bench  also python3-torch and python3-torchvision, the rivals of the benchmarks,"
  echo "                and libxsmm-dev where the release has it"
  echo "  --with browser  also chromium, in which tests look at reports"
  echo "  --with slurm    also slurm-wlm and munge, for the tests of --launcher slurm"
  echo "  --with fuzz     also clang, llvm and libomp-dev, for libFuzzer and coverage"
  echo "  --with deb      also help2man, dpkg-dev and file, for the Debian package and its manual pages"
  echo "  --with minisign also minisign, whose keys and signatures tests compare with ours"
}

say() { echo "setup: $*"; }

die() {
  local status=$1
  shift
  printf 'setup: %s\n' "$@" >&2
  exit "$status"
}

is_installed() {
  [[ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

# Prints those of its arguments that are not installed.
missing_of() {
  local package
  for package in "$@"; do
    is_installed "$package" || echo "$package"
  done
}

has_candidate() {
  [[ "$(apt-cache policy "$1" 2>/dev/null)" == *"Candidate: "[!\(]* ]]
}

# Whether apt knows what its sources offer; a fresh image has never asked them.
has_package_lists() { has_candidate base-files && has_candidate libtorch-dev; }

# Runs a command as root, quietly; shows all that it wrote if it fails.
as_root() {
  local remedy=$1
  shift
  if ! "${root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    die 1 "failed: $*" "$remedy"
  fi
}

# Prints "name path", a line for each alternative that must change for the OpenMP OpenBLAS to be
# what libblas.so.3, libopenblas.so.0 and liblapack.so.3 mean. Group names end in the architecture's
# triplet, which the package's own folder tells.
wrong_alternatives() {
  local path folder triplet library group
  while read -r path; do
    folder=$(dirname "$path")
    triplet=$(basename "$(dirname "$folder")")
    library=$(basename "$path")
    group="$library-$triplet"
    update-alternatives --query "$group" 2>/dev/null | grep -qx "Alternative: $path" || continue
    [[ "$(readlink -f "/etc/alternatives/$group")" == "$(readlink -f "$path")" ]] ||
      echo "$group $path"
  done < <(dpkg-query --listfiles libopenblas0-openmp 2>/dev/null |
    grep -E '/openblas-openmp/lib(blas\.so\.3|openblas\.so\.0|lapack\.so\.3)$')
}

install_packages() {
  local fetch="no network, or an unreachable mirror? See /etc/apt/sources.list*; then repeat"
  # Fresh lists before every installation: a mirror no longer has the files of stale ones.
  say "updating apt's package lists"
  as_root "$fetch: apt-get update" apt-get update
  local package
  for package in "${missing[@]}"; do
    has_candidate "$package" && continue
    cat "$log" >&2  # apt counts an unreachable mirror as a success
    die 1 "apt has no package '$package'." \
      "If apt-get update, above, could not fetch: mend the network or the mirror, then repeat." \
      "Else: attnlab needs Debian 12 or newer, with 'main' in /etc/apt/sources.list*."
  done
  for package in "${missing_optional[@]}"; do
    if has_candidate "$package"; then
      missing+=("$package")
    else
      say "note: this release has no $package; what needs it is left out"
    fi
  done
  ((${#missing[@]} > 0)) || return 0
  say "installing: ${missing[*]}"
  as_root "repeat by hand to look closer: apt-get install ${missing[*]}" \
    apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}"
}

# What a person would type instead.
commands_by_hand() {
  ((${#missing[@]} == 0)) ||
    echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
  ((${#alternatives[@]} == 0)) || printf '  update-alternatives --set %s\n' "${alternatives[@]}"
}

arguments=$*
while (($# > 0)); do
  case "$1" in
    --with)
      case "${2:-}" in
        lint) required+=(clang-format clang-tidy) ;;
        bench)
          required+=(python3 python3-torch python3-torchvision)
          optional+=(libxsmm-dev)
          ;;
        browser) required+=(chromium) ;;
        slurm) required+=(slurm-wlm munge) ;;
        minisign) required+=(minisign) ;;
        fuzz) required+=(clang llvm libomp-dev) ;;
        deb) required+=(help2man dpkg-dev file) ;;
        *) die 2 "--with takes lint, bench, browser, slurm, minisign, fuzz or deb, not '${2:-}'." "$(usage)" ;;
      esac
      shift 2
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) die 2 "unknown argument '$1'." "$(usage)" ;;
  esac
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
  die 2 "this is not a Debian system (dpkg-query and apt-get not found)." \
    "Install by hand what third_party/README.md lists, then: make build"

mapfile -t missing < <(missing_of "${required[@]}")
mapfile -t missing_optional < <(missing_of "${optional[@]}")
if ((${#missing[@]} == 0)) && has_package_lists; then
  # An optional package that the release does not have is not a reason to do anything.
  for index in "${!missing_optional[@]}"; do
    has_candidate "${missing_optional[index]}" || unset "missing_optional[index]"
  done
fi
mapfile -t alternatives < <(wrong_alternatives)

if ((${#missing[@]} + ${#missing_optional[@]} + ${#alternatives[@]} == 0)); then
  say "nothing to do: every package is installed and OpenBLAS (OpenMP) is the BLAS"
  exit 0
fi

root=()
if ((EUID != 0)); then
  if ((${#missing[@]} + ${#alternatives[@]} == 0)); then
    say "nothing to do without root; as root it would add: ${missing_optional[*]} (optional)"
    exit 0
  fi
  if command -v sudo >/dev/null && sudo --non-interactive true 2>/dev/null; then
    root=(sudo --non-interactive)
  else
    ((${#missing[@]} == 0)) || printf 'setup: missing: %s\n' "${missing[*]}" >&2
    ((${#alternatives[@]} == 0)) || echo "setup: the BLAS is not OpenBLAS (OpenMP)" >&2
    die 2 "this needs root, and sudo is not there or wants a password. As root, run:" \
      "  $(cd "$(dirname "$0")" && pwd)/setup.sh${arguments:+ $arguments}" \
      "which does:" "$(commands_by_hand)"
  fi
fi

((${#missing[@]} + ${#missing_optional[@]} == 0)) || install_packages
mapfile -t alternatives < <(wrong_alternatives)
for alternative in "${alternatives[@]}"; do
  read -r group path <<<"$alternative"
  say "making $path the machine's ${group%%-*}"
  as_root "look at: update-alternatives --query $group" update-alternatives --set "$group" "$path"
done
say "done"
