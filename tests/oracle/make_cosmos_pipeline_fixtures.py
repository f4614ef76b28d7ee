"""Writes tests/data/oracle/cosmos_t2w, cosmos2_t2i and cosmos2_v2w: tiny random pipelines in the layout of published folders; and
cosmos_pipeline.safetensors: the latents and pixels that diffusers' CosmosTextToWorldPipeline, Cosmos2TextToImagePipeline and
Cosmos2VideoToWorldPipeline make with them, from Kinora's noise.

Needs torch, torchvision, diffusers 0.42.1, transformers 5.23, tokenizers, pillow, numpy and safetensors. The guardrail, a download of
its own, is replaced by one that lets everything pass, as in diffusers' tests: the weights are random.
"""
import json
import types

import numpy as np
import torch
from diffusers import (AutoencoderKLCosmos, AutoencoderKLWan, Cosmos2TextToImagePipeline, Cosmos2VideoToWorldPipeline, CosmosTextToWorldPipeline, CosmosTransformer3DModel,
                       EDMEulerScheduler, FlowMatchEulerDiscreteScheduler)
from PIL import Image
from provenance import save_file
from transformers import T5Config, T5EncoderModel

from make_wan_pipeline_fixtures import NEGATIVE, OUT, PROMPT, VAE, filled, noise, saved, tokenizer

HEIGHT, WIDTH, FRAMES, STEPS, SEED, TOKENS = 32, 32, 9, 5, 3, 8
T5 = dict(vocab_size=12, d_model=10, d_kv=4, d_ff=12, num_layers=2, num_heads=2)
COSMOS_VAE = dict(latent_channels=4, encoder_block_out_channels=[2, 3, 3, 4], decode_block_out_channels=[2, 3, 3, 4], attention_resolutions=[32],
                  patch_size=2, num_layers=1, spatial_compression_ratio=4, temporal_compression_ratio=4,
                  latents_mean=[0.1, -0.2, 0.3, 0.0, 0.2, -0.1, 0.4, 0.1, 0.0, -0.3, 0.2, 0.1],
                  latents_std=[0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 0.4, 0.5, 0.6, 0.7])
TRANSFORMER = dict(num_attention_heads=2, attention_head_dim=12, num_layers=2, mlp_ratio=2.0, text_embed_dim=10, adaln_lora_dim=6,
                   max_size=(8, 8, 8), patch_size=(1, 2, 2), concat_padding_mask=True)


class NoGuardrail(torch.nn.Module):
    device, dtype = torch.device("cpu"), torch.float32

    def check_text_safety(self, prompt):
        return True

    def check_video_safety(self, video):
        return video


def pipeline(kind, **parts):
    torch.manual_seed(0)
    text = filled(T5EncoderModel(T5Config(**T5)))
    pipe = kind(tokenizer=tokenizer(), text_encoder=text, safety_checker=NoGuardrail(), **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def write(pipe, name):
    guardrail = pipe.safety_checker
    pipe.register_modules(safety_checker=None)
    saved(pipe, name)
    pipe.safety_checker = guardrail


def made(pipe, latent, decoded, **more):
    """latent: size of the noise. decoded: latents of the pipeline -> of the autoencoder, in its own scale."""
    start = noise(latent, SEED, 0, "generate.noise").float()
    out = []
    for kind in ("latent", "np"):
        result = pipe(prompt=PROMPT, negative_prompt=NEGATIVE, height=HEIGHT, width=WIDTH, num_inference_steps=STEPS, guidance_scale=3.0,
                      latents=start.clone(), output_type=kind, max_sequence_length=TOKENS, **more)
        out.append(result.images if hasattr(result, "images") else result.frames)
    pixels = torch.from_numpy((np.asarray(out[1]).reshape(-1, HEIGHT, WIDTH, 3) * 255).round().astype(np.uint8))
    return {"latent": decoded(out[0].float()).contiguous(), "frames": pixels[:: max(1, (len(pixels) - 1) // 2)].contiguous()}


def main():
    first = pipeline(CosmosTextToWorldPipeline, vae=filled(AutoencoderKLCosmos(**COSMOS_VAE)),
                     transformer=filled(CosmosTransformer3DModel(**TRANSFORMER, in_channels=4, out_channels=4, rope_scale=(2.0, 1.0, 1.0),
                                                                 extra_pos_embed_type="learnable")),
                     scheduler=EDMEulerScheduler(sigma_min=0.002, sigma_max=80, sigma_data=0.5, final_sigmas_type="sigma_min"))
    write(first, "cosmos_t2w")
    # Kinora's latents are the autoencoder's, over which it has its mean and deviation.
    tensors = {f"t2w.{k}": v for k, v in made(first, (1, 4, 3, HEIGHT // 4, WIDTH // 4), lambda z: z / 0.5, num_frames=FRAMES, fps=30).items()}

    second = pipeline(Cosmos2TextToImagePipeline, vae=filled(AutoencoderKLWan(**VAE)),
                      transformer=filled(CosmosTransformer3DModel(**TRANSFORMER, in_channels=2, out_channels=2, rope_scale=(1.0, 3.0, 3.0),
                                                                  extra_pos_embed_type=None)),
                      scheduler=FlowMatchEulerDiscreteScheduler(use_karras_sigmas=True))
    write(second, "cosmos2_t2i")
    tensors |= {f"t2i.{k}": v for k, v in made(second, (1, 2, 1, HEIGHT // 8, WIDTH // 8), lambda z: z.unsqueeze(2)).items()}
    third = pipeline(Cosmos2VideoToWorldPipeline, vae=filled(AutoencoderKLWan(**VAE)),
                     transformer=filled(CosmosTransformer3DModel(**TRANSFORMER, in_channels=3, out_channels=2, rope_scale=(1.0, 3.0, 3.0),
                                                                 extra_pos_embed_type=None)),
                     scheduler=FlowMatchEulerDiscreteScheduler(use_karras_sigmas=True))
    write(third, "cosmos2_v2w")
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    picture = np.stack([127 + 90 * np.sin(x / 7), 127 + 90 * np.cos(y / 5), 127 + 90 * np.sin((x + y) / 9)], -1).astype(np.uint8)
    Image.fromarray(picture).save(OUT / "cosmos2_v2w" / "first.png")
    encode = third.vae.encode
    third.vae.encode = lambda video: types.SimpleNamespace(latents=encode(video).latent_dist.mode())  # the pipeline draws from it
    tensors |= {f"v2w.{k}": v for k, v in made(third, (1, 2, 3, HEIGHT // 8, WIDTH // 8), lambda z: z, image=Image.fromarray(picture),
                                               num_frames=FRAMES, fps=16).items()}
    for name, t in tensors.items():
        print(name, tuple(t.shape), float(t.float().std()))
    save_file(tensors, OUT / "cosmos_pipeline.safetensors", {"about": json.dumps({"prompt": PROMPT, "negative": NEGATIVE})})


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
