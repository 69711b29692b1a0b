#!/usr/bin/env python3
"""Does what the documents say: runs their commands in order and compares what they show.

    run_pages.py --build BUILD [--python PYTHON] [PAGE ...]

Each page has a folder of its own with `configs`, `docs`, `python` and `build/release` as in a clone,
and one shell. Without PAGE: all pages. Those in RUN are run; of the others each command is only looked at
(below), as is `attnlab ...` between words everywhere. What needs Python or sharing is left out where the
build has none.

What a block of a page (three backticks) is:
  without a language, or sh, console
            commands, where its first word is one or is `$`; behind `$` the next lines are the whole
            output. Else output of the block before, which must hold these lines one behind the other.
            `...` stands for anything
  yaml, python
            a file, where its first line (`# NAME`) or the paragraph above (the last `NAME`) names one.
            A composition is validated. Python without a name is run
  any other nothing (tests/tutorials compares C++)

Not compared: paths up to the file, the hash in a run's name, seconds, rates, shares and memory; the
number of blanks and dashes. All other text and numbers are.

Comments in a page, above a block, several behind `;`:
  <!-- check: skip 1,3: REASON -->   commands 1 and 3 (no number: all) are looked at instead: has the
                                     program such a command with these options? Python: does it parse?
  <!-- check: long: REASON -->       the same, and `run` and `suite` are validated with their changes
  <!-- check: numbers differ -->     numbers are not compared: another processor has others
  <!-- check: exit 2 -->             the last command ends so, not with 0
  <!-- check: save NAME -->          this file
  <!-- check: wrong -->              a composition that is shown for its mistakes
  <!-- check: over EXPERIMENT -->    YAML: a part of a composition, validated over this one; a key that
                                     stands there twice is two of them
  <!-- check: part of FILE -->       the block stands in this file of the repository to the letter
  <!-- check: run COMMAND -->        anywhere: a command that readers do not see
"""
import argparse
import ast
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCES = pathlib.Path(__file__).resolve().parents[2]
RUN = ["README.md", "docs/guide.md", "docs/python.md", "docs/tutorials/*.md"]
LOOKED_AT = ["docs/*.md", "docs/*/*.md", "CONTRIBUTING.md", "configs/README.md", "third_party/README.md",
             "tests/benchmarks/README.md", "python/README.md"]
PROGRAMS = {"attnlab", "build/release/bin/attnlab", "$HOME/attnlab/bin/attnlab", "make", "cmake", "ctest",
            "python3", "export", "mkdir", "cp", "cd", "for", "source", "sudo", "apt", "git", "cat"}
NEEDS_PYTHON = {"docs/python.md", "docs/tutorials/from_pytorch.md", "docs/tutorials/attention_in_python.md"}
CHECKS = re.compile(r"(skip|long)( [\d,]+)?: .+|numbers differ|exit \d+|save \S+|wrong|over \S+|part of \S+")
FILE = re.compile(r"`([\w./-]+\.(?:yaml|py))`")


class Block:
    """What stands between two fences, with the comments above it."""

    def __init__(self, page, line, language, text, paragraph, checks):
        self.page, self.line, self.language, self.text = page, line, language, text
        self.checks = checks
        named = re.match(r"# ([\w./-]+\.(?:yaml|py))\n", text)
        endings = {"yaml": ".yaml", "python": ".py"}.get(language, "-")
        said = [name for name in FILE.findall(paragraph) if name.endswith(endings)]
        self.name = self.check("save") or (named[1] if named else (said or [None])[-1])

        first = text.split(maxsplit=1)[0]
        self.commands = first == "$" or first in PROGRAMS or re.match(r"\w+=", first) is not None

    def check(self, word):
        """What stands behind a comment's word; "" where nothing does, None where it is not there."""
        for check in self.checks:
            if check == word or check.startswith((word + " ", word + ":")):
                return check[len(word):].strip(" ")
        return None

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def blocks_of(page):
    """The blocks of a page; between them, with their lines, hidden commands ("run ...") and those in
    words."""
    lines = (SOURCES / page).read_text().split("\n")
    found, checks, paragraph = [], [], []
    at = 0
    while at < len(lines):
        line = lines[at]
        hidden = re.fullmatch(r"<!-- check: (.*) -->", line)
        if hidden and hidden[1].startswith("run "):
            found.append((at + 1, hidden[1]))
        elif hidden:
            checks += hidden[1].split("; ")
            for check in checks:
                if not CHECKS.fullmatch(check):
                    raise SystemExit(f"{page}:{at + 1}: `check: {check}` is none of those in run_pages.py; "
                                     "`skip` and `long` need a reason behind a colon")
        elif line.startswith("```"):
            end = lines.index("```", at + 1)
            text = "".join(x + "\n" for x in lines[at + 1:end])
            found.append(Block(page, at + 1, line[3:].strip(), text, " ".join(paragraph), checks))
            at, checks, paragraph = end, [], []
        else:
            paragraph = paragraph + [line] if line else []
            found += [(at + 1, command) for command in re.findall(r"`(attnlab [^`]+)`", line)]
            if line and checks:
                raise SystemExit(f"{page}:{at + 1}: a comment `check:` stands above no block")
        at += 1
    return found


def complaint(command):
    """What bash says of a text that is not a whole command; "" where it is one."""
    if command.endswith("\\\n"):
        return "goes on in the next line"
    return subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True).stderr


def simple(line):
    """Whether a line is a whole command to the naked eye, so that no shell need be asked."""
    return not re.search(r"<<|\\$|^(for|while|if|case)\b|^[{(]", line) and line.count("'") % 2 == 0 \
        and line.count('"') % 2 == 0


def command_before(lines):
    """The command that the first lines are, and the lines behind it."""
    for end in range(1, len(lines) + 1):
        command = "".join(lines[:end])
        if (end == 1 and simple(command.rstrip("\n"))) or not complaint(command):
            return command, lines[end:]
    return "".join(lines), []  # the shell will say what is wrong


def commands_in(text):
    """The commands of a block with the output that it shows of each: "" without `$`."""
    found = []
    if text.startswith("$ "):
        for piece in re.split(r"^\$ ", text, flags=re.M)[1:]:
            command, shown = command_before(piece.splitlines(True))
            found.append((command, "".join(shown)))
        return found
    lines = text.splitlines(True)
    while lines:
        command, lines = command_before(lines)
        if command.strip() and not command.startswith("#"):
            found.append((command, ""))
    return found


def plain(text, numbers):
    """Lines as they are compared. @param numbers whether numbers count"""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"(?<![\w.>])/(?:[\w.@+-]+/)+", "/", text)
    text = re.sub(r"\b(\d+)-(?:[0-9a-f]{8}|HASH)\b", r"\1-#", text)
    text = re.sub(r"\b(\w+_per_second|host_share|peak_memory) [\d.]+(?:e[-+]?\d+)?", r"\1 #", text)
    text = re.sub(r"\b\d[\d.]*(?:e[-+]?\d+)? ?(s|ms|µs|min|seconds|minutes)\b", r"# \1", text)
    if not numbers:
        text = re.sub(r"[-+±]?\b\d+(?:\.\d+)?(?:e[-+]?\d+)?\b", "#", text)
    text = re.sub(r"-{2,}", "--", re.sub(r"[ \t]+", " ", text))
    lines = (line.strip() for line in text.splitlines())
    # A slow machine reports more steps.
    return [line for line in lines if line and not re.search(r": step \S+/\S+ .* left$", line)]


def agrees(line, printed):
    pattern = re.escape(line).replace(r"\.\.\.", ".*").replace("…", ".*")
    return re.fullmatch(pattern, printed) is not None


def shows(shown, printed, whole):
    """The first line shown that is not printed where it must be, None: all are.

    whole: nothing else is printed before, between or behind them, except where `...` stands
    """
    at, free = 0, not whole
    previous = None
    for line in shown:
        if line == "...":
            free = True
            continue
        ends = len(printed) if free else at + 1
        place = next((i for i in range(at, min(ends, len(printed))) if agrees(line, printed[i])), None)
        if place is None:
            return f"{line!r}, behind {previous!r}" if previous else repr(line)
        at, free, previous = place + 1, False, line
    if whole and not free and at < len(printed):
        return f"nothing, where the program prints {printed[at]!r}"
    return None


class Help:
    """What `attnlab COMMAND --help` says."""

    def __init__(self, program):
        self.program, self.known = program, {}

    def of(self, command):
        if command not in self.known:
            ended = subprocess.run([self.program, *command.split(), "--help"], capture_output=True, text=True)
            self.known[command] = ended.stdout if ended.returncode == 0 else None
        return self.known[command]


SHARING = re.compile(r"key \w+|index \w+|reproduce|plugin (?!test)\w+|suite pack")  # commands of its library
GROUPS = ("config", "data", "plugin", "key", "index", "runs", "study", "attention", "bench")


def calls_in(command):
    """The calls of attnlab in a command, each as its words behind the program."""
    # A placeholder is a word; what stands in $(...) is not looked at.
    command = re.sub(r"\$\([^()]*\)", "X", command)
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split, lexer.commenters = True, "#"
    calls, words = [], []
    for word in [*lexer, ";"]:
        if not re.fullmatch(r"[|&;<>()]+", word):
            words.append(word)
            continue
        while words and (re.match(r"\w+=", words[0]) or words[0] in ("do", "nice", "time")):
            words.pop(0)
        if words and words[0].rsplit("/", 1)[-1] == "attnlab":
            calls.append(words[1:])
        words = []
    return calls


class Page:
    """A page, its folder and its shell."""

    def __init__(self, page, options, helps):
        self.page, self.options, self.helps = page, options, helps
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="attnlab-page-"))
        self.faults, self.ran, self.looked_at = [], 0, 0
        self.printed = ""  # by the commands of the last block
        self.compared = True
        self.shell = None

    def open(self):
        """Fills the folder and starts the shell."""
        options = self.options
        shutil.copytree(SOURCES / "configs", self.folder / "configs")
        for name, to in (("docs", SOURCES / "docs"), ("python", SOURCES / "python"),
                         ("build/release", options.build), ("bin/attnlab", options.build / "bin/attnlab")):
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).symlink_to(to)
        (self.folder / "home").mkdir()
        (self.folder / "bin/python3").write_text(f'#!/bin/sh\nexec {options.python} "$@"\n')
        (self.folder / "bin/python3").chmod(0o755)
        tutorials = options.build / "tutorials" if self.page.startswith("docs/tutorials/") else ""
        environment = dict(os.environ, HOME=str(self.folder / "home"), ATTNLAB_PLUGIN_PATH=str(tutorials),
                           PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}",
                           PYTHONPATH=f"{SOURCES / 'python'}", PYTHONDONTWRITEBYTECODE="1",
                           OMP_WAIT_POLICY="passive")
        for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "ATTNLAB_PROGRAM"):
            environment.pop(name, None)
        self.answers, self.tell = os.pipe()
        self.shell = subprocess.Popen(["bash", "--norc", "-s"], cwd=self.folder, env=environment, text=True,
                                      stdin=subprocess.PIPE, pass_fds=[self.tell], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.STDOUT)

    def close(self):
        if self.shell:
            self.shell.stdin.close()
            self.shell.wait()
            os.close(self.answers)
            os.close(self.tell)
        shutil.rmtree(self.folder)

    def fault(self, place, text):
        self.faults.append(f"{place}: {text}")
        print(f"FAILED {place}: {text}", flush=True)

    def execute(self, command):
        """Runs a command in the page's shell. @returns exit status and output"""
        script, out = self.folder / "home/.command", self.folder / "home/.output"
        script.write_text(re.sub(r"0-(?:HASH|…|\.\.\.)", "0-*", command))
        self.shell.stdin.write(f". {script} >{out} 2>&1 </dev/null; echo $? >&{self.tell}\n")
        self.shell.stdin.flush()
        answer = b""
        while not answer.endswith(b"\n"):
            byte = os.read(self.answers, 1)
            if not byte:
                raise SystemExit(f"{self.page}: the shell ended at: {command}")
            answer += byte
        self.ran += 1
        return int(answer), out.read_text(errors="replace")

    def must(self, place, command, status=0):
        found, printed = self.execute(command)
        if self.options.verbose:
            print(f"$ {command.rstrip()}\n{printed}", end="", flush=True)
        if found != status:
            self.fault(place, f"ends with {found}, not {status}: {command.strip()}\n{printed[-3000:]}")
        return printed

    def look_at(self, place, command, validates):
        """Whether the program has such a command with these options, without running it."""
        said = "" if simple(command.rstrip("\n")) else complaint(command)
        if said:
            self.fault(place, f"is not a command: {said}")
            return
        for words in calls_in(command):
            self.looked_at += 1
            if not words or words[0] in ("help", "version") or not re.fullmatch(r"[a-z]+", words[0]):
                continue
            name = " ".join(words[:2 if words[0] in GROUPS or words[:2] == ["suite", "pack"] else 1])
            known = self.helps.of(name)
            if known is None:
                if (self.options.build / "lib/attnlab/attnlab_sharing.so").exists() or not SHARING.fullmatch(name):
                    self.fault(place, f"there is no command `attnlab {name}`")
                continue
            for word in words:
                option = re.match(r"--[a-z-]+|-[a-z]\b", word)
                if option and not re.search(re.escape(option[0]) + r"(?![a-z-])", known):
                    self.fault(place, f"`attnlab {name}` has no option {option[0]}")
            if validates and words[0] in ("run", "suite"):
                takes_value = re.findall(r"(--?[a-z-]+) [A-Z]", known)
                kept = [word for at, word in enumerate(words[1:], 1)
                        if not word.startswith("-") and words[at - 1] not in takes_value]
                self.must(place, "attnlab validate " + shlex.join(kept))

    def commands(self, block):
        skip, long, status = block.check("skip"), block.check("long"), block.check("exit")
        spared = skip if skip is not None else long
        which = re.match(r"[\d,]*", spared or "")[0]
        all_spared, numbers = spared is not None and not which, which.split(",")
        self.printed, self.compared = "", not all_spared
        found = commands_in(block.text)
        for number, (command, shown) in enumerate(found, 1):
            if all_spared or str(number) in numbers:
                self.look_at(block.place, command, long is not None)
                continue
            printed = self.must(block.place, command, int(status) if status and number == len(found) else 0)
            self.printed += printed
            if shown:
                self.compare(block, shown, printed, True)

    def compare(self, block, shown, printed, whole):
        numbers = block.check("numbers") is None
        lacks = shows(plain(shown, numbers), plain(printed, numbers), whole)
        if lacks:
            self.fault(block.place, f"shows {lacks}; printed is\n{printed[-3000:]}")

    def save(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def composition(self, block):
        place, over = block.place, block.check("over")
        if over:
            # A key that stands there again begins another part.
            parts, keys = [""], set()
            for line in block.text.splitlines(keepends=True):
                key = re.match(r"[\w.]+", line)
                if key and key[0] in keys:
                    parts.append("")
                    keys = set()
                keys |= {key[0]} if key else set()
                parts[-1] += line
            for part in parts:
                head = "" if re.search(r"^schema:", part, re.M) else "schema: 1\n"
                self.save("part_of_page.yaml", f"{head}extends: {over}\n{part}")
                self.must(place, "attnlab validate part_of_page.yaml")
        if block.name:
            self.save(block.name, block.text)
        if not over and block.check("skip") is None:
            if not re.search(r"^schema:", block.text, re.M):
                if not block.name:
                    self.fault(place, "is not a composition, and nothing says over which it is to be laid")
            elif "rules:" not in block.text and block.check("wrong") is None:
                name = block.name or "part_of_page.yaml"
                self.save(name, block.text)
                self.must(place, f"attnlab validate {name}")

    def python(self, block):
        try:
            ast.parse(block.text)
        except SyntaxError as error:
            self.fault(block.place, f"is not Python: {error}")
            return
        if block.name:
            self.save(block.name, block.text)
        elif block.check("skip") is None:
            self.save("block_of_page.py", block.text)
            self.printed = self.must(block.place, "python3 block_of_page.py")
            self.compared = True

    def take(self, block):
        part = block.check("part")
        if part and block.text not in (SOURCES / part.removeprefix("of ")).read_text():
            self.fault(block.place, f"shows another text than {part.removeprefix('of ')}")
        if block.language == "yaml":
            self.composition(block)
        elif block.language == "python":
            self.python(block)
        elif block.language in ("", "sh", "console"):
            if block.commands:
                self.commands(block)
            elif block.check("skip") is None and self.compared:
                self.compare(block, "...\n" + block.text + "...\n", self.printed, False)

    def run(self):
        self.open()
        for block in blocks_of(self.page):
            if isinstance(block, Block):
                self.take(block)
            elif block[1].startswith("run "):
                self.must(f"{self.page}:{block[0]}", block[1].removeprefix("run ") + "\n")
            else:
                self.look_at(f"{self.page}:{block[0]}", block[1], False)

    def look(self):
        for block in blocks_of(self.page):
            if isinstance(block, tuple):
                self.look_at(f"{self.page}:{block[0]}", block[1], False)
            elif block.language in ("", "sh", "console"):
                for command, _ in commands_in(block.text) if block.commands else []:
                    self.look_at(block.place, command, False)


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=lambda x: pathlib.Path(x).resolve())
    parser.add_argument("--python", default="/usr/bin/python3", help="the one whose torch attnlab uses")
    parser.add_argument("--verbose", action="store_true", help="show what commands print")
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    options = parser.parse_args()
    helps = Help(options.build / "bin/attnlab")
    found = [str(file.relative_to(SOURCES)) for pattern in RUN for file in sorted(SOURCES.glob(pattern))]
    others = [str(file.relative_to(SOURCES)) for pattern in LOOKED_AT
              for file in sorted(SOURCES.glob(pattern))]
    faults = []
    with_python = all((options.build / "lib/attnlab" / file).exists()
                      for file in ("attnlab_python.so", "python/built_with.json"))
    for page in options.pages or dict.fromkeys(found + others):
        if page in NEEDS_PYTHON and not with_python:
            print(f"{page}: left out: attnlab was built without Python (python3-torch, python3-dev, "
                  "pybind11-dev)")
            continue
        begun, state = processor_seconds(), Page(page, options, helps)
        try:
            state.run() if page in found else state.look()
        finally:
            state.close()
        faults += state.faults
        print(f"{page}: {state.ran} commands run, {state.looked_at} looked at, "
              f"{processor_seconds() - begun:.1f} s of processor time", flush=True)
    if faults:
        print(f"\n{len(faults)} faults:\n" + "\n".join(fault.split("\n")[0] for fault in faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
