"""What the accuracy tools have in common: options, and results in a folder (of compare-scales the options for data)."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from bpuc.base.errors import FileError
from bpuc.base.files import check_writable, exists, is_folder, new_folder
from bpuc.cli import options, ui

F = TypeVar("F", bound=Callable[..., Any])
_ARRAYS = {"badcase": ("inputs.npz", "float.npz", "integer.npz")}


class Command(options.Command):
    """A command whose results go to a folder; what stands in their way there is told before any work."""

    def invoke(self, ctx: click.Context) -> Any:
        model, binary = ctx.params.get("model"), ctx.params.get("binary")
        if binary is not None and Path(str(model)).suffix == ".bpuc" and Path(binary).suffix == ".onnx":
            raise click.UsageError(f"the model comes first: bpuc {self.name} {binary} {model}", ctx)
        for path in self._results(ctx) if is_folder(ctx.params["output"]) else ():
            check_writable(path)
        return super().invoke(ctx)

    def written(self, ctx: click.Context) -> list[tuple[str, str]]:
        return [*(("-o", str(path)) for path in self._results(ctx)), *super().written(ctx)]

    def _results(self, ctx: click.Context) -> list[Path]:
        tool, folder = str(self.name), Path(ctx.params["output"])
        return [folder / n for n in (*(f"{tool}.{kind}" for kind in ("json", "csv", "html")), *_ARRAYS.get(tool, ()))]


def _folder(ctx: click.Context, param: click.Parameter, value: str) -> str:  # noqa: ARG001
    """Callback: what is no folder, and can become none, is refused before any work."""
    if not value:
        raise FileError("-o names no folder", want="a folder, new or existing")
    there = next(p for p in (Path(value).absolute(), *Path(value).absolute().parents) if exists(p))
    if not is_folder(there):
        raise FileError(f"cannot write to the folder {value}: {there} is no folder", want="a folder, new or existing")
    if not os.access(there, os.W_OK | os.X_OK):
        raise FileError(f"cannot write to the folder {value}: {there} is not writable", hint="choose another path")
    return value


def folder_option(f: F) -> F:
    """The option -o DIR."""
    return click.option(
        "-o", "--output", required=True, metavar="DIR", callback=_folder, help="Folder of the results, made if new."
    )(f)


def measuring_options(data: str, samples: int, samples_help: str) -> Callable[[F], F]:
    """MODEL.onnx and what measuring a model on data needs: --march, --calib, --data and --samples.

    Args:
        data, samples_help: what the samples are for. samples: how many are measured on.
    """

    def add(f: F) -> F:
        for option in (
            click.option(
                "--samples", type=options.COUNT, metavar="N", default=samples, show_default=True, help=samples_help
            ),
            click.option("--data", metavar="PATH", help=data),
            click.option("--calib", metavar="X.calib.json", help="Thresholds from `bpuc calibrate`."),
            click.option("--march", metavar="M", callback=options.march, help="The target; `bpuc targets` lists them."),
            click.argument("model", metavar="MODEL.onnx", required=False),
        ):
            f = option(f)
        return f

    return add


def tool_options(f: F) -> F:
    """--data, -c, --input-shape, --input-value, --samples, --threads, -o and --json."""
    for option in (
        ui.json_option,
        click.option("--threads", type=options.THREADS, metavar="N", help="Threads of the float run."),
        folder_option,
        click.option("--samples", type=options.COUNT, metavar="N", help="The first N samples [all]."),
        click.option(
            "--input-shape",
            multiple=True,
            metavar="NAME:DIMS",
            help="Fix a dynamic input: images:1x3x64x64, or a named dimension: batch=1.",
        ),
        click.option("--input-value", multiple=True, metavar="NAME=NUMBER", help="As the binary was compiled with."),
        click.option("-c", "--config", metavar="CONFIG", help="YAML file: how images become samples, and where."),
        click.option("--data", metavar="PATH", help=".npz, or a folder of samples; streamed."),
    ):
        f = option(f)
    return f


def warn_all(texts: Iterable[str]) -> list[str]:
    """Warnings on stderr, each once; returned for the document."""
    found = list(dict.fromkeys(texts))
    for text in found:
        ui.warn(text)
    return found


def emit_tool(
    tool: str,
    document: Mapping[str, Any],
    title: str,
    text: str,
    folder: str,
    json_to: str | None,
    more: Mapping[str, bytes] | None = None,
) -> None:
    """Text on stdout; TOOL.json, TOOL.csv and TOOL.html in the folder, with what else is named: all or none."""
    from bpuc.report.html import render_tool_html
    from bpuc.report.tool_csv import tool_csv

    page = render_tool_html(tool, document, title)
    with new_folder(folder) as made:
        files: dict[str, bytes | str] = {
            str(made / f"{tool}.json"): ui.to_json(document),
            str(made / f"{tool}.csv"): tool_csv(tool, document),
            str(made / f"{tool}.html"): page,
            **{str(made / name): raw for name, raw in (more or {}).items()},
        }
        ui.emit(text, document, json_to, files)
    ui.note(f"{folder}: {tool}.html, {tool}.csv, {tool}.json" + (f" and {len(more)} more" if more else ""))


def npz(arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]]) -> bytes:
    """The arrays as an .npz whose bytes depend on them alone."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:
        for name, array in arrays.items():
            with z.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)
    return out.getvalue()
