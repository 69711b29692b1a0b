#!/usr/bin/env python3
"""Segmenter (ViT-Ti/16, 150 classes), here and in PyTorch: times both in turn.

    step      a training step on two pictures of 512 pixels; limit 0.8
    windows   the evaluation of a picture of 768 x 1024 pixels by six windows of 512; limit 0.7

Starts attnlab_bench_segmenter_step for each attention and segmenter_step.py (PyTorch, tuned first), all with the
same number of threads. paired.py says how they are timed and what is printed.
"""
import os
import sys

import paired

if __name__ == "__main__":
    paired.compare(__doc__.splitlines()[0], "segmenter_step", {"standard": 0.7 if "windows" in sys.argv else 0.8},
                   unit="step", steps=2, threads=os.cpu_count(), models=["step", "windows"])
