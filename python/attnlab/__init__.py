"""attnlab: comparison of attention mechanisms across domains."""
import importlib.metadata
import pathlib

__version__ = importlib.metadata.version("attnlab")


def installation() -> pathlib.Path:
    """The folder with attnlab's bin/, lib/, include/ and share/; CMAKE_PREFIX_PATH of a plugin."""
    return pathlib.Path(__file__).parent / "installation"
