# SPDX-License-Identifier: Apache-2.0
"""Computes csrc/lower/special_coefficients.h: Chebyshev coefficients of special functions, in 40 digits by mpmath."""

import mpmath as mp

mp.mp.dps = 40
POINTS = 64
SMALL = mp.mpf(10) ** -17
QUARTER = mp.mpf(1) / 4


def coefficients(function, count):
    """Of `function` on [-1, 1], without the last ones that no double sees."""
    angles = [mp.pi * (j + mp.mpf(1) / 2) / POINTS for j in range(POINTS)]
    values = [function(mp.cos(angle)) for angle in angles]
    series = [2 * sum(v * mp.cos(k * a) for v, a in zip(values, angles, strict=True)) / POINTS for k in range(count)]
    series[0] /= 2
    largest = max(abs(c) for c in series)
    while abs(series[-1]) < largest * SMALL:
        series.pop()
    return series


def between(low, high, function):
    """`function` on [low, high] as one on [-1, 1]."""
    return lambda s: function(low + (high - low) * (s + 1) / 2)


def far(edge, function, limit):
    """`function` of x >= edge, in edge / x."""
    return between(0, 1, lambda t: limit if t == 0 else function(edge / t))


def far_squared(edge, function, limit):
    """... in (edge / x)^2."""
    return between(0, 1, lambda z: limit if z < mp.mpf(10) ** -12 else function(edge / mp.sqrt(z)))


def near_squared(edge, function):
    """`function` of x in (0, edge], in (x / edge)^2."""
    return between(mp.mpf(10) ** -25, 1, lambda z: function(edge * mp.sqrt(z)))


def hankel(order, q):
    """P (or x Q) with J = sqrt(2 / (pi x)) (P cos t - Q sin t), Y = ... (P sin t + Q cos t), t = x - (2 order + 1) pi / 4."""

    def factor(x):
        t = x - (2 * order + 1) * mp.pi / 4
        scale = mp.sqrt(mp.pi * x / 2)
        j, y = mp.besselj(order, x) * scale, mp.bessely(order, x) * scale
        return (y * mp.cos(t) - j * mp.sin(t)) * x if q else j * mp.cos(t) + y * mp.sin(t)

    return factor


def zeta(x):
    """The argument of the Airy functions' exponentials: 2/3 x^(3/2)."""
    return 2 * x ** (mp.mpf(3) / 2) / 3


def from_zeta(z):
    """The inverse of zeta."""
    return (3 * z / 2) ** (mp.mpf(2) / 3)


def airy_decay(z):
    """Ai without its exponential decay, as a function of zeta."""
    x = from_zeta(z)
    return 2 * mp.sqrt(mp.pi) * x**QUARTER * mp.exp(z) * mp.airyai(x)


def airy_wave(q):
    """P (or zeta Q) with Ai(-x) = x^-1/4 / sqrt(pi) (P cos t + Q sin t), t = zeta - pi / 4."""

    def factor(z):
        x = from_zeta(z)
        scale, t = mp.sqrt(mp.pi) * x**QUARTER, z - mp.pi / 4
        a, b = mp.airyai(-x) * scale, mp.airybi(-x) * scale
        return (a * mp.sin(t) + b * mp.cos(t)) * z if q else a * mp.cos(t) - b * mp.sin(t)

    return factor


def erfcx_scaled(s):
    """erfcx in the variable that the table uses, which maps the half line to [0, 1]."""
    if s > 1 - mp.mpf(10) ** -15:
        return 2 / mp.sqrt(mp.pi)
    x = mp.mpf(15) / 4 * (1 + s) / (1 - s)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


def ndtri_correction(w):
    """What ndtri adds to its leading terms, as a function of the reciprocal of sqrt(-2 log p)."""
    y = 1 / w
    near = y - mp.log(y) / y
    z = mp.findroot(
        lambda z: mp.log(mp.erfc(z / mp.sqrt(2)) / 2) + y * y / 2,
        (near - 0.9 / y, near - 0.8 / y + 0.01),
        solver="secant",
    )
    return (y - z) * y - mp.log(y)


def i(order, x):
    """The modified Bessel function I."""
    return mp.besseli(order, x)


HALF_PI_ROOT = mp.sqrt(mp.pi / 2)
TABLES = {
    "kI0eSmall": between(0, 8, lambda x: mp.exp(-x) * i(0, x)),
    "kI0eLarge": far(8, lambda x: mp.sqrt(x) * mp.exp(-x) * i(0, x), 1 / mp.sqrt(2 * mp.pi)),
    "kI1eSmall": between(0, 8, lambda x: mp.exp(-x) * i(1, x) / x),
    "kI1eLarge": far(8, lambda x: mp.sqrt(x) * mp.exp(-x) * i(1, x), 1 / mp.sqrt(2 * mp.pi)),
    "kK0Small": near_squared(2, lambda x: mp.besselk(0, x) + mp.log(x / 2) * i(0, x)),
    "kK0Large": far(2, lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(0, x), HALF_PI_ROOT),
    "kK1Small": near_squared(2, lambda x: x * (mp.besselk(1, x) - mp.log(x / 2) * i(1, x))),
    "kK1Large": far(2, lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(1, x), HALF_PI_ROOT),
    "kJ0Small": near_squared(8, lambda x: mp.besselj(0, x)),
    "kJ1Small": near_squared(8, lambda x: mp.besselj(1, x) / x),
    "kY0Small": near_squared(8, lambda x: mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)),
    "kY1Small": near_squared(8, lambda x: (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x),
    "kP0": far_squared(8, hankel(0, False), mp.mpf(1)),
    "kQ0": far_squared(8, hankel(0, True), -mp.mpf(1) / 8),
    "kP1": far_squared(8, hankel(1, False), mp.mpf(1)),
    "kQ1": far_squared(8, hankel(1, True), mp.mpf(3) / 8),
    "kErfcx": erfcx_scaled,
    "kNdtriTail": between(mp.mpf(1) / 40, mp.mpf(1) / 2, ndtri_correction),
    "kAiryMiddle": between(-5, 2, mp.airyai),
    "kAiryPositive": far(zeta(mp.mpf(2)), airy_decay, mp.mpf(1)),
    "kAiryP": far_squared(zeta(mp.mpf(5)), airy_wave(False), mp.mpf(1)),
    "kAiryQ": far_squared(zeta(mp.mpf(5)), airy_wave(True), mp.mpf(5) / 72),
}

if __name__ == "__main__":
    print("// SPDX-License-Identifier: Apache-2.0")
    print(
        "// Chebyshev coefficients of the special functions. Written by tools/chebyshev.py, which says of what and where."
    )
    print("#pragma once\n\nnamespace tpu::lower {\n")
    for name, function in TABLES.items():
        numbers = ", ".join(mp.nstr(c, 18, min_fixed=0, max_fixed=0) for c in coefficients(function, 48))
        print(f"inline constexpr double {name}[] = {{{numbers}}};")
    print("\n}  // namespace tpu::lower")
