"""Writes tests/data/oracle/clip_image.safetensors: pictures as transformers' CLIPImageProcessor hands them to an image encoder, and the
same with Pillow's own resize, which the published encoders were trained with.

Needs torch, torchvision, transformers 5.23, pillow, numpy and safetensors.
"""
import json
import pathlib

import numpy as np
import torch
from PIL import Image
from provenance import save_file
from transformers import CLIPImageProcessor

OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "oracle" / "clip_image.safetensors"
# height, width, size of the encoder
CASES = {"landscape": (36, 64, 14), "portrait": (50, 23, 16), "square": (31, 31, 12), "small": (9, 12, 16), "same": (14, 17, 14)}


def picture(h, w):
    y, x = np.mgrid[0:h, 0:w]
    waves = np.stack([np.sin(x * 0.9 + y * 0.3), np.cos(x * 0.2 - y * 1.1), np.sin(x * y * 0.05)], -1)
    noise = np.random.default_rng(h * w).uniform(-1, 1, (h, w, 3))
    return np.clip(127.5 + 90 * waves + 60 * noise, 0, 255).astype(np.uint8)


def by_pillow(image, size, processor):
    w, h = image.size
    short = min(w, h)
    image = image.resize((size * w // short, size * h // short), Image.BICUBIC)
    x, y = (image.size[0] - size) // 2, (image.size[1] - size) // 2
    levels = np.asarray(image.crop((x, y, x + size, y + size)), dtype=np.float64) / 255
    return ((levels - processor.image_mean) / processor.image_std).transpose(2, 0, 1)


def main():
    tensors, about = {}, {}
    for name, (h, w, size) in CASES.items():
        processor = CLIPImageProcessor(size={"shortest_edge": size}, crop_size={"height": size, "width": size})
        pixels = picture(h, w)
        image = Image.fromarray(pixels)
        tensors[f"{name}.frame"] = torch.from_numpy(pixels)
        tensors[f"{name}.pillow"] = torch.from_numpy(by_pillow(image, size, processor).copy())
        tensors[f"{name}.transformers"] = processor(images=image, return_tensors="pt")["pixel_values"][0].clone()
        about[name] = json.dumps({"size": size})
        apart = (tensors[f"{name}.pillow"] - tensors[f"{name}.transformers"]).abs().max().item()
        print(name, tensors[f"{name}.transformers"].shape, f"{apart:.3g} apart")
    save_file(tensors, OUT, about)
    print(OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
