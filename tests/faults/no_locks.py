#!/usr/bin/env python3
"""Disks that refuse every lock, as some network and FUSE file systems do: curation, its continuation, shards and their
index work without locks, and the log says so once a folder. Where the record cannot be shared between processes, as on
some more of them, one line says that.
usage: no_locks.py KINORA ROOT SCRATCH"""
import json, os, pathlib, shutil, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from lockless import built, lockless, mapless

KINORA, ROOT, SCRATCH = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(
    sys.argv[3]).resolve()
DATA = ROOT / "tests/data"
JOBS = """[run]
out = "{out}"
[[job]]
name = "clips"
kind = "curate"
input = "{videos}"
stages = ["video.probe",
  {{ use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, preset = "ultrafast", \
    max_height = 64 }}]
[[job]]
name = "shards"
kind = "shard"
input = "clips"
"""


def kinora(error, *args, code=0):
    done = subprocess.run([KINORA, *map(str, args)], capture_output=True, text=True, timeout=300,
                          env=lockless(SCRATCH, error) if error else None)
    assert done.returncode == code, (error, args, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def items(out):
    return sorted(json.loads(line)["key"] for line in (out / "clips/items.jsonl").read_text().splitlines())


def check(error):
    folder = SCRATCH / str(error)
    (folder / "videos").mkdir(parents=True)
    shutil.copy2(DATA / "bbb_A.mp4", folder / "videos/a.mp4")
    file, out = folder / "run.toml", folder / "out"
    file.write_text(JOBS.format(out=out, videos=folder / "videos"))
    said = kinora(error, "run", file)
    said_of = [line for line in said.splitlines() if "cannot be locked" in line]
    assert len(said_of) == len(set(said_of)) and any(f"{out}:" in line
                                                     for line in said_of) and any(
                                                         f"{out / 'clips'}:" in line for line in said_of), said
    first = items(out)
    shutil.copy2(DATA / "bbb_B.mp4", folder / "videos/b.mp4")
    kinora(error, "run", file)  # opens the record again, and adds to it
    both = items(out)
    assert set(first) < set(both), (first, both)
    assert "0 problems" in kinora(error, "data", "verify", out / "shards"), error
    kinora(error, "data", "index", out / "shards", "--again")
    # Where locks work, the same folder is read and continued.
    shutil.copy2(DATA / "bbb_A.mp4", folder / "videos/c.mp4")
    kinora(0, "run", file)
    assert set(both) < set(items(out)), items(out)


def check_record_that_cannot_be_mapped():
    folder = SCRATCH / "maps"
    folder.mkdir()
    file, out = folder / "run.toml", folder / "out"
    file.write_text(JOBS.format(out=out, videos=DATA / "bbb_A.mp4"))
    done = subprocess.run([KINORA, "run", file], capture_output=True, text=True, timeout=120,
                          env=mapless(SCRATCH, out))
    errors = [line for line in done.stderr.splitlines() if " error " in line]
    assert done.returncode == 1 and len(errors) == 1, done
    assert f"{out}/clips/record.db: " in errors[0], errors
    assert "put the output folder on a disk of this machine" in errors[0], errors
    kinora(0, "run", file)
    assert items(out), "nothing that it left is in the way"


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    (SCRATCH / "tmp").mkdir(parents=True)
    built(SCRATCH)
    for error in (37, 38, 95, 524):  # ENOLCK, ENOSYS, EOPNOTSUPP, ENOTSUPP
        check(error)
        print("ok   ", os.strerror(error), flush=True)
    check_record_that_cannot_be_mapped()
    print("ok    a record that cannot be mapped", flush=True)


main()
