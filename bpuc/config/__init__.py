"""Configuration files: the vendor's YAML keys and our own, read with line numbers."""

from bpuc.config.config import Config, InputConfig, NodeDtype, Preprocess
from bpuc.config.load import load_config

__all__ = ["Config", "InputConfig", "NodeDtype", "Preprocess", "load_config"]
