#!/usr/bin/env python3
"""A training step of a language model, here and in PyTorch: times both in turn.

    nano_gpt         nanoGPT's setting for a CPU: 4 layers, 4 heads, width 128, batch 12, context 64
    transformer_xl   the same sizes as a Transformer-XL, with a memory of 64 tokens

Starts attnlab_bench_lm_step for each attention and lm_step.py (PyTorch, tuned first), all with the
same number of threads. paired.py says how they are timed and what is printed.
"""
import os

import paired

if __name__ == "__main__":
    paired.compare(__doc__.splitlines()[0], "lm_step", {"standard": 0.8}, unit="step", steps=20,
                   threads=os.cpu_count(), models=["nano_gpt", "transformer_xl"])
