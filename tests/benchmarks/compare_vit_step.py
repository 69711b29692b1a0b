#!/usr/bin/env python3
"""One ViT-Ti/16 training step, here and in PyTorch: times both in turn, prints the ratios.

Starts attnlab_bench_vit_step for each attention and vit_step.py (PyTorch, tuned first), all with
the same number of threads. 
With --precision bfloat16 both sides round the factors of products to it. paired.py says how they are timed and what is printed.
"""
import os

import paired

if __name__ == "__main__":
    paired.compare(__doc__.splitlines()[0], "vit_step",
                   {"float32": {"standard": 0.85}, "bfloat16": {"standard": 0.75}},
                   unit="step", steps=3, threads=os.cpu_count(), shares=True,
                   within={"quest": ("standard", 1.02)})
