"""The extension that holds attnlab's C++ in this process: lib/attnlab/python/ beside the program."""
from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import shutil
import sysconfig
import types

from attnlab.program import AttnlabError, executable


def _folder() -> pathlib.Path:
    """Where the program's build or installation has its extension."""
    program = shutil.which(executable())
    if program is None:
        raise AttnlabError(f"{executable()}: is not a program; set ATTNLAB_PROGRAM to attnlab's (make build)")
    return pathlib.Path(os.path.realpath(program)).parent.parent / "lib" / "attnlab" / "python"


def _loaded_library() -> str:
    """The file of LibTorch's core that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.rstrip("\n").split(maxsplit=5)[-1]
            if os.path.basename(path).startswith("libtorch_cpu.so"):
                return path
    return ""


def other_torch(built: str, library: str, version: str, loaded: str) -> bool:
    """Whether the torch of a process is another one than that of a build.

    built:   the build's version, "1.13.0"
    library: its file of LibTorch's core
    version: the process's torch.__version__, "2.7.1+cpu"
    loaded:  its file of LibTorch's core
    """
    if os.path.realpath(library) == os.path.realpath(loaded):
        return False
    numbers = re.match(r"\d+\.\d+\.\d+", version)
    same = numbers is not None and numbers.group() == built
    return not same or os.path.basename(library) != os.path.basename(loaded)


@functools.lru_cache(maxsize=None)
def load() -> types.ModuleType:
    """The module attnlab._native. Raises AttnlabError where it is not there or not for this Python."""
    try:
        import torch
    except ImportError as error:
        raise AttnlabError(
            f"attnlab.Attention needs PyTorch, which this Python cannot import ({error}): take the Python "
            "and the torch that attnlab was built with (docs/python.md)") from None
    folder = _folder()
    record = folder / "built_with.json"
    if not record.is_file():
        raise AttnlabError(
            f"{folder}: this attnlab was built without its extension for Python: install python3-torch, "
            "python3-dev and pybind11-dev, then make build")
    built = json.loads(record.read_text())
    own = str(sysconfig.get_config_var("SOABI"))
    if own != built["python"]:
        raise AttnlabError(
            f"{folder}: the extension is for {built['python']}, and this Python is {own}: take that "
            "Python, or build attnlab with this one (cmake ... -DPython3_EXECUTABLE=PYTHON)")
    loaded = _loaded_library()
    if other_torch(built["torch"], built["library"], torch.__version__, loaded):
        raise AttnlabError(
            f"{folder}: the extension was built with PyTorch {built['torch']} ({built['library']}), and "
            f"this Python has {torch.__version__} ({loaded}): take a Python with that one, or build attnlab "
            f"with this one (cmake ... -DLibTorch_ROOT={os.path.dirname(torch.__file__)})")
    path = folder / f"_native.{built['python']}.so"
    loader = importlib.machinery.ExtensionFileLoader("attnlab._native", str(path))
    spec = importlib.util.spec_from_file_location("attnlab._native", path, loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise AttnlabError(f"{path}: cannot be loaded: {error}; build attnlab again (make build)") from None
    return module
