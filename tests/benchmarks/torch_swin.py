"""Swin V2 nano to stride 16 in PyTorch, the backbone of detr_step.py: cosine logits with a learned scale,
continuous position bias, shifted windows of 4. Settings: detr_step.py.
"""
import math

SWIN = {"dim": 32, "depths": [2, 2, 2], "heads": [2, 4, 8], "window": 4}
WIDTH = SWIN["dim"] * 2 ** (len(SWIN["depths"]) - 1)


def make_swin(torch, settings, attend):
    nn, functional = torch.nn, torch.nn.functional
    side = SWIN["window"]

    class WindowAttention(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.dim, self.heads = dim, heads
            self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
            self.q_bias, self.v_bias = (nn.Parameter(torch.zeros(dim)) for _ in range(2))
            self.scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
            self.mlp = nn.Sequential(nn.Linear(2, 512), nn.ReLU(), nn.Linear(512, heads, bias=False))
            self.offsets, self.index = self.places()

        def places(self):
            steps = torch.arange(1 - side, side).float() * 8 / (side - 1)
            steps = steps.sign() * torch.log2(steps.abs() + 1) / 3
            offsets = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), -1).flatten(0, 1)
            cells = torch.stack(torch.meshgrid(*2 * [torch.arange(side)], indexing="ij"), -1).flatten(0, 1)
            away = cells.unsqueeze(1) - cells.unsqueeze(0) + side - 1
            return offsets, (away[..., 0] * (2 * side - 1) + away[..., 1]).flatten()

        def forward(self, x, mask):
            windows, cells, _ = x.shape
            bias = torch.cat([self.q_bias, torch.zeros_like(self.q_bias), self.v_bias])
            q, k, v = functional.linear(x, self.qkv.weight, bias).view(
                windows, cells, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            q = functional.normalize(q, dim=-1) * self.scale.clamp(max=math.log(100.0)).exp()
            offsets, index = (self.offsets, self.index) if settings["bias"] == "cached" else self.places()
            added = (16 * self.mlp(offsets).sigmoid())[index].view(cells, cells, -1).permute(2, 0, 1)
            if mask is not None:
                each = mask.size(0)
                added = (added + mask.unsqueeze(1)).repeat(windows // each, 1, 1, 1)
            y = attend(q, functional.normalize(k, dim=-1), v, added, 1)
            return self.out(y.transpose(1, 2).reshape(windows, cells, self.dim))

    class Block(nn.Module):
        def __init__(self, dim, heads, shift):
            super().__init__()
            self.shift, self.masks = shift, {}
            self.attention, self.norms = WindowAttention(dim, heads), nn.ModuleList(
                [nn.LayerNorm(dim) for _ in range(2)])
            self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

        def cut(self, x):
            b, h, w, c = x.shape
            return x.view(b, h // side, side, w // side, side, c).transpose(2, 3).reshape(
                -1, side * side, c)

        def mask(self, h, w):
            if settings["bias"] == "cached" and (h, w) in self.masks:
                return self.masks[h, w]
            groups = torch.zeros(1, h, w, 1)
            groups[:, -self.shift:] += 2
            groups[:, :, -self.shift:] += 1
            groups = self.cut(groups)
            self.masks[h, w] = torch.where(groups == groups.transpose(1, 2), 0.0, -100.0)
            return self.masks[h, w]

        def forward(self, x):
            b, h, w, c = x.shape
            shift = self.shift if h > side else 0
            y = x.roll((-shift, -shift), (1, 2)) if shift else x
            y = self.attention(self.cut(y), self.mask(h, w) if shift else None)
            y = y.view(b, h // side, w // side, side, side, c).transpose(2, 3).reshape(b, h, w, c)
            y = y.roll((shift, shift), (1, 2)) if shift else y
            x = x + self.norms[0](y)
            return x + self.norms[1](self.mlp(x))

    class Merging(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.map, self.norm = nn.Linear(4 * dim, 2 * dim, bias=False), nn.LayerNorm(2 * dim)

        def forward(self, x):
            cells = [x[:, d::2, r::2] for r in (0, 1) for d in (0, 1)]
            return self.norm(self.map(torch.cat(cells, -1)))

    class Swin(nn.Module):
        def __init__(self):
            super().__init__()
            dim = SWIN["dim"]
            self.embed, self.norm = nn.Conv2d(3, dim, 4, 4), nn.LayerNorm(dim)
            layers = []
            for stage, (depth, heads) in enumerate(zip(SWIN["depths"], SWIN["heads"])):
                if stage > 0:
                    layers.append(Merging(dim))
                    dim *= 2
                layers += [Block(dim, heads, (i % 2) * (side // 2)) for i in range(depth)]
            self.layers, self.last = nn.Sequential(*layers), nn.LayerNorm(dim)

        def forward(self, x):
            if settings["embed"] == "linear":
                b, c, h, w = x.shape
                cells = x.view(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 1, 3, 5).reshape(
                    b, h // 4, w // 4, -1)
                x = functional.linear(cells, self.embed.weight.flatten(1), self.embed.bias)
            else:
                x = self.embed(x).permute(0, 2, 3, 1)
            return self.last(self.layers(self.norm(x)))

    return Swin()
