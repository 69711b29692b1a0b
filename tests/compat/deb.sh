#!/usr/bin/env bash
# Installs a Debian package of attnlab in a bare Debian, uses it as somebody would who has no compiler,
# builds a plugin with it, and removes it.
#
#   make deb && tests/compat/deb.sh bookworm build/release/packages/attnlab_*.deb
#
# The package must have been built on the same release. Needs root, debootstrap, 3 GB; environment as in
# compat.sh. The tree is made anew each time. Exit status: 0 where every step succeeds.
set -euo pipefail
. "$(dirname "$0")/debian_root.sh"
(($# == 2)) || die "usage: tests/compat/deb.sh RELEASE FILE.deb"
release=$1
package=$(realpath "$2")
ROOTS=${ROOTS:-${TMPDIR:-/tmp}/attnlab-compat}/deb
rm -rf --one-file-system "${ROOTS:?}/$release"
prepare_root "$release"
say() { printf '\n== %s\n' "$*"; }
# Files of the system: what a user writes is in /root.
files() { find "$root" -xdev -path "$root/root" -prune -o -path "$root/proc" -prune -o -iname '*attnlab*' -print; }
cp "$package" "$root/attnlab.deb"
apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq --yes)

say "install"
inside / "${apt[@]}" update
inside / "${apt[@]}" --no-install-recommends install ./attnlab.deb >"$root.install.log"
rm "$root/attnlab.deb" "$root/etc/apt/apt.conf.d/90attnlab-compat"
du -sh --exclude=proc --exclude=sys --exclude=dev "$root" | cut -f1
for file in share/man/man1/attnlab-run.1.gz share/man/man1/attnlab-plugin-install.1.gz \
  share/bash-completion/completions/attnlab share/zsh/vendor-completions/_attnlab \
  share/fish/vendor_completions.d/attnlab.fish share/doc/attnlab/copyright; do
  [[ -s "$root/usr/$file" ]] || die "the package lacks /usr/$file"
done

say "without a compiler"
inside /root attnlab list | tail -n 3
inside /root attnlab run vit_synthetic train.epochs=1
inside /root attnlab suite quickstart --dry-run

say "a plugin of one's own"
prepare_root "$release"
inside / "${apt[@]}" --no-install-recommends install g++ cmake make libtorch-dev >>"$root.install.log"
rm "$root/etc/apt/apt.conf.d/90attnlab-compat"
inside /root attnlab new attention mine
inside /root/mine sh -c 'cmake -S . -B build && cmake --build build --parallel "$(nproc)"'
inside /root/mine ctest --test-dir build --output-on-failure

say "remove"
inside / "${apt[@]}" purge attnlab >>"$root.install.log"
left=$(files)
[[ -z "$left" ]] || die "removing left:" "$left"
say "all of it works under Debian $(<"$root/etc/debian_version")"
