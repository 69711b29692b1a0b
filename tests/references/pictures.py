#!/usr/bin/env python3
"""What Pillow and torchvision make of one picture: the numbers in tests/unit/data/image/pictures_test.cpp.

  apt-get install python3-torchvision; /usr/bin/python3 tests/references/pictures.py
"""
import PIL
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

HEIGHT, WIDTH = 20, 26


def picture():
    pixels = bytes((9 * y + 5 * x + 60 * c + (x * y * (c + 1)) // 3 + 40 * ((x // 4 + y // 5) % 2)) % 256
                   for y in range(HEIGHT) for x in range(WIDTH) for c in range(3))
    return Image.frombytes("RGB", (WIDTH, HEIGHT), pixels)


def fingerprint(image):
    """FNV-1a, 64 bits: framework/base/files.h."""
    value = 0xCBF29CE484222325
    for byte in image.tobytes():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def affine(image, coefficients, sampling):
    return image.transform(image.size, Image.AFFINE, coefficients, sampling, fillcolor=(10, 20, 30))


def exact(image):
    """Operations whose bytes must be the same."""
    yield "brightness 1.9", ImageEnhance.Brightness(image).enhance(1.9)
    yield "brightness 0.3", ImageEnhance.Brightness(image).enhance(0.3)
    yield "contrast 1.5", ImageEnhance.Contrast(image).enhance(1.5)
    yield "contrast 0.1", ImageEnhance.Contrast(image).enhance(0.1)
    yield "saturation 1.7", ImageEnhance.Color(image).enhance(1.7)
    yield "saturation 0.4", ImageEnhance.Color(image).enhance(0.4)
    yield "sharpness 1.9", ImageEnhance.Sharpness(image).enhance(1.9)
    yield "sharpness 0.1", ImageEnhance.Sharpness(image).enhance(0.1)
    yield "invert", ImageOps.invert(image)
    yield "posterise 3", ImageOps.posterize(image, 3)
    yield "solarise 100", ImageOps.solarize(image, 100)
    yield "equalise", ImageOps.equalize(image)
    yield "autocontrast", ImageOps.autocontrast(image.point(lambda v: 60 + v // 2))
    yield "grey", image.convert("L").convert("RGB")
    yield "shift nearest", affine(image, (1, 0, 3.4, 0, 1, -2.2), Image.NEAREST)
    yield "rotation nearest", image.rotate(21, Image.NEAREST, fillcolor=(10, 20, 30))


def near(image):
    """Operations that round at other places: their bytes may differ by 1."""
    yield "shear bicubic", affine(image, (1, 0.3, 0, 0, 1, 0), Image.BICUBIC)
    yield "rotation bicubic", image.rotate(-13, Image.BICUBIC, fillcolor=(10, 20, 30))
    yield "smaller bicubic", image.crop((3, 2, 24, 19)).resize((7, 6), Image.BICUBIC)
    yield "larger bicubic", image.crop((3, 2, 13, 9)).resize((15, 11), Image.BICUBIC)
    yield "smaller bilinear", image.resize((9, 5), Image.BILINEAR)


def main():
    image = picture()
    print(f"// Pillow {PIL.__version__}")
    print(f"picture {fingerprint(image):#x}")
    for name, changed in exact(image):
        print(f'{{"{name}", {fingerprint(changed):#x}}},')
    for name, changed in near(image):
        data = changed.tobytes()
        row = changed.width * 3
        middle = data[changed.height // 2 * row:][:row]
        print(f'{{"{name}", {sum(data)}, {{{", ".join(str(v) for v in middle)}}}}},')


if __name__ == "__main__":
    main()
