#!/usr/bin/env python3
"""Linear baselines of a citation graph in Planetoid's files: logistic regression on each paper's
words, and on the words smoothed twice over the graph.

    python3 tests/references/planetoid_linear.py FOLDER cora

Needs NumPy and SciPy. The rows of words are divided by their sum or left as they are; the weight of
the penalty is chosen among a few by the 500 validation papers, as is the better of the two forms.
The loss is the sum over the training papers, the penalty weight / 2 |W|^2 without the biases.
"""
import pickle
import sys

import numpy as np
from scipy import optimize, sparse


def read(folder, name):
    def part(key):
        with open(f"{folder}/ind.{name}.{key}", "rb") as file:
            return pickle.load(file, encoding="latin1")

    with open(f"{folder}/ind.{name}.test.index", encoding="ascii") as file:
        test = np.array([int(line) for line in file])
    known, count = part("allx").shape[0], test.max() + 1
    words = np.zeros((count, part("allx").shape[1]))
    words[:known], words[test] = part("allx").toarray(), part("tx").toarray()
    classes = np.full(count, -1)
    classes[:known], classes[test] = part("ally").argmax(1), part("ty").argmax(1)
    links = {(a, b) for a, others in part("graph").items() for b in others if a != b}
    links |= {(b, a) for a, b in links} | {(i, i) for i in range(count)}
    rows, columns = np.array(sorted(links)).T
    adjacency = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), (count, count))
    root = sparse.diags(1 / np.sqrt(np.asarray(adjacency.sum(1)).ravel()))
    training = np.arange(part("y").shape[0])
    return words, classes, root @ adjacency @ root, training, training[-1] + 1 + np.arange(500), test


def fit(x, y, weight):
    classes, (rows, width) = y.max() + 1, x.shape

    def loss(parameters):
        w = parameters.reshape(width + 1, classes)
        logits = x @ w[:-1] + w[-1]
        logits -= logits.max(1, keepdims=True)
        share = np.exp(logits)
        share /= share.sum(1, keepdims=True)
        value = -np.log(share[np.arange(rows), y]).sum() + weight / 2 * (w[:-1] ** 2).sum()
        share[np.arange(rows), y] -= 1
        return value, np.vstack([x.T @ share + weight * w[:-1], share.sum(0)]).ravel()

    start = np.zeros((width + 1) * classes)
    return optimize.minimize(loss, start, jac=True, method="L-BFGS-B").x.reshape(width + 1, classes)


def main():
    words, classes, step, training, validation, test = read(sys.argv[1], sys.argv[2])
    shares = words / np.maximum(words.sum(1, keepdims=True), 1)
    for name, smooth in (("words", lambda x: x), ("words, smoothed twice", lambda x: step @ (step @ x))):
        best = None
        for x in (smooth(words), smooth(shares)):
            for weight in (10, 1, 0.1, 0.01, 0.001, 0.0001):
                w = fit(x[training], classes[training], weight)
                right = (x @ w[:-1] + w[-1]).argmax(1) == classes
                found = (right[validation].mean(), right[test].mean())
                best = found if best is None or found[0] > best[0] else best
        print(f"{name}: validation {100 * best[0]:.1f} %, test {100 * best[1]:.1f} %")


main()
