#!/usr/bin/env python3
"""Writes made-up photographs in ImageNet's layout and sizes, for attnlab_bench_loader.

  make_jpegs.py FOLDER [IMAGES]     (python3-pil, python3-numpy)

Smooth colours, edges and noise, at quality 90, as most of ImageNet: some 110 KB each at 500 x 375.
"""
import pathlib
import sys

import numpy
from PIL import Image


def photograph(random, height, width):
    small = random.integers(0, 256, (height // 25, width // 25, 3), dtype=numpy.uint8)
    image = numpy.asarray(Image.fromarray(small).resize((width, height), Image.BICUBIC)).astype(float)
    for _ in range(12):
        y, x = random.integers(0, height), random.integers(0, width)
        image[y:y + height // 4, x:x + width // 4] += random.normal(0, 40, 3)
    image += random.normal(0, 9, image.shape)
    return Image.fromarray(image.clip(0, 255).astype(numpy.uint8))


def main():
    folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    random = numpy.random.default_rng(0)
    for i in range(count + count // 10):
        split = "train" if i < count else "val"
        place = folder / split / f"class{i % 10}"
        place.mkdir(parents=True, exist_ok=True)
        height, width = (375, 500) if i % 4 else (500, 375)
        photograph(random, height, width).save(place / f"{i:06d}.JPEG", quality=90)


if __name__ == "__main__":
    main()
