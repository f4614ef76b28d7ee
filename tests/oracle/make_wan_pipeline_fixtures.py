"""Writes tests/data/oracle/wan_t2v and wan_i2v: tiny random pipelines in the layout of published folders; wan_a14b_t2v and
wan_a14b_i2v: the two experts of Wan 2.2's, whose other parts are wan_t2v's; and wan_pipeline.safetensors: the latents and pixels that
diffusers' WanPipeline and WanImageToVideoPipeline make with them, from Kinora's noise.

Needs torch, torchvision, diffusers 0.42.1, transformers 5.23, tokenizers, pillow, numpy and safetensors.
"""
import json
import math
import pathlib
import shutil

import numpy as np
import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanImageToVideoPipeline, WanPipeline, WanTransformer3DModel
from PIL import Image
from provenance import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (CLIPImageProcessor, CLIPVisionConfig, CLIPVisionModelWithProjection, PreTrainedTokenizerFast, UMT5Config,
                          UMT5EncoderModel)

import oracle_numbers

OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "oracle"
HEIGHT, WIDTH, FRAMES, STEPS, SEED = 32, 48, 9, 4, 3
PROMPT, NEGATIVE = "red sea", "blurry blue"
VAE = dict(base_dim=2, z_dim=2, dim_mult=[1, 1, 1, 1], num_res_blocks=1, latents_mean=[0.3, -0.2], latents_std=[1.5, 0.5])
TRANSFORMER = dict(num_attention_heads=2, attention_head_dim=6, in_channels=2, out_channels=2, text_dim=10, freq_dim=32, ffn_dim=24, num_layers=2)
UMT5 = dict(vocab_size=12, d_model=10, d_kv=4, d_ff=12, num_layers=1, num_heads=2, feed_forward_proj="gated-gelu")
CLIP = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2, hidden_act="gelu", image_size=14, patch_size=7,
            projection_dim=6)


def noise(shape, seed, sample, name):
    """sdk/include/kinora/random.hpp: Philox4x32-10, Box and Muller."""
    m64 = 2**64 - 1

    def mix(z):
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & m64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & m64
        return z ^ (z >> 31)

    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 & m64
    key = mix(seed + mix(h) & m64)
    out = []
    for i in range((math.prod(shape) + 1) // 2):
        c, k = [i & 0xFFFFFFFF, i >> 32, sample & 0xFFFFFFFF, sample >> 32], [key & 0xFFFFFFFF, key >> 32]
        for _ in range(10):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        u = [((c[j + 1] << 20 | c[j] >> 12) + 0.5) * 2**-52 for j in (0, 2)]
        radius = math.sqrt(-2 * math.log(u[0]))
        out += [radius * math.cos(2 * math.pi * u[1]), radius * math.sin(2 * math.pi * u[1])]
    return torch.tensor(out[: math.prod(shape)], dtype=torch.float64).reshape(shape)


def filled(model, prefix=""):
    return oracle_numbers.fill(model, name_of=lambda name: prefix + name).float().requires_grad_(False)


def tokenizer():
    words = ["<pad>", "</s>", "<unk>", "▁red", "▁sea", "▁blue", "▁blurry", "▁", "r", "e", "d", "b"]
    made = Tokenizer(models.Unigram([(w, -float(i)) for i, w in enumerate(words)], unk_id=2))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def parts():
    scheduler = UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, num_train_timesteps=1000, flow_shift=3.0)
    return dict(tokenizer=tokenizer(), text_encoder=filled(UMT5EncoderModel(UMT5Config(**UMT5))), vae=filled(AutoencoderKLWan(**VAE)),
                scheduler=scheduler)


def saved(pipe, name, without=()):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    pipe.save_pretrained(folder)
    for part in without:
        shutil.rmtree(folder / part)
    print(name, sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()), "bytes")


def made(pipe, sample, tokens, **more):
    pipe.set_progress_bar_config(disable=True)
    start = noise((1, 2, 3, HEIGHT // 8, WIDTH // 8), SEED, sample, "generate.noise").float()
    out = {}
    for kind in ("latent", "np"):
        out[kind] = pipe(prompt=PROMPT, negative_prompt=NEGATIVE, height=HEIGHT, width=WIDTH, num_frames=FRAMES, num_inference_steps=STEPS,
                         guidance_scale=3.0, latents=start.clone(), output_type=kind, max_sequence_length=tokens, **more).frames
    pixels = torch.from_numpy((np.asarray(out["np"])[0] * 255).round().astype(np.uint8))
    return {"latent": out["latent"].float().contiguous(), "frames": pixels[[0, 4, 8]].contiguous()}


def by_pillow(image):
    """Without torchvision's other rounding, see make_clip_image_fixtures.py."""
    from make_clip_image_fixtures import by_pillow as processed
    return torch.from_numpy(processed(image, 14, CLIPImageProcessor())).unsqueeze(0)


def experts(**config):
    """Of the same form and other numbers."""
    return {name: filled(WanTransformer3DModel(**dict(TRANSFORMER, **config)), prefix) for name, prefix in
            (("transformer", ""), ("transformer_2", "low."))}


def two_experts(image):
    rest = ("scheduler", "text_encoder", "tokenizer", "vae")
    t2v = WanPipeline(boundary_ratio=0.875, **experts(), **parts())
    saved(t2v, "wan_a14b_t2v", rest)
    i2v = WanImageToVideoPipeline(boundary_ratio=0.9, **experts(in_channels=8), **parts())
    saved(i2v, "wan_a14b_i2v", rest)
    out = {"a14b_t2v": made(t2v, 0, 8, guidance_scale_2=4.5), "a14b_i2v": made(i2v, 0, 512, image=image)}
    print("timesteps", i2v.scheduler.timesteps)
    return out


def main():
    t2v = WanPipeline(transformer=filled(WanTransformer3DModel(**TRANSFORMER)), **parts())
    saved(t2v, "wan_t2v")
    tensors = {f"t2v.{k}": v for k, v in made(t2v, 0, 8).items()}

    i2v = WanImageToVideoPipeline(
        transformer=filled(WanTransformer3DModel(**dict(TRANSFORMER, in_channels=8, image_dim=8, added_kv_proj_dim=12))),
        image_encoder=filled(CLIPVisionModelWithProjection(CLIPVisionConfig(**CLIP))),
        image_processor=CLIPImageProcessor(size={"shortest_edge": 14}, crop_size={"height": 14, "width": 14}), **parts())
    saved(i2v, "wan_i2v")
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    picture = np.stack([127 + 90 * np.sin(x / 7), 127 + 90 * np.cos(y / 5), 127 + 90 * np.sin((x + y) / 9)], -1).astype(np.uint8)
    Image.fromarray(picture).save(OUT / "wan_i2v" / "first.png")
    image = Image.fromarray(picture)
    embeds = i2v.image_encoder(by_pillow(image).float(), output_hidden_states=True).hidden_states[-2]
    i2v.encode_image = lambda image, device: embeds
    tensors |= {f"i2v.{k}": v for k, v in made(i2v, 0, 512, image=image).items()}  # the model's code says 512
    tensors["i2v.image"] = embeds.contiguous()
    tensors |= {f"{name}.{k}": v for name, each in two_experts(image).items() for k, v in each.items()}
    ti2v = WanImageToVideoPipeline(transformer=filled(WanTransformer3DModel(**TRANSFORMER)), expand_timesteps=True, **parts())
    tensors |= {f"ti2v.{k}": v for k, v in made(ti2v, 0, 512, image=image).items()}
    for name, t in tensors.items():
        print(name, tuple(t.shape), float(t.float().std()))
    save_file(tensors, OUT / "wan_pipeline.safetensors", {"about": json.dumps({"prompt": PROMPT, "negative": NEGATIVE})})


if __name__ == "__main__":
    main()
