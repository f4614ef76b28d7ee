"""Writes tests/data/oracle/cosmos_tokenizer*: what diffusers and NVIDIA's Cosmos-Tokenizer compute of tiny tokenizers.

Needs torch, diffusers 0.42.1, safetensors, einops, and the source of github.com/NVIDIA/Cosmos-Tokenizer:

    python tests/oracle/make_cosmos_tokenizer_fixtures.py COSMOS_TOKENIZER_FOLDER

Weights and inputs are those of oracle_numbers.py, of the parameter's name in the model that is run; so the files hold results
(float64) and, in their metadata, Kinora's options and the original names with their shapes. The .jit files are what
NVIDIA publishes: traced `encoder_jit()` and `decoder_jit()`, in float32.
"""
import copy
import json
import pathlib
import sys
import tempfile
import types
import zipfile

import torch
from diffusers import AutoencoderKLCosmos
from diffusers.models.autoencoders.autoencoder_kl_cosmos import CosmosPatchEmbed3d
from provenance import save_file

import oracle_numbers as oracle
fill, numbers = oracle.fill, oracle.numbers

OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "oracle"
COMMON = dict(attention_resolutions=[32], patch_size=2, num_layers=1, latents_mean=None, latents_std=None)
DIFFUSERS = {
    # Space and time halved at different levels, attention in the second level.
    "a": dict(COMMON, latent_channels=3, encoder_block_out_channels=[2, 3, 4, 4], decode_block_out_channels=[3, 4, 4, 4],
              resolution=128, spatial_compression_ratio=8, temporal_compression_ratio=4),
    # As deep in time as in space; the encoder's second resampler changes nothing.
    "b": dict(COMMON, latent_channels=2, encoder_block_out_channels=[2, 3, 3, 4], decode_block_out_channels=[2, 3, 3, 4],
              resolution=1024, num_layers=2, spatial_compression_ratio=4, temporal_compression_ratio=4),
    # Plain patches, one level, no resampler.
    "c": dict(COMMON, latent_channels=2, encoder_block_out_channels=[3, 4], decode_block_out_channels=[3, 4],
              patch_type="rearrange", resolution=1024, spatial_compression_ratio=2, temporal_compression_ratio=2),
    # The published 8x16x16's plan: space halved twice after the patch, time once.
    "d": dict(COMMON, latent_channels=4, encoder_block_out_channels=[4, 5, 6, 7], decode_block_out_channels=[6, 5, 4, 4],
              resolution=64, num_layers=2, patch_size=4, spatial_compression_ratio=16, temporal_compression_ratio=8),
    # The published 4x8x8's: the decoder has a level less, and time is compressed by the patch alone.
    "e": dict(COMMON, latent_channels=3, encoder_block_out_channels=[4, 4, 6, 6], decode_block_out_channels=[4, 6, 6],
              resolution=256, num_layers=1, patch_size=4, spatial_compression_ratio=8, temporal_compression_ratio=4),
    # Attention in every level, two layers, plain patches of four.
    "f": dict(COMMON, latent_channels=2, encoder_block_out_channels=[3, 3, 3, 3], decode_block_out_channels=[4, 3, 3, 3],
              attention_resolutions=[8, 16], resolution=64, num_layers=2, patch_size=4, patch_type="rearrange",
              spatial_compression_ratio=8, temporal_compression_ratio=8),
}
GRADIENTS = ("encoder.conv_in.conv_s", "encoder.mid_block.temp_attentions.0.to_k", "encoder.down_blocks.0.resnets.0.norm1",
             "encoder.down_blocks.0.downsamplers.0.conv3", "encoder.conv_out.conv_t", "quant_conv", "post_quant_conv",
             "decoder.conv_in.conv_t", "decoder.up_blocks.1.upsamplers.0.conv1", "decoder.up_blocks.0.resnets.0.conv2.conv_s",
             "decoder.mid_block.attentions.0.norm", "decoder.norm_out")


def float64(model):
    for module in model.modules():  # both hold 1/sqrt(2) in float32
        if getattr(module, "patch_method", "") == "haar":
            module.wavelets = torch.full([2], 0.5).sqrt()
    return model


def of_diffusers():
    tensors, metadata = {}, {}
    for name, config in DIFFUSERS.items():
        model = float64(fill(AutoencoderKLCosmos(**config)))
        for p in model.parameters():
            p.requires_grad_()
        time, space = config["temporal_compression_ratio"], config["spatial_compression_ratio"]
        groups, wide = (1, 1) if name in "df" else (2, 2)
        video = numbers("video", (2 if name == "c" else 1, 3, 1 + groups * time, space, wide * space)).requires_grad_()
        latent = model.encode(video).latent_dist.mode()
        # A latent of its own: the decoder's test does not depend on the encoder.
        code = numbers("code", tuple(latent.shape)).requires_grad_()
        decoded = model.decode(code).sample
        (latent * numbers("grad.latent", tuple(latent.shape))).sum().backward()
        (decoded * numbers("grad.decoded", tuple(decoded.shape))).sum().backward()
        with torch.no_grad():
            tensors[f"{name}.latent_of_one"] = model.encode(video[:, :, :1]).latent_dist.mode()
            tensors[f"{name}.decoded_of_one"] = model.decode(code[:, :, :1]).sample
        tensors |= {f"{name}.latent": latent, f"{name}.decoded": decoded, f"{name}.grad.video": video.grad,
                    f"{name}.grad.code": code.grad}
        tensors |= {f"{name}.grad.param.{k}": p.grad for k, p in model.named_parameters() if k.startswith(GRADIENTS) and p.numel() < 3000}
        metadata[name] = json.dumps({k: v for k, v in config.items() if not k.startswith("latents_")})
        if name == "a":  # with all that an independent program needs, for the command line's test
            whole = {f"a.weight.{k}": p.float() for k, p in model.named_parameters()}
            whole |= {"a.video": video.float(), "a.code": code.float(), "a.latent": latent, "a.decoded": decoded}
            save("cosmos_tokenizer_whole.safetensors", whole, {"a": metadata["a"]})
    # Two levels of the wavelet, alone.
    tensors["haar4.patches"] = float64(CosmosPatchEmbed3d(4, "haar"))(numbers("haar4.video", (1, 3, 5, 4, 8)))
    return tensors, metadata


VIDEO = dict(dropout=0.0, in_channels=3, out_channels=3, patch_method="haar", z_factor=1, num_groups=1, legacy_mode=False,
             encoder="FACTORIZED", decoder="FACTORIZED", formulation="AE", quantizer="FSQ", embedding_dim=6,
             levels=[8, 8, 8, 5, 5, 5])
IMAGE = dict(VIDEO, encoder="Default", decoder="Default")
NVIDIA = {
    "cv": ("CV", dict(VIDEO, attn_resolutions=[], channels=2, channels_mult=[1, 2], num_res_blocks=1, resolution=32,
                      patch_size=2, latent_channels=3, z_channels=3, spatial_compression=4, temporal_compression=2)),
    "dv": ("DV", dict(VIDEO, attn_resolutions=[8], channels=2, channels_mult=[1, 2, 2], num_res_blocks=1, resolution=32,
                      patch_size=2, z_channels=4, spatial_compression=8, temporal_compression=4)),
    # Four values and three, other than the published ones.
    "dv2": ("DV", dict(VIDEO, attn_resolutions=[], channels=2, channels_mult=[2, 2], num_res_blocks=1, resolution=32,
                       patch_size=2, z_channels=4, spatial_compression=4, temporal_compression=2, embedding_dim=3,
                       levels=[4, 3, 6])),
    "ci": ("CI", dict(IMAGE, attn_resolutions=[16], channels=32, channels_mult=[1, 2, 2], num_res_blocks=1, resolution=64,
                      patch_size=4, latent_channels=3, z_channels=3, spatial_compression=8)),
    # Every level halves, plain patches, two layers.
    "di": ("DI", dict(IMAGE, attn_resolutions=[8], channels=32, channels_mult=[2, 1], num_res_blocks=2, resolution=32,
                      patch_size=2, patch_method="rearrange", z_channels=8, spatial_compression=8)),
}
PUBLISHED = {"CV4x8x8": (8, 4), "CV8x8x8": (8, 8), "CV8x16x16": (16, 8), "DV4x8x8": (8, 4), "DV8x8x8": (8, 8),
             "DV8x16x16": (16, 8), "CI8x8": (8, 1), "CI16x16": (16, 1), "DI8x8": (8, 1), "DI16x16": (16, 1)}


def nvidia(folder):
    """The repository's models by name, and their published configurations."""
    silent = types.SimpleNamespace(info=lambda *_: None, warning=lambda *_: None)
    sys.modules["loguru"] = types.SimpleNamespace(logger=silent)
    sys.path.insert(0, str(folder))
    from cosmos_tokenizer.networks import TokenizerConfigs, TokenizerModels
    return TokenizerModels, TokenizerConfigs


def options(kind, c):
    """NVIDIA's configuration in the options of tokenizer/cosmos."""
    image, discrete = kind[1] == "I", kind[0] == "D"
    widths = [c["channels"] * m for m in c["channels_mult"]]
    out = dict(image=image, formulation="FSQ" if discrete else "AE", latent_channels=c["z_channels"],
               encoder_block_out_channels=[c["channels"], *widths], decode_block_out_channels=[*widths, widths[-1]],
               attention_resolutions=c["attn_resolutions"], resolution=c["resolution"], num_layers=c["num_res_blocks"],
               patch_size=c["patch_size"], patch_type=c["patch_method"], spatial_compression_ratio=c["spatial_compression"])
    if not image:
        out["temporal_compression_ratio"] = c["temporal_compression"]
    if discrete:
        out |= dict(levels=c["levels"], embedding_dim=c["embedding_dim"])
    return out


def of_nvidia(models):
    tensors, metadata = {}, {}
    for name, (kind, config) in NVIDIA.items():
        # Vectors of several codes: with smaller weights all would be rounded to the middle.
        model = float64(fill(models[kind].value(**config), 1.4 if kind[0] == "D" else 0.7))
        model.to(dtype=torch.float64)
        for p in model.parameters():
            p.requires_grad_()
        space, image = config["spatial_compression"], kind[1] == "I"
        shape = (1, 3, 5 * space, 4 * space) if image else (1, 3, 1 + 2 * config["temporal_compression"], space, 2 * space)
        video = numbers("video", shape).requires_grad_()
        made = model.encode(video)
        latent = made[1] if kind[0] == "D" else made[0]
        decoded = model.decode(latent)
        (decoded * numbers("grad.decoded", tuple(decoded.shape))).sum().backward()
        tensors |= {f"{name}.decoded": decoded, f"{name}.grad.video": video.grad, f"{name}.latent": latent}
        if kind[0] == "D":
            assert made[0].unique().numel() > 2, made[0].unique()
            tensors[f"{name}.codes"] = made[0]
            codes = (numbers("codes", tuple(made[0].shape)).abs() * 1e6).to(torch.int32) % model.quantizer.codebook_size
            tensors |= {f"{name}.given_codes": codes, f"{name}.decoded_codes": model.decode_code(codes)}
        # Copies: trace() turns the model, gradients and all, into float32.
        tensors |= {f"{name}.grad.param.{k}": p.grad.clone() for k, p in model.named_parameters()
                    if k.startswith(("encoder.conv_in", "quant_conv", "post_quant_conv")) and p.numel() < 4000}
        metadata[name] = json.dumps(options(kind, config))
        metadata[f"{name}.float32"] = json.dumps(own_float32(model, kind, name, video, tensors))
        metadata[f"{name}.keys"] = json.dumps({k: list(p.shape) for k, p in model.named_parameters()})
        if name in ("cv", "dv2"):
            trace(model, name, video, latent, tensors.get(f"{name}.codes"))
    return tensors, metadata


def single(model):
    """The model in float32; the wavelets are no parameters."""
    model.to(dtype=torch.float32)
    for module in model.modules():
        if getattr(module, "patch_method", "") == "haar":
            module.wavelets = module.wavelets.float()
    return model


def own_float32(model, kind, name, video, exact):
    """How far NVIDIA's own float32 is from its float64, relative to the largest number: what rounding costs anybody."""
    torch.set_default_dtype(torch.float32)
    model = single(copy.deepcopy(model))
    model.zero_grad()
    x = video.detach().float().requires_grad_()
    made = model.encode(x)
    latent = made[1] if kind[0] == "D" else made[0]
    decoded = model.decode(latent)
    (decoded * numbers("grad.decoded", tuple(decoded.shape)).float()).sum().backward()
    of = lambda a, b: ((a.double() - b).abs().max() / b.abs().max()).item()
    wanted = {k: v for k, v in exact.items() if k.startswith(f"{name}.grad.param.")}
    most = max(v.abs().max() for v in wanted.values())
    gradients = dict(model.named_parameters())
    out = {"latent": of(latent, exact[f"{name}.latent"]), "decoded": of(decoded, exact[f"{name}.decoded"]),
           "grad.video": of(x.grad, exact[f"{name}.grad.video"]),
           "grad.param": max((gradients[k.split(".grad.param.")[1]].grad.double() - v).abs().max() / most
                             for k, v in wanted.items()).item()}
    torch.set_default_dtype(torch.float64)
    print(name, "in float32:", out)
    return out


def trace(model, name, video, latent, codes):
    torch.set_default_dtype(torch.float32)
    single(model)
    with torch.no_grad():
        into = latent if codes is None else codes
        for part, x in (("encoder", video), ("decoder", into)):
            x = x.detach() if x.dtype == torch.int32 else x.detach().float()
            made = torch.jit.trace(getattr(model, f"{part}_jit")(), x, strict=False, check_trace=False)
            path = OUT / f"cosmos_tokenizer_{name}_{part}.jit"
            short = pathlib.Path(tempfile.mkdtemp()) / "c.jit"  # its name is in front of each of the archive's
            made.save(str(short))
            shrink(short, path)
    torch.set_default_dtype(torch.float64)


def shrink(short, path):
    """The same archive, deflated, without the notes on which source line made which operation."""
    with zipfile.ZipFile(short) as old:
        kept = {n: old.read(n) for n in old.namelist() if not n.endswith(".debug_pkl")}
    short.unlink()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in kept.items():
            new.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)
    print(path, path.stat().st_size, "bytes")


def published_keys(models, configs):
    torch.nn.modules.conv._ConvNd.reset_parameters = lambda self: None  # only names and shapes are asked for
    out = {}
    for size, (space, time) in PUBLISHED.items():
        config = dict(configs[size[:2]].value, spatial_compression=space, temporal_compression=time)
        model = models[size[:2]].value(**config)
        out[size] = {k: list(p.shape) for k, p in model.named_parameters()}
    path = OUT / "cosmos_tokenizer_keys.json"
    path.write_text(json.dumps(out, separators=(",", ":")))
    print(path, path.stat().st_size, "bytes")


def save(name, tensors, metadata):
    save_file({k: v.detach().contiguous() for k, v in tensors.items()}, OUT / name, metadata)
    print(OUT / name, (OUT / name).stat().st_size, "bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    save("cosmos_tokenizer.safetensors", *of_diffusers())
    models, configs = nvidia(sys.argv[1])
    save("cosmos_tokenizer_nvidia.safetensors", *of_nvidia(models))
    published_keys(models, configs)
