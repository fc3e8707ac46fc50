"""The other tests of onnx's suite that come with the package: models in files, with their data or without weights."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test

DATA = Path(onnx.backend.test.__file__).parent / "data"
KINDS = ("simple", "pytorch-converted", "pytorch-operator")


@dataclass(frozen=True)
class Stored:
    """What the suite's own test cases have, read from a folder; `name` begins with the kind."""

    name: str
    model: onnx.ModelProto
    data_sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


def stored_cases() -> list[Stored]:
    """Small models that PyTorch wrote for old opsets, and a few by hand."""
    from onnx.backend.test.loader import load_model_tests

    found = []
    for kind in KINDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tests = load_model_tests(kind=kind)
        for test in sorted(tests, key=lambda t: t.name):
            folder = Path(test.model_dir)
            model = onnx.load(folder / "model.onnx")
            sets = [
                (_values(data, "input", model.graph.input), _values(data, "output", model.graph.output))
                for data in sorted(folder.glob("test_data_set_*"))
            ]
            found.append(Stored(f"{kind}/{test.name}", model, sets, test.rtol, test.atol))
    return found


def light_cases() -> list[Stored]:
    """Known networks whose weights are ConstantOfShape: the suite's input, and the output that it keeps."""
    found = []
    for path in sorted((DATA / "light").glob("*.onnx")):
        model = onnx.load(path)
        given = {t.name for t in model.graph.initializer}
        inputs = []
        for info in (i for i in model.graph.input if i.name not in given):
            shape = [d.dim_value or 1 for d in info.type.tensor_type.shape.dim]
            size = int(np.prod(shape))
            inputs.append((np.arange(size).reshape(shape) / size).astype(np.float32))
        output = onnx.TensorProto.FromString(path.with_name(f"{path.stem}_output_0.pb").read_bytes())
        found.append(Stored(f"light/{path.stem}", model, [(inputs, [onnx.numpy_helper.to_array(output)])], 1e-3, 1e-7))
    return found


def _values(folder: Path, prefix: str, infos: Any) -> list[Any]:
    """The arrays of a data set in order; sequences as lists."""
    count = len(list(folder.glob(f"{prefix}_*.pb")))
    return [_value((folder / f"{prefix}_{i}.pb").read_bytes(), infos[i].type) for i in range(count)]


def _value(raw: bytes, kind: onnx.TypeProto) -> Any:
    if kind.HasField("sequence_type"):
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(raw))
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(raw))
