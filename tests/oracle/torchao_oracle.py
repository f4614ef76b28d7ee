#!/usr/bin/env python3
"""NVFP4 (scale rule static_6), MXFP8 (rules up and floor) and FP8 by one scale against torchao and the casts of torch.
Codes and scales are equal to the bit where both follow the same formula:
  NVFP4: torchao multiplies by the inverse global scale in another order, so the largest magnitude is 6 * 448 times a
  power of two, for which
         all orders are exact. It also limits block scales to 2^-6 or more.
  MXFP8: torchao divides by 1 where a block's exponent is 0, so no block is that small.
It needs torch and torchao: those of the Python that KINORA_ORACLE_PYTHON names, if it is set.
usage: torchao_oracle.py FP4_CASES FP8_CASES SCRATCH"""
import os, pathlib, subprocess, sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from skips import skip

FP4, FP8, SCRATCH = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
if python := os.environ.pop("KINORA_ORACLE_PYTHON", None):
    os.execv(python, [python, *sys.argv])
try:
    import torch
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale
except ImportError as error:
    skip("torchao_oracle", f"torchao is not installed ({error})")
    sys.exit(0)

SHAPE = (96, 512)
FORMATS = {"e4m3": (torch.float8_e4m3fn, 448.0), "e5m2": (torch.float8_e5m2, 57344.0)}
SCALINGS, RULES = ["tensor", "row", "square", "mx"], ["exact", "up", "floor"]


def run(program, line, x):
    """The bytes that the program writes for a matrix."""
    path, out = SCRATCH / "x", SCRATCH / "out"
    x.astype(np.float32).tofile(path)
    subprocess.run([program], input=f"{line} {path} {out}\n", text=True, check=True)
    return out.read_bytes()


def expect_equal(what, got, want):
    want = want.contiguous().view(torch.uint8).numpy().reshape(-1)
    got = np.frombuffer(got, np.uint8, want.size)
    if not np.array_equal(got, want):
        at = int(np.flatnonzero(got != want)[0])
        sys.exit(
            f"{what}: {np.count_nonzero(got != want)} of {want.size} bytes differ, the first at {at}: {got[at]:#x}, "
            f"expected {want[at]:#x}")


def nvfp4(rng, number):
    dtype = getattr(torch, number)
    for power in (-20, 0, 9):
        x = torch.from_numpy(rng.standard_normal(SHAPE).astype(np.float32)).to(dtype).float()
        x = (x.clamp(-3, 3) * 2.0 ** (power + 9)).to(dtype)
        x[5, 7] = 2688 * 2.0 ** power
        x[9] = 0.75 * 2.0 ** (power + 7) * torch.from_numpy(rng.integers(-8, 9, SHAPE[1]))  # ties
        scales, codes = nvfp4_quantize(x, per_tensor_scale=per_tensor_amax_to_scale(x.float().abs().max()))
        assert scales.float().min() > 2.0 ** -6
        got = run(FP4, f"{FORM} {number} {SHAPE[0]} {SHAPE[1]} 4 0 0 0 0 0 0 0 0 0", x.float().numpy())
        expect_equal(f"NVFP4 {number}: codes", got[4:], codes)
        expect_equal(f"NVFP4 {number}: scales", got[4 + codes.numel():], scales)


def quantise(number, form, scaling, rule, x):
    flags = f"{list(FORMATS).index(form)} {SCALINGS.index(scaling)} {RULES.index(rule)} 0 0"
    return run(FP8, f"{FORM} {number} {SHAPE[0]} {SHAPE[1]} {flags}", x.float().numpy())


def mxfp8(rng, number, form):
    dtype = FORMATS[form][0]
    x = rng.standard_normal(SHAPE) * 10.0 ** rng.uniform(-30, 30, (SHAPE[0], 1)) * 10.0 ** rng.uniform(-3, 3, SHAPE)
    x = torch.from_numpy(x.astype(np.float32)).to(getattr(torch, number))
    for rule, mode in (("up", ScaleCalculationMode.RCEIL), ("floor", ScaleCalculationMode.FLOOR)):
        scales, codes = to_mx(x, dtype, 32, mode)
        got = quantise(number, form, "mx", rule, x)
        expect_equal(f"MXFP8 {form} {rule} {number}: codes", got, codes)
        expect_equal(f"MXFP8 {form} {rule} {number}: scales", got[x.numel():], scales)


def casts(rng, number, form):
    """One scale, whose multiplier is 1 since the largest magnitude is the format's: codes are torch's cast."""
    dtype, largest = FORMATS[form]
    x = rng.standard_normal(SHAPE) * 10.0 ** rng.uniform(-9, 1, SHAPE)
    numbers = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    numbers = numbers[numbers.isfinite()].sort().values.numpy()
    middles = (numbers[1:] + numbers[:-1]) / 2
    x[:40] = rng.choice(np.concatenate([numbers, middles, np.nextafter(middles, 0), np.nextafter(middles, 1e9)]),
                        (40, SHAPE[1]))
    x = torch.from_numpy(x.astype(np.float32)).clamp(-largest, largest).to(getattr(torch, number))
    x[0, 0] = largest
    got = quantise(number, form, "tensor", "exact", x)
    expect_equal(f"{form} {number}: codes", got, x.float().to(dtype))
    decoded = x.float().to(dtype).float().to(getattr(torch, number)).float()
    expect_equal(f"{form} {number}: decoded values", got[x.numel() + 4:], decoded)


SCRATCH.mkdir(parents=True, exist_ok=True)
for FORM in ("reference", "processor", "device"):
    for number in ("float32", "bfloat16"):
        rng = np.random.default_rng(11)
        nvfp4(rng, number)
        for form in FORMATS:
            mxfp8(rng, number, form)
            casts(rng, number, form)
print("NVFP4, MXFP8 and FP8 equal torchao's and torch's to the bit")
