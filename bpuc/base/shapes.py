"""How the shape of stored data is read as samples, and what may be wrong where it is another than the one wanted."""

from __future__ import annotations

import math

Shape = tuple[int, ...]
# stored axes -> wanted axes of an image, and how it is told
LAYOUTS = (((0, 3, 1, 2), "NHWC", "NCHW"), ((0, 2, 3, 1), "NCHW", "NHWC"))


def samples_in(shape: Shape, one: Shape, at_once: int = 1) -> int | None:
    """How many samples an array holds, told by its axes and never by counting elements; None: it is none of these.

    `one` itself, or `[samples, *one]`; where `one` begins with a batch of 1, the same without that axis; and there,
    where a run takes several samples `at_once`, `[runs, at_once, ...]`.
    """
    forms = (one, one[1:]) if one[:1] == (1,) else (one,)
    if shape in forms:
        return 1
    if shape and shape[1:] in forms:
        return shape[0]
    if at_once > 1 and len(forms) > 1 and shape[1:2] == (at_once,) and shape[2:] in forms:
        return shape[0] * at_once
    return None


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
