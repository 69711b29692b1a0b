"""The program `attnlab`: where it is and how it is asked."""
from __future__ import annotations

import os
import shutil
import subprocess
from typing import Sequence


class AttnlabError(RuntimeError):
    """What attnlab refused; the text is its message, with place and remedy."""

    def __init__(self, message: str, code: int = 2):
        super().__init__(message)
        self.code = code  #: the program's exit code (docs/guide.md)


def executable() -> str:
    """The program: that of $ATTNLAB_PROGRAM, else the one on PATH. Raises AttnlabError."""
    named = os.environ.get("ATTNLAB_PROGRAM")
    if named:
        return named
    found = shutil.which("attnlab")
    if found is None:
        raise AttnlabError(
            "the program attnlab is not on PATH: build it (make build) and put its bin/ there, or set "
            "ATTNLAB_PROGRAM", 2)
    return found


def ask(words: Sequence[str]) -> str:
    """Runs `attnlab WORDS` and returns what it printed. Raises AttnlabError."""
    done = subprocess.run([executable(), *words], capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        raise AttnlabError(done.stderr.strip() or f"attnlab {words[0]} failed", done.returncode)
    return done.stdout
