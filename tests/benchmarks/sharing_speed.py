#!/usr/bin/env python3
"""How long sharing takes: install of a prepared binary bundle, search in 10,000 bundles, list of 500 plugins.

The search is for a word that about a hundred bundles have, and for one that all have; the list is that of
everything, with the plugins that attnlab itself has.

Each is a median, from the program's start to its exit, files in cache, in a home folder of its own.
Without --bundle a plugin is made and packed first (attnlab new, attnlab plugin pack --binary), which
takes minutes and needs an installed attnlab (--attnlab PREFIX/bin/attnlab).
Exit status: 0; 1 where a median is above its limit or a command fails.
"""
import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


class Home:
    """A user's home folder, and the program in it."""

    def __init__(self, attnlab):
        self.attnlab = os.path.abspath(attnlab)
        self.path = tempfile.mkdtemp(prefix="attnlab-speed-")
        self.environment = {**os.environ, "HOME": self.path, "ATTNLAB_PLUGIN_PATH": ""}

    def file(self, name, text):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        mode = "wb" if isinstance(text, bytes) else "w"
        with open(path, mode) as out:
            out.write(text)
        return path

    def run(self, *words):
        start = time.perf_counter()
        result = subprocess.run([self.attnlab, *words], cwd=self.path, env=self.environment,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit(f"sharing_speed: attnlab {' '.join(words)} gave {result.returncode}\n{result.stderr}")
        return 1000 * (time.perf_counter() - start), result


def report(what, times, limit):
    median = statistics.median(times)
    print(f"{what}: median {median:.1f} ms, fastest {min(times):.1f} ms ({len(times)} runs, "
          f"limit {limit:g} ms)")
    return median <= limit


def packed(home):
    home.run("new", "attention", "speed", "--lab", "bench")
    home.run("plugin", "pack", "speed", "--binary", "--unsigned", "--time-limit", "1800")
    return os.path.join(home.path, "speed-0.1.0.attnlab")


def time_install(home, bundle, runs):
    home.file(".config/attnlab/policy.yaml", "unsigned: allow\nfirst_use: allow\n")
    times = []
    for _ in range(runs):
        taken, result = home.run("plugin", "install", bundle, "--no-kit")
        if "its binary" not in result.stdout:
            sys.exit("sharing_speed: the bundle's binary does not fit this attnlab\n" + result.stderr)
        times.append(taken)
        shutil.rmtree(os.path.join(home.path, ".local"))
    return times


def make_index(home):
    """An index's copy as `attnlab index add` writes it: one bundle per line, by name."""
    head = {"format": 1, "lab": "many", "serial": 1, "created": "2026-01-01T00:00:00Z",
            "expires": "2999-01-01", "revocations": []}
    lines = [json.dumps({"id": f"many/plugin_{i}", "kind": "attention", "version": "1.0.0",
                         "summary": f"attention number {i} of a large index, made up for its size",
                         "licence": "Apache-2.0", "file": f"plugin_{i}-1.0.0.attnlab",
                         "sha256": f"{i:064x}", "size": 100000}, separators=(",", ":"), sort_keys=True)
             for i in sorted(range(10000), key=str)]
    copy = home.file(".config/attnlab/indices/many.json",
                     json.dumps(head)[:-1] + ",\"bundles\":[\n" + ",\n".join(lines) + "\n]}\n")
    home.file(".config/attnlab/indices/list.json", json.dumps({"format": 1, "indices": [
        {"place": "http://127.0.0.1/many", "lab": "many", "serial": 1, "taken": "2026-01-01T00:00:00Z",
         "expires": "2999-01-01", "copy": copy}]}))


def time_search(home, word, found, runs):
    """With the printing of what was found."""
    _, result = home.run("plugin", "search", word)
    if len(result.stdout.splitlines()) != found:
        sys.exit(f"sharing_speed: the search for '{word}' found {len(result.stdout.splitlines())}, not {found}")
    return [home.run("plugin", "search", word)[0] for _ in range(runs)]


def time_list(home, runs):
    """500 copies of a plugin under other names of the same length, as they are when installed: a link to
    an entry that holds the library, its record and its bundle."""
    root = os.path.dirname(os.path.dirname(home.attnlab))
    sample = glob.glob(os.path.join(root, "lib/attnlab/plugins/attention/qnorm.so"))
    if not sample:
        sys.exit("sharing_speed: no qnorm.so beside the program")
    with open(sample[0], "rb") as library:
        code = library.read()
    for i in range(500):
        name = f"p{i:04d}"
        entry = f".local/share/attnlab/plugins/installed/attnlab/{name}/1.0.0-{i:012x}"
        home.file(f"{entry}/{name}.so", code.replace(b"attnlab/qnorm", b"attnlab/" + name.encode()))
        home.file(f"{entry}/bundle.attnlab", os.urandom(50_000))
        home.file(f"{entry}/conformance.json", "{}\n")
        home.file(f"{entry}/record.json", json.dumps(
            {"format": 1, "id": f"attnlab/{name}", "kind": "attention", "version": "1.0.0",
             "bundle": f"{i:064x}", "library_hash": f"{i:016x}", "key": "", "replaces": "",
             "built": "source", "kit": True, "date": "2026-01-01T00:00:00Z"}))
        links = os.path.join(home.path, ".local/share/attnlab/plugins/attention")
        os.makedirs(links, exist_ok=True)
        os.symlink(f"../installed/attnlab/{name}/1.0.0-{i:012x}/{name}.so",
                   os.path.join(links, f"{name}.so"))
    _, result = home.run("list")
    if "p0499" not in result.stdout:
        sys.exit("sharing_speed: the copies are not listed")
    return [home.run("list")[0] for _ in range(runs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attnlab", default="build/release/bin/attnlab")
    parser.add_argument("--bundle", help="a bundle with a binary that fits; made unless given")
    parser.add_argument("--no-install", action="store_true", help="leave installing out")
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    if not os.access(arguments.attnlab, os.X_OK):
        sys.exit(f"sharing_speed: no program at {arguments.attnlab}. Run: make build")
    home = Home(arguments.attnlab)
    try:
        make_index(home)
        good = report("search in 10,000 bundles, 111 found",
                      time_search(home, "number 77", 111, arguments.runs), 50)
        good &= report("search in 10,000 bundles, all found and printed",
                       time_search(home, "large index", 10000, arguments.runs), 50)
        if not arguments.no_install:
            bundle = os.path.abspath(arguments.bundle) if arguments.bundle else packed(home)
            good &= report("install of a prepared binary", time_install(home, bundle, arguments.runs), 1000)
        good &= report("list of everything, 500 plugins installed", time_list(home, arguments.runs), 50)
    finally:
        shutil.rmtree(home.path)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
