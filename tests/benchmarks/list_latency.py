#!/usr/bin/env python3
"""How long `attnlab list` takes: the median of 50 runs, from start to exit, files in cache.

Exit status: 0; 1 where the median is above --limit (in milliseconds) or the program fails.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time


def run_once(command):
    start = time.perf_counter()
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            check=False)
    if result.returncode != 0:
        sys.exit(f"list_latency: {' '.join(command)} gave {result.returncode}")
    return 1000 * (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="build folder of attnlab")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--limit", type=float, default=50.0, help="milliseconds")
    arguments = parser.parse_args()
    command = [os.path.join(arguments.build, "bin", "attnlab"), "list"]
    if not os.access(command[0], os.X_OK):
        sys.exit(f"list_latency: no program at {command[0]}. Run: make build")
    run_once(command)
    times = sorted(run_once(command) for _ in range(arguments.runs))
    median = statistics.median(times)
    print(f"attnlab list: median {median:.1f} ms, fastest {times[0]:.1f} ms, "
          f"95 % below {times[int(0.95 * (len(times) - 1))]:.1f} ms ({len(times)} runs, "
          f"limit {arguments.limit:g} ms)")
    sys.exit(0 if median <= arguments.limit else 1)


if __name__ == "__main__":
    main()
