"""Runs with an endpoint stage against a server of the test, and what they leave. For endpoint.py and its parts."""
import json, os, pathlib, shutil, subprocess, sys

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
VIDEO = ROOT / "tests/data/bbb_D.mp4"
KEY = "sk-test-9f8e7d6c5b4a39-never-a-number"
CLIPS = [{"use": "clip.transcode", "min_length": 0.0, "min_frames": 1, "edge_crop": 0.0, "long_shots": "equal",
          "max_length": 0.25, "crf": 30, "preset": "ultrafast", "audio": False},
         {"use": "video.read", "stride": 1, "height": 90}]


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


def endpoint(server, use="caption.endpoint", **options):
    return {"use": use, "base_url": server.url, "model": "m", "api_key_env": "KINORA_TEST_KEY", "backoff": 0.05,
            **options}


class Result:
    def __init__(self, name, done, folder):
        self.name, self.code, self.said, self.folder = name, done.returncode, done.stdout + done.stderr, folder
        self.items = [json.loads(line)
                      for line in (folder / "items.jsonl").read_text().splitlines()] if (
                          folder / "items.jsonl").exists() else []
        self.clips = {i["key"]: i for i in self.items if "-" in i["key"]}
        self.summary = json.loads((folder / "summary.json").read_text()) if (folder / "summary.json").exists() else {}

    def text(self, key):
        return (self.folder / "data" / f"{key}.txt").read_text()


def prepare(name, stages, more="", videos=(VIDEO,)):
    out = SCRATCH / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    listed = ",\n  ".join(map(toml, stages))
    (out / "run.toml").write_text(
        f'[run]\nname = "{name}"\nout = "{out / "out"}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = '
        f'{toml([str(f) for f in videos])}\nstages = [\n  {listed}\n]\n{more}')
    return out


def environment(**more):
    clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    return {**clean, "KINORA_TEST_KEY": KEY, **more}


def run(name, stages, expect=0, more="", **env):
    prepare(name, stages, more)
    return again(name, expect=expect, **env)


def again(name, *options, expect=0, **env):
    out = SCRATCH / name
    done = subprocess.run([KINORA, "run", out / "run.toml", *options], capture_output=True, text=True, timeout=240,
                          env=environment(**env))
    assert done.returncode == expect, f"{name}: exit {done.returncode}, expected {expect}\n{done.stdout}{done.stderr}"
    result = Result(name, done, out / "out/clips")
    no_secret(out, result.said)
    return result


def no_secret(folder, said):
    """Neither the key nor an identifying part of it occurs."""
    for piece in (KEY, KEY[:8], KEY[-6:]):
        assert piece not in said, (piece, said)
        for file in folder.rglob("*"):
            assert not file.is_file() or piece.encode() not in file.read_bytes(), (piece, file)


def files(result):
    return {p.name: p.read_bytes() for p in (result.folder / "data").iterdir()}


def sound(server):
    assert not server.problems, server.problems
    assert all(r.headers.get("Authorization") == "Bearer " + KEY for r in server.requests)
