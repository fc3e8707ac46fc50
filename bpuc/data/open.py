"""Opening what `--data` or the configuration names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bpuc.base.errors import DataError, FileError
from bpuc.base.files import exists, is_file, is_folder
from bpuc.config import Config
from bpuc.data.folder import open_folder, open_folders
from bpuc.data.npz import NpzSource
from bpuc.data.recipe import input_order, recipes
from bpuc.data.source import DataSource, InputSpec


def open_data(
    path: str | os.PathLike[str] | None, inputs: Sequence[InputSpec], config: Config | None = None
) -> DataSource:
    """The samples of an .npz, an .npy (for a model of one input) or a folder.

    Arrays are the inputs of the model as they stand, except those of the configuration's cal_data_dir: there, as with
    the vendor's tools, mean_value and scale_value are still to be applied. `bpuc: preprocess: arrays` says otherwise.

    Args:
        path: file or folder; None takes what the configuration names.
        inputs: the model's inputs.
        config: how images become samples, and the place of the data when `path` is None.

    Raises:
        DataError: the data do not fit the inputs. FileError: nothing is there, or it cannot be read.
        ConfigError: the configuration does not fit the inputs.
    """
    from_config = path is None
    if not inputs:
        raise DataError("the model has no inputs, so that no data can be given to it")
    paths = tuple(config.data if config else ()) if path is None else (Path(path),)
    if not paths:
        raise DataError("no data were given", hint="use --data PATH, or cal_data_dir in the configuration")
    for p in paths:
        if not exists(p):
            raise FileError(f"cannot read data {p}: there is no such file or folder")
    how = recipes(inputs, config, from_config=from_config)
    if config and len(paths) > 1:
        names = input_order(inputs, config)
        if len(names) != len(paths):
            raise DataError(
                f"cal_data_dir has {len(paths)} folders, the model {len(names)} inputs",
                where=str(config.path),
                want="one folder an input",
            )
        return open_folders(paths[0].parent, dict(zip(names, paths, strict=True)), inputs, how)
    p = paths[0]
    if is_folder(p):
        return open_folder(p, inputs, how)
    if p.suffix.lower() in (".npz", ".npy") and is_file(p):
        return NpzSource(p, inputs, how)
    raise DataError(
        f"{p.name} is no data that can be read", where=str(p), want="an .npz, an .npy or a folder of samples"
    )
