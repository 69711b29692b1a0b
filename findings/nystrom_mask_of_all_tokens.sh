#!/usr/bin/env bash
# nystrom-attention 0.0.14 (PyPI), einops 0.8.2, with Debian's PyTorch 1.13.0 (python3-torch): two things that attention
# does not do. (1) A mask that hides nothing changes the answer, unless the length is a multiple of num_landmarks. Tokens
# of zeros are put in front to fill up; without a mask they are averaged into landmarks and attended to as keys.
# (2) The answer for a sequence depends on the others of its batch, in evaluation mode too. The iteration for the
# pseudo-inverse starts from a transpose divided by the largest sums of the whole batch, not of each matrix, and the six
# steps of the default do not forget the start. The paper's rule is for one matrix.
# Seen, 16 landmarks, no convolution, float64; differences over the largest number of the answer:
#   128 tokens, mask of all tokens: the same; zeros in front by hand: the same
#   128 tokens, beside a sequence 8 times as large: off by more than 1 %; with 100 steps: the same; these and the exact inverse: the same
#   129 tokens, mask of all tokens: off by more than 1 %; zeros in front by hand: the same
#   129 tokens, beside a sequence 8 times as large: off by more than 1 %; with 100 steps: the same; these and the exact inverse: the same
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
/usr/bin/python3 -m pip -q install --no-deps --disable-pip-version-check --root-user-action ignore \
  --target "$folder" nystrom-attention==0.0.14 einops==0.8.2
seen=$(OMP_NUM_THREADS=1 PYTHONPATH=$folder /usr/bin/python3 -W ignore - <<'P'
import numpy as np
import torch
from nystrom_attention import NystromAttention
numbers = np.random.RandomState(0)
def softmax(x):
    power = np.exp(x - x.max(1, keepdims=True))
    return power / power.sum(1, keepdims=True)
def by_hand(x):  # the paper's formula with NumPy's pseudo-inverse
    q, k, v = np.split(x[0].numpy() @ attend.to_qkv.weight.numpy().T, 3, axis=1)
    q_mean, k_mean = (y.reshape(16, -1, 32).mean(1) for y in (q, k))
    far, middle, near = (softmax(a @ b.T / 32**0.5) for a, b in ((q, k_mean), (q_mean, k_mean), (q_mean, k)))
    out = far @ np.linalg.pinv(middle) @ (near @ v)
    return torch.tensor(out @ attend.to_out[0].weight.numpy().T + attend.to_out[0].bias.numpy())[None]
def compare(found, expected):
    error = ((found - expected).abs().max() / expected.abs().max()).item()
    return "the same" if error < 1e-6 else "off by more than 1 %" if error > 0.01 else str(error)
attend = NystromAttention(dim=32, dim_head=32, heads=1, num_landmarks=16, residual=False).double().eval()
with torch.no_grad():
    for one in attend.parameters():
        one.copy_(torch.tensor(numbers.standard_normal(one.shape) / 32**0.5))
    for n in (128, 129):
        x, other = (size * torch.tensor(numbers.standard_normal((1, n, 32))) for size in (1, 8))
        filled = torch.cat([torch.zeros(1, -n % 16, 32, dtype=torch.float64), x], 1)
        attend.pinv_iterations = 6
        alone = attend(x)
        print(f"{n} tokens, mask of all tokens: {compare(attend(x, mask=torch.ones(1, n, dtype=torch.bool)), alone)}; "
              f"zeros in front by hand: {compare(attend(filled)[:, -n:], alone)}")
        beside = compare(attend(torch.cat([x, other]))[:1], alone)
        attend.pinv_iterations = 100
        print(f"{n} tokens, beside a sequence 8 times as large: {beside}; with 100 steps: "
              f"{compare(attend(torch.cat([x, other]))[:1], attend(x))}; "
              f"these and the exact inverse: {compare(attend(x), by_hand(filled)[:, -n:])}")
P
)
printf '%s\n' "$seen"
diff <(printf '%s\n' "$seen") - <<'END'
128 tokens, mask of all tokens: the same; zeros in front by hand: the same
128 tokens, beside a sequence 8 times as large: off by more than 1 %; with 100 steps: the same; these and the exact inverse: the same
129 tokens, mask of all tokens: off by more than 1 %; zeros in front by hand: the same
129 tokens, beside a sequence 8 times as large: off by more than 1 %; with 100 steps: the same; these and the exact inverse: the same
END
