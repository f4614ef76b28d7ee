"""Writes tests/data/oracle/peft_dit.safetensors and peft_dit_{a,b,c}/: LoRA adapters on a tiny CosmosTransformer3DModel, saved
and computed by PEFT.

Needs torch, diffusers 0.42.1, peft and safetensors. The base's weights are numbers.weight() of their names, A and B those of
MODULE.lora_A.weight and MODULE.lora_B.weight; the fixture holds results in float64: output, gradients of the latent and of
some A and B. Options for model/cosmos are in the metadata, the same for every case; the folders are as save_pretrained() left them.
"""
import json
import pathlib
import shutil

import torch
from diffusers import CosmosTransformer3DModel
from peft import LoraConfig, get_peft_model
from provenance import save_file

import make_cosmos_fixtures as cosmos
import oracle_numbers as ours
from oracle_float64 import in_float64


CONFIG = dict(num_attention_heads=2, attention_head_dim=12, num_layers=2, mlp_ratio=1.5, adaln_lora_dim=6, text_embed_dim=10,
              max_size=(8, 16, 16), extra_pos_embed_type=None, concat_padding_mask=False, in_channels=3, out_channels=3,
              patch_size=(1, 2, 2), rope_scale=(2.0, 1.0, 3.0))
CASES = {
    "a": dict(r=3, lora_alpha=5, target_modules=["to_q", "to_v", "to_out.0"]),
    # A regular expression, and the other scale.
    "b": dict(r=4, lora_alpha=2, use_rslora=True, target_modules=r".*\.(attn1\.to_k|attn2\.to_v|ff\.net\.(0\.proj|2)|linear_1)"),
    # Modules with ranks and scales of their own.
    "c": dict(r=2, lora_alpha=3, target_modules=["to_q", "net.2"], rank_pattern={"attn2.to_q": 5}, alpha_pattern={"net.2": 7}),
}


def main():
    tensors = {}
    for name, case in CASES.items():
        model = ours.fill(CosmosTransformer3DModel(**CONFIG))
        peft = get_peft_model(model, LoraConfig(**case)).double()
        for key, p in peft.named_parameters():
            if "lora_" in key:
                p.data = ours.weight(key.removeprefix("base_model.model.").replace(".default", ""), tuple(p.shape))
        latent = ours.numbers("latent", (2, 3, 2, 4, 6)).requires_grad_()
        text, timestep = ours.numbers("text", (2, 5, 10)), torch.tensor([0.25, -1.0], dtype=torch.float64)
        with in_float64(*cosmos.CASTS):
            output = peft(hidden_states=latent, timestep=timestep, encoder_hidden_states=text, return_dict=False,
                          padding_mask=torch.zeros(1, 1, 4, 6, dtype=torch.float64))[0]
        output.backward(ours.numbers("grad_output", output.shape))
        tensors |= {f"{name}.output": output.detach(), f"{name}.grad.latent": latent.grad}
        for key, p in peft.named_parameters():
            if p.grad is not None:
                assert "lora_" in key, key
                tensors[f"{name}.grad.param." + key.removeprefix("base_model.model.").replace(".default", "")] = p.grad.clone()
        folder = cosmos.OUT / f"peft_dit_{name}"
        shutil.rmtree(folder, ignore_errors=True)
        peft.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
    options = json.dumps(cosmos.options(CONFIG))
    save_file({k: v.contiguous() for k, v in tensors.items()}, cosmos.OUT / "peft_dit.safetensors", {n: options for n in CASES})


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
