"""Builds the models of this folder: ``python -m models.build`` from the top folder, or with some of their names."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from models import add_fixed, digits_inception, hybrid, kv_concat, ln_mlp

BUILDERS: dict[str, Callable[[Path], None]] = {
    "digits_inception": digits_inception.build,
    "kv_concat": kv_concat.build,
    "hybrid": hybrid.build,
    "add_fixed": add_fixed.build,
    "ln_mlp": ln_mlp.build,
}


def main() -> None:
    """Build what was named, or all, into `--out` (this folder by default)."""
    parser = argparse.ArgumentParser(
        description="Build the project's own models. Training the digits takes a minute or two."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BUILDERS)}; all when left out")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write into")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BUILDERS]
    if unknown:
        parser.error(f"no model {unknown[0]!r}; there are {', '.join(BUILDERS)}")
    for name in options.names or BUILDERS:
        BUILDERS[name](options.out)
        print(f"{name}: written to {options.out}")


if __name__ == "__main__":
    main()
