#!/usr/bin/env python3
"""A curate job killed at random moments, and on a full disk: the next run finishes no clip twice, leaves no partial
results, and its bytes equal those of an uninterrupted run. usage: curate_kill.py KINORA ROOT SCRATCH [KILLS [SEED]]"""
import json, os, pathlib, random, shutil, signal, subprocess, sys, time

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.insert(0, str(ROOT / "tests/support"))
import record
from skips import skip

KILLS, SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 6, int(sys.argv[5]) if len(sys.argv) > 5 else 7
DATA = ROOT / "tests/data"
STAGES = ""  # of the current run
# times, memory, and the order of the work
OWN = {"summary.json", "metrics.jsonl", "live.json", "metrics.prom", "record.db"}


def make_inputs():
    folder = SCRATCH / "videos"
    folder.mkdir()
    for name in ("bbb_A.mp4", "bbb_B.mp4", "bbb_C.mp4", "calais_1906.ogv", "film_excerpt.webm"):
        shutil.copy(DATA / name, folder / name)
    shutil.copy(DATA / "bbb_A.mp4", folder / "copy_of_A.mp4")
    short = folder / "film.mp4"  # the video's first shots
    subprocess.run(["ffmpeg", "-v", "error", "-i", DATA / "film.mp4", "-c", "copy", "-t", "12", "-movflags",
                    "+faststart", short], check=True)
    video = short.read_bytes()
    (folder / "cut_off.mp4").write_bytes(video[: len(video) // 2])
    rotten = bytearray(video)
    rotten[150_000:150_400] = bytes(b ^ 0x5A for b in rotten[150_000:150_400])
    (folder / "rotten.mp4").write_bytes(rotten)
    (folder / "text.mp4").write_text("this is not a video\n" * 100)
    (folder / "empty.mp4").write_bytes(b"")


CHAIN = '''"video.probe",
  { use = "shots", detectors = ["content", "hash", "threshold"], decide = "content", sample_every = 0.5, \
    sample_height = 64 },
  { use = "clip.transcode", min_length = 1.0, min_frames = 1, edge_crop = 0.0, max_length = 3.0, \
    long_shots = "equal", preset = "ultrafast", copy = "auto", sample_fps = 2.0, sample_height = 64 },
  "embed.classic", { use = "clip.preview", height = 64 }, "caption.describe"'''
# A graph with a branch of small clips that are kept too.
GRAPH = '''{ use = "video.probe", name = "look" }, { use = "shots.content", name = "shots", from = ["look"] },
  { use = "clip.transcode", from = ["shots"], min_length = 1.0, min_frames = 1, edge_crop = 0.0, max_length = 3.0, \
    long_shots = "equal", preset = "ultrafast", max_height = 180 },
  "caption.describe",
  { use = "clip.transcode", name = "small", from = ["shots"], min_length = 1.0, min_frames = 1, edge_crop = 0.0, \
    max_length = 3.0, long_shots = "equal", preset = "ultrafast", max_height = 60 }'''
# Shots and clips from a single decoding pass.
ONE = '''"video.probe",
  { use = "video.clips", detectors = ["content"], min_length = 1.0, min_frames = 1, edge_crop = 0.0, \
    max_length = 3.0, long_shots = "equal", preset = "ultrafast", max_height = 180 },
  "caption.describe"'''
stages = CHAIN


def run_file(out):
    file = SCRATCH / "run.toml"
    file.write_text(f'''[run]
out = "{out}"
[[job]]
name = "clips"
kind = "curate"
input = "{SCRATCH / "videos"}"
stages = [{stages}]
[[job]]
name = "shards"
kind = "shard"
input = "clips"
shard = {{ use = "shard.webdataset", max_count = 7 }}
''')
    return file


def start(out):
    return subprocess.Popen([KINORA, "run", str(run_file(out))], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            text=True)


def finish(out):
    process = start(out)
    said = process.communicate(timeout=600)[1]
    assert process.returncode == 0, said
    return said


def content(path):
    """The bytes of a file; of a job's description without the time that earlier runs took."""
    if path.name != "job.json":
        return path.read_bytes()
    return {name: value for name, value in json.loads(path.read_text()).items() if name != "spent_s"}


def tree(out):
    return {str(p.relative_to(out)): content(p) for job in ("clips", "shards") for p in sorted((out / job).rglob("*"))
            if p.is_file() and p.name not in OWN and p.name != ".lock"}


def finished_clips(out):
    """Files of kept samples that are recorded, with data that shows whether they were written again."""
    stats = {name: (out / "clips/data" / name).stat() for end in record.outcomes(out / "clips")
             for name in end["files"]}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()}


def compare(out, whole, what):
    mine = tree(out)
    assert sorted(mine) == sorted(whole), (what, sorted(set(mine) ^ set(whole)))
    other = [name for name in mine if mine[name] != whole[name]]
    assert not other, (what, other)


def check_sums(out):
    """Every input and every clip is recorded once, and the totals match the record."""
    summary = json.loads((out / "clips/summary.json").read_text())
    items = [json.loads(line) for line in (out / "clips/items.jsonl").read_text().splitlines()]
    videos = [i for i in items if "parent" not in i]
    assert len(videos) == summary["inputs"] == 11 and len({f["key"] for f in videos}) == 11, summary
    for group, sums in ((videos, summary), ([i for i in items if "parent" in i], summary["clips"])):
        for end in ("kept", "filtered", "failed"):
            assert sum(i["end"] == end for i in group) == sums[end], (end, sums)
    duplicate = next(f for f in videos if f["key"] == "copy_of_A")
    assert (duplicate["reason"], duplicate["of"]) == ("ingest.duplicate", "bbb_A"), duplicate
    assert {f["key"] for f in videos if f["end"] == "failed"} == {"cut_off", "rotten", "text", "empty"}, videos
    clips = [i["facts"] for i in items if "parent" in i and i["end"] == "kept"]
    if stages is CHAIN:
        assert any(c["copied"] > 0 for c in clips) and any(c["copied"] < c["frames"]
                                                           for c in clips) and all(
                                                               "embeddings" in c for c in clips), clips
    manifest = [json.loads(line) for line in (out / "clips/manifest.jsonl").read_text().splitlines()]
    assert [m["key"] for m in manifest] == [i["key"] for i in items]


def kill_again_and_again(whole, seconds, order):
    """Kills one run at several random moments, then lets it end. Returns the kills, and the clips that were finished at
    each."""
    out = SCRATCH / "killed"
    shutil.rmtree(out, ignore_errors=True)
    kills, before = 0, {}
    for _ in range(4):
        process = start(out)
        try:
            process.wait(order.uniform(0.02, 0.6 * seconds))
            assert process.returncode == 0, process.stderr.read()
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        kills += 1
        now = finished_clips(out)
        assert all(now.get(name) == stat for name, stat in before.items()), "a finished clip was made again"
        before = now
    said = finish(out)
    after = finished_clips(out)
    redone = [name for name, stat in before.items() if after.get(name) != stat]
    assert not redone, ("made again", redone)
    assert not before or "resuming:" in said or "already done" in said, said
    compare(out, whole, f"after {kills} kills")
    check_sums(out)
    return kills, len(before)


def ended_videos(out):
    """For a graph: the files of videos whose own outcome is recorded."""
    ends = record.outcomes(out / "clips")
    ended = {end["key"] for end in ends if not end["made"]}
    files = {name for end in ends if end["input"] in ended for name in end["files"]}
    return {name: ((out / "clips/data" / name).stat().st_ino, (out / "clips/data" / name).stat().st_mtime_ns)
            for name in files}


def kill_a_graph(order):
    """A video that has ended is not processed again, another one is processed completely, and the bytes equal those of
    an uninterrupted run."""
    global stages
    stages = GRAPH
    begin = time.monotonic()
    finish(SCRATCH / "whole_graph")
    seconds, whole = time.monotonic() - begin, tree(SCRATCH / "whole_graph")
    assert any("@small-0000.mp4" in name for name in whole), sorted(whole)
    kills = found = 0
    for _ in range(9):
        if kills >= KILLS // 6 and found:
            break
        out = SCRATCH / "killed_graph"
        shutil.rmtree(out, ignore_errors=True)
        process = start(out)
        try:
            process.wait(order.uniform(0.4, 0.9) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        before = ended_videos(out)
        finish(out)
        after = ended_videos(out)
        assert all(after[name] == stat for name, stat in before.items()), "a finished video was processed again"
        compare(out, whole, "a killed graph")
        found += len(before)
    assert kills and found, (kills, found)
    print(
        f"ok    {kills} kills of a graph: {found} files of finished videos found, none made again; {len(whole)} files "
        f"equal to an uninterrupted run's")


def full_disk(whole):
    disk = SCRATCH / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", str(disk)],
                      capture_output=True).returncode != 0:
        skip("full disk", "no permission to mount a small file system")
        return
    try:
        process = start(disk / "run")
        said = process.communicate(timeout=600)[1]
        assert process.returncode == 1 and ("full" in said.lower() or "No space" in said), (process.returncode, said)
        before = finished_clips(disk / "run")
        subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
        finish(disk / "run")
        after = finished_clips(disk / "run")
        assert all(after[name] == stat for name, stat in before.items()), "made again after the disk was full"
        compare(disk / "run", whole, "after a full disk")
        print(f"ok    full disk: {len(before)} files were finished before, none was made again")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
make_inputs()
order = random.Random(SEED)
for stages in (CHAIN, ONE):
    shutil.rmtree(SCRATCH / "whole", ignore_errors=True)
    begin = time.monotonic()
    finish(SCRATCH / "whole")
    seconds = time.monotonic() - begin
    whole = tree(SCRATCH / "whole")
    check_sums(SCRATCH / "whole")
    kills, found, runs = 0, 0, 0
    while runs < 10 and (kills < (KILLS + 1) // 2 or not found):
        more, clips = kill_again_and_again(whole, seconds, order)
        kills, found, runs = kills + more, found + clips, runs + 1
    assert found > 0, "no kill found a finished clip: the test shows nothing"
    print(
        f"ok    {kills} kills in {runs} runs: {found} finished files found, none made again; {len(whole)} files equal "
        f"to an undisturbed run's")
full_disk(whole)
kill_a_graph(order)
