"""Samples for calibration, comparison and running: read as a stream, checked against the model's inputs."""

from bpuc.data.open import open_data
from bpuc.data.random import random_data
from bpuc.data.source import DataSource, InputSpec

__all__ = ["DataSource", "InputSpec", "open_data", "random_data"]
