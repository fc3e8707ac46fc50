"""What the user asked for, from the command line and the YAML file together; the command line wins."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bpuc.base.dtypes import float32_positive
from bpuc.base.errors import ConfigError, UsageError
from bpuc.config import Config
from bpuc.config.qconfig import QuantRule, Table, Templates, overruled, read_templates
from bpuc.config.rule import read_rules
from bpuc.config.values import DTYPES
from bpuc.flow.own_observers import check_observer, parse
from bpuc.observe.registry import observer_names
from bpuc.passkit import CompileOptions
from bpuc.plugins import ALIASES, targets

T = TypeVar("T")
_SYMBOL = re.compile(r"([^:]+)=\s*(-?[0-9]{1,18})\s*")


@dataclass(frozen=True)
class Request:
    """One calibrate, compile, check or perf: the model, where its data come from, and the options.

    march may be None (calibrate needs none). data: None where none was named. symbols: sizes of named dimensions.
    input_values: of inputs that become constants.
    hardware: numbers in the place of the target's.
    optimize: -O0 to -O3. compile_mode: latency, bandwidth or balance; balance: 0 (bandwidth) to 100 (latency).
    unused_balance: balance was given, with a mode that takes none. overruled: two settings for one name, in words.
    observing: options of the command line that act only where thresholds are observed. tables: of the templates.
    switched_on: switches for accuracy that were asked for by name.
    """

    model: Path
    march: str | None
    config: Config | None
    data: Path | None
    calib: Path | None
    random_data: bool
    options: CompileOptions
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    symbols: Mapping[str, int] = field(default_factory=dict)
    input_values: Mapping[str, float] = field(default_factory=dict)
    threads: int | None = None
    dump_dir: Path | None = None
    keep_stages: Path | None = None
    max_latency_loss: float | None = None
    unused_templates: tuple[str, ...] = ()
    check_numerics: bool = False
    hardware: Mapping[str, float] = field(default_factory=dict)
    workers: int | None = None
    scheduler: str | None = None
    optimize: int = 3
    compile_mode: str = "latency"
    balance: float = 50.0
    unused_balance: bool = False
    cores: int = 1
    overruled: tuple[str, ...] = ()
    observing: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    switched_on: tuple[str, ...] = ()

    def missing(self, what: str, **more: str | None) -> ConfigError:
        """The error for what nobody named: a fault of the configuration, or of usage where there is none."""
        return (ConfigError if self.config else UsageError)(what, **more)


def make_request(
    model: str | None,
    march: str | None = None,
    config: str | None = None,
    *,
    data: str | None = None,
    calib: str | None = None,
    random_data: bool = False,
    observer: str | None = None,
    observer_opt: Sequence[str] = (),
    observer_for: Sequence[str] = (),
    dtype: Sequence[str] = (),
    fixed_scale: Sequence[str] = (),
    run_on_cpu: Sequence[str] = (),
    run_on_bpu: Sequence[str] = (),
    input_shape: Sequence[str] = (),
    input_value: Sequence[str] = (),
    share_scales: str | None = None,
    share: Sequence[str] = (),
    keep_scale: Sequence[str] = (),
    max_bits_lost: float | None = None,
    qat_scales: str | None = None,
    template: str | Sequence[str] | None = None,
    rules: Sequence[QuantRule] = (),
    quant: Sequence[str] = (),
    equalize: bool = False,
    effort: int | None = None,
    tune_thresholds: bool | None = None,
    channel_scales: bool | None = None,
    bias_correction: bool | None = None,
    auto_int16: bool | None = None,
    adaptive_rounding: bool | None = None,
    weight_clipping: bool | None = None,
    high_precision_outputs: bool | None = None,
    max_latency_loss: float | None = None,
    threads: int | None = None,
    dump_dir: str | None = None,
    keep_stages: str | None = None,
    check_numerics: bool = False,
    hardware: Mapping[str, float] | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    optimize: str | None = None,
    compile_mode: str | None = None,
    balance: float | None = None,
    cores: int | None = None,
) -> Request:
    """Merge the options of a command with its configuration file.

    Raises:
        UsageError: no model, and no configuration file either; an option that cannot be read, or two that exclude
            each other. ConfigError: no model in the file, or a value there that cannot be.
    """
    known_marches, known_observers = [*targets(), *ALIASES], observer_names()
    c = None
    if config:
        from bpuc.config import load_config

        counts = {m: int(t.hw("cores")) for m, t in targets().items()}
        counts |= {alias: counts[m] for alias, m in ALIASES.items()}
        c = load_config(config, marches=known_marches, observers=known_observers, march=march, cores=counts)
    path = Path(model) if model else c.model if c else None
    if path is None:
        missing = ConfigError if config else UsageError
        raise missing("no model was named", hint="give MODEL.onnx, or model_parameters.onnx_model in the YAML file")
    words = (template,) if isinstance(template, str) else tuple(template or ())
    templates = read_templates(words, fault=UsageError) if words else (c.templates if c else None) or Templates()
    dtypes = dict(c.dtypes) if c else {}
    told: list[str] = []
    asked_types = _pairs(dtype, "--dtype", told)
    for word, value in asked_types.items():
        if value not in DTYPES:
            raise UsageError(f"--dtype {word}={value}: no such type for activations", want=" or ".join(DTYPES))
    dtypes |= asked_types
    fixed = dict(c.fixed_scales) if c else {}
    fixed |= {name: _scale(name, value) for name, value in _pairs(fixed_scale, "--fixed-scale", told).items()}
    name = observer or (c.observer if c and c.observer else None) or "percentile"
    named = bool(observer or observer_opt or (c and c.observer and not c.searches))
    settings: dict[str, str | float] = {}
    if c and (observer is None or observer == c.observer):
        settings |= c.observer_options
    settings |= _pairs(observer_opt, "--observer-opt", told)
    check_observer(name, settings, on_command_line=bool(observer or observer_opt))
    own = [parse(o) for o in observer_for]
    told += [f"--observer-for {n} is given twice; the later counts" for n in _differing(own)]
    asked = [rule for text in quant for rule in read_rules(text)]
    # later ones win; of templates the first has priority
    ordered = (*reversed(templates.rules), *(c.rules if c else ()), *asked, *rules)
    for rule in ordered:
        if rule.observer is not None:
            check_observer(rule.observer, rule.observer_options, f"{rule.source}: {rule.match}", rule in asked)
    told += overruled(ordered)
    if data and random_data:
        raise UsageError("--data and --random-data were both given", want="one of the two")
    if workers and scheduler:
        raise UsageError("--workers and --scheduler were both given", want="processes here, or a cluster")
    both = set(run_on_cpu) & set(run_on_bpu)
    if both:
        raise UsageError(f"{min(both)} is asked for on the CPU and on the BPU", want="--run-on-cpu or --run-on-bpu")
    torn = {*share, *(c.shared if c else ())} & {*keep_scale, *(c.keep_scales if c else ())}
    if torn:
        fault = UsageError if {*share} & {*keep_scale} else ConfigError
        raise fault(f"{min(torn)} is to share its concat's scale and to keep its own", want="one of the two")
    options = CompileOptions(
        dtypes=dtypes,
        fixed_scales=fixed,
        cpu=(*(c.run_on_cpu if c else ()), *run_on_cpu),
        bpu=(*(c.run_on_bpu if c else ()), *run_on_bpu),
        share_scales=_first(share_scales, c.share_scales if c else None, "auto"),
        qat_scales=_first(qat_scales, c.qat_scales if c else None, "fold"),
        shared=(*(c.shared if c else ()), *share),
        keep_scales=(*(c.keep_scales if c else ()), *keep_scale),
        max_bits_lost=c.max_bits_lost if max_bits_lost is None and c else max_bits_lost,
        template=templates.whole,
        explicit_default=templates.explicit,
        rules=ordered,
        equalize=equalize or bool(c and c.equalize),
        observer=name,
        observer_options=settings,
        observers=dict(own),
        effort=_first(effort, c.effort if c else None, CompileOptions.effort),
        # an observer that was named decides alone
        tune=_first(
            tune_thresholds,
            c.tune_thresholds if c else None,
            _first(effort, c.effort if c else None, 1) != 0 and not named,
        ),
        channel_scales=_first(channel_scales, c.channel_scales if c else None, CompileOptions.channel_scales),
        bias_correction=_first(bias_correction, c.bias_correction if c else None, CompileOptions.bias_correction),
        adaptive_rounding=_first(
            adaptive_rounding, c.adaptive_rounding if c else None, CompileOptions.adaptive_rounding
        ),
        weight_clipping=_first(weight_clipping, c.weight_clipping if c else None, CompileOptions.weight_clipping),
        auto_int16=_first(auto_int16, c.auto_int16 if c else None, CompileOptions.auto_int16),
        output_nodes=c.output_nodes if c else (),
        output_dtype=c.output_dtype if c else None,
        node_dtypes=c.node_dtypes if c else (),
        remove_types=c.remove_types if c else (),
        remove_names=c.remove_names if c else (),
        high_precision_outputs=_first(
            high_precision_outputs, c.high_precision_outputs if c else None, CompileOptions.high_precision_outputs
        ),
    )
    return Request(
        model=path,
        march=march or (c.march if c else None),
        config=c,
        data=Path(data) if data else None,
        calib=Path(calib) if calib else None,
        random_data=random_data or bool(c and c.random_data and not data and not calib),
        options=options,
        input_shapes=dict(_shape(s) for s in input_shape if not _SYMBOL.fullmatch(s)),
        symbols=dict(_symbol(m) for m in map(_SYMBOL.fullmatch, input_shape) if m),
        input_values={**(c.input_values if c else {}), **dict(map(_value, input_value))},
        threads=threads,
        max_latency_loss=max_latency_loss if max_latency_loss is not None else c.max_latency_loss if c else None,
        unused_templates=templates.unused,
        dump_dir=Path(dump_dir) if dump_dir else c.dump_dir if c else None,
        keep_stages=Path(keep_stages) if keep_stages else c.keep_stages if c else None,
        check_numerics=check_numerics,
        hardware=hardware or {},
        workers=workers,
        scheduler=scheduler,
        optimize=int(_first(optimize, c.optimize_level if c else None, "O3").lstrip("O")),
        compile_mode=_first(compile_mode, c.compile_mode if c else None, Request.compile_mode),
        balance=_first(balance, c.balance_factor if c else None, Request.balance),
        unused_balance=_first(balance, c.balance_factor if c else None, -1.0) >= 0
        and _first(compile_mode, c.compile_mode if c else None, Request.compile_mode) != "balance",
        cores=_first(cores, c.core_num if c else None, Request.cores),
        overruled=tuple(dict.fromkeys(told)),
        observing=(
            *((f"--observer {observer}",) if observer else ()),
            *(f"--observer-opt {o}" for o in observer_opt),
            *(f"--observer-for {o}" for o in observer_for),
            *(f"{r.source}:observer={r.observer}" for r in asked if r.observer is not None),
            *(f"{r.source}:share_observer_with={r.share_observer_with}" for r in asked if r.share_observer_with),
            *(("--tune-thresholds",) if tune_thresholds else ()),
            *((f"--workers {workers}",) if workers else ()),
            *((f"--scheduler {scheduler}",) if scheduler else ()),
        ),
        switched_on=tuple(
            name
            for name, given, in_file in (
                ("channel-scales", channel_scales, c and c.channel_scales),
                ("bias-correction", bias_correction, c and c.bias_correction),
                ("auto-int16", auto_int16, c and c.auto_int16),
                ("adaptive-rounding", adaptive_rounding, c and c.adaptive_rounding),
                ("weight-clipping", weight_clipping, c and c.weight_clipping),
            )
            if (given if given is not None else in_file)
        ),
        tables=templates.tables,
    )


def _first(*values: T | None) -> T:
    return next(v for v in values if v is not None)


def _pair(text: str, option: str) -> tuple[str, str]:
    """NAME=VALUE; the name may hold '=' itself."""
    name, separator, value = text.rpartition("=")
    if not separator or not name or not value:
        raise UsageError(f"{option} {text}: cannot be read", want="NAME=VALUE")
    return name, value


def _pairs(texts: Sequence[str], option: str, told: list[str]) -> dict[str, str]:
    """NAME=VALUE each, of one name the later; `told` gets a sentence where the values differ."""
    pairs = [_pair(text, option) for text in texts]
    found = dict(pairs)
    told += [f"{option} {name} is given twice; the later counts, {found[name]}" for name in _differing(pairs)]
    return found


def _differing(pairs: Sequence[tuple[str, Any]]) -> list[str]:
    """Names with more than one value."""
    last = dict(pairs)
    return list(dict.fromkeys(name for name, value in pairs if value != last[name]))


def _scale(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not float32_positive(value):
        raise UsageError(f"--fixed-scale {name}={text}: this is no scale", want="a number above 0 that float32 has")
    return value


def _symbol(found: re.Match[str]) -> tuple[str, int]:
    if int(found[2]) < 1:
        raise UsageError(f"--input-shape {found[0]}: a size below 1", want="a positive number")
    return found[1], int(found[2])


def _value(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not name or not math.isfinite(value):
        raise UsageError(f"--input-value {text}: cannot be read", want="NAME=NUMBER, as in sr=16000")
    return name, value


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, separator, dims = text.rpartition(":")
    parts = dims.replace(",", "x").lower().split("x")
    if not separator or not name or not all(re.fullmatch(r"\s*-?[0-9]{1,18}\s*", p) for p in parts):
        raise UsageError(
            f"--input-shape {text}: cannot be read", want="NAME:1x3x224x224, or a named dimension as in batch=1"
        )
    shape = tuple(int(p) for p in parts)
    if min(shape) < 0:  # the model may take an input without elements
        raise UsageError(f"--input-shape {text}: a size below 0", want="positive numbers")
    return name, shape
