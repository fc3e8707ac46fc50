"""What the instructions of a program ask of the BPU, as arrays, and their times for many sets of hardware numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bpuc.isa import Conv, ConvTranspose, Instruction, MatMul
from bpuc.perf.cost import mac_amounts, operand_bytes, rate_name, wide_elements

Vector = npt.NDArray[np.float64]
Numbers = Mapping[str, Vector]  # of each hardware number the values of all candidates
_PER_MAC = ("cin", "cout", "positions", "taps", "group", "int16_operands")
_PER_MAP = ("pictures", "rows", "columns", "pixel_bytes")


class Amounts:
    """The amounts of some instructions of the BPU, an array of one column each."""

    def __init__(self, work: Sequence[Instruction]) -> None:
        self.count = len(work)
        self.bytes = _column([operand_bytes(i) for i in work])
        self.macs = [n for n, i in enumerate(work) if isinstance(i, (Conv, ConvTranspose, MatMul))]
        found = [mac_amounts(i) for i in work if isinstance(i, (Conv, ConvTranspose, MatMul))]
        self.mac = {k: _column([getattr(f, k) for f in found]) for k in _PER_MAC}
        self.maps = [n for n, f in enumerate(found) if f.pictures]
        self.map = {k: _column([getattr(found[n], k) for n in self.maps]) for k in _PER_MAP}
        named = [None if n in set(self.macs) else rate_name(i) for n, i in enumerate(work)]
        self.rates = {r: [n for n, other in enumerate(named) if other == r] for r in dict.fromkeys(named) if r}
        self.elements = _column([0 if r is None else wide_elements(i) for r, i in zip(named, work)])

    def compute_us(self, n: Numbers) -> Vector:
        """`bpuc.perf.cost.compute_us`: a row an instruction, a column a candidate."""
        cycles = np.zeros((self.count, len(n["clock_mhz"])))
        if self.macs:
            cycles[self.macs] = self._mac_cycles(n)
        for name, at in self.rates.items():
            cycles[at] = self.elements[at] / n[name]
        return np.asarray(np.maximum(cycles, self.bytes / n["sram_bytes_per_cycle"]) / n["clock_mhz"])

    def _mac_cycles(self, n: Numbers) -> Vector:
        m = self.mac
        inner = np.minimum(m["cin"], np.maximum(m["cin"] / m["group"], n["mac_out_block"]))
        block = np.where(inner > 4, n["mac_in_block"], 4.0)
        padded = _up(inner, block) * _up(m["cout"], n["mac_out_block"]) * _up(m["positions"], n["mac_pixel_block"])
        cycles = n["mac_int16_factor"] ** m["int16_operands"] * m["taps"] * padded / n["mac_per_cycle_int8"]
        if self.maps:
            k, mac = self.map, cycles[self.maps]
            stored = k["pictures"] * k["pixel_bytes"] / n["store_bytes_per_cycle"]
            blocks = _up(k["rows"], n["map_block_rows"]) * _up(k["columns"], n["map_block_columns"])
            apart = np.maximum(mac, stored * blocks)
            packed = np.maximum(mac, stored * k["rows"] * k["columns"]) + k["pictures"] * n["pack_cycles"]
            cycles[self.maps] = k["pictures"] * n["picture_cycles"] + np.minimum(apart, packed)
        return np.asarray(cycles)


def _column(values: Sequence[float]) -> Vector:
    return np.array(values, float).reshape(-1, 1)


def _up(value: Vector, block: Vector) -> Vector:
    return np.asarray(np.ceil(value / block) * block)
