#!/usr/bin/env python3
"""How long status, compare, report, page and cite of many finished runs take, and how much memory.

    many_runs.py make FOLDER --attnlab PROGRAM [--runs 10000]
    many_runs.py time FOLDER OLD NEW [--rounds 3]

`make` trains some small experiments, each with some attentions, and writes FOLDER/runs: copies of them as
other experiments and seeds, with other values, whose files fit together as those of a run do. `time` lets two
programs take turns, with no index of runs (ATTNLAB_RUN_INDEX=off); then NEW with an index, as it makes it and as
it finds it. It prints the medians of seconds, of processor seconds (of all threads) and of the largest memory, and
their ratios to OLD's, and compares what the programs print and write. Files are in cache; a report's date and its nonce do not count.
Exit status: 0; 1 where a program fails or the two do not say the same.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TEMPLATES = {"vit_synthetic": ["standard", "quest", "linear", "cosine", "sigmoid", "elliptical", "qknorm", "qnorm"],
             "timeseries_synthetic": ["standard", "quest", "cosine"]}
SHORT = {"vit_synthetic": ["dataset.train=512", "dataset.test=128"], "timeseries_synthetic": []}
EXPERIMENTS = 25
COMMANDS = {"status": ["status", "runs"],
            "compare": ["compare", "runs", "--test", "t"],
            "report": ["report", "runs", "--output", "OUT/report.html", "--test", "t"],
            "page": ["page", "runs", "--output", "OUT", "--test", "t"],
            "cite": ["cite", "runs"]}


def fingerprint(data):
    """FNV-1a, as attnlab has it."""
    value = 0xcbf29ce484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return f"{value:016x}"


def trained(attnlab, folder):
    """Run folders by experiment and attention."""
    runs = {}
    for experiment, attentions in TEMPLATES.items():
        for attention in attentions:
            words = [attnlab, "run", experiment, f"attention={attention}", "train.epochs=2", "train.log_every=1",
                     "train.threads=1", *SHORT[experiment], "--out", folder]
            result = subprocess.run(words, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                print(f"left out: {experiment} with {attention}: {result.stderr.strip().splitlines()[-1]}")
                continue
            below = os.path.join(folder, experiment, attention)
            runs.setdefault(experiment, {})[attention] = os.path.join(below, os.listdir(below)[0])
    return runs


class Template:
    """A run's files, and what is written of them for another experiment and seed."""

    def __init__(self, folder):
        self.files = {}
        for name in ("config.yaml", "identity.json", "lock.json", "origins.txt", "environment.json",
                     "lock", "metrics.jsonl", "status.json"):
            with open(os.path.join(folder, name), "rb") as file:
                self.files[name] = file.read()

    def write(self, folder, name, seed, value):
        files = dict(self.files)
        files["config.yaml"] = re.sub(rb"(?m)^seeds: .*$", b"seeds: [%d]" % seed,
                                      re.sub(rb"(?m)^name: .*$", b"name: " + name.encode(), files["config.yaml"]))
        identity = json.loads(files["identity.json"])
        identity["configuration"] = fingerprint((identity["configuration"] + name).encode())
        files["identity.json"] = text_of(identity)
        environment = json.loads(files["environment.json"])
        environment["started"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1.7e9 + 60 * seed))
        environment["data"]["fingerprint"] = fingerprint(f"{name.rsplit('_', 1)[0]} {seed}".encode())
        files["environment.json"] = text_of(environment)
        status = json.loads(files["status.json"])
        for metric in status["metrics"]:
            if metric == "accuracy":
                status["metrics"][metric] = round(0.5 + value / 4, 6)
        for file in ("config.yaml", "environment.json", "identity.json"):
            status["files"][file] = fingerprint(files[file])
        del status["check"]
        status["check"] = fingerprint(text_of(status))
        files["status.json"] = text_of(status)
        os.makedirs(folder)
        for file, data in files.items():
            with open(os.path.join(folder, file), "wb") as out:
                out.write(data)


def text_of(value):
    """JSON as attnlab writes it."""
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def make(folder, attnlab, count):
    with tempfile.TemporaryDirectory() as scratch:
        runs = trained(os.path.abspath(attnlab), scratch)
        templates = {e: {a: Template(run) for a, run in of.items()} for e, of in runs.items()}
    bases = list(templates)
    names = [f"{bases[i % len(bases)]}_{i}" for i in range(EXPERIMENTS)]
    cells = [(name, attention) for i, name in enumerate(names) for attention in templates[bases[i % len(bases)]]]
    for number in range(count):
        name, attention = cells[number % len(cells)]
        seed = number // len(cells)
        value = int(fingerprint(f"{name} {attention} {seed}".encode()), 16) / 2**64
        hash_of = fingerprint(f"{name} {attention}".encode())[:8]
        templates[name.rsplit("_", 1)[0]][attention].write(
            os.path.join(folder, "runs", name, attention, f"{seed}-{hash_of}"), name, seed, value)
    print(f"{folder}/runs: {count} runs of {len(names)} experiments, {len(cells)} cells")


def once(program, words, folder, environment):
    """Seconds, processor seconds and MiB; and what was printed and written."""
    out = tempfile.mkdtemp(prefix="attnlab-many-")
    words = [word.replace("OUT", out) for word in words]
    printed = os.path.join(out, "printed")
    with open(printed, "wb") as file:
        start = time.perf_counter()
        child = subprocess.Popen([program, *words], cwd=folder, env={**os.environ, **environment}, stdout=file,
                                 stderr=subprocess.STDOUT)
        _, status, used = os.wait4(child.pid, 0)
        taken = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
    written = {}
    for name in sorted(os.listdir(out)):
        with open(os.path.join(out, name), "rb") as file:
            written[name] = timeless(file.read().replace(out.encode(), b"OUT"))
    shutil.rmtree(out)
    if child.returncode != 0:
        sys.exit(f"many_runs: {program} {' '.join(words)} gave {child.returncode}: {written['printed'][-500:]}")
    return (taken, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024), written


def timeless(text):
    text = re.sub(rb"20\d\d-\d\d-\d\d \d\d:\d\d UTC", b"DATE", text)
    nonce = re.search(rb'nonce="?-?([0-9a-f]{32})', text) or re.search(rb"nonce-([0-9a-f]{32})", text)
    return text.replace(nonce.group(1), b"NONCE") if nonce else text


def measure(folder, old, new, rounds):
    same = True
    with tempfile.TemporaryDirectory() as cache:
        off = {"ATTNLAB_RUN_INDEX": "off"}
        on = {"XDG_CACHE_HOME": cache}
        for name, words in COMMANDS.items():
            turns = {"old": [], "new": [], "first": [], "second": []}
            written = {}
            for number in range(rounds):
                for which in ("old", "new") if number % 2 == 0 else ("new", "old"):
                    measures, written[which] = once(old if which == "old" else new, words, folder, off)
                    turns[which].append(measures)
                if not turns["first"]:
                    shutil.rmtree(cache, ignore_errors=True)
                    os.makedirs(cache)
                    measures, written["first"] = once(new, words, folder, on)
                    turns["first"].append(measures)
                measures, written["second"] = once(new, words, folder, on)
                turns["second"].append(measures)
            medians = {which: [statistics.median(values) for values in zip(*all_of)] for which, all_of in turns.items()}
            for which, measures in medians.items():
                print(f"{name:8} {which:6} " + "   ".join(
                    f"{value:7.2f} {unit} ({value / old_value:.3f})" for value, old_value, unit in
                    zip(measures, medians["old"], ("s", "s of processors", "MiB"))), flush=True)
            for which in ("new", "first", "second"):
                for file in sorted(set(written["old"]) | set(written[which])):
                    if written["old"].get(file) != written[which].get(file):
                        same = False
                        print(f"  {file} of the call '{which}' is not as before")
    return 0 if same else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "time"])
    parser.add_argument("folder")
    parser.add_argument("programs", nargs="*", help="OLD and NEW")
    parser.add_argument("--attnlab", default="build/release/bin/attnlab")
    parser.add_argument("--runs", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.what == "make":
        make(arguments.folder, arguments.attnlab, arguments.runs)
        return 0
    return measure(arguments.folder, *(os.path.abspath(p) for p in arguments.programs), arguments.rounds)


if __name__ == "__main__":
    sys.exit(main())
