"""What the wheel asks of pip: the release of torch that it is built against.

LibTorch's C++ interface changes with every minor release, so no other one will do.
"""
import importlib.metadata


def dynamic_metadata(field, settings=None):
    assert field == "dependencies"
    major, minor = importlib.metadata.version("torch").split(".")[:2]
    return [f"torch=={major}.{minor}.*"]
