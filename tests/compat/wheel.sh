#!/usr/bin/env bash
# Installs a wheel of attnlab in a fresh virtual environment, with the torch that it asks for (pip fetches
# it: several GB), uses it as somebody would who has no compiler, then builds a plugin with it.
#
#   make wheel PYTHON=PYTHON && tests/compat/wheel.sh build/wheels/attnlab-*.whl [PYTHON]
#
# Environment: ATTNLAB_DATA as in the tests. Exit status: 0 where every step succeeds.
set -euo pipefail
(($# == 1 || $# == 2)) || { echo "usage: tests/compat/wheel.sh FILE.whl [PYTHON]" >&2; exit 2; }
wheel=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf '\n== %s\n' "$*"; }
die() { echo "wheel.sh: $*" >&2; exit 1; }
unset ATTNLAB_PLUGIN_PATH LD_LIBRARY_PATH
export HOME=$work

say "install"
"${2:-python3}" -m venv "$work/env"
"$work/env/bin/pip" install --quiet "$wheel"
PATH=$work/env/bin:$PATH
ls -l "$wheel"
du -sh "$work/env"
cd "$work"
attnlab version

say "without a compiler"
attnlab list | tail -n 3
attnlab run vit_synthetic | tee run.txt
grep -qE ': done +accuracy (9[5-9]|100)' run.txt || die "vit_synthetic did not learn"
attnlab suite quickstart
! grep -rq '"diverged"' runs || die "a run diverged"

say "in Python"
python - <<'END'
import attnlab
import torch
import torch.nn.functional as F

q, k, v = (torch.randn(2, 4, 33, 16, requires_grad=True) for _ in range(3))
out = attnlab.Attention("standard", heads=4, head_dim=16)(q, k, v, causal=True)
expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
torch.testing.assert_close(out, expected)
for ours, theirs in zip(torch.autograd.grad(out.sum(), (q, k, v)), torch.autograd.grad(expected.sum(), (q, k, v))):
    torch.testing.assert_close(ours, theirs)
print("attnlab.Attention is torch's attention")
END

say "a plugin of one's own"
attnlab new attention mine
cmake -S mine -B mine/build -DCMAKE_PREFIX_PATH="$(python -c 'import attnlab; print(attnlab.installation())')"
cmake --build mine/build --parallel "$(nproc)"
ctest --test-dir mine/build --output-on-failure

say "another torch"
version=$(python -c 'import importlib.metadata; print(importlib.metadata.version("torch"))')
info=$(echo "$work"/env/lib/python*/site-packages/torch-*.dist-info/METADATA)
sed -i "s/^Version: .*/Version: 1.0.0/" "$info"
status=0
message=$(attnlab list 2>&1) || status=$?
echo "$message"
((status != 0)) && [[ "$message" == *"${version%.*}"*"1.0.0"* ]] || die "another torch was not noticed"
sed -i "s/^Version: .*/Version: $version/" "$info"

say "remove"
pip uninstall --quiet --yes attnlab
left=$(find "$work/env" -ipath '*attnlab*')
[[ -z "$left" ]] || die "removing left: $left"
say "all of it works with torch $version"
