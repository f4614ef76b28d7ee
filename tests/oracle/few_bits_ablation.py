#!/usr/bin/env python3
"""Trains the model of configs/nvfp4.toml in bfloat16, in NVFP4 and in NVFP4 without one part of its recipe, with several seeds, and prints the
last validation loss of each and its distance from bfloat16's, as a Markdown table: the figures of BENCHMARKS.md.
usage: few_bits_ablation.py KINORA ROOT SCRATCH [SEEDS [STEPS [VARIANT...]]]
Finished runs are kept in SCRATCH, so an interrupted call continues."""
import json, pathlib, re, statistics, subprocess, sys

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
SEEDS, STEPS = (int(x) for x in (sys.argv[4:6] + ["3", "800"][len(sys.argv[4:6]):]))
RECIPE = 'use = "nvfp4", high = ["embedding", "head"]'
VARIANTS = {
    "bfloat16": 'use = "bf16"',
    "NVFP4": RECIPE,
    "without the Hadamard transform": RECIPE + ", gradient_rht = false",
    "without stochastic rounding": RECIPE + ", stochastic_gradients = false",
    "without 16x16 scales of weights": RECIPE + ", square_weights = false",
    "without four-over-six": RECIPE + ', activations = "static_6", gradients = "static_6"',
    "without any of these": RECIPE + ', gradient_rht = false, stochastic_gradients = false, square_weights = false, activations = "static_6", gradients = "static_6"',
    "all layers low": 'use = "nvfp4", high = []',
    "FP8": 'use = "fp8", high = ["embedding", "head"]',
}
CHOSEN = sys.argv[6:] or list(VARIANTS)


def run(*arguments):
    subprocess.run([KINORA, "run", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def loss_of(config, latents, name, seed):
    """The validation loss after the last step."""
    table = re.search(r'\[\[job\]\]\nname = "nvfp4"\n.*?(?=\n\n|\Z)', config, re.S).group()
    table = re.sub(r"(?m)^precision = .*$", lambda _: f"precision = {{ {VARIANTS[name]} }}", table)
    table = re.sub(r"(?m)^steps = .*$", f"steps = {STEPS}", table).replace('input = "latents"', f'input = "{latents}"')
    out = SCRATCH / f"{list(VARIANTS).index(name)}-{seed}"
    out.mkdir(exist_ok=True)
    (out / "run.toml").write_text(f'[run]\nname = "ablation"\nseed = {seed}\n\n{table}\n')
    run(out / "run.toml", "--out", out)
    lines = [json.loads(line) for line in (out / "nvfp4/metrics.jsonl").read_text().splitlines()]
    loss = [line["validation_loss"] for line in lines if "validation_loss" in line][-1]
    assert loss == loss, (name, seed)
    return loss


def main():
    SCRATCH.mkdir(parents=True, exist_ok=True)
    config = (ROOT / "configs/nvfp4.toml").read_text()
    run(ROOT / "configs/nvfp4.toml", "--only", "latents", "--out", SCRATCH / "data")
    print("| training | validation loss, by seed | mean against bfloat16 |\n|---|---|---|")
    base = None
    for name in CHOSEN:
        losses = [loss_of(config, SCRATCH / "data/latents", name, seed) for seed in range(1, SEEDS + 1)]
        base = base or losses
        apart = statistics.mean(loss / reference - 1 for loss, reference in zip(losses, base))
        print(f"| {name} | {', '.join(f'{loss:.4f}' for loss in losses)} | {100 * apart:+.2f} % |", flush=True)


main()
