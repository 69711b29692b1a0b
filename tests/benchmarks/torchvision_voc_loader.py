#!/usr/bin/env python3
"""The rival of attnlab_bench_loader on VOC's layout: PyTorch's DataLoader with torchvision's functions.

  torchvision_voc_loader.py FOLDER [--set train] [--size 512] [--batch N] [--workers N] [--epochs N]

A picture by its annotation, large-scale jitter (0.1 to 2 times the size, a random part of what is
larger), flip, normalisation, padding of the batch: examples a second, as JSON lines. The parts of
each picture are those of torchvision's reference training (references/detection); its boxes are
moved along.
"""
import argparse
import json
import random
import time
import xml.etree.ElementTree as ET

import torch
from PIL import Image
from torchvision.transforms import functional as F


class Voc(torch.utils.data.Dataset):
    def __init__(self, root, split, size):
        with open(f"{root}/ImageSets/Main/{split}.txt") as file:
            self.names = file.read().split()
        self.root, self.size, self.known = root, size, []
        for name in self.names:
            boxes = [[float(item.find("bndbox/" + edge).text) for edge in ("xmin", "ymin", "xmax", "ymax")]
                     for item in ET.parse(f"{root}/Annotations/{name}.xml").getroot().iter("object")]
            self.known.append(torch.tensor(boxes).reshape(-1, 4))

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        image = Image.open(f"{self.root}/JPEGImages/{self.names[index]}.jpg").convert("RGB")
        wide, high = image.size
        scale = self.size / max(wide, high) * random.uniform(0.1, 2)
        w, h = max(1, round(wide * scale)), max(1, round(high * scale))
        image = F.resize(image, [h, w])
        boxes = self.known[index] * scale
        part_w, part_h = min(w, self.size), min(h, self.size)
        left, top = random.randint(0, w - part_w), random.randint(0, h - part_h)
        if (part_w, part_h) != (w, h):
            image = F.crop(image, top, left, part_h, part_w)
        boxes = boxes - torch.tensor([left, top, left, top])
        boxes[:, 0::2].clamp_(0, part_w)
        boxes[:, 1::2].clamp_(0, part_h)
        boxes = boxes[((boxes[:, 2:] - boxes[:, :2]) > 0).all(1)]
        if random.random() < 0.5:
            image = F.hflip(image)
            boxes = torch.stack([part_w - boxes[:, 2], boxes[:, 1], part_w - boxes[:, 0], boxes[:, 3]], 1)
        image = F.normalize(F.to_tensor(image), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
        return image, boxes


def collate(examples):
    images, boxes = zip(*examples)
    high, wide = (max(image.shape[k] for image in images) for k in (1, 2))
    batch = torch.zeros(len(images), 3, high, wide)
    valid = torch.zeros(len(images), high, wide, dtype=torch.bool)
    for i, image in enumerate(images):
        batch[i, :, :image.shape[1], :image.shape[2]] = image
        valid[i, :image.shape[1], :image.shape[2]] = True
    return batch, valid, boxes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--set", default="train")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(Voc(given.folder, given.set, given.size), batch_size=given.batch,
                                         shuffle=True, drop_last=True, num_workers=given.workers,
                                         prefetch_factor=4, persistent_workers=True, collate_fn=collate)
    next(iter(loader))
    for _ in range(given.epochs):
        begin = time.perf_counter()
        count = sum(len(images) for images, _, _ in loader)
        seconds = time.perf_counter() - begin
        print(json.dumps({"workers": given.workers, "examples": count,
                          "examples_per_second": count / seconds}), flush=True)


if __name__ == "__main__":
    main()
