"""Two or more programs timed in turn: rounds, ratios against PyTorch, and their intervals.

Used by the scripts compare_*.py. After a warm-up each program does a few steps a
round, in an order that rotates; the others wait meanwhile, so that what disturbs the machine
disturbs all alike.

A round's time is the median of its steps. Printed for each program: the median over rounds, the
quartiles, and against PyTorch the ratio of medians, the median of the ratios round by round, and
the 95 % interval of that (bootstrap over rounds). Above 1 is slower than PyTorch.
Exit status: 0; 1 where --check finds a ratio's whole interval above its limit; 2 where a program is
missing or ends early.
"""
import argparse
import atexit
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RIVAL = "pytorch"  # its name in tables


# What holds a library to less than the processor has, for all programs alike.
HOLDING = ("OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS",
           "ATTNLAB_CPU")


def tell_what_holds():
    """Names what the environment holds libraries to: a figure without it would be of another machine."""
    held = [f"{name}={os.environ[name]}" for name in HOLDING if name in os.environ]
    if held:
        print(f"held by the environment: {' '.join(held)}", file=sys.stderr)


class Program:
    """A program that answers "steps N" with a JSON list of seconds."""

    def __init__(self, name, command, variables=None, cores=()):
        """variables: more of its environment; cores: those that it is bound to, if any."""
        self.name, self.command, self.rounds = name, command, []
        bind = (lambda: os.sched_setaffinity(0, cores)) if cores else None
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            text=True, env={**os.environ, **(variables or {})},
                                            preexec_fn=bind)
        except OSError as error:
            fail(f"cannot start {command[0]}: {error.strerror}. Run: make bench")

    def steps(self, count):
        self.ask("steps", count)
        return self.answer()

    def ask(self, what, count):
        try:
            self.process.stdin.write(f"{what} {count}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            fail(f"{self.name} ended early (exit {self.process.wait()}): {' '.join(self.command)}")
        return json.loads(line)

    def quit(self):
        try:
            self.process.stdin.write("quit\n")
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        if self.process.wait() != 0:
            fail(f"{self.name} ended with {self.process.returncode}: {' '.join(self.command)}")


class Processes:
    """A program in several processes that do each step together, timed by the first one.

    Each has RANK, LOCAL_RANK, WORLD_SIZE and, in ATTNLAB_MEETING, a file where they meet; with
    `bind` and enough cores each is bound to an equal share of them, as `attnlab run` does.
    """

    def __init__(self, name, command, count, bind=True):
        self.name, self.rounds = name, []
        self.folder = tempfile.TemporaryDirectory()
        cores = sorted(os.sched_getaffinity(0))
        each = len(cores) // count if bind and count > 1 else 0
        self.programs = [
            Program(f"{name}, process {rank}", command,
                    {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count),
                     "ATTNLAB_MEETING": os.path.join(self.folder.name, "store")},
                    cores[rank * each:(rank + 1) * each])
            for rank in range(count)]
        atexit.register(self.end)

    def steps(self, count, what="steps"):
        for program in self.programs:
            program.ask(what, count)
        return [program.answer() for program in self.programs][0]

    def quit(self):
        for program in self.programs:
            program.quit()

    def end(self):
        """Of those that wait for one that has failed."""
        for program in self.programs:
            program.process.kill()


def fail(message):
    print(f"{os.path.basename(sys.argv[0])}: {message}", file=sys.stderr)
    sys.exit(2)


def tuned_settings(script, arguments):
    command = [arguments.python, *script, "--tune-only", "--threads", str(arguments.threads)]
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        fail(f"cannot start {command[0]}: {error.strerror}. --python names a Python with PyTorch")
    if result.returncode != 0:
        fail(f"cannot tune PyTorch: {' '.join(command)} gave {result.returncode}. "
             "Is python3-torch there? scripts/setup.sh --with bench")
    return result.stdout.strip()


def interval(ratios, draws=2000):
    """95 % bootstrap interval of the median; the same for the same ratios."""
    generator = random.Random(0)
    medians = sorted(statistics.median(generator.choices(ratios, k=len(ratios)))
                     for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def measure(programs, arguments):
    for program in programs:
        program.steps(arguments.warmup)
    for round_index in range(arguments.rounds):
        shift = round_index % len(programs)
        for program in programs[shift:] + programs[:shift]:
            program.rounds.append(statistics.median(program.steps(arguments.steps)))
        print(f"round {round_index + 1}/{arguments.rounds}: "
              + ", ".join(f"{p.name} {p.rounds[-1] * 1000:.1f} ms" for p in programs),
              file=sys.stderr, flush=True)


def summarise(program, rival):
    quartiles = statistics.quantiles(program.rounds, n=4, method="inclusive")
    row = {"name": program.name, "median_s": statistics.median(program.rounds),
           "quartiles_s": [quartiles[0], quartiles[2]], "rounds_s": program.rounds}
    if program is not rival:
        row["ratio_of_medians"] = row["median_s"] / statistics.median(rival.rounds)
        row["paired_ratio"], row["paired_interval"] = pair(program, rival)
        row["paired_ratios"] = [a / b for a, b in zip(program.rounds, rival.rounds)]
    return row


def pair(first, second):
    """Of two programs timed in turn: the median of the ratios round by round, and its interval."""
    ratios = [a / b for a, b in zip(first.rounds, second.rounds)]
    return statistics.median(ratios), interval(ratios)


def print_table(rows):
    print(f"{'program':<12}{'median':>10}{'quartiles':>20}{'ratio':>8}{'paired':>8}  95 %")
    for row in rows:
        low, high = (1000 * x for x in row["quartiles_s"])
        line = f"{row['name']:<12}{1000 * row['median_s']:>7.1f} ms{low:>9.1f}-{high:.1f} ms"
        if "paired_ratio" in row:
            bounds = row["paired_interval"]
            line = (f"{line:<42}{row['ratio_of_medians']:>8.3f}{row['paired_ratio']:>8.3f}"
                    f"  {bounds[0]:.3f}-{bounds[1]:.3f}")
        print(line)


def too_slow(rows, limits):
    """Those whose whole interval lies above the limit: slower by more than this run's noise."""
    return [row for row in rows
            if row["name"] in limits and row["paired_interval"][0] > limits[row["name"]]]


def read_arguments(about, name, limits, within, unit, steps, threads, models):
    """limits: precision to attention to its limit; within: as compare() takes it."""
    attentions = list(next(iter(limits.values()))) + list(within)
    parser = argparse.ArgumentParser(description=about)
    if models:
        parser.add_argument("model", choices=models)
    if len(limits) > 1:
        parser.add_argument("--precision", choices=list(limits), default=next(iter(limits)),
                            help="of products of matrices")
    parser.add_argument("--build", default="build/release", help="build folder of attnlab")
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python with PyTorch")
    parser.add_argument("--threads", type=int, default=threads,
                        help=f"of either program; default {threads}")
    parser.add_argument("--attention", action="append", help="default: " + " and ".join(attentions))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=steps, help=f"{unit}s a round")
    parser.add_argument("--warmup", type=int, default=steps, help=f"{unit}s before the first round")
    parser.add_argument("--settings", help=f"PyTorch's, as {name}.py prints them; skips tuning")
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--check", action="store_true", help="fail above the limits "
                        + ", ".join(f"{attention} {limit} ({precision})"
                                    for precision, some in limits.items()
                                    for attention, limit in some.items())
                        + "".join(f", {attention} {limit} of {other}"
                                  for attention, (other, limit) in within.items()))
    arguments = parser.parse_args()
    if arguments.rounds < 2 or arguments.steps < 1 or arguments.warmup < 1:
        parser.error(f"needs at least 2 rounds, 1 {unit} and 1 {unit} of warm-up")
    return arguments


def add_shares(rows, ours):
    """Each row's share of the rate of a large product of matrices, by the operations of our step.

    ours: attention to the command of its program, which knows --rates. A row without one is the
    rival's: it is asked for the same work.
    """
    rates = {name: json.loads(subprocess.run(command + ["--rates"], stdout=subprocess.PIPE,
                                             text=True, check=True).stdout)
             for name, command in ours.items()}
    fastest = max(rate["product_a_second"] for rate in rates.values())
    any_step = next(iter(rates.values()))["step"]
    for row in rows:
        step = rates.get(row["name"], {"step": any_step})["step"]
        row["product_share"] = step / row["median_s"] / fastest
    return fastest


def compare(about, name, limits, unit, steps, threads, models=(), shares=False, within=None):
    """Times attnlab_bench_NAME for each attention against NAME.py, and ends the program.

    limits: attention to the largest ratio that --check accepts, or precision to such a table where
    both programs know --precision; unit: what a step is called; steps, threads: defaults; models:
    what both programs take as --model, where they have several; shares: our program knows --rates,
    so that shares of a large product's rate are told, too; within: attention to another one and the
    largest ratio to that.
    """
    within = within or {}
    precise = isinstance(next(iter(limits.values())), dict)
    by_precision = limits if precise else {"float32": limits}
    attentions = list(next(iter(by_precision.values()))) + list(within)
    arguments = read_arguments(about, name, by_precision, within, unit, steps, threads, models)
    tell_what_holds()
    precision = arguments.precision if precise else next(iter(by_precision))
    limits = by_precision[precision]
    words = ["--model", arguments.model] if models else []
    words += ["--precision", precision] if precise else []
    script = [os.path.join(HERE, f"{name}.py")] + words
    ours = os.path.join(arguments.build, "bin", f"attnlab_bench_{name}")
    same = ["--threads", str(arguments.threads)]
    Program(name, [ours] + words + same).quit()  # tuning takes minutes: see first whether it starts
    settings = arguments.settings or tuned_settings(script, arguments)
    rival = Program(RIVAL, [arguments.python, *script, "--settings", settings] + same)
    chosen = list(arguments.attention or attentions)
    chosen += [other for attention, (other, _) in within.items()
               if attention in chosen and other not in chosen]
    commands = {attention: [ours, "--attention", attention] + words + same
                for attention in chosen}
    programs = {attention: Program(attention, command) for attention, command in commands.items()}
    everything = [rival, *programs.values()]
    measure(everything, arguments)
    for program in everything:
        program.quit()

    rows = [summarise(program, rival) for program in everything]
    fastest = add_shares(rows, commands) if shares else 0
    pairs = [{"name": attention, "to": other, "limit": limit,
              **dict(zip(("paired_ratio", "paired_interval"),
                         pair(programs[attention], programs[other])))}
             for attention, (other, limit) in within.items()
             if attention in programs and other in programs]
    if arguments.json:
        print(json.dumps({"threads": arguments.threads, "precision": precision,
                          "settings": json.loads(settings), "limits": limits, "programs": rows,
                          "pairs": pairs}, indent=2))
    else:
        print_table(rows)
        for row in pairs:
            low, high = row["paired_interval"]
            print(f"{row['name']}: {row['paired_ratio']:.3f} of {row['to']} ({low:.3f}-{high:.3f}; "
                  f"limit {row['limit']})")
    if shares and not arguments.json:
        print(f"of a large product's {fastest / 1e9:.0f} GFLOP/s: "
              + ", ".join(f"{row['name']} {100 * row['product_share']:.0f} %" for row in rows))
    if not arguments.check:
        sys.exit(0)
    slow = [f"{row['name']}: slower than its limit of {limits[row['name']]}"
            for row in too_slow(rows, limits)]
    slow += [f"{row['name']}: slower than {row['limit']} of {row['to']}" for row in pairs
             if row["paired_interval"][0] > row["limit"]]
    for line in slow:
        print(line, file=sys.stderr)
    sys.exit(1 if slow else 0)
