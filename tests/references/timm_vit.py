"""timm's VisionTransformer, as the package has it, with the attention that a composition names in its layers.

`own: true` leaves timm's attention as it is: the same parameters from the same seed, to hold `standard` against.
Needs timm 1.0.31 (docs/python.md).
"""
from timm.layers import Attention
from timm.models.vision_transformer import VisionTransformer
from torch import nn


class Vit(nn.Module):
    """timm's ViT: its patches, positions, class token, layers, norms, head and starts."""

    gives = ["logits"]

    def __init__(self, attention, shapes, classes, patch_size: int = 4, dim: int = 32, depth: int = 2, heads: int = 2,
                 own: bool = False):
        super().__init__()
        channels, height, width = shapes["image"]

        class Swapped(Attention):
            def __init__(self, *arguments, **keys):
                super().__init__(*arguments, **keys)
                self.within = attention(heads=self.num_heads, head_dim=self.head_dim)

            def forward(self, x, attn_mask=None, is_causal=False):
                q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
                return self.proj_drop(self.proj(self.within(q, k, v).transpose(1, 2).flatten(2)))

        self.vit = VisionTransformer(img_size=(height, width), patch_size=patch_size, in_chans=channels,
                                     num_classes=classes, embed_dim=dim, depth=depth, num_heads=heads,
                                     attn_layer=Attention if own else Swapped)

    def forward(self, image):
        return self.vit(image)
