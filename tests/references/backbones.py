#!/usr/bin/env python3
"""Logits of torchvision's ResNets and small Swin V2 with weights by rule, for resnet_test and swin_test.

Usage: tests/references/backbones.py     (needs python3-torch, python3-torchvision)

Every number of a parameter is a function of torchvision's name for it and of its place, so that the
test can make the same ones.
"""
import torch
import torchvision

torch.set_default_dtype(torch.float64)


def rule(name, shape):
    count = int(torch.tensor(shape).prod()) if len(shape) else 1
    phase = sum(name.encode()) % 97
    waves = torch.sin(phase + 0.7 * torch.arange(count)).reshape(shape)
    if name.endswith("logit_scale"):
        return 2 + 0.5 * waves
    if len(shape) > 1:
        return waves * (2 / (count / shape[0])) ** 0.5
    if name.endswith("running_var"):
        return 1 + 0.5 * waves
    return (1 if name.endswith("weight") else 0) + 0.1 * waves


def filled(model):
    model.double()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if "num_batches" in name or "relative" in name:
                continue
            tensor.copy_(rule(name, list(tensor.shape)))
    return model.eval()


def image(side):
    return torch.sin(torch.arange(3 * side * side) * 0.05).reshape(1, 3, side, side)


def show(name, model, side):
    with torch.no_grad():
        logits = model(image(side))[0]
    print(name, ", ".join(f"{x:.12f}" for x in logits.tolist()))


show("resnet18", filled(torchvision.models.resnet18(num_classes=5)), 64)
show("resnet50", filled(torchvision.models.resnet50(num_classes=5)), 64)
from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformer, SwinTransformerBlockV2

nano = SwinTransformer([4, 4], 32, [2, 2], [2, 4], [4, 4], num_classes=5,
                       block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2)
show("swin", filled(nano), 64)
for build in (torchvision.models.resnet18, torchvision.models.resnet50, torchvision.models.swin_v2_t,
              torchvision.models.swin_v2_s, torchvision.models.swin_v2_b):
    print(build.__name__, sum(p.numel() for p in build().parameters()))
