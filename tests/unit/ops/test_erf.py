"""The error function against the C library's."""

import math

import numpy as np

from bpuc.ops.erf import erf


def test_as_the_c_library_everywhere() -> None:
    x = np.concatenate([np.linspace(-7, 7, 20001), np.geomspace(1e-300, 1, 500), [0.5, 4.0, 6.0, 1e300]])
    want = np.array([math.erf(v) for v in x])
    assert np.abs(erf(x) - want).max() < 4e-16
    small = np.abs(x) < 1e-3
    np.testing.assert_allclose(erf(x[small]), want[small], rtol=4e-16)


def test_edges_and_shapes() -> None:
    np.testing.assert_array_equal(erf(np.array([np.inf, -np.inf, np.nan, -0.0])), [1, -1, np.nan, 0])
    assert np.signbit(erf(np.array(-0.0)))
    assert erf(np.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert erf(np.array(1.0)).shape == ()
