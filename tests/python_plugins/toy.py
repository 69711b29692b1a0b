"""The twin of toy_transformer, with its parameters' names."""
import torch
from torch import nn


class Projected(nn.Module):
    def __init__(self, dim, attention):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.attention = attention(heads=1, head_dim=dim)
        self.output = nn.Linear(dim, dim)

    def forward(self, first, x):
        q = self.qkv(first).chunk(3, -1)[0]
        _, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (one.unsqueeze(1) for one in (q, k, v))
        return self.output(self.attention(q, k, v).squeeze(1))


class Toy(nn.Module):
    """One layer, one head, a class token, as algorithm A2 prints it."""

    gives = ["logits"]
    needs = ["different_lengths"]

    def __init__(self, attention, shapes, classes, hidden: int = 8):
        super().__init__()
        length, dim = shapes["series"]
        if length <= 0:
            raise ValueError("it needs series of one length")
        self.class_token = nn.Parameter(torch.randn(1, dim))
        self.positions = nn.Parameter(torch.randn(length + 1, dim))
        self.attention = Projected(dim, attention)
        self.mlp_in, self.mlp_out = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, series):
        token = self.class_token.expand(len(series), 1, -1)
        x = torch.cat([token, series], 1) + self.positions
        first = x[:, :1]
        y = first + self.norm2(self.norm1(first) + self.attention(first, x))
        y = first + self.mlp_out(nn.functional.gelu(self.mlp_in(y)))
        return self.head(y).squeeze(1)
