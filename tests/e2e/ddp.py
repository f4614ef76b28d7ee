#!/usr/bin/env python3
"""Two ranks under ddp train as one process does: the same losses and weights, up to the order of float32 sums.
usage: ddp.py KINORA ROOT SCRATCH"""
import json, os, pathlib, shutil, socket, subprocess, sys

import numpy
import safetensors.numpy

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
FEW = ["tokenizer.steps=2", "tokenizer.frames=5", "tokenizer.height=32", "tokenizer.width=48", "latents.frames=5", "latents.height=32",
       "latents.width=48", "dit.steps=6", "dit.batch=4", "dit.model.layers=2", "dit.threads=1"]


def start(out, strategies, **environment):
    sets = [a for s in [*FEW, f"dit.parallel={json.dumps(strategies)}"] for a in ("--set", s)]
    return subprocess.Popen([KINORA, "run", str(ROOT / "configs/quickstart.toml"), "--out", str(out), "--only", "dit", *sets],
                            env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True)


def finish(*processes):
    for p in processes:
        text = p.communicate(timeout=300)[1]
        assert p.returncode == 0, text


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def result(out):
    lines = [json.loads(text) for text in (out / "dit/metrics.jsonl").read_text().splitlines()]
    return [(e["loss"], e["gradient_norm"]) for e in lines], safetensors.numpy.load_file(out / "dit/weights.safetensors")


shutil.rmtree(SCRATCH, ignore_errors=True)
one, two = SCRATCH / "one", SCRATCH / "two"
finish(start(one, ["single"]))
shutil.copytree(one, two)
shutil.rmtree(two / "dit")
place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
finish(*[start(two, ["ddp"], RANK=str(r), **place) for r in range(2)])
(alone, weights), (spread, weights2) = result(one), result(two)
assert len(alone) == len(spread) == 6
worst = max(abs(a - b) / abs(a) for x, y in zip(alone, spread) for a, b in zip(x, y))
gap = max(float(numpy.abs(weights[n] - weights2[n]).max() / (numpy.abs(weights[n]).max() + 1e-12)) for n in weights)
print(f"largest relative difference: losses and norms {worst:.1e}, weights {gap:.1e}")
# AdamW divides by the gradient's own size, which lifts rounding of tiny gradients into the weights; losses are the measure.
assert worst < 1e-4, (alone, spread)
assert gap < 1e-2, gap
