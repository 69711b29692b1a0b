#!/usr/bin/env python3
"""A training epoch of a set of JapaneseVowels' sizes, here and in PyTorch: times both in turn.

Starts attnlab_bench_uea_epoch for each attention and uea_epoch.py (PyTorch, tuned first), all with
the same number of threads and the same batches of 16. Rounds, ratios and intervals are those of
compare_vit_step.py; its steps are epochs here. Below 1 is faster than PyTorch.
Exit status: 0; 1 where --check finds a ratio's whole interval above its limit; 2 where a program is
missing or ends early.
"""
import argparse
import json
import os
import subprocess
import sys

import compare_vit_step as paired

HERE = os.path.dirname(os.path.abspath(__file__))
LIMITS = {"standard": 0.7}


def tuned_settings(arguments):
    command = [arguments.python, os.path.join(HERE, "uea_epoch.py"), "--tune-only",
               "--threads", str(arguments.threads)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        paired.fail(f"cannot tune PyTorch: {' '.join(command)} gave {result.returncode}. "
                    "Is python3-torch there? scripts/setup.sh --with bench")
    return result.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="build folder of attnlab")
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python with PyTorch")
    parser.add_argument("--threads", type=int, default=1, help="of either program; default 1")
    parser.add_argument("--attention", action="append", help="default: standard")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=2, help="epochs a round")
    parser.add_argument("--warmup", type=int, default=2, help="epochs before the first round")
    parser.add_argument("--settings", help="PyTorch's, as uea_epoch.py prints them; skips tuning")
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--check", action="store_true", help="fail above the limits "
                        + ", ".join(f"{name} {limit}" for name, limit in LIMITS.items()))
    arguments = parser.parse_args()
    if arguments.rounds < 2 or arguments.steps < 1 or arguments.warmup < 1:
        parser.error("needs at least 2 rounds, 1 epoch and 1 epoch of warm-up")

    settings = arguments.settings or tuned_settings(arguments)
    ours = os.path.join(arguments.build, "bin", "attnlab_bench_uea_epoch")
    threads = ["--threads", str(arguments.threads)]
    rival = paired.Program(paired.RIVAL, [arguments.python, os.path.join(HERE, "uea_epoch.py"),
                                          "--settings", settings] + threads)
    programs = [rival] + [paired.Program(name, [ours, "--attention", name] + threads)
                          for name in arguments.attention or LIMITS]
    paired.measure(programs, arguments)
    for program in programs:
        program.quit()

    rows = [paired.summarise(program, rival) for program in programs]
    if arguments.json:
        print(json.dumps({"threads": arguments.threads, "settings": json.loads(settings),
                          "limits": LIMITS, "programs": rows}, indent=2))
    else:
        paired.print_table(rows)
    slow = paired.too_slow(rows, LIMITS) if arguments.check else []
    for row in slow:
        print(f"{row['name']}: slower than its limit of {LIMITS[row['name']]}", file=sys.stderr)
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
