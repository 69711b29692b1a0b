#!/usr/bin/env python3
"""The rival: training steps of PatchTST on windows of ETT's sizes in PyTorch, tuned for a CPU.

32 windows of 336 steps and 7 channels, 96 steps to forecast, float32, squared errors, Adam (lr 1e-4),
no clipping. The model is the published one for all sets but ETTh and ILI: instance norm, 42 patches of
16 steps, 8 apart, of each channel by itself, learned positions, 3 layers of 16 heads and 128 channels
with batch norms behind residuals, an MLP of 256 channels, dropout 0.2 (twice behind attention, as
published), a flat head. Logits are not carried from layer to layer.

Serves a driver as vit_step.py does: "steps N" answers with N times in seconds. It is tuned in the
same way. Settings:
  env        variables that only a new process can take: instruction set, malloc, huge pages
  attention  bmm (scale folded into the product), matmul, sdpa (fused, PyTorch 2.x)
  qkv        packed (one product) or three
  norm       rows (tokens end to end), or channels (transposed, as published)
  patches    unfold, or gather (by an index)
  optimiser  loop, foreach, or fused (PyTorch 2.4 and later)
  grads      none (freed between steps) or zero
  compile    torch.compile (PyTorch 2.x)
"""
import os

import vit_step

WINDOWS, LOOKBACK, HORIZON, CHANNELS = 32, 336, 96, 7
PATCH, STRIDE, DIM, DEPTH, HEADS, HIDDEN, DROP = 16, 8, 128, 3, 16, 256, 0.2
PATCHES = (LOOKBACK - PATCH) // STRIDE + 2

BASE = {"env": {}, "attention": "bmm", "qkv": "packed", "norm": "rows", "patches": "unfold",
        "optimiser": "foreach", "grads": "none", "compile": False}
CANDIDATES = [
    ("env", [vit_step.KEEP_HEAP]),
    ("env", [vit_step.HUGE_PAGES]),
    ("env", [{vit_step.ISA: "avx512"}, {vit_step.ISA: "avx2"}]),
    ("attention", ["matmul", "sdpa"]),
    ("qkv", ["three"]),
    ("norm", ["channels"]),
    ("patches", ["gather"]),
    ("optimiser", ["loop", "fused"]),
    ("grads", ["zero"]),
    ("compile", [True]),
]


def make_model(torch, settings):
    """The model as an nn.Module: series [B, LOOKBACK, CHANNELS] to [B, HORIZON, CHANNELS]."""
    nn, functional = torch.nn, torch.nn.functional
    head_dim = DIM // HEADS
    scale = head_dim ** -0.5

    def drop(x):
        return functional.dropout(x, DROP)

    def attend(q, k, v):  # [B, L, H, d]
        batch, tokens = q.shape[:2]
        if settings["attention"] == "bmm":
            q, k, v = (x.transpose(1, 2).reshape(batch * HEADS, tokens, head_dim)
                       for x in (q, k, v))
            logits = torch.baddbmm(q.new_zeros(()), q, k.transpose(1, 2), beta=0, alpha=scale)
            y = torch.bmm(logits.softmax(-1), v).view(batch, HEADS, tokens, head_dim)
        else:
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            if settings["attention"] == "sdpa":
                y = functional.scaled_dot_product_attention(q, k, v)
            else:
                y = ((q * scale) @ k.transpose(-2, -1)).softmax(-1) @ v
        return y.transpose(1, 2).reshape(batch, tokens, DIM)

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(DIM)

        def forward(self, x):
            if settings["norm"] == "rows":
                return self.norm(x.reshape(-1, DIM)).view(x.shape)
            return self.norm(x.transpose(1, 2)).transpose(1, 2)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            if settings["qkv"] == "packed":
                self.qkv = nn.Linear(DIM, 3 * DIM)
            else:
                self.q, self.k, self.v = (nn.Linear(DIM, DIM) for _ in range(3))
            self.out = nn.Linear(DIM, DIM)
            self.up, self.down = nn.Linear(DIM, HIDDEN), nn.Linear(HIDDEN, DIM)
            self.norms = nn.ModuleList([Norm(), Norm()])

        def heads(self, x):
            shape = (x.size(0), x.size(1), HEADS, head_dim)
            if settings["qkv"] == "packed":
                return (part.reshape(shape) for part in self.qkv(x).chunk(3, -1))
            return (f(x).view(shape) for f in (self.q, self.k, self.v))

        def forward(self, x):
            x = self.norms[0](x + drop(drop(self.out(attend(*self.heads(x))))))
            return self.norms[1](x + drop(self.down(drop(functional.gelu(self.up(x))))))

    class PatchTST(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(PATCH, DIM)
            self.positions = nn.Parameter(torch.empty(PATCHES, DIM).uniform_(-0.02, 0.02))
            self.layers = nn.Sequential(*[Layer() for _ in range(DEPTH)])
            self.head = nn.Linear(PATCHES * DIM, HORIZON)
            begins = torch.arange(PATCHES).unsqueeze(1) * STRIDE
            self.register_buffer("places", begins + torch.arange(PATCH))

        def forward(self, series):
            mean = series.mean(1, keepdim=True)
            deviation = (series.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
            x = ((series - mean) / deviation).transpose(1, 2)
            x = torch.cat([x, x[..., -1:].expand(-1, -1, STRIDE)], -1)
            x = (x.unfold(-1, PATCH, STRIDE) if settings["patches"] == "unfold"
                 else x[..., self.places])
            x = self.layers(drop(self.embed(x).flatten(0, 1) + self.positions))
            x = self.head(x.reshape(series.size(0), CHANNELS, PATCHES * DIM))
            return x.transpose(1, 2) * deviation + mean

    return PatchTST()


def make_step(settings, threads):
    """Builds everything; returns a function that runs one step and returns its seconds."""
    import torch  # here, because the environment must be set before
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = make_model(torch, settings).train()
    series = torch.randn(WINDOWS, LOOKBACK, CHANNELS)
    future = torch.randn(WINDOWS, HORIZON, CHANNELS)
    how = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, **how[settings["optimiser"]])
    forward = torch.compile(model) if settings["compile"] else model

    def loss_of():
        return torch.nn.functional.mse_loss(forward(series), future)

    return vit_step.timed(torch, optimiser, settings["grads"] == "none", loss_of)


def main():
    vit_step.run(vit_step.parser_of(__doc__).parse_args(), [os.path.abspath(__file__)], BASE,
                 CANDIDATES, make_step)


if __name__ == "__main__":
    main()
