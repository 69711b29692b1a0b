#!/usr/bin/env python3
"""attnlab.Attention("standard") in PyTorch, forward and backward, in turn with PyTorch's fused attention.

    197, 1024     tokens, in batches of about 4096 tokens, 4 heads of 64 channels, float32

Ours runs in the Python that attnlab was built for (--own), on tensors that lie by token, as layers make
them; the rival, scaled_dot_product_attention, in another process with the newest torch at hand (--python),
on tensors as it likes them best. Same threads, same variables for malloc. Prints the processor's name and
the ratio; the aim is 0.85. paired.py says how they are timed. Needs: make build.
Exit status: as paired.py.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import attention_step
import paired
import vit_step

LIMIT = 0.85
ROOT = os.path.dirname(os.path.dirname(paired.HERE))
HAS_FUSED = ("import torch; torch.nn.functional.scaled_dot_product_attention; "
             "print(torch.__version__)")


def make_step(settings, threads, length):
    """A function that runs one step of ours and returns its seconds."""
    import torch  # here, because the environment must be set before
    import attnlab
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    attention = attnlab.Attention("standard", attention_step.HEADS, attention_step.WIDTH)
    shape = (attention_step.LENGTHS[length], length, attention_step.HEADS, attention_step.WIDTH)
    q, k, v, grad = (torch.randn(shape).transpose(1, 2) for _ in range(4))
    for tensor in (q, k, v):
        tensor.requires_grad_()

    def step():
        start = time.perf_counter()
        attention(q, k, v).backward(grad)
        seconds = time.perf_counter() - start
        if not bool(torch.isfinite(q.grad).all()):
            raise RuntimeError("a gradient is not finite: this times nothing")
        q.grad = k.grad = v.grad = None
        return seconds

    return step


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=["197", "1024"])
    parser.add_argument("--serve", action="store_true", help="be our side of it")
    parser.add_argument("--settings", help="JSON: env for both; form for the rival")
    parser.add_argument("--build", default="build/release", help="build folder of attnlab")
    parser.add_argument("--own", default="/usr/bin/python3", help="the Python attnlab was built for")
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python with PyTorch 2")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5, help="steps a round")
    parser.add_argument("--warmup", type=int, default=5, help="steps before the first round")
    parser.add_argument("--check", action="store_true", help=f"fail above {LIMIT}")
    arguments = parser.parse_args()
    arguments.tune_only = False
    if arguments.rounds < 2 or arguments.steps < 1 or arguments.warmup < 1:
        parser.error("needs at least 2 rounds, 1 step and 1 step of warm-up")
    return arguments


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def newest(python):
    """The version of a Python's torch; ends the program where it has no fused attention."""
    found = subprocess.run([python, "-c", HAS_FUSED], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        paired.fail(f"{python} has no PyTorch with scaled_dot_product_attention (2.0 or newer): "
                    "--python $(tests/compat/newest_python.sh)")
    return found.stdout.strip()


def main():
    arguments = read_arguments()
    settings = {"env": vit_step.KEEP_HEAP, "form": "sdpa", **json.loads(arguments.settings or "{}")}
    if arguments.serve:
        vit_step.run(arguments, [os.path.abspath(__file__), arguments.model, "--serve"], settings, [],
                     lambda chosen, threads: make_step(chosen, threads, int(arguments.model)))
        return
    version = newest(arguments.python)
    paired.tell_what_holds()
    os.environ["PYTHONPATH"] = os.path.join(ROOT, "python")
    os.environ["ATTNLAB_PROGRAM"] = os.path.abspath(os.path.join(arguments.build, "bin", "attnlab"))
    same = ["--threads", str(arguments.threads), "--settings", json.dumps(settings)]
    ours = paired.Program("attnlab", [arguments.own, os.path.abspath(__file__), arguments.model, "--serve",
                                      *same])
    rival = paired.Program(paired.RIVAL, [arguments.python, os.path.join(paired.HERE, "attention_step.py"),
                                          "--model", arguments.model, *same])
    paired.measure([rival, ours], arguments)
    for program in (rival, ours):
        program.quit()
    rows = [paired.summarise(program, rival) for program in (rival, ours)]
    paired.print_table(rows)
    low, high = rows[1]["paired_interval"]
    print(f"{processor()}, {arguments.threads} threads, {arguments.model} tokens: "
          f"{rows[1]['paired_ratio']:.3f} of PyTorch {version} ({low:.3f}-{high:.3f}; aim {LIMIT})")
    sys.exit(1 if arguments.check and paired.too_slow(rows, {"attnlab": LIMIT}) else 0)


if __name__ == "__main__":
    main()
