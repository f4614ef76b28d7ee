"""Shared by tests about clips: small videos, a synthetic folder of a curate job, and readers of the jobs' output."""
import json, pathlib, subprocess, tomllib

import numpy as np

# Embeds captions with the MiniLM in KINORA_ASSETS.
EMBED_TEXT = """
[[job]]
name = "captions"
kind = "embed-text"
input = "clips"
words = { use = "text.wordpiece", vocab = "asset:minilm/vocab.txt" }
"""


def make_video(path, size, seconds, rate=12, picture="testsrc2"):
    """H.264 from one of ffmpeg's test sources; testsrc2 shows a frame counter."""
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i",
                    f"{picture}{':' if '=' in picture else '='}size={size}:rate={rate}:duration={seconds}", "-c:v",
                    "libx264", "-pix_fmt", "yuv420p", str(path)], check=True)


# Titles and units that the manifests of Kinora's stages give to their scores, as a curate job notes them.
SCORES = {name: stated for file in pathlib.Path(__file__).parents[2].glob("plugins/stages/*/plugin.toml")
          for one in tomllib.loads(file.read_text())["component"] for name, stated in one.get("score", {}).items()}


def curate_folder(folder, items):
    """Writes the folder that a curate job leaves, without any stored file; `items`: objects of items.jsonl."""
    (folder / "data").mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps({"kind": "curate", "scores": SCORES}))
    with (folder / "items.jsonl").open("w") as out:
        for item in items:
            out.write(json.dumps(item) + "\n")
    return folder


def lines(file):
    return [json.loads(text) for text in file.read_text().splitlines()]


def pictures(out, name="classic"):
    """{key: embedding, float64} of the clips stored by the job `clips`."""
    ending = f".{name}.npy"
    return {p.name.removesuffix(ending): np.load(p).astype(np.float64) for p in (out / "clips/data").glob("*" + ending)}


def caption_rows(out):
    """{key: row, float64} embedded by the job `captions`."""
    keys = json.loads((out / "captions/text.json").read_text())["keys"]
    return dict(zip(keys, np.load(out / "captions/text.npy").astype(np.float64)))


def nearest(rows, query):
    """(product, key), the largest first; ties by key."""
    return sorted(((float(row @ query), key) for key, row in rows.items()), key=lambda pair: (-pair[0], pair[1]))
