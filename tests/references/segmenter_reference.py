#!/usr/bin/env python3
"""Segmenter against a plain PyTorch form of it: log-probabilities of classes at single pixels, within 1e-4.

  PYTHONPATH=python /usr/bin/python3 tests/references/segmenter_reference.py

The form below is written from Strudel et al., Segmenter, ICCV 2021, section 3, in float64; its parameters have the
names of the paper's public code (rstrudel/segmenter) and random numbers. The program reads them as a safetensors file
by `init.map: segmenter`, and trains with a learning rate of 0 on pictures of which one pixel each has a label: a step's
loss is minus the log-probability of that pixel's class. An epoch shows the pictures in an order that is drawn, so
losses are compared in order of their size. Both decoders, and pictures of another size than that of the positions.

It needs the Python that attnlab was built with, `attnlab` on PATH, PyTorch and NumPy.
"""
import json
import struct
import sys
import tempfile
import zlib
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import attnlab

BOUND = 1e-4
DIM, DEPTH, HEADS, PATCH, SIDE, CLASSES = 48, 3, 4, 8, 32, 11
PIXELS = 40  # that are asked about, each of one class
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
random = torch.Generator().manual_seed(11)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, DIM // HEADS)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) / (DIM // HEADS)**0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        return self.fc2(functional.gelu(self.fc1(x)))


class Block(nn.Module):
    """z = z + MSA(LN(z)), z = z + MLP(LN(z))"""

    def __init__(self):
        super().__init__()
        self.norm1, self.attn, self.norm2, self.mlp = nn.LayerNorm(DIM), Attention(), nn.LayerNorm(DIM), Mlp()

    def forward(self, z):
        z = z + self.attn(self.norm1(z))
        return z + self.mlp(self.norm2(z))


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(3, DIM, PATCH, PATCH)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = PatchEmbed()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, DIM))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + (SIDE // PATCH)**2, DIM))
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(DIM)

    def positions(self, rows, columns):
        """Those of a square of patches, as those of another grid."""
        own = SIDE // PATCH
        grid = self.pos_embed[:, 1:].transpose(1, 2).unflatten(2, (own, own))
        grid = functional.interpolate(grid, (rows, columns), mode="bilinear", align_corners=False)
        return torch.cat([self.pos_embed[:, :1], grid.flatten(2).transpose(1, 2)], 1)

    def forward(self, x):
        patches = self.patch_embed(x)
        z = torch.cat([self.cls_token.expand(len(x), -1, -1), patches], 1)
        z = z + self.positions(x.shape[2] // PATCH, x.shape[3] // PATCH)
        for block in self.blocks:
            z = block(z)
        return self.norm(z)[:, 1:]


class MaskDecoder(nn.Module):
    """unit(z P) unit(c C)^T of patches z and classes c behind two blocks, and a norm over classes."""

    def __init__(self):
        super().__init__()
        self.proj_dec = nn.Linear(DIM, DIM)
        self.cls_emb = nn.Parameter(torch.zeros(1, CLASSES, DIM))
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.decoder_norm, self.mask_norm = nn.LayerNorm(DIM), nn.LayerNorm(CLASSES)
        self.proj_patch, self.proj_classes = (nn.Parameter(torch.zeros(DIM, DIM)) for _ in range(2))

    def forward(self, z):
        both = torch.cat([self.proj_dec(z), self.cls_emb.expand(len(z), -1, -1)], 1)
        for block in self.blocks:
            both = block(both)
        patches, classes = self.decoder_norm(both).split([z.shape[1], CLASSES], 1)
        patches, classes = patches @ self.proj_patch, classes @ self.proj_classes
        patches, classes = (x / x.norm(dim=-1, keepdim=True) for x in (patches, classes))
        return self.mask_norm(patches @ classes.transpose(1, 2))


class LinearDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(DIM, CLASSES)

    def forward(self, z):
        return self.head(z)


class Segmenter(nn.Module):
    def __init__(self, decoder):
        super().__init__()
        self.encoder, self.decoder = Encoder(), MaskDecoder() if decoder == "mask" else LinearDecoder()
        self.double().eval()
        for name, x in self.named_parameters():
            norm = "norm" in name
            noise = torch.randn(x.shape, generator=random, dtype=torch.float64)
            deviation = 0.3 if norm or x.dim() == 1 else 0.5 if name.endswith(("cls_token", "pos_embed", "cls_emb")) \
                else 1.5 / x[0].numel()**0.5
            x.data = (noise * deviation + (norm and name.endswith("weight"))).float().double()

    def forward(self, x):
        """Logits [B, K, H, W]."""
        rows, columns = (side // PATCH for side in x.shape[2:])
        masks = self.decoder(self.encoder(x)).transpose(1, 2).unflatten(2, (rows, columns))
        return functional.interpolate(masks, x.shape[2:], mode="bilinear", align_corners=False)


def save_safetensors(path, tensors):
    header, body = {}, b""
    for name, x in tensors.items():
        data = x.detach().float().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def save_png(path, pixels):
    """@param pixels  [H, W, 3] or [H, W] bytes"""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + pixels[y].numpy().tobytes() for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2 if pixels.dim() == 3 else 0, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) +
                     chunk(b"IEND", b""))


def write_pictures(folder, height, width):
    """In CamVid's layout. @returns normalised pictures, and of each the pixel and the class that are asked about."""
    pictures, asked = [], []
    for number in range(PIXELS + 1):  # the last one is the test set, which is not compared
        picture = torch.randint(256, (height, width, 3), generator=random, dtype=torch.uint8)
        y, x, k = (int(torch.randint(most, (), generator=random)) for most in (height, width, CLASSES))
        labels = torch.full((height, width), CLASSES, dtype=torch.uint8)
        labels[y, x] = k
        split = "train" if number < PIXELS else "test"
        save_png(folder / split / f"{number}.png", picture)
        save_png(folder / f"{split}annot" / f"{number}.png", labels)
        with (folder / f"{split}.txt").open("a") as listed:
            listed.write(f"{split}/{number}.png {split}annot/{number}.png\n")
        if number < PIXELS:
            pictures.append((picture.double() / 255 - torch.tensor(MEAN).double()) / torch.tensor(STD).double())
            asked.append((y, x, k))
    return torch.stack(pictures).permute(0, 3, 1, 2), asked


def losses_here(model, pictures, asked):
    with torch.no_grad():
        shares = model(pictures).log_softmax(1)
    return torch.tensor([-float(shares[i, k, y, x]) for i, (y, x, k) in enumerate(asked)], dtype=torch.float64)


def losses_of_attnlab(folder, decoder):
    experiment = {
        "name": "reference", "schema": 1, "attention": {"use": "standard"},
        "model": {"use": "segmenter", "dim": DIM, "depth": DEPTH, "heads": HEADS, "patch_size": PATCH, "size": SIDE,
                  "decoder": decoder},
        "task": {"use": "semantic_segmentation"},
        "dataset": {"use": "camvid", "root": str(folder), "validation_set": "", "absent": "keep", "mean": list(MEAN),
                    "std": list(STD)},
        "init": {"from": str(folder / "weights.safetensors"), "map": "segmenter"},
        "train": {"epochs": 1, "batch_size": 1, "eval_batch_size": 1, "threads": 1, "log_every": 1,
                  "optimizer": {"lr": 0}}}
    with tempfile.TemporaryDirectory() as out:
        run = attnlab.run(experiment, seeds=[0], out=out, progress=False)[0]
        return torch.tensor([line["loss"] for line in run.lines("train")], dtype=torch.float64)


def main():
    failed = False
    for decoder in ("mask", "linear"):
        for height, width in ((SIDE, SIDE), (SIDE, SIDE + 2 * PATCH)):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                model = Segmenter(decoder)
                save_safetensors(folder / "weights.safetensors", dict(model.named_parameters()))
                expected = losses_here(model, *write_pictures(folder, height, width)).sort().values
                found = losses_of_attnlab(folder, decoder).sort().values
            if found.shape != expected.shape:
                raise SystemExit(f"{len(found)} losses, expected {len(expected)}")
            difference = float((found - expected).abs().max())
            right = difference <= BOUND  # (a NaN is not)
            failed = failed or not right
            print(f"{decoder:6}  {height} x {width}  {float(expected.min()):.3f} to {float(expected.max()):.3f}  "
                  f"{difference:.1e}{'' if right else '  DIFFERS'}")
    return 1 if failed else 0


sys.exit(main())
