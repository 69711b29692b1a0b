#!/usr/bin/env bash
# gpu_check.sh [PYTHON]: does attnlab work on this machine's GPU, and how fast is a step of ViT-Ti?
#
# Builds attnlab for the torch of PYTHON (default python3; 2.7 or newer, with CUDA) in build/gpu, then
# runs tests/compat/gpu_check.py, which prints one table. Meant for 8 minutes on 16 cores:
# ATTNLAB_GPU_SECONDS (480) is for both; what would not end in time is left out and named.
# ATTNLAB_GPU_DEVICE=cpu tries the script itself where there is no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(command -v "${1:-python3}")
device=${ATTNLAB_GPU_DEVICE:-cuda}
"$python" - "$device" <<'END'
import sys
import torch
if sys.argv[1] == "cuda" and not torch.cuda.is_available():
    sys.exit(f"gpu_check.sh: torch {torch.__version__} of {sys.executable} finds no GPU")
END
begin=$SECONDS
cmake --preset release -B build/gpu -DATTNLAB_TESTS=OFF -DPython3_EXECUTABLE="$python" \
  -DLibTorch_ROOT="$("$python" -c 'import torch; print(torch.__path__[0])')" >build-gpu.log
cmake --build build/gpu --parallel >>build-gpu.log || { tail -n 20 build-gpu.log >&2; exit 1; }
rm build-gpu.log
built=$((SECONDS - begin))
echo "built in $built s"
export ATTNLAB_PROGRAM=$PWD/build/gpu/bin/attnlab PYTHONPATH=$PWD/python ATTNLAB_PLUGIN_PATH=
exec "$python" tests/compat/gpu_check.py --device "$device" --seconds $((${ATTNLAB_GPU_SECONDS:-480} - built))
