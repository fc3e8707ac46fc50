"""The hardware numbers that the latency model needs, typed; their values and origins are in target.toml."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields
from typing import Protocol

from bpuc.base.errors import ConfigError


class HardwareSource(Protocol):
    """What the model asks of a `bpuc.target.Target`."""

    @property
    def march(self) -> str: ...

    def hw(self, name: str) -> float: ...


@dataclass(frozen=True)
class Hardware:
    """One march as the model sees it. Names are the keys of ``[hardware]``; rates are for int8.

    Compute:
        clock_mhz, cores: clock of the BPU and cores that share the frames of a stream.
        mac_per_cycle_int8: multiply-accumulates a cycle where every channel block is full.
        mac_in_block, mac_out_block, mac_pixel_block: input channels, output channels and output positions are
            rounded up to these before they are counted.
        mac_int16_factor: how much longer the array takes for each operand that is int16.
        vector_elems_per_cycle, lut_elems_per_cycle, pool_elems_per_cycle,
        softmax_elems_per_cycle: results a cycle (a pool: taps; Softmax and Norm: visits).
        move_bytes_per_cycle: copies of any kind, and rescales, which are copies with a gain.
        sram_bytes_per_cycle: operands of an instruction pass between on-chip memory and an engine at this rate.
        store_bytes_per_cycle, map_block_rows, map_block_columns, pack_cycles, picture_cycles: of convolutions over
            several small pictures (`bpuc.target.timing.map_cycles`); may be left out, and then cost nothing.
    Memory:
        ddr_gb_per_s, sram_bytes: usable bandwidth and on-chip memory for activations.
        spill_slope: a value goes through DDR whole when live values need 1 + spill_slope times sram_bytes.
        constant_buffer_bytes: on-chip memory for the constants of the running op and of those ahead.
        channel_align, channel_block: channels are stored in channel_block * n + {0, align, 2 align, 4 align...} bytes.
    Overlap:
        tiles: parts in which an op hands its result on to the next engine once it has started up, and stores it.
        load_tiles: parts in which its operands arrive from DDR; the last one's share of the work is left then.
        prefetch_ops: how many ops ahead constants are loaded at most.
    Overhead:
        instruction_us: start and end of an instruction. call_us: what a BPU call costs the core.
        submit_us: what it costs the host.
    Host CPU:
        cpu_cores, cpu_node_overhead_us, cpu_quantize_ns_per_elem, cpu_dequantize_ns_per_elem,
        cpu_gflops, cpu_gb_per_s: of one core.
    """

    clock_mhz: float
    cores: float
    mac_per_cycle_int8: float
    mac_in_block: float
    mac_out_block: float
    mac_pixel_block: float
    mac_int16_factor: float
    vector_elems_per_cycle: float
    lut_elems_per_cycle: float
    pool_elems_per_cycle: float
    softmax_elems_per_cycle: float
    move_bytes_per_cycle: float
    sram_bytes_per_cycle: float
    ddr_gb_per_s: float
    sram_bytes: float
    channel_align: float
    channel_block: float
    spill_slope: float
    constant_buffer_bytes: float
    tiles: float
    load_tiles: float
    prefetch_ops: float
    instruction_us: float
    call_us: float
    submit_us: float
    cpu_cores: float
    cpu_node_overhead_us: float
    cpu_quantize_ns_per_elem: float
    cpu_dequantize_ns_per_elem: float
    cpu_gflops: float
    cpu_gb_per_s: float
    store_bytes_per_cycle: float = math.inf
    map_block_rows: float = 1.0
    map_block_columns: float = 1.0
    pack_cycles: float = 0.0
    picture_cycles: float = 0.0

    @classmethod
    def of(cls, target: HardwareSource) -> Hardware:
        """The numbers of a target.

        Raises:
            ConfigError: a number is missing, or cannot be (`wanted`).
        """
        values = {f.name: float(target.hw(f.name)) for f in fields(cls) if f.default is MISSING or _has(target, f.name)}
        for name, value in values.items():
            want = wanted(name, value)
            if want:
                raise ConfigError(f"target {target.march}: hardware number {name} is {value:g}", want=want)
        return cls(**values)

    @property
    def cycles_per_us(self) -> float:
        """Cycles in a microsecond: the clock in MHz."""
        return self.clock_mhz

    def ddr_us(self, nbytes: float) -> float:
        """Time on the DDR bus."""
        return nbytes / (self.ddr_gb_per_s * 1e3)


def wanted(name: str, value: float) -> str:
    """What a hardware number has to be, where it is not; else empty."""
    fits = value > 0 or (value == 0 and name in _MAY_BE_ZERO)
    if fits and (name not in _WHOLE or value.is_integer()):
        return ""
    kind, low = "whole number" if name in _WHOLE else "number", "0 or more" if name in _MAY_BE_ZERO else "above 0"
    return f"a {kind} {low}"


def _has(target: HardwareSource, name: str) -> bool:
    try:
        target.hw(name)
    except ConfigError:
        return False
    return True


_MAY_BE_ZERO = (
    "sram_bytes", "prefetch_ops", "instruction_us", "call_us", "submit_us", "cpu_node_overhead_us", "pack_cycles",
    "picture_cycles",
)  # fmt: skip
# what comes in pieces
_WHOLE = (
    "cores", "cpu_cores", "sram_bytes", "constant_buffer_bytes", "channel_align", "channel_block", "mac_in_block",
    "mac_out_block", "mac_pixel_block", "map_block_rows", "map_block_columns", "prefetch_ops",
)  # fmt: skip
