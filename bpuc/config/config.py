"""What a configuration file says, in bpuc's own terms. Nothing here reads files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bpuc.base.errors import ConfigError, did_you_mean
from bpuc.config.qconfig import QuantRule, Templates


@dataclass(frozen=True)
class InputConfig:
    """One input of the model.

    Attributes:
        name: ONNX name; None means the model's only input.
        shape: static shape to fix the input to.
        type_train, layout_train: what the float model takes (rgb, bgr, yuv444, gray, featuremap; NCHW, NHWC).
        type_rt, layout_rt: what the board delivers.
        mean, scale: one number or one a channel, empty for none; y = (x - mean) * scale.
        video: whether nv12 is in video range. source: ddr, pyramid or resizer; None: by the type.
    """

    name: str | None = None
    shape: tuple[int, ...] | None = None
    type_train: str | None = None
    layout_train: str | None = None
    type_rt: str | None = None
    layout_rt: str | None = None
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    video: bool = False
    source: str | None = None


@dataclass(frozen=True)
class Preprocess:
    """How images become samples; see the keys under `bpuc: preprocess`."""

    resize: str = "stretch"
    interpolation: str = "bilinear"
    pad_value: float = 114.0
    arrays: str | None = None


@dataclass(frozen=True)
class NodeDtype:
    """An element type asked for at one side of a node, or of all nodes of an op type.

    Attributes:
        node: node name or op type.
        side: "input" or "output".
        index: which input; None for all (and for outputs).
        dtype: "int8" or "int16".
    """

    node: str
    side: str
    index: int | None
    dtype: str


@dataclass(frozen=True)
class Subgraph:
    """A type for all nodes on the ways from some tensors or nodes to others."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dtype: str


@dataclass(frozen=True)
class Config:
    """A configuration file. None and empty mean: not said.

    Attributes:
        path: the file.
        data: folders of cal_data_dir, one an input in the order of `inputs`, or the one path of `bpuc: data`.
        raw_arrays: whether arrays in those folders still want mean and scale.
        data_dtype: element type of raw files, one an input or one for all.
        random_data: calibration_type skip, or no data on a march whose tools do without.
        searches: the observer is that of calibration_type default, so that thresholds may still be tuned.
        dtypes: tensor, node or op type -> "int8" | "int16", as --dtype.
        node_dtypes: finer wishes of node_info and optimization, for one side of a node.
        subgraphs: of subgraph_config.
        output_dtype: set_model_output_int8 / int16.
        batch: samples that a run takes at once. separate: inputs that become one input a sample; "*" means all.
        notes: keys without effect, with file, line and reason.
    """

    path: Path
    model: Path | None = None
    march: str | None = None
    output: Path | None = None
    inputs: tuple[InputConfig, ...] = ()
    batch: int = 1
    separate: tuple[str, ...] = ()
    data: tuple[Path, ...] = ()
    raw_arrays: bool = False
    data_dtype: tuple[str, ...] = ()
    random_data: bool = False
    observer: str | None = None
    observer_options: Mapping[str, float] = field(default_factory=dict)
    searches: bool = False
    effort: int | None = None
    tune_thresholds: bool | None = None
    channel_scales: bool | None = None
    bias_correction: bool | None = None
    adaptive_rounding: bool | None = None
    weight_clipping: bool | None = None
    auto_int16: bool | None = None
    max_latency_loss: float | None = None
    dtypes: Mapping[str, str] = field(default_factory=dict)
    node_dtypes: tuple[NodeDtype, ...] = ()
    subgraphs: tuple[Subgraph, ...] = ()
    output_dtype: str | None = None
    output_nodes: tuple[str, ...] = ()
    remove_types: tuple[str, ...] = ()
    remove_names: tuple[str, ...] = ()
    templates: Templates | None = None
    rules: tuple[QuantRule, ...] = ()
    fixed_scales: Mapping[str, float] = field(default_factory=dict)
    share_scales: str | None = None
    shared: tuple[str, ...] = ()
    keep_scales: tuple[str, ...] = ()
    max_bits_lost: float | None = None
    qat_scales: str | None = None
    equalize: bool | None = None
    high_precision_outputs: bool | None = None
    run_on_cpu: tuple[str, ...] = ()
    input_values: Mapping[str, float] = field(default_factory=dict)
    run_on_bpu: tuple[str, ...] = ()
    preprocess: Preprocess = field(default_factory=Preprocess)
    compile_mode: str | None = None
    optimize_level: str | None = None
    balance_factor: float | None = None
    core_num: int | None = None
    dump_dir: Path | None = None
    keep_stages: Path | None = None
    notes: tuple[str, ...] = ()

    def input_shapes(self, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Model input -> shape, of those that the file fixes; errors as `of_inputs`."""
        return {n: c.shape for n, c in self.of_inputs(names).items() if c.shape is not None}

    def of_inputs(self, names: Sequence[str]) -> dict[str, InputConfig]:
        """Model input -> what the file says of it; inputs that it does not mention are left out.

        Args:
            names: the inputs of the model.

        Raises:
            ConfigError: the file names an input that the model lacks, or none where the model has several.
        """
        out: dict[str, InputConfig] = {}
        for config in self.inputs:
            name = config.name
            if name is None and len(names) == 1:
                name = names[0]
            if name is None:
                raise ConfigError(
                    f"the model has {len(names)} inputs and the configuration does not name them",
                    where=str(self.path),
                    hint=f"add input_parameters.input_name: '{';'.join(names)}'",
                )
            if name not in names:
                raise ConfigError(
                    f"the model has no input {name!r}",
                    where=str(self.path),
                    want=f"one of {', '.join(map(repr, names))}",
                    hint=did_you_mean(name, list(names)),
                )
            out[name] = config
        return out
