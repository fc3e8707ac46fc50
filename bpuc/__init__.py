"""bpuc: an open graph compiler over ONNX for D-Robotics/Horizon BPUs.

Everything said about real silicon is an estimate; what the compiler emits is a simulated binary.
"""

__version__ = "0.1.0"
