#!/usr/bin/env python3
"""`kinora apply precision/nvfp4` against NumPy: codes and scales of quantize to the bit, a linear layer and its gradients to 1e-6.
NVFP4 itself is that of fp4_oracle.py; the recipe of a layer and the key of its noise are written here from docs/precision.md.
usage: nvfp4_oracle.py KINORA SCRATCH"""
import itertools, pathlib, subprocess, sys

import numpy as np
import safetensors.numpy

from fp4_oracle import quantised

KINORA, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
M, K, N, SEED = 37, 72, 40, 5


def apply(method, tensors, code=0, **options):
    """The tensors that the program gives; or with a code, what it says on stderr."""
    given, made = SCRATCH / "in.safetensors", SCRATCH / "out.safetensors"
    safetensors.numpy.save_file(tensors, given)
    sets = [f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in options.items()]
    done = subprocess.run([KINORA, "apply", "precision/nvfp4", "--method", method, "--inputs", given, "--out", made,
                           *(x for s in sets for x in ("--set", s))], capture_output=True, text=True)
    assert done.returncode == code, (options, done)
    return safetensors.numpy.load_file(made) if code == 0 else done.stderr


def key_of(seed, name):
    """SplitMix64's finaliser over the seed and the FNV-1a hash of a name."""
    mask = 2 ** 64 - 1

    def mix(z):
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        return z ^ (z >> 31)
    fnv = 0xCBF29CE484222325
    for c in name.encode():
        fnv = (fnv ^ c) * 0x100000001B3 & mask
    return mix((seed + mix(fnv)) & mask)


def decoded(x, rule, square=False, rht=False, noise=None):
    return quantised(np.ascontiguousarray(x, np.float32), rule, square, rht, noise is not None, False, noise)[3].astype(np.float64)


def in_tiles(x):
    """[channels, tokens] with zeros up to whole tiles of 16 tokens."""
    return np.pad(x.T, ((0, 0), (0, -len(x) % 16)))


def linear(x, w, g, activations="mse", weights="static_6", gradients="mse", square_weights=True, stochastic_gradients=True, gradient_rht=True):
    key = key_of(SEED, "precision.weight.0")
    noise = [(key, stream, 0, 0) if stochastic_gradients else None for stream in (0, 1)]
    w_out = decoded(w, weights, square_weights)
    w_in = w_out if square_weights else decoded(w.T, weights).T
    g_tokens = decoded(in_tiles(g), gradients, False, gradient_rht, noise[1])
    x_tokens = decoded(in_tiles(x), activations, False, gradient_rht)
    return {"output": decoded(x, activations) @ w_out.T, "grad_input": decoded(g, gradients, noise=noise[0]) @ w_in, "grad_weight": g_tokens @ x_tokens.T}


def main():
    SCRATCH.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    x, w, g = (rng.standard_normal(s).astype(np.float32) for s in ((M, K), (N, K), (M, N)))
    for rule, block, rht, rounding in [("none", "1x16", False, "nearest"), ("mse", "16x16", True, "stochastic"), ("static_4", "1x16", True, "stochastic")]:
        made = apply("quantize", {"x": x}, scale_rule=rule, block=block, rht=rht, rounding=rounding, seed=SEED)
        total, codes, scales, back = quantised(x, rule, block == "16x16", rht, rounding == "stochastic", False, (SEED, 0, 0, 0))
        assert np.array_equal(made["codes"], codes) and np.array_equal(made["scales"], scales), (rule, block)
        assert made["global_scale"].tolist() == [total] and np.array_equal(made["dequantized"], back), (rule, block)
    for options in ({}, {"square_weights": False, "gradient_rht": False}, {"stochastic_gradients": False, "weights": "mse", "gradients": "none"}):
        want = linear(x, w, g, **options)
        for dtype, bound in ((np.float32, 1e-6), (np.float64, 1e-13)):
            made = apply("linear", {"x": x.astype(dtype), "weight": w, "grad_output": g}, seed=SEED, **options)
            for name, value in want.items():
                off = abs(made[name] - value).max() / abs(value).max()
                assert off <= bound, (name, options, dtype, off)
    x[3, 4], x[5, 6] = np.inf, np.nan
    assert f"x: 2 of its {M * K} values are infinite or NaN" in apply("quantize", {"x": x}, code=1)
    assert f"2 of the {M * K} values of x are infinite or NaN" in apply("linear", {"x": x, "weight": w, "grad_output": g}, code=1)
    print("nvfp4 equals NumPy's")


if __name__ == "__main__":
    main()
