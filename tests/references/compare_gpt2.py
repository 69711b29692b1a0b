#!/usr/bin/env python3
"""GPT-2 as the package transformers computes it, against the experiment `gpt2`: the loss of a text in nats a token.
Fails where the two differ by more than 1e-3.

  compare_gpt2.py --tokenizer FOLDER --text FILE [--weights FILE] [--tokens 12000]

FOLDER has vocab.json and merges.txt of GPT-2. Without weights (model.safetensors of openai-community/gpt2), the model of
124 million parameters gets normal ones from seed 0, ten times as large as a new model's, so that a transposed or missing
matrix is seen. It needs torch, transformers, tokenizers, safetensors and `attnlab` on PATH.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel

WINDOW, STRIDE = 1024, 512


def made_up(model):
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.2 if parameter.dim() == 1 or "wte" in name or "wpe" in name else 0.06
            parameter.normal_(1.0 if name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight")) else 0.0, scale)


def loss(model, tokens):
    """All targets of the first window; of each later one those that are new, behind 512 others at least. The last
    window ends with the text and is as long as the others."""
    last = max(0, len(tokens) - 1 - WINDOW)
    total, seen = 0.0, 0
    for begin in [*range(0, last, STRIDE), last]:
        part = torch.tensor(tokens[begin:begin + WINDOW + 1])
        counted = part[1:].clone()
        counted[:seen - begin] = -100
        with torch.no_grad():
            logits = model(part[None, :-1]).logits[0]
        total += float(torch.nn.functional.cross_entropy(logits.double(), counted, ignore_index=-100, reduction="sum"))
        seen = begin + len(counted)
    return total / seen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", required=True, type=pathlib.Path)
    parser.add_argument("--text", required=True, type=pathlib.Path)
    parser.add_argument("--weights", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=12000, help="about so many, at most")
    arguments = parser.parse_args()
    model = GPT2LMHeadModel(GPT2Config()).eval()
    if arguments.weights:
        model.load_state_dict({f"transformer.{name.removeprefix('transformer.')}": tensor
                               for name, tensor in load_file(arguments.weights).items()}, strict=False)
    else:
        made_up(model)
    tokenizer = Tokenizer(models.BPE.from_file(str(arguments.tokenizer / "vocab.json"),
                                               str(arguments.tokenizer / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    text = arguments.text.read_text(encoding="utf-8")[:4 * arguments.tokens]
    text = text[:text.rindex("\n") + 1]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "text.txt").write_text(text, encoding="utf-8")
        save_file({name: tensor.contiguous() for name, tensor in model.transformer.state_dict().items()},
                  folder / "model.safetensors")
        words = ["attnlab", "run", "gpt2", f"init.from={folder}/model.safetensors", f"dataset.root={folder}",
                 f"dataset.tokenizer={arguments.tokenizer.resolve()}", "dataset.train=text.txt", "dataset.test=text.txt",
                 "--out", str(folder / "runs")]
        subprocess.run(words, check=True)
        status = next((folder / "runs").rglob("status.json"))
        ours = json.loads(status.read_text())["metrics"]["nll"]
    theirs = loss(model, tokenizer.encode(text).ids)
    print(f"nll {ours:.6f} here, {theirs:.6f} by transformers: {abs(ours - theirs):.1e} apart")
    if abs(ours - theirs) > 1e-3:
        sys.exit("more than 1e-3")


if __name__ == "__main__":
    main()
