"""Libraries that cast parts of a model to float32, whatever its dtype, use float64 there inside `in_float64`.

    with in_float64(transformer_wan, diffusers.models.embeddings):
        output = model(...)
"""
import contextlib

import torch


class TorchInFloat64:
    """The torch module with another idea of what float32 is."""

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def in_float64(*modules):
    """modules: those whose code says torch.float32; tensor.float() is float64's for everybody."""
    to_float = torch.Tensor.float
    for module in modules:
        module.torch = TorchInFloat64()
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        for module in modules:
            module.torch = torch
        torch.Tensor.float = to_float
