"""Runs of a curate job, and what they leave. For curate.py and its parts."""
import json, pathlib, subprocess, sys

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
DATA = ROOT / "tests/data"
STAGES = (
    '["video.probe", { use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, max_length = 2.0, '
    'long_shots = "equal", preset = "ultrafast", max_height = 120 }, "caption.describe"]')


def run(name, inputs, stages=STAGES, more="", jobs="", code=0, options=()):
    file = SCRATCH / f"{name}.toml"
    listed = ", ".join(f'"{i}"' for i in inputs)
    file.write_text(
        f'[run]\nout = "{SCRATCH / name}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = [{listed}]\nstages = '
        f'{stages}\n{more}\n{jobs}')
    done = subprocess.run([KINORA, "run", str(file), *options], capture_output=True, text=True, timeout=600)
    assert done.returncode == code, (name, done.returncode, done.stderr)
    return done.stderr


def lines(file):
    return [json.loads(text) for text in file.read_text().splitlines()]


def items(name):
    return {i["key"]: i for i in lines(SCRATCH / name / "clips/items.jsonl")}


def summary(name, job="clips"):
    return json.loads((SCRATCH / name / job / "summary.json").read_text())


def stored(name):
    return {p.name: p for p in (SCRATCH / name / "clips/data").iterdir()}


def tree(name, but=("summary.json", "metrics.jsonl", "job.json", "live.json", "metrics.prom", "record.db")):
    base = SCRATCH / name / "clips"
    return {str(p.relative_to(base)): p.read_bytes() for p in base.rglob("*") if p.is_file() and p.name not in but}
