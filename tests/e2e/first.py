#!/usr/bin/env python3
"""kinora init and kinora curate: a folder of videos, of shards, a run and a published model get a run file that is
valid and fits; a folder of videos becomes shards and a report by one command. usage: first.py KINORA ROOT SCRATCH"""
import json, os, pathlib, shutil, subprocess, sys

KINORA, ROOT, SCRATCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
QUICK = SCRATCH.parent / "quick"  # a run with shards


def kinora(*arguments, code=0, **environment):
    done = subprocess.run([KINORA, *arguments], cwd=SCRATCH, capture_output=True, text=True, timeout=240,
                          env={**os.environ, **environment})
    said = done.stdout + done.stderr
    assert done.returncode == code, f"{arguments}: exit {done.returncode}, expected {code}\n{said[-3000:]}"
    return said


def videos():
    folder = SCRATCH / "my videos"
    folder.mkdir()
    shutil.copy(ROOT / "tests/data/bbb_A.mp4", folder / "one.mp4")
    shutil.copy(ROOT / "tests/data/bbb_A.mp4", folder / "same.mp4")
    (folder / "below").mkdir()
    shutil.copy(ROOT / "tests/data/bbb_B.mp4", folder / "below" / "two.mp4")
    (folder / "broken.mp4").write_bytes(b"\0" * 1000)
    return folder


def check_init(folder):
    said = kinora("init", folder)
    assert "my videos: 4 videos" in said and "1 of 4 that were opened cannot be read" in said, said
    assert "next: kinora run my-videos.toml" in said, said
    text = (SCRATCH / "my-videos.toml").read_text()
    assert "# Found: 4 videos" in text and "To expect on this machine: " in text, text
    assert "no errors" in kinora("check", "my-videos.toml")
    assert "is there" in kinora("init", folder, code=2)
    assert (SCRATCH / "my-videos.toml").read_text() == text
    kinora("init", folder, "--force")
    # Without the network's weights other detectors find the shots, and captions are not embedded.
    kinora("init", folder, "--out", "plain.toml", KINORA_ASSETS=str(SCRATCH / "none"))
    assert "no errors" in kinora("check", "plain.toml", KINORA_ASSETS=str(SCRATCH / "none"))


def check_others():
    for name, folder, found in (("run", QUICK, "1 shard"), ("job", QUICK / "clips", "1 shard"),
                                ("shards", QUICK / "shards", "1 shard"),
                                ("model", ROOT / "tests/data/oracle/wan_t2v", "a published model")):
        assert found in kinora("init", folder, "--out", f"{name}.toml"), name
        assert "no errors" in kinora("check", f"{name}.toml"), name
    (SCRATCH / "empty").mkdir()
    (SCRATCH / "texts").mkdir()
    (SCRATCH / "texts/a.mp4").write_text("a text")
    (SCRATCH / "notes").mkdir()
    (SCRATCH / "notes/a.txt").write_text("a text")
    nothing = ": no videos, shards (.tar), published model (model_index.json) or run are in it"
    for folder, why in (("empty", f"empty{nothing}"), ("notes", f"notes{nothing}"), ("none", "none: not a folder"),
                        ("texts", "texts: none of the 1 file that was opened can be read as a video, such as")):
        for command in ("init", "curate"):
            said = kinora(command, folder, code=1)
            assert why in said, (command, folder, said)
    assert "a folder is missing" in kinora("init", code=2)


def check_curate(folder):
    few = ("--set", 'chosen.where="blur >= 1"')
    said = kinora("curate", folder, *few)
    out = SCRATCH / "runs/my-videos"
    assert f"kinora studio '{out}'" in said or f"kinora studio {out}" in said, said
    shards = json.loads((out / "shards/summary.json").read_text())
    clips = json.loads((out / "clips/summary.json").read_text())
    assert clips["kept"] == 2 and clips["failed"] == 1 and clips["filtered"] == 1, "two videos, and a copy of one"
    assert shards["status"] == "done" and (out / "report.html").stat().st_size > 10000
    made = clips["clips"]
    chosen = min(json.loads((out / job / "summary.json").read_text())["clips"]["kept"]
                 for job in ("chosen", "copies", "sets"))
    assert (f"4 videos → {sum(made.values())} clips → {made['kept']} good → {chosen} chosen → {shards['samples']} in "
            "shards\n") in said, said
    kinora("data", "preview", out / "shards", "--out", "preview.html")
    page = (SCRATCH / "preview.html").read_text()
    assert page.count('class="moving"') == page.count('class="still"') == shards["samples"] > 0, page[:3000]
    before = (out / "curate.toml").read_text()
    kinora("curate", folder, *few)  # finished jobs are not repeated
    assert json.loads((out / "clips/summary.json").read_text())["finished"] == clips["finished"]
    assert (out / "curate.toml").read_text() == before
    assert "is of another folder" in kinora("curate", ROOT / "tests/data", "--out", out, code=2)
    assert "and no videos; kinora init writes" in kinora("curate", QUICK / "shards", code=2)


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    folder = videos()
    check_init(folder)
    check_others()
    check_curate(folder)
    print("a folder becomes a run file that fits, and shards by one command")


main()
