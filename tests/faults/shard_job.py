#!/usr/bin/env python3
"""A shard job with several writers: the bytes of one writer, whatever fields the clips have, also after it was killed,
stopped, or had no space. usage: shard_job.py KINORA ROOT SCRATCH"""
import json, pathlib, shutil, signal, subprocess, sys, tarfile, time

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.insert(0, str(ROOT / "tests/support"))
from skips import skip

OUT, DATA = SCRATCH / "run", SCRATCH / "run/clips/data"
JOBS = {"one": (1, "flat"), "two": (2, "flat"), "five": (5, "flat"), "bins-1": (1, "cosmos"), "bins-5": (5, "cosmos")}
PADDING = 1 << 20  # added to each clip, so that writing takes some time
COUNT = 3          # samples per shard


def run_file(out):
    file = SCRATCH / "run.toml"
    text = f'''[run]
out = "{out}"
[[job]]
name = "clips"
kind = "curate"
input = ["{ROOT / "tests/data/bbb_A.mp4"}", "{ROOT / "tests/data/bbb_B.mp4"}"]
stages = ["video.probe",
  {{ use = "video.clips", min_length = 0.2, min_frames = 1, edge_crop = 0.0, max_length = 0.5, long_shots = "equal", \
    preset = "ultrafast", max_height = 60, sample_fps = 2.0, sample_height = 32 }},
  "embed.classic", {{ use = "clip.preview", height = 32 }}, "caption.describe"]
'''
    for name, (threads, layout) in JOBS.items():
        text += (
            f'[[job]]\nname = "{name}"\nkind = "shard"\ninput = "clips"\nthreads = {threads}\nlayout = '
            f'"{layout}"\nshard = {{ use = "shard.webdataset", max_count = {COUNT}, val = 0.3 }}\n')
    file.write_text(text)
    return file


def start(job, out=OUT):
    return subprocess.Popen([KINORA, "run", str(run_file(out)), "--only", job], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def run(job, out=OUT, code=0):
    process = start(job, out)
    said = process.communicate(timeout=600)[1]
    assert process.returncode == code, (job, process.returncode, said)
    return said


def tree(job, out=OUT):
    return {str(p.relative_to(out / job)): p.read_bytes()
            for p in (out / job).rglob("*")
            if p.is_file() and (p.name.endswith((".tar", ".idx")) or p.parent.name == ".nv-meta")}


def make_clips():
    """Clips of any field: the first one becomes a picture without a duration, the second one a latent without a
    video."""
    run("one")
    shutil.rmtree(OUT / "one")
    keys = sorted(p.stem for p in DATA.glob("*.mp4"))
    for n, key in enumerate(keys):
        with open(DATA / f"{key}.mp4", "ab") as file:
            file.write(bytes([n]) * (PADDING + 37 * n))
    (DATA / f"{keys[0]}.mp4").rename(DATA / f"{keys[0]}.jpg")
    (DATA / f"{keys[0]}.json").write_text('{"width": 96, "height": 54}')
    (DATA / f"{keys[1]}.mp4").rename(DATA / f"{keys[1]}.latent")
    return keys


def check_content(keys):
    """The shards hold the files of the clips' folder: samples by key, fields by name, a new shard after COUNT
    samples."""
    files = {p.name: p.read_bytes() for p in DATA.iterdir()}
    names = sorted(files, key=lambda name: name.split(".", 1))
    assert {"jpg", "latent", "mp4", "json", "txt", "classic.npy",
            "preview.webp"} == {n.split(".", 1)[1] for n in names}, names
    found = []
    for number in range((len(keys) + COUNT - 1) // COUNT):
        with tarfile.open(OUT / "one" / f"shard-{number:06}.tar") as tar:
            members = [(m.name, tar.extractfile(m).read()) for m in tar]
        names_of = [n for n, _ in members]
        assert {n.split(".")[0] for n in names_of} == set(keys[number * COUNT:(number + 1) * COUNT]), (number, names_of)
        found += members
    assert [n for n, _ in found] == names and all(files[n] == bytes_ for n, bytes_ in found)
    counts = json.loads((OUT / "one/.nv-meta/.info.json").read_text())["shard_counts"]
    assert list(counts) == [f"shard-{n:06}.tar"
                            for n in range(number + 1)] and sum(counts.values()) == len(keys), counts


def check_writers(keys):
    for job in JOBS:
        run(job)
    for job, same in (("two", "one"), ("five", "one"), ("bins-5", "bins-1")):
        assert tree(job) == tree(same), job
    folders = {n.rpartition("/")[0] for n in tree("bins-5") if n.endswith(".tar")}
    with tarfile.open(OUT / "bins-5/unknown/shard-000000.tar") as tar:
        assert f"{keys[0]}.jpg" in tar.getnames() and len(folders) > 1, folders
    print(
        f"ok    {len(keys)} clips, {len(tree('one'))} files are those of one writer, with 2 and 5 writers, also in "
        f"{len(folders)} bins")


def interrupt(job, how):
    """Starts the job, and interrupts it when it begins to write a file."""
    begun = lambda: set((OUT / job).glob("**/.kinora-tmp-*"))
    before = begun()
    process = start(job)
    while process.poll() is None and not begun() - before:
        time.sleep(0.0005)
    process.send_signal(how)
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


def check_interruptions(whole, whole_bins):
    kills = 0
    for job, expected in (("five", whole), ("bins-5", whole_bins)):
        shutil.rmtree(OUT / job)
        for _ in range(2):
            kills += interrupt(job, signal.SIGKILL)[0] == -signal.SIGKILL
        run(job)
        assert tree(job) == expected, job
    assert kills, "no kill came before the end"
    shutil.rmtree(OUT / "five")
    code, said = interrupt("five", signal.SIGINT)
    assert code in (0, 130) and "failed" not in said and not list((OUT / "five").glob(".kinora-tmp-*")), (code, said)
    run("five")
    assert tree("five") == whole
    print(f"ok    {kills} kills and an interruption: the bytes of an uninterrupted run")


def check_full_disk(whole):
    disk = SCRATCH / "disk"
    disk.mkdir()
    clips = sum(p.stat().st_size for p in (OUT / "clips").rglob("*") if p.is_file())
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={clips + 8 * PADDING}", "tmpfs", str(disk)],
                      capture_output=True).returncode != 0:
        skip("full disk", "no permission to mount a small file system")
        return
    try:
        shutil.copytree(OUT / "clips", disk / "run/clips")
        said = run("five", disk / "run", code=1)
        errors = [line for line in said.splitlines() if " error " in line]
        assert len(errors) == 1 and "shard-00000" in errors[0] and "is full; free space there" in errors[0], said
        assert not (disk / "run/five/.nv-meta").exists() and not list((disk / "run/five").glob(".kinora-tmp-*"))
        subprocess.run(["mount", "-o", "remount,size=500m", str(disk)], check=True)
        run("five", disk / "run")
        assert tree("five", disk / "run") == whole
        shutil.rmtree(disk / "run/five")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        said = run("five", disk / "run", code=1).splitlines()
        assert len(said) == 1 and str(disk / "run") in said[0] and "Read-only" in said[0], said
        print("ok    a full disk and one that cannot be written end the job with one error, and the next run continues")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
keys = make_clips()
check_writers(keys)
check_content(keys)
check_interruptions(tree("one"), tree("bins-1"))
check_full_disk(tree("one"))
