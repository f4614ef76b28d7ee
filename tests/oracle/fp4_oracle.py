#!/usr/bin/env python3
"""NVFP4's codes, scales, global scales and decoded values against an implementation in NumPy that is written from the
formulas (kernels/fp4/scale.hpp): number formats by tables of all their numbers, roundings in float64, the transform as
a matrix of signs.
Equal to the bit over all options, for the reference, the processor's kernels and the device's.
usage: fp4_oracle.py FP4_CASES SCRATCH"""
import itertools, pathlib, subprocess, sys

import numpy as np

F = np.float32
RULES = ["none", "mse", "mae", "abs_max", "static_6", "static_4"]
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E4M3 = np.array([(m / 8 if e == 0 else 1 + m / 8) * 2.0 ** (max(e, 1) - 7) for e in range(16) for m in range(8)][:127])
SIGNS = np.array([1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1], F)
SHAPES = [(1, 1), (2, 16), (17, 40), (33, 135), (130, 64), (24, 272)]


def nearest(table, x):
    """Index of the nearest number of a table, of two the even one. x >= 0, float64."""
    above = np.clip(np.searchsorted(table, x), 1, len(table) - 1)
    low, high = x - table[above - 1], table[above] - x
    return np.where((low < high) | ((low == high) & (above % 2 == 1)), above - 1, above)


def philox(seed, counter):
    """Philox4x32-10 of counters [..., 4] as Python's own integers would do it."""
    c = [counter[..., i].astype(np.uint64) for i in range(4)]
    k0, k1, low = seed & 0xFFFFFFFF, seed >> 32, np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), b & low, (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), a & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, -1)


def noise(shape, seed, stream, first_row, first_col):
    """16 random bits a value: half of a word, two words of which a counter has four."""
    row = (np.arange(shape[0]) + first_row)[:, None]
    col = (np.arange(shape[1]) + first_col)[None, :]
    row, col = np.broadcast_arrays(row, col)
    words = philox(seed, np.stack([col // 8, row & 0xFFFFFFFF, row >> 32, np.full_like(row, stream)], -1))
    word = np.take_along_axis(words, (col % 8 // 2)[..., None], -1)[..., 0]
    return (word >> (col % 2 * 16).astype(np.uint64)).astype(np.int64) & 0xFFFF


def transformed(x):
    """Whole tiles of 16 columns times diag(S) H / 4. Sums in float32 pair distances 8, 4, 2, 1, with the quarter after
    two."""
    x = x.copy()
    whole = x.shape[1] // 16 * 16
    t = (x[:, :whole].reshape(-1, 16) * SIGNS).reshape(-1, 2, 2, 2, 2)
    for axis in (1, 2, 3, 4):
        a, b = np.take(t, 0, axis), np.take(t, 1, axis)
        t = np.stack([a + b, a - b], axis)
        if axis == 2:
            t = t * F(0.25)
    x[:, :whole] = t.reshape(x.shape[0], whole)
    return x


def halved(e):
    """The sum over the last axis of 16, halves added."""
    while e.shape[-1] > 1:
        e = e[..., :e.shape[-1] // 2] + e[..., e.shape[-1] // 2:]
    return e[..., 0]


def blocks_of(x, high):
    """[block rows, blocks, high, 16], padded with zeros."""
    rows, cols = -(-x.shape[0] // high), -(-x.shape[1] // 16)
    padded = np.zeros((rows * high, cols * 16), x.dtype)
    padded[:x.shape[0], :x.shape[1]] = x
    return padded.reshape(rows, high, cols, 16).transpose(0, 2, 1, 3)


def flat(blocks, shape):
    rows, cols, high, _ = blocks.shape
    return blocks.transpose(0, 2, 1, 3).reshape(rows * high, cols * 16)[:shape[0], :shape[1]]


def scale_of(rule, amax, encode, stretch):
    """Code, number and multiplier of each block."""
    exact = amax * (encode * F(1 / 6)) if rule == "none" else amax / F(4 if rule == "static_4" else 6) * encode
    code = nearest(E4M3, np.minimum(exact * F(stretch), F(448)).astype(np.float64))
    number = E4M3[code].astype(F)
    with np.errstate(divide="ignore"):
        multiply = np.where(code > 0, F(1) / (number * (F(1) / encode)), F(0))
    return code, number, multiply


def error(rule, x, encode, number, multiply):
    """The error of each block [rows, blocks, high, 16]."""
    q = E2M1[nearest(E2M1, np.abs(x * multiply[..., None, None]).astype(np.float64))].astype(F)
    e = np.abs(q * number[..., None, None] - np.abs(x) * encode)
    if rule == "abs_max":
        return e.max((-1, -2))
    rows = halved(e * e if rule == "mse" else e)
    return rows[..., 0] if rows.shape[-1] == 1 else halved(rows)


def swizzled(scales):
    rows, cols = -(-scales.shape[0] // 128) * 128, -(-scales.shape[1] // 4) * 4
    padded = np.zeros((rows, cols), np.uint8)
    padded[:scales.shape[0], :scales.shape[1]] = scales
    return padded.reshape(rows // 128, 4, 32, cols // 4, 4).transpose(0, 3, 2, 1, 4)


def bfloat16(x):
    """Float32 values rounded to 8 bits of mantissa, to even."""
    bits = np.ascontiguousarray(x, F).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(F)


def quantised(x, rule, square, rht, stochastic, swizzle, seeds):
    shape, high = x.shape, 16 if square else 1
    x = transformed(x) if rht else x
    adaptive = rule in ("mse", "mae", "abs_max")
    target, amax = F({"static_4": 448 * 4}.get(rule, 256 * 6 if adaptive else 448 * 6)), np.abs(x).max()
    with np.errstate(over="ignore"):
        encode = min(target / amax, np.finfo(F).max) if amax > 0 else F(1)
    total = encode
    if encode > 2.0 ** 116:
        x, encode = x * encode, F(1)
    x = blocks_of(x, high)
    block_amax = np.abs(x).max((-1, -2))
    code, number, multiply = scale_of(rule, block_amax, encode, 1)
    if adaptive:
        four = scale_of(rule, block_amax, encode, 1.5)
        better = error(rule, x, encode, *four[1:]) < error(rule, x, encode, number, multiply)
        code, number, multiply = (np.where(better, a, b) for a, b in zip(four, (code, number, multiply)))
    y = np.abs(flat(x * multiply[..., None, None], shape)).astype(np.float64)
    if stochastic:
        below = np.clip(np.searchsorted(E2M1, y, side="right") - 1, 0, 6)
        part = np.minimum((y - E2M1[below]) / (E2M1[below + 1] - E2M1[below]), 1)
        q = below + (np.rint(part * 65536) + noise(shape, *seeds) >= 65536)
    else:
        q = nearest(E2M1, y)
    negative = np.signbit(flat(x, shape))
    nibbles = np.zeros((shape[0], (shape[1] + 1) // 2 * 2), np.uint8)
    nibbles[:, :shape[1]] = q + 8 * negative
    scales = np.repeat(code, high, 0)[:shape[0]].astype(np.uint8)
    by = np.repeat(E4M3[scales].astype(F) / total, 16, 1)[:, :shape[1]]
    decoded = np.where(negative, -E2M1[q], E2M1[q]).astype(F) * by
    return total, nibbles[:, ::2] + nibbles[:, 1::2] * 16, swizzled(scales) if swizzle else scales, decoded


def matrices(shape, rng):
    signs = np.where(rng.random(shape) < 0.5, F(-1), F(1))
    yield "gaussian", rng.standard_normal(shape).astype(F)
    ties = (rng.integers(-24, 25, shape) * 112).astype(F)
    ties[0, 0] = 6 * 448
    yield "ties", ties
    yield "powers", (10.0 ** rng.uniform(-38, 37.5, shape)).astype(F) * signs
    yield "zeros", signs * F(0)
    yield "tiny", (rng.standard_normal(shape) * 1e-38).astype(F)
    yield "subnormal", (rng.standard_normal(shape) * 1e-43).astype(F)


def main(program, scratch):
    scratch = pathlib.Path(scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    rng, lines, cases = np.random.default_rng(19), [], []
    seeds = (0x123456789ABCDEF, 5, 2 ** 33 + 7, 32)
    for shape in SHAPES:
        for index, (name, x) in enumerate(matrices(shape, rng)):
            for number in ("float32", "bfloat16"):
                x = bfloat16(x) if number == "bfloat16" else x
                columns = (index + (number == "float32")) % 2  # each matrix is stored once by rows and once by columns
                path = scratch / f"{shape[0]}x{shape[1]}_{name}_{number}"
                np.ascontiguousarray(x.T if columns else x).tofile(path)
                for options in itertools.product(RULES, *[(False, True)] * 3):
                    options += (options[0] == "none",)
                    # each with all 48 options
                    form = ("reference", "processor", "device")[(len(cases) + len(cases) // 48) % 3]
                    out = scratch / f"out{len(cases)}"
                    flags = [RULES.index(options[0]), *map(int, options[1:]), columns]
                    lines.append(" ".join(map(str, [form, number, *shape, *flags, *seeds, path, out])))
                    cases.append((x, number, options, out, lines[-1]))
    subprocess.run([program], input="\n".join(lines), text=True, check=True)
    for x, number, options, out, line in cases:
        total, codes, scales, decoded = quantised(x, *options, seeds)
        decoded = bfloat16(decoded) if number == "bfloat16" else decoded
        want = [np.array([total], F).tobytes(), codes.astype(np.uint8).tobytes(),
                np.ascontiguousarray(scales).tobytes(), decoded.tobytes()]
        got = out.read_bytes()
        for what, part in zip(("global scale", "codes", "scales", "decoded values"), want):
            if got[:len(part)] != part:
                at = next(i for i, (a, b) in enumerate(zip(got, part)) if a != b)
                sys.exit(f"{what} differ from byte {at} on ({got[at]:#x}, expected {part[at]:#x}): {line}")
            got = got[len(part):]
        if got:
            sys.exit(f"{len(got)} bytes too many: {line}")
        out.unlink()
    print(f"{len(cases)} matrices equal to the bit")


if __name__ == "__main__":
    main(*sys.argv[1:])
