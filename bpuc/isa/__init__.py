"""The simulated instruction set: one file a family, each with its fields, integer meaning and amount of work.

The real machines' instruction sets are not public. This one is bpuc's own and says what the compiled network
computes, to the bit; the simulator and the latency model both start from its decoded instructions.
"""

from bpuc.isa.border import CallOnnx, Dequantize, Quantize
from bpuc.isa.conv import Conv, ConvTranspose
from bpuc.isa.core import Device, Engine, Instruction, Ref, Space, Work, contiguous_strides, decode, encode
from bpuc.isa.eltwise import Eltwise, EltwiseKind
from bpuc.isa.image import Image
from bpuc.isa.lut import Lut
from bpuc.isa.matmul import MatMul
from bpuc.isa.move import Fill, Gather, Move
from bpuc.isa.norm import Norm
from bpuc.isa.pool import Pool, PoolKind
from bpuc.isa.reduce import ArgReduce, Reduce, ReduceKind
from bpuc.isa.rescale import Rescale
from bpuc.isa.resize import ResizeLinear
from bpuc.isa.softmax import Softmax

__all__ = [
    "ArgReduce",
    "CallOnnx",
    "Conv",
    "ConvTranspose",
    "Dequantize",
    "Device",
    "Eltwise",
    "EltwiseKind",
    "Engine",
    "Fill",
    "Gather",
    "Image",
    "Instruction",
    "Lut",
    "MatMul",
    "Move",
    "Norm",
    "Pool",
    "PoolKind",
    "Quantize",
    "Reduce",
    "ReduceKind",
    "Ref",
    "Rescale",
    "ResizeLinear",
    "Softmax",
    "Space",
    "Work",
    "contiguous_strides",
    "decode",
    "encode",
]
