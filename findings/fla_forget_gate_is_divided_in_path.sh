#!/usr/bin/env bash
# fla-core 0.6.0 (PyPI), einops 0.8.2, with Debian's PyTorch 1.13.0 (python3-torch): two operations of one package take g,
# the logarithm of a forget gate for each token and head, as [B, T, H]. In forgetting_attn g is added to the scaled
# logits, so that exp(g) is what is left of a weight after a token. In path_attn it is added before they are scaled, so
# that exp(g / sqrt(D)) is left: with D = 64 a gate of 0.5 keeps 0.917. Its Triton kernels do as its plain form here
# does (b_s + g, then times sm_scale), so that the package's tests agree; the documentation of g is its shape.
# Without reflections (beta = 0) path_attn is attention with a forget gate. Seen, largest difference of the outputs:
#   "same g: more than 0.1; g times sqrt(D) in path_attn: less than 1e-5"
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
/usr/bin/python3 -m pip -q install --no-deps --disable-pip-version-check --root-user-action ignore \
  --target "$folder" fla-core==0.6.0 einops==0.8.2
seen=$(OMP_NUM_THREADS=1 PYTHONPATH=$folder /usr/bin/python3 - "$folder" <<'P'
import importlib.util
import sys
import torch
def plain(operation):  # without the package's __init__, which imports Triton
    spec = importlib.util.spec_from_file_location(operation, f"{sys.argv[1]}/fla/ops/{operation}/naive.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
torch.manual_seed(0)
q, k, v, w = (torch.randn(2, 64, 3, 64) for _ in range(4))
gate = torch.nn.functional.logsigmoid(torch.randn(2, 64, 3))
none = torch.zeros(2, 64, 3)
forgets = plain("forgetting_attn").naive_forgetting_attn(q, k, v, gate)
def off(g):
    out = plain("path_attn").naive_path_attn(q, k, v, w, none, g, scale=64**-0.5)
    return (out - forgets).abs().max().item()
same, more = off(gate), off(gate * 8)
print(f"same g: {'more' if same > 0.1 else 'less'} than 0.1; "
      f"g times sqrt(D) in path_attn: {'less' if more < 1e-5 else 'more'} than 1e-5")
P
)
printf '%s\n' "$seen"
diff <(printf '%s\n' "$seen") - <<'E2'
same g: more than 0.1; g times sqrt(D) in path_attn: less than 1e-5
E2
