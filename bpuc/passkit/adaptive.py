"""Rounding of weights by the error of their products instead of their own.

With H = E[x x'] of the rows x that weights w are multiplied with, the error of the result is (w - q) H (w - q)'.
Weights are rounded one by one; what a rounding adds is taken back by those that are still free. (E. Frantar et al.,
"GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", ICLR 2023, after B. Hassibi and
D. Stork, "Second order derivatives for network pruning", NIPS 1992.)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
# part of the mean of H's diagonal that is added to it: keeps what few rows say about rare directions from mattering
DAMPING = 0.01
_BLOCK = 64
# parts of the largest weight that an output channel's scale may end at; above so many inputs, H counts by its diagonal
CLIPS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5)
_MOST_FULL = 640
_QMAX = 127


def round_weights(w: Floats, steps: Floats, hessian: Floats, damping: float = DAMPING) -> Floats:
    """Integers -127..127 [outputs, inputs] for weights in these steps.

    Args:
        w: [outputs, inputs]. steps: [outputs], or [outputs, 1]. hessian: [inputs, inputs], positive semidefinite.
    """
    scaled = w / steps.reshape(-1, 1)
    size = len(hessian)
    diagonal = np.diag(hessian).copy()
    mean = float(diagonal.mean())
    if not mean > 0:
        return np.asarray(_nearest(scaled))
    # what has most weight in the result is rounded first, while most others are free to take its error back
    order = np.argsort(-diagonal, kind="stable")
    h = hessian[np.ix_(order, order)] + np.eye(size) * damping * mean
    # the upper factor of the inverse: its row i is what the others have to take of an error of weight i
    upper = np.linalg.cholesky(np.linalg.inv(h)).T
    left, out = scaled[:, order].copy(), np.empty_like(scaled)
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        errors = np.empty((len(w), stop - start))
        for i in range(start, stop):
            out[:, i] = _nearest(left[:, i])
            error = (left[:, i] - out[:, i]) / upper[i, i]
            left[:, i:stop] -= np.outer(error, upper[i, i:stop])
            errors[:, i - start] = error
        left[:, stop:] -= errors @ upper[start:stop, stop:]
    back = np.empty_like(out)
    back[:, order] = out
    return back


def clip_steps(w: Floats, steps: Floats, hessian: Floats) -> Floats:
    """The steps [outputs], each smaller where clipping the largest weights costs the result less than finer steps win.

    The error of a row is (w - q) H (w - q)' with the nearest integers q.

    Args:
        As of `round_weights`.
    """
    diagonal = np.diag(hessian)

    def error(trial: Floats) -> Floats:
        d = w - _nearest(w / trial[:, None]) * trial[:, None]
        weighted = d * diagonal if len(hessian) > _MOST_FULL else d @ hessian
        return np.asarray((weighted * d).sum(1))

    plain = best = steps.reshape(-1).copy()
    least = error(plain)
    for part in CLIPS:
        found = error(plain * part)
        best, least = np.where(found < least, plain * part, best), np.minimum(found, least)
    return np.asarray(best)


def _nearest(v: Floats) -> Floats:
    return np.clip(np.floor(v + 0.5), -_QMAX, _QMAX)
