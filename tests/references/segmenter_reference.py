#!/usr/bin/env python3
"""Segmenter against its public code, or a plain PyTorch form: log-probabilities of classes at single pixels, within
1e-4.

  PYTHONPATH=python tests/references/segmenter_reference.py [--reference FOLDER]

FOLDER holds rstrudel/segmenter at commit 20d1bfad354165ee45c3f65972a4d9c131f58d53; nothing of it is in this
repository. Its VisionTransformer, DecoderLinear, MaskTransformer and Segmenter are compared then, and its `inference`
by sliding windows: a run whose test labels are that function's answers must have an accuracy of 1, but for pixels
where two classes are nearly alike. It needs timm. Without FOLDER the form below is compared.

The form is written from Strudel et al., Segmenter, ICCV 2021, section 3, in float64; its parameters have the
names of the paper's public code (rstrudel/segmenter) and random numbers. The program reads them as a safetensors file
by `init.map: segmenter`, and trains with a learning rate of 0 on pictures of which one pixel each has a label: a step's
loss is minus the log-probability of that pixel's class. An epoch shows the pictures in an order that is drawn, so
losses are compared in order of their size. Both decoders, and pictures of another size than that of the positions.

It needs `attnlab` on PATH, PyTorch and NumPy.
"""
import argparse
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

COMMIT = "20d1bfad354165ee45c3f65972a4d9c131f58d53"
BOUND = 1e-4
UNSURE = 1e-3  # share of pixels where two classes may be nearly alike
STRIDE = 24  # of windows
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

    def forward(self, x):
        """Logits [B, K, H, W]."""
        rows, columns = (side // PATCH for side in x.shape[2:])
        masks = self.decoder(self.encoder(x)).transpose(1, 2).unflatten(2, (rows, columns))
        return functional.interpolate(masks, x.shape[2:], mode="bilinear", align_corners=False)


def public_segmenter(decoder):
    """The same of the public code."""
    from segm.model.decoder import DecoderLinear, MaskTransformer
    from segm.model.segmenter import Segmenter as Public
    from segm.model.vit import VisionTransformer
    encoder = VisionTransformer((SIDE, SIDE), PATCH, DEPTH, DIM, 4 * DIM, HEADS, n_cls=1, dropout=0)
    head = (DecoderLinear(CLASSES, PATCH, DIM) if decoder == "linear" else
            MaskTransformer(CLASSES, PATCH, DIM, n_layers=2, n_heads=HEADS, d_model=DIM, d_ff=4 * DIM,
                            drop_path_rate=0, dropout=0))
    return Public(encoder, head, CLASSES)


def with_random_numbers(model):
    model.double().eval()
    for name, x in model.named_parameters():
        norm = "norm" in name
        noise = torch.randn(x.shape, generator=random, dtype=torch.float64)
        deviation = 0.3 if norm or x.dim() == 1 else 0.5 if name.endswith(("cls_token", "pos_embed", "cls_emb")) \
            else 1.5 / x[0].numel()**0.5
        x.data = (noise * deviation + (norm and name.endswith("weight"))).float().double()
    return model


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


def run_of_attnlab(folder, decoder, out, **task):
    experiment = {
        "name": "reference", "schema": 1, "attention": {"use": "standard"},
        "model": {"use": "segmenter", "dim": DIM, "depth": DEPTH, "heads": HEADS, "patch_size": PATCH, "size": SIDE,
                  "decoder": decoder},
        "task": {"use": "semantic_segmentation", **task},
        "dataset": {"use": "camvid", "root": str(folder), "validation_set": "", "absent": "keep", "mean": list(MEAN),
                    "std": list(STD)},
        "init": {"from": str(folder / "weights.safetensors"), "map": "segmenter"},
        "train": {"epochs": 1, "batch_size": 1, "eval_batch_size": 1, "threads": 1, "log_every": 1,
                  "optimizer": {"lr": 0}}}
    return attnlab.run(experiment, seeds=[0], out=out, progress=False)[0]


def losses_of_attnlab(folder, decoder):
    with tempfile.TemporaryDirectory() as out:
        lines = run_of_attnlab(folder, decoder, out).lines("train")
        return torch.tensor([line["loss"] for line in lines], dtype=torch.float64)


def wrong_answers(folder, decoder, model, height, width):
    """The share of pixels to which the public code's sliding windows give another class."""
    from segm.model.utils import inference
    (folder / "test.txt").unlink()
    for number in range(3):
        picture = torch.randint(256, (height, width, 3), generator=random, dtype=torch.uint8)
        x = ((picture.double() / 255 - torch.tensor(MEAN).double()) / torch.tensor(STD).double()).permute(2, 0, 1)
        answers = inference(model.float(), [x.float().unsqueeze(0)], [{"flip": False}], (height, width), SIDE, STRIDE,
                            batch_size=4)
        save_png(folder / "test" / f"{number}.png", picture)
        save_png(folder / "testannot" / f"{number}.png", answers.argmax(0).to(torch.uint8))
        with (folder / "test.txt").open("a") as listed:
            listed.write(f"test/{number}.png testannot/{number}.png\n")
    with tempfile.TemporaryDirectory() as out:
        return 1 - run_of_attnlab(folder, decoder, out, window=SIDE, stride=STRIDE).metrics["accuracy"]


def told(what, text, right):
    print(f"{what}  {text}{'' if right else '  DIFFERS'}", flush=True)
    return right


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reference", type=Path, help=f"rstrudel/segmenter at commit {COMMIT}")
    reference = parser.parse_args().reference
    if reference:
        sys.path.insert(0, str(reference.resolve()))
    print(f"against {f'rstrudel/segmenter {COMMIT[:8]}' if reference else 'the form of this file'}, "
          f"PyTorch {torch.__version__}: losses, and the largest difference")
    right = True
    for decoder in ("mask", "linear"):
        for height, width in ((SIDE, SIDE), (SIDE, SIDE + 2 * PATCH)):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                model = with_random_numbers(public_segmenter(decoder) if reference else Segmenter(decoder))
                save_safetensors(folder / "weights.safetensors", dict(model.named_parameters()))
                expected = losses_here(model, *write_pictures(folder, height, width)).sort().values
                found = losses_of_attnlab(folder, decoder).sort().values
                if found.shape != expected.shape:
                    raise SystemExit(f"{len(found)} losses, expected {len(expected)}")
                difference = float((found - expected).abs().max())
                right &= told(f"{decoder:6}  {height} x {width}", f"{float(expected.min()):.3f} to "
                              f"{float(expected.max()):.3f}  {difference:.1e}", difference <= BOUND)  # (a NaN is not)
                if reference and width > height:
                    wrong = wrong_answers(folder, decoder, model, height + 18, width + 33)
                    right &= told(f"{decoder:6}  {height + 18} x {width + 33} by windows",
                                  f"{100 * wrong:.3f} % of pixels of another class", wrong <= UNSURE)
    return 0 if right else 1


sys.exit(main())
