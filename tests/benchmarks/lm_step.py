#!/usr/bin/env python3
"""The rival: one training step of a language model in PyTorch, tuned as well as it can be on a CPU.

    nano_gpt         nanoGPT's setting for a CPU: pre-norm, GELU, learned positions, no biases
    transformer_xl   Transformer-XL: post-norm, ReLU, relative positions, a memory of 64 tokens

Both have 4 layers, 4 heads, width 128, hidden 512, 65 tokens of vocabulary with a tied table, batches
of 12 lines of 64 tokens, float32, no dropout. A step is zero_grad, forward, loss, backward, gradients
clipped at 1 (0.25 in transformer_xl), AdamW (lr 1e-3, beta2 0.99, decay 0.1 on matrices), on one
fixed random batch; the memory is that of the step before.

Serves a driver as vit_step.py does, and is tuned in the same way. Settings:
  env        variables that only a new process can take: instruction set, malloc, huge pages
  attention  masked (bmm, then the hidden pairs filled), biased (the mask of -inf added by the product
             itself, baddbmm), sdpa (fused, PyTorch 2.x; nano_gpt alone)
  positions  einsum, or folded: one product for a head's queries of all lines (transformer_xl)
  shift      pad: Transformer-XL's own; strided: a view of overlapping rows (transformer_xl)
  sources    both: memory and segment as one; apart: queries of the segment alone (transformer_xl)
  clip       torch.nn.utils.clip_grad_norm_, or foreach: by operations on lists
  optimiser  loop, foreach, or fused (PyTorch 2.4 and later)
  grads      none (freed between steps) or zero (kept, and added to)
  compile    torch.compile (PyTorch 2.x)
"""
import math
import os

import vit_step

LINES, LENGTH, MEMORY, WORDS = 12, 64, 64, 65
DIM, DEPTH, HEADS, HIDDEN = 128, 4, 4, 512
WIDTH = DIM // HEADS
SCALE = WIDTH ** -0.5

BASE = {"env": {}, "attention": "masked", "positions": "einsum", "shift": "pad",
        "sources": "apart", "clip": "torch", "optimiser": "foreach", "grads": "none",
        "compile": False}
CANDIDATES = [
    ("env", [vit_step.KEEP_HEAP]),
    ("env", [vit_step.HUGE_PAGES]),
    ("env", [{vit_step.ISA: "avx512"}, {vit_step.ISA: "avx2"}]),
    ("attention", ["biased", "sdpa"]),
    ("clip", ["foreach"]),
    ("optimiser", ["loop", "fused"]),
    ("grads", ["zero"]),
    ("compile", [True]),
]
XL_CANDIDATES = [
    ("positions", ["folded"]),
    ("shift", ["strided"]),
    ("sources", ["both"]),
]


def split(x):
    """[B, L, DIM] to [B * HEADS, L, WIDTH]."""
    return x.view(LINES, -1, HEADS, WIDTH).transpose(1, 2).reshape(LINES * HEADS, -1, WIDTH)


def merged(y):
    return y.view(LINES, HEADS, LENGTH, WIDTH).transpose(1, 2).reshape(LINES, LENGTH, DIM)


def make_nano_gpt(torch, settings):
    """Tokens [B, L] to the mean loss."""
    nn, functional = torch.nn, torch.nn.functional
    hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    mask = torch.zeros(LENGTH, LENGTH).masked_fill(hidden, -math.inf)

    def attend(qkv):
        q, k, v = (split(x) for x in qkv.split(DIM, 2))
        if settings["attention"] == "sdpa":
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        if settings["attention"] == "biased":
            logits = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=SCALE)
        else:
            logits = torch.baddbmm(q.new_empty(()), q, k.transpose(1, 2), beta=0, alpha=SCALE)
            logits = logits.masked_fill(hidden, -math.inf)
        return torch.bmm(logits.softmax(-1), v)

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(DIM))

        def forward(self, x):
            return functional.layer_norm(x, (DIM,), self.weight, None, 1e-5)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = Norm(), Norm()
            self.qkv, self.out = (nn.Linear(DIM, n * DIM, bias=False) for n in (3, 1))
            self.up = nn.Linear(DIM, HIDDEN, bias=False)
            self.down = nn.Linear(HIDDEN, DIM, bias=False)

        def forward(self, x):
            x = x + self.out(merged(attend(self.qkv(self.norm1(x)))))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.randn(WORDS, DIM) * 0.02)
            self.positions = nn.Parameter(torch.randn(LENGTH, DIM) * 0.02)
            self.blocks = nn.Sequential(*[Block() for _ in range(DEPTH)])
            self.norm = Norm()
            for module in self.modules():
                if isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, 0, 0.02)

        def forward(self, tokens, targets):
            x = functional.embedding(tokens, self.table) + self.positions
            logits = functional.linear(self.norm(self.blocks(x)), self.table)
            return functional.cross_entropy(logits.view(-1, WORDS), targets.view(-1))

    return Gpt()


def make_transformer_xl(torch, settings):
    """Tokens [B, L] to the mean loss; keeps the memory of the step before."""
    nn, functional = torch.nn, torch.nn.functional
    keys = MEMORY + LENGTH
    hidden = torch.ones(LENGTH, keys, dtype=torch.bool).triu(1 + MEMORY)
    mask = torch.zeros(LENGTH, keys).masked_fill(hidden, -math.inf)

    def by_distance(q, r):
        """q [B * HEADS, L, WIDTH] and r [HEADS, keys, WIDTH] to [B, HEADS, L, keys]."""
        q = q.view(LINES, HEADS, LENGTH, WIDTH)
        if settings["positions"] == "einsum":
            return torch.einsum("bhid,hjd->bhij", q, r)
        q = q.transpose(0, 1).reshape(HEADS, LINES * LENGTH, WIDTH)
        y = torch.bmm(q, r.transpose(1, 2)).view(HEADS, LINES, LENGTH, keys)
        return y.transpose(0, 1)

    def shifted(y):
        """By distance to by key; hidden pairs get numbers of others."""
        if settings["shift"] == "strided":
            y = functional.pad(y, (0, 1)).contiguous()
            step = keys + 1
            return y.as_strided((LINES, HEADS, LENGTH, keys),
                                (HEADS * LENGTH * step, LENGTH * step, keys, 1),
                                y.storage_offset() + LENGTH - 1)
        y = functional.pad(y, (1, 0)).view(LINES, HEADS, keys + 1, LENGTH)
        return y[:, :, 1:].view(LINES, HEADS, LENGTH, keys)

    def attend(q, k, v, r, u, w):
        positions = shifted(by_distance(q + w, r)).reshape(LINES * HEADS, LENGTH, keys)
        if settings["attention"] == "biased":
            positions = positions + mask / SCALE
        logits = torch.baddbmm(positions, q + u, k.transpose(1, 2), beta=SCALE, alpha=SCALE)
        if settings["attention"] != "biased":
            logits = logits.masked_fill(hidden, -math.inf)
        return torch.bmm(logits.softmax(-1), v)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
            self.out, self.places = (nn.Linear(DIM, DIM, bias=False) for _ in range(2))
            self.up, self.down = nn.Linear(DIM, HIDDEN), nn.Linear(HIDDEN, DIM)
            self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)

        def projected(self, x, memory):
            sources = torch.cat([memory, x], 1)
            if settings["sources"] == "both":
                q, k, v = self.qkv(sources).split(DIM, 2)
                return q[:, MEMORY:], k, v
            q = functional.linear(x, self.qkv.weight[:DIM])
            return (q, *functional.linear(sources, self.qkv.weight[DIM:]).split(DIM, 2))

        def forward(self, x, memory, sines, u, w):
            q, k, v = (split(y.contiguous()) for y in self.projected(x, memory))
            r = self.places(sines).view(keys, HEADS, WIDTH).transpose(0, 1)
            u, w = (b.repeat(LINES, 1).unsqueeze(1) for b in (u, w))
            x = self.norm1(x + self.out(merged(attend(q, k, v, r, u, w))))
            return self.norm2(x + self.down(functional.relu(self.up(x))))

    class Xl(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.randn(WORDS, DIM) * 0.02)
            self.bias = nn.Parameter(torch.zeros(WORDS))
            self.u, self.w = (nn.Parameter(torch.randn(HEADS, WIDTH) * 0.02) for _ in range(2))
            self.blocks = nn.ModuleList([Block() for _ in range(DEPTH)])
            rate = 10000 ** (-torch.arange(0, DIM, 2) / DIM)
            angle = torch.arange(keys - 1, -1, -1).unsqueeze(1) * rate
            self.register_buffer("sines", torch.cat([angle.sin(), angle.cos()], 1))
            for module in self.modules():
                if isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, 0, 0.02)
            self.memory = [torch.zeros(LINES, MEMORY, DIM) for _ in range(DEPTH)]

        def forward(self, tokens, targets):
            x = functional.embedding(tokens, self.table) * math.sqrt(DIM)
            memory, self.memory = self.memory, []
            for block, kept in zip(self.blocks, memory):
                self.memory.append(x.detach()[:, -MEMORY:])
                x = block(x, kept, self.sines, self.u, self.w)
            logits = functional.linear(x, self.table, self.bias)
            return functional.cross_entropy(logits.view(-1, WORDS), targets.view(-1))

    return Xl()


def make_optimiser(torch, model, settings):
    """AdamW; weight decay on matrices only."""
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    how = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), **how[settings["optimiser"]])


def clip(torch, parameters, largest, how):
    if how == "torch":
        torch.nn.utils.clip_grad_norm_(parameters, largest)
        return
    grads = [p.grad for p in parameters]
    norm = torch.stack(torch._foreach_norm(grads)).norm().item()
    if norm > largest:
        torch._foreach_mul_(grads, largest / (norm + 1e-6))


def make_step(settings, threads, name, wrap=lambda model: model):
    """As vit_step.make_step."""
    import torch  # here, because the environment must be set before
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    makers = {"nano_gpt": make_nano_gpt, "transformer_xl": make_transformer_xl}
    model = makers[name](torch, settings).train()
    largest = 1.0 if name == "nano_gpt" else 0.25
    tokens, targets = (torch.randint(WORDS, (LINES, LENGTH)) for _ in range(2))
    optimiser = make_optimiser(torch, model, settings)
    parameters = list(model.parameters())
    forward = wrap(model)
    if settings["compile"]:
        forward = torch.compile(forward)
    return vit_step.timed(torch, optimiser, settings["grads"] == "none",
                          lambda: forward(tokens, targets),
                          lambda: clip(torch, parameters, largest, settings["clip"]))


def main():
    parser = vit_step.parser_of(__doc__)
    parser.add_argument("--model", choices=["nano_gpt", "transformer_xl"], default="nano_gpt")
    arguments = parser.parse_args()
    candidates = CANDIDATES + (XL_CANDIDATES if arguments.model == "transformer_xl" else [])
    vit_step.run(arguments, [os.path.abspath(__file__), "--model", arguments.model], BASE, candidates,
                 lambda settings, threads: make_step(settings, threads, arguments.model), count=10)


if __name__ == "__main__":
    main()
