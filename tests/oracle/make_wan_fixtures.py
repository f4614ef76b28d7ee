"""Writes tests/data/oracle/wan.safetensors: what tiny diffusers Wan transformers compute, and what the published ones are.

Needs torch, diffusers 0.42.1 and safetensors:

    python tests/oracle/make_wan_fixtures.py

Weights and inputs are oracle_numbers.py's, so the file holds outputs, gradients and options only, all computed in float64
(`in_float64`: diffusers casts parts to float32 whatever its dtype). Metadata, as JSON:
    CASE      options of model/wan, and the inputs' shapes
    names     a whole checkpoint's names: Wan's own -> diffusers'
    SIZE      of a published model: number of tensors, of numbers, and a hash of names and shapes
"""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
import diffusers.models.embeddings
import diffusers.models.normalization
import diffusers.models.transformers.transformer_wan as transformer_wan
import torch
from diffusers import WanTransformer3DModel
from diffusers.loaders.single_file_utils import convert_wan_transformer_to_diffusers
from provenance import save_file

import oracle_numbers
from oracle_float64 import in_float64
fill, numbers = oracle_numbers.fill, oracle_numbers.numbers

OUT = HERE.parent / "data" / "oracle"
# Enough parameters to see every path of the backward.
GRADIENTS = ("patch_embedding", "scale_shift_table", "condition_embedder.time_embedder.linear_1.weight",
             "condition_embedder.time_proj.bias", "condition_embedder.text_embedder.linear_1.bias",
             "condition_embedder.image_embedder", "blocks.0.scale_shift_table", "blocks.0.attn1.norm_q", "blocks.0.attn1.to_k.bias",
             "blocks.1.attn2.norm_k", "blocks.1.attn2.to_q.bias", "blocks.1.attn2.add_k_proj.bias",
             "blocks.1.attn2.norm_added_k", "blocks.1.norm2", "blocks.1.ffn.net.0.proj.bias", "proj_out.bias")
# Whose code says float32.
CASTS = (diffusers.models.embeddings, diffusers.models.normalization, transformer_wan)

COMMON = dict(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=3, out_channels=3, text_dim=5,
              freq_dim=8, ffn_dim=20, num_layers=2, cross_attn_norm=True, eps=1e-6)
# name: configuration, channels of the condition, latent's B T H W, image tokens, rows of the timestep
CASES = {
    "t2v": (COMMON, 0, (2, 3, 4, 6), 0, "sample"),
    # Wan 2.2 TI2V: a timestep each token; no norm before cross-attention.
    "ti2v": (COMMON | dict(cross_attn_norm=False), 0, (2, 3, 4, 6), 0, "token"),
    # One a frame, patches over time, other head size (RoPE's axes unequal), no norm of queries and keys.
    "frames": (COMMON | dict(patch_size=(2, 1, 3), attention_head_dim=16, in_channels=2, out_channels=None, eps=1e-3,
                             num_attention_heads=3, qk_norm=None), 0, (2, 4, 2, 6), 0, "frame"),
    "i2v": (COMMON | dict(in_channels=7, image_dim=6, added_kv_proj_dim=24), 4, (2, 2, 4, 4), 5, "sample"),
    # First and last frame: both images' tokens, with a learnt position.
    "flf2v": (COMMON | dict(in_channels=7, image_dim=4, added_kv_proj_dim=24, pos_embed_seq_len=6), 4, (1, 3, 2, 4), 6, "token"),
    # The image's tokens in front of the text's.
    "image_as_text": (COMMON | dict(image_dim=4, num_layers=2, freq_dim=6), 0, (2, 2, 4, 4), 3, "sample"),
}


def make(config):
    with in_float64(*CASTS):  # the table of RoPE
        model = WanTransformer3DModel(**config)
    fill(model)
    if config.get("qk_norm", "") is None:  # diffusers has the key and ignores it; Wan's own code does this
        for module in model.modules():
            if isinstance(module, transformer_wan.WanAttention):
                module.norm_q = module.norm_k = torch.nn.Identity()
    return model


def run(name, config, condition, size, image_tokens, rows):
    """One case: its tensors, and the options of model/wan."""
    B, T, H, W = size
    F, h, w = (n // p for n, p in zip((T, H, W), config["patch_size"]))
    # diffusers takes all but the last 512 tokens for the image's where the image has keys of its own
    L = 512 if config.get("added_kv_proj_dim") else 7
    shapes = {"latent": (B, config["in_channels"] - condition, T, H, W), "text": (B, L, config["text_dim"])}
    if condition:
        shapes["condition"] = (B, condition, T, H, W)
    if image_tokens:
        shapes["image"] = (B, image_tokens, config["image_dim"])
    inputs = {k: numbers(f"{name}.{k}", s).requires_grad_() for k, s in shapes.items()}
    timestep = 500 + 280 * numbers(f"{name}.timestep", {"sample": (B,), "frame": (B, F), "token": (B, F * h * w)}[rows])
    spread = timestep.repeat_interleave(h * w, 1) if rows == "frame" else timestep
    image = inputs.get("image")
    if config.get("pos_embed_seq_len"):
        image = image.reshape(2 * B, -1, config["image_dim"])  # one row an image
    latent = torch.cat([inputs[k] for k in ("latent", "condition") if k in inputs], 1)

    model = make(config)
    with in_float64(*CASTS):
        output = model(latent, spread, inputs["text"], encoder_hidden_states_image=image, return_dict=False)[0]
    output.backward(numbers(f"{name}.grad_output", tuple(output.shape)))
    tensors = {f"{name}.output": output.detach()}
    tensors |= {f"{name}.grad.{k}": t.grad for k, t in inputs.items()}
    tensors |= {f"{name}.grad.param.{k}": p.grad for k, p in model.named_parameters() if k.startswith(GRADIENTS)}
    null = {"out_channels": 0, "qk_norm": ""}
    options = {k: null[k] if v is None else v for k, v in config.items()}
    return tensors, {"options": options, "shapes": shapes | {"timestep": tuple(timestep.shape)}}


def original_names(layers):
    """The names of Wan's own I2V checkpoint of two images (wan/modules/model.py, with 2.1's image parts)."""
    pair = lambda *names: [f"{n}.{p}" for n in names for p in ("weight", "bias")]
    out = pair("patch_embedding", "time_embedding.0", "time_embedding.2", "time_projection.1", "text_embedding.0", "text_embedding.2",
               "head.head", *(f"img_emb.proj.{i}" for i in (0, 1, 3, 4))) + ["head.modulation", "img_emb.emb_pos"]
    for i in range(layers):
        block = pair("norm3", "ffn.0", "ffn.2", *(f"{a}_attn.{n}" for a in ("self", "cross") for n in "qkvo"),
                     "cross_attn.k_img", "cross_attn.v_img")
        block += ["modulation", "cross_attn.norm_k_img.weight"]
        block += [f"{a}_attn.norm_{n}.weight" for a in ("self", "cross") for n in "qk"]
        out += [f"blocks.{i}.{n}" for n in block]
    return out


def names():
    out = {}
    for name in original_names(2):
        (found,) = convert_wan_transformer_to_diffusers({name: torch.zeros(1)})
        out[name] = found
    # not in the converter of single files; as in diffusers' scripts/convert_wan_to_diffusers.py
    out["img_emb.emb_pos"] = "condition_embedder.image_embedder.pos_embed"
    model = WanTransformer3DModel(**CASES["flf2v"][0])
    assert sorted(out.values()) == sorted(k for k, _ in model.named_parameters())
    return out


def published():
    sizes = {
        "1.3B": dict(num_attention_heads=12, ffn_dim=8960, num_layers=30),
        "5B": dict(num_attention_heads=24, ffn_dim=14336, num_layers=30, in_channels=48, out_channels=48),
        "14B": dict(num_attention_heads=40, ffn_dim=13824, num_layers=40),
        "I2V-14B": dict(num_attention_heads=40, ffn_dim=13824, num_layers=40, in_channels=36, image_dim=1280, added_kv_proj_dim=5120),
    }
    out = {}
    for name, config in sizes.items():
        with torch.device("meta"):
            model = WanTransformer3DModel(**config)
        parameters = sorted((k, list(p.shape), p.numel()) for k, p in model.named_parameters())
        h = 0xCBF29CE484222325  # FNV-1a
        for byte in "".join(f"{k} {shape}\n" for k, shape, _ in parameters).encode():
            h = (h ^ byte) * 0x100000001B3 % 2**64
        out[name] = {"tensors": len(parameters), "numbers": sum(n for _, _, n in parameters), "hash": f"{h:016x}"}
    return out


if __name__ == "__main__":
    torch.set_num_threads(1)
    tensors, metadata = {}, {"names": json.dumps(names())}
    for name, case in CASES.items():
        made, described = run(name, *case)
        tensors |= made
        metadata[name] = json.dumps(described)
    metadata |= {k: json.dumps(v) for k, v in published().items()}
    path = OUT / "wan.safetensors"
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata)
    print(path, path.stat().st_size, "bytes", {k: metadata[k] for k in ("1.3B", "5B", "14B", "I2V-14B")})
