#!/usr/bin/env python3
"""kinora init and kinora curate: a folder of videos, of shards, a run and a published model get a run file that is
valid and fits; a folder of videos becomes shards and a report by one command. usage: first.py KINORA ROOT SCRATCH"""
import json, os, pathlib, re, shutil, subprocess, sys, tomllib, urllib.parse, urllib.request

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
    assert "# Found: 4 videos" in text and "about" not in said.splitlines()[0], "each of few videos is opened"
    expected = said.splitlines()[1]
    assert expected.startswith("to expect on this machine: about 1 minute, and "), said
    assert f"# T{expected[1:]}.\n" in text, text
    assert "frames per second count as one rate" not in said, said
    assert "no errors" in kinora("check", "my-videos.toml")
    assert "is there" in kinora("init", folder, code=2)
    # A model has a name of its own, and so an output folder of its own.
    said = kinora("init", QUICK)
    assert re.search("^to expect on this machine: about \\d+ .* without a GPU for 10000 steps", said, re.M), said
    name = f"{QUICK.name}-model"
    assert f"next: kinora run {name}.toml" in said and f'name = "{name}"' in (SCRATCH / f"{name}.toml").read_text()
    assert "is there" in kinora("init", QUICK / "shards", code=2), "the shards of a run have the name of the run"
    prompts = tomllib.loads((SCRATCH / f"{name}.toml").read_text())["job"][-2]["prompts"]
    captions = [file.read_text().strip() for file in (QUICK / "clips/data").glob("*.txt")]
    assert prompts[0] in captions and len(prompts) == 1, (prompts, captions)
    assert (SCRATCH / "my-videos.toml").read_text() == text
    kinora("init", folder, "--force")
    check_many()
    # Without the network's weights other detectors find the shots, and captions are not embedded.
    kinora("init", folder, "--out", "plain.toml", KINORA_ASSETS=str(SCRATCH / "none"))
    assert "no errors" in kinora("check", "plain.toml", KINORA_ASSETS=str(SCRATCH / "none"))


def check_many():
    """Of many videos some are opened; clips of several rates are named before a training on them."""
    many = SCRATCH / "many"
    many.mkdir()
    slow = ["ffmpeg", "-v", "error", "-i", ROOT / "tests/data/bbb_A.mp4", "-t", "2", "-r", "5", many / "slow.mp4"]
    subprocess.run(slow, check=True)
    said = kinora("init", many, "--out", "slow.toml")
    assert "frames per second" not in said, said
    shutil.copy(ROOT / "tests/data/bbb_A.mp4", many / "fast.mp4")
    for i in range(200):
        os.link(many / ("fast.mp4" if i % 2 else "slow.mp4"), many / f"{i:03}.mp4")
    said = kinora("init", many)
    assert "202 videos, " in said and "(estimated from 12)" in said, said
    assert re.search("5 to \\d+ frames per second count as one rate", said), said
    assert 'where = "fps > 23 and fps < 26" packs those of 24 and 25 alone' in said, said


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
    for folder, why in (("empty", f"empty{nothing}"), ("notes", f"notes{nothing}"),
                        ("texts", "texts: none of the 1 file that was opened can be read as a video, such as")):
        for command in ("init", "curate"):
            said = kinora(command, folder, code=1)
            assert why in said, (command, folder, said)
    for command in ("init", "curate"):
        assert "none: no such folder" in kinora(command, "none", code=2)
        assert "texts/a.mp4: not a folder; give the folder that it is in" in kinora(command, "texts/a.mp4", code=2)
    assert "a folder is missing" in kinora("init", code=2)


def check_funnel(out, said):
    """The report and the studio have the numbers that the terminal ends with."""
    line = re.search("^\\d+ videos? → .* in shards$", said, re.M)
    told = [(int(count), name) for count, name in re.findall("(\\d+) ([^→\n]+?)(?= →|$)", line[0])]
    counts = lambda funnel: [(step["count"], step["name"]) for step in funnel]
    page = (out / "report.html").read_text()
    report = json.loads(re.search('<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
    assert counts(report["funnel"]) == told, (report["funnel"], told)
    folders = [json.loads(re.search('id="data">(.*?)</script>', copy.read_text(), re.S)[1]).get("run", "")
               for copy in (out / "report.html", *out.glob("*/report.html"))]
    assert folders == ["", "../"], "both copies lead to summary.json of the jobs"
    process = subprocess.Popen([KINORA, "studio", out, "--author", "mia"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    try:
        address = urllib.parse.urlsplit(process.stdout.readline().strip())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor())
        opener.open(address.geturl(), timeout=60).close()  # gives the cookie
        with opener.open(address._replace(path="/api/state", query="").geturl(), timeout=60) as answer:
            state = json.load(answer)
    finally:
        process.kill()
        process.wait()
    assert counts(state["funnel"]) == told, (state["funnel"], told)


def check_curate(folder):
    few = ("--set", 'bounds.where="blur >= 1"')
    said = kinora("curate", folder, *few)
    assert "to expect on this machine: " in said and "clips: begins" in said and "Runs stages over" not in said, said
    assert not re.search(r"\b0 (were|could|clips are)|\b1 (are|clips|streams)\b", said), said
    assert re.search(r"broken\.mp4 failed \(.+\); replace it, or run again with --retry-failed\n", said), said
    out = SCRATCH / "runs/my-videos"
    assert f"kinora studio '{out}'" in said or f"kinora studio {out}" in said, said
    shards = json.loads((out / "shards/summary.json").read_text())
    clips = json.loads((out / "clips/summary.json").read_text())
    assert clips["kept"] == 2 and clips["failed"] == 1 and clips["filtered"] == 1, "two videos, and a copy of one"
    assert shards["status"] == "done" and (out / "report.html").stat().st_size > 10000
    made = clips["clips"]
    chosen = min(json.loads((out / job / "summary.json").read_text())["clips"]["kept"]
                 for job in ("bounds", "copies", "sets"))
    assert (f"4 videos → {sum(made.values())} clips → {made['kept']} good → {chosen} chosen → {shards['samples']} in "
            "shards\n") in said, said
    check_funnel(out, said)
    kinora("data", "preview", out / "shards", "--out", "preview.html")
    page = (SCRATCH / "preview.html").read_text()
    assert page.count('class="moving"') == page.count('class="still"') == shards["samples"] > 0, page[:3000]
    before = (out / "curate.toml").read_text()
    said = kinora("curate", folder, *few)  # finished jobs are not repeated
    assert f"by the run file {out}/curate.toml, which is there" in said, said
    assert "train on them: kinora init " in said, said
    assert json.loads((out / "clips/summary.json").read_text())["finished"] == clips["finished"]
    assert (out / "curate.toml").read_text() == before
    (folder / "broken.mp4").write_bytes((ROOT / "tests/data/bbb_C.mp4").read_bytes())
    kinora("curate", folder, *few, "--retry-failed")
    assert json.loads((out / "clips/summary.json").read_text())["failed"] == 0
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
