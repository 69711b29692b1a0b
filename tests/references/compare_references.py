#!/usr/bin/env python3
"""attnlab's mechanisms against public implementations: outputs, and gradients of all inputs, in float64; of whole
models, whose layers share and place keys, the loss on a text. Fails where a number differs by more than 1e-5.

  PYTHONPATH=python /usr/bin/python3 tests/references/compare_references.py FOLDER   # of make_references.py

It needs the Python that attnlab was built with, `attnlab` on PATH, and NumPy. A difference is divided by the largest
number of its tensor where that is above 1.
"""
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import attnlab

BOUND = 1e-5

#: What no package on PyPI has in plain PyTorch, as far as was found.
WITHOUT = {
    "moba, nsa": "fla-core's call flash-attn's kernels, for GPUs alone",
    "ssmax, tost, differential_v2, mala, cosine, doubly_stochastic, elliptical, quest, qnorm": "none found",
}


def ask(facts, inputs, parameters):
    dim, value_dim = facts["dims"]
    width = inputs["source"].shape[-1] if "source" in inputs else 0
    widths = {"query_width": width, "key_width": width, "value_width": width}
    shape = (inputs["queries"].shape[1], dim, value_dim)
    attention = attnlab.Attention(facts["name"], *shape, **widths, **facts["sizes"], **facts["options"]).double().eval()
    own = dict(attention.named_parameters())
    if own.keys() != parameters.keys():
        raise SystemExit(f"{facts['name']}: it has {sorted(own)}, the reference gives {sorted(parameters)}")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(parameters[name].reshape(parameter.shape))
    call = dict(facts["call"])
    if width:
        call.update(query_source=inputs["source"], key_source=inputs["source"], value_source=inputs["source"])
    q, k, v = (inputs[name] for name in ("queries", "keys", "values"))
    if "relative" in inputs:
        call["relative"] = [inputs[name] for name in ("relative", "content_bias", "position_bias")]
    if "first_values" in inputs:
        call["state"] = attnlab.ForwardState()
        first = attnlab.Attention(facts["name"], *shape, layer=0, layers=2, **facts["options"]).double().eval()
        first(q, k, inputs["first_values"], **call)
    return attention(q, k, v, **call)


def difference(found, expected):
    return float((found - expected).abs().max() / max(1.0, float(expected.abs().max())))


def loss_of(facts, path):
    """What a language model that begins with these weights, and learns nothing, makes of the text."""
    folder = path.parent.resolve()
    experiment = {
        "name": "reference", "schema": 1, "attention": facts["attention"],
        "model": {"use": "transformer_lm", "style": "gpt2", "biases": "none", "positions": facts["positions"],
                  **facts["model"]},
        "task": {"use": "language_modelling", "unit": "byte"},
        "dataset": {"use": "text_stream", "unit": "byte", "root": str(folder), "train": "text.txt", "test": "text.txt",
                    "window": facts["model"]["context"], "eval_rows": 1},
        "init": {"from": str(folder / f"{path.stem}.safetensors")},
        "train": {"epochs": 1, "batch_size": 4, "eval_batch_size": 1, "threads": 1, "optimizer": {"lr": 0}}}
    with tempfile.TemporaryDirectory() as out:
        return attnlab.run(experiment, seeds=[0], out=out, progress=False)[0].metrics["nll"]


def rows_of_mechanisms(folder):
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            facts = json.loads(str(file["facts"]))
            tensors = {name: torch.from_numpy(file[name]) for name in file.files if name != "facts"}

        def of(kind):
            return {name.partition(":")[2]: x for name, x in tensors.items() if name.startswith(kind + ":")}

        inputs = {name: x.requires_grad_() for name, x in of("input").items()}
        output = ask(facts, inputs, of("parameter"))
        (output * tensors["upstream"]).sum().backward()
        in_output = difference(output.detach(), tensors["output"])
        # (A NaN is the largest number to torch, not to Python.)
        in_gradients = float(torch.tensor([difference(x.grad, of("gradient")[name])
                                           for name, x in inputs.items()]).max())
        yield facts["name"], facts, in_output, in_gradients


def rows_of_models(folder):
    for path in sorted(folder.glob("*.json")):
        facts = json.loads(path.read_text())
        yield "transformer_lm", facts, abs(loss_of(facts, path) - facts["nll"]), None


def main():
    folder = Path(sys.argv[1])
    rows, failed = [("mechanism", "package", "reference", "output", "gradients", "")], False
    for name, facts, output, gradients in (*rows_of_mechanisms(folder), *rows_of_models(folder)):
        right = output <= BOUND and (gradients is None or gradients <= BOUND)
        failed = failed or not right
        rows.append((name, f"{facts['package']} {facts['version']}", facts["what"], f"{output:.1e}",
                     "" if gradients is None else f"{gradients:.1e}", "" if right else "DIFFERS"))
    if len(rows) == 1:
        raise SystemExit(f"no references in {folder}: run make_references.py first")
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    for names, reason in WITHOUT.items():
        print(f"without a reference: {names}: {reason}")
    return 1 if failed else 0


sys.exit(main())
