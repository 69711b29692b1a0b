"""Standard attention in one Python file: the twin of attnlab's own."""
import math

import torch

from attnlab.python import dropout, softmax


class Twin(torch.nn.Module):
    """softmax(Q K^T / sqrt(D)) V."""

    def __init__(self, head_dim, dropout):
        super().__init__()
        self.scale = 1 / math.sqrt(head_dim)
        self.dropout = dropout

    def forward(self, q, k, v, visible, bias):
        logits = (q * self.scale) @ k.transpose(-2, -1)
        if bias is not None:
            logits = logits + bias
        weights = softmax(logits, visible)
        return dropout(weights, self.dropout, self.training) @ v, weights, logits
