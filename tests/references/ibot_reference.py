#!/usr/bin/env python3
"""iBOT against the modules of its public code: losses, gradients, centres within 1e-4; masks and crops as drawn.

  tests/references/ibot_reference.py --reference FOLDER --program build/release/bin/attnlab_ibot_answers

FOLDER holds bytedance/ibot at commit da316d82636a7a7356835ef224b13d5f3ace0489; nothing of it is in this repository.
Needs PyTorch, torchvision, timm and NumPy. Everything else that its scripts import is left out.

steps: its VisionTransformer, iBOTHead, MultiCropWrapper and iBOTLoss, a student and a teacher with random numbers,
over five steps of four epochs (the teacher's temperature rises, the centres follow). Both sides compute in float64
and begin with the same numbers, which travel as safetensors. Local crops have the size of the global ones: of
another size, that code resizes positions to a grid that is 0.1 cells larger, which docs/self_supervision.md lists.

draws: its ImageFolderMask and DataAugmentationiBOT with the arguments of its README for ViT-S, against
multi_crop's defaults. Both draw at random: of each number the largest distance between the two distributions
(Kolmogorov and Smirnov's) is printed, with the distance that equal ones exceed once in 100,000 times.

schedules are in tests/unit/train; the vMF normaliser is not in that code.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import types
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

COMMIT = "da316d82636a7a7356835ef224b13d5f3ace0489"
BOUND = 1e-4
DIM, DEPTH, HEADS, PATCH, SIDE = 48, 3, 4, 4, 16
PROTOTYPES, PATCH_PROTOTYPES, HIDDEN, BOTTLENECK = 40, 28, 64, 16
BATCH, GLOBAL, LOCAL = 3, 2, 3
EPOCHS, EPOCH_OF_STEP, WARM_EPOCHS = 5, [0, 0, 1, 2, 4], 3
TEMPERATURE, PATCH_TEMPERATURE = (0.04, 0.07), (0.05, 0.09)
DRAWS = 20000
#: The README's arguments for ViT-S, which --global_crops_scale and the others name.
GLOBAL_SCALE, LOCAL_SCALE, RATIO, SPREAD, ASPECT = (0.25, 1), (0.05, 0.25), [0.0, 0.3], [0.0, 0.2], (0.3, 1 / 0.3)
NAMES = [("cls_token", "class_token"), ("pos_embed", "positions"), ("masked_embed", "mask_token"),
         ("patch_embed.proj.", "patches."), ("blocks.", "layer"), (".norm1.", ".attention_norm."),
         (".attn.qkv.", ".attention.qkv."), (".attn.proj.", ".attention.output."), (".norm2.", ".mlp_norm."),
         (".mlp.fc1.", ".mlp.in."), (".mlp.fc2.", ".mlp.out.")]
HEAD_NAMES = [("mlp.0.", "head.first."), ("mlp.2.", "head.second."), ("mlp.4.", "head.third."),
              ("last_layer2.weight_v", "patch_last.directions"), ("last_layer2.weight_g", "patch_last.norms"),
              ("last_layer.weight_v", "last.directions"), ("last_layer.weight_g", "last.norms")]


def modules_of(folder):
    """Its modules, with empty ones for what they import and this does not call."""
    for name, inside in (("tensorboardX", "SummaryWriter"), ("evaluation", None), ("evaluation.unsupervised", None),
                         ("evaluation.unsupervised.unsup_cls", "eval_pred")):
        sys.modules[name] = types.ModuleType(name)
        if inside:
            setattr(sys.modules[name], inside, None)
    sys.path.insert(0, str(folder))
    import loader
    import main_ibot
    import utils
    from models.head import iBOTHead
    from models.vision_transformer import VisionTransformer
    return types.SimpleNamespace(loader=loader, main=main_ibot, utils=utils, Head=iBOTHead, Vit=VisionTransformer)


def save(path, tensors):
    from safetensors.torch import save_file
    save_file({name: x.detach().contiguous().clone() for name, x in tensors.items()}, str(path))


def load(path):
    from safetensors.torch import load_file
    return load_file(str(path))


def answers_of(program, words, given):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(folder / "given", given)
        command = [program, *words(folder), str(folder / "given"), str(folder / "answers")]
        subprocess.run(command, check=True)
        return load(folder / "answers")


# --- steps ---

def network(public, shared, norm_last, random, masked):
    """Its backbone and head as its training wraps them, with random numbers."""
    backbone = public.Vit(img_size=[SIDE], patch_size=PATCH, embed_dim=DIM, depth=DEPTH, num_heads=HEADS, mlp_ratio=4,
                          qkv_bias=True, norm_layer=partial(nn.LayerNorm, eps=1e-6), return_all_tokens=True,
                          masked_im_modeling=masked)
    head = public.Head(DIM, PROTOTYPES, patch_out_dim=PROTOTYPES if shared else PATCH_PROTOTYPES, act="gelu",
                       hidden_dim=HIDDEN, bottleneck_dim=BOTTLENECK, norm_last_layer=norm_last, shared_head=shared)
    wrapped = public.utils.MultiCropWrapper(backbone, head).double()
    with torch.no_grad():
        for name, x in wrapped.named_parameters():
            noise = torch.randn(x.shape, generator=random, dtype=torch.float64)
            if name.endswith("weight_g"):
                x.copy_(torch.ones_like(x) if norm_last else 1 + 0.3 * noise.abs())
            elif "norm" in name:
                x.copy_(0.3 * noise + name.endswith("weight"))
            else:
                x.copy_(noise * (0.2 if x.dim() == 1 else 0.5 if x.dim() == 3 or "embed" in name.split(".")[-1]
                                 else 1.5 / x[0].numel() ** 0.5))
    return wrapped


def our_names(wrapped, unit):
    """Its parameters by attnlab's names."""
    named = {}
    for prefix, module, names in (("", wrapped.backbone, NAMES), ("task.", wrapped.head, HEAD_NAMES)):
        for name, x in module.named_parameters():
            for old, new in names:
                name = name.replace(old, new)
            if not (unit and name.endswith("norms")):
                named[prefix + name] = x
    return named


def experiment(shared, unit):
    return {
        "schema": 1, "name": "reference", "attention": {"use": "standard"},
        "model": {"use": "vit", "dim": DIM, "depth": DEPTH, "heads": HEADS, "patch_size": PATCH, "mask_token": True},
        "task": {"use": "ibot", "prototypes": PROTOTYPES, "patch_prototypes": PATCH_PROTOTYPES, "hidden": HIDDEN,
                 "bottleneck": BOTTLENECK, "shared_head": shared, "last_layer": "unit" if unit else "free",
                 "temperature": list(TEMPERATURE), "patch_temperature": list(PATCH_TEMPERATURE),
                 "temperature_epochs": WARM_EPOCHS, "centre_momentum": 0.9, "patch_centre_momentum": 0.8},
        "dataset": {"use": "synthetic_images", "size": SIDE, "channels": 3, "train": BATCH, "test": BATCH,
                    "multi_crop": {"global_crops": GLOBAL, "local_crops": LOCAL, "local_size": SIDE,
                                   "patch_size": PATCH}},
        "train": {"epochs": EPOCHS, "batch_size": BATCH, "average": {"decay": 0.996, "end": 1}, "threads": 1}}


def by_example(crops):
    """[crops][B, ...] as attnlab has it: an example's crops one after the other, [B crops, ...]."""
    return torch.stack(crops, 1).flatten(0, 1)


def compare_steps(public, program, shared, unit):
    random = torch.Generator().manual_seed(5)
    student, teacher = (network(public, shared, unit, random, masked) for masked in (True, False))
    loss = public.main.iBOTLoss(PROTOTYPES, PROTOTYPES if shared else PATCH_PROTOTYPES, GLOBAL, LOCAL, *TEMPERATURE,
                                *PATCH_TEMPERATURE, WARM_EPOCHS, EPOCHS, center_momentum=0.9,
                                center_momentum2=0.8).double()
    given = {f"student.{name}": x for name, x in our_names(student, unit).items()}
    given.update({f"teacher.{name}": x for name, x in our_names(teacher, unit).items()})
    given["teacher.mask_token"] = torch.zeros(1, 1, DIM, dtype=torch.float64)  # nothing is hidden from it
    given["epoch"] = torch.tensor(EPOCH_OF_STEP)
    expected = {name: [] for name in ("class", "patch", "centre", "patch_centre")}
    steps = {name: [] for name in ("crop@global", "crop@local", "masked@global")}
    grid = SIDE // PATCH
    for number, epoch in enumerate(EPOCH_OF_STEP):
        images = [torch.randn(BATCH, 3, SIDE, SIDE, generator=random, dtype=torch.float64)
                  for _ in range(GLOBAL + LOCAL)]
        masks = [torch.rand(BATCH, grid, grid, generator=random) < 0.4 for _ in range(GLOBAL)]
        masks[0][0] = False  # a crop without hidden patches
        with torch.no_grad():
            told = teacher(images[:GLOBAL])
        student.backbone.masked_im_modeling = True
        said = student(images[:GLOBAL], mask=masks)
        student.backbone.masked_im_modeling = False
        local = student(images[GLOBAL:])[0]
        parts = loss(said, told, local, masks, epoch)
        if number == 0:
            parts["loss"].backward()
        for name, x in (("class", parts["cls"]), ("patch", parts["patch"]), ("centre", loss.center.flatten()),
                        ("patch_centre", loss.center2.flatten())):
            expected[name].append(x.detach().clone())
        for name, x in (("crop@global", by_example(images[:GLOBAL])), ("crop@local", by_example(images[GLOBAL:])),
                        ("masked@global", by_example(masks).flatten(1))):
            steps[name].append(x)
    given.update({name: torch.stack(x) for name, x in steps.items()})
    expected = {name: torch.stack(x) for name, x in expected.items()}
    for name, x in our_names(student, unit).items():
        if x.grad is not None:
            expected[f"gradient.{name}"] = x.grad

    def words(folder):
        (folder / "experiment.yaml").write_text(json.dumps(experiment(shared, unit)))  # (JSON is YAML)
        return ["steps", str(folder / "experiment.yaml")]

    found = answers_of(program, words, given)
    if found.keys() != expected.keys():
        raise SystemExit(f"one side alone has {sorted(found.keys() ^ expected.keys())}")
    largest = {}
    for name, x in expected.items():
        scale = max(1.0, float(x.abs().max()))
        difference = float((found[name].reshape(x.shape) - x).abs().max()) / scale
        kind = "gradients" if name.startswith("gradient.") else name
        largest[kind] = max(largest.get(kind, 0.0), difference if difference == difference else math.inf)
    what = f"{'one head' if shared else 'two heads'}, prototypes {'of norm 1' if unit else 'of any norm'}"
    print(f"{what}: {len(expected) - 4} gradients, losses {float(expected['class'][0]):.3f} and "
          f"{float(expected['patch'][0]):.3f} at first")
    right = True
    for kind, difference in largest.items():
        right = right and difference <= BOUND
        print(f"  {kind:<13} {difference:.1e}{'' if difference <= BOUND else '  DIFFERS'}")
    return right


# --- draws ---

def picture():
    """[H, W, 3] bytes of coloured waves and noise, of no square."""
    y, x = np.mgrid[0:240, 0:320]
    noise = np.random.default_rng(3).integers(0, 60, (240, 320, 3))
    waves = np.stack([np.sin(x / 17) + np.cos(y / 29), np.sin((x + y) / 23), np.cos(x / 41) * np.sin(y / 13)], -1)
    return np.clip(100 + 55 * waves + noise, 0, 255).astype(np.uint8)


def measured(crop):
    """[7], as ibot_answers.cpp says."""
    flat = crop.flatten(1)
    return torch.cat([flat.mean(1), flat.std(1), (crop[:, :, 1:] - crop[:, :, :-1]).abs().mean().view(1)])


def masks_of(public, count):
    """2 N masks of 14 x 14 patches by its dataset, over a folder with one picture."""
    from PIL import Image
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "a").mkdir()
        Image.new("RGB", (14, 14)).save(Path(name) / "a" / "0.png")
        images = public.loader.ImageFolderMask(name, transform=lambda _: [torch.zeros(3, 14, 14)] * 2, patch_size=1,
                                               pred_ratio=RATIO, pred_ratio_var=SPREAD, pred_aspect_ratio=ASPECT)
        return torch.from_numpy(np.stack([mask for _ in range(count) for mask in images[0][2]])).flatten(1)


def drawn_there(public, count):
    import random

    from PIL import Image
    from torchvision import transforms
    random.seed(1)
    torch.manual_seed(1)
    np.random.seed(1)
    image = Image.fromarray(picture())

    def boxes(scale):
        return torch.tensor([transforms.RandomResizedCrop.get_params(image, scale, (3 / 4, 4 / 3))
                             for _ in range(count)])

    crops = public.main.DataAugmentationiBOT(GLOBAL_SCALE, LOCAL_SCALE, 2, 1)
    for pipeline in (crops.global_transfo1, crops.global_transfo2, crops.local_transfo):
        pipeline.transforms[-1].transforms = pipeline.transforms[-1].transforms[:1]  # ToTensor, not normalised
        if pipeline.transforms[0].ratio != (3 / 4, 4 / 3):
            raise SystemExit("its crops have another aspect than 3/4 to 4/3")
    out = {"boxes.global": boxes(GLOBAL_SCALE), "boxes.local": boxes(LOCAL_SCALE), "masks": masks_of(public, count)}
    pixels = [[measured(crop) for crop in crops(image)] for _ in range(count // 20)]
    for i, kind in enumerate(("first", "other", "local")):
        out[f"pixels.{kind}"] = torch.stack([row[i] for row in pixels])
    return out


def distance(a, b):
    """The largest difference of two empirical distributions, and what equal ones exceed once in 100,000 times."""
    a, b = (np.sort(x.double().numpy()) for x in (a, b))
    at = np.concatenate([a, b])
    apart = np.abs(np.searchsorted(a, at, "right") / len(a) - np.searchsorted(b, at, "right") / len(b)).max()
    return apart, math.sqrt(-math.log(1e-5 / 2) / 2 * (1 / len(a) + 1 / len(b)))


def numbers_of(drawn):
    """Name of a number to its values, one a draw."""
    for kind in ("global", "local"):
        box = drawn[f"boxes.{kind}"].double()
        for i, name in enumerate(("top", "left", "height", "width")):
            yield f"{kind} crop: {name}", box[:, i]
        yield f"{kind} crop: area", box[:, 2] * box[:, 3]
    masks = drawn["masks"].reshape(-1, 14, 14).bool()
    yield "masks: hidden patches", masks.sum((1, 2))
    yield "masks: pairs side by side", (masks[:, :, 1:] & masks[:, :, :-1]).sum((1, 2))
    yield "masks: pairs one below the other", (masks[:, 1:] & masks[:, :-1]).sum((1, 2))
    yield "masks: rows with a hidden patch", masks.any(2).sum(1)
    for kind in ("first", "other", "local"):
        for i, name in enumerate(("mean of red", "mean of green", "mean of blue", "deviation of red",
                                  "deviation of green", "deviation of blue", "mean slope")):
            yield f"pixels of {kind} crops: {name}", drawn[f"pixels.{kind}"][:, i]


def compare_draws(public, program):
    found = answers_of(program, lambda _: ["draws", str(DRAWS)], {"picture": torch.from_numpy(picture())})
    there = drawn_there(public, DRAWS)
    right = True
    print("distances of distributions, and their bounds")
    for (name, ours), (_, theirs) in zip(numbers_of(found), numbers_of(there)):
        apart, bound = distance(ours, theirs)
        right = right and apart <= bound
        print(f"  {name:<42} {apart:.4f} of {bound:.4f}{'' if apart <= bound else '  DIFFERS'}")
    ours, theirs = (x["masks"].reshape(-1, 196).double().mean(0) for x in (found, there))
    apart, bound = float((ours - theirs).abs().max()), 5 * float((2 * theirs * (1 - theirs) / (2 * DRAWS)).sqrt().max())
    right = right and apart <= bound
    print(f"  {'masks: how often each patch is hidden':<42} {apart:.4f} of {bound:.4f}"
          f"{'' if apart <= bound else '  DIFFERS'}")
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", required=True, type=Path, help=f"bytedance/ibot at commit {COMMIT}")
    parser.add_argument("--program", default="build/release/bin/attnlab_ibot_answers")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    public = modules_of(arguments.reference.resolve())
    print(f"against bytedance/ibot {COMMIT[:8]}, PyTorch {torch.__version__}")
    with tempfile.TemporaryDirectory() as name:
        torch.distributed.init_process_group("gloo", init_method=f"file://{name}/store", rank=0, world_size=1)
        right = [compare_steps(public, program, shared, unit) for shared, unit in
                 ((True, False), (False, True), (False, False))]
        torch.distributed.destroy_process_group()
    right.append(compare_draws(public, program))
    return 0 if all(right) else 1


sys.exit(main())
