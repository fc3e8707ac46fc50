"""Scales that a model file gives its tensors, in the terms of passes."""

from __future__ import annotations

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.frontend.onnx_import import ImportedModel
from bpuc.passkit.context import FileScale


def file_scales(model: ImportedModel) -> dict[str, FileScale]:
    """Scales that the file gives tensors as a whole, by name."""
    found = {}
    for name, info in model.quantized.items():
        low, high = info.range
        if len(info.scale) == 1 and np.isfinite(info.scale[0]) and info.scale[0] > 0 and max(-low, high) > 0:
            wide = info.dtype in (DType.INT16, DType.UINT16)
            found[name] = FileScale(info.scale[0], low, high, wide)
    return found


def cut_by_file(model: ImportedModel) -> dict[str, FileScale]:
    """Tensors whose values the file cuts off where no symmetric type would, with what it says of them."""
    cut = {n: s for n, s in file_scales(model).items() if model.quantized[n].cuts}
    return {n: s for n, s in cut.items() if s.symmetric(DType.INT16 if s.wide else DType.INT8) is None}


def rounded_by_file(model: ImportedModel) -> frozenset[str]:
    """Tensors that the file rounds to a scale which a symmetric type has as it is."""
    dtypes = {n: DType.INT16 if s.wide else DType.INT8 for n, s in file_scales(model).items()}
    return frozenset(n for n, s in file_scales(model).items() if s.symmetric(dtypes[n]) is not None)
