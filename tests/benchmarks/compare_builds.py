#!/usr/bin/env python3
"""Two builds of attnlab timed in turn: what a change costs or saves.

  compare_builds.py OLD NEW vit_step --threads 2 --words "--precision bfloat16"
  compare_builds.py OLD NEW uea_epoch --threads 1
  compare_builds.py OLD NEW ensemble
  compare_builds.py B B vit_step --old-words "--attention explicit" --new-words "--attention mine.py"

OLD and NEW are build folders (build/release); NAME is a program attnlab_bench_NAME that answers
"steps N", or `ensemble`: QUEST's toy study, 60 runs that one process of `attnlab sweep` trains
together, whose time is processor time. Ratios are NEW's time over OLD's.
"""
import argparse
import os
import subprocess
import tempfile

import paired

RATES = "5e-4,1e-3,2.5e-3,5e-3,7.5e-3,1e-2"
DECAYS = "0,0.01,0.02,0.05,0.1"


class Ensemble:
    """Sweeps as a program of paired.py's; a step is one sweep."""

    def __init__(self, name, build, threads):
        build = os.path.abspath(build)
        self.name, self.rounds = name, []
        self.place = os.path.dirname(os.path.dirname(build))  # the configurations of that source
        self.command = [os.path.join(build, "bin", "attnlab"), "sweep", "quest_toy", "attention=quest",
                        f"train.optimizer.lr={RATES}", f"train.optimizer.weight_decay={DECAYS}",
                        "--seeds", "0-1", "-j", "1", f"train.threads={threads}", "--progress", "none"]

    def steps(self, count):
        return [self.sweep() for _ in range(count)]

    def sweep(self):
        with tempfile.TemporaryDirectory() as folder:
            before = os.times()
            ended = subprocess.run(self.command + ["--out", folder], cwd=self.place,
                                   capture_output=True, text=True, check=False)
            if ended.returncode != 0:
                paired.fail(f"{' '.join(self.command)}\n{ended.stdout}{ended.stderr}")
            after = os.times()
        return (after.children_user + after.children_system
                - before.children_user - before.children_system)

    def quit(self):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("name")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1, help="a round")
    parser.add_argument("--warmup", type=int, default=1, help="steps before the first round")
    parser.add_argument("--words", default="", help="more arguments for both programs")
    parser.add_argument("--old-words", default="", help="more arguments for OLD's program alone")
    parser.add_argument("--new-words", default="", help="more arguments for NEW's program alone")
    arguments = parser.parse_args()
    if arguments.rounds < 2 or arguments.steps < 1 or arguments.warmup < 1:
        parser.error("needs at least 2 rounds, 1 step and 1 step of warm-up")
    paired.tell_what_holds()

    def program(name, build, words):
        if arguments.name == "ensemble":
            return Ensemble(name, build, arguments.threads)
        return paired.Program(name, [os.path.join(build, "bin", f"attnlab_bench_{arguments.name}"),
                                     "--threads", str(arguments.threads), *arguments.words.split(),
                                     *words.split()])

    old = program("old", arguments.old, arguments.old_words)
    new = program("new", arguments.new, arguments.new_words)
    paired.measure([old, new], arguments)
    for each in (old, new):
        each.quit()
    paired.print_table([paired.summarise(each, old) for each in (old, new)])


if __name__ == "__main__":
    main()
