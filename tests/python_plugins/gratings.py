"""The twin of synthetic_images: the same random numbers, so the same pictures."""
import math

import numpy

ALL = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
SPLITS = ("train", "validation", "test")


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & ALL
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & ALL
    return z ^ (z >> 31)


def named(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & ALL
    return value


class Stream:
    def __init__(self, seed, *parts):
        self.state = mix((seed + GOLDEN) & ALL)
        for part in parts:
            self.state = mix(((self.state ^ part) + GOLDEN) & ALL)

    def draw(self):
        self.state = (self.state + GOLDEN) & ALL
        return mix(self.state)

    def uniform(self):
        return (self.draw() >> 11) * 2.0**-53


class Gratings:
    """Oriented gratings under noise."""

    fields = {"image": ([1, 28, 28], "float32"), "class": None}

    def __init__(self, split, seed, train: int = 64, test: int = 32, classes: int = 10):
        self.split, self.seed, self.classes = SPLITS.index(split), seed, classes
        self.count = (train, 0, test)[self.split]

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        stream = Stream(self.seed, named("synthetic"), self.split, index)
        label = stream.draw() % self.classes  # 2^64 mod 10 draws would be refused: none is so small
        angle, wave = math.pi * label / self.classes, 2 * math.pi * 3 / 28
        dx = 1.5 * (2 * stream.uniform() - 1) - 14
        dy = 1.5 * (2 * stream.uniform() - 1) - 14
        image = numpy.empty((1, 28, 28))
        for y in range(28):
            for x in range(28):
                place = wave * ((x + dx) * math.cos(angle) + (y + dy) * math.sin(angle))
                image[0, y, x] = math.sin(place) + 0.5 * math.sqrt(12) * (stream.uniform() - 0.5)
        return {"image": image.astype("float32"), "class": label}
