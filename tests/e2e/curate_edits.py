"""Edits from the studio, and clips that no run replaces unasked. Part of curate.py."""
import json, shutil, subprocess, tarfile

from curate_runs import DATA, KINORA, SCRATCH, STAGES, items, lines, run, stored, summary, tree


def check_edits():
    """Edits from the studio reach the shards, and survive a curation that starts again."""
    shard = '[[job]]\nname = "shards"\nkind = "shard"\ninput = "clips"\n'
    videos = [DATA / "bbb_A.mp4", DATA / "bbb_B.mp4"]
    run("edited", videos, jobs=shard)
    keys = sorted({n.split(".")[0] for n in stored("edited")})
    assert len(keys) > 2
    edits = SCRATCH / "edited/clips/edits.jsonl"
    with edits.open("w") as file:
        for key, said in ((keys[0], {"caption": "Mine."}), (keys[1], {"keep": False, "reason": "blurred"}),
                          (keys[2], {"keep": False}),
                          (keys[2], {"keep": True}), (keys[2], {"keep": False}), (keys[2], {"keep": None}),
                          ("nobody-0000", {"keep": False})):
            file.write(json.dumps({"key": key, "time": "2025-01-01T00:00:00Z", "author": "ada", "set": said}) + "\n")
    said = run("edited", videos, jobs=shard)
    assert ("clips: already done" in said and "1 edit is left out, since" in said
            and "has not kept its clip" in said), said

    def members():
        out = {}
        for tar in (SCRATCH / "edited/shards").glob("*.tar"):
            with tarfile.open(tar) as open_tar:
                out.update({m.name: open_tar.extractfile(m).read() for m in open_tar})
        return out

    packed = members()
    assert packed[f"{keys[0]}.txt"] == b"Mine." and json.loads(packed[f"{keys[0]}.json"])["caption"] == {
        "by": "user", "author": "ada"}
    assert f"{keys[1]}.mp4" not in packed and f"{keys[2]}.mp4" in packed
    counts = summary("edited", "shards")
    assert (counts["inputs"], counts["samples"], counts["filtered"],
            counts["rules"]) == (len(keys), len(keys) - 1, 1, {"studio.reject": 1}), counts
    assert lines(SCRATCH / "edited/shards/dropped.jsonl") == [
        {"key": "nobody-0000", "end": "unused_edit", "reason": "edits_of_clips_not_kept", "set": {"keep": False}},
        {"key": keys[1], "end": "filtered", "rule": "studio.reject",
         "reason": "blurred"}], "including the edit that changes nothing"
    assert counts["edits_of_clips_not_kept"] == 1 and "not kept its clip: nobody-0000;" in said, said
    text = edits.read_bytes()
    said = run("edited", videos, STAGES.replace("120", "96"), jobs=shard, code=2)
    assert f"people have made {len(text.splitlines())} edits in the studio" in said and "--replace" in said, said
    assert sorted({n.split(".")[0] for n in stored("edited")}) == keys and members() == packed, "nothing was replaced"
    run("edited", videos, STAGES.replace("120", "96"), jobs=shard, options=["--replace"])
    assert edits.read_bytes() == text and members()[f"{keys[0]}.txt"] == b"Mine."
    check_edits_of_footage(edits, keys, lambda *stages, **more: run(
        "edited", videos, STAGES.replace(*stages), jobs=shard, **more), members)


def check_edits_of_footage(edits, keys, rerun, members):
    """An edit that belongs to footage that the clip no longer has is left out and reported."""
    of = lambda key: {n: items("edited")[key]["facts"][n] for n in ("sha256", "first_frame", "end_frame")}
    with edits.open("a") as file:
        for key, said in ((keys[0], "Fits."), (keys[2], "Fits too.")):
            file.write(json.dumps({"key": key, "of": of(key), "set": {"caption": said}}) + "\n")
    rerun("120", "96")
    assert members()[f"{keys[0]}.txt"] == b"Fits." and members()[f"{keys[2]}.txt"] == b"Fits too."
    assert summary("edited", "shards")["edits_of_other_footage"] == 0
    said = rerun("2.0", "1.0", options=["--replace"])
    fits = lambda key: of(key) == json.loads(next(l for l in edits.read_text().splitlines()
                                                  if f'"{key}", "of"' in l))["of"]
    assert not fits(keys[0]) and "other footage now" in said and summary("edited", "shards")[
        "edits_of_other_footage"] == 2 - fits(keys[2]), said
    assert members()[f"{keys[0]}.txt"] == b"Mine.", "only an edit without footage leaves it unknown"
    with edits.open("a") as file:
        file.write("not json\n")
    assert f"edits.jsonl: line {len(edits.read_text().splitlines())}" in rerun("120", "96", code=1,
                                                                               options=["--replace"])


def check_trimmed():
    """Of a trimmed clip the shards have a preview and a sentence of what is left, and are a whole data set."""
    shard = '[[job]]\nname = "shards"\nkind = "shard"\ninput = "clips"\n'
    stages = STAGES.replace("]", ', { use = "clip.preview", height = 32, fps = 8.0 }]')
    run("trimmed", [DATA / "bbb_A.mp4"], stages, jobs=shard)
    key = "bbb_A-0000"
    facts, data = items("trimmed")[key]["facts"], SCRATCH / "trimmed/clips/data"
    end = int(facts["fps"])  # one second
    (SCRATCH / "trimmed/clips/edits.jsonl").write_text(json.dumps({"key": key, "set": {"trim": [0, end]}}) + "\n")
    said = run("trimmed", [DATA / "bbb_A.mp4"], stages, jobs=shard)
    assert "; 1 trimmed" in said, said
    shards = SCRATCH / "trimmed/shards"
    with tarfile.open(next(shards.glob("*.tar"))) as tar:
        fields = {name.split(".", 1)[1]: tar.extractfile(name).read() for name in tar.getnames()
                  if name.startswith(key + ".")}
    whole = (data / f"{key}.txt").read_text()
    assert " of 1.0 seconds," in fields["txt"].decode() and " of 1.0 seconds," not in whole, (fields["txt"], whole)
    frames = lambda webp: webp.count(b"ANMF")
    assert frames(fields["preview.webp"]) < frames((data / f"{key}.preview.webp").read_bytes())
    verified = subprocess.run([KINORA, "data", "verify", str(shards)], capture_output=True, text=True, timeout=300)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def check_replaced():
    """Another run file, or another input with other options, replaces no clips unasked."""
    videos, other = [DATA / "bbb_A.mp4"], STAGES.replace("120", "96")
    run("kept", videos)
    before = tree("kept")
    run("kept", [DATA / "bbb_B.mp4"], other, code=2)
    file = SCRATCH / "another.toml"
    file.write_text((SCRATCH / "kept.toml").read_text().replace("bbb_B", "bbb_A"))
    done = subprocess.run([KINORA, "run", str(file), "--out", str(SCRATCH / "kept")], capture_output=True, text=True,
                          timeout=600)
    assert (done.returncode == 2 and f"they were made by the run file {SCRATCH / 'kept.toml'}" in done.stderr
            and "--replace" in done.stderr), done
    dry = subprocess.run([KINORA, "run", str(file), "--out", str(SCRATCH / "kept"), "--dry-run"], capture_output=True,
                         text=True, timeout=600)
    assert dry.returncode == 2 and "--replace" in dry.stderr, dry
    assert tree("kept") == before
    run("kept", videos, other)  # the same file with other options
    assert tree("kept") != before
    run("kept", [DATA / "bbb_B.mp4"], STAGES, options=["--replace"])
    assert set(items("kept")) >= {"bbb_B"} and "bbb_A" not in items("kept")


def check_edits_of_moved_keys():
    """An added video takes a free key. If a restarted job gives other clips new keys, edits follow the footage, and
    each is applied once."""
    shard = '[[job]]\nname = "shards"\nkind = "shard"\ninput = "clips"\n'
    videos = SCRATCH / "same_names"
    for name, of in (("b", "bbb_B"), ("c", "bbb_A")):
        (videos / name).mkdir(parents=True)
        shutil.copy(DATA / f"{of}.mp4", videos / name / "001.mp4")
    run("moved", [videos], more="recursive = true", jobs=shard)
    before = items("moved")
    assert before["001"]["url"].endswith("b/001.mp4") and before["001-0000"]["end"] == "kept", before
    of = {n: before["001-0000"]["facts"][n] for n in ("sha256", "first_frame", "end_frame")}
    (SCRATCH / "moved/clips/edits.jsonl").write_text(
        json.dumps({"key": "001-0000", "of": of, "set": {"keep": False, "reason": "logo"}}) + "\n")
    (videos / "a").mkdir()
    shutil.copy(DATA / "bbb_C.mp4", videos / "a/001.mp4")
    (videos / "a/empty.mp4").write_bytes(b"")
    shutil.copy(DATA / "bbb_C.mp4", videos / "a/zz.mp4")
    shutil.copy(videos / "a/empty.mp4", videos / "a/empty too.mp4")
    times = lambda: {name: file.stat().st_mtime_ns for name, file in stored("moved").items()}
    made = times()
    run("moved", [videos], more="recursive = true", jobs=shard)
    now = items("moved")
    assert now["001"]["url"].endswith("b/001.mp4") and now["001-2"]["url"].endswith("c/001.mp4") and now["001-3"][
        "url"].endswith("a/001.mp4"), now
    assert made.items() <= times().items() and len(times()) > len(made), "nothing is redone"
    assert [d["key"] for d in lines(SCRATCH / "moved/shards/dropped.jsonl")] == ["001-0000"]
    # Other options, although they change nothing here, and so the keys of a fresh run.
    said = run("moved", [videos], STAGES.replace("min_frames = 1", "min_frames = 2"), more="recursive = true",
               jobs=shard, options=["--replace"])
    now = items("moved")
    assert now["001-2"]["url"].endswith("b/001.mp4") and now["001-0000"]["end"] == "kept", now
    dropped = lines(SCRATCH / "moved/shards/dropped.jsonl")
    assert [(d["key"], d["rule"], d["reason"]) for d in dropped] == [("001-2-0000", "studio.reject", "logo")], dropped
    ends = [now[key]["end"] for key in ("empty", "empty too", "zz")]
    assert ends == ["failed", "failed", "filtered"], now
    assert "the file is empty; fetch it again" in now["empty too"]["reason"], now
    assert "of 6 inputs 3 kept, 1 filtered, 2 failed;" in said and "(ingest.duplicate 1)" in said, said
