"""Counter-based random numbers: draw ``i`` of a stream is a pure function of (key, i).

No state is carried from one draw to the next, so any split of the indices over threads gives the same bits.
The generator is splitmix64 (Steele, Lea, Flood, OOPSLA 2014) evaluated at an index instead of stepped.
"""

import math

import numpy as np

from engine.kernels.jit import body_of, kernel

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_GOLDEN_U64 = np.uint64(_GOLDEN)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S12 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(12)
_SCALE = 2.0**-52  # 52 random bits plus a half: exact, and never 0 or 1


@kernel
def mix(z):
    """Finaliser of splitmix64: a bijection of 64 bits. [-]"""
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@kernel
def uniform(key, index):
    """Draw ``index`` of the stream ``key``, uniform on the open interval (0, 1). [-]"""
    z = mix(key + np.uint64(index + 1) * _GOLDEN_U64)
    return (np.float64(np.int64(z >> _S12)) + 0.5) * _SCALE


def stream_key(seed: int, stream: int, replication: int = 0) -> np.uint64:
    """Key of an independent stream: one per (seed, purpose, replication). [-]"""
    key = np.zeros(1, np.uint64)  # numbers of an array wrap in silence
    for part in (seed, stream, replication):
        key = body_of(mix)(key + np.uint64((part + 1) * _GOLDEN & _MASK))
    return key[0]


@kernel
def gamma_at(key, index, shape):
    """Draw ``index`` of a gamma variate of the given shape and unit scale [-].

    Marsaglia and Tsang, ACM TOMS 26(3), 2000: rejection, each draw with a sub-stream of its own. Shapes below one
    are raised by one and scaled by u^(1/shape).
    """
    stream = mix(key ^ (np.uint64(index + 1) * _GOLDEN_U64))
    boost = 1.0
    if shape < 1.0:
        boost = uniform(stream, 0) ** (1.0 / shape)
        shape = shape + 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    j = 1
    while True:
        u1, u2, u3 = uniform(stream, j), uniform(stream, j + 1), uniform(stream, j + 2)
        j += 3
        x = math.sqrt(-2.0 * math.log(u1)) * math.cos(2.0 * math.pi * u2)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        if math.log(u3) < 0.5 * x * x + d - d * v + d * math.log(v):
            return boost * d * v


_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@kernel
def fill_exponential(key, first, out):
    """Unit-mean exponential draws first .. first + len(out) - 1. [-]

    -log(u), the logarithm written out so that the loop is vectorised: the reduction and the polynomial of fdlibm's
    e_log.c (Sun, 1993), within 1 ulp. No library is called, hence the same bits on every host.
    """
    bits = out.view(np.int64)
    for i in range(out.shape[0]):
        out[i] = uniform(key, first + i)
    for i in range(out.shape[0]):
        exponent = (bits[i] - _SQRT_HALF_BITS) >> 52
        bits[i] -= exponent << 52  # now the mantissa, in [sqrt(1/2), sqrt(2))
        f = out[i] - 1.0
        s = f / (2.0 + f)
        z = s * s
        w = z * z
        even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
        odd = z * (
            6.666666666666735130e-01
            + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
        )
        half = 0.5 * f * f
        k = np.float64(exponent)
        out[i] = ((half - (s * (half + odd + even) + k * _LN2_LOW)) - f) - k * _LN2_HIGH


@kernel
def fill_gamma(key, shape, out):
    """Unit-mean gamma draws of coefficient of variation shape^-1/2. [-]"""
    for i in range(out.shape[0]):
        out[i] = gamma_at(key, i, shape) / shape


@kernel
def fill_lognormal(key, mu, sigma, low, high, out):
    """Integer draws exp(N(mu, sigma^2)), rounded and clipped to [low, high]. [items]"""
    for i in range(out.shape[0]):
        radius = math.sqrt(-2.0 * math.log(uniform(key, 2 * i)))
        x = math.exp(mu + sigma * radius * math.cos(2.0 * math.pi * uniform(key, 2 * i + 1)))
        out[i] = np.int64(min(max(math.floor(x + 0.5), low), high))


@kernel
def fill_categorical(key, cumulative, values, out):
    """Draws of ``values[k]`` with probability cumulative[k] - cumulative[k-1]. [items]"""
    last = values.shape[0] - 1
    for i in range(out.shape[0]):
        u = uniform(key, i)
        lo, hi = 0, last
        while lo < hi:
            mid = (lo + hi) // 2
            if u < cumulative[mid]:
                hi = mid
            else:
                lo = mid + 1
        out[i] = values[lo]
