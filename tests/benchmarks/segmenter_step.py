#!/usr/bin/env python3
"""The rival: Segmenter (ViT-Ti/16, two layers of mask transformer, 150 classes) in PyTorch, tuned.

--model step: a training step on two pictures of 512 pixels: cross entropy with a tenth of the pixels unlabelled,
SGD with momentum. --model windows: the evaluation of a picture of 768 x 1024 pixels by windows of 512, 384 apart:
six windows in one batch, logits resized to a window's size and averaged, the class of each pixel, the counts of mIoU.
No dropout in either.

Serves a driver as vit_step.py does: "steps N" answers with N times in seconds. It is tuned in the same way.
Settings:
  env        variables that only a new process can take: instruction set, malloc, huge pages
  attention  bmm, matmul, or sdpa (fused, PyTorch 2.x)
  embed      patches by conv, conv_last (channels-last), or linear
  resize     logits for each pixel as they are, or last (channels-last)
  optimiser  loop, foreach, or fused (PyTorch 2.4 and later); of step
  grads      none (freed between steps) or zero; of step
  compile    torch.compile of the model with the resize (PyTorch 2.x)
"""
import os
import time

import vit_step
from vit_step import DEPTH, DIM, PATCH

CLASSES, BATCH, SIDE, HEIGHT, WIDTH, STRIDE, IGNORED = 150, 2, 512, 768, 1024, 384, -1

BASE = {"env": {}, "attention": "bmm", "embed": "conv", "resize": "plain", "optimiser": "foreach", "grads": "none",
        "compile": False}
CANDIDATES = [
    ("env", [vit_step.KEEP_HEAP]),
    ("env", [vit_step.HUGE_PAGES]),
    ("env", [{vit_step.ISA: "avx512"}, {vit_step.ISA: "avx2"}]),
    ("attention", ["matmul", "sdpa"]),
    ("embed", ["conv_last", "linear"]),
    ("resize", ["last"]),
    ("compile", [True]),
]
OF_STEPS = [("optimiser", ["loop", "fused"]), ("grads", ["zero"])]


def make_model(torch, settings):
    """Images [B, 3, 512, 512] to logits of the same size [B, 150, 512, 512]."""
    nn, functional = torch.nn, torch.nn.functional
    block = vit_step.make_block(torch, settings["attention"])
    patches = vit_step.make_patches(torch, settings["embed"])
    side = SIDE // PATCH

    def normal(*shape):
        return nn.Parameter(nn.init.trunc_normal_(torch.empty(shape), std=0.02))

    class Segmenter(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.token, self.positions = patches(), normal(1, 1, DIM), normal(1, side * side + 1, DIM)
            self.blocks = nn.Sequential(*[block(1e-5) for _ in range(DEPTH)])
            self.norm, self.input, self.classes = nn.LayerNorm(DIM), nn.Linear(DIM, DIM), normal(1, CLASSES, DIM)
            self.decoder = nn.Sequential(*[block(1e-5) for _ in range(2)], nn.LayerNorm(DIM))
            self.of_patches, self.of_classes = (nn.Parameter(torch.randn(DIM, DIM) / DIM**0.5) for _ in range(2))
            self.mask_norm = nn.LayerNorm(CLASSES)
            vit_step.initialise(torch, self)

        def forward(self, images):
            x = self.embed(images)
            x = torch.cat([self.token.expand(x.size(0), -1, -1), x], 1) + self.positions
            x = self.input(self.norm(self.blocks(x))[:, 1:])
            y = self.decoder(torch.cat([x, self.classes.expand(x.size(0), -1, -1)], 1))
            masks = functional.normalize(y[:, :-CLASSES] @ self.of_patches, dim=-1)
            classes = functional.normalize(y[:, -CLASSES:] @ self.of_classes, dim=-1)
            masks = self.mask_norm(masks @ classes.transpose(1, 2)).view(x.size(0), side, side, CLASSES)
            masks = masks.permute(0, 3, 1, 2)  # channels-last, as it lies
            if settings["resize"] != "last":
                masks = masks.contiguous()
            return functional.interpolate(masks, (SIDE, SIDE), mode="bilinear", align_corners=False)

    return Segmenter()


def make_data(torch, size, height, width):
    """Images, and labels in squares of 16 pixels, a tenth of them without."""
    coarse = torch.randint(CLASSES, (size, height // 16, width // 16))
    coarse[torch.rand(coarse.shape) < 0.1] = IGNORED
    return (torch.randn(size, 3, height, width),
            coarse.repeat_interleave(16, 1).repeat_interleave(16, 2).contiguous())


def places(length):
    return [*range(0, length - SIDE, STRIDE), length - SIDE]


def make_evaluation(torch, forward, image, labels, last):
    corners = [(top, left) for top in places(HEIGHT) for left in places(WIDTH)]
    cells = CLASSES * CLASSES

    @torch.no_grad()
    def evaluate():
        start = time.perf_counter()
        windows = torch.stack([image[0, :, y:y + SIDE, x:x + SIDE] for y, x in corners])
        if last:
            windows = windows.contiguous(memory_format=torch.channels_last)
        logits = forward(windows)
        total, shown = torch.zeros(CLASSES, HEIGHT, WIDTH), torch.zeros(HEIGHT, WIDTH)
        for window, (y, x) in zip(logits, corners):
            total[:, y:y + SIDE, x:x + SIDE] += window
            shown[y:y + SIDE, x:x + SIDE] += 1
        answers, truth = (total / shown).argmax(0), labels[0]
        known = truth != IGNORED
        counts = torch.bincount(truth[known] * CLASSES + answers[known], minlength=cells).view(CLASSES, CLASSES)
        right = counts.diag().double()
        both = counts.sum(0) + counts.sum(1) - right
        miou = float((right[both > 0] / both[both > 0]).mean())
        seconds = time.perf_counter() - start
        if not 0 <= miou <= 1:
            raise RuntimeError("mIoU is not between 0 and 1: the evaluation is wrong")
        return seconds

    return evaluate


def make(what, settings, threads):
    import torch  # here, because the environment must be set before
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = make_model(torch, settings)
    last = settings["embed"] == "conv_last"
    if last:
        model = model.to(memory_format=torch.channels_last)
    forward = torch.compile(model) if settings["compile"] else model
    if what == "windows":
        model.eval()
        return make_evaluation(torch, forward, *make_data(torch, 1, HEIGHT, WIDTH), last)
    images, labels = make_data(torch, BATCH, SIDE, SIDE)
    if last:
        images = images.to(memory_format=torch.channels_last)
    how = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, **how[settings["optimiser"]])
    return vit_step.timed(torch, optimiser, settings["grads"] == "none",
                          lambda: torch.nn.functional.cross_entropy(forward(images), labels, ignore_index=IGNORED))


def main():
    parser = vit_step.parser_of(__doc__)
    parser.add_argument("--model", choices=["step", "windows"], default="step")
    arguments = parser.parse_args()
    candidates = CANDIDATES + (OF_STEPS if arguments.model == "step" else [])
    vit_step.run(arguments, [os.path.abspath(__file__), "--model", arguments.model], BASE, candidates,
                 lambda settings, threads: make(arguments.model, settings, threads))


if __name__ == "__main__":
    main()
