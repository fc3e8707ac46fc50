"""Which channels share a scale: on graphs in text form, counted by hand."""

from __future__ import annotations

from bpuc.ir import Graph
from bpuc.ir.text import parse_graph
from bpuc.ops.registry import all_defs
from bpuc.passkit.channels import ChannelTies, channel_axes, channel_ties
from bpuc.passkit.scales import quantized_tensors

HEAD = """graph g
  input %x: float32[1,2,4,4]
  const %v: float32[4,2,1,1] = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
  %a: float32[1,4,4,4] = Conv(%x, %v) !BPU name="c" {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
"""


def graph(body: str) -> Graph:
    return parse_graph(HEAD + body, {kind: d.attrs for kind, d in all_defs().items()})


def ties(g: Graph) -> ChannelTies:
    return channel_ties(g, quantized_tensors(g), set())


def sets(t: ChannelTies, g: Graph, name: str) -> int:
    tensor = g.find(name)
    assert tensor is not None
    return len(set(t.roots(tensor).tolist()))


def test_a_table_needs_one_scale_for_its_operand_and_gives_one() -> None:
    g = graph('  %y: float32[1,4,4,4] = Sigmoid(%a) !BPU name="s" {}\n  output %y as "y"\n')
    assert sets(ties(g), g, "a") == 1
    assert sets(ties(g), g, "y") == 1


def test_an_output_takes_a_scale_a_channel() -> None:
    g = graph('  output %a as "a"\n')
    assert sets(ties(g), g, "a") == 4
    assert sets(ties(g), g, "x") == 1


def test_split_and_concat_tie_parts() -> None:
    g = graph("""  %l: float32[1,1,4,4], %r: float32[1,3,4,4] = Split(%a) !BPU name="sp" {axis=1, sizes=(1, 3)}
  %s: float32[1,1,4,4] = Sigmoid(%l) !BPU name="s" {}
  %y: float32[1,4,4,4] = Concat(%r, %s) !BPU name="cat" {axis=1}
  output %y as "y"
""")
    t = ties(g)
    found = {n: t.roots(g.find(n)).tolist() for n in ("a", "r", "s", "y")}  # type: ignore[arg-type]
    assert found["a"][1:] == found["r"] == found["y"][:3]
    # %s comes from a table: one channel in any case, and not that of %a, as the table lies between
    assert found["y"][3:] == found["s"]
    assert found["s"] != found["a"][:1]


def test_the_channel_axis_follows_transpose_and_reshape() -> None:
    g = graph("""  %m: float32[1,4,16] = Reshape(%a) !BPU name="m" {shape=(1, 4, 16)}
  %t: float32[1,16,4] = Transpose(%m) !BPU name="t" {perm=(0, 2, 1)}
  output %t as "t"
""")
    axes = {t.name: a for t, a in channel_axes(g).items()}
    assert axes == {"x": 1, "a": 1, "m": 1, "t": 2}
    assert sets(ties(g), g, "t") == 4


def test_a_shuffle_ties_all() -> None:
    g = graph("""  %m: float32[1,2,2,4,4] = Reshape(%a) !BPU name="m" {shape=(1, 2, 2, 4, 4)}
  output %m as "m"
""")
    assert sets(ties(g), g, "a") == 1


def test_mul_by_a_gate_keeps_the_channels_and_a_square_does_not() -> None:
    gate = graph(
        """  %g: float32[1,4,1,1] = Sigmoid(%p) !BPU name="s" {}
  %y: float32[1,4,4,4] = Mul(%a, %g) !BPU name="mul" {}
  output %y as "y"
""".replace("  %g", '  %p: float32[1,4,1,1] = ReduceMean(%a) !BPU name="gap" {axes=(2, 3)}\n  %g', 1)
    )
    # the mean feeds a table, so its operand, and with it %a, is tied
    assert sets(ties(gate), gate, "a") == 1
    square = graph('  %y: float32[1,4,4,4] = Mul(%a, %a) !BPU name="mul" {}\n  output %y as "y"\n')
    assert sets(ties(square), square, "a") == 1


def test_a_clamp_from_below_other_than_relu_ties() -> None:
    body = '  output %a as "a"\n'
    g = parse_graph(
        (HEAD + body).replace("dilations=(1, 1)}", "dilations=(1, 1), low=-1.0}"),
        {kind: d.attrs for kind, d in all_defs().items()},
    )
    assert sets(ties(g), g, "a") == 1


def test_where_operands_disagree_the_channels_run_along_the_concat() -> None:
    strides = [8.0] * 8 + [16.0] * 8
    g = graph(f"""  const %k: float32[16] = {strides}
  const %o: float32[16] = {[0.0] * 16}
  %m: float32[1,4,16] = Reshape(%a) !BPU name="m" {{shape=(1, 4, 16)}}
  %s: float32[1,4,16] = Sigmoid(%m) !BPU name="s" {{}}
  %b: float32[1,4,16] = Abs(%m) !BPU name="abs" {{}}
  %f: float32[1,64] = Reshape(%b) !BPU name="f" {{shape=(1, 64)}}
  %r: float32[1,4,16] = Reshape(%f) !BPU name="r" {{shape=(1, 4, 16)}}
  %p: float32[1,4,16] = Affine(%r, %k, %o) !BPU name="stride" {{axis=2}}
  %y: float32[1,8,16] = Concat(%p, %s) !BPU name="cat" {{axis=1}}
  %z: float32[1,8,16] = Concat(%p, %p) !BPU name="alike" {{axis=1}}
  output %y as "y"
  output %z as "z"
""")
    axes = {t.name: a for t, a in channel_axes(g).items()}
    assert (axes["p"], axes["s"], axes["y"], axes["z"]) == (2, 1, 1, 2)
    # a scale for the boxes, one for the scores
    assert sets(ties(g), g, "y") == 2
