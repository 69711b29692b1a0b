"""Finished and unfinished runs in an experiment tracker: MLflow or Weights & Biases.

Both get what `attnlab report` says of a run: its settings, its results and costs, and the lines of its
metrics.jsonl as curves. A second call knows a run again by experiment, attention, seed and configuration.
"""
from __future__ import annotations

import datetime
import hashlib
import math
import re
from typing import Any, Dict, Iterator, Tuple

from attnlab.program import AttnlabError
from attnlab.results import Path, Run, Runs, runs

_MLFLOW_STATES = {"done": "FINISHED", "running": "RUNNING", "failed": "FAILED", "diverged": "FAILED",
                  "interrupted": "KILLED"}
_NOT_IN_NAMES = re.compile(r"[^\w./ -]")  # what MLflow refuses in the name of a metric or a setting


def to_mlflow(folder: Path, experiment: str = "attnlab") -> int:
    """Sends every run below a folder to the MLflow server or file that is set (`mlflow.set_tracking_uri`).

    Returns how many were sent. A run that is done and there already is left alone; one that was sent before its end
    is replaced. Names have "_" in place of what
    MLflow does not allow. Raises AttnlabError without the package `mlflow` (or `mlflow-skinny`).
    """
    try:
        import mlflow
        from mlflow.entities import Metric, Param, RunTag
    except ImportError:
        raise AttnlabError("MLflow is not installed: pip install mlflow", 2) from None
    client = mlflow.MlflowClient()
    found = client.get_experiment_by_name(experiment)
    place = found.experiment_id if found else client.create_experiment(experiment)
    sent = 0
    for run, record in _with_records(runs(folder)):
        key = _key(record)
        before = client.search_runs([place], f"tags.`attnlab.run` = '{key}'")
        if any(one.data.tags.get("state") == "done" for one in before):
            continue
        for one in before:
            client.delete_run(one.info.run_id)
        began = _began(run)
        ends = [began + round(1000 * record.get("seconds", 0)), record.get("step") or 0]
        made = client.create_run(place, start_time=began, run_name=_label(record), tags={"attnlab.run": key})
        metrics = [Metric(_NOT_IN_NAMES.sub("_", name), value, *ends) for name, value in _results(record).items()]
        metrics += [Metric(_NOT_IN_NAMES.sub("_", name), value, began + round(1000 * part * record.get("seconds", 0)),
                           step) for name, value, step, part in _points(run, record)]
        settings = [Param(_NOT_IN_NAMES.sub("_", name), text) for name, text in _settings(record).items()]
        tags = [RunTag(name, record[name]) for name in ("experiment", "attention", "state")]
        for begin in range(0, max(len(metrics), 1), 1000):  # MLflow's most in one call; of settings, 100
            client.log_batch(made.info.run_id, metrics=metrics[begin:begin + 1000])
        for begin in range(0, len(settings), 100):
            client.log_batch(made.info.run_id, params=settings[begin:begin + 100])
        client.log_batch(made.info.run_id, tags=tags)
        client.set_terminated(made.info.run_id, _MLFLOW_STATES.get(record["state"], "RUNNING"), ends[0])
        sent += 1
    return sent


def to_wandb(folder: Path, project: str = "attnlab", mode: str = "offline") -> int:
    """Sends every run below a folder to Weights & Biases, or writes what `wandb sync` sends later (`offline`).

    Returns how many. A run's id follows from its configuration, so that what was sent before is replaced.
    Raises AttnlabError without the package `wandb`.
    """
    try:
        import wandb
    except ImportError:
        raise AttnlabError("Weights & Biases is not installed: pip install wandb", 2) from None
    sent = 0
    for run, record in _with_records(runs(folder)):
        with wandb.init(project=project, mode=mode, id=_key(record), name=_label(record),
                        group=record["experiment"], tags=[record["attention"]], config=_settings(record)) as made:
            rows: Dict[int, Dict[str, float]] = {}
            for name, value, step, _ in _points(run, record):
                rows.setdefault(step, {})[name] = value
            for step in sorted(rows):
                made.log(rows[step], step=step)
            made.summary.update({**_results(record), "state": record["state"]})
        sent += 1
    return sent


def _with_records(found: Runs) -> Iterator[Tuple[Run, Dict[str, Any]]]:
    """Each run with what `report` says of it. (Runs that a suite gave up for newer ones are left out.)"""
    for record in found.record()["runs"]:
        yield Run(record["folder"]), record


def _key(record: Dict[str, Any]) -> str:
    """The same for the same configuration, seed and attention, on any machine."""
    text = "\n".join([record["experiment"], record["attention"], str(record["seed"]), record["config"]])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _label(record: Dict[str, Any]) -> str:
    return f"{record['experiment']}/{record['attention']}/{record['seed']}"


def _began(run: Run) -> int:
    """When it began, in milliseconds since 1970; 0 where that is not known."""
    text = run.environment.get("started")
    if not text:
        return 0
    return round(1000 * datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def _results(record: Dict[str, Any]) -> Dict[str, float]:
    numbers = {**(record.get("costs") or {}), **(record.get("metrics") or {})}
    return {name: value for name, value in numbers.items() if isinstance(value, (int, float))}


def _points(run: Run, record: Dict[str, Any]) -> Iterator[Tuple[str, float, int, float]]:
    """Name ("train/loss"), value, step and the part of the run that it ends, from 0 to 1."""
    steps = max(record.get("steps") or 0, 1)
    for line in run.lines():
        for name, value in line.items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if number and name not in ("step", "epoch") and math.isfinite(value):
                step = int(line.get("step", 0))
                yield f"{line.get('split', 'train')}/{name}", float(value), step, min(1.0, step / steps)


def _settings(record: Dict[str, Any]) -> Dict[str, str]:
    """The frozen configuration by its keys: {"train.epochs": "3"}."""
    import yaml  # both trackers bring it
    flat: Dict[str, str] = {}

    def add(key: str, value: Any) -> None:
        if isinstance(value, dict) and value:
            for name, inner in value.items():
                add(f"{key}.{name}" if key else str(name), inner)
        else:
            flat[key] = str(value)

    add("", yaml.safe_load(record["config"]))
    return flat
