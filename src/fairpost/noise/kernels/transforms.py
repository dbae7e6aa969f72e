"""From random words to uniform, exponential and normal variables, in arithmetic that vectorises.

A library's logarithm, sine and cosine are calls, and a loop with a call in it runs one draw at a time; the
ones here are a few lines without a branch. No step may be reordered or fused (no `fastmath`): a vector lane,
the remainder of a loop and a single draw then give the same bits, on every processor. All are inlined; the
division in `neg_log` needs `error_model="numpy"` in the kernel that calls it (a check for zero is a branch).

Uniform variables have 63 bits: u = (k + 1/2) 2^-63 with k = 0 .. 2^63 - 1, rounded to a double.
"""

from typing import Any

import numpy as np

from fairpost.compiled import kernel

_ONE, _TWO = np.uint64(1), np.uint64(2)
_SIGN = np.uint64(63)

# -log x = -e log 2 - log m with x = 2^e m and sqrt(1/2) <= m < sqrt 2. With q = (m - 1) / (m + 1),
# log m = 2 artanh q = 2 q + q z P(z), z = q^2 <= 0.0295; P is the minimax polynomial of degree 6 and leaves
# a relative error of 2^-57 in log m. log 2 is split so that e times its upper part is exact.
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)
_RAISE = np.uint64(0x3FF0000000000000) - _ROOT_HALF  # carries into the exponent where m would be >= sqrt 2
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_EXPONENT = np.uint64(52)
_LOG2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
_LOG2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_LOG = (
    0.666666666666667,
    0.39999999999898506,
    0.28571428626372397,
    0.2222221107712738,
    0.1818289290884391,
    0.153316072416309,
    0.14617745505134075,
)

# sin(pi t / 2) = t S(t^2) and cos(pi t / 2) = C(t^2) for |t| <= 1/2; minimax polynomials of degree 6 that
# leave errors of 2^-57 and 2^-54.
_SIN = (
    1.5707963267948966,
    -0.6459640975062443,
    0.07969262624604308,
    -0.0046817541323423235,
    0.00016044115075243396,
    -3.5986433889448568e-06,
    5.633938525660825e-08,
)
_COS = (
    1.0,
    -1.2337005501361513,
    0.2536695078998656,
    -0.020863480734961075,
    0.0009192599501521089,
    -2.5200135652635974e-05,
    4.655301316926533e-07,
)


@kernel(inline="always", error_model="numpy")
def neg_log(x: Any) -> Any:
    """-log x for a normal double x > 0, to 2 units in the last place."""
    raised = np.float64(x).view(np.uint64) + _RAISE
    e = np.float64(np.int64(1023) - np.int64(raised >> _EXPONENT))
    f = np.uint64((raised & _MANTISSA) + _ROOT_HALF).view(np.float64) - 1.0
    q = f / (2.0 + f)
    z = q * q
    zz = z * z
    top = (_LOG[4] + z * _LOG[5]) + zz * _LOG[6]
    p = (_LOG[0] + z * _LOG[1]) + zz * ((_LOG[2] + z * _LOG[3]) + zz * top)
    return e * _LOG2_HIGH + ((e * _LOG2_LOW - q * (z * p)) - (q + q))


@kernel(inline="always")
def uniform(w: Any) -> Any:
    """The variable u in (0, 1] from the upper 63 bits of the word w."""
    return (np.float64(np.int64(w >> _ONE)) + 0.5) * 2.0**-63


@kernel(inline="always")
def signed(x: Any, w: Any) -> Any:
    """A number x >= 0 with the lowest bit of the word w as its sign."""
    return np.uint64(np.float64(x).view(np.uint64) | (w << _SIGN)).view(np.float64)


@kernel(inline="always", error_model="numpy")
def normal_pair(w0: Any, w1: Any) -> Any:
    """Two independent standard normal variables from two words (Box and Muller 1958).

    The radius is sqrt(-2 log u) with u from w0. The upper 62 bits of w1 give an angle in [-pi/4, pi/4],
    symmetric about 0; its two lowest bits say whether the cosine changes sign and whether cosine and sine
    change places, which makes the full circle. The relative error is below 2^-50.
    """
    radius = np.sqrt(2.0 * neg_log(uniform(w0)))
    t = (np.float64(np.uint64(w1).view(np.int64) >> 2) + 0.5) * 2.0**-62
    y = t * t
    s, c = _SIN[6], _COS[6]
    for k in (5, 4, 3, 2, 1, 0):
        s = s * y + _SIN[k]
        c = c * y + _COS[k]
    sine, cosine = radius * (s * t), signed(radius * c, w1)
    return (sine, cosine) if (w1 & _TWO) != 0 else (cosine, sine)
