#!/usr/bin/env bash
# local-attention 1.11.2 (PyPI), einops 0.8.2, hyper-connections 0.4.11, with Debian's PyTorch 1.13.0 (python3-torch):
# with rotary positions (dim given) and causal=False a query is turned to the place of another token. The places of the
# last window that it can see are taken for its own: with look_forward=1, the default then, that is one window too far.
# So all tokens alike, of window_size 8, attend most to the token 8 places after them, and little to themselves. With
# look_forward=2 it is 16 places; with look_forward=0 and with causal=True the query is at its place. No warning comes,
# and a model learns with it, since the error is the same everywhere; who carries weights over gets another answer.
# Seen, for a token in the middle (look_backward=1): the place it attends most to, less its own; and how far its weights
# are from rotary attention computed in float64 with the query at its own place, and with the query that much later:
#   causal:         0; own place: less than 1e-4
#   look_forward 0: 0; own place: less than 1e-4
#   look_forward 1: 8; own place: more than 0.1, 8 later: less than 1e-4
#   look_forward 2: 16; own place: more than 0.1, 16 later: less than 1e-4
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
/usr/bin/python3 -m pip -q install --no-deps --disable-pip-version-check --root-user-action ignore \
  --target "$folder" local-attention==1.11.2 einops==0.8.2 hyper-connections==0.4.11
seen=$(OMP_NUM_THREADS=1 PYTHONPATH=$folder /usr/bin/python3 -W ignore - <<'P'
import numpy as np
import torch
from local_attention import LocalAttention
window, length, dim, row, value = 8, 96, 64, 44, 1.5
speeds = 10000.0 ** (-np.arange(0, dim, 2) / dim)
def expected(causal, forward, later):
    # A pair (1.5, 1.5) turned by two angles: the product is 2 * 1.5^2 times the cosine of their difference.
    key = np.arange(length)
    logit = 2 * value**2 * np.cos(np.outer(row + later - key, speeds)).sum(1) / dim**0.5
    first = row // window * window
    sees = (key >= first - window) & (key < first + window * (1 + forward)) & ((key <= row) | (not causal))
    weight = np.where(sees, np.exp(logit - logit.max()), 0)
    return weight / weight.sum()
for name, causal, forward in (("causal:        ", True, 0), ("look_forward 0:", False, 0),
                              ("look_forward 1:", False, 1), ("look_forward 2:", False, 2)):
    attend = LocalAttention(dim=dim, window_size=window, causal=causal, look_backward=1, look_forward=forward)
    x = torch.full((1, 1, length, dim), value)
    weight = attend(x, x, torch.eye(length)[None, None])[0, 0, row].double().numpy()
    def off(later):
        error = abs(weight - expected(causal, forward, later)).max()
        return "more than 0.1" if error > 0.1 else "less than 1e-4" if error < 1e-4 else str(error)
    words = f"{name} {weight.argmax() - row}; own place: {off(0)}"
    print(words + (f", {forward * window} later: {off(forward * window)}" if forward else ""))
P
)
printf '%s\n' "$seen"
diff <(printf '%s\n' "$seen") - <<'END'
causal:         0; own place: less than 1e-4
look_forward 0: 0; own place: less than 1e-4
look_forward 1: 8; own place: more than 0.1, 8 later: less than 1e-4
look_forward 2: 16; own place: more than 0.1, 16 later: less than 1e-4
END
