"""What plugins there are."""
from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

from attnlab.program import ask


def list_plugins(kind: Optional[str] = None) -> List[Dict[str, Any]]:
    """The manifests of all plugins, or of a kind: attention, model, task, dataset."""
    answer = json.loads(ask(["list", *([kind] if kind else []), "--json"]))
    return answer["plugins"] if isinstance(answer, dict) else answer


def list_names(kind: str = "attention") -> Dict[str, str]:
    """The plugins of a kind, foreign ones among them: what each does, by its name."""
    return {plugin["name"]: plugin["summary"] for plugin in list_plugins(kind)}


def describe(plugin: str) -> Dict[str, Any]:
    """A plugin's manifest: options with types, ranges and defaults, traits, what it takes and gives.

    plugin: a name ("quest"), "lab/name" or "kind/name".
    """
    return json.loads(ask(["describe", plugin, "--json"]))
