"""Configuration files: the vendor's YAML keys and our own, read with line numbers.

What `load_config` needs is imported when it is called: the checks of all keys take a quarter of a second to set up,
which a command without a configuration file need not wait for.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from bpuc.config.config import Config, InputConfig, NodeDtype, Preprocess

__all__ = ["Config", "InputConfig", "NodeDtype", "Preprocess", "load_config"]


def load_config(
    path: str | os.PathLike[str],
    *,
    marches: Collection[str] | None = None,
    observers: Collection[str] | None = None,
    march: str | None = None,
    cores: Mapping[str, int] | None = None,
) -> Config:
    """Read a YAML configuration; see `bpuc.config.load.load_config`."""
    from bpuc.config.load import load_config as load

    return load(path, marches=marches, observers=observers, march=march, cores=cores)
