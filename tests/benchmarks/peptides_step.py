#!/usr/bin/env python3
"""The rival: training steps of GraphGPS on graphs of Peptides-func's sizes in PyTorch, tuned.

A batch is 128 graphs: four each of 32 sizes, the quantiles of the 15,535 peptides' numbers of atoms
(mean 151), chains with short branches and rings, both directions of each edge. The model is the
published one for Peptides-func: atom and bond tables, a DeepSet over 10 eigenvectors (16 channels),
4 layers of GatedGCN beside attention of 4 heads with dropout 0.5, 96 channels, batch norms, mean, 10
labels; binary cross entropy, gradients clipped at 1, AdamW. An epoch of the training split is 85 such
steps. Sums over edges are taken by index_add or scatter_add, attention of padded graphs as GraphGPS
does, or graph by graph.

Serves a driver as vit_step.py does: "steps N" answers with N times in seconds. It is tuned in the
same way. Settings:
  env        variables that only a new process can take: instruction set, malloc, huge pages
  attention  padded (bmm with a mask), mha (nn.MultiheadAttention, padded), loop (graph by graph)
  dropout    of the weights: torch's own, or bits (from 16 random bits an entry)
  sums       index_add, or scatter_add
  maps       packed (A, B, D, E as one product) or five
  clip       torch.nn.utils.clip_grad_norm_, or foreach: by operations on lists
  optimiser  loop, foreach, or fused (PyTorch 2.4 and later)
  grads      none (freed between steps) or zero
  compile    torch.compile (PyTorch 2.x)
"""
import os

import lm_step
import vit_step

SIZES = [20, 33, 43, 53, 60, 69, 77, 87, 94, 100, 105, 110, 115, 120, 127, 133, 139, 146, 155, 163,
         171, 180, 188, 199, 209, 218, 231, 244, 265, 287, 318, 368]
COPIES, ATOMS, BONDS, VECTORS, LABELS = 4, 174, 13, 10, 10
DIM, PLACE, DEPTH, HEADS, DROP = 96, 16, 4, 4, 0.5

BASE = {"env": {}, "attention": "loop", "dropout": "torch", "sums": "index_add",
        "maps": "packed", "clip": "torch", "optimiser": "foreach", "grads": "none",
        "compile": False}
CANDIDATES = [
    ("env", [vit_step.KEEP_HEAP]),
    ("env", [vit_step.HUGE_PAGES]),
    ("env", [{vit_step.ISA: "avx512"}, {vit_step.ISA: "avx2"}]),
    ("attention", ["padded", "mha"]),
    ("dropout", ["bits"]),
    ("sums", ["scatter_add"]),
    ("maps", ["five"]),
    ("clip", ["foreach"]),
    ("optimiser", ["loop", "fused"]),
    ("grads", ["zero"]),
    ("compile", [True]),
]


def edges_of(size):
    """Pairs (source, target) of one graph, by target: as edges_of in peptides_step.cpp."""
    pairs = []
    for node in range(1, size):
        parent = node - 1 - (node * 7) % min(node, 3)
        pairs += [(node, parent), (parent, node)]
        if node % 55 == 54:
            pairs += [(node, node - 5), (node - 5, node)]
    return sorted(pairs, key=lambda pair: (pair[1], pair[0]))


def make_batch(torch):
    """One batch, as peptides_step.cpp makes it; features are random."""
    sizes, ends, first = [], [], 0
    for _ in range(COPIES):
        for size in SIZES:
            sizes.append(size)
            ends += [(source + first, target + first) for source, target in edges_of(size)]
            first += size
    ends = torch.tensor(ends).t().contiguous()
    lengths = torch.tensor(sizes)
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
    graph = torch.repeat_interleave(torch.arange(len(sizes)), lengths)
    place = graph * max(sizes) + torch.arange(first) - offsets[graph]
    valid = torch.zeros(len(sizes) * max(sizes), dtype=torch.bool)
    valid[place] = True
    return {"source": ends[0], "target": ends[1], "sizes": sizes, "graph": graph, "place": place,
            "lengths": lengths, "valid": valid.view(len(sizes), -1), "nodes": first,
            "atom": torch.randint(19, (first, 9)) + torch.arange(9) * 19,
            "bond": torch.randint(4, (ends.size(1), 3)) + torch.arange(3) * 4,
            "vectors": torch.randn(first, VECTORS), "values": torch.rand(first, VECTORS),
            "labels": torch.randint(2, (len(sizes), LABELS)).float()}


def make_dropout(torch, kind):
    def by_bits(x):
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-2**63, None)
        kept = words.view(torch.int16)[:x.numel()].view(x.shape).ge(0)  # half of them: DROP
        return x * kept.to(x.dtype).mul_(1 / (1 - DROP))

    return by_bits if kind == "bits" else lambda x: torch.nn.functional.dropout(x, DROP)


def make_model(torch, settings):
    """The model as an nn.Module: a batch to logits [graphs, LABELS]."""
    nn, functional = torch.nn, torch.nn.functional
    head_dim = DIM // HEADS
    scale = head_dim ** -0.5
    drop = make_dropout(torch, settings["dropout"])

    def summed(x, index, rows):
        out = x.new_zeros(rows, x.size(1))
        if settings["sums"] == "index_add":
            return out.index_add(0, index, x)
        return out.scatter_add(0, index.unsqueeze(1).expand_as(x), x)

    def attend(q, k, v, hidden):  # [B, L, H, d]
        batch, tokens = q.shape[:2]
        q, k, v = (x.transpose(1, 2).reshape(batch * HEADS, tokens, head_dim) for x in (q, k, v))
        logits = torch.baddbmm(q.new_zeros(()), q, k.transpose(1, 2), beta=0, alpha=scale)
        if hidden is not None:
            logits = logits.view(batch, HEADS, tokens, tokens).masked_fill(
                hidden[:, None, None, :], -1e9).view(batch * HEADS, tokens, tokens)
        y = torch.bmm(drop(logits.softmax(-1)), v)
        return y.view(batch, HEADS, tokens, head_dim).transpose(1, 2).reshape(batch, tokens, DIM)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            if settings["attention"] == "mha":
                self.mha = nn.MultiheadAttention(DIM, HEADS, dropout=DROP, batch_first=True)
            else:
                self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

        def padded(self, x, batch):
            rows = x.new_zeros(batch["valid"].numel(), x.size(1)).index_copy(0, batch["place"], x)
            return rows.view(*batch["valid"].shape, -1)

        def forward(self, x, batch):
            if settings["attention"] == "mha":
                dense = self.padded(x, batch)
                y = self.mha(dense, dense, dense, key_padding_mask=~batch["valid"],
                             need_weights=False)[0]
                return y.flatten(0, 1)[batch["place"]]
            if settings["attention"] == "loop":
                parts = self.qkv(x).view(-1, 3, HEADS, head_dim).split(batch["sizes"])
                return self.out(torch.cat(
                    [attend(*part.unsqueeze(0).unbind(2), None)[0] for part in parts]))
            dense = self.padded(self.qkv(x), batch)
            q, k, v = dense.view(*dense.shape[:2], 3, HEADS, head_dim).unbind(2)
            return self.out(attend(q, k, v, ~batch["valid"]).flatten(0, 1)[batch["place"]])

    class GatedGCN(nn.Module):
        def __init__(self, last):
            super().__init__()
            if settings["maps"] == "packed":
                self.maps = nn.Linear(DIM, 4 * DIM)
            else:
                self.maps = nn.ModuleList([nn.Linear(DIM, DIM) for _ in range(4)])
            self.edges, self.node_norm = nn.Linear(DIM, DIM), nn.BatchNorm1d(DIM)
            self.edge_norm = None if last else nn.BatchNorm1d(DIM)

        def forward(self, x, e, batch):
            source, target = batch["source"], batch["target"]
            a, b, d, s = (self.maps(x).chunk(4, 1) if settings["maps"] == "packed"
                          else (one(x) for one in self.maps))
            gates = d[target] + s[source] + self.edges(e)
            sigma = torch.sigmoid(gates)
            sums = summed(sigma * b[source], target, x.size(0))
            x = x + functional.relu(
                self.node_norm(a + sums / (summed(sigma, target, x.size(0)) + 1e-6)))
            return x, None if self.edge_norm is None else e + functional.relu(self.edge_norm(gates))

    class Layer(nn.Module):
        def __init__(self, last):
            super().__init__()
            self.local, self.attention = GatedGCN(last), Attention()
            self.norms = nn.ModuleList([nn.BatchNorm1d(DIM) for _ in range(3)])
            self.up, self.down = nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)

        def forward(self, x, e, batch):
            local, e = self.local(x, e, batch)
            z = self.norms[0](local) + self.norms[1](x + self.attention(x, batch))
            return self.norms[2](z + self.down(functional.relu(self.up(z)))), e

    class GraphGPS(nn.Module):
        def __init__(self):
            super().__init__()
            self.atoms = nn.EmbeddingBag(ATOMS, DIM - PLACE, mode="sum")
            self.bonds = nn.EmbeddingBag(BONDS, DIM, mode="sum")
            self.place_in, self.place_out = nn.Linear(2, 2 * PLACE), nn.Linear(2 * PLACE, PLACE)
            self.layers = nn.ModuleList([Layer(i + 1 == DEPTH) for i in range(DEPTH)])
            self.head = nn.Linear(DIM, LABELS)

        def forward(self, batch):
            signs = torch.randint(2, (VECTORS,)).mul_(2).sub_(1)
            pairs = torch.stack([batch["vectors"] * signs, batch["values"]], -1)
            place = functional.relu(self.place_out(functional.relu(self.place_in(pairs)))).sum(1)
            x, e = torch.cat([self.atoms(batch["atom"]), place], 1), self.bonds(batch["bond"])
            for layer in self.layers:
                x, e = layer(x, e, batch)
            mean = summed(x, batch["graph"], len(batch["sizes"])) / batch["lengths"].unsqueeze(1)
            return self.head(mean)

    return GraphGPS()


def make_step(settings, threads):
    """Builds everything; returns a function that runs one step and returns its seconds."""
    import torch  # here, because the environment must be set before
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, batch = make_model(torch, settings).train(), make_batch(torch)
    parameters = list(model.parameters())
    how = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    optimiser = torch.optim.AdamW(parameters, lr=3e-4, weight_decay=0.0,
                                  **how[settings["optimiser"]])
    forward = torch.compile(model) if settings["compile"] else model

    def loss_of():
        return torch.nn.functional.binary_cross_entropy_with_logits(forward(batch), batch["labels"])

    return vit_step.timed(torch, optimiser, settings["grads"] == "none", loss_of,
                          lambda: lm_step.clip(torch, parameters, 1.0, settings["clip"]))


def main():
    vit_step.run(vit_step.parser_of(__doc__).parse_args(), [os.path.abspath(__file__)], BASE,
                 CANDIDATES, make_step)


if __name__ == "__main__":
    main()
