"""Writes tests/data/oracle/adapters/: LoRA of the tiny transformer of wan_t2v/, as diffusers, PEFT, ComfyUI and musubi-tuner
write them, and merged.safetensors with what diffusers and PEFT make of its weights, as CASE.NAME, float64.

    python tests/oracle/make_adapter_fixtures.py
    python tests/oracle/make_adapter_fixtures.py --check KINORA   checks that diffusers' load_lora_weights and PEFT read what
                                                                  `kinora convert --to` writes, merged equal within 1e-5

Needs torch, diffusers 0.42.1, peft and safetensors.
"""
import copy
import pathlib
import shutil
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
from diffusers import WanPipeline, WanTransformer3DModel
from diffusers.schedulers import UniPCMultistepScheduler
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from provenance import save_file

import oracle_numbers as ours

DATA = pathlib.Path(__file__).resolve().parent.parent / "data/oracle"
OUT, BASE = DATA / "adapters", DATA / "wan_t2v/transformer"
# diffusers' name of a module: the authors'.
MODULES = {"attn1.to_q": "self_attn.q", "attn1.to_out.0": "self_attn.o", "attn2.to_v": "cross_attn.v", "ffn.net.0.proj": "ffn.0", "ffn.net.2": "ffn.2"}
ALL = {"attn1.to_q": "self_attn.q", "attn1.to_k": "self_attn.k", "attn1.to_v": "self_attn.v", "attn1.to_out.0": "self_attn.o", "attn2.to_q": "cross_attn.q",
       "attn2.to_k": "cross_attn.k", "attn2.to_v": "cross_attn.v", "attn2.to_out.0": "cross_attn.o", "ffn.net.0.proj": "ffn.0", "ffn.net.2": "ffn.2"}


def base():
    return WanTransformer3DModel.from_pretrained(BASE, torch_dtype=torch.float64)


def pairs(case, modules, rank):
    weights = base().state_dict()
    for block in range(2):
        for module in modules:
            name = f"blocks.{block}.{module}"
            out, into = weights[name + ".weight"].shape
            yield name, ours.weight(f"{case}.{name}.lora_A.weight", (rank, into)).float(), ours.weight(f"{case}.{name}.lora_B.weight", (out, rank)).float()


def changed(before, after):
    """The weights that an adapter changed, by diffusers' names."""
    return {k: v.contiguous() for k, v in after.items() if not torch.equal(v, before[k])}


def merged_by_diffusers(path):
    pipe = WanPipeline(tokenizer=None, text_encoder=None, vae=None, scheduler=UniPCMultistepScheduler(), transformer=base())
    before = copy.deepcopy(pipe.transformer.state_dict())
    pipe.load_lora_weights(str(path.parent), weight_name=path.name)
    pipe.fuse_lora()
    pipe.unload_lora_weights()
    return changed(before, pipe.transformer.state_dict())


def merged_by_peft(folder):
    model = base()
    before = copy.deepcopy(model.state_dict())
    return changed(before, PeftModel.from_pretrained(model, folder).merge_and_unload().state_dict())


def authors(name):
    block, module = name.split(".", 2)[:2], name.split(".", 2)[2]
    return ".".join(block) + "." + ALL[module]


def make():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    merged = {}

    # diffusers' training scripts: alpha in the header alone.
    model = base()
    config = LoraConfig(r=2, lora_alpha=6, target_modules=list(MODULES), rank_pattern={"ffn.net.2": 3}, alpha_pattern={"ffn.net.0.proj": 5})
    model.add_adapter(config)
    for name, p in model.named_parameters():
        if "lora_" in name:
            p.data = ours.weight("diffusers." + name.replace(".default", ""), tuple(p.shape)).double()
    layers = {k: v.float() for k, v in get_peft_model_state_dict(model).items()}
    WanPipeline.save_lora_weights(OUT, layers, weight_name="diffusers.safetensors", transformer_lora_adapter_metadata=model.peft_config["default"].to_dict())
    merged |= {"diffusers." + k: v for k, v in merged_by_diffusers(OUT / "diffusers.safetensors").items()}

    # PEFT: the other scale, patterns of ranks and alphas.
    peft = get_peft_model(base(), LoraConfig(r=2, lora_alpha=3, use_rslora=True, target_modules=list(MODULES), rank_pattern={"attn1.to_q": 4}, alpha_pattern={"blocks.1.attn2.to_v": 7}))
    for name, p in peft.named_parameters():
        if "lora_" in name:
            p.data = ours.weight("peft." + name.removeprefix("base_model.model.").replace(".default", ""), tuple(p.shape))
    peft.save_pretrained(OUT / "peft")
    (OUT / "peft/README.md").unlink(missing_ok=True)
    merged |= {"peft." + k: v for k, v in merged_by_peft(OUT / "peft").items()}

    # ComfyUI and what writes for it: diffusion_model., lora_down and lora_up, with alphas.
    tensors = {}
    for name, a, b in pairs("comfyui", MODULES, 2):
        key = "diffusion_model." + authors(name)
        tensors |= {key + ".lora_down.weight": a, key + ".lora_up.weight": b, key + ".alpha": torch.tensor(3.0)}
    safetensors.torch.save_file(tensors, OUT / "comfyui.safetensors")
    merged |= {"comfyui." + k: v for k, v in merged_by_diffusers(OUT / "comfyui.safetensors").items()}

    # musubi-tuner: flattened names; diffusers reads files with all modules only.
    tensors = {}
    for name, a, b in pairs("musubi", ALL, 2):
        key = "lora_unet_" + authors(name).replace(".", "_")
        tensors |= {key + ".lora_down.weight": a, key + ".lora_up.weight": b, key + ".alpha": torch.tensor(1.0)}
    safetensors.torch.save_file(tensors, OUT / "musubi.safetensors", {"ss_network_dim": "2", "ss_network_alpha": "1"})
    merged |= {"musubi." + k: v for k, v in merged_by_diffusers(OUT / "musubi.safetensors").items()}
    save_file(merged, OUT / "merged.safetensors")


def check(kinora):
    """Every adapter, written in every form, changes the weights as the file that it was written from."""
    want = safetensors.torch.load_file(OUT / "merged.safetensors")
    cases = {"diffusers": OUT / "diffusers.safetensors", "peft": OUT / "peft", "comfyui": OUT / "comfyui.safetensors", "musubi": OUT / "musubi.safetensors"}
    with tempfile.TemporaryDirectory() as scratch:
        for case, path in cases.items():
            for form in ("diffusers", "comfyui", "peft"):
                out = pathlib.Path(scratch) / f"{case}-{form}"
                subprocess.run([kinora, "convert", path, out, "--to", form], check=True)
                if form == "peft":
                    got = merged_by_peft(out)
                else:
                    got = merged_by_diffusers(out / {"diffusers": "pytorch_lora_weights.safetensors", "comfyui": "lora.safetensors"}[form])
                names = {k.removeprefix(case + ".") for k in want if k.startswith(case + ".")}
                assert set(got) == names, (case, form, set(got) ^ names)
                worst = max(float((got[k] - want[f"{case}.{k}"]).abs().max()) for k in names)
                assert worst < 1e-5, (case, form, worst)
                print(f"{case} -> {form}: {len(names)} matrices within {worst:.1e}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    check(sys.argv[2]) if sys.argv[1:2] == ["--check"] else make()
