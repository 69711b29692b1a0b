#!/usr/bin/env python3
"""A made-up citation graph in Planetoid's files: papers of unequal classes, links mostly within a
class (a stochastic block model, degrees uneven), words that tell classes apart a little.

    python3 tests/references/made_citations.py FOLDER made
    attnlab run planetoid_gcn dataset.name=made dataset.root=FOLDER

Needs NumPy and SciPy. The same arguments give the same files.
"""
import pickle
import sys
from collections import defaultdict

import numpy as np
from scipy import sparse

PAPERS, CLASSES, WORDS, TEST = 1900, 5, 900, 600
SAME, LINKS, LENGTH, TELLING = 0.78, 3.5, 12, 0.16


def main():
    folder, name = sys.argv[1], sys.argv[2]
    random = np.random.default_rng(48)
    classes = random.choice(CLASSES, PAPERS, p=np.array([5, 4, 3, 2, 2]) / 16)
    # Planetoid's order: 20 papers a class that train, others, those that test.
    first = np.concatenate([np.flatnonzero(classes == c)[:20] for c in range(CLASSES)])
    rest = np.setdiff1d(np.arange(PAPERS), first)
    classes = classes[np.concatenate([first, random.permutation(rest)])]
    weight = random.pareto(2.5, PAPERS) + 0.3
    graph = defaultdict(list, {i: [] for i in range(PAPERS)})
    for a in random.choice(PAPERS, int(PAPERS * LINKS / 2), p=weight / weight.sum()):
        among = classes == classes[a] if random.random() < SAME else classes != classes[a]
        b = random.choice(PAPERS, p=among * weight / (among * weight).sum())
        graph[int(a)].append(int(b))
        graph[int(b)].append(int(a))
    common = random.zipf(1.6, WORDS).clip(max=50).astype(float)
    topics = [common * (random.random(WORDS) < 0.08) for _ in range(CLASSES)]
    words = np.zeros((PAPERS, WORDS), np.float32)
    for paper, of in enumerate(classes):
        telling = random.random(LENGTH + random.integers(8)) < TELLING
        for one in telling:
            shares = topics[of] if one else common
            words[paper, random.choice(WORDS, p=shares / shares.sum())] = 1
    known, labels = PAPERS - TEST, np.eye(CLASSES, dtype=np.int32)[classes]
    order = known + random.permutation(TEST)
    parts = {"x": sparse.csr_matrix(words[:len(first)]), "y": labels[:len(first)],
             "allx": sparse.csr_matrix(words[:known]), "ally": labels[:known],
             "tx": sparse.csr_matrix(words[order]), "ty": labels[order], "graph": graph}
    for key, value in parts.items():
        with open(f"{folder}/ind.{name}.{key}", "wb") as file:
            pickle.dump(value, file, protocol=2)
    with open(f"{folder}/ind.{name}.test.index", "w", encoding="ascii") as file:
        file.writelines(f"{paper}\n" for paper in order)


main()
