"""From the checked document to Config: what the vendor's keys mean here, and what must go together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from bpuc.base.errors import did_you_mean
from bpuc.base.files import exists
from bpuc.config.config import Config, InputConfig, Preprocess
from bpuc.config.dtypes import Wishes, read_node_info, read_optimization
from bpuc.config.inputs import read_inputs
from bpuc.config.qconfig import Templates
from bpuc.config.quant_config import QuantConfig
from bpuc.config.quantize import read_quantize
from bpuc.config.report import Report
from bpuc.config.schema import CalibrationParameters, Document

OBSERVERS = {"max": "min_max", "kl": "kl", "mix": "mix", "skip": "min_max", "default": "default"}
CAL = "calibration_parameters"


def to_config(
    doc: Document,
    report: Report,
    marches: Collection[str] | None,
    observers: Collection[str] | None,
    march: str | None = None,
) -> Config:
    """The configuration that a document describes; mistakes go to `report`, and what they touch is left out."""
    own, model, compiler = doc.bpuc, doc.model_parameters, doc.compiler_parameters
    _check_known(report, ("model_parameters", "march"), model.march, marches, "march")
    _check_known(report, ("bpuc", "observer"), own.observer, observers, "observer")

    def find(text: str | None) -> Path | None:
        return None if text is None else _find(report.path.parent, text)

    output = find(own.output)
    if output is None and (model.working_dir or model.output_model_file_prefix):
        folder = _find(report.path.parent, model.working_dir or "model_output")
        output = folder / f"{model.output_model_file_prefix or 'model'}.bpuc"
    dirs = (own.data,) if own.data else doc.calibration_parameters.cal_data_dir or ()
    given = {k: v for k, v in (own.preprocess or ()) if v is not None}
    preprocess = Preprocess(**given)
    wishes, quant_config = _wishes(doc, report)
    observer, options = _observer(doc, quant_config, report)
    templates, rules = read_quantize(own.quantize, report, observers)
    word = own.template or wishes.template
    if templates is None and word is not None:
        templates = Templates(word, own.template == "default")
    return Config(
        path=report.path,
        model=find(model.onnx_model),
        march=model.march,
        output=output,
        inputs=_inputs(doc, report),
        batch=doc.input_parameters.input_batch or 1,
        separate=doc.input_parameters.separate_name or (("*",) if doc.input_parameters.separate_batch else ()),
        data=tuple(_find(report.path.parent, d) for d in dirs),
        raw_arrays=(preprocess.arrays or ("ready" if own.data else "raw")) == "raw",
        data_dtype=doc.calibration_parameters.cal_data_type or (),
        random_data=_random(doc, march, bool(dirs)),
        observer=observer,
        observer_options=options,
        searches=observer == "default" and own.observer is None,
        effort=own.effort,
        tune_thresholds=own.tune_thresholds,
        channel_scales=_first(own.channel_scales, quant_config.per_channel, doc.calibration_parameters.per_channel),
        bias_correction=_first(own.bias_correction, wishes.bias_correction),
        adaptive_rounding=own.adaptive_rounding,
        weight_clipping=own.weight_clipping,
        auto_int16=own.auto_int16,
        max_latency_loss=own.max_latency_loss,
        dtypes={**wishes.dtypes, **(own.dtype or {})},
        node_dtypes=tuple(w for w in wishes.node_dtypes if w.node not in (own.dtype or {})),
        subgraphs=tuple(wishes.subgraphs),
        output_dtype=wishes.output_dtype,
        output_nodes=model.output_nodes or (),
        remove_types=model.remove_node_type or (),
        remove_names=model.remove_node_name or (),
        templates=templates,
        rules=rules,
        fixed_scales=own.fixed_scale or {},
        share_scales=own.share_scales,
        shared=tuple(own.share or ()),
        keep_scales=tuple(own.keep_scale or ()),
        max_bits_lost=own.max_bits_lost,
        qat_scales=own.qat_scales,
        equalize=own.equalize,
        high_precision_outputs=own.high_precision_outputs,
        input_values=own.input_value or {},
        run_on_cpu=tuple(wishes.cpu),
        run_on_bpu=tuple(wishes.bpu),
        preprocess=preprocess,
        compile_mode=compiler.compile_mode,
        optimize_level=compiler.optimize_level,
        balance_factor=compiler.balance_factor,
        core_num=compiler.core_num,
        dump_dir=find(own.dump_dir),
        keep_stages=find(own.keep_stages),
        notes=report.notes,
    )


def _find(folder: Path, text: str) -> Path:
    """A path relative to the file's folder, or to the current one when it exists only there."""
    beside = folder / (Path(text).expanduser() if text.startswith("~/") else Path(text))
    return Path(text) if not exists(beside) and exists(text) else beside


def _random(doc: Document, march: str | None, data: bool) -> bool:
    """Whether random data stand in: with skip, and as the vendor's tool for nash does, where its file names no data."""
    kind = doc.calibration_parameters.calibration_type
    vendor = bool(doc.model_parameters.model_fields_set | doc.calibration_parameters.model_fields_set)
    return kind == "skip" or (str(march).startswith("nash") and vendor and not data and kind != "load")


def _first(*given: bool | None) -> bool | None:
    """The first that is said; of the vendor's keys false says no more than that nothing was asked for."""
    own, *others = given
    return own if own is not None else next((True for v in others if v), None)


def _check_known(
    report: Report, key: tuple[str, str], word: str | None, known: Collection[str] | None, what: str
) -> None:
    if word is not None and known is not None and word not in known:
        hint = did_you_mean(word, list(known))
        report.mistake(key, f"there is no {what} {word!r}; known are {', '.join(sorted(known))}", hint)


def _inputs(doc: Document, report: Report) -> tuple[InputConfig, ...]:
    """Inputs of input_parameters, with the shapes of `bpuc: input_shape`, which may name further ones."""
    section = "input_parameters"
    faulty = [k for k in type(doc.input_parameters).model_fields if report.faulty(section, k)]
    inputs = read_inputs(doc.input_parameters, lambda key, text: report.mistake((section, key), text), faulty)
    sources = dict(doc.compiler_parameters.input_source or {})
    for word in sources.values():
        if word not in ("ddr", "pyramid", "resizer"):
            report.mistake(("compiler_parameters", "input_source"), f"{word!r} is none of ddr, pyramid, resizer")
    for i in inputs:
        word = sources.get(i.name or "", next(iter(sources.values()), "") if i.name is None else "")
        if word in ("pyramid", "resizer") and i.type_rt not in (None, "nv12", "gray"):
            report.mistake(("compiler_parameters", "input_source"), f"{word} gives nv12 or gray, not {i.type_rt}")
    inputs = tuple(
        replace(i, source=sources.get(i.name or "", next(iter(sources.values()), None) if i.name is None else None))
        for i in inputs
    )
    shapes = dict(doc.bpuc.input_shape or {})
    if len(inputs) == 1 and inputs[0].name is None and len(shapes) == 1:
        inputs = (replace(inputs[0], name=next(iter(shapes))),)
    inputs = tuple(replace(i, shape=shapes.pop(i.name, i.shape)) if i.name else i for i in inputs)
    return (*inputs, *(InputConfig(name, shape) for name, shape in shapes.items()))


def _observer(doc: Document, quant_config: QuantConfig, report: Report) -> tuple[str | None, Mapping[str, float]]:
    """Name and options of the observer; None is bpuc's default."""
    own = doc.bpuc
    name, options = _vendor_observer(doc.calibration_parameters, quant_config, report)
    if own.observer:
        name, options = own.observer, {}
    return name, {**options, **(own.observer_opt or {})}


def _vendor_observer(
    cal: CalibrationParameters, quant_config: QuantConfig, report: Report
) -> tuple[str | None, Mapping[str, float]]:
    kind = quant_config.calibration_type or cal.calibration_type
    percentile = cal.max_percentile if quant_config.max_percentile is None else quant_config.max_percentile
    if percentile is not None and kind not in ("max", "skip"):
        report.note((CAL, "max_percentile"), "it has no effect without calibration_type max")
    if kind == "max" and percentile is not None and percentile < 1:
        return "percentile", {"percentile": round(100 * percentile, 10)}
    name, options = OBSERVERS.get(kind or ""), dict(quant_config.options)
    if "max_bins" in options:
        options["bins"] = min(options.get("bins", 1024), options["max_bins"])
    known = {"kl": ("bins", "max_bins"), "default": ("similarity",)}.get(name or "", ())
    if set(options) - {*known}:
        words = "num_bin and max_num_bin count with calibration_type kl, similarity with default"
        report.note((CAL, "quant_config"), words)
    return name, {k: v for k, v in options.items() if k in known}


def _wishes(doc: Document, report: Report) -> tuple[Wishes, QuantConfig]:
    """dtypes and devices from all the keys that can ask for them; node_info wins over quant_config and run_on_*."""
    cal, own, wishes = doc.calibration_parameters, doc.bpuc, Wishes()
    quant_config = QuantConfig((CAL, "quant_config"), wishes, report)
    if cal.quant_config is not None:
        quant_config.read(cal.quant_config, report.path.parent)
    for key in ("set_node_data_type", "node_info"):
        value = getattr(doc.model_parameters, key)
        if value is not None:
            try:
                read_node_info(value, wishes)
            except ValueError as e:
                report.mistake(("model_parameters", key), str(e))
    try:
        read_optimization(cal.optimization or (), wishes)
    except ValueError as e:
        report.mistake((CAL, "optimization"), str(e))
    for text in wishes.notes:
        report.note((CAL, "optimization"), text)
    pinned = {*wishes.cpu, *wishes.bpu}
    for name in sorted(set(wishes.cpu) & set(wishes.bpu)):
        report.mistake(("model_parameters", "node_info"), f"node {name!r} is asked for on the BPU and on the CPU")
    cpu, bpu = (_union(getattr(cal, k), getattr(own, k)) for k in ("run_on_cpu", "run_on_bpu"))
    for name in cpu:
        if name in bpu:
            section = "bpuc" if own.run_on_cpu else CAL
            report.mistake((section, "run_on_cpu"), f"{name!r} stands in run_on_bpu too")
    wishes.cpu += [n for n in cpu if n not in pinned]
    wishes.bpu += [n for n in bpu if n not in pinned]
    return wishes, quant_config


def _union(*lists: tuple[str, ...] | None) -> list[str]:
    return list(dict.fromkeys(n for names in lists for n in names or ()))
