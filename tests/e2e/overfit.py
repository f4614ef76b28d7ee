#!/usr/bin/env python3
"""Overfits one clip: trained on it alone, the model reproduces it from noise. All conventions must agree: scales of
latents, noise levels, time, text, the sampler's steps. usage: overfit.py KINORA ROOT SCRATCH"""
import json, pathlib, shutil, subprocess, sys

import numpy as np

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
FRAMES, EVERY, HEIGHT, WIDTH, STEPS = 5, 3, 24, 32, 400
RUN = """
[run]
name = "overfit"
seed = 1
[[job]]
name = "clips"
kind = "curate"
input = "{video}"
memory = "256 MiB"
stages = [ {{ use = "video.probe" }}, {{ use = "shots.content" }},
  {{ use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, crf = 10 }},
  {{ use = "caption.describe" }} ]
[[job]]
name = "shards"
kind = "shard"
input = "clips"
shard = {{ use = "shard.webdataset", max_size = "64 MiB" }}
[[job]]
name = "tokenizer"
kind = "train-tokenizer"
input = "shards"
start = "principal"
tokenizer = {{ use = "cosmos", latent_channels = 24, spatial_compression_ratio = 4, \
  encoder_block_out_channels = [50, 50], decode_block_out_channels = [50, 50] }}
{size}
steps = 1
batch = 1
learning_rate = 1e-6
threads = 1
[[job]]
name = "latents"
kind = "encode"
input = ["shards", "tokenizer"]
{size}
stride = 1000
scale = "latent"
words = {{ use = "text.wordpiece", vocab = "asset:minilm/vocab.txt" }}
text = {{ use = "minilm" }}
[[job]]
name = "dit"
kind = "train"
input = "latents"
model = {{ use = "dit", in_channels = 24, out_channels = 24, text_size = 384, layers = 3, heads = 4, head_size = 48, \
  adaln_lora = 16, learnable_pos_embed = true, max_size = [3, 6, 8] }}
loss = {{ use = "{loss}" }}
parallel = ["single"]
steps = {steps}
batch = 4
learning_rate = 1e-3
ema = 0.98
validation_every = 50
threads = 1
text_dropout = 0
[[job]]
name = "film"
kind = "generate"
input = "dit"
sampler = {{ use = "{sampler}", steps = 18 }}
prompts = [{prompt}]
guidance = 1
threads = 1
"""


def run(out, *more, **settings):
    out.mkdir(parents=True, exist_ok=True)
    size = f"frames = {FRAMES}\nevery = {EVERY}\nheight = {HEIGHT}\nwidth = {WIDTH}"
    (out / "run.toml").write_text(RUN.format(video=SCRATCH / "film.mp4", size=size, **settings))
    done = subprocess.run([KINORA, "run", str(out / "run.toml"), "--out", str(out), *more], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr


def frames(video, every):
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", str(video), "-vf",
                          f"select=not(mod(n\\,{every})),scale={WIDTH}:{HEIGHT}:flags=area:"
                          f"force_original_aspect_ratio=increase,crop={WIDTH}:{HEIGHT}",
                          "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], capture_output=True,
                         check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, HEIGHT, WIDTH, 3).astype(float)[:FRAMES]


def psnr(a, b):
    return 10 * np.log10(255 ** 2 / np.mean((a - b) ** 2))


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    subprocess.run(["ffmpeg", "-v", "error", "-i", str(ROOT / "tests/data/film.mp4"), "-frames:v", "40", "-c:v",
                    "libx264", "-crf", "10", "-an",
                    str(SCRATCH / "film.mp4")], check=True)
    want = frames(SCRATCH / "film.mp4", EVERY)
    assert want.shape[0] == FRAMES
    for loss, sampler in (("edm", "edm-heun"), ("flow", "flow-euler")):
        out = SCRATCH / loss
        for job in ("clips", "shards", "tokenizer", "latents"):  # these jobs are the same for both runs
            if (SCRATCH / "edm" / job).exists() and loss != "edm":
                shutil.copytree(SCRATCH / "edm" / job, out / job)
        run(out, "--only", "clips", loss=loss, sampler=sampler, steps=STEPS, prompt='"any"')
        caption = next(json.loads(x)
                       for x in (out / "clips/items.jsonl").read_text().splitlines() if "caption" in x)["caption"]
        run(out, loss=loss, sampler=sampler, steps=STEPS, prompt=json.dumps(caption))
        made = frames(out / "film/videos/000.mp4", 1)
        tokenizer = json.loads((out / "tokenizer/summary.json").read_text())["psnr"]
        lines = [json.loads(x) for x in (out / "dit/metrics.jsonl").read_text().splitlines()]
        losses = [x["loss"] for x in lines if "loss" in x]
        fall = np.mean(losses[:20]) / np.mean(losses[-20:])
        judged = [x["validation_loss"] for x in lines if "validation_loss" in x]
        print(
            f"{loss}: tokenizer {tokenizer:.1f} dB, generated {psnr(made, want):.1f} dB, training loss fell {fall:.1f} "
            f"times, validation loss from "
              f"step 50 on {judged[0] / judged[-1]:.1f} times")
        assert psnr(made, want) > 20, loss
        assert fall > 8, loss
        assert judged[0] > 4 * judged[-1], loss


main()
