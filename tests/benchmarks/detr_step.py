#!/usr/bin/env python3
"""The rival: training steps of a small IA-DETR on images of 256 pixels in PyTorch, tuned.

A batch is 4 images of 256 x 256 with prompts of 64 x 64, six objects each of the prompt's class and four
others. The model is configs/models/ia_detr_nano.yaml with 50 + 100 queries: Swin V2 nano to stride 16
(cosine logits, continuous bias, shifted windows of 4), proposals, three layers of indirect attention with
BoxRPB, look forward twice; Hungarian matching by SciPy, focal loss, L1 and GIoU; AdamW, gradients clipped
at 0.1.

Serves a driver as vit_step.py does: "steps N" answers with N times in seconds. It is tuned in the
same way. Settings:
  env        variables that only a new process can take: instruction set, malloc, huge pages
  attention  bmm, or sdpa (scaled_dot_product_attention with the bias as its mask; PyTorch 2.x)
  embed      conv (of patches), or linear over folded pixels
  bias       cached (windows' offsets and masks kept) or not
  optimiser  loop or foreach
  grads      none (freed between steps) or zero
  compile    torch.compile of the model (PyTorch 2.x)
"""
import math
import os

import torch_swin
import vit_step

BATCH, SIDE, PROMPT, OBJECTS, OTHERS = 4, 256, 64, 6, 4
DIM, HEADS, HIDDEN, DEPTH, ONES, MANY, BIAS, STRIDE, TIMES = 64, 4, 128, 3, 50, 100, 64, 16, 6

BASE = {"env": {}, "attention": "bmm", "embed": "conv", "bias": "cached", "optimiser": "foreach",
        "grads": "none", "compile": False}
CANDIDATES = [
    ("env", [vit_step.KEEP_HEAP]),
    ("env", [vit_step.HUGE_PAGES]),
    ("env", [{vit_step.ISA: "avx512"}, {vit_step.ISA: "avx2"}]),
    ("attention", ["sdpa"]),
    ("embed", ["linear"]),
    ("bias", ["anew"]),
    ("optimiser", ["loop"]),
    ("grads", ["zero"]),
    ("compile", [True]),
]


def corners(torch, box):
    centre, half = box[..., :2], box[..., 2:] / 2
    return torch.cat([centre - half, centre + half], -1)


def giou(torch, a, b):
    """Of boxes as corners that broadcast against each other."""
    def area(low, high):
        return (high - low).clamp(min=0).prod(-1)

    common = area(torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:]))
    both = area(a[..., :2], a[..., 2:]) + area(b[..., :2], b[..., 2:]) - common
    around = area(torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:]))
    return common / both - (around - both) / around


def logit(x):
    x = x.clamp(1e-5, 1 - 1e-5)
    return (x / (1 - x)).log()


def sines(torch, places, channels):
    pairs = torch.arange(channels // 2)
    angles = places.unsqueeze(-1) * (2 * math.pi) / 10000 ** (2 * pairs / channels)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-3)


def make_attend(torch, kind):
    def attend(q, k, v, bias, scale):  # [B, H, Q, d]; bias broadcasts to [B, H, Q, K]
        if kind == "sdpa":
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)
        logits = torch.matmul(q * scale if scale != 1 else q, k.transpose(-2, -1))
        return torch.matmul((logits if bias is None else logits + bias).softmax(-1), v)

    return attend


def make_model(torch, settings):
    """A module: images and prompts to logits and boxes of all layers, and of proposals."""
    nn = torch.nn
    attend = make_attend(torch, settings["attention"])

    def deep(out):
        return nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, DIM), nn.ReLU(),
                             nn.Linear(DIM, out))

    class Reading(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(DIM)
            self.q, self.k, self.v, self.out = (nn.Linear(DIM, DIM) for _ in range(4))

        def forward(self, x, places, keys=None, values=None, bias=None):
            y = self.norm(x)
            placed = y + places
            keys, values = (placed, y) if keys is None else (keys, values)
            q, k, v = (map_(z).view(z.size(0), z.size(1), HEADS, -1).transpose(1, 2)
                       for map_, z in ((self.q, placed), (self.k, keys), (self.v, values)))
            y = attend(q, k, v, bias, (DIM // HEADS) ** -0.5)
            return x + self.out(y.transpose(1, 2).flatten(2))

    class BoxBias(nn.Module):
        def __init__(self):
            super().__init__()
            self.x, self.y = (nn.Sequential(nn.Linear(2, BIAS), nn.ReLU(), nn.Linear(BIAS, HEADS, bias=False))
                              for _ in range(2))

        def forward(self, box, cells):
            edges = corners(torch, box) * SIDE
            middles = (torch.arange(cells) + 0.5) * STRIDE
            of_x = self.x(edges[:, :, None, 0::2] - middles.view(-1, 1))
            of_y = self.y(edges[:, :, None, 1::2] - middles.view(-1, 1))
            return (of_y.unsqueeze(3) + of_x.unsqueeze(2)).flatten(2, 3).permute(0, 3, 1, 2)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.asking, self.reading, self.bias, self.norm = Reading(), Reading(), BoxBias(), nn.LayerNorm(DIM)
            self.mlp = nn.Sequential(nn.Linear(DIM, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, DIM))
            self.classes, self.box = nn.Linear(DIM, 1), deep(4)

    class Detr(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = torch_swin.make_swin(torch, settings, attend)
            width = torch_swin.WIDTH
            self.input, self.input_norm = nn.Linear(width, DIM), nn.LayerNorm(DIM)
            self.level = nn.Parameter(torch.randn(DIM))
            self.content = nn.Parameter(torch.randn(ONES + MANY, DIM))
            self.proposed, self.proposed_norm = nn.Linear(DIM, DIM), nn.LayerNorm(DIM)
            self.proposed_classes, self.proposed_box = nn.Linear(DIM, 1), deep(4)
            self.place, self.place_norm = nn.Linear(2 * DIM, DIM), nn.LayerNorm(DIM)
            self.layers, self.norm = nn.ModuleList([Layer() for _ in range(DEPTH)]), nn.LayerNorm(DIM)

        def tokens(self, images):
            x = self.input_norm(self.input(self.backbone(images)))
            cells = (torch.arange(x.size(1)) + 0.5) / x.size(1)
            middles = torch.stack(torch.meshgrid(cells, cells, indexing="ij"), -1).flatten(0, 1)
            return x.flatten(1, 2), middles, sines(torch, middles, DIM // 2)

        def forward(self, images, prompts):
            x, middles, places = self.tokens(images)
            prompt, _, prompt_places = self.tokens(prompts)
            cells, few = SIDE // STRIDE, PROMPT // STRIDE
            pad = (0, 0, 0, cells - few, 0, cells - few)
            keys = nn.functional.pad((prompt + prompt_places).view(-1, few, few, DIM), pad).flatten(1, 2)
            values = x + places + self.level
            p = self.proposed_norm(self.proposed(x))
            starts = torch.cat([middles.flip(1), torch.full_like(middles, 0.05)], 1)
            proposals = self.proposed_classes(p), (self.proposed_box(p) + logit(starts)).sigmoid()
            best = proposals[0].detach()[..., 0].topk(ONES + MANY, 1)[1]
            box = before = proposals[1].detach().gather(1, best.unsqueeze(-1).expand(-1, -1, 4))
            where = self.place_norm(self.place(sines(torch, box, DIM // 2)))
            y = self.content.expand(x.size(0), -1, -1)
            logits, boxes = [], []
            for layer in self.layers:
                y = torch.cat([layer.asking(y[:, :ONES], where[:, :ONES]),
                               layer.asking(y[:, ONES:], where[:, ONES:])], 1)
                y = layer.reading(y, where, keys, values, layer.bias(box, cells))
                y = y + layer.mlp(layer.norm(y))
                z = self.norm(y)
                change = layer.box(z)
                logits.append(layer.classes(z))
                boxes.append((change + logit(before)).sigmoid())
                before = (change + logit(box)).sigmoid()
                box = before.detach()
            return torch.stack(logits, 1), torch.stack(boxes, 1), proposals

    return Detr()


def make_loss(torch):
    from scipy.optimize import linear_sum_assignment
    functional = torch.nn.functional

    def focal_parts(x):
        p = x.sigmoid()
        return (0.25 * (1 - p) ** 2 * functional.softplus(-x), 0.75 * p ** 2 * functional.softplus(x))

    def one(logits, boxes, objects, times):  # [B, L, Q, 1], [B, L, Q, 4]; a list of [n, 4]
        count = sum(len(known) for known in objects) * times
        right, wrong = focal_parts(logits)
        rows, known_rows = [], []
        with torch.no_grad():
            cost_class = 2 * (right - wrong)
            for b, known in enumerate(objects):
                cost = (cost_class[b] + 5 * torch.cdist(boxes[b], known.expand(boxes.size(1), -1, -1), 1)
                        - 2 * giou(torch, corners(torch, boxes[b]).unsqueeze(2), corners(torch, known)))
                for layer in range(boxes.size(1)):
                    table = cost[layer].t().repeat(times, 1).numpy()
                    row, column = linear_sum_assignment(table)
                    rows.append((b * boxes.size(1) + layer) * boxes.size(2) + torch.from_numpy(column))
                    known_rows.append(known[torch.from_numpy(row) % len(known)])
        rows, known = torch.cat(rows), torch.cat(known_rows)
        answer = torch.zeros(logits.numel()).index_fill_(0, rows, 1).view_as(logits)
        found = boxes.flatten(0, 2)[rows]
        return (2 * (answer * right + (1 - answer) * wrong).sum() + 5 * (found - known).abs().sum()
                + 2 * (1 - giou(torch, corners(torch, found), corners(torch, known))).sum()) / count

    def loss(outputs, asked, anything):
        logits, boxes, proposals = outputs
        ratio = sum(map(len, anything)) / sum(map(len, asked))
        return (one(logits[:, :, :ONES], boxes[:, :, :ONES], asked, 1)
                + one(logits[:, :, ONES:], boxes[:, :, ONES:], asked, TIMES)
                + ratio * one(proposals[0].unsqueeze(1), proposals[1].unsqueeze(1), anything, 1))

    return loss


def make_step(settings, threads):
    """Builds everything; returns a function that runs one step and returns its seconds."""
    import torch  # here, because the environment must be set before
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, loss_of = make_model(torch, settings).train(), make_loss(torch)
    images, prompts = torch.randn(BATCH, 3, SIDE, SIDE), torch.randn(BATCH, 3, PROMPT, PROMPT)
    known = torch.rand(BATCH, OBJECTS + OTHERS, 4) * 0.3 + 0.2
    parameters = list(model.parameters())
    optimiser = torch.optim.AdamW(parameters, lr=5e-4, weight_decay=0.05,
                                  foreach=settings["optimiser"] == "foreach")
    forward = torch.compile(model) if settings["compile"] else model
    return vit_step.timed(
        torch, optimiser, settings["grads"] == "none",
        lambda: loss_of(forward(images, prompts), list(known[:, :OBJECTS]), list(known)),
        lambda: torch.nn.utils.clip_grad_norm_(parameters, 0.1))


def main():
    vit_step.run(vit_step.parser_of(__doc__).parse_args(), [os.path.abspath(__file__)], BASE,
                 CANDIDATES, make_step)


if __name__ == "__main__":
    main()
