#!/usr/bin/env python3
"""What the libraries that ImageNet-C's code calls make of one picture: the numbers in
tests/unit/data/image/corruption_test.cpp.

  apt-get install python3-skimage python3-pil; /usr/bin/python3 tests/references/corruptions.py
"""
import io

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter, map_coordinates, zoom
from skimage.color import hsv2rgb, rgb2hsv

SIZE = 32


def picture():
    return np.array([[[(9 * y + 5 * x + 60 * c + x * y * (c + 1) // 3 + 40 * ((x // 4 + y // 5) % 2)) % 256
                       for c in range(3)] for x in range(SIZE)] for y in range(SIZE)], dtype=np.uint8)


def cut(x):
    return np.uint8(np.clip(x, 0, 1) * 255)


def in_hsv(x, channel, factor, addition):
    hsv = rgb2hsv(x)
    hsv[..., channel] = np.clip(hsv[..., channel] * factor + addition, 0, 1)
    return hsv2rgb(hsv)


def zoomed(x, factor):
    part = int(np.ceil(SIZE / factor))
    top = (SIZE - part) // 2
    large = zoom(x[top:top + part, top:top + part], (factor, factor, 1), order=1)
    trim = (large.shape[0] - SIZE) // 2
    return large[trim:trim + SIZE, trim:trim + SIZE]


def zoom_blur(x, factors):
    return (x + sum(zoomed(x, factor) for factor in factors)) / (len(factors) + 1)


def through_file(image, quality):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return np.array(Image.open(file))


def pixelate(image, factor):
    small = Image.fromarray(image).resize((int(SIZE * factor),) * 2, Image.BOX)
    return np.array(small.resize((SIZE, SIZE), Image.BOX))


def plasma(size, decay):
    grid, step, wibble = np.zeros((size, size)), size, 100
    while step >= 2:
        half = step // 2
        for top, left, square in ((half, half, True), (0, half, False), (half, 0, False)):
            for y in range(top, size, step):
                for x in range(left, size, step):
                    places = ([(y + a, x + b) for a in (-half, half) for b in (-half, half)] if square else
                              [(y - half, x), (y + half, x), (y, x - half), (y, x + half)])
                    mean = sum(grid[a % size, b % size] for a, b in places) / 4
                    grid[y, x] = mean + wibble * np.random.uniform(-wibble, wibble)
        step //= 2
        wibble /= decay
    grid -= grid.min()
    return grid / grid.max()


def waved(x):
    y, at, channel = np.meshgrid(np.arange(SIZE), np.arange(SIZE), np.arange(3), indexing="ij")
    return map_coordinates(x, [y + 3 * np.sin(at / 3), at + 4 * np.cos(y / 4), channel], order=1, mode="reflect")


def main():
    image = picture()
    x = image / 255.
    np.random.seed(0)
    for number in range(70):
        cloud = plasma(SIZE, 2)
        if number in (0, 69):
            print(f"cloud {number}: {cloud[16, 3:9].tolist()}, sum {cloud.sum()}")
    changes = {
        "gaussian_blur": cut(gaussian_filter(x, (1.4, 1.4, 0), mode="nearest")),
        "zoom_blur": cut(zoom_blur(x, np.arange(1, 1.11, .01))),
        "contrast": cut((x - x.mean((0, 1))) * .3 + x.mean((0, 1))),
        "brightness": cut(in_hsv(x, 2, 1, .3)),
        "saturate less": cut(in_hsv(x, 1, .3, 0)),
        "saturate more": cut(in_hsv(x, 1, 2, .1)),
        "waved": cut(waved(x)),
        "pixelate 0.6": pixelate(image, .6),
        "pixelate 0.85": pixelate(image, .85),
        "jpeg 80": through_file(image, 80),
        "jpeg 10": through_file(image, 10),
    }
    for name, changed in changes.items():
        middle = changed[SIZE // 2].ravel()[:24]
        print(f'{{"{name}", {changed.sum(dtype=int)}, {{{", ".join(map(str, middle))}}}}},')


if __name__ == "__main__":
    main()
