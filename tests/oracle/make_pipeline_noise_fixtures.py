"""Writes tests/data/oracle/pipeline_noise.safetensors: what diffusers' pipelines make of the tiny random folders of
make_wan_pipeline_fixtures.py and make_cosmos_pipeline_fixtures.py from noise that is given, CASE.noise -> CASE.latent, both [C, T, H, W];
and of three folders more the part that is not those folders': the transformers of wan_flf2v (first and last frame) and cosmos_v2w (Cosmos
Predict 1, video to world), and the autoencoder of wan_ti2v (of Wan 2.2's form: patches, a shortcut a level).

Every pipeline is loaded by from_pretrained() from its folder. Needs torch, diffusers 0.42.1, transformers 5.23, tokenizers, pillow, numpy
and safetensors.
"""
import pathlib
import shutil
import tempfile
import types

import numpy as np
import torch
from diffusers import (AutoencoderKLWan, Cosmos2TextToImagePipeline, Cosmos2VideoToWorldPipeline, CosmosTextToWorldPipeline, CosmosTransformer3DModel, CosmosVideoToWorldPipeline,
                       FlowMatchEulerDiscreteScheduler, WanImageToVideoPipeline, WanPipeline, WanTransformer3DModel)
from PIL import Image
from provenance import save_file

from make_cosmos_pipeline_fixtures import TRANSFORMER as COSMOS, NoGuardrail
from make_wan_pipeline_fixtures import OUT, TRANSFORMER as WAN, by_pillow, filled

PROMPT, NEGATIVE = "red sea", "blurry blue"
VAE_22 = dict(base_dim=2, decoder_base_dim=3, z_dim=2, dim_mult=[1, 1, 1, 1], num_res_blocks=1, is_residual=True, in_channels=12, out_channels=12,
              patch_size=2, scale_factor_spatial=16, latents_mean=[0.3, -0.2], latents_std=[1.5, 0.5])
tensors = {}


def write_parts():
    shutil.rmtree(OUT / "wan_ti2v", ignore_errors=True)
    filled(AutoencoderKLWan(**VAE_22)).save_pretrained(OUT / "wan_ti2v" / "vae")
    shutil.rmtree(OUT / "wan_flf2v", ignore_errors=True)
    filled(WanTransformer3DModel(**dict(WAN, in_channels=8, image_dim=8, added_kv_proj_dim=12, pos_embed_seq_len=10))).save_pretrained(
        OUT / "wan_flf2v" / "transformer")
    shutil.rmtree(OUT / "cosmos_v2w", ignore_errors=True)
    filled(CosmosTransformer3DModel(**COSMOS, in_channels=5, out_channels=4, rope_scale=(2.0, 1.0, 1.0), extra_pos_embed_type="learnable")).save_pretrained(
        OUT / "cosmos_v2w" / "transformer")
    y, x = np.mgrid[0:32, 0:48]
    # No pixel of it, scaled for CLIP, is so near a half that Pillow's whole-number coefficients round it the other way.
    last = np.stack([120 + 80 * np.cos(x / 6.3), 131 + 85 * np.sin((x - y) / 8.1), 117 + 93 * np.cos(y / 4.7)], -1).astype(np.uint8)
    Image.fromarray(last).save(OUT / "wan_flf2v" / "last.png")


def assembled(folder, *layers):
    for layer in layers:
        shutil.copytree(OUT / layer, folder, dirs_exist_ok=True)
    return folder


def case(name, pipe, latent, **call):
    pipe.set_progress_bar_config(disable=True)
    start = torch.randn(latent, generator=torch.Generator().manual_seed(sum(name.encode())))
    call = dict(prompt=PROMPT, num_inference_steps=5, latents=start.clone().unsqueeze(0), output_type="latent") | call
    made = pipe(**call)
    out = (made.images if hasattr(made, "images") else made.frames).float()
    tensors[f"{name}.noise"] = start
    tensors[f"{name}.latent"] = out.reshape(latent).contiguous()
    print(name, tuple(latent), float(out.std()))


def wan(scratch):
    size, latent = dict(height=32, width=48, num_frames=9), (2, 3, 4, 6)
    first, last = Image.open(OUT / "wan_i2v" / "first.png"), Image.open(OUT / "wan_flf2v" / "last.png")
    t2v = WanPipeline.from_pretrained(OUT / "wan_t2v")
    case("t2v", t2v, latent, **size)  # guidance 5, the negative prompt "" as the pipeline has them
    case("t2v_negative", t2v, latent, **size, negative_prompt=NEGATIVE, guidance_scale=3.0)
    case("t2v_plain", t2v, latent, **size, guidance_scale=1.0)
    ti2v = WanImageToVideoPipeline.from_pretrained(OUT / "wan_t2v", expand_timesteps=True, image_encoder=None, image_processor=None)
    case("ti2v", ti2v, latent, **size, image=first)
    ti2v_22 = WanImageToVideoPipeline.from_pretrained(assembled(scratch / "ti2v", "wan_t2v", "wan_ti2v"), expand_timesteps=True, image_encoder=None,
                                                      image_processor=None)
    case("ti2v_22", ti2v_22, (2, 3, 2, 2), image=Image.open(OUT / "cosmos2_v2w" / "first.png"), **size | dict(width=32))
    euler = WanPipeline.from_pretrained(OUT / "wan_t2v", scheduler=FlowMatchEulerDiscreteScheduler(shift=5.0))
    case("t2v_euler", euler, latent, **size)
    def with_clip(pipe):
        pipe.encode_image = lambda images, device: torch.cat(
            [pipe.image_encoder(by_pillow(i).float(), output_hidden_states=True).hidden_states[-2] for i in (images if isinstance(images, list) else [images])])
        return pipe
    i2v = with_clip(WanImageToVideoPipeline.from_pretrained(OUT / "wan_i2v"))
    case("i2v", i2v, latent, **size, image=first)
    case("i2v_plain", i2v, latent, **size, image=first, guidance_scale=1.0)
    flf2v = with_clip(WanImageToVideoPipeline.from_pretrained(assembled(scratch / "flf2v", "wan_i2v", "wan_flf2v")))
    case("flf2v", flf2v, latent, **size, image=first, last_image=last)
    a14b = WanPipeline.from_pretrained(assembled(scratch / "a14b", "wan_t2v", "wan_a14b_t2v"))
    case("a14b_t2v", a14b, latent, **size)
    case("a14b_t2v_two", a14b, latent, **size, guidance_scale=4.0, guidance_scale_2=3.0)
    case("a14b_t2v_plain", a14b, latent, **size, guidance_scale=1.0)
    a14b_i2v = WanImageToVideoPipeline.from_pretrained(assembled(scratch / "a14b_i2v", "wan_t2v", "wan_a14b_i2v"), image_encoder=None, image_processor=None)
    case("a14b_i2v", a14b_i2v, latent, **size, image=first)


def certain(pipe):
    """The picture's latent is the middle of what the encoder says; the pipelines draw from it."""
    encode = pipe.vae.encode
    pipe.vae.encode = lambda video: types.SimpleNamespace(latents=encode(video).latent_dist.mode())
    return pipe


def cosmos(scratch):
    size, picture = dict(height=32, width=32), Image.open(OUT / "cosmos2_v2w" / "first.png")
    guarded = dict(safety_checker=NoGuardrail())
    scaled = lambda name: tensors.__setitem__(f"{name}.latent", tensors[f"{name}.latent"] / 0.5)  # Kinora's latents are the autoencoder's
    first = CosmosTextToWorldPipeline.from_pretrained(OUT / "cosmos_t2w", **guarded)
    for name, call in (("t2w", dict(negative_prompt=NEGATIVE, guidance_scale=3.0)), ("t2w_plain", dict(guidance_scale=1.0))):
        case(name, first, (4, 3, 8, 8), **size, num_frames=9, **call)
        scaled(name)
    v2w = certain(CosmosVideoToWorldPipeline.from_pretrained(assembled(scratch / "v2w", "cosmos_t2w", "cosmos_v2w"), **guarded))
    for name, call in (("v2w", dict(negative_prompt=NEGATIVE, guidance_scale=3.0)), ("v2w_plain", dict(guidance_scale=1.0))):
        case(name, v2w, (4, 3, 8, 8), **size, num_frames=9, image=picture, augment_sigma=0.0, **call)  # which is drawn at every step
        scaled(name)
    t2i = Cosmos2TextToImagePipeline.from_pretrained(OUT / "cosmos2_t2i", **guarded)
    case("cosmos2_t2i", t2i, (2, 1, 4, 4), **size, negative_prompt="", guidance_scale=3.0)
    case("cosmos2_t2i_plain", t2i, (2, 1, 4, 4), **size, guidance_scale=1.0)
    second = certain(Cosmos2VideoToWorldPipeline.from_pretrained(OUT / "cosmos2_v2w", **guarded))
    case("cosmos2_v2w", second, (2, 3, 4, 4), **size, num_frames=9, image=picture, negative_prompt=NEGATIVE, guidance_scale=3.0)
    case("cosmos2_v2w_plain", second, (2, 3, 4, 4), **size, num_frames=9, image=picture, guidance_scale=1.0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_parts()
    with tempfile.TemporaryDirectory() as folder:
        wan(pathlib.Path(folder))
        cosmos(pathlib.Path(folder))
    save_file(tensors, OUT / "pipeline_noise.safetensors")
