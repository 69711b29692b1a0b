#!/usr/bin/env python3
"""A training step of a language model, here and in PyTorch: times both in turn.

    nano_gpt         nanoGPT's setting for a CPU: 4 layers, 4 heads, width 128, batch 12, context 64
    transformer_xl   the same sizes as a Transformer-XL, with a memory of 64 tokens

Starts attnlab_bench_lm_step for each attention and lm_step.py (PyTorch, tuned first), all with the
same number of threads. Rounds, ratios and intervals are those of compare_vit_step.py. Below 1 is
faster than PyTorch.
Exit status: 0; 1 where --check finds a ratio's whole interval above its limit; 2 where a program is
missing or ends early.
"""
import os

import compare_vit_step as paired

LIMITS = {"standard": 0.8}


def main():
    parser = paired.parser_of(__doc__, LIMITS, os.cpu_count(), 20)
    parser.add_argument("model", choices=["nano_gpt", "transformer_xl"])
    arguments = parser.parse_args()
    model = ["--model", arguments.model]
    paired.compare(arguments, ["attnlab_bench_lm_step"] + model, ["lm_step.py"] + model, LIMITS)


if __name__ == "__main__":
    main()
