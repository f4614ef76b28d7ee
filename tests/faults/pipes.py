#!/usr/bin/env python3
"""Folders that a stranger made, in which a file is a pipe instead: every command ends, and none waits for a writer.
usage: pipes.py KINORA ROOT SCRATCH"""
import concurrent.futures, http.client, itertools, os, pathlib, shutil, signal, subprocess, sys, tarfile, threading

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from clips import make_video

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
LIMIT = 60  # seconds for what takes one

RUN = """
[run]
name = "pipes"
[[job]]
name = "clips"
kind = "curate"
input = ["film.mp4"]
stages = [
  { use = "video.probe" },
  { use = "shots.content" },
  { use = "clip.transcode", min_length = 0.2, min_frames = 1, edge_crop = 0.0, preset = "ultrafast" },
  { use = "caption.describe" },
]
[[job]]
name = "shards"
kind = "shard"
input = "clips"
[[job]]
name = "report"
kind = "report"
"""


def ended(*command, code=None):
    done = subprocess.run([KINORA, *map(str, command)], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode in ((0, 1, 2) if code is None else (code,)), (command, done.returncode, done.stderr)
    return done.stdout + done.stderr


def asked(address):
    """Asks the studio for clips and for one clip, and leaves an edit and a view."""
    host, token = address.removeprefix("http://").split("/?t=")
    connection = http.client.HTTPConnection(host)
    headers = {"Content-Type": "application/json"}

    def ask(path, body=None):
        connection.request("POST" if body else "GET", path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer

    headers["Cookie"] = ask(f"/?t={token}").getheader("Set-Cookie").split(";")[0]
    for path in ("/api/state", "/api/clips?from=0&count=9", "/api/clip?id=clips%2Ffilm-0000"):
        ask(path)
    ask("/api/edit", '{"ids": ["clips/film-0000"], "set": {"keep": true}}')
    ask("/api/views", '{"name": "a", "view": "b"}')


def studio(folder):
    process = subprocess.Popen([KINORA, "studio", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True)
    end = threading.Timer(LIMIT, process.kill)
    end.start()
    try:
        if address := process.stdout.readline().strip():
            asked(address)
        process.send_signal(signal.SIGINT)
    except (OSError, http.client.HTTPException):  # killed
        pass
    code = process.wait()
    end.cancel()
    if code == -signal.SIGKILL:
        raise TimeoutError(f"the studio did not end within {LIMIT} s")


def walked(name, whole, files, *commands):
    """For each of the files a copy of the folder in which it is a pipe."""
    def one(number, file):
        folder = SCRATCH / f"{name}-{number}"
        shutil.copytree(whole, folder)
        (folder / file).unlink(missing_ok=True)
        os.mkfifo(folder / file)
        for command in commands:
            try:
                command(folder)
            except (subprocess.TimeoutExpired, TimeoutError) as error:
                raise AssertionError(f"{name}: with {file} as a pipe: {error}") from None
        shutil.rmtree(folder)

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        list(threads.map(one, itertools.count(), files))
    print(f"{name}: {len(files)} files, {len(commands)} commands")


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def runs():
    folder = SCRATCH / "run"
    folder.mkdir()
    make_video(folder / "film.mp4", "64x36", seconds=1)
    (folder / "run.toml").write_text(RUN)
    ended("run", folder / "run.toml", "--out", folder, code=0)
    for name in ("edits.jsonl", "views.jsonl"):
        (folder / "clips" / name).touch()
    read = [file for file in files_in(folder / "clips") if not file.endswith((".mp4", ".prom"))]
    again = lambda at: ended("run", at / "run.toml", "--out", at, "--only", "report", "--from-scratch")
    walked("run", folder, [f"clips/{file}" for file in read], lambda at: ended("search", at, "film"), studio, again)
    packed = lambda at: ended("run", at / "run.toml", "--out", at, "--only", "shards", "--from-scratch")
    walked("shards", folder, ["clips/edits.jsonl", "clips/items.jsonl"], packed)


def shards():
    folder = SCRATCH / "shards"
    folder.mkdir()
    with tarfile.open(folder / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for name in ("a.json", "a.txt", "b.json", "b.txt"):
            (SCRATCH / "member").write_text("{}")
            tar.add(SCRATCH / "member", name)
    ended("data", "index", folder, code=0)
    walked("data", folder, files_in(folder),
           *(lambda at, part=part: ended("data", part, at) for part in ("verify", "inspect", "index")))


def others():
    """A published pipeline, and a plugin."""
    folder = SCRATCH / "others"
    folder.mkdir()
    library = next(pathlib.Path(KINORA).resolve().parent.parent.glob("lib/kinora/plugins/samplers-flow/lib*.so"))
    shutil.copy(library, folder)

    def generate(at):
        said = ended("generate", "--pipeline", at, "--prompt", "x", code=2)
        assert "model_index.json: not a regular file but a pipe" in said, said

    walked("pipeline", folder, ["model_index.json"], generate)
    walked("plugin", folder, ["plugin.toml"], lambda at: ended("plugins", "validate", at / library.name))


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
shards()
others()
runs()
