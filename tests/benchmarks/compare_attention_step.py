#!/usr/bin/env python3
"""Softmax attention alone, forward and backward, here and in PyTorch: times both in turn.

    64, 197, 1024, 4096, 16384   lengths, in batches of about 4096 tokens, 4 heads of 64 channels
    64_causal, ...               queries see no later keys

Starts attnlab_bench_attention_step for each attention and attention_step.py (PyTorch, tuned first), all
with the same number of threads. explicit is our own form of matmul, softmax, matmul, which must not be
faster; at 16384 it would take 13 GB, and is timed only where --attention explicit asks for it. paired.py says how they are timed and what is printed.
"""
import os
import sys

import attention_step
import paired

if __name__ == "__main__":
    long = any(word.startswith("16384") for word in sys.argv[1:2])
    paired.compare(__doc__.splitlines()[0], "attention_step", {"standard": 0.9}, unit="step",
                   steps=5, threads=os.cpu_count(), models=attention_step.MODELS,
                   within={"standard": ("explicit", 1.0)} if not long else None)
