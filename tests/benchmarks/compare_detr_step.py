#!/usr/bin/env python3
"""Training steps of a small IA-DETR on images of 256 pixels, here and in PyTorch, in turn.

Starts attnlab_bench_detr_step for each attention and detr_step.py (PyTorch, tuned first), both with
the same number of threads and batches of 4 images. paired.py says how they are timed and what is
printed.
"""
import os

import paired

if __name__ == "__main__":
    paired.compare(__doc__.splitlines()[0], "detr_step", {"standard": 0.85}, unit="step", steps=3,
                   threads=os.cpu_count())
