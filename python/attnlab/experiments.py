"""Runs, suites and sweeps: begun here, done by the program, with progress as it comes."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from attnlab.program import AttnlabError, executable
from attnlab.results import Runs, runs

Composition = Union[str, os.PathLike, Mapping[str, Any]]


def run(experiment: Composition, overrides: Optional[Mapping[str, Any]] = None, *,
        seeds: Optional[Sequence[int]] = None, out: Union[str, os.PathLike] = "runs",
        resume: bool = True, progress: bool = True) -> Runs:
    """Trains and evaluates an experiment, a run a seed, and returns its runs.

    experiment: a file, a name below configs/experiments, or a composition as a dictionary (with a
                `name`; other files that it names are relative to the working folder)
    overrides:  other values by their keys, {"train.epochs": 3, "attention": "quest"}
    seeds:      instead of the experiment's own
    resume:     go on with a run that was begun
    Raises AttnlabError with the program's message.
    """
    values = dict(overrides or {})
    if seeds is not None:
        values["seeds"] = list(seeds)
    with _as_file(experiment) as name:
        words = ["run", name, *_words(values), "--out", os.fspath(out)]
        done = _follow([*words, *(["--resume"] if resume else [])], progress)
    return Runs.of_folders(done)


def suite(suite: Composition, overrides: Optional[Mapping[str, Any]] = None, *,
          out: Union[str, os.PathLike] = "runs", jobs: int = 1, progress: bool = True) -> Runs:
    """Runs what is missing of a suite, and returns the runs in its folder. Arguments as of `run`.

    jobs: runs at a time
    """
    return _many("suite", suite, overrides, out, jobs, progress)


def sweep(experiment: Composition, grid: Mapping[str, Sequence[Any]],
          overrides: Optional[Mapping[str, Any]] = None, *, out: Union[str, os.PathLike] = "runs",
          jobs: int = 1, progress: bool = True) -> Runs:
    """Runs an experiment at every point of a grid, {"train.optimizer.lr": [1e-3, 3e-3]}."""
    words = [f"{key}={','.join(_text(value) for value in values)}" for key, values in grid.items()]
    return _many("sweep", experiment, overrides, out, jobs, progress, words)


def _many(command: str, composition: Composition, overrides: Optional[Mapping[str, Any]],
          out: Union[str, os.PathLike], jobs: int, progress: bool,
          grid: Sequence[str] = ()) -> Runs:
    began = time.time_ns()
    with _as_file(composition) as name:
        _follow([command, name, *grid, *_words(overrides or {}), "--out", os.fspath(out), "-j",
                 str(jobs)], progress)
    # Each call writes its suite's record anew.
    records = {file.stat().st_mtime_ns: file for file in pathlib.Path(out).glob("*/suite.json")}
    if not records or max(records) < began - 10**9:
        raise AttnlabError(f"{os.fspath(out)}: attnlab {command} left no suite.json there", 1)
    return runs(records[max(records)].parent)


@contextlib.contextmanager
def _as_file(composition: Composition) -> Iterator[str]:
    """The name of a composition; one that is a dictionary stands in a file meanwhile."""
    if not isinstance(composition, Mapping):
        yield os.fspath(composition)
        return
    if "name" not in composition:
        raise AttnlabError("a composition that is a dictionary needs a `name`: its runs' folder", 2)
    # JSON is YAML; in the working folder, so that what it names is found from there.
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", prefix=".attnlab-", dir=".") as file:
        json.dump({"schema": 1, **composition}, file)
        file.flush()
        yield os.path.relpath(file.name)


def _text(value: Any) -> str:
    """A value as an override has it."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w./-]*", value) and (
            value.lower() not in ("null", "true", "false", "yes", "no", "on", "off", "nan", "inf")):
        return value
    return json.dumps(value)


def _words(values: Mapping[str, Any]) -> List[str]:
    return [f"{key}={_text(value)}" for key, value in values.items()]


class _Line:
    """Progress on one line that is written again; nothing where nobody looks."""

    def __init__(self, wanted: bool):
        self._wanted = wanted and (sys.stdout.isatty() or "ipykernel" in sys.modules)
        self._width = 0

    def show(self, event: Dict[str, Any]) -> None:
        if not self._wanted or event.get("event") not in ("step", "evaluation", "end"):
            return
        metrics = "  ".join(f"{name} {value:.4g}" for name, value in event.get("metrics", {}).items()
                            if isinstance(value, (int, float)))
        text = f"{event.get('run', '')}  {event.get('step', 0)}/{event.get('steps', 0)}  {metrics}"
        sys.stdout.write("\r" + text[:110].ljust(self._width))
        self._width = min(len(text), 110)
        if event["event"] == "end":
            sys.stdout.write("\n")
            self._width = 0
        sys.stdout.flush()


def _follow(words: Sequence[str], progress: bool) -> List[str]:
    """Runs a command and shows its progress. @returns the folders of runs that it named."""
    folders: List[str] = []
    line = _Line(progress)
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        with subprocess.Popen([executable(), *words, "--progress", "json"], stdout=subprocess.PIPE,
                              stderr=errors, text=True, errors="replace") as process:
            assert process.stdout is not None
            try:
                for text in process.stdout:
                    try:
                        event = json.loads(text)
                    except ValueError:
                        continue
                    line.show(event)
                    named = str(event.get("text", "")).strip()
                    if named and pathlib.Path(named).is_dir():
                        folders.append(named)
            except KeyboardInterrupt:  # the program got it, too, and writes a checkpoint
                process.wait()
                raise
        errors.seek(0)
        message = errors.read().strip()
    if process.returncode not in (0, 3):
        raise AttnlabError(message or f"attnlab {words[0]} failed", process.returncode)
    if message:
        print(message, file=sys.stderr)
    return folders
