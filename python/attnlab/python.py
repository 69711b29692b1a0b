"""For an attention in a Python file (docs/python.md): visible keys, dropout, ranges of options.

Shapes: B batch, H heads, Lq queries, Lk keys. Masks are bool, true = may be seen; None: all may.
A batch comes as one tensor, padded where its sequences differ in length (`visible`, `key_valid`):
sequences laid end to end (the trait `ragged`) are for C++ attentions, and models pad for others.
"""
from __future__ import annotations

from typing import NamedTuple, Optional

import torch

try:
    import _attnlab  # of the program that runs this
except ImportError:  # in a notebook
    _attnlab = None


class Range:
    """The values that an option may have, bounds included: `Annotated[float, Range(0, 1)]`."""

    def __init__(self, low: Optional[float] = None, high: Optional[float] = None):
        self.low, self.high = low, high


class RelativePositions(NamedTuple):
    """What `forward` gets as `relative`, as in Transformer-XL.

    The logits are ((q_i + content_bias) . k_j + (q_i + position_bias) . r_{i-j}) * scale.
    """

    keys: torch.Tensor  # [H, Lq + Lk - 1, D]: r for distances Lk - 1 down to 1 - Lq
    content_bias: Optional[torch.Tensor]  # [H, D]; None: 0
    position_bias: Optional[torch.Tensor]  # [H, D]; None: 0


def mask(logits: torch.Tensor, visible: Optional[torch.Tensor],
         value: float = float("-inf")) -> torch.Tensor:
    """Logits [B, H, Lq, Lk] with `value` where a key may not be seen."""
    return logits if visible is None else logits.masked_fill(~visible, value)


def softmax(logits: torch.Tensor, visible: Optional[torch.Tensor] = None) -> torch.Tensor:
    """Softmax over visible keys, [B, H, Lq, Lk].

    Hidden keys weigh 0. A query that sees none has a row of zeros, and finite gradients.
    """
    if visible is None:
        return torch.softmax(logits, -1)
    # The lowest number, not -inf: a row that sees nothing would be NaN.
    weights = torch.softmax(mask(logits, visible, torch.finfo(logits.dtype).min), -1)
    return mask(weights, visible, 0.0)


def dropout(x: torch.Tensor, p: float, training: bool = True) -> torch.Tensor:
    """Zeroes numbers with probability p in training, and divides the others by 1 - p.

    It drops the numbers that attnlab's own attentions drop for the same seed. Outside of the program
    it is torch's dropout.
    """
    if p == 0 or not training:
        return x
    if _attnlab is None:
        return torch.nn.functional.dropout(x, p, True)
    return _attnlab.dropout(x, p)
