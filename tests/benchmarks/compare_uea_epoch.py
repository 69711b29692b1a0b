#!/usr/bin/env python3
"""A training epoch of a set of JapaneseVowels' sizes, here and in PyTorch: times both in turn.

Starts attnlab_bench_uea_epoch for each attention and uea_epoch.py (PyTorch, tuned first), all with
the same number of threads and the same batches of 16. paired.py says how they are timed and what is
printed; its steps are epochs here.
"""
import paired

if __name__ == "__main__":
    paired.compare(__doc__.splitlines()[0], "uea_epoch", {"standard": 0.7},
                   unit="epoch", steps=2, threads=1)
