"""Numpy kernels, one maker an instruction: given the resolved operands, a closure that carries it out.

Makers do at once what depends on constants alone (tables, bounds, multipliers). They serve every instruction that
`bpuc.sim.fast.plans` does not hand to onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bpuc import isa
from bpuc.sim.fast.kernels import accumulate, data, elementwise, reduce, window
from bpuc.sim.fast.storage import Access

Step = Callable[[], None]

# CallOnnx is not here: it needs the program's parts
MAKERS: dict[type[isa.Instruction], Callable[[Any, Access], Step]] = {
    isa.ArgReduce: reduce.arg_reduce,
    isa.Conv: accumulate.conv,
    isa.ConvTranspose: accumulate.conv_transpose,
    isa.Dequantize: data.dequantize,
    isa.Eltwise: elementwise.eltwise,
    isa.Fill: data.fill,
    isa.Gather: data.gather,
    isa.Image: data.image,
    isa.Lut: elementwise.lut,
    isa.MatMul: accumulate.matmul,
    isa.Move: data.move,
    isa.Norm: reduce.norm,
    isa.Pool: window.pool,
    isa.Quantize: data.quantize,
    isa.Reduce: reduce.reduce,
    isa.Rescale: elementwise.rescale,
    isa.ResizeLinear: window.resize_linear,
    isa.Softmax: reduce.softmax,
}
