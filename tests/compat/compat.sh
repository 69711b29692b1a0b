#!/usr/bin/env bash
# Builds this source and runs its tests in a throw-away Debian of another release, and with that
# against another LibTorch: bookworm has 1.13, trixie 2.6, sid the newest.
#
#   tests/compat/compat.sh RELEASE [COMMAND...]
#   tests/compat/compat.sh trixie
#   tests/compat/compat.sh bookworm make demo
#
# COMMAND runs in a copy of the working tree; without one, `make test TESTS=fast`. The tree is made
# with debootstrap and set up with scripts/setup.sh, so that set-up is proved on a bare system too.
# Needs root, debootstrap, and 5 GB a release. Kept for the next run; delete the folder when done.
#
# Environment:
#   ROOTS         folder that holds the trees (default ${TMPDIR:-/tmp}/attnlab-compat)
#   MIRROR        Debian mirror (default: the one that this machine's apt uses)
#   ATTNLAB_DATA  data for the tests, mounted read-only (default: none, such tests are skipped)
# Exit status: COMMAND's, or 2 where the tree cannot be made.
set -euo pipefail

. "$(dirname "$0")/debian_root.sh"

# What git tracks or would track, as it is now; build/ stays, so that the next build is short.
copy_source() {
  local target=$root/src/attnlab
  mkdir -p "$target"
  find "$target" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
  git -C "$source" ls-files -z --cached --others --exclude-standard |
    (cd "$source" && xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh) |
    tar -C "$source" --null --files-from=- --create | tar -C "$target" --extract
}

version_of() {
  chroot "$root" dpkg-query --show --showformat='${Version}' "$1" 2>/dev/null || echo none
}

summary() {
  local status=$?
  trap - EXIT
  echo "compat: ---- $release ----"
  echo "compat: Debian $(cat "$root/etc/debian_version"), LibTorch $(version_of libtorch-dev)," \
    "g++ $(version_of g++), cmake $(version_of cmake), Boost $(version_of libboost-dev)," \
    "yaml-cpp $(version_of libyaml-cpp-dev), TBB $(version_of libtbb-dev), fmt $(version_of libfmt-dev)"
  echo "compat: ${command[*]}: exit $status after $((SECONDS - started)) s"
  exit "$status"
}

(($# > 0)) || die "usage: tests/compat/compat.sh RELEASE [COMMAND...]  (bookworm, trixie, sid)"
release=$1
shift
command=("$@")
((${#command[@]} > 0)) || command=(make test TESTS=fast)
command -v git >/dev/null || die "git is missing. As root: apt-get install git"
started=$SECONDS

prepare_root "$release"
copy_source
trap summary EXIT
inside /src/attnlab scripts/setup.sh
inside /src/attnlab scripts/setup.sh
inside /src/attnlab "${command[@]}"
