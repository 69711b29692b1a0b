#!/usr/bin/env python3
"""A training epoch of a set of JapaneseVowels' sizes, here and in PyTorch: times both in turn.

Starts attnlab_bench_uea_epoch for each attention and uea_epoch.py (PyTorch, tuned first), all with
the same number of threads and the same batches of 16. Rounds, ratios and intervals are those of
compare_vit_step.py; its steps are epochs here. Below 1 is faster than PyTorch.
Exit status: 0; 1 where --check finds a ratio's whole interval above its limit; 2 where a program is
missing or ends early.
"""
import compare_vit_step as paired

LIMITS = {"standard": 0.7}


def main():
    arguments = paired.parser_of(__doc__, LIMITS, 1, 2, "epochs").parse_args()
    paired.compare(arguments, ["attnlab_bench_uea_epoch"], ["uea_epoch.py"], LIMITS)


if __name__ == "__main__":
    main()
