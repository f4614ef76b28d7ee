"""Runs of select jobs over made-up items of a curate job. For select_job.py and its parts."""
import json, pathlib, shutil, subprocess, sys

import numpy as np

KINORA, ROOT, SCRATCH = sys.argv[-3], pathlib.Path(sys.argv[-2]), pathlib.Path(sys.argv[-1])
sys.path.insert(0, str(ROOT / "tests/support"))
from clips import lines

OUT = SCRATCH / "out"
CLIPS, SEED, NUMBERS = 300, 11, 900  # NUMBERS: of an embedding
CURATE = f"""
[run]
name = "choose"
out = "{OUT}"
seed = {SEED}
[[job]]
name = "clips"
kind = "curate"
input = "{ROOT}/tests/data/bbb_A.mp4"
stages = ["video.probe", {{ use = "video.read", stride = 30, height = 64 }}, "embed.classic"]
"""


def kinora(*arguments, fails=False):
    """fails: whether it does, or the exit code."""
    done = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == fails or (fails is True and done.returncode != 0), done
    return done.stdout + done.stderr


def job(name, kind="select", source="clips", **options):
    text = f'[[job]]\nname = "{name}"\nkind = "{kind}"\ninput = {json.dumps(source)}\n'
    return text + "".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items())


def run(*jobs, fails=False):
    file = SCRATCH / "run.toml"
    file.write_text(CURATE + "".join(jobs))
    return kinora("run", file, fails=fails)


def made_up(draw):
    """Items of a curate job: kept clips of 40 videos with scores, some facts missing or of another type, and other
    outcomes."""
    items = []
    for i in range(CLIPS):
        facts = {"film": f"film-{draw.randrange(40):02d}", "duration_s": round(draw.uniform(0.5, 9), 2),
                 "width": draw.choice([640, 1280]), "damaged": draw.random() < 0.2,
                 "scores": {"filter.blur": draw.randrange(100), "filter.flow.p10": draw.random()},
                 "tags": draw.sample(["sea", "sky", "car"], draw.randrange(3)),
                 "sha256": "ab", "first_frame": i}
        if draw.random() < 0.5:
            facts["user"] = {"rating": draw.choice(["1", "4", "9", "x", 4, 7]), "style": draw.choice(["film", "anime"])}
        if draw.random() < 0.1:
            facts["duration_s"] = None
        if draw.random() < 0.1:
            del facts["scores"]["filter.blur"]
        items.append({"consumed": False, "end": "kept", "facts": facts, "key": f"clip-{i:04d}"})
    others = [{"consumed": True, "end": "kept", "facts": {}, "key": "film-00"},
              {"consumed": False, "end": "filtered", "reason": "filter.blur", "facts": {"width": 640}, "key": "gone-1"},
              {"consumed": False, "end": "failed", "reason": "broken", "facts": {}, "key": "gone-2"}]
    return items + others


def install(items, vectors):
    """Puts the items in place of those of the finished curate job, so that later jobs find them. vectors: embeddings by
    key; none: no files of clips."""
    folder = OUT / "clips"
    shutil.rmtree(folder / "data")
    (folder / "data").mkdir()
    with (folder / "items.jsonl").open("w") as out:
        for item in items:
            out.write(json.dumps(item, separators=(",", ":")) + "\n")
            if item["key"] in vectors:
                (folder / "data" / f"{item['key']}.json").write_text(json.dumps(item["facts"]))
                np.save(folder / "data" / f"{item['key']}.classic.npy", vectors[item["key"]])
    summary = json.loads((folder / "summary.json").read_text())
    summary["results"] |= {"items.jsonl": (folder / "items.jsonl").stat().st_size,
                           "data": len(list((folder / "data").iterdir()))}
    (folder / "summary.json").write_text(json.dumps(summary))


def decisions(name, out=OUT):
    return {line["key"]: line for line in lines(out / name / "decisions.jsonl")}


def summary(name):
    return json.loads((OUT / name / "summary.json").read_text())


def kept(name, out=OUT):
    return {key for key, line in decisions(name, out).items() if line["end"] == "kept"}
