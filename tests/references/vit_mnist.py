#!/usr/bin/env python3
"""Logits of vit_mnist.safetensors by a plain PyTorch forward: the numbers in
tests/plugins/images/pretrained_test.cpp.

  apt-get install python3-torch; /usr/bin/python3 tests/references/vit_mnist.py vit_mnist.safetensors
"""
import json
import struct
import sys

import torch
from torch.nn import functional


def tensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    out = {}
    for name, info in header.items():
        if name != "__metadata__":
            begin, end = info["data_offsets"]
            out[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
            out[name] = out[name].reshape(info["shape"]).double()
    return out


def images(count):
    values = [[(7 * y + 13 * x * (i + 1) + x * y) % 256 for y in range(28) for x in range(28)]
              for i in range(count)]
    return (torch.tensor(values).double().reshape(count, 1, 28, 28) / 255 - 0.1307) / 0.3081


def forward(weights, x):
    batch = x.shape[0]
    x = x.reshape(batch, 4, 7, 4, 7).permute(0, 1, 3, 2, 4).reshape(batch, 16, 49)
    x = functional.linear(x, weights["patch_to_embedding.weight"], weights["patch_to_embedding.bias"])
    x = torch.cat([weights["cls_token"].expand(batch, -1, -1), x], 1) + weights["pos_embedding"]
    for layer in range(6):
        start = f"transformer.layers.{layer}."
        y = functional.layer_norm(x, (64,), weights[start + "0.fn.norm.weight"],
                                  weights[start + "0.fn.norm.bias"], 1e-5)
        qkv = functional.linear(y, weights[start + "0.fn.fn.to_qkv.weight"])
        q, k, v = qkv.reshape(batch, 17, 3, 8, 8).permute(2, 0, 3, 1, 4)
        y = ((q @ k.transpose(-1, -2)) * 0.125).softmax(-1) @ v
        y = y.transpose(1, 2).reshape(batch, 17, 64)
        x = x + functional.linear(y, weights[start + "0.fn.fn.to_out.weight"],
                                  weights[start + "0.fn.fn.to_out.bias"])
        y = functional.layer_norm(x, (64,), weights[start + "1.fn.norm.weight"],
                                  weights[start + "1.fn.norm.bias"], 1e-5)
        y = functional.gelu(functional.linear(y, weights[start + "1.fn.fn.net.0.weight"],
                                              weights[start + "1.fn.fn.net.0.bias"]))
        x = x + functional.linear(y, weights[start + "1.fn.fn.net.2.weight"],
                                  weights[start + "1.fn.fn.net.2.bias"])
    y = functional.gelu(functional.linear(x[:, 0], weights["mlp_head.0.weight"],
                                          weights["mlp_head.0.bias"]))
    return functional.linear(y, weights["mlp_head.2.weight"], weights["mlp_head.2.bias"])


def main():
    for row in forward(tensors(sys.argv[1]), images(3)):
        print("{" + ", ".join(f"{value:.7f}" for value in row) + "},")


if __name__ == "__main__":
    main()
