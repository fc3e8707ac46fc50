"""What may be wrong where the shape of stored data is not the one that is wanted."""

from __future__ import annotations

import math

Shape = tuple[int, ...]
# stored axes -> wanted axes of an image, and how it is told
LAYOUTS = (((0, 3, 1, 2), "NHWC", "NCHW"), ((0, 2, 3, 1), "NCHW", "NHWC"))


def shape_hint(shape: Shape, want: Shape) -> str | None:
    """A guess at the mistake, for data of `shape` where `want`, or [samples, *want], was expected; None without one."""
    rank = len(want)
    if rank == 4 and len(shape) in (3, 4, 5):
        got = (1,) * (4 - len(shape)) + shape[-4:]
        lead = max(len(shape) - 4, 0)
        for axes, stored, wanted in LAYOUTS:
            if tuple(got[a] for a in axes)[1:] == want[1:] and got[1:] != want[1:]:
                order = ", ".join(map(str, (*range(lead), *(a + lead for a in axes))))
                return f"the data look like {stored} and the model wants {wanted}; transpose them by ({order}) first"
    if 0 < rank <= len(shape) and shape[len(shape) - rank + 1 :] == want[1:]:
        batch = shape[len(shape) - rank]
        return f"only the batch differs: {batch} in the data, {want[0]} in the model; store one batch a sample"
    total, size = math.prod(shape), math.prod(want)
    samples_of_another_size = len(shape) == rank + 1 and math.prod(shape[1:]) != size
    if size and total % size == 0 and not samples_of_another_size:
        return "the number of elements would fit, but nothing is reshaped by guess; store the data in the model's shape"
    return None
