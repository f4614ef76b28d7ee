"""Writes tests/data/oracle/pipeline_loss.safetensors: the training loss of diffusers' models on the tiny random folders of
make_wan_pipeline_fixtures.py, make_cosmos_pipeline_fixtures.py and make_pipeline_noise_fixtures.py, at the 32 levels that each folder's
scheduler visits in 32 steps: CASE.sigma and CASE.loss, both [32], float64.

Latents, noise, texts and conditions are numbers(NAME, shape) of oracle_numbers.py. The formulas are those by which the pipelines of diffusers
turn a model's output into a clean latent or a velocity; the loss is its squared error, weighted as the model was trained (EDM: Karras et al.
2022, equation 8; Cosmos Predict 2: (1 + sigma)^2 / sigma^2; Wan: none). Frames that are given count as learned without an error.

Needs torch, diffusers 0.42.1, numpy and safetensors.
"""
import json
import types

import torch
from diffusers.models.transformers import transformer_cosmos
from diffusers import CosmosTransformer3DModel, EDMEulerScheduler, FlowMatchEulerDiscreteScheduler, UniPCMultistepScheduler, WanTransformer3DModel
from oracle_numbers import numbers
from provenance import DATA, save_file

# torchvision's resize of the padding mask, which is all zeros here.
resize = lambda mask, size, interpolation=None: torch.zeros(*mask.shape[:-2], *size, dtype=mask.dtype)  # noqa: E731
transformer_cosmos.transforms = types.SimpleNamespace(functional=types.SimpleNamespace(resize=resize), InterpolationMode=types.SimpleNamespace(NEAREST=0))
STEPS, TEXT = 32, (1, 512, 10)  # of another length than 512 diffusers divides Wan's tokens wrongly
tensors = {}


def scheduler_of(folder, kind):
    scheduler = kind.from_pretrained(DATA / folder / "scheduler")
    scheduler.set_timesteps(STEPS)
    return scheduler, scheduler.sigmas[:STEPS].double()


def sample(i, channels, frames, height, width):
    shape = (1, channels, frames, height, width)
    return numbers(f"latent{i}", shape), numbers(f"noise{i}", shape), numbers(f"text{i}", TEXT)


def learned(frames, given):
    """[1, 1, T, 1, 1]: 0 on given frames."""
    out = torch.ones(1, 1, frames, 1, 1, dtype=torch.float64)
    out[:, :, :given] = 0
    return out


@torch.no_grad()
def wan(case, transformer, transformer_2=None, boundary=0.0, image=None, condition=False, given=0, scheduler="wan_t2v"):
    models = [WanTransformer3DModel.from_pretrained(DATA / path, torch_dtype=torch.float32).double().eval() for path in (transformer, transformer_2) if path]
    schedule, sigmas = scheduler_of(scheduler, UniPCMultistepScheduler)
    losses = []
    for i, (sigma, t) in enumerate(zip(sigmas, schedule.timesteps)):
        x0, n, text = sample(i, 2, 3, 4, 6)
        keep = learned(3, given)
        x = (1 - sigma) * x0 + sigma * n
        x = (1 - keep) * x0 + keep * x
        timestep = (keep.expand(1, 1, 3, 2, 3) * t).flatten().unsqueeze(0) if given else t.expand(1)
        if condition:
            x = torch.cat([x, numbers(f"condition{i}", (1, 6, 3, 4, 6))], 1)
        more = dict(encoder_hidden_states_image=numbers(f"image{i}", image)) if image else {}
        model = models[1] if len(models) > 1 and t < boundary * schedule.config.num_train_timesteps else models[0]
        velocity = model(hidden_states=x, timestep=timestep, encoder_hidden_states=text, return_dict=False, **more)[0]
        losses.append((keep * (velocity - (n - x0))).square().mean())
    write(case, sigmas, losses)


def in_float32(model, **given):
    """Cosmos' learnt positions are normalised in float32 only."""
    given = {name: value.float() if isinstance(value, torch.Tensor) else value for name, value in given.items()}
    return model(return_dict=False, **given)[0].double()


@torch.no_grad()
def cosmos_1(case, transformer, given=0):
    model = CosmosTransformer3DModel.from_pretrained(DATA / transformer, torch_dtype=torch.float32).eval()
    schedule, sigmas = scheduler_of("cosmos_t2w", EDMEulerScheduler)
    data = schedule.config.sigma_data
    losses = []
    for i, sigma in enumerate(sigmas):
        x0, n, text = sample(i, 4, 3, 8, 8)
        keep, x = learned(3, given), x0 + sigma * n
        zero = torch.zeros((), dtype=torch.float64)
        clean = x0 * schedule._get_conditioning_c_in(zero) / schedule._get_conditioning_c_in(sigma)
        seen = ((1 - keep) * clean + keep * x) * schedule._get_conditioning_c_in(sigma)
        more = dict(condition_mask=(1 - keep).expand(1, 1, 3, 8, 8)) if given else {}
        output = in_float32(model, hidden_states=seen, timestep=(0.25 * sigma.log()).expand(1), encoder_hidden_states=text, fps=30,
                            padding_mask=torch.zeros(1, 1, 64, 64), **more)
        estimate = schedule.precondition_outputs(x, output, sigma)
        losses.append((keep * (estimate - x0)).square().mean() * (sigma**2 + data**2) / (sigma * data) ** 2)
    write(case, sigmas, losses)


@torch.no_grad()
def cosmos_2(case, folder, shape, given=0, fps=None):
    model = CosmosTransformer3DModel.from_pretrained(DATA / folder / "transformer", torch_dtype=torch.float32).eval()
    _, sigmas = scheduler_of(folder, FlowMatchEulerDiscreteScheduler)
    losses = []
    for i, sigma in enumerate(sigmas):
        x0, n, text = sample(i, *shape)
        frames = shape[1]
        keep, x, now = learned(frames, given), x0 + sigma * n, sigma / (sigma + 1)
        timestep = now.expand(1)
        more = {}
        if given:
            timestep = (1 - keep) * (1e-4 / (1e-4 + 1)) + keep * now
            more = dict(condition_mask=(1 - keep).expand(1, 1, frames, *shape[2:]))
        if fps:
            more["fps"] = fps
        output = in_float32(model, hidden_states=(1 - keep) * x0 + keep * x * (1 - now), timestep=timestep, encoder_hidden_states=text,
                            padding_mask=torch.zeros(1, 1, 32, 32), **more)
        estimate = (1 - now) * x - now * output
        losses.append((keep * (estimate - x0)).square().mean() * ((1 + sigma) / sigma) ** 2)
    write(case, sigmas, losses)


def write(case, sigmas, losses):
    tensors[f"{case}.sigma"] = sigmas.contiguous()
    tensors[f"{case}.loss"] = torch.stack(losses).contiguous()
    print(case, [round(x.item(), 4) for x in losses[::8]])


if __name__ == "__main__":
    torch.set_num_threads(1)
    wan("t2v", "wan_t2v/transformer")
    wan("ti2v", "wan_t2v/transformer", given=1)
    wan("i2v", "wan_i2v/transformer", image=(1, 5, 8), condition=True)
    wan("flf2v", "wan_flf2v/transformer", image=(2, 5, 8), condition=True)
    for kind, condition in (("t2v", False), ("i2v", True)):
        boundary = json.loads((DATA / f"wan_a14b_{kind}" / "model_index.json").read_text())["boundary_ratio"]
        wan(f"a14b_{kind}", f"wan_a14b_{kind}/transformer", f"wan_a14b_{kind}/transformer_2", boundary, condition=condition)
    cosmos_1("t2w", "cosmos_t2w/transformer")
    cosmos_1("v2w", "cosmos_v2w/transformer", given=1)
    cosmos_2("cosmos2_v2w", "cosmos2_v2w", (2, 3, 4, 4), given=1, fps=16)
    cosmos_2("cosmos2_t2i", "cosmos2_t2i", (2, 1, 4, 4))
    save_file(tensors, DATA / "pipeline_loss.safetensors")
