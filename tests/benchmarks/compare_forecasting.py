#!/usr/bin/env python3
"""Training steps of PatchTST on windows of ETT's sizes, here and in PyTorch: times both in turn.

Starts attnlab_bench_forecasting_step for each attention and forecasting_step.py (PyTorch, tuned
first), all with the same number of threads and the same batch of 32 windows. paired.py says how they
are timed and what is printed.
"""
import os

import paired

if __name__ == "__main__":
    paired.compare(__doc__.splitlines()[0], "forecasting_step", {"standard": 0.6},
                   unit="step", steps=2, threads=os.cpu_count())
