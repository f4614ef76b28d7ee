#!/usr/bin/env python3
"""Writes tests/data/oracle/classic.safetensors: frames, and the descriptor of stage/embed.classic computed by matrix products in numpy
from the words of plugins/stages/embed/classic.hpp. Needs numpy and safetensors. usage: make_classic_fixtures.py"""
import pathlib

import numpy as np
from provenance import save_file

SIDE, CELLS = 64, 4
SHARES = (0.4, 0.4, 0.2)


def averages(size):
    """[SIDE, size]: how much of each cell each pixel covers."""
    edges = np.arange(SIDE + 1) * size / SIDE
    low, high = np.maximum(edges[:-1, None], np.arange(size)), np.minimum(edges[1:, None], np.arange(size) + 1)
    return np.clip(high - low, 0, None) * SIDE / size


def tent(position, bins, circular=False):
    """[..., bins]: linear weights of the nearest bins."""
    distance = np.abs(position[..., None] - np.arange(bins))
    if circular:
        distance = np.minimum(distance, bins - distance)
    return np.clip(1 - distance, 0, None)


def by_cell(weights):
    """[SIDE, SIDE, bins] -> [CELLS * CELLS * bins], rows of cells first."""
    edge = SIDE // CELLS
    return weights.reshape(CELLS, edge, CELLS, edge, -1).sum((1, 3)).reshape(-1)


def classic(frames):
    small = np.stack([np.einsum("yh,hwc,xw->yxc", averages(f.shape[0]), f.astype(np.float64), averages(f.shape[1])) for f in frames])
    light = small @ [0.299, 0.587, 0.114]
    r, g, b = (tent(small[..., c] / 255 * 5, 6) for c in range(3))
    colour = np.einsum("tyxi,tyxj,tyxk->ijk", r, g, b).reshape(-1)
    gradient = 0
    for picture in light:
        p = np.pad(picture, 1, mode="edge")
        dx, dy = (p[1:-1, 2:] - p[1:-1, :-2]) / 2, (p[2:, 1:-1] - p[:-2, 1:-1]) / 2
        angle = np.mod(np.arctan2(dy, dx), np.pi) / np.pi * 8
        weights = tent(angle, 8, circular=True) * np.hypot(dx, dy)[..., None]
        gradient = gradient + by_cell(np.concatenate([weights, np.full((SIDE, SIDE, 1), 4.0)], -1))
    changes = np.abs(np.diff(light, axis=0)) if len(light) > 1 else np.zeros((1, SIDE, SIDE))
    motion = sum(by_cell(tent(np.minimum(np.log2(1 + c), 7), 8)) for c in changes)
    return np.concatenate([np.sqrt(s * h / h.sum()) for s, h in zip(SHARES, (colour, gradient, motion))]).astype(np.float32)


def main():
    rng = np.random.default_rng(7)
    out = {}
    for name, (count, height, width) in {"large": (4, 90, 131), "small": (3, 30, 44), "one": (1, 64, 64)}.items():
        # Smooth colours with a bright square that moves, and noise.
        y, x = np.mgrid[0:height, 0:width] / max(height, width)
        base = np.stack([np.sin(5 * x + 3 * y), np.cos(7 * y), np.sin(11 * x * y)], -1) * 80 + 110
        frames = []
        for t in range(count):
            frame = base + rng.normal(0, 12, base.shape)
            frame[height // 4 : height // 2, (width // 5) + 4 * t : (width // 2) + 4 * t] += [90, 40, -60]
            frames.append(np.clip(np.rint(frame), 0, 255).astype(np.uint8))
        out[name + ".frames"] = np.stack(frames)
        out[name + ".embedding"] = classic(out[name + ".frames"])
    save_file(out, pathlib.Path(__file__).parents[1] / "data/oracle/classic.safetensors")


if __name__ == "__main__":
    main()
