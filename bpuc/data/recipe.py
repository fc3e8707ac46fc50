"""How what is stored becomes an input of the model, as the configuration says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import ConfigError
from bpuc.base.image import ImageInput
from bpuc.config import Config, InputConfig, Preprocess
from bpuc.data.source import InputSpec


@dataclass(frozen=True)
class Recipe:
    """Of one input.

    Attributes:
        input: what the configuration says of it.
        preprocess: how images are resized.
        normalize_arrays: whether arrays in files still want mean and scale.
        raw_dtype: element type of raw files; None means float32 by default.
        by_size: whether raw files may be uint8 where `raw_dtype` is None and they have the size for it.
        pixels: set where samples are wanted in the format at run time, not as the float model takes them.
    """

    input: InputConfig = field(default_factory=InputConfig)
    preprocess: Preprocess = field(default_factory=Preprocess)
    normalize_arrays: bool = False
    raw_dtype: str | None = None
    by_size: bool = False
    pixels: ImageInput | None = None

    def finish(self, array: npt.NDArray[Any], spec: InputSpec) -> npt.NDArray[Any]:
        """An array from a file as the model takes it: with mean and scale where they are still wanted."""
        return self.normalized(array, spec) if self.normalize_arrays else array

    def normalized(self, array: npt.NDArray[Any], spec: InputSpec) -> npt.NDArray[Any]:
        """(x - mean) * scale in float32, one number or one a channel.

        Raises:
            ConfigError: there are as many numbers as no axis of channels has.
        """
        config = self.input
        if not config.mean and not config.scale:
            return array
        self.check(spec)
        axis = channel_axis(config, spec.shape)
        out = array.astype(np.float32)
        for values, apply in ((config.mean, np.subtract), (config.scale, np.multiply)):
            if not values:
                continue
            shape = [1] * len(spec.shape)
            if len(values) > 1:
                shape[axis] = len(values)
            out = apply(out, np.asarray(values, np.float32).reshape(shape))
        return out

    def check(self, spec: InputSpec) -> None:
        """Whether mean and scale fit the input; errors as `normalized`."""
        axis = channel_axis(self.input, spec.shape)
        for values in (self.input.mean, self.input.scale):
            if len(values) not in (0, 1, spec.shape[axis] if spec.shape else 1):
                raise ConfigError(
                    f"input {spec.name!r} has {len(values)} numbers in mean_value or scale_value",
                    want=f"one, or {spec.shape[axis]}: one a channel of the shape {list(spec.shape)}",
                )


def channel_axis(config: InputConfig, shape: Sequence[int]) -> int:
    """Axis of the channels: the last for NHWC, else 1 (0 for fewer than two axes)."""
    if config.layout_train == "NHWC":
        return len(shape) - 1
    return min(1, max(len(shape) - 1, 0))


def recipes(inputs: Sequence[InputSpec], config: Config | None, *, from_config: bool) -> dict[str, Recipe]:
    """Input -> recipe.

    Args:
        inputs: the model's inputs.
        config: the configuration, or None.
        from_config: whether the data are those that the configuration names.

    Raises:
        ConfigError: the configuration names inputs that the model lacks, or too many or few dtypes of raw files.
    """
    if config is None:
        return {s.name: Recipe() for s in inputs}
    of_inputs = config.of_inputs([s.name for s in inputs])
    dtypes = config.data_dtype
    if len(dtypes) not in (0, 1, len(inputs)):
        raise ConfigError(
            f"cal_data_type has {len(dtypes)} values, the model {len(inputs)} inputs", where=str(config.path)
        )
    raw = {n: dtypes[i if len(dtypes) > 1 else 0] for i, n in enumerate(input_order(inputs, config)) if dtypes}
    return {
        s.name: Recipe(
            input=of_inputs.get(s.name, InputConfig()),
            preprocess=config.preprocess,
            normalize_arrays=config.raw_arrays if from_config else config.preprocess.arrays == "raw",
            raw_dtype=raw.get(s.name),
            by_size=from_config and config.raw_arrays,
        )
        for s in inputs
    }


def input_order(inputs: Sequence[InputSpec], config: Config) -> list[str]:
    """The model's inputs in the order of the configuration, or in their own when it does not name all of them."""
    own = [s.name for s in inputs]
    named = [c.name for c in config.inputs if c.name]
    return named if sorted(named) == sorted(own) else own
