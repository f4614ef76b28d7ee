"""Writes tests/data/oracle/conditions.safetensors: diffusers' Cosmos and Wan transformers with more conditions than they take.

Needs torch, diffusers 0.42.1 and safetensors. A signal is a vector beside the noise level or tokens beside the text, and a level
may be each token's own: here the modules that embed level and text are replaced by ones that say so in a line, and everything
behind them is diffusers'. Weights and inputs are oracle_numbers.py's, all in float64; the file holds outputs, gradients, and for
each case its options and the inputs' shapes as JSON.
"""
import json
import pathlib

import diffusers.models.embeddings
import diffusers.models.normalization
import diffusers.models.transformers.transformer_cosmos as transformer_cosmos
import diffusers.models.transformers.transformer_wan as transformer_wan
import torch
import torch.nn.functional as F
from provenance import save_file

import oracle_numbers as oracle
from make_cosmos_fixtures import options as cosmos_options
from oracle_float64 import in_float64

CASTS = (diffusers.models.embeddings, diffusers.models.normalization, transformer_cosmos, transformer_wan)
COSMOS = dict(num_attention_heads=2, attention_head_dim=12, num_layers=2, mlp_ratio=2.0, adaln_lora_dim=6, text_embed_dim=10, max_size=(8, 8, 8),
              patch_size=(1, 2, 2), in_channels=3, out_channels=2, rope_scale=(1.0, 1.0, 1.0), extra_pos_embed_type=None, concat_padding_mask=False)
WAN = dict(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=3, out_channels=3, text_dim=5, freq_dim=8,
           ffn_dim=20, num_layers=2)
B, F3, N3, N2 = 2, 3, 3 * 2 * 3, 2 * 2 * 3  # batch, frames, tokens of 3 and of 2 frames
# model, changes of its configuration, signals, shapes of what is given beside latent and text
CASES = {
    "cosmos.vectors": (COSMOS, {}, ["camera:3", "fps:1"], dict(timestep=(B,), camera=(B, 3), fps=(B,))),
    "cosmos.by_frame": (COSMOS, {}, ["camera:3"], dict(timestep=(B,), camera=(B, F3, 3))),
    "cosmos.tokens": (COSMOS, {}, ["image:6:tokens"], dict(timestep=(B, F3), image=(B, 4, 6), text_mask=(B, 5))),
    "cosmos.levels": (COSMOS, dict(extra_pos_embed_type="learnable", concat_padding_mask=True), [], dict(timestep=(B, N3))),
    "cosmos.all": (COSMOS, dict(patch_size=(2, 2, 2), in_channels=4, num_layers=1), ["camera:3", "pose:4", "image:6:tokens"],
                   dict(timestep=(B, N2), camera=(B, 2, 3), pose=(B, N2, 4), image=(B, 2, 6), condition_mask=(B, 1, 4, 4, 6))),
    "wan.vectors": (WAN, {}, ["camera:3", "fps:1"], dict(timestep=(B,), camera=(B, 3), fps=(B,))),
    "wan.by_frame": (WAN, {}, ["camera:3"], dict(timestep=(B,), camera=(B, F3, 3))),
    "wan.tokens": (WAN, {}, ["depth:6:tokens"], dict(timestep=(B, F3), depth=(B, 4, 6))),
    "wan.all": (WAN, dict(patch_size=(2, 2, 2), num_layers=1), ["camera:3", "pose:4", "depth:6:tokens"],
                dict(timestep=(B, N2), camera=(B, 2, 3), pose=(B, N2, 4), depth=(B, 2, 6))),
    # diffusers takes the last 512 tokens for the text's, the others for the image's.
    "wan.i2v": (WAN, dict(in_channels=5, image_dim=4, added_kv_proj_dim=24, num_layers=1), ["camera:3", "depth:6:tokens"],
                dict(timestep=(1,), camera=(1, 18, 3), depth=(1, 3, 6), image=(1, 3, 4), condition=(1, 2, 3, 4, 6), text=(1, 509, 5))),
}
KEPT = ("signals.", "time_embed.norm", "time_embed.t_embedder.linear_1", "norm_out.linear_1", "transformer_blocks.0.attn1.norm_k",
        "transformer_blocks.0.attn2.to_v", "transformer_blocks.0.norm2.linear_1", "learnable_pos_embed.pos_emb_h", "proj_out.bias",
        "condition_embedder.time_embedder.linear_1.bias", "condition_embedder.time_proj.bias", "condition_embedder.text_embedder.linear_1.bias",
        "scale_shift_table", "blocks.0.scale_shift_table", "blocks.0.attn2.add_k_proj.bias", "blocks.0.attn2.to_k.bias")


class Weights(dict):
    def __call__(self, name, *shape):
        return self.setdefault(name, oracle.weight(name, shape).requires_grad_())

    def linear(self, x, name, out):
        return x @ self(f"{name}.weight", out, x.shape[-1]).T + self(f"{name}.bias", out)


class Lambda(torch.nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.forward = forward


def inputs(name, config, shapes):
    frames = 4 if config["patch_size"][0] == 2 else 3
    batch = shapes["timestep"][0]
    channels = config["in_channels"] - (1 if "condition_mask" in shapes else 0) - shapes.get("condition", (0, 0))[1]
    shapes = {"latent": (batch, channels, frames, 4, 6), "text": (batch, 5, config.get("text_embed_dim") or config["text_dim"])} | shapes
    given = {k: oracle.numbers(f"{name}.{k}", s) for k, s in shapes.items()}
    if "text_mask" in given:
        given["text_mask"] = given["text_mask"] > -0.5
    if "condition_mask" in given:
        given["condition_mask"] = (given["condition_mask"] > 0).double()
    if name.startswith("wan"):
        given["timestep"] = 500 + 280 * given["timestep"]
    for k in given:
        if k not in ("timestep", "text_mask", "condition_mask"):
            given[k].requires_grad_()
    return given, shapes


def conditioned(signals, given, width, text_width, tokens, per_frame):
    """-> the timestep of each token, [B, N]; what is added to its embedding, [B, N, width]; what stands beside the text."""
    w = Weights()

    def per_token(x):
        x = x[:, None] if x.dim() == 1 else x
        return x.repeat_interleave(tokens if x.shape[1] == 1 else per_frame if x.shape[1] < tokens else 1, 1)
    extra, beside = 0, []
    for signal in signals:
        name, channels, *kind = signal.split(":")
        v = given[name]
        if kind:
            beside.append(w.linear(v, f"signals.{name}.linear_1", text_width))
            continue
        v = v.reshape(v.shape[0], -1, int(channels))
        extra = extra + per_token(w.linear(F.silu(w.linear(v, f"signals.{name}.linear_1", width)), f"signals.{name}.linear_2", width))
    return w, per_token(given["timestep"]), extra, beside


def cosmos(model, given, level, extra, beside):
    embed = model.time_embed

    def time(hidden, _):
        waves = embed.time_proj(level.flatten()).unflatten(0, level.shape)
        return embed.t_embedder(waves), embed.norm(waves + extra)
    model.time_embed = Lambda(time)
    text, mask = torch.cat([given["text"]] + beside, 1), given.get("text_mask")
    if mask is not None:
        mask = torch.cat([mask, torch.ones(len(mask), text.shape[1] - mask.shape[1], dtype=torch.bool)], 1)
    more = {"condition_mask": given["condition_mask"]} if "condition_mask" in given else {}
    if model.config.concat_padding_mask:
        more["padding_mask"] = torch.zeros(1, 1, 4, 6).double()
    return model(given["latent"], level[:, 0], text, attention_mask=mask, return_dict=False, **more)[0]


def wan(model, given, level, extra, beside):
    embedder = model.condition_embedder
    of_time, of_text = embedder.time_embedder, embedder.text_embedder
    embedder.time_embedder = Lambda(lambda waves: of_time(waves) + extra)
    embedder.time_embedder.register_parameter("like", torch.nn.Parameter(torch.zeros(1).double()))
    embedder.text_embedder = Lambda(lambda text: torch.cat([of_text(text)] + beside, 1))
    latent = torch.cat([given[k] for k in ("latent", "condition") if k in given], 1)
    return model(latent, level, given["text"], encoder_hidden_states_image=given.get("image"), return_dict=False)[0]


def run(name, base, changes, signals, shapes):
    config = base | changes
    given, shapes = inputs(name, config, shapes)
    of_cosmos = name.startswith("cosmos")
    with in_float64(*CASTS):
        model = oracle.fill((transformer_cosmos.CosmosTransformer3DModel if of_cosmos else transformer_wan.WanTransformer3DModel)(**config))
        parameters = dict(model.named_parameters())
        width = config["num_attention_heads"] * config["attention_head_dim"]
        frames = shapes["latent"][2] // config["patch_size"][0]
        w, level, extra, beside = conditioned(signals, given, width, config["text_embed_dim"] if of_cosmos else width, frames * 6, 6)
        output = (cosmos if of_cosmos else wan)(model, given, level, extra, beside)
    output.backward(oracle.numbers(f"{name}.grad_output", tuple(output.shape)))
    tensors = {f"{name}.output": output.detach()} | {f"{name}.grad.{k}": t.grad for k, t in given.items() if t.requires_grad}
    tensors |= {f"{name}.grad.param.{k}": p.grad for k, p in (parameters | w).items() if k.startswith(KEPT)}
    chosen = (cosmos_options(config) if of_cosmos else config) | {"signals": signals}
    return tensors, json.dumps({"options": chosen, "shapes": shapes})


if __name__ == "__main__":
    torch.set_num_threads(1)
    tensors, metadata = {}, {}
    for name, case in CASES.items():
        made, metadata[name] = run(name, *case)
        tensors |= made
    path = pathlib.Path(__file__).resolve().parent.parent / "data" / "oracle" / "conditions.safetensors"
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata)
    print(path, path.stat().st_size, "bytes")
