#!/usr/bin/env python3
"""The rival: softmax attention alone in PyTorch, forward and backward, tuned as well as it can be on a CPU.

MODEL is a length, 64 to 16384, with _causal behind it where queries see no later keys. Four heads of
64 channels in float32, batches of about 4096 tokens (one line of 16384). Queries, keys and values lie
as PyTorch likes them best, [batch * heads, length, channels]; all three take gradients. No dropout.

Serves a driver as vit_step.py does, and is tuned in the same way. Settings:
  env        variables that only a new process can take: instruction set, malloc, huge pages
  form       sdpa (fused, PyTorch 2.x), bmm (scale folded into the product; hidden pairs filled),
             biased (the mask of -inf added by the product itself), matmul
  compile    torch.compile (PyTorch 2.x)
"""
import math
import os
import time

import vit_step

HEADS, WIDTH = 4, 64
SCALE = WIDTH ** -0.5
LENGTHS = {64: 64, 197: 20, 1024: 4, 4096: 1, 16384: 1}
MODELS = [f"{length}{rule}" for length in LENGTHS for rule in ("", "_causal")]

BASE = {"env": {}, "form": "bmm", "compile": False}
CANDIDATES = [
    ("env", [vit_step.KEEP_HEAP]),
    ("env", [vit_step.HUGE_PAGES]),
    ("env", [{vit_step.ISA: "avx512"}, {vit_step.ISA: "avx2"}]),
    ("form", ["sdpa", "biased", "matmul"]),
    ("compile", [True]),
]
# All weights of 16,384 tokens, their gradient and the logits would be 13 GB, twice while tuning: there
# PyTorch 2.x's own kernel alone is tried.
LONGEST = "16384"
LONGEST_BASE = {**BASE, "form": "sdpa"}
LONGEST_CANDIDATES = [row for row in CANDIDATES if row[0] == "env"]


def make_attend(torch, settings, length, causal):
    """q, k, v [batch * heads, length, WIDTH] to the same shape."""
    functional = torch.nn.functional
    if settings["form"] == "sdpa":
        return lambda q, k, v: functional.scaled_dot_product_attention(
            *(x.unflatten(0, (-1, HEADS)) for x in (q, k, v)), is_causal=causal).flatten(0, 1)
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1) if causal else None
    mask = torch.zeros(length, length).masked_fill(hidden, -math.inf) if causal else None

    def attend(q, k, v):
        if settings["form"] == "matmul":
            logits = (q * SCALE) @ k.transpose(1, 2)
        elif causal and settings["form"] == "biased":
            return torch.baddbmm(mask, q, k.transpose(1, 2), alpha=SCALE).softmax(-1) @ v
        else:
            logits = torch.baddbmm(q.new_empty(()), q, k.transpose(1, 2), beta=0, alpha=SCALE)
        if causal:
            logits = logits.masked_fill(hidden, -math.inf)
        return torch.bmm(logits.softmax(-1), v)

    return attend


def make_step(settings, threads, name):
    """Builds everything; returns a function that runs one step and returns its seconds."""
    import torch  # here, because the environment must be set before
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    length, _, rule = name.partition("_")
    length = int(length)
    shape = (LENGTHS[length] * HEADS, length, WIDTH)
    q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
    grad = torch.randn(shape)
    attend = make_attend(torch, settings, length, rule == "causal")
    if settings["compile"]:
        attend = torch.compile(attend)

    def step():
        start = time.perf_counter()
        attend(q, k, v).backward(grad)
        seconds = time.perf_counter() - start
        if not bool(torch.isfinite(q.grad).all()):
            raise RuntimeError("a gradient is not finite: this times nothing")
        q.grad = k.grad = v.grad = None
        return seconds

    return step


def main():
    parser = vit_step.parser_of(__doc__)
    parser.add_argument("--model", choices=MODELS, required=True)
    arguments = parser.parse_args()
    longest = arguments.model.startswith(LONGEST)
    vit_step.run(arguments, [os.path.abspath(__file__), "--model", arguments.model],
                 LONGEST_BASE if longest else BASE, LONGEST_CANDIDATES if longest else CANDIDATES,
                 lambda settings, threads: make_step(settings, threads, arguments.model))


if __name__ == "__main__":
    main()
