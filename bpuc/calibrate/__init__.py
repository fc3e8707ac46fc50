"""Where execution and observers meet, and the calibration file."""

from bpuc.calibrate.collect import calibrate_graph
from bpuc.calibrate.table import Calibration, TensorRange, load_calibration, save_calibration

__all__ = ["Calibration", "TensorRange", "calibrate_graph", "load_calibration", "save_calibration"]
