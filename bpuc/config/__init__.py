"""Configuration files: the vendor's YAML keys and our own, read with line numbers.

`load_config` is imported when it is asked for: the checks of all keys take a quarter of a second to set up, which a
command without a configuration file need not wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bpuc.config.config import Config, InputConfig, NodeDtype, Preprocess

if TYPE_CHECKING:
    from bpuc.config.load import load_config

__all__ = ["Config", "InputConfig", "NodeDtype", "Preprocess", "load_config"]


def __getattr__(name: str) -> Any:
    if name == "load_config":
        from bpuc.config.load import load_config

        return load_config
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
