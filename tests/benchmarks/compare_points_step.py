#!/usr/bin/env python3
"""A training step of PointTransformer-lite on 100,000 points, here and in PyTorch: both in turn.

Starts attnlab_bench_points --serve for each attention and points_step.py (PyTorch, tuned first) on the
same voxels with the same number of threads. Rounds, ratios and intervals are those of
compare_vit_step.py. Below 1 is faster than PyTorch.
Exit status: 0; 1 where --check finds a ratio's whole interval above its limit; 2 where a program is
missing or ends early.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import paired

HERE = os.path.dirname(os.path.abspath(__file__))
LIMITS = {"standard": 0.6}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="build folder of attnlab")
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python with PyTorch")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of either program")
    parser.add_argument("--points", type=int, default=100000)
    parser.add_argument("--attention", action="append", help="default: standard")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=1, help="steps a round")
    parser.add_argument("--warmup", type=int, default=1, help="steps before the first round")
    parser.add_argument("--settings", help="PyTorch's, as points_step.py prints them; skips tuning")
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--check", action="store_true", help="fail above the limits "
                        + ", ".join(f"{name} {limit}" for name, limit in LIMITS.items()))
    arguments = parser.parse_args()
    paired.tell_what_holds()
    ours = [os.path.join(arguments.build, "bin", "attnlab_bench_points"),
            "--points", str(arguments.points), "--threads", str(arguments.threads)]
    # In the build folder, since a rival of another Debian sees this checkout and no other folder.
    folder = os.path.abspath(arguments.build)
    with tempfile.NamedTemporaryFile(suffix=".voxels", dir=folder) as voxels:
        subprocess.run(ours + ["--write", voxels.name], check=True)
        script = [os.path.join(HERE, "points_step.py"), "--voxels", voxels.name]
        settings = arguments.settings or paired.tuned_settings(script, arguments)
        os.environ["ATTNLAB_BENCH_VOXELS"] = voxels.name
        rival = paired.Program(paired.RIVAL, [arguments.python, *script, "--settings", settings,
                                              "--threads", str(arguments.threads)])
        programs = [rival] + [paired.Program(name, ours + ["--serve", "--attention", name])
                              for name in arguments.attention or LIMITS]
        paired.measure(programs, arguments)
        for program in programs:
            program.quit()
    rows = [paired.summarise(program, rival) for program in programs]
    if arguments.json:
        print(json.dumps({"points": arguments.points, "threads": arguments.threads,
                          "settings": json.loads(settings), "limits": LIMITS, "programs": rows},
                         indent=2))
    else:
        paired.print_table(rows)
    slow = paired.too_slow(rows, LIMITS) if arguments.check else []
    for row in slow:
        print(f"{row['name']}: slower than its limit of {LIMITS[row['name']]}", file=sys.stderr)
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
