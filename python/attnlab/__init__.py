"""attnlab: comparison of attention mechanisms across domains.

>>> import attnlab
>>> runs = attnlab.run("vit_synthetic", {"attention": "quest", "train.epochs": 3}, seeds=[0, 1])
>>> runs.metrics()
>>> attnlab.compare("runs/quickstart")
>>> attention = attnlab.Attention("quest", heads=8, head_dim=64)  # a torch.nn.Module

Everything here asks the program `attnlab`: that of $ATTNLAB_PROGRAM, of this package where it is a wheel, or the one
on PATH. Only `Attention` and `ForwardState` need PyTorch, the one that this attnlab was built with.
"""
from __future__ import annotations

import typing

from attnlab.errors import ConfigError, PluginError, ShapeError, TraitError
from attnlab.experiments import run, suite, sweep
from attnlab.plugins import describe, list_plugins
from attnlab.plugins import list_names as list
from attnlab.program import AttnlabError, executable, installation
from attnlab.results import Comparison, Run, Runs, compare, runs

if typing.TYPE_CHECKING:
    from attnlab.attention import Attention, ForwardState

# (Without `list`, so that an import of everything leaves Python's own alone.)
__all__ = [
    "AttnlabError",
    "Comparison",
    "ConfigError",
    "PluginError",
    "Run",
    "Runs",
    "ShapeError",
    "TraitError",
    "compare",
    "describe",
    "executable",
    "installation",
    "list_plugins",
    "run",
    "runs",
    "suite",
    "sweep",
]


def __getattr__(name: str) -> typing.Any:
    if name not in ("Attention", "ForwardState"):
        raise AttributeError(f"module 'attnlab' has no attribute '{name}'")
    from attnlab import attention
    return getattr(attention, name)
