# Read by the other scripts of this folder: a throw-away Debian of another release, made with debootstrap.
#
# Sets `source`, the checkout; `prepare_root RELEASE` sets `root` and makes that tree, once.
# Environment:
#   ROOTS         folder that holds the trees (default ${TMPDIR:-/tmp}/attnlab-compat)
#   MIRROR        Debian mirror (default: the one that this machine's apt uses)
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

die() {
  printf "$(basename "$0" .sh): %s\n" "$@" >&2
  exit 2
}

# The first Debian mirror in apt's sources, of the one-line or the deb822 form.
mirror_of_this_machine() {
  { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null || true; } |
    sed -nE -e 's/^deb +(\[[^]]*\] +)?([^ ]+).*/\2/p' -e 's/^URIs: *([^ ]+).*/\1/p' |
    grep -m 1 -E '/debian/?$' || true
}

# A bare system: the base and nothing else.
prepare_root() {
  local release=$1 mirror tool
  ((EUID == 0)) || die "needs root for chroot and mounts: sudo $0 $release"
  for tool in debootstrap unshare; do
    command -v "$tool" >/dev/null || die "$tool is missing. As root: apt-get install debootstrap"
  done
  root=${ROOTS:-${TMPDIR:-/tmp}/attnlab-compat}/$release
  if [[ ! -e "$root/.attnlab-base" ]]; then
    mirror=${MIRROR:-$(mirror_of_this_machine)}
    [[ -n "$mirror" ]] || die "no Debian mirror in apt's sources; name one: MIRROR=... $0 $release"
    rm -rf --one-file-system "$root"
    mkdir -p "$root"
    echo "$(basename "$0" .sh): making a Debian $release in $root" >&2
    debootstrap --variant=minbase --include=ca-certificates "$release" "$root" "$mirror" \
      >"$root.log" 2>&1 || {
      tail -n 30 "$root.log" >&2
      die "debootstrap failed (all of it: $root.log). Is $mirror reachable? MIRROR=... names another."
    }
    touch "$root/.attnlab-base"
  fi
  # The network as this machine's apt knows it: proxies, retries, clock checks.
  apt-config dump | grep -E '^Acquire::(http|https|Retries|Check-)' \
    >"$root/etc/apt/apt.conf.d/90attnlab-compat" || true
  cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
  cp -L /etc/hosts "$root/etc/hosts" 2>/dev/null || true
}

# inside FOLDER COMMAND...: runs a command there, in a folder of that tree, with ATTNLAB_DATA mounted
# read-only. The mounts live in a namespace of their own: they vanish with the last
# process in it, however this script ends, and never show on this machine.
inside() {
  unshare --mount --pid --fork --kill-child bash -c '
    set -e
    root=$1 data=$2 folder=$3
    shift 3
    mount --make-rprivate /
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    variables=()
    if [ -n "$data" ]; then
      mkdir -p "$root/srv/attnlab-data"
      mount --bind "$data" "$root/srv/attnlab-data"
      mount -o remount,bind,ro "$root/srv/attnlab-data"
      variables=(ATTNLAB_DATA=/srv/attnlab-data)
    fi
    exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/sbin:/usr/bin:/bin HOME=/root \
      LC_ALL=C.UTF-8 TERM="${TERM:-dumb}" "${variables[@]}" \
      sh -c "cd \"\$0\" && exec \"\$@\"" "$folder" "$@"
  ' bash "$root" "${ATTNLAB_DATA:-}" "$@"
}
