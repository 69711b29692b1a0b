"""What attnlab's C++ refuses in this process. Each text names the place, what is wrong, and the remedy."""
from attnlab.program import AttnlabError


class ConfigError(AttnlabError, ValueError):
    """A name, an option or a size is wrong."""


class ShapeError(AttnlabError, ValueError):
    """A tensor has a shape, dtype or device that attentions do not take."""


class TraitError(AttnlabError, ValueError):
    """An attention does not honour an input that it was given."""


class PluginError(AttnlabError):
    """A plugin cannot be loaded or built."""


__all__ = ["AttnlabError", "ConfigError", "PluginError", "ShapeError", "TraitError"]
