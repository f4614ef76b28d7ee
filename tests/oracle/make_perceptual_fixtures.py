"""Writes tests/data/oracle/{lpips,patch_discriminator,ssim}.safetensors: what the PyPI package lpips, layers of torch.nn and
a plain loop compute from the numbers of oracle_numbers.py. Needs torch, torchvision, lpips and safetensors:

    python tests/oracle/make_perceptual_fixtures.py
"""
import json
import pathlib


import lpips
import numpy as np
import torch
from provenance import save_file
from torch import nn
from torch.nn.utils import parametrizations

import oracle_numbers as oracle
numbers, weight = oracle.numbers, oracle.weight
OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "oracle"


def of_lpips():
    tensors = {}
    for net in ("vgg", "alex", "squeeze"):
        model = lpips.LPIPS(pretrained=False, pnet_rand=True, net=net, verbose=False)
        for name, p in model.named_parameters():
            w = weight(name, tuple(p.shape), 1.4)
            p.data = w.abs() if name.startswith("lin") else w
        shape = (2, 3, 2, 36, 34)
        prediction, target = (numbers("prediction", shape) / 2).requires_grad_(), numbers("target", shape) / 2
        frames = lambda v: v.transpose(1, 2).flatten(0, 1)
        loss = model(frames(prediction), frames(target)).view(2, 2).mean(1)
        (loss * numbers("grad.loss", (2,))).sum().backward()
        tensors |= {f"{net}.loss": loss, f"{net}.grad.prediction": prediction.grad}
    return tensors, {}


class Layer(nn.Module):
    def __init__(self, into, out, strides, norm, groups, last):
        super().__init__()
        self.conv = nn.Conv3d(into, out, (3, 4, 4), strides, 1)
        self.norm = nn.GroupNorm(groups, out) if norm else nn.Identity()
        self.last = last

    def forward(self, x):
        y = self.norm(self.conv(x))
        return y if self.last else nn.functional.leaky_relu(y, 0.2)


def of_discriminator():
    cases = {
        "spectral": dict(channels=2, layers=2, norm="spectral", time_stride=2, groups=1),
        "group": dict(channels=2, layers=3, norm="group", time_stride=2, groups=2),
        "none": dict(channels=3, layers=2, norm="none", time_stride=1, groups=1),
        # Wide enough that channels stop growing.
        "flat": dict(channels=1, layers=4, norm="group", time_stride=1, groups=1),
        "one": dict(channels=2, layers=1, norm="spectral", time_stride=1, groups=1),
    }
    tensors, metadata = {}, {}
    for name, o in cases.items():
        layers, into = nn.ModuleList(), 3
        for i in range(o["layers"] + 2):
            last, halves = i == o["layers"] + 1, i < o["layers"]
            out = 1 if last else o["channels"] * min(2**i, 8)
            strides = (o["time_stride"], 2, 2) if halves else 1
            layers.append(Layer(into, out, strides, o["norm"] == "group" and 0 < i and not last, o["groups"], last))
            into = out
        model = nn.ModuleDict({"layers": layers})
        oracle.fill(model, 1.2)
        model.train()
        if o["norm"] == "spectral":
            for layer in layers:
                parametrizations.spectral_norm(layer.conv, n_power_iterations=2000)
        shape = {"group": (1, 3, 3, 24, 26), "flat": (1, 3, 1, 48, 48)}.get(name, (2, 3, 4, 12, 14))
        video = numbers("video", shape).requires_grad_()
        x = video
        for layer in layers:
            x = layer(x)
        (x * numbers("grad.logits", tuple(x.shape))).sum().backward()
        tensors |= {f"{name}.logits": x, f"{name}.grad.video": video.grad}
        tensors |= {f"{name}.grad.param.{k.replace('parametrizations.weight.original', 'weight')}": p.grad
                    for k, p in model.named_parameters()}
        metadata[name] = json.dumps(o)
    return tensors, metadata


def ssim(a, b, peak):
    """Wang et al. 2004, equation 13, of one channel: a Gaussian window of 11 pixels, sigma 1.5, wherever it fits."""
    at = np.arange(11) - 5
    g = np.exp(-(at**2) / (2 * 1.5**2))
    window = np.outer(g, g) / g.sum() ** 2
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    values = []
    for i in range(a.shape[0] - 10):
        for j in range(a.shape[1] - 10):
            x, y = a[i:i + 11, j:j + 11], b[i:i + 11, j:j + 11]
            mx, my = (window * x).sum(), (window * y).sum()
            vx, vy = (window * (x - mx) ** 2).sum(), (window * (y - my) ** 2).sum()
            cov = (window * (x - mx) * (y - my)).sum()
            values.append((2 * mx * my + c1) * (2 * cov + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2)))
    return float(np.mean(values))


def of_ssim():
    shape = (2, 3, 2, 16, 21)
    a = numbers("ssim.a", shape) / 2
    b = a * 0.7 + numbers("ssim.b", shape) / 8
    values = [[[ssim(a[n, c, t].numpy(), b[n, c, t].numpy(), 2) for t in range(2)] for c in range(3)] for n in range(2)]
    return {"ssim": torch.tensor(values).mean((1, 2))}, {}


def save(name, made):
    tensors, metadata = made
    save_file({k: v.detach().contiguous() for k, v in tensors.items()}, OUT / name, metadata)
    print(OUT / name, (OUT / name).stat().st_size, "bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    save("ssim.safetensors", of_ssim())
    save("patch_discriminator.safetensors", of_discriminator())
    save("lpips.safetensors", of_lpips())
