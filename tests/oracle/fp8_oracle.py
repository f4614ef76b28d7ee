#!/usr/bin/env python3
"""FP8's codes, scales and decoded values against an implementation in NumPy that is written from the formulas
(kernels/fp8/scale.hpp): number formats by tables of all their numbers, roundings in float64, powers of two by frexp.
Equal to the bit over all options, for the reference, the processor's kernels and the device's.
usage: fp8_oracle.py FP8_CASES SCRATCH"""
import itertools, pathlib, subprocess, sys

import numpy as np

from fp4_oracle import F, bfloat16, matrices, nearest, swizzled

FORMATS, SCALINGS, RULES = ["e4m3", "e5m2"], ["tensor", "row", "square", "mx"], ["exact", "up", "floor"]
BLOCKS = {"tensor": None, "row": (1, 128), "square": (128, 128), "mx": (1, 32)}
SHAPES = [(1, 1), (2, 32), (17, 40), (33, 135), (130, 260), (5, 513)]


def numbers(mantissa, bias, count):
    """The first magnitudes of a format by code."""
    steps = 2 ** mantissa
    return np.array([(c % steps / steps + (c >= steps)) * 2.0 ** (max(c // steps, 1) - bias) for c in range(count)])


TABLES = {"e4m3": numbers(3, 7, 127), "e5m2": numbers(2, 15, 124)}


def block_amax(x, block):
    """The largest magnitude of each block [rows / high, cols / wide], and the same for each value."""
    if block is None:
        block = x.shape
    high, wide = block
    rows, cols = -(-x.shape[0] // high), -(-x.shape[1] // wide)
    padded = np.zeros((rows * high, cols * wide), x.dtype)
    padded[:x.shape[0], :x.shape[1]] = np.abs(x)
    return padded.reshape(rows, high, cols,
                          wide).max((1, 3)), lambda s: np.repeat(np.repeat(s, high, 0), wide, 1)[
                              :x.shape[0], :x.shape[1]]


def scale_of(amax, table, rule, mx):
    """Multiplier and scale of each block in float32, and its exponent."""
    largest = table[-1]
    if rule == "exact" and not mx:
        with np.errstate(divide="ignore", over="ignore"):
            multiply = np.minimum(F(largest) / amax, np.finfo(F).max)
        multiply = np.where(amax > 0, multiply, F(1))
        return multiply, F(1) / multiply, None
    fraction, power = np.frexp(amax.astype(np.float64))  # fraction in [0.5, 1)
    exponent = power - np.frexp(largest)[1]
    if rule != "floor":
        exponent += fraction > np.frexp(largest)[0]
    exponent = np.where(amax > 0, np.maximum(exponent, -127), -127 if mx else 0)
    return np.ldexp(F(1), -exponent), np.ldexp(1.0, exponent).astype(F), (exponent + 127).astype(np.uint8)


def quantised(x, number, form, scaling, rule, swizzle):
    table, mx = TABLES[form], scaling == "mx"
    amax, spread = block_amax(x, BLOCKS[scaling])
    multiply, scale, exponent = scale_of(amax, table, rule, mx)
    with np.errstate(over="ignore"):
        scaled = x * spread(multiply)
    code = nearest(table, np.minimum(np.abs(scaled).astype(np.float64), table[-1]))
    decoded = np.copysign(table[code].astype(F), x) * spread(scale)
    stored = exponent if mx else scale
    return (code + 128
            * np.signbit(x)).astype(np.uint8), swizzled(stored) if swizzle else stored, bfloat16(
                decoded) if number == "bfloat16" else decoded


def roundings(shape, form, rng):
    """Numbers of the format, the middles of two neighbours and the float32 values next to those."""
    table = TABLES[form].astype(F)
    middle = (table[1:] + table[:-1]) / 2
    values = np.concatenate([table, middle, np.nextafter(middle, F(0)), np.nextafter(middle, F(1e9))])
    x = rng.choice(values, shape) * np.where(rng.random(shape) < 0.5, F(-1), F(1))
    x[0, 0] = table[-1]
    return x


def cases(scratch, rng):
    """Input lines, and what each should give."""
    count = 0
    for shape in SHAPES:
        inputs = [(None, name, x) for name, x in matrices(shape, rng)]
        inputs += [(f, f"roundings_{f}", roundings(shape, f, rng)) for f in FORMATS]
        for at, (only, name, x) in enumerate(inputs):
            number = ("float32", "bfloat16")[(at + shape[0]) % 2]
            x = bfloat16(x) if number == "bfloat16" else x
            path = scratch / f"{shape[0]}x{shape[1]}_{name}_{number}"
            x.tofile(path)
            np.ascontiguousarray(x.T).tofile(f"{path}_columns")
            for form, scaling, rule, columns, swizzle in itertools.product(FORMATS, SCALINGS, RULES, (0, 1), (0, 1)):
                if (swizzle and scaling != "mx") or (only and form != only):
                    continue
                kind = ("reference", "processor", "device")[(count + count // 60) % 3]
                out = scratch / f"out{count}"
                flags = [FORMATS.index(form), SCALINGS.index(scaling), RULES.index(rule), swizzle, columns]
                yield " ".join(map(str, [kind, number, *shape, *flags, f"{path}_columns" if columns else path,
                                         out])), (x, number, form, scaling, rule, swizzle), out
                count += 1


def main(program, scratch):
    scratch = pathlib.Path(scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    all_cases = list(cases(scratch, np.random.default_rng(8)))
    subprocess.run([program], input="\n".join(line for line, _, _ in all_cases), text=True, check=True)
    for line, arguments, out in all_cases:
        got = out.read_bytes()
        for what, part in zip(("codes", "scales", "decoded values"), quantised(*arguments)):
            part = np.ascontiguousarray(part).tobytes()
            if got[:len(part)] != part:
                at = next((i for i, (a, b) in enumerate(zip(got, part)) if a != b), len(got))
                sys.exit(f"{what} differ from byte {at} on (expected {part[at]:#x}): {line}")
            got = got[len(part):]
        if got:
            sys.exit(f"{len(got)} bytes too many: {line}")
        out.unlink()
    print(f"{len(all_cases)} matrices equal to the bit")


if __name__ == "__main__":
    main(*sys.argv[1:])
