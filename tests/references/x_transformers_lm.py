"""x-transformers' decoder of text, as the package has it, with the attention that a composition names in its layers.

`own: true` leaves the package's attention as it is: the same parameters from the same seed, to hold `standard`
against. Needs x-transformers 1.27.22, of before 2.0, which wants a newer PyTorch (docs/python.md).
"""
from torch import nn
from torch.nn import functional
from x_transformers import Decoder, TransformerWrapper
from x_transformers.attend import Intermediates


class Swapped(nn.Module):
    """In the place of x_transformers.attend.Attend."""

    def __init__(self, attention):
        super().__init__()
        self.within = attention

    def forward(self, q, k, v, mask=None, attn_bias=None, prev_attn=None):
        return self.within(q, k, v, causal=True, pairs=mask, bias=attn_bias), Intermediates()


class Lm(nn.Module):
    """x-transformers' language model with rotary positions and gated MLPs."""

    gives = ["nll"]
    needs = ["causal"]

    def __init__(self, attention, shapes, vocabulary, dim: int = 64, depth: int = 2, heads: int = 2, own: bool = False):
        super().__init__()
        layers = Decoder(dim=dim, depth=depth, heads=heads, attn_dim_head=dim // heads, rotary_pos_emb=True,
                         ff_glu=True)
        if not own:
            for block in layers.layers:
                for part in block:
                    if hasattr(part, "attend"):
                        part.attend = Swapped(attention(heads=heads, head_dim=dim // heads))
        self.text = TransformerWrapper(num_tokens=vocabulary, max_seq_len=shapes["tokens"][0], attn_layers=layers)

    def forward(self, tokens, targets):
        logits = self.text(tokens)
        return functional.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-1, reduction="none")
