"""The one tree of errors that a user may see, and how they are written.

::

    BpucError                exit 1   the model, the data, the configuration or a file is at fault
    ├── ModelError                    the ONNX file
    ├── DataError                     calibration data or the inputs of a run
    ├── ConfigError                   YAML, options, targets
    ├── FileError                     reading or writing a file, a damaged .bpuc
    └── GateError            exit 3   a limit that the user set does not hold

Anything else that reaches the command line is a bug of ours: exit 70.
"""

from __future__ import annotations

from functools import lru_cache


class BpucError(Exception):
    """A fault with all that a user needs to mend it.

    Args:
        message: what is wrong, one sentence, with the ONNX names of tensors and nodes.
        where: node, tensor, or file and line.
        want: what was expected.
        hint: what to do.
    """

    exit_code = 1
    kind = "error"

    def __init__(self, message: str, *, where: str | None = None, want: str | None = None, hint: str | None = None):
        super().__init__(message)
        self.message, self.where, self.want, self.hint = message, where, want, hint

    def render(self) -> str:
        """The message as printed on stderr, one fact a line."""
        lines = [f"error[{self.kind}]: {self.message}"]
        for label, text in (("where", self.where), ("expected", self.want), ("hint", self.hint)):
            if text:
                lines.append(f"  {label}: {text}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


class ModelError(BpucError):
    """The ONNX model is damaged, invalid or holds something bpuc cannot take."""

    kind = "model"


class DataError(BpucError):
    """Calibration data or the inputs of a run do not fit the model."""

    kind = "data"


class ConfigError(BpucError):
    """An option, a YAML key or a target description is wrong."""

    kind = "config"


class UsageError(ConfigError):
    """The command line alone shows it: an option cannot be read, excludes another, or is missing; of any model."""

    exit_code = 2


class FileError(BpucError):
    """A file cannot be read or written, or its content is damaged."""

    kind = "file"


class GateError(BpucError):
    """A limit that the user set (``--fail-on``, ``--max-latency-ms``) does not hold."""

    kind = "gate"
    exit_code = 3


def name_hint(word: str, known: list[str]) -> str:
    """A hint for the name of a tensor, node or op type: the closest ones, else the command that lists them."""
    lists = "`bpuc check MODEL --march M` lists nodes and op types, and with --json - also tensors"
    return did_you_mean(word, known) or lists


def did_you_mean(word: str, known: list[str]) -> str | None:
    """A hint naming the closest known words, or None when nothing is close."""
    return _did_you_mean(word, tuple(dict.fromkeys(known)))


@lru_cache(maxsize=256)  # optional hardware numbers are asked for again and again
def _did_you_mean(word: str, known: tuple[str, ...]) -> str | None:
    import difflib

    close = [k for k in known if k.lower() == word.lower()] or difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    return f"did you mean {', '.join(repr(c) for c in close)}?" if close else None
