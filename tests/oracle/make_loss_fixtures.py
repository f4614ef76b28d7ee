"""Writes tests/data/oracle/losses.safetensors: losses and their gradients by the published formulas, in float64.

Needs torch, safetensors and checkouts of nvidia-cosmos/cosmos-predict2 and NVIDIA-NeMo/DFM, whose scalings, shifts and densities it
runs (the sums around them, in classes that need a GPU, are written out here):

    python tests/oracle/make_loss_fixtures.py PATH/cosmos-predict2 PATH/DFM

Inputs are numbers(NAME, shape) of oracle_numbers.py; options for Kinora are in the metadata, a case each.
"""
import importlib.util
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
import torch
from provenance import save_file


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


from oracle_numbers import numbers
torch.set_default_dtype(torch.float64)
tensors, metadata = {}, {}
SHAPE = (2, 3, 4, 2, 5)
X0, N = numbers("latent", SHAPE) * 0.5, numbers("noise", SHAPE)


def case(name, options, loss, *leaves, **more):
    loss.sum().backward()
    tensors[f"{name}.loss"] = loss.detach()
    for key, leaf in leaves:
        tensors[f"{name}.grad.{key}"] = leaf.grad.clone()
    tensors.update({f"{name}.{k}": v.detach().double() for k, v in more.items()})
    metadata[name] = json.dumps(options)


def over(s, x):
    return s.reshape(s.shape[0], 1, *s.shape[1:], *[1] * (x.dim() - 1 - s.dim()))


def diffusion(scaling, weights):
    """The loss of both Cosmos models, per element: weight * (x0 - D)^2."""

    def run(sigma, f):
        s = over(sigma, X0)
        x = X0 + s * N
        skip, out, inside, told = scaling(sigma=s)
        return (X0 - (skip * x + out * f)) ** 2 * weights(s), inside * x, told.reshape(sigma.shape)

    return run


def cosmos(predict2):
    module = load("denoiser_scaling", predict2 / "cosmos_predict2" / "module" / "denoiser_scaling.py")
    for i, (frames, o, with_logvar) in enumerate([(False, {}, False), (True, dict(sigma_data=1.0), False), (False, {}, True), (True, {}, True),
                                                  (True, dict(loss_reduce="sum", loss_scale=3.0), True), (False, dict(loss_reduce="sum"), False)]):
        edm = module.EDMScaling(o.get("sigma_data", 0.5))
        sigma = numbers("sigma", SHAPE[:1] + SHAPE[2:3] * frames).exp()
        f = numbers("prediction", SHAPE).requires_grad_()
        logvar = numbers("logvar", tuple(sigma.shape)).requires_grad_()
        each, latent, told = diffusion(edm, edm.sigma_loss_weights)(sigma, f)
        if with_logvar:  # predict1, model_image.py: kendall_loss
            each = each * torch.exp(-over(logvar, X0)) + over(logvar, X0)
        loss = each.flatten(1).sum(1) if o.get("loss_reduce") == "sum" else each.flatten(1).mean(1)
        case(f"edm{i}", o, loss * o.get("loss_scale", 1.0), ("prediction", f), *[("logvar", logvar)] * with_logvar, latent=latent,
             timestep=told)
    for i, (frames, o, given) in enumerate([(False, {}, 0), (True, dict(timestep_scale=1000.0, loss_scale=2.0), 0), (True, dict(sigma_conditional=0.01), 2)]):
        flow = module.RectifiedFlowScaling(1.0, o.get("timestep_scale", 1.0))
        sigma = numbers("sigma", SHAPE[:1] + SHAPE[2:3] * frames).exp()
        f = numbers("prediction", SHAPE).requires_grad_()
        each, latent, told = diffusion(flow, flow.sigma_loss_weights)(sigma, f)
        if given:  # FRAME_REPLACE: the frames are the model's input as they are, and its output there is replaced by them
            mask = torch.zeros(SHAPE[0], 1, SHAPE[2], 1, 1)
            mask[:, :, :given] = 1
            each, latent = each * (1 - mask), X0 * mask + latent * (1 - mask)
            of_given = flow(sigma=torch.full_like(sigma, o["sigma_conditional"]))[3]
            told = torch.where(mask[:, 0, :, 0, 0] > 0, of_given, told)
        case(f"rectified{i}", o, each.flatten(1).mean(1) * o.get("loss_scale", 10.0), ("prediction", f), latent=latent, timestep=told,
             given=torch.tensor(given))


def flow(dfm):
    module = load("time_shift_utils", dfm / "dfm" / "src" / "automodel" / "flow_matching" / "time_shift_utils.py")
    import math

    module.math = math  # where it forgets the import
    uniform = torch.linspace(0.002, 0.998, 63)
    tensors["uniform"] = uniform
    normal = torch.special.ndtri(uniform)
    for i, o in enumerate([dict(density="uniform", shift=3.0), dict(density="logit-normal", logit_mean=0.3, logit_std=1.4, shift=5.0),
                           dict(density="mode", mode_scale=1.29), dict(density="mode", mode_scale=-0.7, shift=2.0),
                           dict(density="uniform", shift_type="linear", tokens=1560), dict(density="logit-normal", shift_type="sqrt", tokens=32760),
                           dict(density="uniform", shift_type="sqrt", tokens=100),
                           dict(density="uniform", shift_type="linear", tokens=1560, base_shift=0.2, max_shift=2.0)]):
        # Its draws: the mode's formula descends, so it is given the mirrored numbers, which are as uniform.
        torch.rand = lambda size, device: 1 - uniform if o["density"] == "mode" else uniform
        torch.normal = lambda mean, std, size, device: mean + std * normal
        u = module.compute_density_for_timestep_sampling(o["density"].replace("-", "_"), 63, o.get("logit_mean", 0.0), o.get("logit_std", 1.0),
                                                         o.get("mode_scale", 1.29))
        s = module.time_shift(u, o.get("tokens", 0), o.get("shift_type", "constant"), o.get("base_shift", 0.5), o.get("max_shift", 1.15),
                              o.get("shift", 1.0))
        tensors[f"levels{i}.level"] = s
        metadata[f"levels{i}"] = json.dumps(o)
    for i, (frames, o) in enumerate([(False, {}), (True, dict(weighting="linear", shift=3.0)), (False, dict(weighting="linear", shift=5.0))]):
        sigma = torch.sigmoid(numbers("sigma", SHAPE[:1] + SHAPE[2:3] * frames))
        f = numbers("prediction", SHAPE).requires_grad_()
        each = (f - (N - X0)) ** 2
        if o:
            each = each * module.get_flow_match_loss_weight(over(sigma, X0), o["shift"])
        case(f"flow{i}", o, each.flatten(1).mean(1), ("prediction", f), latent=(1 - over(sigma, X0)) * X0 + over(sigma, X0) * N,
             timestep=sigma * 1000)


def next_token():
    B, T, H, W, V = 3, 2, 2, 3, 11
    codes = ((numbers("codes", (B, T, H, W)) / 3.5 + 0.5) * V).long()
    mask = numbers("mask", (B, T, H, W)) > -0.5
    mask[2] = False
    for i, (o, masked) in enumerate([({}, False), (dict(label_smoothing=0.1), True), (dict(z_loss=0.01), True),
                                     (dict(label_smoothing=0.2, z_loss=0.03, shift=1), True), (dict(shift=1), False)]):
        logits = (3 * numbers("logits", (B, T * H * W, V))).requires_grad_()
        k = o.get("shift", 0)
        used, labels, counts = logits[:, : T * H * W - k], codes.flatten(1)[:, k:], (mask if masked else mask | True).flatten(1)[:, k:].double()

        def mean(x):
            return (x * counts).sum(1) / counts.sum(1).clamp(min=1)

        def entropy(smoothing):
            return torch.nn.functional.cross_entropy(used.transpose(1, 2), labels, reduction="none", label_smoothing=smoothing)

        cost = entropy(o.get("label_smoothing", 0.0)) + o.get("z_loss", 0.0) * torch.logsumexp(used, -1) ** 2
        case(f"token{i}", o, mean(cost), ("output", logits), nll=mean(entropy(0.0)), accuracy=mean((used.argmax(-1) == labels).double()),
             codes=codes, **({"mask": mask} if masked else {}))


if __name__ == "__main__":
    cosmos(pathlib.Path(sys.argv[1]))
    flow(pathlib.Path(sys.argv[2]))
    next_token()
    out = HERE.parent / "data" / "oracle" / "losses.safetensors"
    save_file({k: v.contiguous() for k, v in tensors.items()}, out, metadata)
    print(out, out.stat().st_size, "bytes", len(metadata), "cases")
