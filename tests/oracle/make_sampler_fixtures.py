"""Writes tests/data/oracle/samplers.safetensors: samples of a mixture of Gaussians by diffusers and by Cosmos Predict 1.

Needs torch, diffusers 0.42.1, attrs, safetensors and a checkout of nvidia-cosmos/cosmos-predict1:

    python tests/oracle/make_sampler_fixtures.py PATH/cosmos-predict1

Each scheduler is driven by the exact denoiser of the mixture, in float64. diffusers keeps its noise levels in float32:
`sample32` is what it gives as it is, `sample` what it gives when the same levels are put into it in float64, so that an
implementation in float64 must agree to rounding. `levels32` are its own levels. Cosmos' sampler is float64 throughout.
`visited` are the levels that the denoiser was asked at. Options for Kinora are in the metadata, a case each.
"""
import json
import pathlib
import sys
import types

HERE = pathlib.Path(__file__).resolve().parent
import numpy as np
import torch
from diffusers import EDMDPMSolverMultistepScheduler, FlowMatchEulerDiscreteScheduler, UniPCMultistepScheduler
from provenance import save_file

import oracle_numbers
numbers = oracle_numbers.numbers
OUT = HERE.parent / "data" / "oracle" / "samplers.safetensors"
torch.set_default_dtype(torch.float64)
MEAN, STD, WEIGHT = numbers("mean", (4, 3)) * 1.5, torch.tensor([0.4, 0.7, 0.3, 0.55]), torch.tensor([0.3, 0.4, 0.2, 0.1])
NOISE = numbers("noise", (5, 3))
tensors, metadata = {"mean": MEAN, "std": STD, "weight": WEIGHT, "noise": NOISE}, {}


class Mixture:
    """E[x0 | x0 + sigma n = x], and where it was asked."""

    def __init__(self):
        self.visited = []

    def __call__(self, x, sigma):
        self.visited.append(float(sigma))
        var = STD**2 + sigma**2
        away = x[:, None] - MEAN
        log = torch.log(WEIGHT / WEIGHT.sum()) - 1.5 * torch.log(var) - (away**2).sum(-1) / (2 * var)
        r = torch.softmax(log, -1)[..., None]
        return (r * (MEAN + (STD**2 / var)[:, None] * away)).sum(1)

    def blend(self, x, s):
        """The same for x = (1 - s) x0 + s n."""
        if s == 1:  # pure noise says nothing of x0
            self.visited.append(1.0)
            return (WEIGHT @ MEAN / WEIGHT.sum()).expand_as(x)
        x0 = self(x / (1 - s), s / (1 - s))
        self.visited[-1] = float(s)
        return x0


def case(name, options, sample, mixture, **more):
    assert sample.isfinite().all(), name
    tensors[f"{name}.sample"] = sample
    tensors[f"{name}.visited"] = torch.tensor(mixture.visited)
    tensors.update({f"{name}.{k}": torch.as_tensor(np.asarray(v), dtype=torch.float64) for k, v in more.items()})
    metadata[name] = json.dumps(options)


def karras(o):
    low, high = o["sigma_min"] ** (1 / o["rho"]), o["sigma_max"] ** (1 / o["rho"])
    return np.append((high + np.linspace(0, 1, o["steps"]) * (low - high)) ** o["rho"], 0.0)


def dpmpp(o, exact):
    scheduler = EDMDPMSolverMultistepScheduler(sigma_min=o["sigma_min"], sigma_max=o["sigma_max"], rho=o["rho"], sigma_data=0.5,
                                               solver_type=o["solver_type"], final_sigmas_type="zero")
    scheduler.set_timesteps(o["steps"])
    levels32 = scheduler.sigmas.double()
    assert torch.allclose(levels32, torch.from_numpy(karras(o)), rtol=3e-6, atol=0)
    if exact:
        scheduler.sigmas = torch.from_numpy(karras(o))
    mixture, x = Mixture(), NOISE * scheduler.sigmas[0].double()
    for i, t in enumerate(scheduler.timesteps):
        s = scheduler.sigmas[i].double()
        skip, out = 0.25 / (s**2 + 0.25), s * 0.5 / (s**2 + 0.25) ** 0.5
        x = scheduler.step((mixture(x, s) - skip * x) / out, t, x, return_dict=False)[0]
    return x, mixture, levels32


def flow_levels(o):
    """As Wan and diffusers below 0.37, or as diffusers now."""
    n, shift = o["steps"], o["shift"]
    u = np.linspace(0.999, 0, n + 1)[:-1] if o["convention"] == "wan" else np.linspace(1, 0.001, n + 1)[:-1]
    s = shift * u / (1 + (shift - 1) * u)
    if o["convention"] == "diffusers":
        s[0] -= 1e-6
    return np.append(s, 0.0)


def unipc(o, exact):
    scheduler = UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=o["shift"],
                                        solver_order=o["order"], solver_type=o["solver_type"],
                                        lower_order_final=o["lower_order_final"])
    scheduler.set_timesteps(o["steps"])
    levels32 = scheduler.sigmas.double()
    if o["convention"] == "diffusers":
        assert torch.allclose(levels32, torch.from_numpy(flow_levels(o)), rtol=0, atol=1e-7)
    if exact or o["convention"] == "wan":
        scheduler.sigmas = torch.from_numpy(flow_levels(o))
        levels32 = scheduler.sigmas
    if not exact:
        scheduler.sigmas = scheduler.sigmas.float()
        torch.set_default_dtype(torch.float32)
    mixture, x = Mixture(), NOISE
    for i, t in enumerate(scheduler.timesteps):
        s = scheduler.sigmas[i].double()
        if i + 1 == o["steps"]:  # a step to zero of order 2 has no finite formula, and bh1 is inf * 0 there
            predict = scheduler.multistep_uni_p_bh_update
            scheduler.register_to_config(lower_order_final=True)
            scheduler.multistep_uni_p_bh_update = lambda **k: scheduler.register_to_config(solver_type="bh2") or predict(**k)
        scheduler._step_index = i  # timesteps are whole numbers, which may repeat
        x = scheduler.step((x - mixture.blend(x, s)) / s, t, x, return_dict=False)[0]
    torch.set_default_dtype(torch.float64)
    return x, mixture, levels32


def flow_euler(o, exact):
    scheduler = FlowMatchEulerDiscreteScheduler(shift=o["shift"])
    n = o["steps"]
    u = np.linspace(1, 0.001, n) if o["convention"] == "diffusers" else np.linspace(1, 0, n + 1)[:-1]
    scheduler.set_timesteps(sigmas=u)
    levels32 = scheduler.sigmas.double()
    if exact:
        scheduler.sigmas = torch.from_numpy(np.append(o["shift"] * u / (1 + (o["shift"] - 1) * u), 0.0))
    scheduler.set_begin_index(0)
    mixture, x = Mixture(), NOISE
    for i, t in enumerate(scheduler.timesteps):
        s = scheduler.sigmas[i].double()
        v = (x - mixture.blend(x, s)) / s
        # step() itself works in float32, so `sample` is its formula
        x = x + (scheduler.sigmas[i + 1] - scheduler.sigmas[i]).double() * v if exact else scheduler.step(
            v, t, x, return_dict=False)[0]
    return x, mixture, levels32


def diffusers_cases():
    edm = dict(sigma_min=0.002, sigma_max=80.0, rho=7.0, solver_type="midpoint")
    for i, o in enumerate([dict(steps=1), dict(steps=2), dict(steps=3), dict(steps=12), dict(steps=20, rho=4.0, sigma_max=30.0),
                           dict(steps=18, solver_type="heun"), dict(steps=7, solver_type="heun", sigma_min=0.05)]):
        o = edm | o
        (x, mixture, levels32), (x32, _, _) = dpmpp(o, True), dpmpp(o, False)
        case(f"dpmpp{i}", o, x, mixture, sample32=x32, levels32=levels32)
    flow = dict(shift=1.0, order=2, solver_type="bh2", lower_order_final=True, convention="wan")
    for i, o in enumerate([dict(steps=1), dict(steps=2, shift=5.0), dict(steps=3, order=3), dict(steps=4, shift=5.0),
                           dict(steps=12, shift=3.0, order=1), dict(steps=12, shift=3.0, order=3), dict(steps=20, solver_type="bh1"),
                           dict(steps=16, solver_type="bh1", order=3, shift=5.0), dict(steps=9, order=3, lower_order_final=False),
                           dict(steps=9, order=1, solver_type="bh1"), dict(steps=30, shift=8.0)]):
        for convention in ("wan", "diffusers"):
            o = flow | o | dict(convention=convention)
            (x, mixture, levels32), (x32, _, _) = unipc(o, True), unipc(o, False)
            case(f"unipc{i}{convention}", o, x, mixture, sample32=x32, levels32=levels32)
    for i, o in enumerate([dict(steps=1), dict(steps=2, shift=5.0), dict(steps=12), dict(steps=12, shift=3.0),
                           dict(steps=4, shift=5.0, convention="uniform"), dict(steps=15, shift=0.5, convention="uniform")]):
        o = dict(shift=1.0, convention="diffusers") | o
        (x, mixture, levels32), (x32, _, _) = flow_euler(o, True), flow_euler(o, False)
        case(f"flow_euler{i}", o, x, mixture, sample32=x32, levels32=levels32)
    # What diffusers does when it is left to choose its levels: it shifts twice.
    scheduler = FlowMatchEulerDiscreteScheduler(shift=5.0)
    scheduler.set_timesteps(4)
    tensors["twice_shifted"] = scheduler.sigmas.double()


def cosmos_cases(folder):
    sys.path.insert(0, str(folder))
    config = types.ModuleType("cosmos_predict1.utils.config")  # the real one needs the whole framework
    config.make_freezable = lambda cls: cls
    sys.modules["cosmos_predict1.utils"] = types.ModuleType("cosmos_predict1.utils")
    sys.modules["cosmos_predict1.utils.config"] = config
    from cosmos_predict1.diffusion.modules import res_sampler

    def run(o, clean=True):
        mixture = Mixture()
        draws = iter(range(10**6))
        # Cosmos draws where eta is 0 too; Kinora draws only what it adds.
        torch.randn_like = lambda x: numbers(f"draw{next(draws)}", tuple(x.shape)) if o["s_churn"] else torch.zeros_like(x)
        multi = o["solver"] == "2ab"
        c = res_sampler.SamplerConfig(
            solver=res_sampler.SolverConfig(is_multi=multi, rk=o["solver"], multistep=o["solver"], s_churn=o["s_churn"],
                                            s_t_max=o["s_max"], s_t_min=o["s_min"], s_noise=o["s_noise"]),
            timestamps=res_sampler.SolverTimestampConfig(nfe=o["steps"], t_min=o["sigma_min"], t_max=o["sigma_max"], order=o["rho"]),
            sample_clean=o["final_denoise"])
        x = res_sampler.Sampler()._forward_impl(lambda x, t: mixture(x, t[0]), NOISE * o["sigma_max"], c)
        return x, mixture

    base = dict(sigma_min=0.002, sigma_max=80.0, rho=7.0, s_churn=0.0, s_min=0.0, s_max=1e30, s_noise=1.0, final_denoise=True)
    churn = dict(s_churn=4.0, s_min=0.05, s_max=20.0, s_noise=1.007)
    for solver in ("2ab", "1euler", "2mid", "2mid_stable", "2heun_edm", "2heun_naive", "3kutta_naive"):
        for i, o in enumerate([dict(steps=3), dict(steps=35), churn | dict(steps=16, sigma_max=30.0, rho=3.0),
                               churn | dict(steps=14, s_churn=400.0, s_noise=1.0), dict(steps=11, final_denoise=False)]):
            o = base | o | dict(solver=solver)
            case(f"res_{solver}_{i}", o, *run(o))
    for solver in ("2ab", "1euler"):
        for steps in (1, 2):
            o = base | dict(steps=steps, solver=solver)
            case(f"res_{solver}_short{steps}", o, *run(o))


if __name__ == "__main__":
    diffusers_cases()
    cosmos_cases(pathlib.Path(sys.argv[1]))
    save_file({k: v.contiguous() for k, v in tensors.items()}, OUT, metadata)
    print(OUT, OUT.stat().st_size, "bytes", len(metadata), "cases")
