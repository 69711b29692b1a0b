"""What a run must keep of an attention: parameters, some in a module of it, a count, a helper file."""
from typing import Annotated, Literal

import torch

from attnlab.python import Range, dropout, softmax
from scales import start


class Learned(torch.nn.Module):
    """Softmax attention with a learned scale for each head, and a mixed value.

    temperature: the logits are divided by it at the start
    """

    citation = "Somebody: Learned, 2026"

    def __init__(self, heads, head_dim, value_dim, dropout, layer,
                 temperature: Annotated[float, Range(0.1, 10)] = 1.0,
                 mix: Literal["values", "nothing"] = "values"):
        super().__init__()
        self.dropout = dropout
        self.mixes = mix == "values"
        self.scale = torch.nn.Parameter(torch.full((heads, 1, 1), start(head_dim, temperature)))
        self.mix = torch.nn.Linear(value_dim, value_dim, bias=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def after_step(self, step, learning_rate):
        self.steps += 1
        self.scale.clamp_(max=2.0)

    def forward(self, q, k, v, visible, bias, state):
        logits = self.scale * (q @ k.transpose(-2, -1))
        if bias is not None:
            logits = logits + bias
        mixed = self.mix(v) if self.mixes else v
        # The layer before adds a little of its values, where there is one of this length.
        before = state.get("values")
        if before is not None and before.shape == mixed.shape:
            mixed = mixed + 0.1 * before
        state["values"] = v
        return dropout(softmax(logits, visible), self.dropout, self.training) @ mixed
