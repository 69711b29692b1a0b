"""The program `attnlab`: where it is, how it is asked, and the command of a wheel."""
from __future__ import annotations

import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Iterable, Optional, Sequence


class AttnlabError(RuntimeError):
    """What attnlab refused; the text is its message, with place and remedy."""

    def __init__(self, message: str, code: int = 2):
        super().__init__(message)
        self.code = code  #: the program's exit code (docs/guide.md)


def installation() -> Optional[pathlib.Path]:
    """The folder with bin/, lib/, include/ and share/ of a wheel; None: this package came without."""
    folder = pathlib.Path(__file__).parent / "installation"
    return folder if folder.is_dir() else None


def executable() -> str:
    """The program: that of $ATTNLAB_PROGRAM, else of this package, else on PATH. Raises AttnlabError."""
    named = os.environ.get("ATTNLAB_PROGRAM")
    if named:
        return named
    own = installation()
    if own:
        return str(own / "bin" / "attnlab")
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


def other_torch(required: Iterable[str], installed: Optional[str]) -> Optional[str]:
    """One sentence where the environment's torch is not the release that a wheel was built with.

    required:  the wheel's requirements, one of them "torch==2.14.*"
    installed: the version of torch that is there; None: it is missing
    """
    release = next((line for line in required if line.startswith("torch==")), None)
    if release is None:
        return None
    release = release[len("torch=="):].split("*")[0].rstrip(".")
    remedy = f"pip install 'torch=={release}.*', or build attnlab anew (make wheel)"
    if installed is None:
        return f"attnlab needs torch {release}, and this environment has none: {remedy}"
    if installed.split(".")[:2] != release.split("."):
        return f"attnlab is built with torch {release}, and this environment has {installed}: {remedy}"
    return None


def main() -> None:
    """The command `attnlab` of a wheel: checks which LibTorch is there, then becomes the program."""
    try:
        installed: Optional[str] = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        installed = None
    problem = other_torch(importlib.metadata.requires("attnlab") or [], installed)
    if problem:
        sys.exit(problem)
    own = installation()
    os.execv(str(own / "bin" / "attnlab") if own else executable(), ["attnlab", *sys.argv[1:]])
