"""What takes rules one by one, and no mask that is made of them: no window, no pairs."""
import torch

from attnlab.python import dropout as drop


class Rules(torch.nn.Module):
    """softmax(Q K^T / sqrt(D)) V under the causal rule and padding."""

    different_source = False

    def __init__(self, dropout):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v, causal, key_valid):
        queries, keys = q.shape[2], k.shape[2]
        seen = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=q.device)
        if causal:
            seen = seen.tril(keys - queries)
        if key_valid is not None:
            seen = seen & key_valid[:, None, None, :]
        logits = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        logits = logits.masked_fill(~seen, torch.finfo(q.dtype).min)
        weights = torch.softmax(logits, -1).masked_fill(~seen, 0)
        return drop(weights, self.dropout, self.training) @ v
