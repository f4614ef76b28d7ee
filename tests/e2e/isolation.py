#!/usr/bin/env python3
"""Every stage of the project gives the same bytes in separate processes (isolate = "all") as in threads of one
("none"). usage: isolation.py KINORA ROOT SCRATCH FAULTY"""
import json, os, pathlib, shutil, subprocess, sys

KINORA, ROOT, SCRATCH, FAULTY = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve(), sys.argv[4]
DATA, EXPORTED = ROOT / "tests/data", ROOT / "tests/data/oracle/exported"
sys.path.insert(0, str(ROOT / "tests/faults"))
from model_server import ModelServer

VIDEOS = [DATA / "bbb_A.mp4", DATA / "bbb_C.mp4", DATA / "city_cc0.mp4"]
MADE = {"min_length": 0.5, "min_frames": 1, "edge_crop": 0.0, "max_length": 4.0, "long_shots": "equal",
        "preset": "ultrafast", "max_height": 120}
WORDS = str(DATA / "oracle/text_seed_t5.json")
CHAT = [{"role": "user", "content": "What happens?"}, {"role": "assistant", "content": "A tram."}]
# Depends on the run's duration, not on what a stage made.
CLOCKED = {"summary.json", "metrics.jsonl", "job.json", "live.json", "metrics.prom", "record.db"}


def asking(server, use, **options):
    return {"use": use, "base_url": server.url, "model": "m", "max_side": 64, **options}


def pipelines(server):
    """The stages of each job. Filters only score, so that every clip reaches every stage."""
    shots = {"use": "shots", "detectors": ["content", "adaptive", "histogram", "hash", "threshold"], "thumbnails": True,
             "sample_every": 0.5, "sample_height": 64}
    filters = [{"use": f"filter.{name}", "mode": "score"}
               for name in ("brightness", "blur", "black", "frozen", "flow", "text", "motion", "letterbox")]
    shape = {"frames": 3, "height": 24, "width": 32, "batch": 2}
    curate = ["picture.read", "video.remux", {"use": "video.probe", "count": True}, shots,
              {"use": "shots.transnetv2", "decide": False}, "embed.classic", {"use": "shots.merge", "threshold": 0.9},
              {"use": "clip.transcode", **MADE, "sample_fps": 2.0, "sample_height": 64}, *filters,
              {"use": "filter.facts", "fact": "duration_s", "mode": "score"}, "embed.classic", "clip.signature",
              {"use": "embed.model", "model": str(EXPORTED / "tower.pt"), "name": "tower", **shape},
              {"use": "filter.model", "model": str(EXPORTED / "scorer.pt2"), "name": "scorer", "from": "tower.npy",
               "batch": 2, "mode": "score", "threshold": 0.0},
              asking(server, "filter.endpoint", mode="score"), asking(server, "filter.ocr", mode="score"),
              asking(server, "caption.endpoint", fps=0, max_frames=4),
              {k: v for k, v in asking(server, "caption.enhance").items() if k != "max_side"},
              {k: v for k, v in asking(server, "embed.endpoint", name="text").items() if k != "max_side"},
              "clip.preview", {"use": "text.tokenizer", "file": WORDS},
              {"use": "text.decode", "file": WORDS, "to": "decoded.txt"}]
    # The same videos without the frames sampled by clip.transcode: caption.describe decodes. One stage keeps all
    # samples until the end, in the order of the source, and counts them.
    ordered = {"use": "faulty", "how": "none", "ordered": 1, "holds": True, "counts": True, "tells": "KINORA_TEST_CHAT",
               "key_env": "KINORA_TEST_CHAT"}
    again = [{"use": "clip.transcode", **MADE}, "caption.describe", {"use": "video.read", "stride": 4, "height": 48},
             ordered,
             {"use": "caption.choose", "dropout": 0.3}, {"use": "video.crop", "height": 40, "width": 40},
             {"use": "video.flip"}, {"use": "text.chat", "file": WORDS, "template": "plain", "from": "told"},
             {"use": "video.write", "format": "webp"}, {"use": "text.wordpiece", "vocab": str(SCRATCH / "vocab.txt")}]
    detectors = {f"shots-{name}": [{"use": f"shots.{name}"}]
                 for name in ("content", "adaptive", "histogram", "hash", "threshold", "fixed")}
    once = [{"use": "video.clips", "detectors": ["content", "threshold"], **MADE}]
    return {"curate": curate, "again": again, "once": once, "joined": ["pairs"], **detectors}


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


def run(name, jobs, server):
    engine = toml({"use": "local", "isolate": [name]})
    text = f'[run]\nout = "{SCRATCH / name}"\n'
    for job, stages in jobs.items():
        text += (
            f'[[job]]\nname = "{job}"\nkind = "curate"\ninput = {toml([str(f) for f in VIDEOS])}\nstages = '
            f'{toml(stages)}\nengine = {engine}\n')
    text += (
        f'[[job]]\nname = "copies"\nkind = "dedup"\ninput = "curate"\nengine = {engine}\n[[job]]\nname = '
        f'"shards"\nkind = "shard"\ninput = "copies"\nengine = {engine}\n')
    (SCRATCH / f"{name}.toml").write_text(text)
    done = subprocess.run([KINORA, "--plugins", FAULTY, "run", str(SCRATCH / f"{name}.toml")], capture_output=True,
                          text=True, timeout=900, env={**os.environ, "KINORA_TEST_CHAT": json.dumps(CHAT)})
    assert done.returncode == 0, done.stderr[-4000:]
    assert not server.problems, server.problems


def tree(name):
    """Every file except those that describe the run; a video's own fact that contains the path of its copy is made
    independent of the folder."""
    base = SCRATCH / name
    return {str(p.relative_to(base)): p.read_bytes().replace(str(base).encode(), b"") for p in base.rglob("*")
            if p.is_file() and p.name not in CLOCKED and p.suffix != ".log"
            and not p.name.startswith((".lock", ".lease-", ".weights.json"))}


def used(jobs):
    return {"stage/" + (s if isinstance(s, str) else s["use"]) for stages in jobs.values()
            for s in stages} | {"stage/dedup.semantic", "stage/shard.webdataset"}


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
(SCRATCH / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nshort\n")
with ModelServer() as server:
    jobs = pipelines(server)
    there = set(subprocess.run([KINORA, "--plugins", FAULTY, "plugins", "list", "stage", "--ids"], capture_output=True,
                               text=True, check=True).stdout.split())
    there -= {"stage/together", "stage/starts-late"}  # write how many calls there were, which differs by intent
    assert used(jobs) == there, f"not compared: {there - used(jobs)}; unknown: {used(jobs) - there}"
    for name in ("none", "all"):
        run(name, jobs, server)
for name, workers in (("none", False), ("all", True)):
    for job in jobs:
        summary = json.loads((SCRATCH / name / job / "summary.json").read_text())
        assert summary["failed"] == 0 and summary["clips"]["failed"] == 0, (name, job, summary)
        live = json.loads((SCRATCH / name / job / "live.json").read_text())
        assert all(bool(s["isolated"]) == workers for s in live["stages"]), (name, job, live)
one, two = tree("none"), tree("all")
differ = sorted(n for n in one.keys() | two.keys() if one.get(n) != two.get(n))
assert not differ, differ
kinds = {n.split(".", 1)[1] for n in one if "/data/" in n and "." in n}
assert {"mp4", "json", "classic.npy", "signature", "tower.npy", "text.npy", "txt", "preview.webp", "webp",
        "count"} <= kinds, kinds
print(
    f"{len(there)} stages, {len(one)} files, {sum(map(len, one.values())) / 1e6:.1f} MB: the same in threads and in "
    f"processes")
