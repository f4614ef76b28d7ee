#!/usr/bin/env python3
"""Trains the model of configs/nvfp4.toml in bfloat16, in NVFP4 and in NVFP4 without one part of its recipe, with
several seeds, and prints the last validation loss of each and its distance from bfloat16's, as a Markdown table. Takes
hours on two cores, so no test runs it. usage: few_bits_ablation.py KINORA ROOT SCRATCH [SEEDS [STEPS [VARIANT...]]]
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
    "without any of these": RECIPE
    + ', gradient_rht = false, stochastic_gradients = false, square_weights = false, activations = "static_6", '
      'gradients = "static_6"',
    "all layers low": 'use = "nvfp4", high = []',
    "FP8": 'use = "fp8", high = ["embedding", "head"]',
    "NVFP4, the last 15 % of the steps in bfloat16": RECIPE + f", until = {STEPS * 85 // 100}",
}
CHOSEN = [name for name in VARIANTS if name == "bfloat16" or name in (sys.argv[6:] or VARIANTS)]


def run_file(config, seed):
    """The jobs of configs/nvfp4.toml that make the latents, and a training of each variant."""
    jobs = config.split("\n[[job]]\n")[1:]
    data = [job for job in jobs if re.search(r'^kind = "(curate|shard|train-tokenizer|encode)"', job, re.M)]
    trained = next(job for job in jobs if job.startswith('name = "nvfp4"'))
    trained = re.sub(r"(?m)^steps = .*$", f"steps = {STEPS}", trained)
    variants = [re.sub(r"(?m)^precision = .*$", lambda _: f"precision = {{ {VARIANTS[name]} }}",
                       trained).replace('name = "nvfp4"', f'name = "{job_of(name)}"') for name in CHOSEN]
    return f'[run]\nname = "ablation"\nseed = {seed}\n' + "".join(f"\n[[job]]\n{job}" for job in data + variants)


def job_of(name):
    return f"variant-{list(VARIANTS).index(name)}"


def losses_of(seed):
    """The validation loss of each variant after the last step."""
    out = SCRATCH / str(seed)
    out.mkdir(parents=True, exist_ok=True)
    config = (ROOT / "configs/nvfp4.toml").read_text().replace("../tests/data", str(ROOT / "tests/data"))
    (out / "run.toml").write_text(run_file(config, seed))
    subprocess.run([KINORA, "run", out / "run.toml", "--out", out], check=True, stdout=subprocess.DEVNULL)
    losses = {}
    for name in CHOSEN:
        lines = [json.loads(line) for line in (out / job_of(name) / "metrics.jsonl").read_text().splitlines()]
        losses[name] = [line["validation_loss"] for line in lines if "validation_loss" in line][-1]
        assert losses[name] == losses[name], (name, seed)
    return losses


def main():
    losses = [losses_of(seed) for seed in range(1, SEEDS + 1)]
    print("| training | validation loss, by seed | mean against bfloat16 |\n|---|---|---|")
    for name in CHOSEN:
        apart = statistics.mean(of[name] / of["bfloat16"] - 1 for of in losses)
        print(f"| {name} | {', '.join(f'{of[name]:.4f}' for of in losses)} | {100 * apart:+.2f} % |")


main()
