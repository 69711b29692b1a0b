#!/usr/bin/env python3
"""How long `attnlab run` takes from its start to the end of the first training step.

A small experiment (--experiment), files in cache, the median of --runs; beside it, in turns, a program
that does nothing but load LibTorch and multiply two matrices, in PyTorch (--python), where there is one.
Exit status: 0; 1 where the median is above --limit (in seconds) or the program fails.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def first_step(command, folder):
    """Seconds from the program's start to its report of the first step."""
    start = time.perf_counter()
    with subprocess.Popen(command + ["--out", folder], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
        said = []
        for line in program.stdout:
            said.append(line)
            if line.startswith("{") and json.loads(line).get("event") == "step":
                taken = time.perf_counter() - start
                program.kill()
                return taken
    sys.exit(f"start_latency: {' '.join(command)} reported no step\n{''.join(said[-5:])}")


def torch_alone(python):
    """Seconds of a program that loads PyTorch and uses it once; None where there is none."""
    start = time.perf_counter()
    code = "import torch; torch.rand(64, 64) @ torch.rand(64, 64)"
    result = subprocess.run([python, "-c", code], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start if result.returncode == 0 else None


def line(what, times):
    return (f"{what}: median {statistics.median(times):.2f} s, "
            f"{min(times):.2f} to {max(times):.2f} s ({len(times)} runs)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="build folder of attnlab")
    parser.add_argument("--experiment", default="configs/experiments/smoke/vit_synthetic.yaml")
    parser.add_argument("--python", default="python3", help="one that has PyTorch")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--limit", type=float, default=1.0, help="seconds")
    arguments = parser.parse_args()
    program = os.path.join(arguments.build, "bin", "attnlab")
    if not os.access(program, os.X_OK):
        sys.exit(f"start_latency: no program at {program}. Run: make build")
    command = [program, "run", arguments.experiment, "train.epochs=1", "train.tensorboard=false",
               "--progress", "json"]
    ours, torch = [], []
    folder = tempfile.mkdtemp(prefix="attnlab-start-")
    try:
        first_step(command, os.path.join(folder, "warm"))
        for i in range(arguments.runs):
            ours.append(first_step(command, os.path.join(folder, str(i))))
            torch.append(torch_alone(arguments.python))
    finally:
        shutil.rmtree(folder)
    if None not in torch:
        print(line("PyTorch, loaded and used once", torch))
    print(line(f"attnlab run, to the end of the first step (limit {arguments.limit:g} s)", ours))
    sys.exit(0 if statistics.median(ours) <= arguments.limit else 1)


if __name__ == "__main__":
    main()
