"""bpuc: an open graph compiler over ONNX for D-Robotics/Horizon BPUs.

Everything said about real silicon is an estimate; what the compiler emits is a simulated binary.
"""

import os

# onnxruntime sends what it runs to its makers, and keeps an identifier in the user's home; it looks when it is loaded
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.1.0"
