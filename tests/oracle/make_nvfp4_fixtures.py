"""Writes tests/data/oracle/nvfp4_*.safetensors: matrices in four bits as compressed-tensors, LongLive and Four Over Six write them, and
what their own code decodes: want.X in float32, want16.X in bfloat16. Of the first file, whole.X are the matrices of all of them.

Needs torch, compressed_tensors and safetensors, and checkouts of NVlabs/LongLive and mit-han-lab/fouroversix:
    make_nvfp4_fixtures.py LONGLIVE FOUROVERSIX
Only their PyTorch references are imported; the rest of the packages needs a GPU.
"""
import importlib
import json
import pathlib
import sys
import types

import torch
from compressed_tensors.compressors.nvfp4 import NVFP4PackedCompressor
from compressed_tensors.quantization import QuantizationConfig, preset_name_to_scheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from provenance import save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "oracle"
SHAPES = {"blocks.0.q": (24, 48), "blocks.1.ffn.0": (130, 80)}


def matrices():
    """Values of several magnitudes, with a block of zeros and outliers."""
    torch.manual_seed(19)
    for name, shape in SHAPES.items():
        w = torch.randn(shape) * torch.logspace(-2, 0, shape[0])[:, None]
        w[3, 16:32] = 0
        w[5, 7] = 4
        yield name, w


def compressed_tensors():
    scheme, tensors = preset_name_to_scheme("NVFP4A16", ["Linear"]), {}
    for name, w in matrices():
        total = generate_gparam(w.min(), w.max())
        blocks = w.unflatten(1, (-1, 16))
        scale, _ = calculate_qparams(blocks.amin(-1), blocks.amax(-1), scheme.weights, global_scale=total)
        packed = NVFP4PackedCompressor.compress({"weight": w, "weight_scale": scale, "weight_global_scale": total}, scheme)
        back = NVFP4PackedCompressor.decompress(packed, scheme)["weight"]
        values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
        codes = torch.stack([packed["weight_packed"] & 15, packed["weight_packed"] >> 4], -1).flatten(1)
        wide = dequantize(values[codes.long()], packed["weight_scale"].float(), args=scheme.weights, dtype=torch.float32, global_scale=total)
        tensors |= {f"{name}.{k}": v.contiguous() for k, v in packed.items()}
        tensors |= {f"want.{name}": wide, f"want16.{name}": back, f"whole.{name}": w}
    config = QuantizationConfig(config_groups={"group_0": scheme}, format="nvfp4-pack-quantized", quantization_status="compressed")
    save_file(tensors, OUT / "nvfp4_compressed_tensors.safetensors", {"quantization_config": config.model_dump_json()})


def modules_of(source):
    """Modules of a checkout's package, without what its packages import."""
    for name in [m for m in sys.modules if m.split(".")[0] == "fouroversix"]:
        del sys.modules[name]
    for name in ("fouroversix", "fouroversix.quantize", "fouroversix.quantize.pytorch", "fouroversix.kernels"):
        package = types.ModuleType(name)
        package.__path__ = [str(source / name.replace(".", "/"))]
        sys.modules[name] = package
    return lambda name: importlib.import_module("fouroversix." + name)


def fouroversix(source, file, rule, square, later):
    """later: of the package after LongLive's copy of it, which has other names and two more numbers in the metadata."""
    module, tensors = modules_of(pathlib.Path(source)), {}
    backend = module("quantize.pytorch.backend").PyTorchQuantizeBackend
    config = module("quantize.config").QuantizationConfig(scale_rule=rule, block_scale_2d=square)
    for name, w in matrices():
        q = (backend.quantize if later else backend.quantize_to_fp4)(w, config)
        for want, dtype in (("want", torch.float32), ("want16", torch.bfloat16)):
            back = backend.dequantize(q, dtype, intermediate_dtype=torch.float32) if later else q.dequantize(dtype)
            tensors[f"{want}.{name}"] = back[:w.shape[0], :w.shape[1]]
        own, sizes = f"{name}.quantized_weight", [*q.original_shape, *q.padded_shape]
        tensors |= {f"{own}_values": q.values, f"{own}_scale_factors": q.scale_factors, f"{own}_amax": q.amax,
                    f"{own}_metadata": torch.tensor(sizes + [1, 1]) if later else torch.tensor(sizes, dtype=torch.int32)}
    said = {"quant_method": "fouroversix", "dtype": "nvfp4", "scale_rule": rule, "weight_scale_2d": square}
    save_file({k: v.contiguous() for k, v in tensors.items()}, OUT / file, {"quantization_config": json.dumps(said)})


def main(longlive, later):
    compressed_tensors()
    fouroversix(pathlib.Path(longlive) / "fouroversix/src", "nvfp4_longlive.safetensors", "mse", False, False)
    fouroversix(pathlib.Path(longlive) / "fouroversix/src", "nvfp4_longlive_2d.safetensors", "static_6", True, False)
    fouroversix(pathlib.Path(later) / "src", "nvfp4_fouroversix.safetensors", "static_4", False, True)


if __name__ == "__main__":
    main(*sys.argv[1:])
