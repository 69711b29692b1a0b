#!/usr/bin/env python3
"""Runs of QUEST's toy study, one by one and trained together: seconds per run, and their ratio.

Each round is a sweep over learning rates, weight decays and seeds in a fresh folder, as a user would
call it, process starts and all: one by one (-j 1 --ensemble 1), as many at once as there are cores
(-j CORES --ensemble 1), and together (-j CORES). The rounds alternate, so that what else the machine
does falls on all of them."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

RATES = "5e-4,1e-3,2.5e-3,5e-3,7.5e-3,1e-2"
DECAYS = "0,0.01,0.02,0.05,0.1"


def sweep(program, attention, seeds, options):
    """Seconds of one sweep."""
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "sweep", "quest_toy", f"attention={attention}",
                 f"train.optimizer.lr={RATES}", f"train.optimizer.weight_decay={DECAYS}",
                 "--seeds", seeds, "--out", folder, "--progress", "none"] + options
        begin = time.monotonic()
        ended = subprocess.run(words, capture_output=True, text=True)
        if ended.returncode != 0:
            sys.exit(f"compare_ensemble: {' '.join(words)}\n{ended.stdout}{ended.stderr}")
        return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="build folder of attnlab")
    parser.add_argument("--attention", default="quest")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    program = os.path.join(args.build, "bin", "attnlab")
    # (seeds, runs, options): fewer runs where each takes long.
    ways = {"one by one": ("[0]", 30, ["-j", "1", "--ensemble", "1"]),
            f"{args.jobs} at once": ("0-1", 60, ["-j", str(args.jobs), "--ensemble", "1"]),
            "together": ("0-9", 300, ["-j", str(args.jobs)])}
    times = {way: [] for way in ways}
    for number in range(args.rounds):
        for way, (seeds, runs, options) in ways.items():
            times[way].append(sweep(program, args.attention, seeds, options) / runs)
        print(f"round {number + 1}/{args.rounds}: " +
              ", ".join(f"{way} {all[-1]:.3f} s a run" for way, all in times.items()), flush=True)
    base = times["one by one"]
    print(f"{'':14}{'median':>10}  times as fast as one by one")
    for way, all in times.items():
        ratios = [one / other for one, other in zip(base, all)]
        print(f"{way:14}{statistics.median(all):9.3f}s  {statistics.median(ratios):.1f} "
              f"({min(ratios):.1f}-{max(ratios):.1f})")


if __name__ == "__main__":
    main()
