"""The attribute classes of all kinds of op: what the rest of the compiler reads.

Conventions: axes are non-negative; pads are all begins, then all ends; shapes are static.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Attrs

Bound = float | None


@dataclass(frozen=True)
class NoAttrs(Attrs):
    """For ops that have none."""


@dataclass(frozen=True)
class ConvAttrs(Attrs):
    """Conv and ConvTranspose with 1 to 3 spatial axes.

    Operands: x [N, C, *spatial], w ([O, C/group, *kernel]; transposed: [C, O/group, *kernel]), bias [O] or absent,
    residual (shape of the output) or absent. Result: clamp(conv + bias + residual, low, high).
    """

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int = 1
    output_padding: tuple[int, ...] = ()
    low: Bound = None
    high: Bound = None


@dataclass(frozen=True)
class MatMulAttrs(Attrs):
    """MatMul, Gemm and Linear: a [..., M, K] @ b [..., K, N] (+ bias [N]) (+ residual), clamped to low..high.

    Both operands have rank >= 2. Bias and residual only where b is constant and of rank 2.
    """

    low: Bound = None
    high: Bound = None


@dataclass(frozen=True)
class EltwiseAttrs(Attrs):
    """Add, Sub, Mul, Div, Max, Min of two operands with numpy broadcasting, clamped to low..high."""

    low: Bound = None
    high: Bound = None


@dataclass(frozen=True)
class AffineAttrs(Attrs):
    """y = x * gain[c] + bias[c] along `axis` (BatchNormalization in inference, constants per channel).

    Operands: x, gain [C], bias [C].
    """

    axis: int = 1


@dataclass(frozen=True)
class UnaryAttrs(Attrs):
    """A function of one variable; parameters by name, for instance (("alpha", 0.01),) of LeakyRelu."""

    params: tuple[tuple[str, float], ...] = ()

    def get(self, name: str, default: float) -> float:
        return dict(self.params).get(name, default)


@dataclass(frozen=True)
class Step(Attrs):
    """One step of a `TableAttrs` chain.

    fn: kind of a unary op, or Add, Sub, Mul, Div, Max, Min, Pow. args: each the index of an earlier step, "x" for the
    table's input, or a float constant.
    """

    fn: str
    args: tuple[int | float | str, ...]
    params: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class TableAttrs(Attrs):
    """A chain of element-wise steps on one tensor and scalar constants; the last step is the result."""

    steps: tuple[Step, ...]


@dataclass(frozen=True)
class PReluAttrs(Attrs):
    """Operands: x, slope (constant; broadcast to x). Slope varies along `axis` only (-1: one slope)."""

    axis: int = 1


@dataclass(frozen=True)
class PoolAttrs(Attrs):
    """MaxPool and AveragePool over 1 to 3 spatial axes."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    ceil_mode: bool = False
    count_include_pad: bool = False


@dataclass(frozen=True)
class ReduceAttrs(Attrs):
    """ReduceMean, ReduceSum, ReduceMax, ReduceMin (and the global pools) over `axes`."""

    axes: tuple[int, ...]
    keepdims: bool = True


@dataclass(frozen=True)
class ArgAttrs(Attrs):
    """ArgMax, ArgMin."""

    axis: int
    keepdims: bool = True
    last: bool = False


@dataclass(frozen=True)
class AxisAttrs(Attrs):
    """Softmax, Concat: one axis."""

    axis: int


@dataclass(frozen=True)
class NormAttrs(Attrs):
    """LayerNormalization and InstanceNormalization: operands x, gain, bias (both of x's rank, broadcast to x).

    Mean and variance are taken over `axes`.
    """

    axes: tuple[int, ...]
    epsilon: float = 1e-5


@dataclass(frozen=True)
class SplitAttrs(Attrs):
    """Split into parts of the given sizes along an axis; one output a part."""

    axis: int
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class SliceAttrs(Attrs):
    """For each axis of x: first index and step (negative steps run backward); the extent is the output's shape."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class ShapeAttrs(Attrs):
    """Reshape and Expand: the output's shape."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class TransposeAttrs(Attrs):
    """Output axis i is input axis perm[i]."""

    perm: tuple[int, ...]


@dataclass(frozen=True)
class TileAttrs(Attrs):
    """Repeats of each axis."""

    repeats: tuple[int, ...]


@dataclass(frozen=True)
class ImageAttrs(Attrs):
    """Pixels less 128, one channel order and layout turned into another; fields as of `bpuc.isa.Image`.

    form: nv12, NCHW or NHWC of the operand; out_form: NCHW or NHWC of the result. reverse: of the channels.
    """

    form: str
    out_form: str
    reverse: bool = False
    pyramid: bool = False
    pads: tuple[int, ...] = (0, 0, 0, 0)
    border: tuple[int, ...] = (0, 0, 0)


@dataclass(frozen=True)
class PadAttrs(Attrs):
    """Constant padding; begins of all axes, then ends (non-negative)."""

    pads: tuple[int, ...]
    value: float = 0.0


@dataclass(frozen=True)
class ResizeAttrs(Attrs):
    """Resize of the last two axes of [N, C, H, W].

    mode: nearest or linear. index_h/index_w: source rows (columns): for nearest one per output row; for linear two per
    output row (above, then below, concatenated) with `weight_*` the weight of the lower one in 0..1.
    """

    mode: str
    size: tuple[int, int]
    index_h: tuple[int, ...]
    index_w: tuple[int, ...]
    weight_h: tuple[float, ...] = ()
    weight_w: tuple[float, ...] = ()
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    scales: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True)
class BlockAttrs(Attrs):
    """DepthToSpace (mode DCR or CRD) and SpaceToDepth (mode DCR)."""

    blocksize: int
    mode: str = "DCR"


@dataclass(frozen=True)
class GatherAttrs(Attrs):
    """Constant indices along an axis, all non-negative; index_shape replaces the axis in the output's shape."""

    axis: int
    indices: tuple[int, ...]
    index_shape: tuple[int, ...]


@dataclass(frozen=True)
class OnnxAttrs(Attrs):
    """An ONNX node kept as it is (CPU only): its serialized NodeProto and the opsets that it was written for.

    why: the reason for it having no op here. fields: its plain attributes by name (no tensors, no graphs).
    Operands: those of the node, then the outer values that its subgraphs read (`captures`, their names in the node).
    """

    proto: bytes
    opsets: tuple[tuple[str, int], ...]
    why: str = ""
    fields: tuple[tuple[str, int | float | str | tuple[int | float | str, ...]], ...] = ()
    captures: tuple[str, ...] = ()
