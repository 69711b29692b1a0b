#!/usr/bin/env python3
"""Attentions and a training step on a GPU, in one table (scripts/gpu_check.sh builds and calls this).

- Each attention's output and gradients in float64 and float32, against the CPU in float64: the
  largest difference, as a share of the largest number there.
- Each attention's conformance kit, which also compares the GPU with the CPU.
- A step of ViT-Ti/16 (batch 64, 224 pixels, AdamW), here and in PyTorch: as it is, compiled, with bfloat16.

Exit code 1: an attention differs by more than 1e-9 in float64, or a check of a kit failed.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch

import attnlab

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "benchmarks"))
import vit_step  # noqa: E402

LIMIT = 1e-9
BATCH, LENGTH, HEADS, DIM = 2, 64, 2, 16
EXPERIMENT = """schema: 1
name: vit_step
model: {use: vit, patch_size: 16, dim: 192, depth: 12, heads: 3}
attention: standard
task: image_classification
dataset: {use: synthetic_images, size: 224, channels: 3, classes: 1000, train: 256, test: 64}
train: {epochs: 1, batch_size: 64, optimizer: {use: adamw, lr: 1e-3}}
"""


def computed(name, device, dtype):
    """Output and gradients of an attention on fixed inputs, on the CPU in float64."""
    torch.manual_seed(0)
    attention = attnlab.Attention(name, heads=HEADS, head_dim=DIM, seed=3, query_width=HEADS * DIM,
                                  key_width=HEADS * DIM, value_width=HEADS * DIM)
    attention = attention.to(device=device, dtype=dtype).eval()
    inputs = [torch.randn(BATCH, HEADS, LENGTH, DIM, dtype=torch.float64).to(device, dtype).requires_grad_()
              for _ in range(3)]
    more = {}
    if attention.traits.get("sources"):
        source = torch.randn(BATCH, LENGTH, HEADS * DIM, dtype=torch.float64).to(device, dtype)
        more = {"query_source": source, "key_source": source, "value_source": source}
    if attention.traits.get("ordered"):
        more["causal"] = True
    output = attention(*inputs, **more)
    weights = torch.randn(output.shape, dtype=torch.float64).to(device, dtype)
    wanted = [*inputs, *(p for p in attention.parameters() if p.requires_grad)]
    gradients = torch.autograd.grad((output * weights).sum(), wanted, allow_unused=True)
    return [t.detach().to("cpu", torch.float64) for t in (output, *gradients) if t is not None]


def difference(found, expected):
    """The largest one, as a share of the largest number of its tensor (a gradient may be 0 but for rounding)."""
    if not all(bool(a.isfinite().all()) for a in found):
        return float("inf")
    least = 1e-3 * max(float(b.abs().max()) for b in expected)
    return max(float((a - b).abs().max()) / max(least, float(b.abs().max())) for a, b in zip(found, expected))


def kit(name, end):
    """What the conformance kit says of an attention until then: words, and whether a check failed."""
    done = subprocess.run([attnlab.executable(), "plugin", "test", f"attention/{name}", "--jobs", "1", "--json"],
                          capture_output=True, text=True, timeout=max(1, end - time.monotonic()))
    try:
        checks = json.loads(done.stdout)["checks"]
    except (ValueError, KeyError):
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no answer", True
    failed = [one["check"] for one in checks if one["outcome"] == "failed"]
    passed = sum(one["outcome"] == "passed" for one in checks)
    return f"{passed} passed" + (f"; failed: {', '.join(failed)}" if failed else ""), bool(failed)


def our_step(device, precision):
    """Seconds of a step of `attnlab run`."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "vit_step.yaml"
        file.write_text(EXPERIMENT)
        done = subprocess.run([attnlab.executable(), "probe", str(file), f"train.device={device}",
                               f"train.precision={precision}", "--steps", "20"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)["step_seconds"]


def their_step(device, precision, compiled, steps=20):
    """Seconds of the same step in PyTorch: its fused attention and optimiser."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    fused = "fused" if device == "cuda" else "foreach"
    settings = {**vit_step.BASE, "attention": "sdpa", "optimiser": fused}
    model = vit_step.make_model(torch, settings).to(device).train()
    optimiser = vit_step.make_optimiser(torch, model, settings)
    images = torch.randn(64, 3, vit_step.PIXELS, vit_step.PIXELS, device=device)
    labels = torch.randint(vit_step.CLASSES, (64,), device=device)
    forward = torch.compile(model) if compiled else model

    def step():
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
            logits = forward(images)
        torch.nn.functional.cross_entropy(logits.float(), labels).backward()
        optimiser.step()

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        step()
    wait()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    wait()
    return (time.perf_counter() - begin) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--only", help="names of attentions, separated by commas")
    arguments = parser.parse_args()
    if arguments.seconds < 60:
        sys.exit("gpu_check.py: less than a minute is left: the build took too long; repeat the command")
    end = time.monotonic() + arguments.seconds
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else "the CPU (no GPU: a trial of this script)"
    print(f"{name}; torch {torch.__version__}; {os.cpu_count()} cores\n", flush=True)
    wrong = []

    print("| step of ViT-Ti/16, batch 64 | ms |\n|---|---|")
    for precision in ("float32", "tf32", "bfloat16"):
        for label, seconds in ((f"attnlab, {precision}", lambda: our_step(arguments.device, precision)),
                               (f"PyTorch, {precision}", lambda: their_step(arguments.device, precision, False)),
                               (f"PyTorch compiled, {precision}",
                                lambda: their_step(arguments.device, precision, True))):
            if end - time.monotonic() < 60:
                print(f"| {label} | left out: no time |")
                continue
            try:
                print(f"| {label} | {1000 * seconds():.2f} |", flush=True)
            except Exception as error:  # one that cannot run here leaves the others
                print(f"| {label} | {str(error).splitlines()[0][:120]} |", flush=True)

    attentions = arguments.only.split(",") if arguments.only else attnlab.list("attention")
    print("\n| attention | float64 | float32 | kit |\n|---|---|---|---|")
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        kits = {one: pool.submit(kit, one, end) for one in attentions}
        for one in attentions:
            try:
                expected = computed(one, "cpu", torch.float64)
                double = difference(computed(one, arguments.device, torch.float64), expected)
                single = difference(computed(one, arguments.device, torch.float32), expected)
                numbers = f"{double:.1e} | {single:.1e}"
                if not double <= LIMIT:
                    wrong.append(one)
            except (attnlab.AttnlabError, RuntimeError) as error:
                numbers = f"{str(error).splitlines()[0][:120]} | "
                wrong.append(one)
            try:
                said, failed = kits[one].result(timeout=max(0.1, end - time.monotonic()))
                if failed:
                    wrong.append(one)
            except (concurrent.futures.TimeoutError, subprocess.TimeoutExpired):
                said = "left out: no time"
                kits[one].cancel()
            print(f"| {one} | {numbers} | {said} |", flush=True)
        pool.shutdown(wait=False, cancel_futures=True)
    if wrong:
        sys.exit(f"wrong: {', '.join(sorted(set(wrong)))}")


if __name__ == "__main__":
    main()
