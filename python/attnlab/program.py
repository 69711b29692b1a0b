"""The command `attnlab`: checks that LibTorch is the one it was built with, then becomes the program."""
import importlib.metadata
import os
import sys

import attnlab


def other_torch(required: list[str], installed: str | None) -> str | None:
    """One sentence where the environment's torch is not the release that attnlab was built with.

    required:  the wheel's requirements, one of them "torch==2.14.*"
    installed: the version of torch that is there; None: it is not there
    """
    release = next(line for line in required if line.startswith("torch=="))
    release = release.removeprefix("torch==").removesuffix(".*")
    remedy = f"pip install 'torch=={release}.*', or build attnlab anew (make wheel)"
    if installed is None:
        return f"attnlab needs torch {release}, and this environment has none: {remedy}"
    if installed.split(".")[:2] != release.split("."):
        return f"attnlab is built with torch {release}, and this environment has {installed}: {remedy}"
    return None


def main() -> None:
    try:
        installed = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        installed = None
    problem = other_torch(importlib.metadata.requires("attnlab") or [], installed)
    if problem:
        sys.exit(problem)
    program = attnlab.installation() / "bin" / "attnlab"
    os.execv(program, ["attnlab", *sys.argv[1:]])
