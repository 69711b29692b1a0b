#!/usr/bin/env python3
"""One ViT-Ti/16 training step, here and in PyTorch: times both in turn, prints the ratios.

Starts attnlab_bench_vit_step for each attention and vit_step.py (PyTorch, tuned first), all with
the same number of threads. paired.py says how they are timed and what is printed.
"""
import os

import paired

if __name__ == "__main__":
    paired.compare(__doc__.splitlines()[0], "vit_step", {"standard": 0.85, "quest": 0.85 * 1.02},
                   unit="step", steps=3, threads=os.cpu_count(), shares=True)
