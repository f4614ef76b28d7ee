"""Writes tests/data/oracle/eight_bits.safetensors: weights in eight bits with the scales that real programs write beside
them, and as want.NAME in float32 what these programs decode.

Needs torch, transformers and safetensors. `inverse` is decoded by transformers' own operation; the others by the formula of
their writer: ComfyUI (comfy/ops.py), musubi-tuner (modules/fp8_optimization_utils.py), bitsandbytes (functional.py), optimum-quanto.
"""
import json
import pathlib

import torch
from provenance import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

OUT = pathlib.Path(__file__).resolve().parent.parent / "data/oracle"
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def codes(weight, scale, dtype):
    most = torch.finfo(dtype).max
    return (weight / scale).clamp(-most, most).to(dtype)


def ours(name, shape):
    """Numbers of very different rows, so that a scale of the wrong row or block is seen."""
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    return torch.randn(shape, generator=generator) * torch.logspace(-3, 0, shape[0]).reshape(-1, *[1] * (len(shape) - 1))


def main():
    tensors, want = {}, {}

    def put(module, weight, want_weight, **scales):
        tensors[module + ".weight"] = weight
        want[f"want.{module}.weight"] = want_weight.float()
        tensors.update({f"{module}.{k}": v for k, v in scales.items()})

    w = ours("comfy", (6, 10))
    scale = (w.abs().max() / 448).float()
    put("comfy", codes(w, scale, E4M3), codes(w, scale, E4M3).float() * scale, scale_weight=scale, scale_input=torch.tensor(0.25))
    tensors["scaled_fp8"] = torch.empty(0, dtype=E4M3)

    w = ours("comfy_five", (4, 3, 1, 2, 2))
    scale = (w.abs().max() / 57344).half().float()
    put("comfy_five", codes(w, scale, E5M2), codes(w, scale, E5M2).float() * scale, weight_scale=scale.half().reshape(1), input_scale=torch.tensor(2.0))

    w = ours("rows", (5, 8))
    scale = (w.abs().amax(1, keepdim=True) / 448).bfloat16()
    put("rows", codes(w, scale.float(), E4M3), codes(w, scale.float(), E4M3).float() * scale.float(), weight_scale=scale)

    # musubi-tuner, mode block: a scale for 4 columns of a row, and one factor more for all.
    w = ours("musubi", (6, 12))
    blocks = w.reshape(6, 3, 4)
    scale = blocks.abs().amax(2, keepdim=True) / 448
    second = scale.max().reshape(1)
    scale = scale / second
    q = codes(blocks, scale * second, E4M3)
    put("musubi", q.reshape(6, 12), (q.float() * (scale * second)).reshape(6, 12), scale_weight=scale, scale_weight_tensor=second)

    w = ours("inverse", (8, 12))
    grid = w.reshape(2, 4, 3, 4)
    scale = grid.abs().amax((1, 3)) / 448
    q = codes(grid, scale[:, None, :, None], E4M3).reshape(8, 12)
    put("inverse", q, Fp8Dequantize(None)._dequantize_one(q, scale, torch.float32), weight_scale_inv=scale)

    # DeepSeek's blocks of 128 x 128, of which the last ones are cut.
    w = ours("cut", (131, 141))
    padded = torch.nn.functional.pad(w, (0, 115, 0, 125)).reshape(2, 128, 2, 128)
    scale = padded.abs().amax((1, 3)) / 448
    whole = scale.repeat_interleave(128, 0).repeat_interleave(128, 1)[:131, :141]
    put("cut", codes(w, whole, E4M3), codes(w, whole, E4M3).float() * whole, weight_scale_inv=scale)

    w = ours("bitsandbytes", (7, 9))
    rows = w.abs().amax(1)
    q = torch.round(w * (127.0 / rows[:, None])).to(torch.int8)
    put("bitsandbytes", q, q.float() * rows[:, None] * 7.874015718698502e-3, SCB=rows, weight_format=torch.tensor(0, dtype=torch.uint8))

    # ComfyUI's int8_blockwise, whose size of blocks is said by a text in bytes.
    w = ours("described", (8, 8))
    grid = w.reshape(2, 4, 2, 4)
    scale = grid.abs().amax((1, 3)) / 127
    q = torch.round(grid / scale[:, None, :, None]).to(torch.int8)
    text = json.dumps({"format": "int8_blockwise", "group_size": 4}).encode()
    put("described", q.reshape(8, 8), (q.float() * scale[:, None, :, None]).reshape(8, 8), weight_scale=scale,
        comfy_quant=torch.tensor(list(text), dtype=torch.uint8))

    w = ours("quanto", (5, 6))
    scale = w.abs().amax(1, keepdim=True) / 448
    q = codes(w, scale, E4M3)
    tensors |= {"quanto.weight._data": q, "quanto.weight._scale": scale, "quanto.input_scale": torch.tensor(1.0), "quanto.output_scale": torch.tensor(1.0)}
    want["want.quanto.weight"] = q.float() * scale

    tensors["bare.weight"] = ours("bare", (3, 4)).to(E4M3)
    want["want.bare.weight"] = tensors["bare.weight"].float()
    described = {"format_version": "1.0", "layers": {"comfy_five": {"format": "float8_e5m2", "full_precision_matrix_mult": True}}}
    save_file({k: v.contiguous() for k, v in (tensors | want).items()}, OUT / "eight_bits.safetensors", {"_quantization_metadata": json.dumps(described)})


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
