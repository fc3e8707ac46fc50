"""Writes docs/yaml-keys.md from the schema: `python -m bpuc.config.document > docs/yaml-keys.md`."""

from __future__ import annotations

import sys

from bpuc.config.schema import Document, Section

HEAD = """# Keys of the configuration file

Written by `python -m bpuc.config.document > docs/yaml-keys.md`; edit `bpuc/config/schema.py`.

`-c CONFIG` takes a YAML file with the sections of the vendor's tools (hb_mapper for X3, J5 and X5, hb_compile for
S100) and our own section `bpuc`. An option on the command line wins over the file. All mistakes in a file are told at
once, each with its line. A key is

- *taken*: it does what is written here;
- *noted*: it has no effect here, and a note says so and why (not for the value that means nothing, such as `False`);
- *refused*: it asks for what bpuc does not do, and the run stops.

Any other key is a mistake. Blank keys (`key: ''`) count as left out.

## How values are written

- Several inputs: values in the order of `input_name`, with `;` between them; `None` skips an input in `mean_value`
  and `scale_value`. Numbers of one input have spaces or commas between them. YAML lists are taken too.
- Paths are relative to the folder of the file; what is not there but in the current folder is taken from there.
- `calibration_type: max` with `max_percentile: 0.9999` is `--observer percentile --observer-opt percentile=99.99`:
  bpuc writes percentiles in percent.
- Without `bpuc: output`, the binary is `working_dir/output_model_file_prefix.bpuc` when one of the two is given.

## Which data are normalized

Samples for calibration are what the float model takes. Without an `input_type_rt`, or with `featuremap`, so is the
input of the compiled model, and `mean_value` and `scale_value` are part of preparing samples.

| data | mean and scale |
| --- | --- |
| images | applied, after resizing and the change of colours |
| `.npy`, `.npz` and raw files in `cal_data_dir` | applied, as the vendor's tools expect these files without them |
| the same given by `--data` or `bpuc: data` | not applied: arrays are the model's inputs |

With `input_type_rt` nv12, yuv444, rgb, bgr or gray the compiled model takes uint8 pixels as the board delivers them:
nv12 as `[H * 3 / 2, W]` (rows of Y, then rows of U and V in turn; BT.601, video range with `input_space_and_range:
bt601_video`), the others as `[1, H, W, C]` or `[1, C, H, W]` by `input_layout_rt` (without it as in training). Colours,
mean and scale are then part of the compiled model: in the weights of the first convolution where only convolutions
read the input, else an op of the BPU named `<input>_HzPreprocess`. Nothing is quantized on the CPU. `bpuc run --inputs`
takes such arrays, or a folder of images, which go through the same steps as at calibration; floats of the model's own
shape are turned back into the nearest pixels, with a warning.

## Batches

`input_batch: N` compiles a model of batch 1 for N samples at once. Calibration takes single samples and gives the same
scales. A model that cannot be read with the larger batch, or whose outputs for a sample then hang on the other samples,
is refused. With `separate_batch: True` each sample is an input of its own, `NAME_0` to `NAME_<N-1>`, in the format that
the input has at run time; without `input_batch` this needs a model whose own batch is above 1. `bpuc run` takes arrays
of the program's inputs, or samples under the model's names, or folders, with a number of samples that N divides;
results have one row a run.

Every command reads arrays of samples alike: for an input `[1, 3, H, W]` as `[samples, 1, 3, H, W]`, as
`[samples, 3, H, W]`, or with `input_batch: N` as `[runs, N, 3, H, W]`.

## Two rules for one name

Of the rules under `bpuc: quantize: ops` and those of `--quant` the more exact name wins: a tensor's, then a node's,
then a pattern, then an op type. Of equally exact ones the later wins, key by key: templates come first, then the file
from top to bottom, then the command line from left to right. Two rules of the command line that give one key of one
name two values bring a warning, as does any of its options that names one thing twice with two values; in the file a
name that stands twice is a mistake.

Observers of the file act when thresholds are observed; beside `--calib`, which has them already, they do nothing. An
observer named on the command line beside `--calib` brings a warning.

## Raw files

`bpuc: preprocess: arrays: raw` or `ready` settles it for both of the last rows. Raw files (`.bin` and the endings of
the vendor's sample scripts) are float32 unless `cal_data_type` says otherwise; in `cal_data_dir` also uint8, which the
size of a file tells.
"""


def yaml_keys() -> str:
    """The whole of docs/yaml-keys.md."""
    parts = [HEAD]
    for name, info in Document.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            parts.append(f"## {name}\n\n{kind.__doc__}\n\n{_table(kind, '')}")
        else:
            parts.append(f"## {name}\n\nRefused: {info.description}.\n")
    return "\n".join(parts)


def _table(section: type[Section], prefix: str) -> str:
    rows = [] if prefix else ["| key | | |", "| --- | --- | --- |"]
    for key, info in section.model_fields.items():
        extra = info.json_schema_extra
        fate = extra["fate"] if isinstance(extra, dict) else ""
        rows.append(f"| `{prefix}{key}` | {fate} | {info.description} |")
        for inner in getattr(info.annotation, "__args__", ()):
            if isinstance(inner, type) and issubclass(inner, Section):
                rows.append(_table(inner, f"{prefix}{key}: ").rstrip("\n"))
            for value in getattr(inner, "__args__", ()):
                if isinstance(value, type) and issubclass(value, Section):
                    rows.append(_table(value, f"{prefix}{key}: NAME: ").rstrip("\n"))
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(yaml_keys())
