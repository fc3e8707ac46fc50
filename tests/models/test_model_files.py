"""The committed models are what the scripts make, and are what their names promise."""

import io
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import models
from bpuc.observe.registry import make_observer
from models import add_fixed, digits_inception, hybrid, kv_concat, ln_mlp
from models.build import BUILDERS, main
from models.onnxfile import npz_bytes

FOLDER = Path(models.__file__).parent


def load(name: str) -> dict[str, np.ndarray]:
    with np.load(FOLDER / name) as z:
        return dict(z)


def session(model: onnx.ModelProto | Path, outputs: list[str] | None = None) -> ort.InferenceSession:
    if isinstance(model, Path):
        model = onnx.load(model)
    for name in outputs or []:
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("module", [kv_concat, hybrid, add_fixed, ln_mlp], ids=lambda m: m.__name__)
def test_rebuilding_gives_the_committed_bytes(module):
    name = module.__name__.rpartition(".")[2]
    assert module.model() == (FOLDER / f"{name}.onnx").read_bytes()
    with np.load(io.BytesIO(module.calibration())) as z:  # values: another zlib may pack them differently
        fresh = dict(z)
    stored = load(f"{name}_calib.npz")
    assert fresh.keys() == stored.keys()
    for key in fresh:
        np.testing.assert_array_equal(fresh[key], stored[key])
        assert fresh[key].dtype == stored[key].dtype == np.float32


@pytest.mark.parametrize("name", BUILDERS)
def test_calibration_data_have_the_inputs_and_one_more_axis(name):
    data = load("digits_calib.npz" if name == "digits_inception" else f"{name}_calib.npz")
    graph = onnx.load(FOLDER / f"{name}.onnx").graph
    shapes = {i.name: tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in graph.input}
    assert {key: value.shape[1:] for key, value in data.items()} == shapes
    assert len({len(value) for value in data.values()}) == 1


@pytest.mark.parametrize(("name", "limit"), [("digits_inception", 400), ("kv_concat", 200), ("ln_mlp", 50)])
def test_files_stay_small(name, limit):
    assert (FOLDER / f"{name}.onnx").stat().st_size < limit * 1000


def test_npz_has_no_time_in_it():
    raw = npz_bytes({"a": np.arange(3)})
    assert raw == npz_bytes({"a": np.arange(3)})
    assert raw[10:14] == b"\x00\x00\x21\x00"  # DOS time 0:00 and date 1980-01-01 of the first member
    with np.load(io.BytesIO(raw)) as z:
        np.testing.assert_array_equal(z["a"], [0, 1, 2])


def test_digits_file_is_the_export_of_its_own_weights():
    graph = onnx.load(FOLDER / "digits_inception.onnx").graph
    params = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    assert digits_inception.export(params) == (FOLDER / "digits_inception.onnx").read_bytes()


def test_digits_data_are_the_held_out_pictures():
    x, labels = digits_inception.data()
    np.testing.assert_array_equal(load("digits_eval.npz")["image"][:, 0], x[-500:])
    np.testing.assert_array_equal(load("digits_labels.npz")["label"], labels[-500:])
    training = {picture.tobytes() for picture in x[:-500]}
    assert all(picture.tobytes() in training for picture in load("digits_calib.npz")["image"])


def test_digits_pictures_are_bilinear_with_half_pixel_centres():
    pillow = pytest.importorskip("PIL.Image")
    from sklearn.datasets import load_digits

    x, _ = digits_inception.data()
    for i in (0, 7, 1796):
        source = pillow.fromarray(load_digits().images[i].astype(np.float32) / 16)
        want = np.asarray(source.resize((16, 16), pillow.Resampling.BILINEAR))
        np.testing.assert_allclose(x[i, 0], want, atol=1e-6)


def test_digits_accuracy():
    run = session(FOLDER / "digits_inception.onnx")
    logits = np.concatenate([run.run(None, {"image": x})[0] for x in load("digits_eval.npz")["image"]])
    assert (logits.argmax(1) == load("digits_labels.npz")["label"]).mean() >= 0.97


def test_digits_has_the_structure_it_is_there_for():
    ops = [node.op_type for node in onnx.load(FOLDER / "digits_inception.onnx").graph.node]
    wanted = ("Concat", "Add", "Resize", "MaxPool", "GlobalAveragePool")
    assert {op: ops.count(op) for op in wanted} == dict(zip(wanted, (3, 1, 1, 4, 1)))


@pytest.fixture(scope="module")
def kv_taps() -> tuple[list[list[str]], dict[str, np.ndarray]]:
    """Members and output of every Concat, and what each of them holds over the calibration data."""
    model = onnx.load(FOLDER / "kv_concat.onnx")
    joins = [[*node.input, *node.output] for node in model.graph.node if node.op_type == "Concat"]
    names = [name for join in joins for name in join]
    run = session(model, names)
    draws = [run.run(names, {"image": x}) for x in load("kv_concat_calib.npz")["image"]]
    return joins, {name: np.stack([values[i] for values in draws]) for i, name in enumerate(names)}


def test_kv_concat_ranges_leave_no_doubt(kv_taps):
    joins, seen = kv_taps
    assert len(joins) == 52
    for high, low1, low2, _ in joins:
        assert seen[high].max() == 6
        assert (seen[high] == 6).mean() > 0.05
        assert max(seen[low1].max(), seen[low2].max()) < 5.5


@pytest.mark.parametrize("observer", ["min_max", "percentile", "mse", "kl", "mix"])
def test_kv_concat_has_104_odd_inputs_with_every_observer(kv_taps, observer):
    joins, seen = kv_taps
    odd = 0
    for join in joins:
        thresholds = []
        for name in join:
            watcher = make_observer(observer)
            for sample in seen[name]:
                watcher.update(sample)
            thresholds.append(watcher.threshold(127))
        odd += sum(threshold != thresholds[-1] for threshold in thresholds[:-1])
    assert odd == 104


def test_kv_concat_members_have_one_reader():
    """Nothing else reads them, so sharing costs nobody a bit and the default needs no Rescale."""
    graph = onnx.load(FOLDER / "kv_concat.onnx").graph
    reads = [name for node in graph.node for name in node.input]
    for node in graph.node:
        if node.op_type == "Concat":
            assert [reads.count(name) for name in node.input] == [1, 1, 1]


def test_add_fixed_data_are_exact_at_the_fixed_scale():
    data = load("add_fixed_calib.npz")
    sums = data["x1"] + data["x2"]
    for x in data.values():
        np.testing.assert_array_equal(x * 32, np.rint(x * 32))
        assert np.abs(x * 32).max() <= 127
    assert (np.abs(sums * 16 % 1) == 0.5).mean() > 0.4  # the ties that the model is there for


def test_hybrid_chain():
    graph = onnx.load(FOLDER / "hybrid.onnx").graph
    ops = "Conv Identity PRelu Selu Conv PRelu Selu Conv Conv Identity Conv Selu"
    assert [node.op_type for node in graph.node] == ops.split()
    assert {"conv1.conv", "conv3"} <= {node.name for node in graph.node}


def test_build_refuses_an_unknown_name(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["build", "resnet"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "there are digits_inception, kv_concat" in capsys.readouterr().err


def test_build_writes_into_the_folder_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["build", "add_fixed", "--out", str(tmp_path)])
    main()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["add_fixed.onnx", "add_fixed_calib.npz"]
