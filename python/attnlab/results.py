"""What runs left: configurations, metrics, costs, traces; and comparisons of them."""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from attnlab.program import AttnlabError, ask

Path = Union[str, os.PathLike]


def _frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError:
        raise AttnlabError("a data frame needs pandas: pip install pandas (or take .rows())", 2) from None
    return pandas.DataFrame(list(rows))


class Run:
    """A run's folder (docs/guide.md, "What is in a run's folder?")."""

    def __init__(self, path: Path):
        self.path = pathlib.Path(path)
        if not (self.path / "config.yaml").is_file():
            raise AttnlabError(f"{self.path}: is not a run's folder (no config.yaml)", 2)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.status.get('state', 'new')})"

    def _json(self, name: str) -> Dict[str, Any]:
        file = self.path / name
        return json.loads(file.read_text()) if file.exists() else {}

    @property
    def status(self) -> Dict[str, Any]:
        """State ("done", "running", ...), step, metrics of the result."""
        return self._json("status.json")

    @property
    def metrics(self) -> Dict[str, float]:
        """The run's result on its test split; empty before its end."""
        return dict(self.status.get("metrics", {}))

    @property
    def environment(self) -> Dict[str, Any]:
        """Versions, processor, data: what the run was made with."""
        return self._json("environment.json")

    def lines(self, split: Optional[str] = None) -> List[Dict[str, Any]]:
        """The lines of metrics.jsonl, of one split ("train", "validation", "test") or all."""
        return self._lines("metrics.jsonl", split)

    def trace(self) -> List[Dict[str, Any]]:
        """What `trace:` recorded of the attention layers, a line for each layer and step."""
        return self._lines("attention.jsonl", None)

    def _lines(self, name: str, split: Optional[str]) -> List[Dict[str, Any]]:
        file = self.path / name
        if not file.exists():
            return []
        lines = (json.loads(line) for line in file.read_text().splitlines() if line)
        return [line for line in lines if split is None or line.get("split") == split]

    def curve(self, split: Optional[str] = None) -> Any:
        """`lines` as a pandas data frame."""
        return _frame(self.lines(split))


class Runs(Sequence[Run]):
    """Several runs, in the order of their folders."""

    def __init__(self, members: Sequence[Run], folder: Optional[Path] = None):
        self._members = list(members)
        self._folder = folder

    @classmethod
    def of_folders(cls, folders: Sequence[Path]) -> "Runs":
        return cls([Run(folder) for folder in folders if (pathlib.Path(folder) / "config.yaml").exists()])

    def __getitem__(self, index: Any) -> Any:
        return Runs(self._members[index]) if isinstance(index, slice) else self._members[index]

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"Runs({self._members!r})"

    def record(self) -> Dict[str, Any]:
        """All that `attnlab report --format json` has of these runs."""
        folders = [self._folder] if self._folder else [run.path for run in self._members]
        return json.loads(ask(["report", *map(os.fspath, folders), "--format", "json", "--output", "-"]))

    def rows(self) -> List[Dict[str, Any]]:
        """A run a row: experiment, attention, seed, state, metrics and costs."""
        out = []
        for run in self.record()["runs"]:
            row = {key: value for key, value in run.items() if not isinstance(value, (dict, list))}
            row.update(run.get("metrics") or {})
            row.update(run.get("costs") or {})
            out.append(row)
        return out

    def frame(self) -> Any:
        """`rows` as a pandas data frame."""
        return _frame(self.rows())


def runs(folder: Path) -> Runs:
    """All runs below a folder, finished or not."""
    root = pathlib.Path(folder)
    if not root.is_dir():
        raise AttnlabError(f"{root}: no such folder", 2)
    found = sorted(file.parent for file in root.rglob("config.yaml"))
    return Runs([Run(path) for path in found], root)


class Comparison:
    """The numbers of `attnlab compare`; a notebook shows its tables."""

    def __init__(self, words: Sequence[str]):
        self._words = list(words)
        self.record: Dict[str, Any] = json.loads(ask(["compare", *self._words, "--json"]))

    def __repr__(self) -> str:
        return ask(["compare", *self._words])

    def _repr_markdown_(self) -> str:
        return ask(["compare", *self._words, "--format", "md"])


def compare(*folders: Path, metric: Optional[str] = None, baseline: Optional[str] = None,
            test: Optional[str] = None) -> Comparison:
    """Do attentions differ: means, paired tests, ranks; the same numbers as the command's.

    folders:  of suites, sweeps or runs
    metric:   instead of the experiments' own
    baseline: the attention that others are compared with
    test:     instead of the default one (docs/comparison.md)
    """
    words = [os.fspath(folder) for folder in folders]
    for name, value in (("metric", metric), ("baseline", baseline), ("test", test)):
        if value is not None:
            words += [f"--{name}", value]
    return Comparison(words)
