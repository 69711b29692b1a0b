#!/usr/bin/env python3
"""The rival: a training step of PointTransformer-lite in PyTorch, tuned as well as it can be on a CPU.

The model of preset `lite` (three stages of 2 blocks, 32 to 128 channels, patches of 128, a decoder of 1
block a stage), one cloud, cross-entropy, AdamW without bias correction, float32. A step makes orders
along the curves, neighbours and pools anew, as ours does; sparse convolution is a gather, a product and
an index_add for each place of the kernel. --voxels FILE holds the grid, as attnlab_bench_points --write
leaves it.

Serves "steps N" on standard input, as vit_step.py does, whose tuner it uses. Settings beside env:
  convolution  places (a product for each place), or columns (all gathered side by side, one product)
  gather       index_select, or indexing
"""
import argparse
import os
import sys
import time

import vit_step

CLASSES, PATCH = 16, 128
DEPTHS, DIMS, HEADS = (2, 2, 2), (32, 64, 128), (2, 4, 8)
UP_DEPTHS, UP_DIMS, UP_HEADS = (1, 1), (32, 64), (2, 4)
BASE = {"env": {}, "convolution": "places", "gather": "index_select"}
CANDIDATES = [
    ("env", [vit_step.KEEP_HEAP]),
    ("env", [{vit_step.ISA: "avx512"}, {vit_step.ISA: "avx2"}]),
    ("convolution", ["columns"]),
    ("gather", ["index"]),
]


def spread(x):
    for shift, mask in ((16, 0x0000ff0000ff), (8, 0x00f00f00f00f), (4, 0x0c30c30c30c3),
                        (2, 0x249249249249)):
        x = (x | x << shift) & mask
    return x


def hilbert(torch, grid):
    """Skilling's algorithm on all rows at once."""
    x = [grid[:, i].clone() for i in range(3)]
    q = 1 << 15
    while q > 1:
        p = q - 1
        for i in range(3):
            there = (x[i] & q) != 0
            t = torch.where(there, torch.zeros_like(x[0]), (x[0] ^ x[i]) & p)
            x[0] = torch.where(there, x[0] ^ p, x[0] ^ t)
            if i > 0:
                x[i] = x[i] ^ t
        q >>= 1
    x[1] ^= x[0]
    x[2] ^= x[1]
    t, q = torch.zeros_like(x[0]), 1 << 15
    while q > 1:
        t = torch.where((x[2] & q) != 0, t ^ (q - 1), t)
        q >>= 1
    return spread(x[0] ^ t) << 2 | spread(x[1] ^ t) << 1 | spread(x[2] ^ t)


class Level:
    """Voxels of one size: orders and neighbours, made when they are first asked for."""

    def __init__(self, torch, grid):
        self.torch, self.grid = torch, grid
        self.keys = grid[:, 0] << 32 | grid[:, 1] << 16 | grid[:, 2]
        self.orders, self.maps = {}, {}

    def order(self, curve):
        if curve not in self.orders:
            grid = self.grid[:, [1, 0, 2]] if curve % 2 else self.grid
            if curve < 2:
                code = spread(grid[:, 0]) << 2 | spread(grid[:, 1]) << 1 | spread(grid[:, 2])
            else:
                code = hilbert(self.torch, grid)
            order, n = code.argsort(), len(code)
            inverse = self.torch.empty_like(order).scatter_(0, order, self.torch.arange(n))
            if n > PATCH and n % PATCH:
                own = n % PATCH
                order = self.torch.cat([order, order[n - own - PATCH + own:n - own]])
            self.orders[curve] = order, inverse
        return self.orders[curve]

    def neighbours(self, size):
        if size not in self.maps:
            torch, reach, pairs = self.torch, size // 2, []
            steps = range(-reach, reach + 1)
            for dx in steps:
                for dy in steps:
                    for dz in steps:
                        wanted = self.keys + (dx << 32) + (dy << 16) + dz
                        at = torch.searchsorted(self.keys, wanted).clamp_(max=len(wanted) - 1)
                        rows = (self.keys[at] == wanted).nonzero().squeeze(1)
                        pairs.append((at[rows], rows))
            self.maps[size] = pairs
        return self.maps[size]

    def pooled(self):
        half = self.grid >> 1
        keys, rows = (half[:, 0] << 32 | half[:, 1] << 16 | half[:, 2]).unique(return_inverse=True)
        grid = self.torch.stack([keys >> 32, keys >> 16 & 0xffff, keys & 0xffff], 1)
        return Level(self.torch, grid), rows


def make_model(torch, settings):
    nn, functional = torch.nn, torch.nn.functional

    def take(x, rows):
        return x.index_select(0, rows) if settings["gather"] == "index_select" else x[rows]

    class SparseConvolution(nn.Module):
        def __init__(self, inputs, outputs, size, bias=True):
            super().__init__()
            self.size = size
            bound = (inputs * size ** 3) ** -0.5
            self.weight = nn.Parameter(torch.empty(size ** 3, inputs, outputs).uniform_(-bound, bound))
            self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

        def forward(self, x, level):
            pairs = level.neighbours(self.size)
            if settings["convolution"] == "columns":
                columns = x.new_zeros(len(x), len(pairs), x.size(1))
                for place, (inputs, outputs) in enumerate(pairs):
                    columns[:, place].index_copy_(0, outputs, take(x, inputs))
                y = columns.flatten(1) @ self.weight.flatten(0, 1)
                return y if self.bias is None else y + self.bias
            y = x.new_zeros(len(x), self.weight.size(2))
            for place, (inputs, outputs) in enumerate(pairs):
                y = y.index_add(0, outputs, take(x, inputs) @ self.weight[place])
            return y if self.bias is None else y + self.bias

    class Block(nn.Module):
        def __init__(self, dim, heads, number):
            super().__init__()
            self.dim, self.heads, self.number = dim, heads, number
            self.place, self.place_linear = SparseConvolution(dim, dim, 3), nn.Linear(dim, dim)
            self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
            self.qkv, self.project = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
            self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

        def attend(self, x, level):
            order, inverse = level.order(self.number % 4)
            size = min(PATCH, len(x))
            head_dim = self.dim // self.heads
            qkv = take(self.qkv(x), order).view(-1, size, 3, self.heads, head_dim)
            q, k, v = qkv.permute(2, 0, 3, 1, 4).reshape(3, -1, size, head_dim).unbind(0)
            logits = torch.baddbmm(q.new_empty(()), q, k.transpose(1, 2), beta=0,
                                   alpha=head_dim ** -0.5)
            y = torch.bmm(logits.softmax(-1), v).view(-1, self.heads, size, head_dim)
            return self.project(take(y.transpose(1, 2).reshape(-1, self.dim), inverse))

        def forward(self, x, level):
            x = x + self.norms[0](self.place_linear(self.place(x, level)))
            x = x + self.attend(self.norms[1](x), level)
            return x + self.down(functional.gelu(self.up(self.norms[2](x))))

    class Norm(nn.Sequential):
        def __init__(self, dim):
            super().__init__(nn.BatchNorm1d(dim, eps=1e-3, momentum=0.01), nn.GELU())

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.stem_norm = SparseConvolution(4, DIMS[0], 5, False), Norm(DIMS[0])
            self.down = nn.ModuleList(nn.ModuleList(Block(d, h, i) for i in range(n))
                                      for n, d, h in zip(DEPTHS, DIMS, HEADS))
            self.pools = nn.ModuleList(nn.Linear(a, b) for a, b in zip(DIMS, DIMS[1:]))
            self.pool_norms = nn.ModuleList(Norm(d) for d in DIMS[1:])
            self.up = nn.ModuleList(nn.ModuleList(Block(d, h, i) for i in range(n))
                                    for n, d, h in zip(UP_DEPTHS, UP_DIMS, UP_HEADS))
            below = UP_DIMS[1:] + DIMS[-1:]
            self.unpools = nn.ModuleList(nn.Sequential(nn.Linear(a, b), Norm(b))
                                         for a, b in zip(below, UP_DIMS))
            self.skips = nn.ModuleList(nn.Sequential(nn.Linear(a, b), Norm(b))
                                       for a, b in zip(DIMS, UP_DIMS))
            self.head = nn.Linear(UP_DIMS[0], CLASSES)

        def forward(self, x, grid):
            levels, parents, skips = [Level(torch, grid)], [], []
            x = self.stem_norm(self.stem(x, levels[0]))
            for stage, blocks in enumerate(self.down):
                if stage > 0:
                    skips.append(x)
                    level, rows = levels[-1].pooled()
                    levels.append(level)
                    parents.append(rows)
                    y = self.pools[stage - 1](x)
                    index = rows.unsqueeze(1).expand_as(y)
                    x = y.new_empty(len(level.keys), y.size(1)).scatter_reduce(
                        0, index, y, "amax", include_self=False)
                    x = self.pool_norms[stage - 1](x)
                for block in blocks:
                    x = block(x, levels[stage])
            for stage in reversed(range(len(self.up))):
                x = self.skips[stage](skips[stage]) + take(self.unpools[stage](x), parents[stage])
                for block in self.up[stage]:
                    x = block(x, levels[stage])
            return self.head(x)

    return Net()


def maker(path):
    def make_step(settings, threads):
        import numpy
        import torch
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        grid = torch.from_numpy(numpy.fromfile(path, dtype=numpy.int64).reshape(-1, 3))
        features, labels = torch.randn(len(grid), 4), torch.randint(CLASSES, (len(grid),))
        model = make_model(torch, settings).train()
        slots = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()]

        def step():
            start = time.perf_counter()
            loss = torch.nn.functional.cross_entropy(model(features, grid), labels)
            loss.backward()
            with torch.no_grad():
                for parameter, mean, square in slots:
                    mean.mul_(0.9).add_(parameter.grad, alpha=0.1)
                    square.mul_(0.999).addcmul_(parameter.grad, parameter.grad, value=0.001)
                    parameter.mul_(1 - 1e-5).addcdiv_(mean, square.sqrt().add_(1e-8), value=-1e-3)
                    parameter.grad = None
            return time.perf_counter() - start

        return step

    return make_step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--settings", help="JSON; skips tuning")
    parser.add_argument("--tune-only", action="store_true")
    parser.add_argument("--voxels", default=os.environ.get("ATTNLAB_BENCH_VOXELS"))
    arguments = parser.parse_args()
    if not arguments.voxels:
        sys.exit("points_step: --voxels FILE, as attnlab_bench_points --write FILE leaves it")
    os.environ["ATTNLAB_BENCH_VOXELS"] = arguments.voxels  # for the processes that the tuner starts
    vit_step.run(arguments, [os.path.abspath(__file__)], BASE, CANDIDATES, maker(arguments.voxels))


if __name__ == "__main__":
    main()
