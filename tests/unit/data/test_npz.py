"""Arrays in .npz and .npy: what is read, streamed and refused."""

from __future__ import annotations

import hashlib
import io
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpuc.base.errors import BpucError, DataError, FileError
from bpuc.data import InputSpec, open_data, random_data
from bpuc.data.shapes import count_samples

X = (InputSpec("x", (1, 3, 8, 8)),)
TWO = (InputSpec("left", (1, 4)), InputSpec("right", (1, 4)))


@pytest.fixture
def save(tmp_path):
    def save(packed=False, **arrays):
        path = tmp_path / "d.npz"
        (np.savez_compressed if packed else np.savez)(path, **arrays)
        return path

    return save


def ramp(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", [(6, 1, 3, 8, 8), (6, 3, 8, 8), (1, 3, 8, 8), (1, 1, 3, 8, 8), (3, 8, 8)])
def test_samples_come_one_by_one(save, shape, packed):
    data = ramp(*shape)
    source = open_data(save(packed, x=data), X)
    want = data.reshape(-1, 1, 3, 8, 8)
    assert source.samples == len(want)
    for _ in range(2):  # each iteration starts anew
        got = list(source)
        assert [list(s) for s in got] == [["x"]] * len(want)
        for g, w in zip(got, want):
            assert g["x"].dtype == np.float32
            np.testing.assert_array_equal(g["x"], w)


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8", "int16", ">f4", "bool"])
def test_values_are_kept_in_the_type_of_the_model(save, dtype):
    data = (ramp(2, 1, 3, 8, 8) % 2).astype(dtype)
    got = [s["x"] for s in open_data(save(x=data), X)]
    assert {g.dtype for g in got} == {np.dtype("float32")}
    np.testing.assert_array_equal(got, data.astype(np.float32))


def test_column_major_arrays(save):
    data = np.asfortranarray(ramp(5, 1, 3, 8, 8))
    source = open_data(save(x=data), X)
    np.testing.assert_array_equal([s["x"] for s in source], data)


def test_a_batch_above_one_and_a_scalar_input(save):
    specs = (InputSpec("a", (2, 3)), InputSpec("s", ()))
    a, s = ramp(4, 2, 3), ramp(4)
    got = list(open_data(save(a=a, s=s), specs))
    np.testing.assert_array_equal([g["a"] for g in got], a)
    assert [float(g["s"]) for g in got] == [0, 1, 2, 3]


def test_npy_for_a_model_of_one_input(tmp_path):
    data = ramp(3, 1, 3, 8, 8)
    np.save(tmp_path / "d.npy", data)
    np.testing.assert_array_equal([s["x"] for s in open_data(tmp_path / "d.npy", X)], data)


def test_memory_does_not_grow_with_samples(save):
    spec = (InputSpec("x", (1, 64, 64)),)
    path = save(x=np.zeros((400, 1, 64, 64), np.float64))  # 13 MB
    source = open_data(path, spec)
    tracemalloc.start()
    assert sum(1 for _ in source) == 400
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_digest_is_of_the_content_and_not_of_the_storage(save):
    data = ramp(3, 1, 3, 8, 8)
    digests = set()
    for array, packed in ((data, False), (data, True), (data[:, 0], False), (data.astype(np.float64), False)):
        digests.add(open_data(save(packed, x=array), X).digest())
    want = hashlib.sha256()
    for sample in data:
        want.update(b"x\0float32[1, 3, 8, 8]" + sample.tobytes())
    assert digests == {want.hexdigest()}
    other = data.copy()
    other[2, 0, 0, 0, 0] += 1
    assert open_data(save(x=other), X).digest() not in digests
    assert open_data(save(x=data[:2]), X).digest() not in digests


def test_digest_after_reading_needs_no_second_reading(save):
    path = save(x=ramp(3, 1, 3, 8, 8))
    wanted = open_data(path, X).digest()
    source = open_data(path, X)
    next(iter(source))  # a reading that was broken off leaves no digest
    assert source.digest() == wanted
    source = open_data(path, X)
    assert len(list(source)) == 3
    path.unlink()
    assert source.digest() == wanted


def test_an_extra_array_is_a_warning(save):
    source = open_data(save(left=ramp(2, 1, 4), right=ramp(2, 1, 4), other=ramp(2)), TWO)
    assert len(source.warnings) == 1
    assert "'other'" in source.warnings[0]
    assert [sorted(s) for s in source] == [["left", "right"]] * 2


def refused(path, inputs, *words, kind=DataError):
    with pytest.raises(kind) as e:
        list(open_data(path, inputs))
    assert [w for w in words if w not in str(e.value)] == []
    return str(e.value)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((6, 1, 8, 8, 3), ["shape", "'x'", "3, 8, 8", "8, 8, 3", "NHWC", "(0, 1, 4, 2, 3)"]),
        ((6, 8, 8, 3), ["shape", "'x'", "NHWC", "(0, 3, 1, 2)"]),
        ((8, 8, 3), ["shape", "'x'", "NHWC"]),
        ((6, 4, 3, 8, 8), ["shape", "'x'", "batch", "4 in the data, 1 in the model"]),
        ((6, 192), ["shape", "'x'", "[6, 192]", "nothing is reshaped"]),
        ((1152,), ["shape", "'x'"]),
        ((6, 1, 1, 3, 8, 8), ["shape", "'x'"]),
        ((6, 1, 3, 8, 9), ["shape", "'x'", "8, 9"]),
        ((0, 1, 3, 8, 8), ["'x'", "0 samples"]),
    ],
)
def test_shapes_that_do_not_fit(save, shape, words):
    refused(save(x=np.zeros(shape, np.float32)), X, *words)


@pytest.mark.parametrize("shape", [(5, 3), (1, 3), (3, 3), (4, 3)])
def test_a_batch_of_the_model_is_never_taken_for_samples(save, shape):
    spec = (InputSpec("x", (2, 3)),)
    refused(save(x=np.zeros(shape, np.float32)), spec, "batch", f"{shape[0]} in the data, 2 in the model")


@given(st.lists(st.integers(1, 3), max_size=4), st.lists(st.integers(1, 3), max_size=5))
def test_a_shape_that_is_accepted_keeps_its_trailing_axes(model, data):
    spec = InputSpec("x", tuple(model))
    try:
        samples = count_samples(tuple(data), spec, "here")
    except DataError:
        return
    # Read in C order, sample by sample, the last axes are those of the model: nothing is mixed up.
    assert np.prod(data) == samples * np.prod(model)
    tail = len(model) - 1 if model and model[0] == 1 else len(model)
    assert data[len(data) - tail :] == model[len(model) - tail :]


def test_names_that_do_not_fit(save):
    left = ramp(3, 1, 4)
    refused(save(left=left), TWO, "'right'")
    refused(save(left=left, rigth=left), TWO, "'right'", "did you mean 'rigth'?")
    refused(save(), TWO, "'left'", "none")


def test_numbers_of_samples_that_differ(save):
    message = refused(save(left=ramp(8, 1, 4), right=ramp(7, 1, 4)), TWO, "'right' has 7 samples", "'left' has 8")
    assert "0 samples" not in message


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(save, bad):
    data = ramp(4, 1, 3, 8, 8)
    data[2, 0, 1, 1, 1] = bad
    refused(save(x=data), X, "'x'", "NaN or infinity", "sample 2")


def test_values_that_the_type_of_the_model_lacks(save):
    refused(save(x=np.full((1, 3, 8, 8), 1e300)), X, "'x'", "too large for float32", "sample 0")
    ids = (InputSpec("ids", (1, 2), "int8"),)
    refused(save(ids=np.array([[1.5, 2]])), ids, "'ids'", "int8")
    refused(save(ids=np.array([[1, 300]])), ids, "'ids'", "int8")
    refused(save(ids=np.array([[1, np.nan]])), ids, "'ids'", "int8")
    assert next(iter(open_data(save(ids=np.array([[1.0, -2.0]])), ids)))["ids"].tolist() == [[1, -2]]


@pytest.mark.parametrize("array", [np.array([["a"]]), np.array([[1j]]), np.zeros((1, 1), "M8[s]")])
def test_elements_that_are_no_numbers(save, array):
    refused(save(x=array), (InputSpec("x", (1, 1)),), "'x'", "numbers")


def test_pickled_objects_are_not_loaded(save):
    refused(save(x=np.array([{"a": 1}], dtype=object)), (InputSpec("x", (1,)),), "Python objects")


def test_damaged_files(tmp_path, save):
    path = save(x=ramp(4, 1, 3, 8, 8))
    whole = path.read_bytes()
    for cut in (0, 10, 300, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:cut])
        refused(path, X, "d.npz", "damaged")
    flipped = bytearray(whole)
    flipped[2000] ^= 1
    path.write_bytes(flipped)
    refused(path, X, "d.npz", "damaged", "'x'")
    path.write_bytes(b"this is no archive" * 9)
    refused(path, X, "damaged")
    (tmp_path / "t.npy").write_bytes(b"nor this an array")
    refused(tmp_path / "t.npy", X, "t.npy", "damaged")
    np.save(tmp_path / "t.npy", ramp(4, 1, 3, 8, 8))
    (tmp_path / "t.npy").write_bytes((tmp_path / "t.npy").read_bytes().replace(b"8), }", b"8),((("))
    refused(tmp_path / "t.npy", X, "t.npy", "damaged", "header")


@pytest.mark.parametrize(("rows", "word"), [(2, "more bytes"), (9, "ends too early")])
def test_a_header_that_lies_about_the_number_of_samples(tmp_path, rows, word):
    raw = io.BytesIO()
    np.save(raw, ramp(3, 1, 4))
    data = raw.getvalue().replace(b"(3, 1, 4)", f"({rows}, 1, 4)".encode())
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as z:
        z.writestr("x.npy", data)
    refused(tmp_path / "d.npz", (InputSpec("x", (1, 4)),), "'x'", word)


def test_paths_that_hold_no_data(tmp_path):
    refused(tmp_path / "nothing.npz", X, "nothing.npz", kind=FileError)
    (tmp_path / "d.txt").write_text("1 2 3")
    refused(tmp_path / "d.txt", X, "d.txt", ".npz", kind=BpucError)


def test_a_model_without_inputs(save):
    refused(save(x=ramp(2)), (), "no inputs")


def test_random_data():
    specs = (*X, InputSpec("ids", (1, 5), "int64"))
    a, b, c = random_data(specs, 3), random_data(specs, 3), random_data(specs, 3, seed=1)
    samples = list(a)
    assert a.samples == len(samples) == 3
    assert samples[0]["x"].shape == (1, 3, 8, 8)
    assert samples[0]["x"].dtype == np.float32
    assert samples[0]["ids"].dtype == np.int64
    assert np.abs([s["x"] for s in samples]).max() <= 1
    assert a.digest() == b.digest() != c.digest()
    with pytest.raises(DataError, match="at least one"):
        random_data(specs, 0)


def test_arrays_of_other_names_come_with_the_way_to_name_them(save):
    with pytest.raises(DataError, match="no data for input 'x'") as e:
        open_data(save(pictures=ramp(2, 1, 3, 8, 8)), X)
    assert e.value.hint is not None
    assert "np.savez(PATH, **{NAME: array})" in e.value.hint
