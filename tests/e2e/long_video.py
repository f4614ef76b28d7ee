#!/usr/bin/env python3
"""Frames for stages are stored on disk, not in memory: a curate job's memory does not grow with the video.
usage: long_video.py KINORA ROOT SCRATCH

Two videos of the same content, one eight times as long. The test measures memory that the system cannot reclaim:
private and shared memory of all processes of the run, and memory files that they have open, mapped or not."""
import json, os, pathlib, shutil, subprocess, sys, time

sys.path.insert(0, sys.argv[2] + "/tests/support")
from processes import family

KINORA, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[3])
SECONDS, HEIGHT, RATE = (8, 64), 360, 10
STAGES = (
    f'[{{ use = "shots.content", sample_every = {1 / RATE}, sample_height = {HEIGHT}, thumbnails = true }}, '
    f'"video.probe", '
          '{ use = "filter.brightness", mode = "score" }, "video.probe"]')


def make(seconds):
    video = SCRATCH / f"{seconds}.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i",
                    f"testsrc2=size=128x72:rate={RATE}:duration={seconds}", "-c:v", "libx264",
                    "-preset", "ultrafast", "-pix_fmt", "yuv420p", str(video)], check=True)
    return video


def held(pid):
    total, seen = 0, set()
    for one in family(pid):
        try:
            status = dict(line.split(":", 1)
                          for line in pathlib.Path(f"/proc/{one}/status").read_text().splitlines() if ":" in line)
            total += 1024 * (int(status["RssAnon"].split()[0]) + int(status["RssShmem"].split()[0]))
            for link in pathlib.Path(f"/proc/{one}/fd").iterdir():
                if os.readlink(link).startswith("/memfd:"):
                    s = os.stat(link)
                    total += 0 if s.st_ino in seen else s.st_blocks * 512
                    seen.add(s.st_ino)
        except (OSError, KeyError):
            pass
    return total


def run(seconds):
    video, out = make(seconds), SCRATCH / f"out-{seconds}"
    file = SCRATCH / f"{seconds}.toml"
    file.write_text(
        f'[run]\nout = "{out}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = "{video}"\nstages = {STAGES}\n')
    process, most = subprocess.Popen([KINORA, "run", str(file)], stderr=subprocess.PIPE, text=True), 0
    while process.poll() is None:
        most = max(most, held(process.pid))
        time.sleep(0.01)
    assert process.returncode == 0, process.stderr.read()
    item, = [json.loads(line) for line in (out / "clips/items.jsonl").read_text().splitlines()]
    assert item["end"] == "kept" and len(item["facts"]["frames_at"]) == seconds * RATE, item
    return most


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
short, long = map(run, SECONDS)
frames = (SECONDS[1] - SECONDS[0]) * RATE * HEIGHT * HEIGHT * 16 // 9 * 3
print(f"{short >> 20} MiB, and {long >> 20} MiB for {frames >> 20} MiB of frames more")
assert long < short + frames / 8, (short, long, frames)
