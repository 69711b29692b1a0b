#!/usr/bin/env python3
"""docs/papers.md: which tables of the papers run here, and what the others need.

  scripts/papers_table.py            writes it
  scripts/papers_table.py --check    fails where it is not up to date

A table is a suite configs/suites/paper/PAPER_table_N.yaml, whose opening comment begins with
  # PAPER, table N: what it shows.
  # Runs here: whole, reduced (how), or no.
  # Needs: data and machine.
Parameters are of the line `published: {parameters: N}` of a file below configs/experiments/paper; a comment
behind it may say how many there are here, and why others: `# counted: 504,250: no last norm of edges`.
"""
import argparse
import pathlib
import re
import sys

PAPERS = {  # the start of a suite's name: the paper, and its tables
    "quest": ("QUEST", [str(n) for n in range(1, 11)] + [f"A{n}" for n in range(1, 15)]),
    "yam": ("Your Attention Matters", ["1", "2", "3"]),
    "ia": ("Indirect Attention", ["1", "2", "3"]),
}
IBOT = "the tested sets, and table A12's quest_ibot_b, trained once for all three"
WITHOUT_SUITE = {  # what it shows, whether it runs here, what it needs
    ("quest", "A10"): ("settings of table 8", "settings: compositions of table 8, parameters below", "as table 8"),
    ("quest", "A11"): ("settings of table 9", "settings: compositions of table 9, parameters below", "as table 9"),
    ("quest", "A13"): ("iBOT, tested by linear probes, retrieval and video segmentation", "no", IBOT),
    ("quest", "A14"): ("iBOT, tested by linear probes of seven sets", "no", IBOT),
}
HEAD = """# Tables of the papers
Every table of QUEST, "Your Attention Matters" (YAM) and Indirect Attention (IA) that attnlab can express is a
suite: `attnlab suite quest_table_1`. It shows the paper's numbers beside ours; its opening comment says what the
paper leaves open.

*Here* is two cores without a GPU. *Whole*: as published. *Reduced*: another suite asks the same of a smaller
model, other data or a shorter training. Only a table that runs whole can confirm or refute a number. Times are
estimates.

This page is made: `scripts/papers_table.py`.
"""
PARAMETERS = """
## Parameters
Counts that papers print, and how many parameters the same experiment has here (`attnlab run NAME --dry-run`).
Models of images were counted with made-up images of the same size, DeiT III's of 224 pixels; ViT-2B from one
layer; ZINC, PascalVOC-SP, COCO-SP, Peptides-struct and PCQM-Contact with another set of the same sizes.

"""


def fail(message):
    sys.exit(f"papers_table: {message}")


def head_of(file):
    """The items of a suite's opening comment: its title, and what begins with a word and a colon."""
    items = []
    for line in file.read_text(encoding="utf-8").splitlines():
        text = line[1:].strip()
        if not line.startswith("#") or not text:
            break
        if not items or re.match(r"(Runs here|Needs): ", text):
            items.append(text)
        else:
            items[-1] += " " + text
    return items


def described(file, paper, number):
    """What a suite says of its table, whether it runs here, and what it needs."""
    wanted = [rf"{re.escape(paper)}, table {number}: (.+)\.", r"Runs here: (.+)\.", r"Needs: (.+)\."]
    items = head_of(file)
    if len(items) != len(wanted):
        fail(f"{file}: its opening comment has {len(items)} items, not a title, 'Runs here:' and 'Needs:'")
    found = [re.fullmatch(pattern, item) for pattern, item in zip(wanted, items)]
    for match, pattern, item in zip(found, wanted, items):
        if match is None:
            fail(f"{file}: expected '# {pattern}' in its opening comment, found '# {item}'")
    return [match.group(1) for match in found]


def row(cells):
    return "| " + " | ".join(cells) + " |\n"


def table(columns, rows):
    return row(columns) + "|" + "---|" * len(columns) + "\n" + "".join(map(row, rows))


def tables(root):
    folder = root / "configs/suites/paper"
    rows, known = [], set()
    for start, (paper, numbers) in PAPERS.items():
        for number in numbers:
            file = folder / f"{start}_table_{number.lower()}.yaml"
            known.add(file.name)
            without = WITHOUT_SUITE.get((start, number))
            if file.exists() == (without is not None):
                fail(f"{file}: " + ("has a line in WITHOUT_SUITE, too; take it out" if without else
                                    "is missing; write the suite, or a line in WITHOUT_SUITE"))
            what, here, needs = without or described(file, paper, number)
            link = "-" if without else f"[`{file.stem}`](../configs/suites/paper/{file.name})"
            rows.append([f"{start.upper()} {number}", what, link, here, needs])
    for file in sorted(folder.glob("*_table_*.yaml")):
        if file.name not in known and not re.sub(r"_[a-z]+\.yaml$", ".yaml", file.name) in known:
            fail(f"{file}: is not a table of {', '.join(PAPERS)}")
    return table(["Table", "Shows", "Suite", "Runs here", "Whole, it needs"], rows)


def parameters(root):
    rows = []
    line = re.compile(r"^published: \{parameters: ([0-9.e]+)[^}]*\}(?: +# counted: ([0-9,]+)(?:: (.+))?)?$", re.M)
    for file in sorted((root / "configs/experiments/paper").rglob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        if not re.search(r"^published:", text, re.M):
            continue
        match = line.search(text)
        if match is None:
            fail(f"{file}: expected 'published: {{parameters: N}}' and no other comment than '# counted: N: why'")
        count, counted, why = match.groups()
        printed = f"{int(count):,}" if count.isdigit() else f"{float(count) / 1e6:g} M"
        name, same = f"`{file.stem}`", [printed, counted or "", why or ""]
        if rows and rows[-1][1:] == same and counted:  # one model at two resolutions
            rows[-1][0] += ", " + name
        else:
            rows.append([name, *same])
    return table(["Experiment", "Paper", "Here", "The difference"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page differs")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="of the sources")
    arguments = parser.parse_args()
    page = arguments.root / "docs/papers.md"
    text = HEAD + "\n" + tables(arguments.root) + PARAMETERS + parameters(arguments.root)
    if not arguments.check:
        page.write_text(text, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != text:
        fail(f"{page}: is not up to date; run scripts/papers_table.py")


if __name__ == "__main__":
    main()
