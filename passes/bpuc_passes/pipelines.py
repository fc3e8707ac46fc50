"""The order of the passes, by phase."""

from __future__ import annotations

from collections.abc import Sequence

from bpuc.passkit import Pass
from bpuc_passes.attach_images import AttachImages
from bpuc_passes.bound_masks import BoundMasks, ClampMasks
from bpuc_passes.choose_dtypes import ChooseDtypes
from bpuc_passes.correct_bias import CorrectBias
from bpuc_passes.cut_file_ranges import CutFileRanges
from bpuc_passes.decompose_reduce import DecomposeReduce
from bpuc_passes.eliminate_rescales import EliminateRescales
from bpuc_passes.equalize_branches import EqualizeBranches
from bpuc_passes.fold_affine import FoldAffine
from bpuc_passes.fold_pad import FoldPad
from bpuc_passes.form_segments import FormSegments
from bpuc_passes.fuse_clamp import FuseClamp
from bpuc_passes.fuse_layernorm import FuseLayerNorm
from bpuc_passes.fuse_residual import FuseResidual
from bpuc_passes.fuse_table import FuseTable
from bpuc_passes.hoist_rescales import HoistRescales
from bpuc_passes.insert_borders import InsertBorders
from bpuc_passes.insert_observers import InsertObservers
from bpuc_passes.insert_rescales import InsertRescales
from bpuc_passes.join_axes import JoinAxes
from bpuc_passes.keep_accumulators import KeepAccumulators
from bpuc_passes.merge_reduce import MergeReduce
from bpuc_passes.merge_rescales import MergeRescales
from bpuc_passes.merge_split_concat import MergeSplitConcat
from bpuc_passes.pin_devices import PinDevices
from bpuc_passes.place_ops import PlaceOps
from bpuc_passes.quantize_weights import QuantizeWeights
from bpuc_passes.refine_layers import RefineLayers
from bpuc_passes.remove_ends import RemoveEnds
from bpuc_passes.scale_channels import ScaleChannels
from bpuc_passes.share_scales import ShareScales
from bpuc_passes.split_div import SplitDiv
from bpuc_passes.split_log_softmax import SplitLogSoftmax
from bpuc_passes.take_file_scales import KeepFileScales, TakeFileScales
from bpuc_passes.widen_ends import WidenEnds
from bpuc_passes.widen_parts import WidenParts
from bpuc_passes.widen_sensitive import WidenSensitive


def optimize() -> Sequence[Pass]:
    """Float rewrites that hold for every march, and the observers; needs no data."""
    return (
        PinDevices(),
        BoundMasks(),
        FuseLayerNorm(),
        SplitLogSoftmax(),
        MergeReduce(),
        DecomposeReduce(),
        JoinAxes(),
        MergeSplitConcat(),
        FoldAffine(scalars=False),
        FuseClamp(),
        FuseTable(),
        FoldAffine(),
        SplitDiv(),
        FuseResidual(),
        FuseClamp(),
        FoldPad(),
        InsertObservers(),
    )


def scaled() -> Sequence[Pass]:
    """Float rewrites that want to know what calibration saw."""
    return (CutFileRanges(),)


def place() -> Sequence[Pass]:
    """Devices and element types for one march."""
    return (PlaceOps(), WidenParts(), WidenEnds(), WidenSensitive(), ChooseDtypes())


def quantize() -> Sequence[Pass]:
    """Scales, conversions and rescales, from the thresholds of a calibration."""
    return (
        TakeFileScales(),
        ClampMasks(),
        EqualizeBranches(),
        ShareScales(),
        KeepFileScales(),
        ScaleChannels(),
        QuantizeWeights(),
        KeepAccumulators(),
        RefineLayers(),
        CorrectBias(),
        AttachImages(),
        InsertBorders(),
        InsertRescales(),
        HoistRescales(),
        EliminateRescales(),
        MergeRescales(),
        RemoveEnds(),
        FormSegments(),
    )
