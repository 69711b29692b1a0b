#!/usr/bin/env python3
"""The stability study's table and data for plots, from the runs of configs/suites/stability.yaml.

Reads config.yaml, status.json and metrics.jsonl of every run below a suite's folder and prints a
Markdown table, a row for each run: how it ended, accuracy, loss, and over all layers the largest
logit, query norm, key norm (at the end, and at any step) and the mean entropy at the end.
Works as well while the suite is still running.

Writes three files beside the runs, or to --out:
  stability_steps.csv  a line for each run and recorded step: the largest of all layers, mean entropy
  stability_trace.csv  a line for each run, step and layer: logits, norms, entropy
  stability_loss.csv   a line for each run and logged step: loss, norm of the gradient
A number that was not finite is an empty field there, and "inf" in the table.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import re
import statistics
import sys

RUN_FIELDS = ["experiment", "attention", "seed", "lr"]
TRACE_FIELDS = ["step", "layer", "logit_max", "logit_max_query_norm", "logit_max_key_norm",
                "query_norm_mean", "query_norm_max", "key_norm_mean", "key_norm_max", "entropy"]
LOSS_FIELDS = ["step", "loss", "gradient_norm"]
STEP_FIELDS = ["step", "logit_max", "query_norm_max", "key_norm_max", "entropy"]
LAST_LOSSES = 5  # logged steps that the table's loss is the mean of


class Run:
    """One run's folder: <experiment>/<attention>/<seed>-<hash>."""

    def __init__(self, folder):
        self.experiment, self.attention = folder.parts[-3], folder.parts[-2]
        self.seed = int(folder.name.split("-")[0])
        config = (folder / "config.yaml").read_text(encoding="utf-8")
        rate = re.search(r"^ +lr: *(\S+)", config, re.MULTILINE)
        if rate is None:
            fail(f"{folder}/config.yaml names no learning rate")
        self.lr = float(rate.group(1))
        self.status = read_json(folder / "status.json")
        lines = read_lines(folder / "metrics.jsonl")
        self.losses = [line for line in lines if line["split"] == "train"]
        self.trace = [line for line in lines if line["split"] == "trace"]

    def name(self):
        return [self.experiment, self.attention, self.seed, self.lr]

    def order(self):
        return self.lr, self.attention != "standard", self.attention, self.seed


def fail(message):
    print(f"stability_table: {message}", file=sys.stderr)
    sys.exit(2)


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def read_lines(path):
    """The lines of a JSON-lines file; a last one that is cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def number(value):
    """What JSON cannot say (null) was not finite."""
    return math.inf if value is None else value


def largest(lines, field):
    return max((number(line[field]) for line in lines if field in line), default=None)


def short(value):
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "inf"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.3g}"


def outcome(run, classes):
    state, step = run.status.get("state", "pending"), run.status.get("step", 0)
    if state == "diverged":
        return f"diverged at step {step + 1}"
    if state != "done":
        return f"{state}, step {step}"
    return "chance" if run.status["metrics"]["accuracy"] < 2 / classes else "learned"


def row_of(run, classes):
    accuracy = run.status.get("metrics", {}).get("accuracy")
    losses = [number(line["loss"]) for line in run.losses[-LAST_LOSSES:]]
    last_step = max((line["step"] for line in run.trace), default=0)
    end = [line for line in run.trace if line["step"] == last_step]
    row = [f"{run.lr:g}", run.attention, str(run.seed), outcome(run, classes),
           "-" if accuracy is None else f"{100 * accuracy:.2f}",
           short(statistics.fmean(losses) if losses else None)]
    for field in ("logit_max", "query_norm_max", "key_norm_max"):
        row += [short(largest(end, field)), short(largest(run.trace, field))]
    entropies = [number(line["entropy"]) for line in end if "entropy" in line]
    return row + [short(statistics.fmean(entropies) if entropies else None)]


def print_table(runs, classes):
    header = ["lr", "attention", "seed", "outcome", "accuracy (%)", "loss", "logit, end",
              "logit, largest", "query norm, end", "query norm, largest", "key norm, end",
              "key norm, largest", "entropy, end"]
    rows = [header] + [row_of(run, classes) for run in runs]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    for index, row in enumerate(rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if index == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def by_step(run):
    """All layers of a recorded step as one line, in four digits."""
    for step in sorted({line["step"] for line in run.trace}):
        layers = [line for line in run.trace if line["step"] == step]
        line = {field: largest(layers, field) for field in STEP_FIELDS[1:-1]}
        entropies = [number(layer["entropy"]) for layer in layers if "entropy" in layer]
        line["entropy"] = statistics.fmean(entropies) if entropies else None
        shown = {field: f"{value:.4g}" for field, value in line.items() if value is not None}
        yield {"step": step, **shown}


def write_csv(path, runs, fields, lines_of):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(RUN_FIELDS + fields)
        for run in runs:
            for line in lines_of(run):
                writer.writerow(run.name() + [line.get(field) for field in fields])
    print(f"written: {path}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="?", default="runs/stability", help="the suite's folder")
    parser.add_argument("--out", help="folder of the CSV files; default: the suite's folder")
    parser.add_argument("--classes", type=int, default=10,
                        help="below two in so many right, a run is called no better than chance")
    arguments = parser.parse_args()
    folders = [path.parent for path in pathlib.Path(arguments.runs).glob("*/*/*/config.yaml")]
    if not folders:
        fail(f"{arguments.runs} holds no runs. Run: attnlab suite stability")
    runs = sorted((Run(folder) for folder in folders), key=Run.order)
    print_table(runs, arguments.classes)
    out = arguments.out or arguments.runs
    os.makedirs(out, exist_ok=True)
    write_csv(os.path.join(out, "stability_trace.csv"), runs, TRACE_FIELDS, lambda run: run.trace)
    write_csv(os.path.join(out, "stability_steps.csv"), runs, STEP_FIELDS, by_step)
    write_csv(os.path.join(out, "stability_loss.csv"), runs, LOSS_FIELDS, lambda run: run.losses)


if __name__ == "__main__":
    main()
