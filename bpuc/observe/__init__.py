"""Observers: statistics of tensors and the threshold that each derives. Pure numpy; no graph and no session."""

from bpuc.observe.base import Observer
from bpuc.observe.registry import make_observer, observer_names
from bpuc.observe.weights import weight_thresholds

__all__ = ["Observer", "make_observer", "observer_names", "weight_thresholds"]
