#!/usr/bin/env python3
"""Two ranks under ddp train like one process, in float64: the same losses, by noise level and in
validation, and the same gradients and weights after every step.
usage: ddp.py KINORA ROOT SCRATCH"""
import json, os, pathlib, shutil, subprocess, sys

import numpy
import safetensors

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import quick

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
STEPS = 4
# AdamW divides a gradient by its own size, which would amplify rounding errors of tiny ones into the weights: hence
# eps.
FEW = [*quick.FEW, f"dit.steps={STEPS}", "dit.batch=4", "dit.model.layers=2", "dit.threads=1", "dit.precision=\"fp64\"",
       "dit.warmup=0",
       "dit.ema=0", "dit.optimizer={use=\"adamw\",eps=1e-5}", "dit.checkpoint_every=1", "dit.keep=10",
       "dit.validation_every=2", "dit.validation_samples=3", "dit.validation_sigmas=[0.3, 1.0]"]


def start(out, strategies, **environment):
    sets = [a for s in [*FEW, f"dit.parallel={json.dumps(strategies)}"] for a in ("--set", s)]
    return subprocess.Popen([KINORA, "run", str(ROOT / "configs/quickstart.toml"), "--out", str(out), "--only", "dit",
                             *sets],
                            env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True)


def finish(*processes, says_mesh=0):
    for p in processes:
        text = p.communicate(timeout=300)[1]
        assert p.returncode == 0, text
        # Rank 0 of a world describes it once; a single process does not.
        assert text.count("dit: 2 ranks, mesh dp=2, by collective/gloo") == says_mesh, text
        says_mesh = 0


def tensors(file):
    with safetensors.safe_open(file, "np") as f:
        return {name: f.get_tensor(name) for name in f.keys()}


def result(out):
    """Losses and norms; after each step the weights and AdamW's first moments, which are running sums of every
    parameter's gradients."""
    lines = [json.loads(text) for text in (out / "dit/metrics.jsonl").read_text().splitlines()]
    steps = [out / f"dit/checkpoints/step-{n:06}" for n in range(1, STEPS + 1)]
    validated = [tuple(e["validation"]["loss"]) for e in lines if "validation" in e]
    levels = lines[-1]["loss_by_sigma"]
    assert abs(sum(levels["count"]) - sum(4 * 0.99 ** n
                                          for n in range(STEPS))) < 1e-9 and len(validated) == STEPS // 2, lines
    assert len(list((out / "dit/tensorboard").iterdir())) == 1  # written by rank 0 only
    means = tuple(m for m in levels["mean"] if m is not None)
    return ([(e["loss"], e["gradient_norm"], e["weight_norm"]) for e in lines] + validated + [means],
            [tensors(s / "weights.safetensors") for s in steps],
            [{n[6:]: t for n, t in tensors(s / "optimizer.safetensors").items() if n.startswith("first.")}
             for s in steps])


def gap(ours, theirs):
    """Largest relative difference of any tensor of a step, and its name; NaN counts as the largest."""
    found = []
    for a, b in zip(ours, theirs, strict=True):
        assert a.keys() == b.keys()
        found += [(float(numpy.abs(a[n] - t).max() / (numpy.abs(t).max() + 1e-300)), n) for n, t in b.items()]
    return found[int(numpy.argmax([off for off, _ in found]))]


shutil.rmtree(SCRATCH, ignore_errors=True)
one, two = SCRATCH / "one", SCRATCH / "two"
finish(start(quick.begun(KINORA, ROOT, one), ["single"]))
shutil.copytree(one, two)
shutil.rmtree(two / "dit")
place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(quick.held_port())}
finish(*[start(two, ["ddp"], RANK=str(r), **place) for r in range(2)], says_mesh=1)
(alone, weights, gradients), (spread, weights2, gradients2) = result(one), result(two)
assert len(alone) == len(spread) == STEPS + STEPS // 2 + 1
moved = {n for n, t in gradients[-1].items() if t.any()}
assert moved == gradients[-1].keys(), f"no gradient reached {gradients[-1].keys() - moved}"
assert all(t.dtype == numpy.float64 for t in weights[-1].values())
worst = numpy.max([abs(a - b) / abs(a) for x, y in zip(alone, spread) for a, b in zip(x, y, strict=True)])
of_gradients = gap(gradients2, gradients)
of_weights = gap(weights2, weights)
print(
    f"largest relative difference: losses and norms {worst:.1e}, gradients {of_gradients[0]:.1e} ({of_gradients[1]}), "
      f"weights {of_weights[0]:.1e} ({of_weights[1]})")
assert worst < 1e-10, (alone, spread)
assert of_gradients[0] < 1e-10, of_gradients
assert of_weights[0] < 1e-10, of_weights
