#!/usr/bin/env python3
"""Fits the polynomials and tables of the prelude's vector math and prints them as C.

Each polynomial is minimax in the weighted sense (Lawson's iteration on a dense grid); coefficients are rounded to
f32 one at a time, lowest power first, and the rest fitted again.
"""
import math
import numpy as np


def f32(x):
    return float(np.float32(x))


def minimax(x, target, powers, weight, rounds=60):
    """Coefficients of `powers` that minimise max |weight * (p(x) - target)|."""
    basis = np.stack([x**p for p in powers], axis=1)
    lawson = np.ones_like(x)
    for _ in range(rounds):
        w = np.sqrt(lawson) * weight
        c = np.linalg.lstsq(basis * w[:, None], target * w, rcond=None)[0]
        error = np.abs(weight * (basis @ c - target))
        lawson *= error / error.max() + 1e-3
        lawson /= lawson.max()
    return c


def fit(x, target, powers, weight):
    powers, fixed = list(powers), {}
    rest = target.copy()
    while powers:
        c = minimax(x, rest, powers, weight)
        fixed[powers[0]] = f32(c[0])
        rest = rest - f32(c[0]) * x ** powers[0]
        powers.pop(0)
    return fixed, float(np.max(np.abs(weight * rest)))


def c_float(x):
    return float(x).hex().replace("0000000p", "p").rstrip() + "f" if x else "0"


def print_table(name, values):
    rows = [", ".join(c_float(v) for v in values[i : i + 4]) for i in range(0, len(values), 4)]
    print(f"static const float {name}[{len(values)}] = {{\n    " + ",\n    ".join(rows) + "};\n")


def print_fit(name, fixed, error):
    print(f"/* {name}: weighted error {error:.2g} */")
    print("  " + ", ".join(f"{p}: {c_float(c)}" for p, c in sorted(fixed.items())) + "\n")


def grid(low, high, count=4001):
    k = np.arange(count)
    return (low + high) / 2 - (high - low) / 2 * np.cos(math.pi * (k + 0.5) / count)


def exponentials():
    print_table("exp2_table", [2.0 ** (i / 32) for i in range(32)])
    r = grid(-math.log(2) / 64, math.log(2) / 64)
    print_fit("exp(r) - 1, r = +-ln2/64", *fit(r, np.expm1(r), [1, 2], np.ones_like(r)))
    r = grid(-1 / 64, 1 / 64)
    print_fit("2^r - 1, r = +-1/64", *fit(r, np.expm1(r * math.log(2)), [1, 2], np.ones_like(r)))
    r = grid(-math.log(2) / 2, math.log(2) / 2)
    print_fit("exp(r) = 1 + r + r^2 p, r = +-ln2/2",
              *fit(r, np.exp(r) - 1 - r, [2, 3, 4, 5, 6], np.exp(-r)))
    print_fit("exp(r) = 1 + r + r^2 p, r = +-ln2/2, shorter",
              *fit(r, np.exp(r) - 1 - r, [2, 3, 4, 5], np.exp(-r)))
    r = grid(-0.5, 0.5)
    y = np.exp(r * math.log(2))
    print_fit("2^r, r = +-1/2", *fit(r, y - 1, [1, 2, 3, 4, 5, 6], 1 / y))
    r = grid(0, 1)
    for powers in ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5]):  # what is rounded adds up towards 1
        print_fit("2^r, r = 0 .. 1", *fit(r, np.expm1(r * math.log(2)), powers, 1 + r))


def accurate_cell(low, high, target, shift):
    """An f32 near 1/m whose log, plus `shift`, is as good as an f32."""
    middle = np.float32(2 / (low + high))
    best = None
    c = middle
    candidates = [middle]
    up = down = middle
    for _ in range(3000):
        up, down = np.nextafter(up, np.float32(9)), np.nextafter(down, np.float32(0))
        candidates += [up, down]
    for c in candidates:
        value = target(float(c)) + shift
        error = abs(value - f32(value))
        if best is None or error < best[0]:
            best = (error, float(c), f32(value))
    return best


def logarithms():
    """32 cells of the mantissa in [1, 2): 1/m and log m. The last ones must cancel exactly against -1 * ln2."""
    ln2_error = f32(math.log(2)) - math.log(2)
    for name, target, unit, shift in (("log", lambda c: -math.log(c), f32(math.log(2)), ln2_error),
                                      ("log2", lambda c: -math.log2(c), 1.0, 0.0)):
        inverse, value = [], []
        for i in range(32):
            low, high = 1 + i / 32, 1 + (i + 1) / 32
            if i == 0:
                inverse.append(1.0), value.append(0.0)
            elif i == 31:
                inverse.append(0.5), value.append(unit)
            else:
                _, c, v = accurate_cell(low, high, target, shift if i >= 16 else 0)
                inverse.append(c), value.append(v)
        if name == "log":
            print_table("log_inverse", inverse)
            logs = inverse
        else:
            print_table("log2_inverse", inverse)
        print_table(name + "_table", value)
    for name, scale in (("log", 1), ("log2", 1 / math.log(2))):
        r = grid(-1 / 64 - 1e-4, 1 / 32, 4000)
        target = np.log1p(r) * scale
        print_fit(name + "(1 + r), r = -1/64 .. 1/32", *fit(r, target, [1, 2, 3, 4], 1 / np.abs(target)))
        r = grid(math.sqrt(0.5) - 1 - 1e-3, math.sqrt(2) - 1 + 1e-3, 4000)
        target = np.log1p(r) * scale
        w = 1 / np.abs(target)
        print_fit(name + "(1 + r) = r - r^2/2 + r^3 p" if scale == 1 else name + "(1 + r)",
                  *(fit(r, target - r + r * r / 2, range(3, 11), w) if scale == 1 else
                    fit(r, target, range(1, 11), w)))


def lucky_width(function, edge, degree, less):
    """A width near edge/31 for which rounding the coefficients about the first point, where they weigh most, costs
    little."""
    best = None
    for k in range(60):
        width = f32(edge / 31 * (1 + k * 2e-5))
        x = grid(width / 2, width * 1.5, 300)
        target = np.array([function(v) for v in x])
        error = fit(x - width, target - less * (x - width), range(degree + 1), 1 / target)[1]
        if best is None or error < best[0]:
            best = (error, width)
    return best[1]


def cells(name, function, edge, degree, less):
    """Polynomials of f(x) - less * r about 0, w, .. 31 w: one table a power. Relative to the function, exact at 0."""
    width = lucky_width(function, edge, degree, less)
    tables = [[] for _ in range(degree + 1)]
    worst = 0
    for i in range(32):
        low, high = max(i - 0.5, 0) * width, min(i + 0.5, 31.001) * width
        x = grid(max(low, 1e-4), high, 1500)
        target = np.array([function(v) for v in x])
        r = x - i * width
        if i == 0:
            first = 1 if less else 2  # tanh begins with r itself
            fixed, error = fit(r, target - r, range(first, degree + 1), 1 / target)
            fixed[0], fixed[1] = 0.0, fixed.get(1, 1.0)
        elif i == 31:
            fixed, error = {p: 0.0 for p in range(degree + 1)}, 0
            fixed[0], fixed[1] = 1.0, -float(less)
        else:
            fixed, error = fit(r, target - less * r, range(degree + 1), 1 / target)
        worst = max(worst, error)
        for p in range(degree + 1):
            tables[p].append(fixed[p])
    print(f"/* {name}: width {c_float(width)}, inverse {c_float(f32(1 / width))}, error {worst:.2g} = {worst * 2**24:.2f} half ulp */")
    for p in range(degree + 1):
        print_table(f"{name}_{p}", tables[p])


def tails(name, function, degree):
    """Q(a) = 1 - F(a) of gelu(x) = relu(x) - |x| Q(|x|), by polynomials about 0, 1/4, .. 30/4: one table a power. The
    last is 0. Judged absolutely where Q counts, relatively further out."""
    tables = [[] for _ in range(degree + 1)]
    worst = 0
    for i in range(32):
        x = grid(max(i - 0.5, 0) / 4, (i + 0.5) / 4, 1500)
        target = np.array([function(v) for v in x])
        fixed, error = {p: 0.0 for p in range(degree + 1)}, 0
        if i < 31:
            fixed, error = fit(x - i / 4, target, range(degree + 1), 1 / (target + 0.05 / (1 + i * i)))
            error = float(np.max(np.abs(sum(fixed[p] * (x - i / 4) ** p for p in fixed) - target)))
        worst = max(worst, error)
        for p in range(degree + 1):
            tables[p].append(fixed[p])
    print(f"/* {name}: error {worst:.2g} = {worst * 2**25:.2f} half ulp of 1/2 */")
    for p in range(degree + 1):
        print_table(f"{name}_{p}", tables[p])


def normal_tail(a):
    return 0.5 * math.erfc(a * math.sqrt(0.5))


def tanh_tail(a):
    return 1 / (1 + math.exp(2 * math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))


def plain_forms():
    x = grid(1e-3, 0.63, 2000)
    print_fit("tanh(x)/x - 1 in x^2, below 0.625",
              *fit(x * x, np.tanh(x) / x - 1, range(1, 6), x / np.tanh(x)))
    erf = np.vectorize(math.erf)
    x = grid(1e-3, 1.0, 2000)
    print_fit("erf(x)/x - 1 in x^2, below 1", *fit(x * x, erf(x) / x - 1, range(0, 8), x / erf(x)))
    x = grid(0.98, 3.95, 3000)
    log_erfc = np.array([math.log(math.erfc(v)) for v in x])
    weight = np.array([math.erfc(v) / math.erf(v) for v in x])
    print_fit("log erfc(x), 1 .. 3.95", *fit(x, log_erfc, range(0, 10), weight))
    print_fit("log2 erfc(x), 1 .. 3.95", *fit(x, log_erfc / math.log(2), range(0, 7), weight * math.log(2)))
    x = grid(1e-3, math.pi / 4 + 1e-3, 2000)
    print_fit("(sin(x) - x)/x^3 in x^2", *fit(x * x, (np.sin(x) - x) / x**3, range(0, 4), x**3 / np.sin(x)))
    print_fit("(cos(x) - 1 + x^2/2)/x^4 in x^2",
              *fit(x * x, (np.cos(x) - 1 + x * x / 2) / x**4, range(0, 3), x**4 / np.cos(x)))


def normal_odds():
    """log2((1 - F)/F) / x of the normal distribution in x^2. An error of it times x F (1 - F) log 2 is that of F; far
    out, where that is nothing, it is the relative error of 1 - F and may be 5e-4."""
    x = grid(1e-2, 5, 3000)
    tail = np.array([normal_tail(v) for v in x])
    odds = np.array([math.log2(normal_tail(v) / normal_tail(-v)) for v in x])
    weight = x * math.log(2) * np.maximum(tail * (1 - tail), 3e-8 / 5e-4)
    print_fit("log2 of the odds of a normal tail / x in x^2", *fit(x * x, odds / x, range(0, 9), weight))


if __name__ == "__main__":
    exponentials()
    logarithms()
    cells("tanh", math.tanh, 8.81, 5, 0)
    cells("erf", math.erf, 3.9, 5, 1)
    tails("gelu_tail", normal_tail, 4)
    tails("gelu_tanh_tail", tanh_tail, 4)
    plain_forms()
    normal_odds()
