#!/usr/bin/env python3
"""The rival: training epochs of a set of JapaneseVowels' sizes in PyTorch, tuned for a CPU.

270 series of 29 time steps (padded) and 12 channels, 9 classes, 17 batches of 16 in a new order
each epoch, float32, cross-entropy, gradients clipped at 4, torch.optim.RAdam (lr 1e-3). The model
is that of the Time-Series-Library with QUEST's class token: circular convolution of three steps,
sinusoid, 3 post-norm layers, 128 channels, 8 heads, 256 hidden, GELU, dropout 0.1 everywhere,
attention included.
Series and labels lie in two tensors from which batches are taken by index: no DataLoader.

Serves a driver as vit_step.py does: "steps N" answers with N times in seconds, of an epoch each. It
is tuned in the same way. Settings:
  env        variables that only a new process can take: instruction set, malloc, huge pages
  qkv        packed (one product) or three (products of their own, as the library)
  attention  bmm (scale folded into the product), matmul, sdpa (fused, PyTorch 2.x)
  ffn        linear, or conv (convolutions of width 1, as the library)
  dropout    torch's own, rand (from uniform numbers) or bits (from 16 random bits an entry)
  optimiser  loop: torch.optim.RAdam. foreach: the same by operations on lists of tensors, see
             RAdam below. flat: by operations on one tensor that holds all parameters
  grads      none (freed between steps) or zero (kept, and added to; flat does always)
  compile    false, trace (torch.jit.trace) or true (torch.compile, PyTorch 2.x)
"""
import math
import os
import sys
import time

import vit_step

TRAIN, LENGTH, CHANNELS, CLASSES, BATCH = 270, 29, 12, 9, 16
DIM, DEPTH, HEADS, HIDDEN, DROP = 128, 3, 8, 256, 0.1

BASE = {"env": {}, "qkv": "packed", "attention": "bmm", "ffn": "linear", "dropout": "torch",
        "optimiser": "loop", "grads": "none", "compile": False}
CANDIDATES = [
    ("env", [vit_step.KEEP_HEAP]),
    ("env", [vit_step.HUGE_PAGES]),
    ("env", [{vit_step.ISA: "avx512"}, {vit_step.ISA: "avx2"}]),
    ("qkv", ["three"]),
    ("attention", ["matmul", "sdpa"]),
    ("ffn", ["conv"]),
    ("dropout", ["rand", "bits"]),
    ("optimiser", ["foreach", "flat"]),
    ("grads", ["zero"]),
    ("compile", ["trace", True]),
]


def make_dropout(torch, kind):
    """x to x with each number dropped with probability DROP."""
    def by_bits(x):
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-2**63, None)
        bits = words.view(torch.int16)[:x.numel()].view(x.shape)
        kept = bits.ge(round(DROP * 2**16) - 2**15)
        return x * kept.to(x.dtype).mul_(1 / (1 - DROP))

    if kind == "bits":
        return by_bits
    if kind == "rand":
        return lambda x: x * torch.empty_like(x).uniform_().ge_(DROP).mul_(1 / (1 - DROP))
    return lambda x: torch.nn.functional.dropout(x, DROP)


def make_model(torch, settings):
    """The model as an nn.Module: series [B, L, C] to logits [B, CLASSES]."""
    nn, functional = torch.nn, torch.nn.functional
    head_dim = DIM // HEADS
    scale = head_dim ** -0.5
    drop = make_dropout(torch, settings["dropout"])

    def attend_bmm(q, k, v):
        batch, _, tokens, _ = q.shape
        q, k, v = (x.reshape(batch * HEADS, tokens, head_dim) for x in (q, k, v))
        logits = torch.baddbmm(q.new_zeros(()), q, k.transpose(1, 2), beta=0, alpha=scale)
        y = torch.bmm(drop(logits.softmax(-1)), v)
        return y.view(batch, HEADS, tokens, head_dim)

    def attend_matmul(q, k, v):
        return drop(((q * scale) @ k.transpose(-2, -1)).softmax(-1)) @ v

    def attend_sdpa(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, dropout_p=DROP)

    attend = {"bmm": attend_bmm, "matmul": attend_matmul, "sdpa": attend_sdpa}[
        settings["attention"]]

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            if settings["qkv"] == "packed":
                self.qkv = nn.Linear(DIM, 3 * DIM)
            else:
                self.q, self.k, self.v = (nn.Linear(DIM, DIM) for _ in range(3))
            self.out = nn.Linear(DIM, DIM)
            if settings["ffn"] == "conv":
                self.up, self.down = nn.Conv1d(DIM, HIDDEN, 1), nn.Conv1d(HIDDEN, DIM, 1)
            else:
                self.up, self.down = nn.Linear(DIM, HIDDEN), nn.Linear(HIDDEN, DIM)
            self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)

        def heads(self, x):
            batch, tokens, _ = x.shape
            if settings["qkv"] == "packed":
                return self.qkv(x).view(batch, tokens, 3, HEADS, head_dim).permute(
                    2, 0, 3, 1, 4).unbind(0)
            return (f(x).view(batch, tokens, HEADS, head_dim).transpose(1, 2)
                    for f in (self.q, self.k, self.v))

        def forward(self, x):
            y = attend(*self.heads(x)).transpose(1, 2).reshape(x.shape)
            x = self.norm1(x + drop(self.out(y)))
            if settings["ffn"] == "conv":
                y = drop(functional.gelu(self.up(x.transpose(1, 2))))
                return self.norm2(x + drop(self.down(y).transpose(1, 2)))
            return self.norm2(x + drop(self.down(drop(functional.gelu(self.up(x))))))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(3 * CHANNELS, DIM, bias=False)
            self.token = nn.Parameter(torch.randn(1, 1, DIM) * 0.02)
            rate = torch.exp(torch.arange(0, DIM, 2) * (-math.log(10000.0) / DIM))
            angle = torch.arange(LENGTH).unsqueeze(1) * rate
            self.register_buffer("sinusoid", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))
            self.layers = nn.Sequential(*[Layer() for _ in range(DEPTH)])
            self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, CLASSES)

        def forward(self, series):
            taps = torch.cat([series.roll(1, 1), series, series.roll(-1, 1)], -1)
            x = drop(self.embed(taps) + self.sinusoid)
            x = torch.cat([self.token.expand(x.size(0), -1, -1), x], 1)
            return self.head(self.norm(self.layers(x)[:, 0]))

    return Transformer()


class RAdam:
    """torch.optim.RAdam without weight decay, by operations on lists of tensors, gradients clipped.

    What foreach=True does from PyTorch 2 on. That of 1.13 leaves eps out: it divides 0 by 0 where a
    gradient is exactly 0, as some of a key's bias are (a softmax does not see it), and ends in NaN.
    """
    RATE, BETA1, BETA2, EPS, CLIP = 1e-3, 0.9, 0.999, 1e-8, 4.0

    def __init__(self, torch, parameters):
        self.torch, self.parameters, self.steps = torch, [p.detach() for p in parameters], 0
        self.means, self.squares = ([torch.zeros_like(p) for p in parameters] for _ in range(2))

    def clip(self, grads):
        torch = self.torch
        norm = torch.stack(torch._foreach_norm(grads)).norm().item()
        if norm > self.CLIP:
            torch._foreach_mul_(grads, self.CLIP / (norm + 1e-6))

    def step(self, grads):
        torch, means, squares = self.torch, self.means, self.squares
        self.clip(grads)
        self.steps += 1
        torch._foreach_mul_(means, self.BETA1)
        torch._foreach_add_(means, grads, alpha=1 - self.BETA1)
        torch._foreach_mul_(squares, self.BETA2)
        torch._foreach_addcmul_(squares, grads, grads, 1 - self.BETA2)
        power = self.BETA2 ** self.steps
        rate = self.RATE / (1 - self.BETA1 ** self.steps)
        longest = 2 / (1 - self.BETA2) - 1
        length = longest - 2 * self.steps * power / (1 - power)  # of the moving average
        if length <= 5:
            torch._foreach_add_(self.parameters, means, alpha=-rate)
            return
        rate *= math.sqrt((length - 4) * (length - 2) * longest * (1 - power)
                          / ((longest - 4) * (longest - 2) * length))
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, self.EPS)
        torch._foreach_addcdiv_(self.parameters, means, roots, -rate)


def flattened(torch, parameters):
    """One tensor in which all parameters lie, with a gradient in which theirs lie."""
    flat = torch.cat([p.detach().flatten() for p in parameters])
    flat.grad = torch.zeros_like(flat)
    begin = 0
    for p in parameters:
        end = begin + p.numel()
        p.data, p.grad = flat[begin:end].view(p.shape), flat.grad[begin:end].view(p.shape)
        begin = end
    return flat


def make_update(torch, model, settings):
    """Returns two functions: one clears the gradients, one clips them and updates the model."""
    parameters = list(model.parameters())
    to_none = settings["grads"] == "none"
    if settings["optimiser"] == "flat":
        flat = flattened(torch, parameters)
        radam = RAdam(torch, [flat])
        return flat.grad.zero_, lambda: radam.step([flat.grad])
    if settings["optimiser"] == "foreach":
        radam = RAdam(torch, parameters)
        return (lambda: model.zero_grad(set_to_none=to_none),
                lambda: radam.step([p.grad for p in parameters]))
    optimiser = torch.optim.RAdam(parameters, lr=RAdam.RATE, foreach=False)

    def update():
        torch.nn.utils.clip_grad_norm_(parameters, RAdam.CLIP)
        optimiser.step()

    return lambda: optimiser.zero_grad(set_to_none=to_none), update


def compiled(torch, model, series, how):
    if how == "trace":
        return torch.jit.trace(model, series[:BATCH], check_trace=False)
    return torch.compile(model) if how else model


def make_epoch(settings, threads):
    """Builds everything; returns a function that trains one epoch and returns its seconds."""
    import torch  # here, because the environment must be set before
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = make_model(torch, settings).train()
    series, labels = torch.randn(TRAIN, LENGTH, CHANNELS), torch.arange(TRAIN) % CLASSES
    clear, update = make_update(torch, model, settings)
    forward = compiled(torch, model, series, settings["compile"])

    def step(chosen):
        clear()
        loss = torch.nn.functional.cross_entropy(forward(series[chosen]), labels[chosen])
        if not math.isfinite(loss.item()):
            raise RuntimeError("the loss is not finite: this times nothing")
        loss.backward()
        update()

    def epoch():
        start = time.perf_counter()
        for chosen in torch.randperm(TRAIN).split(BATCH):
            step(chosen)
        return time.perf_counter() - start

    return epoch


def main():
    arguments = vit_step.parser_of(__doc__).parse_args()
    vit_step.run(arguments, [os.path.abspath(__file__)], BASE, CANDIDATES, make_epoch)


if __name__ == "__main__":
    main()
