#!/usr/bin/env python3
"""The rival: iBOT's training step with ViT-Ti/16 in PyTorch, tuned as well as it can be on a CPU.

Batch 16, two global crops of 224 pixels and six local ones of 96, of each global crop 58 of 196 patches hidden; a head
of 2048, 2048 and 256 channels and 8192 prototypes, shared by class tokens and patches; AdamW, gradients clipped at 3,
the teacher's mean. A step is the teacher on global crops, the student on all, both losses, backward, the update, the
centres, the mean. What need not be computed is not: only hidden patches go through the student's head and the
teacher's softmax, and centres come from the mean of tokens before the last, linear layer.

Serves a driver as vit_step.py does: "steps N" answers with N times in seconds. It is tuned in the same way.
Settings:
  env        variables that only a new process can take: instruction set, malloc, huge pages
  attention  bmm, matmul, or sdpa (fused, PyTorch 2.x)
  embed      patches by conv, conv_last (channels-last), or linear
  optimiser  loop, foreach, or fused (PyTorch 2.4 and later)
  mean       of the teacher: loop or foreach
  grads      none (freed between steps) or zero
  compile    torch.compile of both networks (PyTorch 2.x)
"""
import os
import time

import vit_step
from vit_step import DEPTH, DIM, PATCH

BATCH, GLOBAL, LOCAL, SIDE, LOCAL_SIDE, HIDDEN_PATCHES = 16, 2, 6, 224, 96, 58
PROTOTYPES, HIDDEN, BOTTLENECK = 8192, 2048, 256
STUDENT, TEACHER, MOMENTUM, DECAY, CLIP = 0.1, 0.07, 0.9, 0.996, 3.0

BASE = {"env": {}, "attention": "bmm", "embed": "conv", "optimiser": "foreach", "mean": "foreach", "grads": "none",
        "compile": False}
CANDIDATES = [
    ("env", [vit_step.KEEP_HEAP]),
    ("env", [vit_step.HUGE_PAGES]),
    ("env", [{vit_step.ISA: "avx512"}, {vit_step.ISA: "avx2"}]),
    ("attention", ["matmul", "sdpa"]),
    ("embed", ["conv_last", "linear"]),
    ("optimiser", ["loop", "fused"]),
    ("mean", ["loop"]),
    ("grads", ["zero"]),
    ("compile", [True]),
]


def make_network(torch, settings):
    """Images, and which patches are hidden or None, to tokens [B, 1 + N, DIM]; `head` and `prototypes` besides."""
    nn, functional = torch.nn, torch.nn.functional
    block = vit_step.make_block(torch, settings["attention"])
    patches = vit_step.make_patches(torch, settings["embed"])
    side = SIDE // PATCH

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.mask = patches(), nn.Parameter(torch.zeros(DIM))
            self.token, self.positions = (nn.Parameter(nn.init.trunc_normal_(torch.empty(shape), std=0.02))
                                          for shape in ((1, 1, DIM), (1, side * side + 1, DIM)))
            self.blocks, self.norm = nn.Sequential(*[block() for _ in range(DEPTH)]), nn.LayerNorm(DIM, eps=1e-6)
            self.head = nn.Sequential(nn.Linear(DIM, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN), nn.GELU(),
                                      nn.Linear(HIDDEN, BOTTLENECK))
            vit_step.initialise(torch, self)
            self.directions = nn.Parameter(torch.empty(PROTOTYPES, BOTTLENECK).uniform_(-1 / 16, 1 / 16))
            self.norms = nn.Parameter(torch.ones(PROTOTYPES, 1))

        def forward(self, images, hidden=None):
            x = self.embed(images)
            if hidden is not None:
                x = torch.where(hidden.unsqueeze(-1), self.mask, x)
            x = torch.cat([self.token.expand(x.size(0), -1, -1), x], 1)
            own = images.shape[2] // PATCH
            positions = self.positions
            if own != side:
                grid = positions[:, 1:].transpose(1, 2).unflatten(2, (side, side))
                grid = functional.interpolate(grid, (own, own), mode="bicubic", align_corners=False)
                positions = torch.cat([positions[:, :1], grid.flatten(2).transpose(1, 2)], 1)
            return self.norm(self.blocks(x + positions))

        def points(self, tokens):
            return functional.normalize(self.head(tokens), dim=-1)

        def prototypes(self):
            return functional.normalize(self.directions, dim=-1) * self.norms

    return Network()


def make_step(settings, threads):
    """Builds everything; returns a function that runs one step and returns its seconds."""
    import torch  # here, because the environment must be set before
    functional = torch.nn.functional
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    student, teacher = (make_network(torch, settings) for _ in range(2))
    teacher.load_state_dict(student.state_dict())
    for x in teacher.parameters():
        x.requires_grad_(False)
    crops, local = (torch.randn(BATCH * count, 3, side, side)
                    for count, side in ((GLOBAL, SIDE), (LOCAL, LOCAL_SIDE)))
    patches = (SIDE // PATCH) ** 2
    hidden = torch.zeros(BATCH * GLOBAL, patches, dtype=torch.bool)
    for row in hidden:
        row[torch.randperm(patches)[:HIDDEN_PATCHES]] = True
    rows = hidden.flatten().nonzero().squeeze(1)
    if settings["embed"] == "conv_last":
        student, teacher, crops, local = (x.to(memory_format=torch.channels_last)
                                          for x in (student, teacher, crops, local))
    parameters = list(student.parameters())
    decayed = [x for x in parameters if x.dim() == 2 and x is not student.norms]
    exempt = [x for x in parameters if x.dim() != 2 or x is student.norms]
    how = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    optimiser = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.04}, {"params": exempt, "weight_decay": 0.0}],
                                  lr=5e-4, **how[settings["optimiser"]])
    means = list(teacher.parameters())
    centres = [torch.zeros(PROTOTYPES) for _ in range(2)]
    run_student, run_teacher = ((torch.compile(x) if settings["compile"] else x) for x in (student, teacher))

    @torch.no_grad()
    def told():
        tokens = run_teacher(crops)
        weights = teacher.prototypes()
        z = teacher.points(tokens)
        of_classes, of_patches = z[:, 0], z[:, 1:].reshape(-1, BOTTLENECK)
        p = ((of_classes @ weights.t() - centres[0]) / TEACHER).softmax(-1)
        q = ((of_patches[rows] @ weights.t() - centres[1]) / TEACHER).softmax(-1)
        means_now = torch.stack([of_classes.mean(0), of_patches.mean(0)]) @ weights.t()
        return p.view(BATCH, GLOBAL, -1), q, means_now

    def loss_of():
        p, q, now = told()
        tokens = run_student(crops, hidden)
        of_local = run_student(local)[:, 0]
        classes = torch.cat([tokens[:, 0].view(BATCH, GLOBAL, DIM), of_local.view(BATCH, LOCAL, DIM)], 1)
        z = student.points(torch.cat([classes.flatten(0, 1), tokens[:, 1:].reshape(-1, DIM)[rows]]))
        logits = z @ student.prototypes().t() / STUDENT
        shares = logits[:BATCH * (GLOBAL + LOCAL)].log_softmax(-1).view(BATCH, GLOBAL + LOCAL, -1)
        pairs = (p.sum(1) * shares.sum(1)).sum() - (p * shares[:, :GLOBAL]).sum()
        of_classes = -pairs / (BATCH * GLOBAL * (GLOBAL + LOCAL - 1))
        said = logits[BATCH * (GLOBAL + LOCAL):]
        of_patches = (said.logsumexp(-1) - (q * said).sum(-1)).mean()  # as many in each crop
        for centre, mean in zip(centres, now):
            centre.mul_(MOMENTUM).add_(mean, alpha=1 - MOMENTUM)
        return of_classes + of_patches

    step = vit_step.timed(torch, optimiser, settings["grads"] == "none", loss_of,
                          lambda: torch.nn.utils.clip_grad_norm_(parameters, CLIP))

    @torch.no_grad()
    def follow():
        start = time.perf_counter()
        if settings["mean"] == "foreach":
            torch._foreach_mul_(means, DECAY)
            torch._foreach_add_(means, parameters, alpha=1 - DECAY)
        else:
            for mean, x in zip(means, parameters):
                mean.mul_(DECAY).add_(x, alpha=1 - DECAY)
        return time.perf_counter() - start

    return lambda: step() + follow()


def main():
    vit_step.run(vit_step.parser_of(__doc__).parse_args(), [os.path.abspath(__file__)], BASE, CANDIDATES, make_step)


if __name__ == "__main__":
    main()
