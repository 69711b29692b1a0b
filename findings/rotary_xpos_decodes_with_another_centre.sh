#!/usr/bin/env bash
# rotary-embedding-torch 0.9.1 (PyPI), einops 0.8.2, with Debian's PyTorch 1.13.0 (python3-torch): with use_xpos=True the
# logits of token-by-token decoding are not those of the whole sequence. xPos gives queries a scale z^(place / 512) and
# keys its inverse; the place is counted from a centre, which cancels. rotate_queries_with_cached_keys, which the README
# advises for cached keys, takes the centre from the number of queries for the queries, and from that of keys for the
# keys. For one query and n keys a factor z^((n // 2) / 512) is left over, another one in each dimension.
# Without xPos (plain rotary positions) the same call is right, so that a test without xPos sees nothing.
# Seen, the last query's logits: the largest difference, over the largest logit, from rotary positions and xPos computed
# in float64. rotate_queries_and_keys agrees with those; "repaired" is the query divided by z^((n // 2) / 512).
#   16 keys: plain less than 1e-4; xPos at once less than 1e-4, cached 0.01, repaired less than 1e-4
#   128 keys: plain less than 1e-4; xPos at once less than 1e-4, cached 0.07, repaired less than 1e-4
#   512 keys: plain less than 1e-4; xPos at once less than 1e-4, cached 0.16, repaired less than 1e-4
#   1024 keys: plain less than 1e-4; xPos at once less than 1e-4, cached 0.57, repaired less than 1e-4
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
/usr/bin/python3 -m pip -q install --no-deps --disable-pip-version-check --root-user-action ignore \
  --target "$folder" rotary-embedding-torch==0.9.1 einops==0.8.2
seen=$(OMP_NUM_THREADS=1 PYTHONPATH=$folder /usr/bin/python3 -W ignore - <<'P'
import numpy as np
import torch
from rotary_embedding_torch import RotaryEmbedding
dim = 64
z = (np.arange(0, dim, 2) + 0.4 * dim) / (1.4 * dim)
speeds = 10000.0 ** (-np.arange(0, dim, 2) / dim)
def logits(q, k):
    return (q[..., -1:, :] @ k.transpose(-1, -2)).flatten().double().numpy()
def in_float64(q, k, scaled):  # one complex number for each pair: only the distance of query and key counts
    pairs = [x.double().numpy().reshape(-1, dim // 2, 2) @ [1, 1j] for x in (q[0, 0], k[0, 0])]
    distance = (len(pairs[1]) - 1 - np.arange(len(pairs[1])))[:, None]
    turned = pairs[0][-1] * np.exp(1j * speeds * distance) * pairs[1].conj()
    return (turned.real * (z ** (distance / 512) if scaled else 1)).sum(1)
for n in (16, 128, 512, 1024):
    q, k = torch.tensor(np.random.RandomState(0).standard_normal((2, 1, 1, n, dim)), dtype=torch.float32)
    last = q[..., -1:, :]
    plain, xpos = (RotaryEmbedding(dim, use_xpos=use) for use in (False, True))
    def off(found, scaled):
        right = in_float64(q, k, scaled)
        error = abs(found - right).max() / abs(right).max()
        return "less than 1e-4" if error < 1e-4 else f"{error:.2f}"
    query, keys = RotaryEmbedding(dim, use_xpos=True).rotate_queries_with_cached_keys(last, k)
    left_over = torch.tensor(z ** ((n // 2) / 512)).repeat_interleave(2)
    print(f"{n} keys: plain {off(logits(*plain.rotate_queries_with_cached_keys(last, k)), False)}; "
          f"xPos at once {off(logits(*xpos.rotate_queries_and_keys(q, k)), True)}, "
          f"cached {off(logits(query, keys), True)}, repaired {off(logits(query.double() / left_over, keys.double()), True)}")
P
)
printf '%s\n' "$seen"
diff <(printf '%s\n' "$seen") - <<'END'
16 keys: plain less than 1e-4; xPos at once less than 1e-4, cached 0.01, repaired less than 1e-4
128 keys: plain less than 1e-4; xPos at once less than 1e-4, cached 0.07, repaired less than 1e-4
512 keys: plain less than 1e-4; xPos at once less than 1e-4, cached 0.16, repaired less than 1e-4
1024 keys: plain less than 1e-4; xPos at once less than 1e-4, cached 0.57, repaired less than 1e-4
END
