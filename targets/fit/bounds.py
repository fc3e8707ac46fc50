"""Which hardware numbers are free in a fit, the physical range of each, and which follow from others."""

from __future__ import annotations

# name -> (least, greatest); the rates of bayes-e, scaled for the others by their advertised speed
RANGES: dict[str, tuple[float, float]] = {
    "mac_per_cycle_int8": (1400, 5000),  # above the best model seen, up to what the advertised TOPS would need
    "vector_elems_per_cycle": (4, 256),
    "pool_elems_per_cycle": (8, 256),
    "move_bytes_per_cycle": (0.5, 256),
    "sram_bytes_per_cycle": (16, 512),
    "ddr_gb_per_s": (4, 12),  # above what models reach, below the bus
    "load_tiles": (1, 8),
    "instruction_us": (0.05, 8),
    "call_us": (5, 150),
}
CHOICES: dict[str, tuple[float, ...]] = {
    "mac_in_block": (4, 8, 16, 32),
    "mac_out_block": (8, 16, 32),
    "mac_pixel_block": (1, 4, 8, 16, 32),
    "tiles": (1, 2, 4, 8, 16),
}
# name -> (other, times): assumed ratios between units. Softmax and LayerNormalization hardly occur outside two
# families, so a rate of their own would be known from those alone: they pass elements through the vector unit, twice as
# wide inside as its int8. A table has one operand where an element-wise op has two.
TIES: dict[str, tuple[str, float]] = {
    "softmax_elems_per_cycle": ("vector_elems_per_cycle", 0.5),
    "lut_elems_per_cycle": ("vector_elems_per_cycle", 2.0),
}
# how much faster a march is than bayes-e; ranges of rates and sizes grow by it
SPEED = {"bernoulli2": 0.15, "bayes": 3.0, "bayes-e": 1.0, "nash-e": 6.0, "nash-m": 6.0, "nash-p": 6.0}
_FIXED = ("load_tiles", "instruction_us", "call_us")


def ranges_for(march: str) -> dict[str, tuple[float, float]]:
    """The free numbers of a march with their ranges."""
    speed = SPEED[march]
    scaled = {k: (lo * min(speed, 1), hi * max(speed, 1)) for k, (lo, hi) in RANGES.items()}
    return {k: RANGES[k] if k in _FIXED else scaled[k] for k in RANGES}
