#!/usr/bin/env python3
"""The rival: one ViT-Ti/16 training step in PyTorch, tuned as well as it can be on a CPU.

Batch 16, 224 x 224 pixels, 1000 classes, float32 (or, with --precision bfloat16, products of that by
autocast), cross-entropy, AdamW (lr 1e-3, weight decay 0.05
on matrices), no clipping, no drop-path, no data loading (one fixed random batch). A step is
zero_grad, forward, loss, backward, optimiser. The model is DeiT's: class token, learned positions,
pre-norm blocks (eps 1e-6), packed biased qkv, exact GELU, head on the class token.

Serves a driver on standard input: "steps N" runs N steps and answers with a JSON list of N times
in seconds, on one line; "quit" (or the end of input) ends. vit_step.cpp speaks the same protocol.

Before it serves, it tries the settings that may matter on this machine with this PyTorch, one after
the other, and keeps what is faster; --settings JSON skips that (the tuner prints its choice on
standard error in that form). Settings:
  env        variables that only a new process can take: instruction set, malloc, huge pages
  attention  bmm (scale folded into the product), matmul, sdpa (fused, PyTorch 2.x)
  embed      patches by conv, conv_last (channels-last), or linear (unfold once, then a product)
  optimiser  loop, foreach, or fused (PyTorch 2.4 and later)
  grads      none (freed between steps) or zero (kept, and added to)
  compile    torch.compile (PyTorch 2.x)
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

BATCH, PIXELS, PATCH, CLASSES = 16, 224, 16, 1000
DIM, DEPTH, HEADS = 192, 12, 3

# Freed memory stays in the process: otherwise every step asks the kernel for cleared pages again.
KEEP_HEAP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "17179869184",
             "MALLOC_TOP_PAD_": "67108864"}
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "THP_MEM_ALLOC_ENABLE": "1"}
ISA = "ATEN_CPU_CAPABILITY"
BASE = {"env": {}, "attention": "bmm", "embed": "conv", "optimiser": "foreach", "grads": "none",
        "compile": False}
CANDIDATES = [
    ("env", [KEEP_HEAP]),
    ("env", [HUGE_PAGES]),  # each joined with the winner of the line above
    ("env", [{ISA: "avx512"}, {ISA: "avx2"}]),
    ("attention", ["matmul", "sdpa"]),
    ("embed", ["conv_last", "linear"]),
    ("optimiser", ["loop", "fused"]),
    ("grads", ["zero"]),
    ("compile", [True]),
]


def make_block(torch, attention):
    """The class of a layer of DIM channels. attention: bmm, matmul or sdpa."""
    nn, functional = torch.nn, torch.nn.functional
    head_dim = DIM // HEADS
    scale = head_dim ** -0.5

    def attend_bmm(qkv, batch, tokens):
        q, k, v = (qkv.view(batch, tokens, 3, HEADS, head_dim).permute(2, 0, 3, 1, 4)
                   .reshape(3, batch * HEADS, tokens, head_dim).unbind(0))
        logits = torch.baddbmm(q.new_empty(()), q, k.transpose(1, 2), beta=0, alpha=scale)
        y = torch.bmm(logits.softmax(-1), v)
        return y.view(batch, HEADS, tokens, head_dim).transpose(1, 2).reshape(batch, tokens, DIM)

    def attend_matmul(qkv, batch, tokens):
        q, k, v = (qkv.view(batch, tokens, 3, HEADS, head_dim).permute(2, 0, 3, 1, 4).unbind(0))
        y = ((q * scale) @ k.transpose(-2, -1)).softmax(-1) @ v
        return y.transpose(1, 2).reshape(batch, tokens, DIM)

    def attend_sdpa(qkv, batch, tokens):
        q, k, v = (qkv.view(batch, tokens, 3, HEADS, head_dim).permute(2, 0, 3, 1, 4).unbind(0))
        y = functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).reshape(batch, tokens, DIM)

    attend = {"bmm": attend_bmm, "matmul": attend_matmul, "sdpa": attend_sdpa}[attention]

    class Block(nn.Module):
        def __init__(self, eps=1e-6):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(DIM, eps=eps), nn.LayerNorm(DIM, eps=eps)
            self.qkv, self.project = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
            self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

        def forward(self, x):
            x = x + self.project(attend(self.qkv(self.norm1(x)), x.size(0), x.size(1)))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    return Block


def initialise(torch, module):
    """As DeiT: matrices truncated normal, biases 0."""
    for part in module.modules():
        if isinstance(part, torch.nn.Linear):
            torch.nn.init.trunc_normal_(part.weight, std=0.02)
            if part.bias is not None:
                torch.nn.init.zeros_(part.bias)


def make_patches(torch, embed):
    """The class of a map from images to patches. embed: conv, conv_last or linear."""
    nn = torch.nn

    class Patches(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = (nn.Linear(3 * PATCH * PATCH, DIM) if embed == "linear"
                        else nn.Conv2d(3, DIM, PATCH, PATCH))

        def forward(self, images):
            if embed != "linear":
                return self.map(images).flatten(2).transpose(1, 2)
            high, wide = images.shape[2] // PATCH, images.shape[3] // PATCH
            blocks = images.view(-1, 3, high, PATCH, wide, PATCH).permute(0, 2, 4, 1, 3, 5)
            return self.map(blocks.reshape(-1, high * wide, 3 * PATCH * PATCH))

    return Patches


def make_model(torch, settings):
    """The model as an nn.Module: images [B, 3, 224, 224] to logits [B, 1000]."""
    nn = torch.nn
    block, patches = make_block(torch, settings["attention"]), make_patches(torch, settings["embed"])

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = patches()
            tokens = (PIXELS // PATCH) ** 2 + 1
            self.token = nn.Parameter(torch.empty(1, 1, DIM))
            self.positions = nn.Parameter(torch.empty(1, tokens, DIM))
            self.blocks = nn.Sequential(*[block() for _ in range(DEPTH)])
            self.norm, self.head = nn.LayerNorm(DIM, eps=1e-6), nn.Linear(DIM, CLASSES)
            initialise(torch, self)
            nn.init.trunc_normal_(self.token, std=0.02)
            nn.init.trunc_normal_(self.positions, std=0.02)

        def forward(self, images):
            x = self.embed(images)
            x = torch.cat([self.token.expand(x.size(0), -1, -1), x], 1) + self.positions
            return self.head(self.norm(self.blocks(x)[:, 0]))

    return ViT()


def make_optimiser(torch, model, settings):
    """AdamW; weight decay on matrices only, as DeiT does."""
    decayed, exempt = [], []
    for name, parameter in model.named_parameters():
        plain = parameter.dim() == 1 or name in ("token", "positions")
        (exempt if plain else decayed).append(parameter)
    how = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.05},
                              {"params": exempt, "weight_decay": 0.0}],
                             lr=1e-3, **how[settings["optimiser"]])


def make_step(settings, threads, precision="float32", wrap=lambda model: model):
    """Builds everything; returns a function that runs one step and returns its seconds.

    @param wrap  makes of the model what is called in its place
    """
    import torch  # here, because the environment must be set before
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = make_model(torch, settings).train()
    images = torch.randn(BATCH, 3, PIXELS, PIXELS)
    labels = torch.randint(CLASSES, (BATCH,))
    if settings["embed"] == "conv_last":
        model, images = (x.to(memory_format=torch.channels_last) for x in (model, images))
    optimiser = make_optimiser(torch, model, settings)
    forward = wrap(model)
    if settings["compile"]:
        forward = torch.compile(forward)

    def loss_of():
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            logits = forward(images)
        return torch.nn.functional.cross_entropy(logits.float(), labels)

    return timed(torch, optimiser, settings["grads"] == "none", loss_of)


def timed(torch, optimiser, to_none, loss_of, clip=lambda: None):
    """A training step that gives its seconds. loss_of() runs the model; clip() clips gradients."""
    def step():
        start = time.perf_counter()
        optimiser.zero_grad(set_to_none=to_none)
        loss = loss_of()
        loss.backward()
        clip()
        optimiser.step()
        seconds = time.perf_counter() - start
        if not bool(torch.isfinite(loss)):
            raise RuntimeError("the loss is not finite: this times nothing")
        return seconds

    return step


def serve(step):
    """@param step  one step, as make_step gives it; or step.steps(N) does N and gives a list."""
    steps = getattr(step, "steps", lambda count: [step() for _ in range(count)])
    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            return
        if len(words) != 2 or words[0] != "steps" or not words[1].isdigit():
            sys.exit(f"expected 'steps N' or 'quit', not {line!r}")
        print(json.dumps(steps(int(words[1]))), flush=True)


class Worker:
    """A process of this script with given settings, warmed up; None stands for one that failed."""

    def __init__(self, script, settings, threads):
        command = [sys.executable, *script, "--threads", str(threads),
                   "--settings", json.dumps(settings)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)

    def steps(self, count):
        """Seconds of each step, or None where these settings do not work here."""
        try:
            self.process.stdin.write(f"steps {count}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def close(self):
        try:
            self.process.stdin.close()  # ends it
        except BrokenPipeError:
            pass
        self.process.wait()
        self.process.stdout.close()


def compare(best, challenger, count):
    """Ratios challenger to best, one a round, timed in turn; none where it does not work here.

    Ends early where two rounds say that it is not faster: it would not be kept.
    """
    if challenger.steps(count) is None:
        return []
    ratios = []
    while len(ratios) < 5 and sum(ratio >= 1 for ratio in ratios) < 2:
        old, new = (min(worker.steps(count)) for worker in (best, challenger))
        ratios.append(new / old)
    return ratios


def is_better(ratios):
    """Whether it is faster by 1 %, and in all rounds but one at most."""
    return bool(ratios) and statistics.median(ratios) < 0.99 and sorted(ratios)[-2] < 1


def tune(script, base, candidates, threads, count):
    """Tries one change after the other against the best so far, whose process stays."""
    best, name = dict(base), os.path.splitext(os.path.basename(script[0]))[0]
    worker = Worker(script, best, threads)
    if worker.steps(count) is None:
        sys.exit(f"{name}: PyTorch fails with the settings it begins with; to see why: "
                 f"echo steps 1 | {sys.executable} {' '.join(script)} "
                 f"--settings '{json.dumps(best)}'")
    for key, values in candidates:
        start = best
        for value in values:
            new = {**start[key], **value} if key == "env" else value
            settings = {**start, key: new}
            challenger = Worker(script, settings, threads)
            ratios = compare(worker, challenger, count)
            better = is_better(ratios)
            text = f"{statistics.median(ratios):.3f} of the best so far" if ratios else "not here"
            print(f"{name}: {key}={json.dumps(value)}: {text}{', kept' if better else ''}",
                  file=sys.stderr, flush=True)
            if better:
                best, worker, challenger = settings, challenger, worker
            challenger.close()
    worker.close()
    print(f"{name}: --settings '{json.dumps(best)}'", file=sys.stderr, flush=True)
    return best


def run(arguments, script, base, candidates, make, count=2):
    """Tunes where no settings are given, and serves in a process with their environment.

    @param script  its file, and words of its own
    @param count   steps of which the tuner takes the shortest
    """
    settings = ({**base, **json.loads(arguments.settings)} if arguments.settings
                else tune(script, base, candidates, arguments.threads, count))
    if arguments.tune_only:
        print(json.dumps(settings))
        return
    wanted = {**settings["env"], "OMP_NUM_THREADS": str(arguments.threads)}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        command = [sys.executable, *script, "--threads", str(arguments.threads),
                   "--settings", json.dumps(settings)]
        os.execve(sys.executable, command, {**os.environ, **wanted})
    serve(make(settings, arguments.threads))


def parser_of(about):
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--settings", help="JSON; skips tuning")
    parser.add_argument("--tune-only", action="store_true",
                        help="print the best settings as JSON and end")
    return parser


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    arguments = parser.parse_args()
    run(arguments, [os.path.abspath(__file__), "--precision", arguments.precision], BASE, CANDIDATES,
        lambda settings, threads: make_step(settings, threads, arguments.precision))


if __name__ == "__main__":
    main()
