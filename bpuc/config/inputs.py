"""The section input_parameters: one value an input, and what must go together."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from bpuc.config.config import InputConfig
from bpuc.config.schema import InputParameters

Report = Callable[[str, str], None]  # key, message

RUNTIME_OF = {
    "yuv444": ("nv12", "yuv444"),
    "rgb": ("nv12", "yuv444", "rgb", "bgr"),
    "bgr": ("nv12", "yuv444", "rgb", "bgr"),
    "gray": ("gray",),
    "featuremap": ("featuremap",),
}
PER_INPUT = (
    "input_type_train",
    "input_layout_train",
    "input_type_rt",
    "input_layout_rt",
    "input_space_and_range",
    "input_shape",
    "norm_type",
    "mean_value",
    "scale_value",
    "std_value",
)
CHANNELS = {"rgb": 3, "bgr": 3, "yuv444": 3, "gray": 1}


def read_inputs(section: InputParameters, report: Report, faulty: Collection[str] = ()) -> tuple[InputConfig, ...]:
    """The inputs that the section describes; what does not go together is reported and left out.

    Args:
        faulty: keys that were left out of the section for a mistake told already; that they lack is not told again.
    """
    given = {k: v for k in PER_INPUT if (v := getattr(section, k)) is not None}
    names: tuple[str | None, ...] = section.input_name or ()
    if not given and not names:
        return ()
    if len(set(names)) != len(names):
        report("input_name", "a name stands twice")
    if section.scale_value is not None and section.std_value is not None:
        report("std_value", "give scale_value or std_value, not both")
    count = len(names) or max(len(v) for v in given.values())
    for key, value in list(given.items()):
        if len(value) != count:
            named = f"input_name has {count}" if names else f"others have {count}"
            report(key, f"it has {len(value)} values and {named}; one an input is needed, with ; between them")
            del given[key]
            faulty = {*faulty, key}
    if not names:
        names = (None,) * count
        if count > 1 and "input_name" not in faulty:
            report("input_name", f"it is missing; there are values for {count} inputs")
    return tuple(_one(name, {k: v[i] for k, v in given.items()}, report, faulty) for i, name in enumerate(names))


def _one(name: str | None, given: dict[str, Any], report: Report, faulty: Collection[str]) -> InputConfig:
    train, rt = given.get("input_type_train"), given.get("input_type_rt")
    if train and rt and rt not in RUNTIME_OF[train]:
        report("input_type_rt", f"{rt} cannot be made into {train}; possible are {', '.join(RUNTIME_OF[train])}")
    mean, scale = given.get("mean_value", ()), given.get("scale_value", ())
    if std := given.get("std_value", ()):
        if 0 in std:
            report("std_value", "a value is 0")
            faulty = {*faulty, "std_value"}
        else:
            scale = tuple(1 / v for v in std)
    mean, scale = _by_norm_type(given.get("norm_type"), mean, scale, report, faulty)
    for key, value in (("mean_value", mean), ("scale_value", scale)):
        if value and train == "featuremap":
            report(key, "it does not go with input_type_train featuremap")
        elif len(value) not in (0, 1, CHANNELS.get(train or "", len(value))):
            report(key, f"it has {len(value)} numbers; {train} has {CHANNELS[train or '']} channels")
    if given.get("input_space_and_range") == "bt601_video" and rt != "nv12" and "input_type_rt" not in faulty:
        report("input_space_and_range", f"bt601_video goes with input_type_rt nv12, not {rt}")
    return InputConfig(
        name=name,
        shape=given.get("input_shape"),
        type_train=train,
        layout_train=given.get("input_layout_train"),
        type_rt=rt,
        layout_rt=given.get("input_layout_rt"),
        mean=mean,
        scale=scale,
        video=given.get("input_space_and_range") == "bt601_video",
    )


def _by_norm_type(
    norm: str | None,
    mean: tuple[float, ...],
    scale: tuple[float, ...],
    report: Report,
    faulty: Collection[str],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The two that norm_type lets count."""
    if norm is None:
        return mean, scale
    for word, value, keys in (("mean", mean, ("mean_value",)), ("scale", scale, ("scale_value", "std_value"))):
        if word in norm and not value and not any(k in faulty for k in keys):
            report("norm_type", f"{norm} needs {keys[0]}")
    return (mean if "mean" in norm else ()), (scale if "scale" in norm else ())
