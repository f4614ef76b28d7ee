"""Writes tests/data/oracle/wan_vae.safetensors: what diffusers' AutoencoderKLWan computes, and lists of names.

Needs torch, diffusers 0.42.1, einops, safetensors and Wan's own code (github.com/Wan-Video/Wan2.2) for its names:

    python tests/oracle/make_wan_vae_fixtures.py WAN_REPOSITORY

Weights and inputs are oracle_numbers.py's, so only results are stored: float64, an option set a case. diffusers clamps what it
decodes, rounds before it repeats pixels, and its encoder cannot call the attention that attn_scales asks for;
`as_written` mends the three.
"""
import contextlib
import copy
import importlib.util
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
import diffusers.models.autoencoders.autoencoder_kl_wan as autoencoder_kl_wan
import torch
from diffusers import AutoencoderKLWan
from diffusers.loaders.single_file_utils import convert_wan_vae_to_diffusers
from provenance import save_file


def loaded(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


import oracle_numbers as oracle
fill, numbers = oracle.fill, oracle.numbers
OUT = HERE.parent / "data" / "oracle" / "wan_vae.safetensors"


# name: (configuration, video's B T H W, tile's height, width and their strides in pixels or None)
CASES = {
    # Like 2.1; an image of odd latent size in tiles, whose last ones are cut short.
    "plain": (dict(base_dim=4, z_dim=3, dim_mult=[1, 2, 4, 4], num_res_blocks=1, temperal_downsample=[False, True, True]),
              (1, 9, 40, 24), (24, 16, 16, 8)),
    # Like 2.2: residual, patches, a wider decoder.
    "residual": (dict(base_dim=4, decoder_base_dim=6, z_dim=4, dim_mult=[1, 2, 4, 4], num_res_blocks=1, is_residual=True,
                      in_channels=12, out_channels=12, patch_size=2, temperal_downsample=[False, True, True]),
                 (1, 5, 48, 80), (32, 32, 16, 16)),
    # Attention in the encoder, two images a batch, time halved first.
    "attention": (dict(base_dim=4, z_dim=2, dim_mult=[1, 2, 2], num_res_blocks=2, attn_scales=[1.0, 0.25],
                       temperal_downsample=[True, True]), (2, 9, 12, 20), None),
    # Images.
    "image": (dict(base_dim=6, z_dim=5, dim_mult=[1, 3], num_res_blocks=2, temperal_downsample=[True], decoder_base_dim=4),
              (3, 1, 10, 6), None),
    # Residual, channels that change in every direction, time halved at the ends only.
    "ends": (dict(base_dim=3, decoder_base_dim=4, z_dim=3, dim_mult=[2, 2, 1, 1], num_res_blocks=2, is_residual=True,
                  temperal_downsample=[True, False, True]), (2, 9, 8, 24), None),
}


class AsWritten:
    """The torch module that limits nothing."""

    def __getattr__(self, name):
        return getattr(torch, name)

    @staticmethod
    def clamp(x, **_):
        return x


@contextlib.contextmanager
def as_written(wide=True):
    to_float, attend = torch.Tensor.float, autoencoder_kl_wan.WanAttentionBlock.forward
    autoencoder_kl_wan.WanAttentionBlock.forward = lambda self, x, **_: attend(self, x)
    autoencoder_kl_wan.torch = AsWritten()
    if wide:
        torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        autoencoder_kl_wan.torch = torch
        torch.Tensor.float = to_float
        autoencoder_kl_wan.WanAttentionBlock.forward = attend


def gradients(model, prefix, tensors):
    """A dot product with numbers of its own for each parameter, by name; of some small ones all numbers."""
    dots = []
    for name, p in sorted(model.named_parameters()):
        if p.grad is None:  # an image meets no convolution over time
            p.grad = torch.zeros_like(p)
        dots.append((p.grad * numbers("dot." + name, tuple(p.shape))).sum())
        if name in ("encoder.conv_in.bias", "decoder.conv_in.bias", "decoder.mid_block.resnets.0.norm1.gamma",
                    "encoder.mid_block.attentions.0.proj.bias", "quant_conv.weight", "post_quant_conv.weight"):
            tensors[f"{prefix}.grad.{name}"] = p.grad.clone()
    tensors[f"{prefix}.dots"] = torch.stack(dots)


def case(name, config, shape, tile, tensors):
    B, T, H, W = shape
    C = config.get("in_channels", 3) // config.get("patch_size", 1) ** 2
    time, space = 2 ** sum(config["temperal_downsample"]), 2 ** (len(config["dim_mult"]) - 1) * config.get("patch_size", 1)
    z = config["z_dim"]
    mean, std = numbers("mean", (z,)), numbers("std", (z,)).abs() + 0.5
    config = dict(config, scale_factor_spatial=space, scale_factor_temporal=time, latents_mean=mean.tolist(),
                  latents_std=std.tolist())
    model = fill(AutoencoderKLWan(**config))
    video = numbers("video", (B, C, T, H, W)).requires_grad_()
    code = numbers("code", (B, z, 1 + (T - 1) // time, H // space, W // space)).requires_grad_()
    single = copy.deepcopy(model)
    with as_written():
        posterior = model.encode(video).latent_dist
        (posterior.mode() * numbers("grad_latent", tuple(posterior.mode().shape))).sum().backward()
        decoded = model.decode(code).sample
        (decoded * numbers("grad_video", tuple(decoded.shape))).sum().backward()
        gradients(model, name, tensors)
        tensors |= {f"{name}.moments": posterior.parameters, f"{name}.decoded": decoded[..., ::3, ::3],
                    f"{name}.grad_video": video.grad[..., ::3, ::3], f"{name}.grad_code": code.grad,
                    f"{name}.normalised": (posterior.mode() - mean.view(1, -1, 1, 1, 1)) / std.view(1, -1, 1, 1, 1)}
        options = {k: v for k, v in config.items()}
        if tile:
            keys = ("tile_height", "tile_width", "tile_stride_height", "tile_stride_width")
            options["tiles"] = dict(zip(keys, tile))
            model.enable_tiling(*tile)
            with torch.no_grad():
                # Twice as wide, so that the encoder, which counts patches, has tiles too.
                wide = numbers("wide", (B, C, 1 + time, H, 2 * W))
                tensors[f"{name}.tiled_moments"] = model.encode(wide).latent_dist.parameters
                tensors[f"{name}.tiled_decoded"] = model.decode(code[:, :, :2]).sample[..., ::5, ::5]
    own = own_float32(single, video, code, {k: tensors[f"{name}.{k}"] for k in ("grad_code", "grad_video")})
    print(name, "in float32:", own)
    return json.dumps(dict(options, shape=shape, float32=own))


def own_float32(model, video, code, exact):
    """How far diffusers' own float32 is from its float64, relative to the largest number: what rounding costs anybody."""
    model = model.float()
    x, z = (t.detach().float().requires_grad_() for t in (video, code))
    with as_written(wide=False):
        mode, decoded = model.encode(x).latent_dist.mode(), model.decode(z).sample
        (mode * numbers("grad_latent", tuple(mode.shape)).float()).sum().backward()
        (decoded * numbers("grad_video", tuple(decoded.shape)).float()).sum().backward()
    of = lambda a, b: ((a.double() - b).abs().max() / b.abs().max()).item()
    return {"grad_code": of(z.grad, exact["grad_code"]), "grad_video": of(x.grad[..., ::3, ::3], exact["grad_video"])}


def original(repository, file):
    return loaded(file, pathlib.Path(repository) / "wan" / "modules" / f"{file}.py")


def shapes(model):
    return {k: list(v.shape) for k, v in model.state_dict().items()}


def published(size):
    extra = dict(base_dim=160, decoder_base_dim=256, z_dim=48, is_residual=True, in_channels=12, out_channels=12,
                 patch_size=2, scale_factor_spatial=16) if size == "2.2" else {}
    with torch.device("meta"):
        return AutoencoderKLWan(**extra)


def names(repository):
    """Original names and shapes; for 2.1 what diffusers' converter calls them."""
    with torch.device("meta"):
        one = original(repository, "vae2_1").WanVAE_(dim=96, z_dim=16, temperal_downsample=[False, True, True])
        two = original(repository, "vae2_2").WanVAE_(dim=160, dec_dim=256, z_dim=48, temperal_downsample=[False, True, True])
    converted = convert_wan_vae_to_diffusers({k: k for k in one.state_dict()})
    return {"2.1": {"original": shapes(one), "diffusers": shapes(published("2.1")),
                    "converted": {v: k for k, v in converted.items()}},
            "2.2": {"original": shapes(two), "diffusers": shapes(published("2.2"))}}


if __name__ == "__main__":
    torch.set_num_threads(1)
    tensors, metadata = {}, {}
    for name, (config, shape, tile) in CASES.items():
        metadata[name] = case(name, config, shape, tile, tensors)
    metadata["names"] = json.dumps(names(sys.argv[1]), separators=(",", ":"))
    tensors = {k: v.detach().contiguous().clone() for k, v in tensors.items()}
    save_file(tensors, OUT, metadata)
    print(OUT, OUT.stat().st_size, "bytes", {k: v["diffusers"] and len(v["diffusers"]) for k, v in
                                             json.loads(metadata["names"]).items()})
