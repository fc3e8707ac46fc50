"""What passes may read beside the graph, and where they leave what the report tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from bpuc.base.channels import ChannelStats
from bpuc.base.dtypes import DType
from bpuc.base.errors import ConfigError
from bpuc.base.image import ImageInput
from bpuc.base.tail import Tail
from bpuc.config import NodeDtype
from bpuc.config.qconfig import QuantRule
from bpuc.ir import Graph, Op, Tensor
from bpuc.passkit.alternative import Alternatives
from bpuc.passkit.layer import Visit
from bpuc.passkit.qconfig import Match
from bpuc.passkit.search import Budget
from bpuc.target.model import Target

# the observer of a tensor that is -Inf where a mask hides values: no scale can hold it, so it stays on the CPU
MASKED = "masked"


@dataclass(frozen=True)
class CompileOptions:
    """What the user asked of a compile; see the contract's shared options.

    dtypes: by tensor, node or op type. fixed_scales: by tensor. cpu and bpu: node names or op types.
    observer, observer_options: how activations are calibrated. observers: tensor, node or op type -> one of its own.
    share_scales: auto, always or never.
    equalize: move range ratios between the branches of a concat into weights, by measured error.
    max_bits_lost: what a member with other readers may lose to a shared scale, whatever is measured; None: 1.5, more
    where the measured error allows it. shared, keep_scales: tensors that take
    their concat's scale whatever it costs, and those that keep their own.
    effort: how much is done for accuracy beyond thresholds, 0 (nothing) to 3; the switches below leave out one part.
    tune: let the readers of a tensor choose its threshold, starting from the observer's.
    channel_scales: scales per channel where they are free. bias_correction: the mean of rounding errors into biases.
    auto_int16: int16 for the tensors that need it most. adaptive_rounding: weights rounded by the error of the result.
    weight_clipping: scales of weights by that error too.
    high_precision_outputs: results that only outputs and CPU ops read stay int32 accumulators.
    rules: the qconfig, for single ops and tensors. explicit_default: the default template was asked for by name.
    output_nodes: nodes or tensors that replace the model's outputs. output_dtype: int8 or int16 of the outputs.
    node_dtypes: types of single operands or results. remove_types, remove_names: ops to delete at the ends.
    """

    dtypes: Mapping[str, str] = field(default_factory=dict)
    fixed_scales: Mapping[str, float] = field(default_factory=dict)
    cpu: tuple[str, ...] = ()
    bpu: tuple[str, ...] = ()
    share_scales: str = "auto"
    max_bits_lost: float | None = None
    shared: tuple[str, ...] = ()
    keep_scales: tuple[str, ...] = ()
    template: str = "default"
    equalize: bool = False
    observer: str = "percentile"
    observer_options: Mapping[str, str | float] = field(default_factory=dict)
    observers: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    effort: int = 1
    tune: bool = False
    channel_scales: bool = True
    bias_correction: bool = True
    auto_int16: bool = True
    adaptive_rounding: bool = True
    weight_clipping: bool = True
    high_precision_outputs: bool = True
    rules: tuple[QuantRule, ...] = ()
    explicit_default: bool = False
    output_nodes: tuple[str, ...] = ()
    output_dtype: str | None = None
    node_dtypes: tuple[NodeDtype, ...] = ()
    remove_types: tuple[str, ...] = ()
    remove_names: tuple[str, ...] = ()
    # scales in the file: "fold" lets a concat's only producers write at the concat's scale, "strict" keeps every one
    qat_scales: str = "fold"


@dataclass(frozen=True)
class Warn:
    """A warning of the report: a stable code, the message, the node or tensor."""

    code: str
    message: str
    where: str = ""


@dataclass(frozen=True)
class Refinement:
    """A correction for accuracy: the step that made it, what it did, at which node or tensor, what that gained."""

    step: str
    what: str
    where: str
    gain: str


@dataclass
class Range:
    """What calibration saw of a tensor and the threshold chosen from it (real values)."""

    low: float
    high: float
    threshold: float
    observer: str
    # whether no data stands behind it (perf without data)
    assumed: bool = False


@dataclass(frozen=True)
class FileScale:
    """Scale that the model file gives a tensor, the least and largest value that its integers reach, their size.

    wide: whether the integers have 16 bits.
    """

    scale: float
    low: float
    high: float
    wide: bool = False

    def symmetric(self, dtype: DType) -> float | None:
        """The scale at which a symmetric type has every value of the file's integers, None where there is none."""
        half = self.scale / 2
        fits = self.low > dtype.qmin * self.scale - half and self.high < dtype.qmax * self.scale + half
        return self.scale if fits else None


@dataclass
class Group:
    """Tensors that share one scale."""

    id: int
    tensors: list[str]
    threshold: float
    reason: str
    bits_lost: dict[str, float]


@dataclass(frozen=True)
class Refusal:
    """Why a concat operand did not take the shared scale: the remedy, bits that it would lose, and who would see it."""

    why: str
    remedy: str
    bits: float = 0.0
    readers: tuple[str, ...] = ()


@dataclass
class RescaleRecord:
    """A Rescale in the program, and how to be rid of it.

    bits_lost: what the readers that refused would lose without it. yaml: the remedy as lines of a configuration.
    """

    name: str
    node: str
    input_index: int
    tensor: str
    from_scale: float
    to_scale: float
    reason: str
    remedy: str
    latency_us: float = 0.0
    elements: int = 0
    bits_lost: float = 0.0
    readers: list[str] = field(default_factory=list)
    yaml: str = ""


@dataclass
class Avoided:
    """A Rescale that ``--share-scales never`` would have had.

    how: by what it was avoided. bits_lost: what the tensor's other readers pay. noise_db: how much smaller the rounding
    noise at the concat is with one rounding in place of two.
    """

    node: str
    tensor: str
    latency_us: float = 0.0
    how: str = ""
    bits_lost: float = 0.0
    noise_db: float = 0.0


# noise increase at a reader in dB, by (tensor, reader, own threshold, shared threshold, threshold of the result); None
# where that reader was not measured
Noise = Callable[[Tensor, Op, float, float, float], "float | None"]


class Judge(Protocol):
    """The network's outputs on calibration data, if a graph (placed, still in float) were quantized now."""

    def __call__(self, graph: Graph, ctx: PassContext, by_channel: bool = False) -> np.ndarray:
        """SQNR in dB, float64 [samples, outputs].

        Args:
            by_channel: the mean of that and of the SQNR taken channel by channel, so that scores beside boxes count.
        """


# relative squared error of an op's result, with its first operand rounded to the given threshold per channel and its
# weights replaced by these and rounded
Trial = Callable[[Op, np.ndarray, np.ndarray], float]


@dataclass
class PassContext:
    """One compile: its target, options and statistics, and what the passes found."""

    options: CompileOptions = field(default_factory=CompileOptions)
    target: Target | None = None
    ranges: dict[str, Range] = field(default_factory=dict)
    # what calibration saw of the channels of a tensor
    channels: dict[str, ChannelStats] = field(default_factory=dict)
    # how many values of a tensor lie beyond a magnitude, in the units of the ONNX model
    tails: dict[str, Tail] = field(default_factory=dict)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    # how many samples calibration saw; 0 where that is not known
    samples: int = 0
    # scales in the model file, by tensor; the tensors that are fixed at them
    file_scales: dict[str, FileScale] = field(default_factory=dict)
    fixed_by_file: set[str] = field(default_factory=set)
    # tensors that the model file rounds to a scale that a symmetric type has; known before there are ranges
    rounded_by_file: frozenset[str] = frozenset()
    # tensors of which the file's integers hold less on one side, and of which no reader sees more than they hold
    cut_by_file: Mapping[str, FileScale] = field(default_factory=dict)
    warnings: list[Warn] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    # corrections for accuracy, each with its pass, its place and its gain
    refinements: list[Refinement] = field(default_factory=list)
    rescales: list[RescaleRecord] = field(default_factory=list)
    avoided: list[Avoided] = field(default_factory=list)
    # elements of each avoided rescale, by (node, tensor); why a concat operand was not joined, by (node, index)
    avoided_elements: dict[tuple[str, str], int] = field(default_factory=dict)
    cut_reasons: dict[tuple[str, int], Refusal] = field(default_factory=dict)
    # concat operands that keep their own scale, by (concat, index), with the reason; those that join whatever they lose
    apart: dict[tuple[str, int], Refusal] = field(default_factory=dict)
    together: set[tuple[str, int]] = field(default_factory=set)
    # what a user can do about an op on the CPU, by its name; the marches to look at for that
    remedies: dict[str, str] = field(default_factory=dict)
    marches: Mapping[str, Target] = field(default_factory=dict)
    # what each op would cost on its other device
    alternatives: Alternatives | None = None
    # why each segment begins where it does, by its number
    segment_reasons: dict[int, str] = field(default_factory=dict)
    # names of the tensors that are int16, and of the ONNX tensors that fusion made disappear
    int16: set[str] = field(default_factory=set)
    fused: set[str] = field(default_factory=set)
    # how noise is measured where there are data, and what was measured
    measure: Callable[[Graph, list[Op]], Noise] | None = None
    noise: Noise | None = None
    trial: Callable[[Graph, list[Op]], Trial] | None = None
    judge: Judge | None = None
    # whether trials at the outputs decide on what concats drag along, and how many are left for all searches
    judged: bool = False
    budget: Budget = field(default_factory=Budget)
    # the time of a rescale of so many elements, and of all ops on the BPU together (0: not known), both estimates
    rescale_us: Callable[[int], float] | None = None
    bpu_us: float = 0.0
    # shows every op with weights of a scaled graph to a visitor, in order; None where there are no data
    layers: Callable[[Graph, Visit], list[tuple[np.ndarray, ...]]] | None = None
    # error of the outputs when a tensor alone is rounded, by name
    sensitivity: dict[str, float] = field(default_factory=dict)
    # part of the usual share of int16 that the latency allows
    int16_budget: float = 1.0
    # tensors that lose too much in int8, from the passes that made them: int16 where the march can, without being asked
    prefer_int16: set[str] = field(default_factory=set)
    # names of the tensors whose type was asked for by name; by output, why it is no accumulator of high precision
    asked_dtypes: set[str] = field(default_factory=set)
    output_notes: dict[str, str] = field(default_factory=dict)
    # what the rules of the qconfig name, the most exact first; op types that the model had before fusion
    matches: list[Match] = field(default_factory=list)
    known_types: set[str] = field(default_factory=set)
    # inputs that take pixels, by name
    images: dict[str, ImageInput] = field(default_factory=dict)
    # samples that a run takes at once; the model's input -> the inputs that its batch has become
    batch_size: int = 1
    batch: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # types that the calibration file asks for, or the scales in the model file
    calibrated_dtypes: dict[str, str] = field(default_factory=dict)

    @property
    def int16_effort(self) -> int:
        """Effort of automatic int16: the highest for quantized files with zero points, where int8 is coarser."""
        coarse = sum(not s.wide and s.symmetric(DType.INT8) is None for s in self.file_scales.values())
        many = coarse > len(self.file_scales) / 8  # not for the sake of a Softmax alone
        return max(3, self.options.effort) if many and self.options.effort >= 1 else self.options.effort

    def need_target(self) -> Target:
        """The target.

        Raises:
            ConfigError: a pass that needs one runs without.
        """
        if self.target is None:
            raise ConfigError("this step needs a march", hint="name one with --march")
        return self.target

    def twin(self) -> PassContext:
        """The same options, statistics and decisions, for passes that are to leave this context as it is."""
        return replace(
            self,
            ranges={name: replace(r) for name, r in self.ranges.items()},
            channels=dict(self.channels),
            weights=dict(self.weights),
            fixed_by_file=set(self.fixed_by_file),
            warnings=list(self.warnings),
            groups=list(self.groups),
            refinements=list(self.refinements),
            rescales=list(self.rescales),
            avoided=list(self.avoided),
            avoided_elements=dict(self.avoided_elements),
            cut_reasons=dict(self.cut_reasons),
            apart=dict(self.apart),
            together=set(self.together),
            segment_reasons=dict(self.segment_reasons),
            int16=set(self.int16),
            prefer_int16=set(self.prefer_int16),
            asked_dtypes=set(self.asked_dtypes),
            output_notes=dict(self.output_notes),
            options=replace(self.options, remove_types=(), remove_names=()),
            images={},  # measurements feed what the float model takes
        )

    def warn(self, code: str, message: str, where: str = "") -> None:
        self.warnings.append(Warn(code, message, where))
