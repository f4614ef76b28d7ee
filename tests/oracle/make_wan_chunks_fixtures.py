"""Writes tests/data/oracle/wan_chunks.safetensors: videos that diffusers' Wan makes chunk after chunk.

Needs torch, diffusers 0.42.1 and safetensors:

    python tests/oracle/make_wan_chunks_fixtures.py

Every step of a chunk runs the whole model over all frames so far: finished frames with timestep 0, the chunk's own with
its level, and a mask of the self-attention by which a frame sees the chunks that the rule lets it see. So nothing is kept
from one call to the next. Weights and noise are oracle_numbers.py's; computed in float64. Metadata, as JSON:
    CASE      options of model/wan, the rule, the number of steps and the sampler's shift
"""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
import diffusers.models.embeddings
import diffusers.models.normalization
import diffusers.models.transformers.transformer_wan as transformer_wan
import torch
from diffusers import WanTransformer3DModel
from provenance import save_file

from oracle_float64 import in_float64
from oracle_numbers import fill, numbers

OUT = HERE.parent / "data" / "oracle"
CASTS = (diffusers.models.embeddings, diffusers.models.normalization, transformer_wan)

MODEL = dict(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=2, out_channels=2, text_dim=12,
             freq_dim=8, ffn_dim=16, num_layers=2, cross_attn_norm=True, eps=1e-6)
# name: what differs from MODEL; frames, chunk, window and sink in chunks (window 0: all), steps, shift
CASES = {
    "wan21": ({}, 9, 3, 0, 0, 3, 3.0),
    "wan21_window": ({}, 11, 2, 2, 1, 4, 5.0),
    "wan22": (dict(cross_attn_norm=False), 8, 2, 1, 1, 2, 5.0),
    "wan22_end": (dict(cross_attn_norm=False, num_layers=3), 7, 4, 1, 0, 1, 1.0),
}


def sees(chunk, other, window, sink):
    """Whether frames of a chunk see those of another. The window counts the own chunk, and the sink comes on top."""
    return other <= chunk and (window == 0 or chunk - other < window or other < sink)


def video(name, config, frames, chunk, window, sink, steps, shift):
    with in_float64(*CASTS):
        model = fill(WanTransformer3DModel(**(MODEL | config)))
    attention = transformer_wan.dispatch_attention_fn
    latent = numbers(f"{name}.noise", (1, 2, frames, 2, 4))
    area = 2  # tokens of a frame
    text = torch.zeros(1, 5, MODEL["text_dim"], dtype=torch.float64)
    levels = [1 - i / steps for i in range(steps + 1)]
    levels = [shift * u / (1 + (shift - 1) * u) for u in levels]
    for first in range(0, frames, chunk):
        end = min(first + chunk, frames)
        chunk_of = torch.arange(end).repeat_interleave(area) // chunk
        mask = torch.tensor([[sees(int(q), int(k), window, sink) for k in chunk_of] for q in chunk_of])

        def masked(query, key, value, attn_mask=None, **others):
            if key.shape[1] == mask.shape[1]:  # the self-attention; the text has 5 tokens
                attn_mask = mask
            return attention(query, key, value, attn_mask=attn_mask, **others)

        transformer_wan.dispatch_attention_fn = masked
        for now, then in zip(levels, levels[1:]):
            timestep = torch.zeros(1, end * area, dtype=torch.float64)
            timestep[:, first * area:] = 1000 * now
            with torch.no_grad(), in_float64(*CASTS):
                velocity = model(latent[:, :, :end], timestep, text, return_dict=False)[0]
            latent[:, :, first:end] += (then - now) * velocity[:, :, first:end]
    transformer_wan.dispatch_attention_fn = attention
    options = {k: v for k, v in (MODEL | config).items()}
    return latent, {"options": options, "frames": frames, "chunk": chunk, "window": window, "sink": sink, "steps": steps,
                    "shift": shift}


if __name__ == "__main__":
    torch.set_num_threads(1)
    tensors, metadata = {}, {}
    for name, case in CASES.items():
        tensors[f"{name}.latent"], described = video(name, *case)
        metadata[name] = json.dumps(described)
    path = OUT / "wan_chunks.safetensors"
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata)
    print(path, path.stat().st_size, "bytes", {k: float(t.abs().max()) for k, t in tensors.items()})
