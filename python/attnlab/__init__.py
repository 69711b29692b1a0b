"""attnlab: comparison of attention mechanisms across domains.

>>> import attnlab
>>> runs = attnlab.run("vit_synthetic", {"attention": "quest", "train.epochs": 3}, seeds=[0, 1])
>>> runs.metrics()
>>> attnlab.compare("runs/quickstart")

Everything here asks the program `attnlab`: that of $ATTNLAB_PROGRAM, or the one on PATH.
"""
from attnlab.experiments import run, suite, sweep
from attnlab.plugins import describe, list_plugins
from attnlab.program import AttnlabError, executable
from attnlab.results import Comparison, Run, Runs, compare, runs

__all__ = [
    "AttnlabError",
    "Comparison",
    "Run",
    "Runs",
    "compare",
    "describe",
    "executable",
    "list_plugins",
    "run",
    "runs",
    "suite",
    "sweep",
]
