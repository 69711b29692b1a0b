#!/usr/bin/env python3
"""iBOT's training step with ViT-Ti/16, 2 global and 6 local crops, batch 16, here and in PyTorch, in turn.

Starts attnlab_bench_ibot_step for each attention and ibot_step.py (PyTorch, tuned first), all with the same number of
threads. paired.py says how they are timed and what is printed.
"""
import os

import paired

if __name__ == "__main__":
    paired.compare(__doc__.splitlines()[0], "ibot_step", {"standard": 0.8}, unit="step", steps=2,
                   threads=os.cpu_count())
