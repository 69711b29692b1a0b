#!/usr/bin/env python3
"""The rival: attention alone in PyTorch, forward and backward, tuned as well as it can be on a CPU.

MODEL is a length, 64 to 16384, with _causal behind it where queries see no later keys, and then, at 1024 and
4096, _sink, _soft_cap, _alibi, _sigmoid, _cog or (causal) _forgetting; softmax attention without. Four heads of
64 channels in float32, batches of about 4096 tokens (one line of 16384). Queries, keys and values lie
as PyTorch likes them best, [batch * heads, length, channels]; all three take gradients. No dropout.

Serves a driver as vit_step.py does, and is tuned in the same way. Settings:
  env        variables that only a new process can take: instruction set, malloc, huge pages
  form       sdpa (fused, PyTorch 2.x), bmm (scale folded into the product; hidden pairs filled),
             biased (the mask of -inf added by the product itself), matmul; of a mechanism: plain (products
             and operations on all pairs), or sdpa where the mechanism can be said to it: ALiBi as a fixed
             mask; a sink and forgetting as channels beside the 64, so that their gradients are there, too
  compile    torch.compile (PyTorch 2.x)
"""
import math
import os
import time

import vit_step

HEADS, WIDTH = 4, 64
SCALE = WIDTH ** -0.5
LENGTHS = {64: 64, 197: 20, 1024: 4, 4096: 1, 16384: 1}
MECHANISMS = ("sink", "soft_cap", "alibi", "sigmoid", "cog")
MODELS = [f"{length}{rule}" for length in LENGTHS for rule in ("", "_causal")]
MODELS += [f"{length}_{name}" for length in (1024, 4096) for name in (*MECHANISMS, "causal_forgetting")]

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
OTHERS_BASE = {**BASE, "form": "plain"}
OTHERS_CANDIDATES = [("form", ["sdpa"]) if row[0] == "form" else row for row in CANDIDATES]
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


def make_mechanism(torch, settings, length, name):
    """q, k, v [batch * heads, length, WIDTH] to the same shape; also its parameters."""
    functional = torch.nn.functional
    fused = settings["form"] == "sdpa"
    batch = LENGTHS[length]
    slopes = torch.tensor([2.0 ** (-8 * (head + 1) / HEADS) for head in range(HEADS)])
    places = torch.arange(length)
    bias = -slopes.view(-1, 1, 1) * (places.view(-1, 1) - places).abs()
    biases = bias.repeat(batch, 1, 1)
    sink = torch.zeros(HEADS, requires_grad=True)
    gate = torch.nn.Linear(HEADS * WIDTH, HEADS)
    tokens = torch.randn(batch, length, HEADS * WIDTH)
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)

    def logits_of(q, k):
        return torch.baddbmm(q.new_empty(()), q, k.transpose(1, 2), beta=0, alpha=SCALE)

    def kept():
        """Sums of log f up to each token, [batch * heads, length, 1]."""
        logs = functional.logsigmoid(gate(tokens)).transpose(1, 2)
        return logs.cumsum(-1).reshape(-1, length, 1)

    def alibi(q, k, v):
        if not fused:
            return torch.bmm(torch.baddbmm(biases, q, k.transpose(1, 2), alpha=SCALE).softmax(-1), v)
        return functional.scaled_dot_product_attention(
            *(x.unflatten(0, (-1, HEADS)) for x in (q, k, v)), attn_mask=bias).flatten(0, 1)

    def with_channels(q, k, v, causal):
        v = functional.pad(v, (0, q.size(-1) - WIDTH))  # the fused kernel wants equal widths
        return functional.scaled_dot_product_attention(
            *(x.unflatten(0, (-1, HEADS)) for x in (q, k, v)), is_causal=causal,
            scale=SCALE).flatten(0, 1)[..., :WIDTH]

    def sinking(q, k, v):
        column = sink.repeat(batch).view(-1, 1, 1)
        if not fused:
            logits = torch.cat([logits_of(q, k), column.expand(-1, length, 1)], -1)
            return torch.bmm(logits.softmax(-1)[..., :-1], v)
        one = torch.ones(())
        key = functional.pad(column / SCALE, (WIDTH, 0))
        return with_channels(torch.cat([q, one.expand(*q.shape[:2], 1)], -1),
                             torch.cat([functional.pad(k, (0, 1)), key], 1),
                             functional.pad(v, (0, 0, 0, 1)), False)

    def forgetting(q, k, v):
        sums = kept()
        if not fused:
            logits = logits_of(q, k) + (sums - sums.transpose(1, 2))
            return torch.bmm(logits.masked_fill(hidden, -math.inf).softmax(-1), v)
        ones = torch.ones_like(sums)
        return with_channels(torch.cat([q, sums / SCALE, ones], -1),
                             torch.cat([k, ones, -sums / SCALE], -1), v, True)

    def soft_cap(q, k, v):
        return torch.bmm((30 * torch.tanh(logits_of(q, k) / 30)).softmax(-1), v)

    def sigmoid(q, k, v):
        return torch.bmm(torch.sigmoid(logits_of(q, k) - math.log(length)), v)

    def cog(q, k, v):
        logits = logits_of(q, k)
        return torch.bmm(logits.abs().softmax(-1) * logits.sign(), v)

    if fused and name not in ("alibi", "sink", "forgetting"):
        raise ValueError("not what scaled_dot_product_attention can be told")
    attend = {"alibi": alibi, "sink": sinking, "forgetting": forgetting, "soft_cap": soft_cap,
              "sigmoid": sigmoid, "cog": cog}[name]
    return attend, {"sink": [sink], "forgetting": list(gate.parameters())}.get(name, [])


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
    mechanism = rule.removeprefix("causal_")
    parameters = []
    if mechanism in ("", "causal"):
        attend = make_attend(torch, settings, length, rule == "causal")
    else:
        attend, parameters = make_mechanism(torch, settings, length, mechanism)
    if settings["compile"]:
        attend = torch.compile(attend)

    def step():
        start = time.perf_counter()
        attend(q, k, v).backward(grad)
        seconds = time.perf_counter() - start
        if not bool(torch.isfinite(q.grad).all()):
            raise RuntimeError("a gradient is not finite: this times nothing")
        for one in (q, k, v, *parameters):
            one.grad = None
        return seconds

    return step


def main():
    parser = vit_step.parser_of(__doc__)
    parser.add_argument("--model", choices=MODELS, required=True)
    arguments = parser.parse_args()
    base, candidates = BASE, CANDIDATES
    if arguments.model.startswith(LONGEST):
        base, candidates = LONGEST_BASE, LONGEST_CANDIDATES
    elif arguments.model.endswith((*MECHANISMS, "forgetting")):
        base, candidates = OTHERS_BASE, OTHERS_CANDIDATES
    vit_step.run(arguments, [os.path.abspath(__file__), "--model", arguments.model], base, candidates,
                 lambda settings, threads: make_step(settings, threads, arguments.model))


if __name__ == "__main__":
    main()
