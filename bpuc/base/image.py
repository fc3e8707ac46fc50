"""Pixels at run time: their formats, and the linear way from them to what a float model takes.

Colours are BT.601. Full range: R = Y + 1.402 V', G = Y - 0.344136 U' - 0.714136 V', B = Y + 1.772 U' with U' = U - 128,
V' = V - 128 (ITU-T T.871, as in JPEG). Video range has Y in 16..235 and U, V in 16..240 (ITU-R BT.601). Nothing is
clamped or rounded on the way to the model, so that a single affine map per pixel stands for all of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

CHANNELS = {"rgb": 3, "bgr": 3, "yuv444": 3, "nv12": 3, "gray": 1}
_YUV = ("nv12", "yuv444")
# RGB of (Y, U - 128, V - 128)
_RGB_OF_YUV = np.array([[1.0, 0.0, 1.402], [1.0, -0.344136, -0.714136], [1.0, 1.772, 0.0]])


@dataclass(frozen=True)
class ImageInput:
    """An input that the board gives as pixels.

    Attributes:
        runtime: nv12, yuv444, rgb, bgr or gray; layout: NCHW or NHWC (nv12 has a form of its own).
        train, train_layout: what the float model takes. shape: the model's input shape, four axes.
        mean, scale: one number or one a channel of `train`, empty for none; model = (pixel - mean) * scale.
        video: Y, U and V in video range (nv12 only). pyramid: the camera's pyramid unit delivers it, at no time.
        resize, interpolation, pad_value: how image files become pixels, see `bpuc: preprocess`.
    """

    runtime: str
    layout: str
    train: str
    train_layout: str
    shape: tuple[int, ...]
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    video: bool = False
    pyramid: bool = False
    resize: str = "stretch"
    interpolation: str = "bilinear"
    pad_value: float = 114.0

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        first = 1 if self.train_layout == "NHWC" else 2
        return self.shape[first], self.shape[first + 1]

    @property
    def port_shape(self) -> tuple[int, ...]:
        """Shape of the uint8 array at run time; nv12: [H * 3 / 2, W], Y rows above rows of U and V in turn."""
        (h, w), n, c = self.size, self.shape[0], CHANNELS[self.runtime]
        if self.runtime == "nv12":
            return (h * 3 // 2, w) if n == 1 else (n, h * 3 // 2, w)
        return (n, h, w, c) if self.layout == "NHWC" else (n, c, h, w)

    def colours(self) -> tuple[Floats, Floats]:
        """(M, b): channels of `train` = M @ pixel channels + b, both 0..255, in the order of `runtime`."""
        count = CHANNELS[self.train]
        a, b = np.eye(count), np.zeros(count)
        if self.runtime in _YUV and self.train not in _YUV:
            gain, start = ((255 / 219, 255 / 224), 16.0) if self.video else ((1.0, 1.0), 0.0)
            a = _RGB_OF_YUV * [gain[0], gain[1], gain[1]]
            b = a @ [-start, -128.0, -128.0]
            if self.train == "bgr":
                a, b = a[::-1], b[::-1]
        elif self.runtime != self.train and self.runtime not in _YUV:
            a = a[::-1]
        return np.array(a), np.array(b)

    def affine(self) -> tuple[Floats, Floats]:
        """(A, b): model channels = A @ pixel channels + b."""
        a, b = self.colours()
        if self.mean:
            b = b - np.asarray(self.mean)
        if self.scale:
            scale = np.broadcast_to(np.asarray(self.scale, np.float64), (len(b),))
            a, b = a * scale[:, None], b * scale
        return np.array(a), np.array(b)

    def channels_last(self, pixels: Array) -> Array:
        """Pixels of the port's shape as [N, H, W, C]; chroma of nv12 counts for two by two pixels."""
        n, (h, w) = self.shape[0], self.size
        if self.runtime == "nv12":
            whole = pixels.reshape(n, h * 3 // 2, w)
            chroma = whole[:, h:].reshape(n, h // 2, w // 2, 2).repeat(2, axis=1).repeat(2, axis=2)
            return np.concatenate([whole[:, :h, :, None], chroma], axis=3)
        return pixels if self.layout == "NHWC" else pixels.transpose(0, 2, 3, 1)

    def to_model(self, pixels: Array) -> npt.NDArray[np.float32]:
        """What the float model takes for uint8 pixels of the port's shape."""
        m, b = self.colours()
        out = (self.channels_last(pixels).astype(np.float64) @ m.T + b).astype(np.float32)
        if self.mean:
            out = out - np.asarray(self.mean, np.float32)
        if self.scale:
            out = out * np.asarray(self.scale, np.float32)
        return np.ascontiguousarray(out if self.train_layout == "NHWC" else out.transpose(0, 3, 1, 2))

    def from_model(self, values: Array) -> npt.NDArray[np.uint8]:
        """The pixels nearest to what the float model takes; nv12 keeps the mean chroma of two by two pixels."""
        a, b = self.affine()
        last = values if self.train_layout == "NHWC" else values.transpose(0, 2, 3, 1)
        pixels = (last.astype(np.float64) - b) @ np.linalg.inv(a).T
        return self._packed(pixels)

    def from_image(self, pixels: Array) -> npt.NDArray[np.uint8]:
        """Pixels as the board would deliver them, from uint8 [H, W, 3] in RGB or [H, W, 1] in gray."""
        values = pixels.astype(np.float64)[None]
        if self.runtime in _YUV:
            gain = [219 / 255, 224 / 255, 224 / 255] if self.video else [1.0, 1.0, 1.0]
            values = values @ np.linalg.inv(_RGB_OF_YUV).T * gain + [16.0 if self.video else 0.0, 128.0, 128.0]
        elif self.runtime == "bgr":
            values = values[..., ::-1]
        return self._packed(np.repeat(values, self.shape[0], axis=0))

    def _packed(self, pixels: Floats) -> npt.NDArray[np.uint8]:
        """[N, H, W, C] rounded, in the port's shape."""
        n, (h, w) = self.shape[0], self.size
        if self.runtime == "nv12":
            chroma = pixels[..., 1:].reshape(n, h // 2, 2, w // 2, 2, 2).mean(axis=(2, 4))
            rows = [_rounded(pixels[..., 0]), _rounded(chroma).reshape(n, h // 2, w)]
            return np.concatenate(rows, axis=1).reshape(self.port_shape)
        out = _rounded(pixels)
        return np.ascontiguousarray(out if self.layout == "NHWC" else out.transpose(0, 3, 1, 2))

    def as_json(self) -> dict[str, Any]:
        """For the container and reports; `from_json` is the way back."""
        return asdict(self) | {"shape": list(self.shape), "mean": list(self.mean), "scale": list(self.scale)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ImageInput:
        """Inverse of `as_json`."""
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        return cls(**fields)


def _rounded(values: Floats) -> npt.NDArray[np.uint8]:
    return np.clip(np.floor(values + 0.5), 0, 255).astype(np.uint8)
