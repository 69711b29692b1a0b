#!/usr/bin/env python3
"""The rival of attnlab_bench_loader: torchvision's ImageFolder and PyTorch's DataLoader.

  torchvision_loader.py FOLDER [--batch N] [--workers N] [--epochs N]     (python3-torchvision)

RandomResizedCrop to 224 (bicubic), flip, ToTensor, Normalize: examples a second, as JSON lines. Worker
processes start before the clock does and stay for all epochs.
"""
import argparse
import json
import time

import torch
from torchvision import datasets, transforms


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    images = datasets.ImageFolder(given.folder + "/train", transforms.Compose([
        transforms.RandomResizedCrop(224, interpolation=transforms.InterpolationMode.BICUBIC),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]))
    loader = torch.utils.data.DataLoader(images, batch_size=given.batch, shuffle=True, drop_last=True,
                                         num_workers=given.workers, prefetch_factor=4,
                                         persistent_workers=True)
    next(iter(loader))
    for _ in range(given.epochs):
        begin = time.perf_counter()
        count = sum(len(labels) for _, labels in loader)
        seconds = time.perf_counter() - begin
        print(json.dumps({"workers": given.workers, "examples": count,
                          "examples_per_second": count / seconds}), flush=True)


if __name__ == "__main__":
    main()
