#!/usr/bin/env bash
# safetensors 0.8.0 (PyPI), with numpy 2.4.6: save_file and save of safetensors.numpy take a transposed view, write its
# numbers in the order of memory under the view's shape, and say nothing. 0.7.0 wrote what the array holds.
# The documentation asks for "contiguous and dense" tensors, as that of 0.7.0 did; safetensors.torch refuses others with
# an error. Reported as safetensors/safetensors#825.
# Seen, of a = [[0, 1, 2], [3, 4, 5]] transposed, [[0, 3], [1, 4], [2, 5]], and of a Fortran-ordered copy of a:
#   0.7.0: a.T [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]], Fortran [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
#   0.8.0: a.T [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], Fortran [[0.0, 3.0, 1.0], [4.0, 2.0, 5.0]]
# Who writes queries as x.reshape(B, L, H, D).transpose(0, 2, 1, 3) gets others: numpy.ascontiguousarray first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
seen=""
for version in 0.7.0 0.8.0; do
  "$folder/v/bin/pip" -q install --disable-pip-version-check "safetensors==$version" numpy==2.4.6
  seen+=$("$folder/v/bin/python" - "$version" "$folder/t.safetensors" <<'P'
import sys
import numpy as np
from safetensors.numpy import load_file, save_file
a = np.arange(6, dtype=np.float32).reshape(2, 3)
save_file({"t": a.T, "f": np.asfortranarray(a)}, sys.argv[2])
back = load_file(sys.argv[2])
print(f"{sys.argv[1]}: a.T {back['t'].tolist()}, Fortran {back['f'].tolist()}")
P
)$'\n'
done
printf '%s' "$seen"
diff <(printf '%s' "$seen") - <<'E2'
0.7.0: a.T [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]], Fortran [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
0.8.0: a.T [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], Fortran [[0.0, 3.0, 1.0], [4.0, 2.0, 5.0]]
E2
