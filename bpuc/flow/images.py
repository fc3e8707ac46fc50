"""Inputs that take pixels, from what the configuration says of them."""

from __future__ import annotations

from collections.abc import Sequence

from bpuc.base.errors import ConfigError
from bpuc.base.image import CHANNELS, ImageInput
from bpuc.config import Config, InputConfig, Preprocess
from bpuc.data import InputSpec


def image_inputs(inputs: Sequence[InputSpec], config: Config | None) -> dict[str, ImageInput]:
    """Input -> format, of those with an input_type_rt that is an image.

    Raises:
        ConfigError: the model's input is no image of that kind, or the configuration leaves out what is needed.
    """
    if config is None:
        return {}
    found = config.of_inputs([s.name for s in inputs])
    images = ((s, found[s.name]) for s in inputs if s.name in found)
    return {s.name: image_input(s, c, config.preprocess, str(config.path)) for s, c in images if _is_image(c)}


def _is_image(config: InputConfig) -> bool:
    return config.type_rt not in (None, "featuremap") and config.type_train is not None


def image_input(spec: InputSpec, config: InputConfig, preprocess: Preprocess, where: str) -> ImageInput:
    """The format of one input; errors as `image_inputs`."""
    train, rt, layout = config.type_train, config.type_rt, config.layout_train
    assert train is not None
    assert rt is not None
    if layout is None:
        raise ConfigError(
            f"input {spec.name!r}: input_type_rt {rt} needs input_layout_train",
            where=where,
            want="input_layout_train: NCHW or NHWC",
        )
    shape, channels = spec.shape, CHANNELS[train]
    if len(shape) != 4 or shape[3 if layout == "NHWC" else 1] != channels or spec.dtype != "float32":
        wanted = f"[N, H, W, {channels}]" if layout == "NHWC" else f"[N, {channels}, H, W]"
        raise ConfigError(
            f"input {spec.name!r} has the shape {list(shape)} of {spec.dtype}, which no {train} image in {layout} has",
            where=where,
            want=f"{wanted} of float32, or input_type_rt: featuremap",
            hint="look at input_type_train and input_layout_train",
        )
    count = max(len(config.mean), len(config.scale))
    if count > 1 and count != channels:
        raise ConfigError(f"input {spec.name!r}: mean_value or scale_value has {count} numbers", where=where)
    if 0 in config.scale:
        raise ConfigError(f"input {spec.name!r}: a scale_value is 0, so that no pixel can be told", where=where)
    image = ImageInput(
        rt,
        config.layout_rt or layout,
        train,
        layout,
        shape,
        config.mean,
        config.scale,
        config.video,
        (config.source or ("pyramid" if rt in ("nv12", "gray") else "ddr")) != "ddr",
        preprocess.resize,
        preprocess.interpolation,
        preprocess.pad_value,
    )
    if rt in ("nv12", "yuv444") and any(n % 2 for n in image.size):
        h, w = image.size
        raise ConfigError(f"input {spec.name!r}: {rt} needs an even height and width, not {h}x{w}", where=where)
    return image
