#!/usr/bin/env python3
"""Attention alone, forward and backward, here and in PyTorch: times both in turn.

    64, 197, 1024, 4096, 16384   lengths, in batches of about 4096 tokens, 4 heads of 64 channels
    64_causal, ...               queries see no later keys
    1024_sink, 4096_cog, ...     another mechanism, beside `standard`: sink, soft_cap, alibi, sigmoid, cog,
                                 causal_forgetting

Starts attnlab_bench_attention_step for each attention and attention_step.py (PyTorch, tuned first), all
with the same number of threads. explicit is our own form of matmul, softmax, matmul, which must not be
faster; at 16384 it would take 13 GB, and is timed only where --attention explicit asks for it. paired.py says how they are timed and what is printed.
"""
import os
import sys

import attention_step
import paired

if __name__ == "__main__":
    model = sys.argv[1] if len(sys.argv) > 1 else ""
    other = next((name for name in (*attention_step.MECHANISMS, "forgetting") if model.endswith(name)), None)
    long = model.startswith("16384")
    paired.compare(__doc__.splitlines()[0], "attention_step", {other: 0.5} if other else {"standard": 0.9},
                   unit="step", steps=5, threads=os.cpu_count(), models=attention_step.MODELS,
                   within={other: ("standard", 1.25)} if other
                   else {"standard": ("explicit", 1.0)} if not long else None)
