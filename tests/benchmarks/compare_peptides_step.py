#!/usr/bin/env python3
"""Training steps of GraphGPS on graphs of Peptides-func's sizes, here and in PyTorch, in turn.

Starts attnlab_bench_peptides_step for each attention and peptides_step.py (PyTorch, tuned first),
both with the same number of threads and the same batch of 128 graphs; an epoch is 85 such steps.
paired.py says how they are timed and what is printed.
"""
import os

import paired

if __name__ == "__main__":
    paired.compare(__doc__.splitlines()[0], "peptides_step", {"standard": 0.6, "quest": 0.6},
                   unit="step", steps=2, threads=os.cpu_count())
