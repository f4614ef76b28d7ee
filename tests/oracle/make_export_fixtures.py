#!/usr/bin/env python3
"""Writes tests/data/oracle/exported/: small models exported by torch as a user would, and their results for frames in Python.

tower.pt and tower.pt2 are one model for pictures (TorchScript, AOTInductor), video.pt is for videos [B, 3, T, H, W], scorer.pt2 for
embeddings. The packages are compiled for any x86-64 and must be rebuilt for another release of torch. Needs torch 2.11, numpy,
safetensors and g++. usage: make_export_fixtures.py"""
import os
import pathlib
import zipfile

import numpy as np
import torch
import torch._inductor.cpp_builder as cpp_builder
from provenance import save_file
from torch import nn
from torch.nn import functional as F

OUT = pathlib.Path(__file__).parents[1] / "data/oracle/exported"
MEAN, STD = torch.tensor([0.48145466, 0.4578275, 0.40821073]), torch.tensor([0.26862954, 0.26130258, 0.27577711])
BATCH, FRAMES, HEIGHT, WIDTH = 2, 3, 24, 32


class Tower(nn.Module):
    """Pictures [N, 3, H, W] -> [N, 16]; not of length 1."""
    def __init__(self):
        super().__init__()
        self.convolution, self.norm, self.head = nn.Conv2d(3, 8, 4, 4), nn.LayerNorm(8), nn.Linear(8, 16)

    def forward(self, x):
        x = F.gelu(self.convolution(x)).flatten(2).transpose(1, 2)
        return self.head(self.norm(x).mean(1))


class Video(nn.Module):
    """Videos [B, 3, T, H, W] -> (length [B, 1], embedding [B, 12])."""
    def __init__(self):
        super().__init__()
        self.convolution, self.head = nn.Conv3d(3, 6, (2, 4, 4), (1, 4, 4)), nn.Linear(6, 12)

    def forward(self, x):
        x = self.head(F.relu(self.convolution(x)).mean((2, 3, 4)))
        return torch.linalg.vector_norm(x, dim=[1], keepdim=True), x


class Scorer(nn.Module):
    """Embeddings [B, 16] -> a number each, [B, 1]."""
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(x)


def portable(flags=cpp_builder._get_optimization_cflags):
    def without_native(*args, **kwargs):
        compile_flags, link_flags = flags(*args, **kwargs)
        return ["march=x86-64-v2" if f == "march=native" else f for f in compile_flags], link_flags
    return without_native


def package(model, example, file):
    """Follows the README, except for the two lines that make it run on any x86-64."""
    cpp_builder._get_optimization_cflags = portable()
    torch._inductor.config.cpp.simdlen = 1
    exported = torch.export.export(model, (example,))
    torch._inductor.aoti_compile_and_package(exported, package_path=str(file), inductor_configs={"aot_inductor.link_libtorch": False})


def without_paths(file):
    """Removes the locations of sources, empties the package's source files, which are never read, and replaces names of this machine's
    folders in its library by dots."""
    with zipfile.ZipFile(file) as package:
        entries = [(i.filename, package.read(i)) for i in package.infolist() if not i.filename.endswith(".debug_pkl")]
    folders = [os.path.dirname(torch.__file__), torch._inductor.runtime.cache_dir_utils.default_cache_dir()]
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as package:
        for name, data in entries:
            for folder in folders:
                data = data.replace(folder.encode(), b"." * len(folder))
            package.writestr(zipfile.ZipInfo(name), b"// left out\n" if name.endswith(".cpp") else data)


def pictures(frames, indices, resample="bicubic", fit="crop"):
    """[F, 3, HEIGHT, WIDTH] from torchvision's Resize, CenterCrop and Normalize on tensors."""
    x = frames[indices].permute(0, 3, 1, 2).float() / 255
    h, w = x.shape[2:]
    size = (HEIGHT, WIDTH)
    if fit == "crop":
        size = (HEIGHT, HEIGHT * w // h) if HEIGHT * w >= WIDTH * h else (WIDTH * h // w, WIDTH)
    x = F.interpolate(x, size=size, mode=resample, antialias=True).clamp(0, 1)
    top, left = round((x.shape[2] - HEIGHT) / 2), round((x.shape[3] - WIDTH) / 2)
    x = x[:, :, top : top + HEIGHT, left : left + WIDTH]
    return (x - MEAN.view(3, 1, 1)) / STD.view(3, 1, 1)


def main():
    OUT.mkdir(exist_ok=True)
    torch.manual_seed(3)
    tower, video, scorer = Tower().eval(), Video().eval(), Scorer().eval()
    torch.jit.trace(tower, torch.zeros(1, 3, HEIGHT, WIDTH)).save(str(OUT / "tower.pt"))
    torch.jit.script(video).save(str(OUT / "video.pt"))
    package(tower, torch.zeros(BATCH * FRAMES, 3, HEIGHT, WIDTH), OUT / "tower.pt2")
    package(scorer, torch.zeros(BATCH, 16), OUT / "scorer.pt2")
    rng = np.random.default_rng(5)
    tensors = {}
    with torch.no_grad():
        # One landscape, one portrait, one shorter than FRAMES; frames from the middles of equal stretches.
        for name, (count, height, width) in {"a": (10, 50, 71), "b": (7, 64, 40), "c": (2, 24, 32)}.items():
            y, x = np.mgrid[0:height, 0:width]
            frames = [np.stack([np.sin(x / (3 + c) + y / 9 + t) for c in range(3)], -1) * 90 + 120 + rng.normal(0, 9, (height, width, 3)) for t in range(count)]
            frames = torch.from_numpy(np.clip(np.rint(frames), 0, 255).astype(np.uint8))
            indices = [int((i + 0.5) * count / FRAMES) for i in range(FRAMES)]
            clip = pictures(frames, indices)
            of_frames = F.normalize(tower(clip), dim=1)
            tensors |= {name + ".frames": frames, name + ".tower": F.normalize(of_frames.mean(0), dim=0),
                        name + ".stretched": F.normalize(F.normalize(tower(pictures(frames, indices, "bilinear", "stretch")), dim=1).mean(0), dim=0),
                        name + ".video": F.normalize(video(clip.transpose(0, 1)[None])[1][0], dim=0), name + ".scores": tower(clip)[:, :1].flatten(),
                        name + ".length": video(clip.transpose(0, 1)[None])[0].flatten()}
            tensors[name + ".of_embedding"] = scorer(tensors[name + ".tower"][None]).flatten()
    for file in OUT.glob("*.pt*"):
        without_paths(file)
    save_file({k: v.contiguous() for k, v in tensors.items()}, OUT / "results.safetensors")


if __name__ == "__main__":
    main()
