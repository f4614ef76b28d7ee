#!/usr/bin/env python3
"""What is finished stays so after an upgrade, a move or a copy of what a run reads: a job's identity is made of
contents, and not of paths, times of files and versions of plugins. Results that an earlier Kinora recorded, whose
identities are stated here once more, are taken over. usage: upgrade.py KINORA ROOT SCRATCH"""
import hashlib, json, os, pathlib, shutil, sqlite3, subprocess, sys, tomllib

KINORA, ROOT, SCRATCH = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(
    sys.argv[3]).resolve()
sys.path.append(str(ROOT / "tests/support"))
import quick

JOBS = ["clips", "shards", "tokenizer", "latents"]


def run(project, *options, steps=2):
    few = [*quick.FEW, "dit.batch=1", "dit.model.layers=1", f"dit.steps={steps}",
           "latents.words.vocab=" + str(next(project.glob("*/words.txt")))]
    command = [KINORA, "run", project / "configs/quickstart.toml", "--out", project / "runs",
               *(a for s in few for a in ("--set", s)), *options]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stderr


def all_done(text, jobs=JOBS):
    assert all(f"{job}: already done" in text for job in jobs), text


def project():
    """A project with the begun run of other tests, which was made of other folders."""
    place = SCRATCH / "project"
    for folder in ("configs", "tests/data", "runs", "assets"):
        (place / folder).mkdir(parents=True)
    shutil.copy2(ROOT / "configs/quickstart.toml", place / "configs")
    shutil.copy2(ROOT / "tests/data/film.mp4", place / "tests/data")
    shutil.copyfile(pathlib.Path(os.environ["KINORA_ASSETS"]) / "minilm/vocab.txt", place / "assets/words.txt")
    quick.begun(KINORA, ROOT, place / "runs", JOBS)
    return place


def check_moved(place):
    """The project elsewhere, its assets under another name, files copied without their times; a training continues
    after a move."""
    all_done(run(place, "--dry-run"))
    run(place, "--only", "dit")
    (place / "assets").rename(place / "vocabularies")
    moved = place.rename(SCRATCH / "moved")
    all_done(run(moved, "--dry-run"), [*JOBS, "dit"])
    said = run(moved, "--only", "dit", steps=3)
    assert "dit: resuming after step 2" in said, said
    copied = SCRATCH / "copied"
    shutil.copytree(moved, copied, copy_function=shutil.copyfile)
    said = run(copied, "--only", "shards")
    assert "clips: already done" in said and "shards: already done" in said, said  # the bytes are the same
    all_done(run(copied, "--dry-run", steps=3), [*JOBS, "dit"])
    video = json.loads((copied / "runs/clips/items.jsonl").read_text().splitlines()[0])
    assert video["url"].endswith("/tests/data/film.mp4"), video  # where it was when the clips were made
    words = next(copied.glob("*/words.txt"))
    words.write_bytes(b"".join(reversed(words.read_bytes().splitlines(keepends=True))))
    said = run(copied, "--dry-run", steps=3)
    all_done(said, ["clips", "shards", "tokenizer"])
    assert "latents: would run" in said and "words.vocab was" in said, said
    return moved


def dump(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def work_before(place, name, new):
    """The job.json of an earlier Kinora, which lacked the option `new` and whose components had another version,
    and its identity without inputs."""
    job = json.loads((place / "runs" / name / "job.json").read_text())
    for key in ("contents", "digest", "base", "formerly"):
        job.pop(key, None)
    for c in job["components"]:
        c["version"] = "0.0.9"
    job["options"].pop(new)
    manifest = tomllib.loads((ROOT / f"plugins/jobs/{job['kind']}/plugin.toml").read_text())
    kind = next(c for c in manifest["component"] if c["id"] == f"job/{job['kind']}")
    how_only = {slot for slot, of in kind["slot"].items() if of.get("how_only")}
    work = {"kind": job["kind"], "options": {k: v for k, v in job["options"].items() if k not in job["how_only"]},
            "seed": job.get("seed", 0),
            "components": [{k: v for k, v in c.items() if k != "version"}
                           for c in job["components"] if c["slot"] not in how_only], "inputs": []}
    return job, work


def write(place, name, job, digest):
    folder = place / "runs" / name
    (folder / "job.json").write_text(json.dumps({**job, "digest": digest}, indent=2))
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps({**summary, "digest": digest}))


def check_before(place):
    """Results that an earlier Kinora recorded: a run takes them over, a dry run says so and writes nothing; the curate
    job continues with them."""
    video = place / "tests/data/film.mp4"
    job, work = work_before(place, "clips", "pictures")
    base = sha256(dump(work))
    identity = f"{sha256(dump({'url': video.name, 'user': {}}))[:32]}-{video.stat().st_size}-{video.stat().st_mtime_ns}"
    write(place, "clips", {**job, "base": base}, sha256(dump(work | {"inputs": [sha256(f" {identity}\n")]})))
    with sqlite3.connect(place / "runs/clips/record.db") as record:
        record.execute("UPDATE job SET base = ?", (base,))
        record.execute("UPDATE input SET identity = ?, url = ?", (identity, str(video)))
    kept = sha256(dump(work | {"inputs": [json.loads((place / "runs/clips/summary.json").read_text())["kept_sha256"]]}))
    job, work = work_before(place, "shards", "where")
    write(place, "shards", job, sha256(dump(work | {"paths": [], "inputs": [kept]})))
    before = (place / "runs/clips/job.json").read_bytes()
    all_done(run(place, "--dry-run"), ["clips", "shards"])
    assert (place / "runs/clips/job.json").read_bytes() == before, "a dry run writes nothing"
    all_done(run(place, "--only", "shards"), ["clips", "shards"])
    now = json.loads((place / "runs/clips/job.json").read_text())
    assert now["base"] != base and now["formerly"] == [base] and now["components"][-1]["version"] != "0.0.9", now
    (place / "more").mkdir()
    shutil.copy2(ROOT / "tests/data/bbb_A.mp4", place / "more")
    more = ["--set", f'clips.input=["{video}", "{place}/more"]']
    said = run(place, "--only", "clips", *more)
    assert "finished work on the remaining inputs is kept" in said and "from scratch" not in said, said
    with sqlite3.connect(place / "runs/clips/record.db") as record:
        assert record.execute("SELECT COUNT(*) FROM input").fetchone() == (2,)
        assert record.execute("SELECT base FROM job").fetchone() == (now["base"],)


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    check_before(check_moved(project()))


main()
