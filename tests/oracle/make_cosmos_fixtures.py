"""Writes tests/data/oracle/cosmos_dit.safetensors: tiny random diffusers models, their inputs and outputs.

Needs torch, diffusers 0.42.1 and safetensors (the transformer's padding mask also torchvision):

    python tests/oracle/make_cosmos_fixtures.py

Weights are float32, stored as `weight.NAME`; of the transformer's further cases only results are stored, their weights and
inputs are those of oracle_numbers.py. Each is multiplied out in float64 for the outputs, so an implementation that
computes in float64 must agree to 1e-10 and one that computes in float32 to 1e-5. diffusers casts parts of the transformer
to float32 whatever its dtype; `in_float64` makes it use float64 there. Options for Kinora
are in the files' metadata, a case each.
"""
import json
import math
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
import diffusers.models.embeddings
import diffusers.models.normalization
import diffusers.models.transformers.transformer_cosmos as transformer_cosmos
import torch
from diffusers import CosmosTransformer3DModel
from provenance import save_file

# Enough parameters to see every path of the backward.
GRADIENTS = ("patch_embed", "learnable", "time_embed.t_embedder.linear_1", "time_embed.norm", "transformer_blocks.0.attn1.to_q",
             "transformer_blocks.0.attn1.norm_k", "transformer_blocks.1.attn2.to_k", "transformer_blocks.1.norm3.linear_1", "proj_out")
OUT = HERE.parent / "data" / "oracle"
import oracle_numbers as oracle
from oracle_float64 import in_float64
# Whose code says float32.
CASTS = (diffusers.models.embeddings, diffusers.models.normalization, transformer_cosmos)


def randomise(model, gain):
    """Numbers that leave nothing at zero or one: float32 values, computed with in float64."""
    generator = torch.Generator().manual_seed(1)
    for name, p in sorted(model.named_parameters()):
        noise = torch.randn(p.shape, generator=generator)
        fan_in = p[0].numel() if p.dim() > 1 else 0
        value = noise * gain / fan_in**0.5 if fan_in else (1 if name.endswith("norm.weight") or "norm_" in name else 0) + 0.1 * noise
        p.data = value.double()
    model = model.double().eval()
    for module in model.modules():  # diffusers holds 1/sqrt(2) in float32
        if getattr(module, "patch_method", "") == "haar":
            module.wavelets = torch.full([2], 0.5, dtype=torch.float64).sqrt()
    return model


def weights(model, prefix):
    return {f"{prefix}weight.{k}": v.detach().float().contiguous() for k, v in model.named_parameters()}


def random(*shape, seed):
    """float32 values, so that the float32 and the float64 case start from the same numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def options(config):
    """diffusers' configuration in the options of model/cosmos."""
    names = {"num_attention_heads": "heads", "attention_head_dim": "head_size", "num_layers": "layers",
             "adaln_lora_dim": "adaln_lora", "text_embed_dim": "text_size"}
    out = {names.get(k, k): v for k, v in config.items() if k not in ("patch_size", "extra_pos_embed_type")}
    out["patch_time"], out["patch_space"] = config["patch_size"][:2]
    out["learnable_pos_embed"] = config["extra_pos_embed_type"] == "learnable"
    return out


def transformer():
    common = dict(num_attention_heads=2, attention_head_dim=12, num_layers=2, mlp_ratio=1.5, adaln_lora_dim=6,
                  text_embed_dim=10, max_size=(8, 16, 16), extra_pos_embed_type=None, concat_padding_mask=False)
    cases = {
        "a": dict(common, in_channels=3, out_channels=3, patch_size=(1, 2, 2), rope_scale=(2.0, 1.0, 3.0)),
        # Every option that the first leaves off.
        "b": dict(common, in_channels=4, out_channels=2, patch_size=(2, 2, 2), rope_scale=(1.0, 2.0, 0.8),
                  extra_pos_embed_type="learnable", concat_padding_mask=True),
    }
    tensors, metadata = {}, {}
    for name, config in cases.items():
        model = randomise(CosmosTransformer3DModel(**config), gain=0.7)
        B, T, H, W, L = 2, 4, 6, 8, 5
        latent = random(B, config["in_channels"], T, H, W, seed=4).requires_grad_()
        text = random(B, L, config["text_embed_dim"], seed=5).requires_grad_()
        mask = torch.ones(B, L, dtype=torch.bool)
        mask[1, 3:] = False
        timestep = torch.tensor([0.25, -1.0], dtype=torch.float64)
        per_frame = random(B, T, seed=6)
        padding = torch.zeros(1, 1, 2 * H, 2 * W, dtype=torch.float64)
        padding[..., W:] = 1
        grad = random(B, config["out_channels"], T, H, W, seed=7)
        more = dict(encoder_hidden_states=text, attention_mask=mask, return_dict=False)
        if config["concat_padding_mask"]:
            more["padding_mask"] = padding
            tensors[f"{name}.padding_mask"] = padding.float()
        with in_float64(*CASTS):
            output = model(latent, timestep, **more)[0]
            output.backward(grad)
            with_fps = model(latent, timestep, fps=30, **more)[0]
            if config["patch_size"][0] == 1:
                frames = model(latent, per_frame.view(B, 1, T, 1, 1), **more)[0]
                tensors |= {f"{name}.timestep_per_frame": per_frame.float(), f"{name}.output_per_frame": frames.detach()}
        tensors |= weights(model, f"{name}.")
        tensors |= {f"{name}.latent": latent.detach().float(), f"{name}.text": text.detach().float(), f"{name}.text_mask": mask,
                    f"{name}.timestep": timestep.float(), f"{name}.output": output.detach(), f"{name}.grad_output": grad.float(),
                    f"{name}.output_30fps": with_fps.detach(), f"{name}.grad.latent": latent.grad, f"{name}.grad.text": text.grad}
        tensors |= {f"{name}.grad.param.{k}": p.grad.contiguous() for k, p in model.named_parameters()
                    if k.startswith(GRADIENTS)}
        metadata[name] = json.dumps(options(config))
    more, of_more = generated_transformers()
    metadata |= of_more
    metadata["counts"] = json.dumps(published_counts())
    metadata["keys.predict1"], metadata["keys.predict2"] = json.dumps(predict1_keys()), json.dumps(predict2_keys())
    save(tensors | more, "cosmos_dit.safetensors", metadata)


def log_variance(timestep, value):
    """cosmos-predict1's learnt log-variance: linear(sqrt(2) cos(t freqs + phases))."""
    freqs, phases, weight = (value(f"logvar.{n}", s) for n, s in (("0.freqs", (128,)), ("0.phases", (128,)), ("1.weight", (1, 128))))
    return (math.sqrt(2) * torch.cos(timestep[..., None] * freqs + phases)) @ weight[0]


def generated_transformers():
    """Tiny forms of the published layouts and corners of the options; weights and inputs by oracle_numbers.py."""
    common = dict(num_attention_heads=2, attention_head_dim=12, num_layers=2, mlp_ratio=2.0, adaln_lora_dim=6, text_embed_dim=10,
                  max_size=(8, 16, 16), patch_size=(1, 2, 2), in_channels=4, out_channels=3)
    learnable = dict(extra_pos_embed_type="learnable", concat_padding_mask=True)
    plain = dict(extra_pos_embed_type=None, concat_padding_mask=True)
    cases = {
        "predict1-7B": (dict(common, **learnable, rope_scale=(2.0, 1.0, 1.0)), dict(condition=True, padding=True, fps=16)),
        "predict1-14B": (dict(common, **learnable, rope_scale=(2.0, 2.0, 2.0), attention_head_dim=14, num_attention_heads=3, num_layers=1),
                         dict(condition=True, padding=True, fps=30, mask=True, frames=True)),
        "predict2-2B": (dict(common, **plain, rope_scale=(1.0, 3.0, 3.0), num_layers=3), dict(condition=True, padding=True, frames=True)),
        "predict2-14B": (dict(common, **plain, rope_scale=(20 / 24, 2.0, 2.0), attention_head_dim=20), dict(condition=True, mask=True)),
        # No mask channels, tokens of one pixel, one frame.
        "image": (dict(common, extra_pos_embed_type=None, concat_padding_mask=False, patch_size=(1, 1, 1), in_channels=3,
                       rope_scale=(1.0, 4.0, 4.0), mlp_ratio=4.0), dict(shape=(1, 4, 4))),
    }
    compared = ("learnable_pos_embed.pos_emb_h", "time_embed.norm", "transformer_blocks.0.attn1.norm_k",
                "transformer_blocks.0.attn2.to_v", "transformer_blocks.0.norm2.linear_1", "proj_out")
    tensors, metadata = {}, {}
    for name, (config, given) in cases.items():
        model = oracle.fill(CosmosTransformer3DModel(**config))
        B, (T, H, W), L = 2, given.get("shape", (3, 4, 6)), 5
        number = lambda what, *shape: oracle.numbers(f"{name}.{what}", shape)
        latent = number("latent", B, config["in_channels"] - given.get("condition", False), T, H, W).requires_grad_()
        text = number("text", B, L, config["text_embed_dim"]).requires_grad_()
        timestep = number("timestep", B, T) if given.get("frames") else number("timestep", B)
        more = dict(encoder_hidden_states=text, return_dict=False)
        if given.get("condition"):
            more["condition_mask"] = (number("condition_mask", B, 1, T, H, W) > 0).double()
        if config["concat_padding_mask"]:
            more["padding_mask"] = (number("padding_mask", 1, 1, 2 * H, 2 * W) > 0).double() if given.get("padding") else torch.zeros(1, 1, H, W).double()
        if given.get("mask"):
            more["attention_mask"] = number("text_mask", B, L) > -0.5
        if "fps" in given:
            more["fps"] = given["fps"]
        grad = number("grad_output", B, config["out_channels"], T, H, W)
        with in_float64(*CASTS):
            output = model(latent, timestep.view(B, 1, T, 1, 1) if given.get("frames") else timestep, **more)[0]
            output.backward(grad)
        tensors |= {f"{name}.output": output.detach(), f"{name}.grad.latent": latent.grad, f"{name}.grad.text": text.grad,
                    f"{name}.logvar": log_variance(timestep, oracle.weight)}
        tensors |= {f"{name}.grad.param.{k}": p.grad.contiguous() for k, p in model.named_parameters() if k.startswith(compared)}
        metadata[name] = json.dumps({"options": options(config) | ({"base_fps": 24.0} if "fps" in given else {}), "given": given})
    return tensors, metadata


def published_counts():
    """Parameters of the published networks (video2world: 17 channels in), counted without memory."""
    common = dict(in_channels=17, out_channels=16, attention_head_dim=128, mlp_ratio=4.0, text_embed_dim=1024, adaln_lora_dim=256,
                  max_size=(128, 240, 240), patch_size=(1, 2, 2), concat_padding_mask=True)
    out = {}
    for name, layers, heads, learnable in (("predict1-7B", 28, 32, "learnable"), ("predict1-14B", 36, 40, "learnable"),
                                           ("predict2-2B", 28, 16, None), ("predict2-14B", 36, 40, None)):
        with torch.device("meta"):
            model = CosmosTransformer3DModel(**common, num_layers=layers, num_attention_heads=heads, extra_pos_embed_type=learnable)
        out[name] = sum(p.numel() for p in model.parameters())
    return out


def predict1_keys(blocks=2):
    """Keys of a cosmos-predict1 checkpoint (networks/general_dit.py), and diffusers' names; empty: dropped."""
    out = {"x_embedder.proj.1.weight": "patch_embed.proj.weight", "pos_embedder.seq": "", "affline_norm.weight": "time_embed.norm.weight",
           "affline_norm._extra_state": "", "final_layer.linear.weight": "proj_out.weight", "logvar.0.freqs": "logvar.0.freqs",
           "logvar.0.phases": "logvar.0.phases", "logvar.1.weight": "logvar.1.weight"}
    out |= {f"extra_pos_embedder.pos_emb_{a}": f"learnable_pos_embed.pos_emb_{a}" for a in "hwt"}
    for n in (1, 2):
        out[f"t_embedder.1.linear_{n}.weight"] = f"time_embed.t_embedder.linear_{n}.weight"
        out[f"final_layer.adaLN_modulation.{n}.weight"] = f"norm_out.linear_{n}.weight"
    for i in range(blocks):
        for j in range(3):
            old, new = f"blocks.block{i}.blocks.{j}", f"transformer_blocks.{i}"
            out |= {f"{old}.adaLN_modulation.{n}.weight": f"{new}.norm{j + 1}.linear_{n}.weight" for n in (1, 2)}
            if j == 2:
                out |= {f"{old}.block.layer1.weight": f"{new}.ff.net.0.proj.weight", f"{old}.block.layer2.weight": f"{new}.ff.net.2.weight"}
                continue
            attn = f"{new}.attn{j + 1}"
            out |= {f"{old}.block.attn.to_{a}.0.weight": f"{attn}.to_{a}.weight" for a in "qkv"}
            out |= {f"{old}.block.attn.to_{a}.1.weight": f"{attn}.norm_{a}.weight" for a in "qk"}
            out |= {f"{old}.block.attn.to_{a}.1._extra_state": "" for a in "qk"}
            out |= {f"{old}.block.attn.to_out.0.weight": f"{attn}.to_out.0.weight", f"{old}.block.attn.attn_op._extra_state": ""}
    return out


def predict2_keys(blocks=2):
    """Keys of a cosmos-predict2 checkpoint (models/text2image_dit.py), and diffusers' names; empty: dropped."""
    out = {"x_embedder.proj.1.weight": "patch_embed.proj.weight", "pos_embedder.seq": "", "pos_embedder.dim_spatial_range": "",
           "pos_embedder.dim_temporal_range": "", "t_embedding_norm.weight": "time_embed.norm.weight", "t_embedding_norm._extra_state": "",
           "final_layer.linear.weight": "proj_out.weight"}
    out |= {f"accum_{what}": "" for what in ("video_sample_counter", "image_sample_counter", "iteration", "train_in_hours")}
    for n in (1, 2):
        out[f"t_embedder.1.linear_{n}.weight"] = f"time_embed.t_embedder.linear_{n}.weight"
        out[f"final_layer.adaln_modulation.{n}.weight"] = f"norm_out.linear_{n}.weight"
    for i in range(blocks):
        old, new = f"blocks.{i}", f"transformer_blocks.{i}"
        out |= {f"{old}.mlp.layer1.weight": f"{new}.ff.net.0.proj.weight", f"{old}.mlp.layer2.weight": f"{new}.ff.net.2.weight"}
        for j, part in enumerate(("self_attn", "cross_attn", "mlp"), 1):
            out |= {f"{old}.adaln_modulation_{part}.{n}.weight": f"{new}.norm{j}.linear_{n}.weight" for n in (1, 2)}
            if part == "mlp":
                continue
            out |= {f"{old}.{part}.{a}_proj.weight": f"{new}.attn{j}.to_{a}.weight" for a in "qkv"}
            out |= {f"{old}.{part}.{a}_norm.weight": f"{new}.attn{j}.norm_{a}.weight" for a in "qk"}
            out |= {f"{old}.{part}.{a}_norm._extra_state": "" for a in "qk"}
            out |= {f"{old}.{part}.output_proj.weight": f"{new}.attn{j}.to_out.0.weight", f"{old}.{part}.attn_op._extra_state": ""}
    return out


def save(tensors, name, metadata):
    OUT.mkdir(parents=True, exist_ok=True)
    save_file({k: v.contiguous() for k, v in tensors.items()}, OUT / name, metadata)
    print(OUT / name, (OUT / name).stat().st_size, "bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformer()
