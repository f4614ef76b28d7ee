#!/usr/bin/env python3
"""Several processes share a curate job by leases in one output folder. Two of four are killed and one stands still for
three terms: the results are those of one process, byte for byte. usage: shared_curate.py KINORA ROOT SCRATCH"""
import json, os, pathlib, shutil, signal, struct, subprocess, sys, time

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
TERM = 0.5  # s
# times, memory, and the order of the work
OWN = {"summary.json", "metrics.jsonl", "live.json", "metrics.prom", "record.db", "job.json"}


def make_inputs():
    """8 videos with different bytes, the same video again, and a file that is none."""
    folder = SCRATCH / "videos"
    folder.mkdir(parents=True)
    for n in range(8):
        video = (ROOT / f"tests/data/bbb_{'CD'[n % 2]}.mp4").read_bytes()
        (folder / f"v{n:02}.mp4").write_bytes(video + struct.pack(">I4sI", 12, b"free", n))
    shutil.copy(folder / "v00.mp4", folder / "w.mp4")
    (folder / "x.mp4").write_text("this is not a video\n" * 100)


def command(out, *more):
    file = SCRATCH / "run.toml"
    file.write_text(f'''[run]
out = "{out}"
[[job]]
name = "clips"
kind = "curate"
input = "{SCRATCH / "videos"}"
threads = 1
lease_inputs = 2
stages = ["video.probe", "shots.content", {{ use = "clip.transcode", min_length = 0.5, min_frames = 1, \
edge_crop = 0.0, max_height = 64, preset = "ultrafast" }}]
[[job]]
name = "shards"
kind = "shard"
input = "clips"
shard = {{ use = "shard.webdataset", max_count = 5 }}
''')
    return [KINORA, "run", str(file), *[word for one in more for word in ("--set", one)]]


def results(out):
    return {str(p.relative_to(out)): p.read_bytes()
            for job in ("clips", "shards") for p in sorted((out / job).rglob("*"))
            if p.is_file() and p.name not in OWN}


def summary(out):
    return json.loads((out / "clips/summary.json").read_text())


def same(out, expected):
    ours, theirs = results(out), results(expected)
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    different = [name for name in ours if ours[name] != theirs[name]]
    assert not different, different
    for member in ("inputs", "clips", "kept_sha256", "rules"):
        assert summary(out).get(member) == summary(expected).get(member), member
    assert not (out / ".leases").exists(), list((out / ".leases").rglob("*"))


def leases(out):
    found = []
    for file in out.glob(".leases/clips/*/leases/0*.json"):
        try:
            found.append(json.loads(file.read_text()))
        except FileNotFoundError:  # replaced by rename, or the job has ended
            pass
    return found


def until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.005)
    return found


def owned_by(out, process):
    return [l for l in leases(out) if f"-{process.pid}-" in l["owner"] and l["state"] == "held"]


def start(out):
    return subprocess.Popen(command(out, f"clips.lease={TERM}"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            text=True)


def check_processes(alone):
    out = SCRATCH / "shared"
    four = [start(out) for _ in range(4)]
    try:
        for process in four[:2]:
            until(lambda: owned_by(out, process), f"a lease of process {process.pid}")
            process.kill()
        four[2].send_signal(signal.SIGSTOP)
        time.sleep(3 * TERM)
        four[2].send_signal(signal.SIGCONT)
        ends = [(p.communicate(timeout=120)[1], p.returncode) for p in four]
    finally:
        for process in four:
            if process.poll() is None:
                process.kill()
    assert [code for _, code in ends] == [-signal.SIGKILL, -signal.SIGKILL, 0, 0], ends
    said = "".join(text for text, _ in ends)
    assert "shows no life; this process takes them over" in said, said
    assert said.count(" taken over from ") == 1, said
    same(out, alone)
    again = subprocess.run(command(out, f"clips.lease={TERM}"), capture_output=True, text=True, timeout=60)
    assert again.returncode == 0 and "clips: already done" in again.stderr, again


def check_one_afterwards(alone):
    """What processes have done by leases counts for one without."""
    out = SCRATCH / "left"
    first = start(out)
    until(lambda: [l for l in leases(out) if l["state"] == "done"], "a range that is done")
    first.kill()
    first.communicate()
    last = subprocess.run(command(out, "clips.threads=0"), capture_output=True, text=True, timeout=120)
    assert last.returncode == 0 and " taken over from " in last.stderr, last
    same(out, alone)


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    make_inputs()
    alone = SCRATCH / "alone"
    done = subprocess.run(command(alone, "clips.threads=0"), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    for check in (check_processes, check_one_afterwards):
        begin = time.monotonic()
        check(alone)
        print(f"ok    {check.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)


main()
