#!/usr/bin/env python3
"""Byte pairs on one core, here and in PyPI's package tokenizers: MB/s of both in turn.

    compare_bpe.py --tokenizer FOLDER --file FILE [--rounds 5] [--check]

FOLDER has vocab.json and merges.txt of GPT-2. attnlab_bench_encode_text encodes the whole file into a
cache, with the reading of the tokenizer; tokenizers encodes it in pieces, which end with a line end that
is a word by itself, without the reading. All tokens of both must be equal.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

PIECE = 1 << 16  # characters at least


def pieces_of(text):
    """The text in parts that are encoded as within the whole: cut behind a line end with no white space
    around it."""
    pieces, begin = [], 0
    for line_end in re.finditer(r"(?<=\S)\n(?=\S)", text):
        if line_end.end() - begin >= PIECE:
            pieces.append(text[begin:line_end.end()])
            begin = line_end.end()
    return pieces + [text[begin:]]


def rival(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers

    model = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    # encode_batch_fast, of newer versions, leaves out where tokens stand in the text.
    return getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)


def their_round(encode, pieces, megabytes):
    begin = time.perf_counter()
    encode(pieces, add_special_tokens=False)
    return megabytes / (time.perf_counter() - begin)


def check_equal(arguments, encode, pieces):
    """Number by number."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "tokens")
        subprocess.run([arguments.program, "--file", arguments.file, "--tokenizer", arguments.tokenizer, "--rounds",
                        "0", "--tokens", out], check=True, capture_output=True)
        own = [int(line) for line in out.read_text().split()]
    other = [number for encoded in encode(pieces, add_special_tokens=False) for number in encoded.ids]
    for i, (a, b) in enumerate(zip(own, other)):
        if a != b:
            sys.exit(f"token {i}: {own[i:i + 32]} here, {other[i:i + 32]} by tokenizers")
    if len(own) != len(other):
        sys.exit(f"{len(own)} tokens here, {len(other)} by tokenizers")
    return len(own)


def our_round(arguments):
    command = [arguments.program, "--file", arguments.file, "--tokenizer", arguments.tokenizer, "--rounds", "1"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return json.loads(lines[0])["megabytes_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--file", required=True, help="a text in UTF-8 without a byte-order mark")
    parser.add_argument("--program", default="build/release/bin/attnlab_bench_encode_text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="fail below 3 times")
    arguments = parser.parse_args()
    data = pathlib.Path(arguments.file).read_bytes()
    pieces = pieces_of(data.decode())
    encode = rival(pathlib.Path(arguments.tokenizer))
    equal = check_equal(arguments, encode, pieces)
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        own = our_round(arguments)
        other = their_round(encode, pieces, len(data) / 1e6)
        ours.append(own)
        theirs.append(other)
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    print(json.dumps({"equal_tokens": equal, "attnlab_megabytes_per_second": statistics.median(ours),
                      "tokenizers_megabytes_per_second": statistics.median(theirs), "ratio": ratio}))
    if arguments.check and ratio < 3:
        sys.exit("below 3 times")


if __name__ == "__main__":
    main()
