#!/usr/bin/env python3
"""`kinora apply precision/nvfp4` and precision/fp8 against NumPy: codes and scales of quantize to the bit, a linear
layer and its gradients to 1e-6. The formats are those of fp4_oracle.py and fp8_oracle.py; the recipe of a layer and the
key of its noise are written here from docs/precision.md. usage: precision_oracle.py KINORA SCRATCH"""
import pathlib, subprocess, sys

import numpy as np
import safetensors.numpy

import fp4_oracle, fp8_oracle

KINORA, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
M, K, N, SEED = 37, 160, 136, 5  # no tile of tokens, and no block of 128 channels, is whole at the end


def apply(id, method, tensors, code=0, **options):
    """The tensors that the program gives; or with a code, what it says on stderr."""
    given, made = SCRATCH / "in.safetensors", SCRATCH / "out.safetensors"
    safetensors.numpy.save_file(tensors, given)
    sets = [f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in options.items()]
    done = subprocess.run([KINORA, "apply", id, "--method", method, "--inputs", given, "--out", made,
                           *(x for s in sets for x in ("--set", s))],
                          capture_output=True, text=True)
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


def in_tiles(x, tile):
    """[channels, tokens] with zeros up to whole tiles of tokens."""
    return np.pad(x.T, ((0, 0), (0, -len(x) % tile)))


def fp4(x, rule, square=False, rht=False, noise=None):
    return fp4_oracle.quantised(np.ascontiguousarray(x, np.float32), rule, square, rht, noise is not None, False,
                                noise)[3].astype(np.float64)


def nvfp4(x, w, g, activations="mse", weights="static_6", gradients="mse", square_weights=True,
          stochastic_gradients=True, gradient_rht=True):
    key = key_of(SEED, "precision.weight.0")
    noise = [(key, stream, 0, 0) if stochastic_gradients else None for stream in (0, 1)]
    w_out = fp4(w, weights, square_weights)
    w_in = w_out if square_weights else fp4(w.T, weights).T
    g_tokens = fp4(in_tiles(g, 16), gradients, False, gradient_rht, noise[1])
    x_tokens = fp4(in_tiles(x, 16), activations, False, gradient_rht)
    return {"output": fp4(x, activations) @ w_out.T, "grad_input": fp4(g, gradients, noise=noise[0]) @ w_in,
            "grad_weight": g_tokens @ x_tokens.T}


def fp8(x, w, g, scaling="tensor", gradients="e5m2", scale_rule="exact"):
    def rounded(of, form="e4m3", weight=False):
        by = {"block": "square" if weight else "row"}.get(scaling, scaling)
        return fp8_oracle.quantised(np.ascontiguousarray(of, np.float32), "float32", form, by, scale_rule,
                                    False)[2].astype(np.float64)
    tile = {"tensor": 1, "block": 128, "mx": 32}[scaling]
    w_in = rounded(w.T, weight=True).T
    return {"output": rounded(x) @ rounded(w, weight=True).T, "grad_input": rounded(g, gradients) @ w_in,
            "grad_weight": rounded(in_tiles(g, tile), gradients) @ rounded(in_tiles(x, tile)).T}


def check_layer(id, want, x, w, g, **options):
    for dtype, bound in ((np.float32, 1e-6), (np.float64, 1e-13)):  # the sums
        made = apply(id, "linear", {"x": x.astype(dtype), "weight": w, "grad_output": g}, **options)
        for name, value in want.items():
            off = abs(made[name] - value).max() / abs(value).max()
            assert off <= bound, (id, name, options, dtype, off)


def check_refusals():
    """Matrices that no layer can have: each message names the tensor."""
    ones = {"x": np.ones((8, 32), np.float32), "weight": np.ones((16, 32), np.float32),
            "grad_output": np.ones((8, 16), np.float32)}
    for changed, said in (({"weight": np.ones((16, 48), np.float32)}, "x is [8, 32] and weight [16, 48]"),
                          ({"x": np.ones((8, 0), np.float32)}, "x is [8, 0]"),
                          ({"weight": np.ones((16, 32), np.int64)}, "weight is [16, 32] of Long"),
                          ({"x": np.ones((0, 32), np.float32)}, "x is [0, 32]"),
                          ({"grad_output": np.ones((16, 8), np.float32)}, "grad_output is [16, 8]")):
        text = apply("precision/nvfp4", "linear", {**ones, **changed}, code=2)
        assert said in text, text
    # the transform's: its first sum has 16 equal terms
    signs = np.array([-1 if 0xD7E8 >> i & 1 else 1 for i in range(16)], np.float32)
    large = {"x": np.tile(signs[:, None] * np.float32(1e38), (1, 32)), "weight": ones["weight"],
             "grad_output": np.ones((16, 16), np.float32)}
    assert "grad_weight are infinite or NaN: its numbers are too large" in apply(
        "precision/nvfp4", "linear", large, code=1)
    beyond = "values are beyond float32's largest number"
    assert beyond in apply("precision/nvfp4", "quantize", {"x": np.float32(1e38) * signs[None]}, code=2, rht=True)
    assert beyond in apply("precision/fp8", "quantize", {"x": np.full((2, 16), 1e300)}, code=2)
    for id, option in (("nvfp4", {"activations": "none"}), ("nvfp4", {"square_weights": False}),
                       ("nvfp4", {"until": 3}), ("fp8", {"scaling": "block"}), ("fp8", {"gradients": "e4m3"}),
                       ("fp8", {"attention": "fp8"})):
        text = apply("precision/" + id, "quantize", {"x": ones["x"]}, code=2, **option)
        assert (
            f"{[*option][0]} is an option of linear layers and changes nothing in `kinora apply --method quantize`; "
            f"remove it" in text), text
    for option in ({"until": 3}, {"attention": "fp8"}):
        text = apply("precision/nvfp4", "linear", ones, code=2, **option)
        assert f"{[*option][0]} changes nothing in `kinora apply --method linear`" in text, text
    assert "not of a floating-point dtype" in apply("precision/nvfp4", "quantize", {"x": np.ones((2, 16), np.int64)},
                                                    code=2)


def main():
    SCRATCH.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    x, w, g = (rng.standard_normal(s).astype(np.float32) for s in ((M, K), (N, K), (M, N)))
    for rule, block, rht, rounding in [("none", "1x16", False, "nearest"), ("mse", "16x16", True, "stochastic")]:
        made = apply("precision/nvfp4", "quantize", {"x": x}, scale_rule=rule, block=block, rht=rht, rounding=rounding,
                     seed=SEED)
        total, codes, scales, back = fp4_oracle.quantised(x, rule, block == "16x16", rht, rounding == "stochastic",
                                                          False, (SEED, 0, 0, 0))
        assert np.array_equal(made["codes"], codes) and np.array_equal(made["scales"], scales), (rule, block)
        assert made["global_scale"].tolist() == [total] and np.array_equal(made["dequantized"], back), (rule, block)
    for block, scaling, form, decibels in (("128x128", "square", "e4m3", 31), ("1x32", "mx", "e5m2", 25)):
        made = apply("precision/fp8", "quantize", {"x": x}, block=block, format=form)
        codes, scales, back = fp8_oracle.quantised(x, "float32", form, scaling, "exact", False)
        assert np.array_equal(made["codes"],
                              codes) and np.array_equal(made["scales"],
                                                        scales) and np.array_equal(made["dequantized"], back), block
        noise = 10 * np.log10(np.square(x, dtype=np.float64).sum() / np.square(x.astype(np.float64) - back).sum())
        assert decibels < noise < decibels + 1, (form, noise)  # the report names these figures
    for options in ({}, {"square_weights": False, "gradient_rht": False, "stochastic_gradients": False,
                         "weights": "mse", "gradients": "none"}):
        check_layer("precision/nvfp4", nvfp4(x, w, g, **options), x, w, g, seed=SEED, **options)
    for options in ({"gradients": "e4m3"}, {"scaling": "block"}, {"scaling": "mx", "scale_rule": "floor"}):
        check_layer("precision/fp8", fp8(x, w, g, **options), x, w, g, **options)
    x[3, 4], x[5, 6] = np.inf, np.nan
    for id in ("precision/nvfp4", "precision/fp8"):
        assert f"x: 2 of its {M * K} values are infinite or NaN" in apply(id, "quantize", {"x": x}, code=2)
    assert f"2 of the {M * K} values of x are infinite or NaN" in apply(
        "precision/nvfp4", "linear", {"x": x, "weight": w}, code=2)
    check_refusals()
    print("nvfp4 and fp8 equal NumPy's")


if __name__ == "__main__":
    main()
