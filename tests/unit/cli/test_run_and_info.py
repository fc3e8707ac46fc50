"""``bpuc run`` and ``bpuc info`` from the outside."""

import hashlib
import json
import pickle
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

from bpuc.base.dtypes import DType
from bpuc.base.errors import BpucError, DataError, FileError
from bpuc.cli.main import cli
from bpuc.cli.run_cmd import read_npz
from bpuc.isa import Dequantize, Device, Quantize, Ref, Space
from bpuc.program import OpSymbol, Port, Program, Segment, TensorSymbol, save_program

SHAPE = (2, 3)


def ref(address, dtype, space=Space.ARENA):
    return Ref(space, dtype, address, SHAPE, (3 * dtype.itemsize, dtype.itemsize))


@pytest.fixture
def binary(tmp_path):
    x, q, y = ref(0, DType.FLOAT32), ref(64, DType.INT8), ref(128, DType.FLOAT32)
    program = Program(
        "nash-e",
        [
            Quantize(op=0, x=x, y=q, scale=0.5, lo=-128, hi=127),
            Dequantize(op=1, x=q, scale=Ref(Space.CONST, DType.FLOAT64, 0, (1,), (8,)), y=y, axis=0),
        ],
        192,
        np.array([0.5]).tobytes(),
        [],
        [Port("x", SHAPE, x, "q")],
        [Port("y", SHAPE, y, "q")],
        [TensorSymbol("q", q, 0, (0.5,), None)],
        [OpSymbol("x_quantize", "Quantize", 0, ()), OpSymbol("y_dequantize", "Dequantize", 0, ())],
        [Segment(0, Device.CPU, 0, 2)],
    )
    save_program(program, tmp_path / "x.bpuc")
    return str(tmp_path / "x.bpuc")


def call(*args):
    result = CliRunner().invoke(cli, list(args))
    if isinstance(result.exception, BpucError):
        raise result.exception
    return result


X = np.arange(12, dtype=np.float32).reshape(2, *SHAPE) - 6.2


@pytest.fixture
def inputs(tmp_path):
    np.savez(tmp_path / "in.npz", x=X)
    return str(tmp_path / "in.npz")


def run(binary, inputs, out, *more):
    return call("run", binary, "--inputs", inputs, "-o", str(out), "--engine", "reference", *more)


def test_run_writes_samples(binary, inputs, tmp_path):
    result = run(binary, inputs, tmp_path / "o.npz", "--tensors", "all")
    assert (result.exit_code, result.stdout) == (0, "")
    with np.load(tmp_path / "o.npz") as z:
        assert z.files == ["y", "q"]
        assert np.array_equal(z["y"], np.floor(X / 0.5 + 0.5) * 0.5)
        assert z["y"].dtype == np.float32
        assert np.array_equal(z["y"], z["q"])


def test_run_integers(binary, tmp_path):
    np.savez(tmp_path / "one.npz", x=X[0])
    run(binary, str(tmp_path / "one.npz"), tmp_path / "o.npz", "--integers")
    with np.load(tmp_path / "o.npz") as z:
        assert z["y"].dtype == np.int8
        assert np.array_equal(z["y"], np.floor(X[0] / 0.5 + 0.5))


def test_the_same_bytes_every_time(binary, inputs, tmp_path):
    sums = set()
    for name in ("a.npz", "b.npz"):
        run(binary, inputs, tmp_path / name, "--tensors", "q")
        sums.add(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert len(sums) == 1
    with zipfile.ZipFile(tmp_path / "a.npz") as z:
        assert {i.date_time for i in z.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npz", "b.npz", "in.npz", "x.bpuc"]


def test_unknown_arrays_are_warned_about(binary, tmp_path):
    np.savez(tmp_path / "in.npz", x=X, zzz=X)
    result = run(binary, str(tmp_path / "in.npz"), tmp_path / "o.npz")
    assert result.exit_code == 0
    assert "warning: 'zzz' is no input of the model" in result.stderr


def test_a_fault_leaves_what_stood_there(binary, tmp_path):
    (tmp_path / "o.npz").write_bytes(b"old")
    np.savez(tmp_path / "in.npz", x=X.astype(np.complex64))
    with pytest.raises(DataError, match="input 'x' has type complex64"):
        run(binary, str(tmp_path / "in.npz"), tmp_path / "o.npz")
    assert (tmp_path / "o.npz").read_bytes() == b"old"


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"text", pickle.dumps({"x": 1})])
def test_what_is_no_npz_is_refused(binary, tmp_path, content):
    (tmp_path / "in.npz").write_bytes(content)
    with pytest.raises(DataError, match="not a readable"):
        run(binary, str(tmp_path / "in.npz"), tmp_path / "o.npz")


def test_a_zip_of_other_things_is_refused(binary, tmp_path):
    with pytest.raises(DataError, match="'mimetype' is no array"):
        run(binary, binary, tmp_path / "o.npz")


def test_large_arrays_are_read_from_disk(inputs, tmp_path):
    """The same arrays, whichever way; in C and Fortran order, with and without elements; nothing is left behind."""
    arrays = {"c": X, "f": np.asfortranarray(X), "none": np.zeros((0, 3), np.int8), "packed": X.astype(">f8")}
    np.savez_compressed(tmp_path / "in.npz", **arrays)
    before = sorted(tmp_path.iterdir())
    found = read_npz(str(tmp_path / "in.npz"), tmp_path, large=0)
    assert [type(a) for a in found.values()] == [np.memmap, np.memmap, np.ndarray, np.memmap]
    for name, array in read_npz(str(tmp_path / "in.npz"), tmp_path).items():
        assert not isinstance(array, np.memmap)
        assert np.array_equal(found[name], arrays[name])
        assert np.array_equal(array, arrays[name])
        assert array.dtype == arrays[name].dtype
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("large", [0, 1 << 20])
def test_damage_in_an_array_is_found(large, tmp_path):
    np.savez(tmp_path / "in.npz", x=X)
    raw = bytearray((tmp_path / "in.npz").read_bytes())
    at = raw.index(X.tobytes())
    raw[at] ^= 1
    (tmp_path / "bad.npz").write_bytes(raw)
    with pytest.raises(DataError, match="CRC"):
        read_npz(str(tmp_path / "bad.npz"), tmp_path, large)


def test_pickles_are_never_loaded(binary, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError):
        run(binary, str(tmp_path / "in.npz"), tmp_path / "o.npz")


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_single_array_is_that_of_the_one_input(binary, inputs, tmp_path, order):
    np.save(tmp_path / "in.npy", np.array(np.load(inputs)["x"], order=order))
    run(binary, str(inputs), tmp_path / "a.npz")
    run(binary, str(tmp_path / "in.npy"), tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_single_arrays_that_are_damaged(binary, tmp_path):
    path = tmp_path / "in.npy"
    np.save(path, X)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="not the bytes of its shape"):
        run(binary, str(path), tmp_path / "o.npz")
    np.save(path, np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="Python objects"):
        run(binary, str(path), tmp_path / "o.npz")


def test_files_that_are_not_there(binary, inputs, tmp_path):
    with pytest.raises(FileError, match="cannot read inputs"):
        run(binary, str(tmp_path / "none.npz"), tmp_path / "o.npz")
    with pytest.raises(FileError, match="there is no folder"):
        run(binary, inputs, tmp_path / "nowhere" / "o.npz")
    with pytest.raises(FileError, match="it is a folder"):
        run(binary, inputs, tmp_path)


def test_info_as_text_and_json(binary, tmp_path):
    text = call("info", binary, "--json", str(tmp_path / "i.json")).stdout
    assert "simulated binary for nash-e (it does not run on a chip)" in text
    assert "x  float32[2, 3], as int8 with scale 0.5" in text
    assert "ops on the CPU: 1 Dequantize, 1 Quantize" in text
    info = json.loads((tmp_path / "i.json").read_text())
    assert info["simulated"] is True
    assert info["format"] == [2, 1]
    assert info["inputs"] == [
        {
            "name": "x",
            "shape": [2, 3],
            "dtype": "float32",
            "tensor": "q",
            "tensor_dtype": "int8",
            "scale": 0.5,
            "axis": None,
        }
    ]
    assert info["ops"] == [
        {"device": "CPU", "op": "Dequantize", "count": 1},
        {"device": "CPU", "op": "Quantize", "count": 1},
    ]
    assert info["sha256"] == hashlib.sha256((tmp_path / "x.bpuc").read_bytes()).hexdigest()
    assert json.loads(call("info", binary, "--json", "-").stdout) == info


def test_info_refuses_a_damaged_file(binary, tmp_path):
    raw = bytearray((tmp_path / "x.bpuc").read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / "x.bpuc").write_bytes(raw)
    with pytest.raises(FileError, match="damaged"):
        call("info", binary)
