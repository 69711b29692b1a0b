#!/usr/bin/env python3
"""The rival of attnlab_bench_loader on CamVid: PyTorch's DataLoader with torchvision's transforms.

  torchvision_camvid_loader.py FOLDER [--backend tensor] [--batch N] [--workers N] [--epochs N]   (torchvision >= 0.16)

A picture and its label map as configs/datasets/camvid.yaml trains with them: resized by a factor of 0.5 to 2, a square
of 352 pixels in which no class has more than three quarters of the labels (or the eleventh one drawn), flip,
RandomPhotometricDistort, normalisation, padding: examples a second, as JSON lines. --backend tensor decodes to tensors
and distorts those, pil uses Pillow up to the normalisation; the faster one is the rival. Only what the square shows is
distorted, and the label map alone decides about the square.
"""
import argparse
import json
import os
import random
import time

import torch
from PIL import Image
from torchvision import io
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

CROP, CLASSES, IGNORED, SHARE, RATIO = 352, 11, 11, 0.75, (0.5, 2.0)


class CamVid(torch.utils.data.Dataset):
    def __init__(self, root, split, tensors):
        with open(f"{root}/{split}.txt") as file:
            names = [line.split() for line in file if line.strip()]
        self.pairs = [[self.found(root, name) for name in pair] for pair in names]
        self.tensors, self.distort = tensors, v2.RandomPhotometricDistort()

    @staticmethod
    def found(root, name):
        """SegNet's lists have paths that begin with /SegNet/CamVid/."""
        return os.path.join(root, *name.strip("/").split("/")[-2:])

    def __len__(self):
        return len(self.pairs)

    def open(self, index):
        picture, labels = self.pairs[index]
        if self.tensors:
            return io.read_image(picture, io.ImageReadMode.RGB), io.read_image(labels)
        return Image.open(picture).convert("RGB"), F.pil_to_tensor(Image.open(labels))

    def square(self, labels):
        high, wide = labels.shape[1:]
        h, w = min(high, CROP), min(wide, CROP)
        for _ in range(11):
            top, left = random.randint(0, high - h), random.randint(0, wide - w)
            part = labels[:, top:top + h, left:left + w]
            counts = torch.bincount(part.flatten(), minlength=CLASSES + 1)[:CLASSES]
            if (counts > 0).sum() > 1 and counts.max() < SHARE * counts.sum():
                break
        return top, left, h, w, part

    def __getitem__(self, index):
        image, labels = self.open(index)
        high, wide = labels.shape[1:]
        ratio = random.uniform(*RATIO)
        size = [round(high * ratio), round(wide * ratio)]
        labels = F.resize(labels, size, v2.InterpolationMode.NEAREST)
        top, left, h, w, labels = self.square(labels)
        image = F.crop(F.resize(image, size, antialias=True), top, left, h, w)
        if random.random() < 0.5:
            image, labels = F.horizontal_flip(image), F.horizontal_flip(labels)
        image = self.distort(image)
        if not self.tensors:
            image = F.pil_to_tensor(image)
        image = F.normalize(F.to_dtype(image, torch.float32, scale=True), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
        border = [0, 0, CROP - w, CROP - h]
        return F.pad(image, border), F.pad(labels, border, fill=IGNORED)[0].long()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--set", default="train")
    parser.add_argument("--backend", choices=["tensor", "pil"], default="tensor")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(CamVid(given.folder, given.set, given.backend == "tensor"),
                                         batch_size=given.batch, shuffle=True, drop_last=True,
                                         num_workers=given.workers, prefetch_factor=4, persistent_workers=True)
    next(iter(loader))
    for _ in range(given.epochs):
        begin = time.perf_counter()
        count = sum(len(images) for images, _ in loader)
        seconds = time.perf_counter() - begin
        print(json.dumps({"workers": given.workers, "examples": count, "examples_per_second": count / seconds}),
              flush=True)


if __name__ == "__main__":
    main()
