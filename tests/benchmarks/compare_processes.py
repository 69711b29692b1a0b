#!/usr/bin/env python3
"""One run in several processes: what they cost and save, timed in turn.

    step vit | transformer_xl   a training step of N processes with one thread each, against one
                                process of N threads (limit 1.05 of its time), one process of one
                                thread (at least 1.8 times as fast), and PyTorch's
                                DistributedDataParallel (limit 0.85), tuned first; equal batches
    sums                        gradients summed in tree order, against c10d's all-reduce of numbers
                                that lie together already (limit 1.15), and of a list of tensors
    paper                       what many processes would give, by a model with the costs measured
                                here: `MODEL` below

paired.py says how programs take turns, and what the intervals are. N processes need N cores.
"""
import argparse
import os
import statistics

import paired

MODEL = """\
W processes with a batch of 16 each, n numbers in all gradients, and per message a latency l:
  step   T + (W - 1) g + sum      T: one process's step; g: telling the others, per process
  tree   2 log2(W) l + n ((1 - 1/W) (2 b + a) + c)
  ring   2 (W - 1) l' + n 2 (1 - 1/W) b      l' (at most l), b: of c10d's all-reduce
b: sending a number, a: adding one once it has come (a ring adds meanwhile), c: putting tensors
together and taking them apart (of the ring: nothing, its tensors lie together). Nothing is summed
while the backward pass goes on. The tree costs more where n is above
  2 ((W - 1) l' - log2(W) l) / ((1 - 1/W) a + c)"""


def program(arguments, name):
    return os.path.join(arguments.build, "bin", f"attnlab_bench_{name}")


def steps_of(arguments, processes, threads, words):
    """Our step; of one process in one part, as a run without `train.parts` does it."""
    name = f"{processes} x {threads}"
    command = [program(arguments, "process_step"), "--threads", str(threads), *words]
    return paired.Processes(name, command, processes)


def tell(what, first, second, limit=None, least=None):
    """@returns false where the whole interval of their ratio is above the limit, or below the least."""
    ratio, (low, high) = paired.pair(first, second)
    bound = "" if limit is None and least is None else (
        f"; limit {limit}" if least is None else f"; at least {least}")
    print(f"{what}: {ratio:.3f} ({low:.3f}-{high:.3f}{bound})", flush=True)
    return (limit is None or low <= limit) and (least is None or high >= least)


def compare_steps(arguments):
    count, model = arguments.processes, ["--model", arguments.model]
    programs = [steps_of(arguments, processes, threads, model)
                for processes, threads in ((count, 1), (1, count), (1, 1))]
    ours, threads, one = programs
    rival = None
    if arguments.python != "none":
        script = [os.path.join(paired.HERE, "ddp_step.py"), *model, "--processes", str(count)]
        tuning = argparse.Namespace(python=arguments.python, threads=1)
        settings = arguments.settings or paired.tuned_settings(script, tuning)
        rival = paired.Program("DDP", [arguments.python, *script, "--threads", "1",
                                       "--settings", settings])
        programs.append(rival)
    paired.measure(programs, arguments)
    for each in programs:
        each.quit()
    print(f"{arguments.model}, processes x threads; ratios to {count} x 1")
    paired.print_table([paired.summarise(each, ours) for each in programs])
    good = tell(f"{count} x 1, of the time of 1 x {count}", ours, threads, limit=1.05)
    good &= tell(f"{count} x 1, as fast as 1 x 1", one, ours, least=0.9 * count)
    if rival is not None:
        good &= tell(f"{count} x 1, of DDP's time", ours, rival, limit=0.85)
    return good


class Way:
    """One of the ways of attnlab_bench_tree_sum; all are of the same processes."""

    def __init__(self, name, processes):
        self.name, self.processes, self.rounds = name, processes, []

    def steps(self, count):
        return self.processes.steps(count, self.name)


def sums_of(arguments, count, values, names):
    """Ways by name, timed in turn."""
    command = [program(arguments, "tree_sum"), "--values", str(values)]
    processes = paired.Processes("tree_sum", command, count)
    ways = {name: Way(name, processes) for name in names}
    paired.measure(list(ways.values()), arguments)
    processes.quit()
    return ways


def numbers(text):
    return [int(word) for word in text.split(",")]


def compare_sums(arguments):
    good = True
    for values in numbers(arguments.values):
        for count in numbers(arguments.counts):
            ways = sums_of(arguments, count, values, ("tree", "all_reduce", "copying"))
            medians = ", ".join(f"{name} {1000 * statistics.median(way.rounds):.2f} ms"
                                for name, way in ways.items())
            print(f"{values} numbers, {count} processes: {medians}")
            good &= tell("  tree of all_reduce", ways["tree"], ways["all_reduce"], limit=1.15)
            tell("  tree of copying", ways["tree"], ways["copying"])
    return good


def measured_costs(arguments):
    """Seconds: of messages, and of each number, from sums of two processes; see MODEL."""
    most = max(numbers(arguments.values))
    names = ("tree", "all_reduce", "copying", "gather")
    few, many = ({name: statistics.median(way.rounds) for name, way
                  in sums_of(arguments, 2, values, names).items()} for values in (2, most))
    each = {name: max(0, many[name] - few[name]) / most for name in names}
    copies = max(0, each["copying"] - each["all_reduce"])
    return {"l": few["tree"] / 2, "l'": min(few["tree"], few["all_reduce"]) / 2, "g": few["gather"],
            "b": each["all_reduce"], "c": copies,
            "a": max(0, 2 * (each["tree"] - each["all_reduce"] - copies))}


def on_paper(arguments):
    costs = measured_costs(arguments)
    if arguments.gigabits:
        costs["b"] = 32 / (arguments.gigabits * 1e9)
    if arguments.microseconds:
        costs["l"] = costs["l'"] = costs["g"] = arguments.microseconds / 1e6
    print(MODEL)
    print(", ".join(f"{name} = {1e6 * costs[name]:.0f} us" for name in ("l", "l'", "g")) + "; "
          + ", ".join(f"{name} = {1e9 * costs[name]:.2f} ns" for name in ("b", "a", "c")))
    print("\n| n | T | W | tree | ring | step | times as fast, tree | ring | tree costs more above |")
    print("|---|---|---|---|---|---|---|---|---|")
    for values, preset in ((6e6, "Ti"), (9e7, "B")):
        one = steps_of(arguments, 1, 1, ["--preset", preset])
        few = argparse.Namespace(**{**vars(arguments), "rounds": 2, "steps": 2, "warmup": 1})
        paired.measure([one], few)
        one.quit()
        step = statistics.median(one.rounds)
        for count in (8, 64, 512):
            levels, share = count.bit_length() - 1, 1 - 1 / count
            tree = 2 * levels * costs["l"] + values * (share * (2 * costs["b"] + costs["a"])
                                                       + costs["c"])
            ring = 2 * (count - 1) * costs["l'"] + values * 2 * share * costs["b"]
            told = (count - 1) * costs["g"]
            saved = 2 * ((count - 1) * costs["l'"] - levels * costs["l"])
            more = share * costs["a"] + costs["c"]
            print(f"| {values / 1e6:.0f} million | {step:.2f} s | {count} | {1000 * tree:.0f} ms "
                  f"| {1000 * ring:.0f} ms | {step + told + tree:.2f} s "
                  f"| {count * step / (step + told + tree):.1f} "
                  f"| {count * step / (step + told + ring):.1f} "
                  f"| {max(0, saved) / more / 1e6 if more > 0 else float('inf'):.1f} million |")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="what", required=True)
    step, sums, paper = (kinds.add_parser(name) for name in ("step", "sums", "paper"))
    step.add_argument("model", choices=["vit", "transformer_xl"])
    step.add_argument("--processes", type=int, default=2, help="a power of two")
    step.add_argument("--python", default="/usr/bin/python3",
                      help="a Python with PyTorch; none: without it")
    step.add_argument("--settings", help="DDP's, as ddp_step.py prints them; skips tuning")
    for each in (sums, paper):
        each.add_argument("--values", default="6000000,90000000", help="float32 numbers")
    sums.add_argument("--counts", default="2,4,8", help="of processes")
    paper.add_argument("--gigabits", type=float, help="a second of a network, not this machine's")
    paper.add_argument("--microseconds", type=float, help="of a message, likewise")
    for each in (step, sums, paper):
        each.add_argument("--build", default="build/release", help="build folder of attnlab")
        each.add_argument("--rounds", type=int, default=8)
        each.add_argument("--steps", type=int, default=3, help="a round")
        each.add_argument("--warmup", type=int, default=3, help="steps before the first round")
        each.add_argument("--check", action="store_true", help="fail beyond the limits")
    arguments = parser.parse_args()
    if arguments.rounds < 2 or arguments.steps < 1 or arguments.warmup < 1:
        parser.error("needs at least 2 rounds, 1 step and 1 step of warm-up")
    paired.tell_what_holds()
    works = {"step": compare_steps, "sums": compare_sums, "paper": on_paper}
    if not works[arguments.what](arguments) and arguments.check:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
