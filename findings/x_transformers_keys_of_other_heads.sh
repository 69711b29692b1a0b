#!/usr/bin/env bash
# x-transformers 1.31.14 and fla-core 0.6.0 (PyPI), einops 0.8.2, with Debian's PyTorch 1.13.0 (python3-torch): grouped
# queries, 6 heads that share 2 of keys and values. x-transformers (attn_kv_heads) gives query head h the keys h modulo 2:
# 0 1 0 1 0 1. fla gives neighbours the same ones, 0 0 0 1 1 1, as Llama's and its relatives' published weights have it.
# The weights have the same shapes in both, and with one head of keys, or with as many as queries, the same answer comes:
# who carries weights over sees nothing until he compares outputs. x-transformers 2.31.10 does as 1.31.14.
# Seen, which keys each query head reads:
#   "x-transformers 0 1 0 1 0 1", "fla 0 0 0 1 1 1"
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
/usr/bin/python3 -m pip -q install --no-deps --disable-pip-version-check --root-user-action ignore \
  --target "$folder" x-transformers==1.31.14 fla-core==0.6.0 einops==0.8.2 packaging==26.4 loguru==0.7.3
seen=$(OMP_NUM_THREADS=1 PYTHONPATH=$folder /usr/bin/python3 - "$folder" <<'P'
import importlib.util
import sys
import torch
from x_transformers.attend import Attend
spec = importlib.util.spec_from_file_location("naive", f"{sys.argv[1]}/fla/ops/attn/naive.py")
naive = importlib.util.module_from_spec(spec)
spec.loader.exec_module(naive)
torch.manual_seed(0)
q, k = torch.randn(1, 6, 5, 8), torch.randn(1, 2, 5, 8)
v = torch.arange(2.0).view(1, 2, 1, 1).expand(1, 2, 5, 8).contiguous()  # a value says which head it is of
def heads(out):
    return " ".join(str(round(x)) for x in out.mean((0, 2, 3)).tolist())
print("x-transformers", heads(Attend(heads=6, causal=True)(q, k, v)[0]))
out = naive.naive_parallel_attn(*(x.transpose(1, 2) for x in (q, k, v)))[0]
print("fla", heads(out.transpose(1, 2)))
P
)
printf '%s\n' "$seen"
diff <(printf '%s\n' "$seen") - <<'E2'
x-transformers 0 1 0 1 0 1
fla 0 0 0 1 1 1
E2
