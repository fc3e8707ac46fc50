"""Whether tables of sensitive ops belong to the model and the march."""

from __future__ import annotations

from bpuc.base.errors import ConfigError, name_hint
from bpuc.flow.request import Request
from bpuc.ir import Graph
from bpuc.passkit import PassContext
from bpuc.passkit.qconfig import names_nothing

_SHOWN = 5


def check_tables(request: Request, graph: Graph, sha256: str, ctx: PassContext) -> None:
    """Warn of tables that were measured on another model or for another march.

    Args:
        graph: as it was read. sha256: of the model file.

    Raises:
        ConfigError: a table's rules name ops that the model does not have.
    """
    for table in request.tables:
        other = table.model_sha256 not in (None, sha256)
        rules = [r for r in ctx.options.rules if r.source == table.source]
        missing = [r.match for r in rules if names_nothing(graph, r)]
        if missing:
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            raise ConfigError(
                f"{table.path}: the model has no {', '.join(missing[:_SHOWN])}{more}",
                where=str(request.model),
                want="a table of this model's ops",
                hint=f"the table was measured on another model (sha256 {str(table.model_sha256)[:12]}...)"
                if other
                else name_hint(missing[0], sorted({n for op in graph for n in (op.name, *op.origin)})),
            )
        if other:
            ctx.warn(
                "sensitive-table",
                f"{table.path} was measured on another model (sha256 {str(table.model_sha256)[:12]}...) with ops of "
                "these names; `bpuc sensitivity` on this one may rank them otherwise",
            )
        if ctx.target is not None and table.march not in (None, ctx.target.march):
            ctx.warn("sensitive-table", f"{table.path} was measured for {table.march}, and this is {ctx.target.march}")
