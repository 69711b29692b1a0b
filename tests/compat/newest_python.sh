#!/usr/bin/env bash
# Makes a Python with the newest PyTorch that Debian has, the rival of the benchmarks, and prints the
# path of a program that is this Python:
#
#   PYTHON=$(tests/compat/newest_python.sh) && tests/benchmarks/compare_vit_step.py --python "$PYTHON"
#   tests/compat/newest_python.sh trixie
#
# It lies in a throw-away Debian (sid unless a release is named), made with debootstrap; the program
# enters it, sees this checkout at its own path, and is given all variables of its environment. Needs
# root, debootstrap, and 3 GB. Kept for the next time; delete the folder when done.
#
# Environment: ROOTS, MIRROR: as in compat.sh.
# Exit status: 0, or 2 where the tree cannot be made.
set -euo pipefail

. "$(dirname "$0")/debian_root.sh"

(($# <= 1)) || die "usage: tests/compat/newest_python.sh [RELEASE]"
prepare_root "${1:-sid}"

# torch.compile wants a compiler with the headers of Python and LibTorch.
if ! chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/sbin:/usr/bin:/bin /usr/bin/python3 -c '
import scipy, torch
torch.compile(torch.sin)(torch.ones(2))' >/dev/null 2>&1; then
  # The release's own LibTorch with the OpenMP build of OpenBLAS, as attnlab is given it.
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/sbin:/usr/bin:/bin DEBIAN_FRONTEND=noninteractive sh -c '
    apt-get update && apt-get install --yes --no-install-recommends python3-torch python3-torchvision \
      python3-scipy g++ python3-dev libtorch-dev libopenblas0-openmp' >"$root.log" 2>&1 </dev/null || {
    tail -n 30 "$root.log" >&2
    die "PyTorch could not be installed (all of it: $root.log)"
  }
fi

python=$root.python
cat >"$python.new" <<END
#!/usr/bin/env bash
# Python of $root, in a namespace of its own: its mounts vanish with it, however it ends.
exec unshare --mount --fork --kill-child bash -c '
  set -e
  root=\$1 checkout=\$2
  shift 2
  mount --make-rprivate /
  for folder in /proc /dev /sys "\$checkout"; do
    mkdir -p "\$root\$folder"
    mount --rbind "\$folder" "\$root\$folder"
  done
  exec chroot "\$root" /usr/bin/env --chdir="\$checkout" /usr/bin/python3 "\$@"
' bash "$root" "$source" "\$@"
END
chmod +x "$python.new"
mv "$python.new" "$python"
echo "$python"
