"""Let inputs take pixels as the board delivers them, where the configuration names their format at run time.

An Image op gives int8 channels, pixels less 128, at scale 1. What is left up to the model's input (colours, mean and
scale) is one affine map a pixel, ``x = A t + b``. Where only convolutions read the input it goes into their weights:

    Conv(A t + b)  ->  Conv with weights w A and bias bias + sum(w b)

and the border, which the model has at x = 0, is filled with the pixel that stands for 0, ``t = -A^-1 b``, rounded to a
whole number, as any pixel is. This comes last, so that all that is measured on data sees what the float model takes.
Elsewhere the map stays as an op of its own, named ``<input>_HzPreprocess``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bpuc.base.channels import Floats
from bpuc.base.dtypes import DType
from bpuc.base.image import ImageInput
from bpuc.ir import FIRST, Graph, Op, QuantParams, Tensor
from bpuc.ops.attrs import AffineAttrs, AxisAttrs, ConvAttrs, ImageAttrs, MatMulAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.rewrite import as_float32, set_const
from bpuc.passkit.scales import is_mover
from bpuc.passkit.weights import rounded_weights, weight_axis, with_weights
from bpuc_passes.quantize_weights import weight_scales

_UNIT = QuantParams(DType.INT8, (1.0,))


@dataclass(frozen=True)
class AttachImages(Pass):
    """Inputs in nv12, yuv444, rgb, bgr or gray; mean and scale go into the first convolution where they can."""

    name = "attach-images"
    numerics = Numerics.BOUNDED
    needs = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for name, image in ctx.images.items():
            x = graph.inputs[graph.input_names.index(name)]
            if x.dtype is DType.UINT8:
                continue  # done with another one of its batch
            join = _join(graph, ctx, x, image)
            source = x if join is None else join.out
            a, b = image.affine()
            b = b + a.sum(1) * 128
            if _reversed(image):
                a = a[:, ::-1]
            attrs = ImageAttrs(
                "nv12" if image.runtime == "nv12" else image.layout,
                image.train_layout,
                pyramid=image.pyramid,
                border=(0,) * len(a[0]),
            )
            pads = _common_pads(graph, ctx, source, image)
            zero = np.floor(-np.linalg.solve(a, b) + 0.5)
            folds = pads is not None and (not any(pads) or (zero.min() >= -128 and zero.max() <= 127))
            if folds and pads is not None:
                border = tuple(int(v) for v in zero) if any(pads) else attrs.border
                attrs = replace(attrs, pads=pads, border=border)
            frames = [x] if join is None or not folds else [t for t in join.inputs if t is not None]
            ports = [_port(graph, f, image) for f in frames]
            pixels = [_image(graph, image, port, attrs, f) for f, port in zip(frames, ports)]
            if folds:
                t = pixels[0] if len(pixels) == 1 or join is None else _rejoined(graph, join, pixels)
                seen = ctx.channels.get(source.name)
                mean = np.linalg.solve(a, seen.mean - b) if seen is not None and seen.axis == 1 else None
                for op in graph.consumers(source):
                    _fold(graph, ctx, op, t, a, b, mean)
                what = "mean and scale are in the weights of " + ", ".join(op.name for op in graph.consumers(t))
            else:
                _keep(graph, ctx, x, pixels[0], image, a, b)
                what = f"mean and scale stay an op, {x.name}_HzPreprocess"
            changes += [Change(f"takes {image.runtime} {list(p.shape)}", f.name, what) for p, f in zip(ports, frames)]
        return changes


def _join(graph: Graph, ctx: PassContext, x: Tensor, image: ImageInput) -> Op | None:
    """The op that makes a batch of this input and others in the same format, if that is all that reads them."""
    op = graph.sole_consumer(x)
    if op is None or op.kind != "Concat" or op.device != "BPU" or op.attrs != AxisAttrs(0):
        return None
    inputs = dict(zip(graph.inputs, graph.input_names))
    alone = all(
        t is not None and ctx.images.get(inputs.get(t, "")) == image and graph.sole_consumer(t) is op for t in op.inputs
    )
    return op if alone else None


def _port(graph: Graph, x: Tensor, image: ImageInput) -> Tensor:
    """The input of pixels, in the place of x; the port keeps its name."""
    index = graph.inputs.index(x)
    port = Tensor(graph.unique(f"{x.name}_{image.runtime}"), image.port_shape, DType.UINT8)
    graph.inputs = [*graph.inputs[:index], port, *graph.inputs[index + 1 :]]
    return port


def _rejoined(graph: Graph, join: Op, pixels: list[Tensor]) -> Tensor:
    """Let the op join pixels; its readers stay with the old result."""
    first = pixels[0]
    shape = (len(pixels) * first.shape[0], *first.shape[1:])
    t = replace(first, name=graph.unique(f"{join.out.name}_128"), shape=shape)
    for index, frame in enumerate(pixels):
        graph.set_input(join, index, frame)
    graph.rebind(join, 0, t)
    return t


def _common_pads(graph: Graph, ctx: PassContext, x: Tensor, image: ImageInput) -> tuple[int, ...] | None:
    """Pads (top, left, bottom, right) of all readers, where every one can take the map into its weights; else None."""
    readers = graph.uses(x)
    asked = x in graph.outputs or x.name in ctx.options.fixed_scales or x.name in ctx.int16
    if asked or image.train_layout != "NCHW" or not readers:
        return None
    found: set[tuple[int, ...]] = set()
    for op, index in readers:
        attrs = op.attrs
        plain = op.kind == "Conv" and isinstance(attrs, ConvAttrs) and attrs.group == 1
        if index != 0 or op.device != "BPU" or not plain or not with_weights(op):
            return None
        found.add(attrs.pads if isinstance(attrs, ConvAttrs) else ())
    return found.pop() if len(found) == 1 else None


def _image(graph: Graph, image: ImageInput, port: Tensor, attrs: ImageAttrs, x: Tensor) -> Tensor:
    """The Image op, with its result, which is named after what it holds as the vendor's tools do."""
    kind = "yuv444" if image.runtime in ("nv12", "yuv444") else image.train
    n, (h, w), c = image.shape[0], image.size, len(attrs.border)
    h, w = h + attrs.pads[0] + attrs.pads[2], w + attrs.pads[1] + attrs.pads[3]
    shape = (n, c, h, w) if image.train_layout == "NCHW" else (n, h, w, c)
    t = Tensor(graph.unique(f"{x.name}_{kind}_128"), shape, DType.FLOAT32, quant=_UNIT)
    name = graph.unique(f"{x.name}_Image")
    op = graph.add("Image", replace(attrs, reverse=_reversed(image)), [port], [t], name=name, serial=FIRST)
    op.device = "BPU"
    return t


def _reversed(image: ImageInput) -> bool:
    """Whether the Image op turns the order of the channels, which costs nothing."""
    return {image.runtime, image.train} == {"rgb", "bgr"}


def _fold(graph: Graph, ctx: PassContext, op: Op, t: Tensor, a: Floats, b: Floats, mean: Floats | None) -> None:
    """Give the Conv pixels to read. Integers of its weights stay where all channels have one gain, else they are new.

    Args:
        mean: of each channel of t, if known: it takes the rounding error of new weights out of the bias.
    """
    attrs, weights, old = op.attrs, op.input(1), op.maybe(2)
    assert isinstance(attrs, ConvAttrs)
    assert weights.quant is not None
    bias = np.zeros(op.out.shape[1]) if old is None else old.value().astype(np.float64)
    w, gain = rounded_weights(op), a[0, 0]
    uniform = gain > 0 and np.array_equal(a, gain * np.eye(len(a)))
    if not uniform:
        exact = weights.value().astype(np.float64)
        if mean is not None and ctx.options.bias_correction and ctx.options.effort >= 1:
            # the rounding that this bias was corrected for is no longer there
            bias -= _taps(exact - w) @ (a @ mean + b)
        w = exact
    bias += _taps(w) @ b
    set_const(graph, op, 1, as_float32(np.einsum("oc...,cr->or...", w, a)), f"{op.name}_weight")
    set_const(graph, op, 2, as_float32(bias), f"{op.name}_bias")
    graph.set_input(op, 0, t)
    op.input(1).quant = weights.quant
    scales = tuple(float(s * gain) for s in weights.quant.scale) if uniform else _scales(op, ctx)
    op.input(1).quant = replace(weights.quant, scale=scales)
    if not uniform and mean is not None:
        error = rounded_weights(op) - op.input(1).value()
        set_const(graph, op, 2, as_float32(bias - _taps(error) @ mean), f"{op.name}_bias")
    op.attrs = replace(attrs, pads=(0,) * len(attrs.pads))
    if op.out.quant is not None and op.out.quant.dtype is DType.INT32:
        _rescale(graph, op.out, scales)


def _taps(w: Floats) -> Floats:
    """Weights summed over their taps: [output channels, input channels]."""
    return np.asarray(w.reshape(*w.shape[:2], -1).sum(2))


def _scales(op: Op, ctx: PassContext) -> tuple[float, ...]:
    quant = op.input(1).quant
    return weight_scales(op, replace(ctx, weights={}), 127 if quant is None else quant.dtype.qmax)


def _rescale(graph: Graph, tensor: Tensor, scales: tuple[float, ...]) -> None:
    """The accumulator's scale, here and where its values only move on."""
    assert tensor.quant is not None
    tensor.quant = replace(tensor.quant, scale=scales)
    for reader in graph.consumers(tensor):
        if is_mover(reader):
            _rescale(graph, reader.out, scales)


def _keep(graph: Graph, ctx: PassContext, x: Tensor, t: Tensor, image: ImageInput, a: Floats, b: Floats) -> None:
    """An op on the BPU that gives the model's input."""
    if x.quant is None:
        seen = ctx.ranges.get(x.name)
        threshold = seen.threshold if seen is not None and seen.threshold > 0 else 1.0
        x.quant = QuantParams(DType.INT8, (threshold / 127,))
    diagonal = not np.any(a - np.diag(np.diag(a)))
    last = image.train_layout == "NHWC"
    name = graph.unique(f"{x.name}_HzPreprocess")
    offset = _const(graph, b, f"{name}_offset")
    if diagonal:
        gain = _const(graph, np.diag(a), f"{name}_gain")
        op = graph.add("Affine", AffineAttrs(3 if last else 1), [t, gain, offset], [x], name=name, serial=FIRST)
    elif last:
        gain = _const(graph, a.T, f"{name}_gain")
        op = graph.add("MatMul", MatMulAttrs(), [t, gain, offset], [x], name=name, serial=FIRST)
    else:
        gain = _const(graph, a[:, :, None, None], f"{name}_gain")
        op = graph.add("Conv", ConvAttrs((1, 1), (0, 0, 0, 0), (1, 1)), [t, gain, offset], [x], name=name, serial=FIRST)
    op.onnx_type, op.device = "HzPreprocess", "BPU"
    op.input(1).quant = QuantParams(DType.INT8, _scales(op, ctx), weight_axis(op))


def _const(graph: Graph, array: Floats, name: str) -> Tensor:
    value = as_float32(array)
    return Tensor(graph.unique(name), tuple(value.shape), DType.FLOAT32, const=value)
