"""Folders of samples, raw files and images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bpuc.base.errors import BpucError
from bpuc.config import load_config
from bpuc.data import InputSpec, open_data

X = (InputSpec("x", (1, 3, 4, 6)),)
TWO = (InputSpec("left", (1, 4)), InputSpec("right", (2,)))


@pytest.fixture
def config(tmp_path):
    def config(text):
        path = tmp_path / "c.yaml"
        path.write_text(text)
        return load_config(path)

    return config


@pytest.fixture
def folder(tmp_path):
    out = tmp_path / "cal"
    out.mkdir()
    return out


def ramp(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def refused(words, *args):
    with pytest.raises(BpucError) as e:
        list(open_data(*args))
    assert [w for w in words if w not in str(e.value)] == []


def test_npy_files_come_in_the_order_of_their_names(folder):
    data = ramp(3, 1, 3, 4, 6)
    for name, sample in (("c", data[2]), ("a", data[0][0]), ("b", data[1:2])):  # each of the accepted shapes
        np.save(folder / f"{name}.npy", sample)
    (folder / ".hidden").write_text("")
    source = open_data(folder, X)
    assert (source.samples, source.warnings) == (3, [])
    np.testing.assert_array_equal([s["x"] for s in source], data)
    np.save(folder / "all.npy", data)
    refused(["all.npy", "3 samples", "one sample a file"], folder, X)


def test_the_digest_is_that_of_the_same_samples_in_an_npz(folder, tmp_path):
    data = ramp(3, 1, 3, 4, 6)
    np.savez(tmp_path / "d.npz", x=data)
    for i, sample in enumerate(data):
        np.save(folder / f"{i}.npy", sample)
    assert open_data(folder, X).digest() == open_data(tmp_path / "d.npz", X).digest()


def test_npz_files_hold_all_inputs(folder):
    for i in range(3):
        np.savez(folder / f"{i}.npz", left=np.full((1, 4), i), right=np.full(2, -i))
    got = list(open_data(folder, TWO))
    assert [(g["left"][0, 0], g["right"][0]) for g in got] == [(0, 0), (1, -1), (2, -2)]
    np.savez(folder / "1.npz", left=np.zeros((1, 4)))
    refused(["1.npz", "'right'"], folder, TWO)


def test_a_folder_for_each_input(folder):
    for name, shape in (("left", (1, 4)), ("right", (2,))):
        (folder / name).mkdir()
        for i in range(2):
            np.save(folder / name / f"{i}.npy", np.full(shape, i))
    got = list(open_data(folder, TWO))
    assert [(g["left"].shape, g["right"].tolist()) for g in got] == [((1, 4), [0, 0]), ((1, 4), [1, 1])]
    (folder / "right" / "1.npy").unlink()
    refused(["'right' has 1 samples", "'left' has 2"], folder, TWO)
    (folder / "right").rename(folder / "rigth")
    refused(["'right'", "'rigth'"], folder, TWO)


def test_raw_files(folder):
    data = ramp(2, 1, 3, 4, 6)
    for i, sample in enumerate(data):
        (folder / f"{i}.bin").write_bytes(sample.tobytes())
    np.testing.assert_array_equal([s["x"] for s in open_data(folder, X)], data)
    (folder / "1.bin").write_bytes(b"\0" * 72)
    refused(["1.bin", "72 bytes", "288 bytes", "uint8"], folder, X)


def test_raw_bytes_of_the_vendors_folder_are_normalized(folder, config):
    pixels = ramp(1, 3, 4, 6, dtype=np.uint8)
    (folder / "a.rgbchw").write_bytes(pixels.tobytes())
    c = config(
        """
        input_parameters: {input_type_train: rgb, input_layout_train: NCHW, mean_value: 1 2 3, scale_value: 0.5}
        calibration_parameters: {cal_data_dir: cal, cal_data_type: uint8}
        """
    )
    want = (pixels.astype(np.float32) - np.array([1, 2, 3], np.float32).reshape(1, 3, 1, 1)) * np.float32(0.5)
    np.testing.assert_array_equal(next(iter(open_data(None, X, c)))["x"], want)
    np.testing.assert_array_equal(next(iter(open_data(folder, X, c)))["x"], pixels)  # of --data: as they stand


@pytest.mark.parametrize(("arrays", "want"), [("raw", 8.0), ("ready", 5.0)])
def test_whether_arrays_are_normalized_can_be_said(folder, config, tmp_path, arrays, want):
    np.savez(tmp_path / "d.npz", x=np.full((1, 1, 3, 4, 6), 5))
    c = config(
        f"""
        input_parameters: {{input_type_train: rgb, input_layout_train: NCHW, mean_value: 1, scale_value: 2}}
        bpuc: {{data: d.npz, preprocess: {{arrays: {arrays}}}}}
        """
    )
    for path in (None, tmp_path / "d.npz"):
        assert np.unique(next(iter(open_data(path, X, c)))["x"]) == [want]


def test_the_vendors_folders_follow_the_order_of_input_name(tmp_path, config):
    for name, shape in (("a", (2,)), ("b", (1, 4))):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "0.npy", np.zeros(shape))
    both = "input_parameters: {input_name: right;left}\ncalibration_parameters: {cal_data_dir: a;b}"
    sample = next(iter(open_data(None, TWO, config(both))))
    assert {k: v.shape for k, v in sample.items()} == {"left": (1, 4), "right": (2,)}
    refused(["'left'", "shape"], None, TWO, config("calibration_parameters: {cal_data_dir: a;b}"))
    refused(["3 folders", "2 inputs"], None, TWO, config("calibration_parameters: {cal_data_dir: a;b;a}"))


def test_folders_that_hold_nothing_or_a_mixture(folder, tmp_path):
    refused(["no samples", "cal"], folder, X)
    (folder / "readme.txt").write_text("")
    refused(["no samples"], folder, X)
    np.save(folder / "0.npy", ramp(1, 3, 4, 6))
    assert "readme.txt" in open_data(folder, X).warnings[0]
    (folder / "1.bin").write_bytes(b"")
    refused(["npy, raw", "one kind"], folder, X)
    (folder / "1.bin").unlink()
    refused(["2 inputs", "'left'", "'right'", "sub-folder"], folder, TWO)
    (folder / "x").mkdir()
    refused(["both"], folder, X)
    (folder / "0.npy").unlink()
    refused(["no samples", "'x'"], folder, X)
    refused(["no data were given", "--data"], None, X)


def test_damaged_samples_are_named(folder):
    np.save(folder / "good.npy", ramp(1, 3, 4, 6))
    (folder / "late.npy").write_bytes((folder / "good.npy").read_bytes()[:-3])
    refused(["late.npy", "damaged"], folder, X)
    np.save(folder / "late.npy", np.array([{}]), allow_pickle=True)
    refused(["late.npy"], folder, X)


# ---- images

IMAGE = "input_parameters: {{input_type_train: {0}, input_layout_train: {1}{2}}}\nbpuc: {{preprocess: {{{3}}}}}"


def image_config(config, kind="rgb", layout="NCHW", more="", preprocess=""):
    return config(IMAGE.format(kind, layout, more, preprocess))


@pytest.fixture
def picture(folder):
    """A 6x4 picture with a different value at every place; returns its pixels [4, 6, 3]."""
    pixels = ramp(4, 6, 3, dtype=np.uint8) * 3
    Image.fromarray(pixels).save(folder / "p.png")
    return pixels


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("kind", ["rgb", "bgr"])
def test_image_colours_and_layouts(folder, picture, config, kind, layout):
    want = picture[..., ::-1] if kind == "bgr" else picture
    want = want.transpose(2, 0, 1) if layout == "NCHW" else want
    spec = (InputSpec("x", (1, *want.shape)),)
    got = next(iter(open_data(folder, spec, image_config(config, kind, layout))))["x"]
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got[0], want)


def test_image_in_gray_and_yuv(folder, picture, config):
    r, g, b = np.moveaxis(picture.astype(np.float64), -1, 0)
    luma = 0.299 * r + 0.587 * g + 0.114 * b  # BT.601
    gray = next(iter(open_data(folder, (InputSpec("x", (1, 1, 4, 6)),), image_config(config, "gray"))))["x"]
    np.testing.assert_allclose(gray[0, 0], luma, atol=1)
    yuv = next(iter(open_data(folder, X, image_config(config, "yuv444"))))["x"]
    np.testing.assert_allclose(yuv[0], [luma, 128 + (b - luma) / 1.772, 128 + (r - luma) / 1.402], atol=1.01)


def test_image_mean_and_scale(folder, picture, config):
    c = image_config(config, "rgb", "NCHW", ", mean_value: 10 20 30, std_value: 2 4 8")
    got = next(iter(open_data(folder, X, c)))["x"]
    want = (picture.astype(np.float64) - [10, 20, 30]) / [2, 4, 8]
    np.testing.assert_allclose(got[0], want.transpose(2, 0, 1), rtol=1e-6)


@pytest.mark.parametrize(("mode", "border"), [("stretch", None), ("letterbox", 7), ("crop", None)])
def test_image_resizing(folder, config, mode, border):
    pixels = np.full((8, 8, 3), 200, np.uint8)
    pixels[:, :4] = 100
    Image.fromarray(pixels).save(folder / "p.bmp")
    c = image_config(config, preprocess=f"resize: {mode}, pad_value: 7, interpolation: nearest")
    got = next(iter(open_data(folder, X, c)))["x"][0, 0]
    want = np.full((4, 6), 200)
    want[:, :3] = 100
    if border:  # 4x4 in the middle
        want[:, [0, 5]] = border
    np.testing.assert_array_equal(got, want)


def test_image_is_turned_as_its_camera_says(folder, config):
    pixels = np.zeros((6, 4, 3), np.uint8)
    pixels[0] = 255
    image = Image.fromarray(pixels)
    exif = image.getexif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees clockwise: the top row becomes the right column
    image.save(folder / "p.png", exif=exif)
    got = next(iter(open_data(folder, X, image_config(config))))["x"][0, 0]
    assert (got[:, -1] == 255).all()
    assert (got[:, :-1] == 0).all()


def test_images_that_cannot_be_read(folder, picture, config):
    c = image_config(config)
    refused(["'x'", "input_type_train", "input_layout_train", "-c"], folder, X)
    refused(["featuremap"], folder, X, image_config(config, "featuremap"))
    refused(["gray", "[1, 3, 4, 6]", "[1, 1, H, W]"], folder, X, image_config(config, "gray"))
    refused(["[1, H, W, 3]"], folder, X, image_config(config, "rgb", "NHWC"))
    refused(["[2, 3, 4, 6]"], folder, (InputSpec("x", (2, 3, 4, 6)),), c)
    Image.fromarray(np.zeros((4, 6), np.uint16)).save(folder / "q.png")
    refused(["q.png", "8 bits"], folder, X, c)
    (folder / "q.png").write_bytes((folder / "p.png").read_bytes()[:48])
    refused(["q.png", "damaged"], folder, X, c)
    (folder / "q.png").write_bytes(b"no image")
    refused(["q.png", "no image"], folder, X, c)


def test_the_folder_of_another_input_is_not_what_was_meant(tmp_path: Path) -> None:
    both = (InputSpec("x1", (2,)), InputSpec("x2", (2,)))
    (tmp_path / "x1").mkdir()
    np.save(tmp_path / "x1" / "0.npy", np.zeros(2, np.float32))
    with pytest.raises(BpucError, match="no sub-folder for input 'x2'") as e:
        open_data(tmp_path, both)
    assert e.value.hint is None
    (tmp_path / "x3").mkdir()
    with pytest.raises(BpucError, match="no sub-folder for input 'x2'") as e:
        open_data(tmp_path, both)
    assert e.value.hint == "did you mean 'x3'?"
