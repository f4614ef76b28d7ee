"""Weights and inputs that Python and C++ make alike, so that a fixture needs to hold results only.

`numbers(name, shape)` is unit-variance, uniform, float32-exact and a function of (name, index); tests/support/oracle.hpp has
the same function. `fill(model)` gives every parameter such numbers, by the rule that `drawn` has there.
"""
import math

import numpy as np
import torch


def numbers(name, shape):
    """float64 tensor whose values are exact in float32."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(h) + (np.arange(math.prod(shape), dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    u = (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return torch.from_numpy((2 * u - 1) * 1.7320508075688772).to(torch.float32).double().reshape(shape)


def weight(name, shape, gain=0.7):
    """Matrices and kernels: variance gain^2 / fan-in. Vectors: near 1 if they scale (`weight`, `gamma`), near 0 if not."""
    x = numbers(name, shape)
    if len(shape) > 1:
        return (x * (gain / math.sqrt(math.prod(shape[1:])))).to(torch.float32).double()
    return (x * 0.1 + (1.0 if name.endswith(("weight", "gamma")) else 0.0)).to(torch.float32).double()


def fill(model, gain=0.7, name_of=lambda name: name):
    """model in float64 with such weights; name_of: the parameter's name in Kinora."""
    for name, p in model.named_parameters():
        p.data = weight(name_of(name), tuple(p.shape), gain)
    return model.double().eval()
