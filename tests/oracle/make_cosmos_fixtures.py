"""Writes tests/data/oracle/cosmos_dit.safetensors: tiny random diffusers models, their inputs and outputs.

Needs torch, diffusers 0.42.1 and safetensors (the transformer's padding mask also torchvision):

    python tests/oracle/make_cosmos_fixtures.py

Weights are float32, stored as `weight.NAME`. Each is multiplied out in float64 for the outputs, so an implementation that
computes in float64 must agree to 1e-10 and one that computes in float32 to 1e-5. diffusers casts parts of the transformer
to float32 whatever its dtype; `in_float64` makes it use float64 there. Options for Kinora
are in the files' metadata, a case each.
"""
import contextlib
import json
import pathlib

import diffusers.models.embeddings
import diffusers.models.normalization
import diffusers.models.transformers.transformer_cosmos as transformer_cosmos
import torch
from diffusers import CosmosTransformer3DModel
from safetensors.torch import save_file

# Enough parameters to see every path of the backward.
GRADIENTS = ("patch_embed", "learnable", "time_embed.t_embedder.linear_1", "time_embed.norm", "transformer_blocks.0.attn1.to_q",
             "transformer_blocks.0.attn1.norm_k", "transformer_blocks.1.attn2.to_k", "transformer_blocks.1.norm3.linear_1", "proj_out")
OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "oracle"


class TorchInFloat64:
    """The torch module with another idea of what float32 is."""

    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def in_float64():
    modules = [diffusers.models.embeddings, diffusers.models.normalization, transformer_cosmos]
    to_float = torch.Tensor.float
    for module in modules:
        module.torch = TorchInFloat64()
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        for module in modules:
            module.torch = torch
        torch.Tensor.float = to_float


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
    """diffusers' configuration in the options of model/dit."""
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
        with in_float64():
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
    save(tensors, "cosmos_dit.safetensors", metadata)


def save(tensors, name, metadata):
    OUT.mkdir(parents=True, exist_ok=True)
    save_file({k: v.contiguous() for k, v in tensors.items()}, OUT / name, metadata)
    print(OUT / name, (OUT / name).stat().st_size, "bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformer()
