#!/usr/bin/env python3
"""The inputs of a curate job, what it reports about them, and the users' later edits.
usage: curate.py KINORA ROOT SCRATCH"""
import csv, hashlib, json, os, pathlib, shutil, subprocess, sys, tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
from model_server import ModelServer

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
DATA = ROOT / "tests/data"
STAGES = '["video.probe", { use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, max_length = 2.0, long_shots = "equal", preset = "ultrafast", max_height = 120 }, "caption.describe"]'


def run(name, inputs, stages=STAGES, more="", jobs="", code=0, options=()):
    file = SCRATCH / f"{name}.toml"
    listed = ", ".join(f'"{i}"' for i in inputs)
    file.write_text(f'[run]\nout = "{SCRATCH / name}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = [{listed}]\nstages = {stages}\n{more}\n{jobs}')
    done = subprocess.run([KINORA, "run", str(file), *options], capture_output=True, text=True, timeout=600)
    assert done.returncode == code, (name, done.returncode, done.stderr)
    return done.stderr


def lines(file):
    return [json.loads(text) for text in file.read_text().splitlines()]


def items(name):
    return {i["key"]: i for i in lines(SCRATCH / name / "clips/items.jsonl")}


def summary(name, job="clips"):
    return json.loads((SCRATCH / name / job / "summary.json").read_text())


def stored(name):
    return {p.name: p for p in (SCRATCH / name / "clips/data").iterdir()}


def tree(name, but=("summary.json", "metrics.jsonl", "job.json", "live.json", "metrics.prom", "record.db")):
    base = SCRATCH / name / "clips"
    return {str(p.relative_to(base)): p.read_bytes() for p in base.rglob("*") if p.is_file() and p.name not in but}


def check_manifest():
    """The user's fields follow the video; unusable inputs are reported; the output says where it came from."""
    films = SCRATCH / "films"
    films.mkdir()
    for name in ("bbb_A.mp4", "bbb_B.mp4"):
        shutil.copy(DATA / name, films / name)
    (films / "list.jsonl").write_text('{"url": "bbb_A.mp4", "caption": "A rabbit\\u2026", "licence": "CC-BY"}\n{"url": "bbb_B.mp4"}\n'
                                      '{"url": "none.mp4", "key": "missing"}\nno json\n{"url": "sub/*.mp4"}\n')
    run("manifest", [films / "list.jsonl"])
    found = items("manifest")
    digest = hashlib.sha256((DATA / "bbb_A.mp4").read_bytes()).hexdigest()
    a = found["bbb_A"]
    assert a["caption"] == "A rabbit…" and a["facts"]["user"] == {"licence": "CC-BY"} and a["facts"]["caption"] == {"by": "user"}, a
    assert a["facts"]["sha256"] == digest and a["end"] == "kept"
    assert found["missing"]["end"] == "failed" and "none.mp4" in found["missing"]["reason"], found["missing"]
    broken = [i for i in found.values() if "line 4: it is not a JSON object" in i.get("reason", "")]
    assert len(broken) == 1 and broken[0]["stage"] == "ingest", found
    said = summary("manifest")
    assert (said["inputs"], said["kept"], said["failed"]) == (5, 2, 3), said
    assert {"end": "failed", "stage": "ingest", "count": 3} in said["outcomes"]["inputs"], said["outcomes"]
    manifest = lines(SCRATCH / "manifest/clips/manifest.jsonl")
    with open(SCRATCH / "manifest/clips/manifest.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [m["key"] for m in manifest] == [t["key"] for t in table] == list(found), "one line each, in a fixed order"
    clip = next(m for m in manifest if m["film"] == "bbb_A")
    assert clip["sha256"] == digest and clip["url"].endswith("bbb_A.mp4") and clip["end"] > clip["start"] == 0, clip
    assert {i["caption"] for i in found.values() if i.get("parent") == "bbb_A"} == {"A rabbit…"}, "the user's fields reach the clips"
    assert table[0]["caption"] == "A rabbit…" and float(next(t for t in table if t["film"] == "bbb_A")["end"]) == clip["end"]
    kept = [i for i in found.values() if "parent" in i and i["end"] == "kept"]
    assert abs(said["clip_seconds"] - sum(i["facts"]["duration_s"] for i in kept)) < 1e-9 and said["film_seconds"] > 0
    assert said["bytes_kept"] == sum(p.stat().st_size for p in stored("manifest").values()), said
    assert said["peak_memory"]["process"] > 1 << 20 and said["throughput"]["film_seconds_per_second"] > 0, said


def check_variable_rate():
    """A video with a variable frame rate is as long as it plays: here 1 s of all frames, then 3 s of every third."""
    film = SCRATCH / "variable.mkv"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", str(DATA / "bbb_B.mp4"), "-t", "4", "-an", "-vf", "select='lt(t,1)+not(mod(n,3))',scale=-2:90",
                    "-fps_mode", "vfr", "-c:v", "libx264", "-preset", "ultrafast", str(film)], check=True)
    run("variable", [film], '["shots.content"]')
    seconds = summary("variable")["film_seconds"]
    assert 3.9 < seconds < 4.1, (seconds, items("variable")["variable"]["shots"])


def check_columns():
    """The user's columns reach the output, filters can use the numbers among them, and an unreadable record fails alone."""
    films = SCRATCH / "columns"
    films.mkdir()
    for name in "ABC":
        shutil.copy(DATA / f"bbb_{name}.mp4", films / f"{name.lower()}.mp4")
    (films / "films.csv").write_text('path,rating,by\na.mp4, 7.5 ,"x ""y"""\nc.mp4,"8"0",x\nb.mp4,3,\n')
    # A value that is used as a number but is not one is reported with its text.
    (films / "words.csv").write_text("path,rating\na.mp4,good\nb.mp4,4\n")
    run("words", [films / "words.csv"], '["video.probe", { use = "filter.facts", fact = "user.rating", at_least = 5.0 }]', code=1)
    said = items("words")["a"]["reason"]
    assert "has no number 'user.rating': that fact is \"good\"; write a number with a point" in said and 'missing = "keep"' in said, said
    assert (items("words")["b"]["end"], items("words")["b"]["score"]) == ("filtered", 4), items("words")
    run("columns", [films / "films.csv"], STAGES.replace('"video.probe"', '"video.probe", { use = "filter.facts", fact = "user.rating", at_least = 5.0 }'))
    found = items("columns")
    assert found["a"]["end"] == "kept" and (found["b"]["end"], found["b"]["score"]) == ("filtered", 3), found
    broken = next(i for i in found.values() if i["end"] == "failed")
    assert "films.csv: record 3: " in broken["reason"] and broken["status"] == "data" and summary("columns")["inputs"] == 3, broken
    with open(SCRATCH / "columns/clips/manifest.csv", newline="") as file:
        table = {t["key"]: t for t in csv.DictReader(file)}
    manifest = {m["key"]: m for m in lines(SCRATCH / "columns/clips/manifest.jsonl")}
    assert (table["a"]["user.rating"], table["a"]["user.by"], table["b"]["user.by"]) == (" 7.5 ", 'x "y"', ""), table
    assert manifest["a-0000"]["user.by"] == 'x "y"' and table["a-0000"]["user.rating"] == " 7.5 " and "user.by" not in manifest["b"], manifest


def check_graph():
    """Two branches that both keep a sample: the second one's key is KEY@STAGE. The graph is the one of plugins/stages/README.md."""
    text = (ROOT / "plugins/stages/README.md").read_text()
    example = text[text.index("### Graphs"):]
    stages = example[example.index("stages = [") + len("stages = "):example.index("`name` is what")]
    run("graph", [DATA / "bbb_A.mp4", DATA / "bbb_B.mp4"], stages)
    found, files = items("graph"), stored("graph")
    assert list(found) == ["bbb_A", "bbb_A@caption-describe", "bbb_B", "bbb_B@caption-describe"], list(found)
    for key in ("bbb_A", "bbb_B"):
        assert found[key]["shots"]["cuts"] is not None and "caption" not in found[key] and found[key]["end"] == "kept"
        branch = found[f"{key}@caption-describe"]
        assert branch["caption"] and "shots" not in branch and branch["parent"] == key, branch
        assert files[f"{key}@caption-describe.txt"].read_text() == branch["caption"] and f"{key}.json" in files and f"{key}.txt" not in files
    manifest = {m["key"]: m for m in lines(SCRATCH / "graph/clips/manifest.jsonl")}
    assert manifest["bbb_A@caption-describe"]["film"] == "bbb_A" and manifest["bbb_A@caption-describe"]["url"].endswith("bbb_A.mp4")
    said = summary("graph")
    assert (said["inputs"], said["kept"], said["clips"]) == (2, 2, {"kept": 2, "filtered": 0, "failed": 0}), said
    # Two branches that cut clips with equal names and different sizes.
    cut = '{{ use = "clip.transcode", name = "{}", from = ["look"], min_length = 0.5, max_length = 2.0, preset = "ultrafast", max_height = {} }}'
    run("sizes", [DATA / "bbb_A.mp4"], f'[{{ use = "video.probe", name = "look" }}, {cut.format("large", 120)}, {cut.format("small", 60)}]',
        jobs='[[job]]\nname = "shards"\nkind = "shard"\ninput = "clips"\n')
    found = items("sizes")
    clips = {k: i["facts"]["height"] for k, i in found.items() if i["end"] == "kept" and not i["consumed"]}
    large = [k for k in clips if "@" not in k]
    assert large and clips == {**{k: 120 for k in large}, **{k.replace("bbb_A", "bbb_A@small"): 60 for k in large}}, clips
    assert summary("sizes", "shards")["samples"] == len(clips)


def check_patterns():
    tree_of = SCRATCH / "tree"
    for name, place in (("bbb_A.mp4", "x/y/a.mp4"), ("bbb_B.mp4", "x/b.mp4"), ("bbb_C.mp4", "c.mkv")):
        (tree_of / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DATA / name, tree_of / place)
    run("pattern", [tree_of / "**/*.mp4"], '["video.probe"]')
    assert list(items("pattern")) == ["b", "a"], items("pattern")
    run("deep", [tree_of], '["video.probe"]', "recursive = true")
    assert list(items("deep")) == ["c", "b", "a"], list(items("deep"))
    (tree_of / "films.csv").write_text('path,caption\r\nx/b.mp4,"two, ""words"""\r\n')
    run("table", [tree_of / "films.csv"], '["video.probe"]')
    assert items("table")["b"]["caption"] == 'two, "words"'
    checked = subprocess.run([KINORA, "check", str(SCRATCH / "table.toml"), "--set", f'clips.input="{tree_of}/none/**/*.mp4"'], capture_output=True, text=True)
    assert checked.returncode == 2 and "none/**/*.mp4" in checked.stderr + checked.stdout, checked
    (tree_of / "films.csv").write_text("name\nx\n")
    checked = subprocess.run([KINORA, "check", str(SCRATCH / "table.toml")], capture_output=True, text=True)
    assert checked.returncode == 2 and "films.csv" in checked.stderr + checked.stdout and "'url' or 'path'" in checked.stderr + checked.stdout, checked


# Several detectors, sampled frames for videos and clips, copied groups of pictures, embeddings and previews.
MANY_STAGES = ('["video.probe", { use = "shots", detectors = ["content", "hash", "threshold"], decide = "any", sample_every = 0.5, sample_height = 64 }, '
               '{ use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, max_length = 2.0, long_shots = "equal", preset = "ultrafast", '
               'copy = "auto", sample_fps = 2.0, sample_height = 64 }, "embed.classic", { use = "clip.preview", height = 64 }, "caption.describe"]')


def check_same_bytes():
    """The same bytes with 1, 2 and 4 threads, and with the inputs in another order."""
    films = [DATA / n for n in ("bbb_A.mp4", "bbb_B.mp4", "bbb_C.mp4", "bbb_D.mp4")]
    for number, threads in enumerate((1, 2, 4, 4)):
        order = films[::-1] if number % 2 else films
        name = f"same-{number}"
        run(name, order, MANY_STAGES, more=f"threads = {threads}")
        whole = tree(name)
        assert len(whole) > 10
        assert {n.split(".", 1)[1] for n in whole if n.startswith("data/")} == {"mp4", "json", "txt", "classic.npy", "preview.webp"}, sorted(whole)
        if number == 0:
            first = whole
            assert any(json.loads(b)["copied"] > 0 for n, b in whole.items() if n.startswith("data/") and n.endswith(".json"))
        if number == 1:
            reversed_first = whole
        assert whole == (reversed_first if number % 2 else first), number
        assert {n: b for n, b in whole.items() if n.startswith("data/")} == {n: b for n, b in first.items() if n.startswith("data/")}
        assert sorted(whole["items.jsonl"].splitlines()) == sorted(first["items.jsonl"].splitlines())
        if number > 1:
            shutil.rmtree(SCRATCH / name)


def check_changed_inputs():
    """A new video adds its own work; a changed or pruned one affects only its own clips. The result equals a fresh run's."""
    films = SCRATCH / "changing"
    films.mkdir()
    for name in ("bbb_B.mp4", "bbb_C.mp4"):
        shutil.copy2(DATA / name, films / name)
    stamps = lambda: {n: (p.stat().st_ino, p.stat().st_mtime_ns) for n, p in stored("grown").items()}
    run("grown", [films])
    before = stamps()
    assert "already done" in run("grown", [films])
    shutil.copy2(DATA / "bbb_A.mp4", films / "bbb_A.mp4")
    said = run("grown", [films])
    assert "its inputs have changed; finished work on the remaining inputs is kept" in said and "2 of 3 inputs have ended" in said, said
    after = stamps()
    assert all(after[n] == s for n, s in before.items()) and len(after) > len(before)
    assert summary("grown")["resumed"]["inputs"] == 2
    live = json.loads((SCRATCH / "grown/clips/live.json").read_text())
    made = sum("parent" in i for i in items("grown").values())
    assert (live["total"], live["done"], live["made"]) == (3, 3, made), "of what is done in earlier runs too"
    run("fresh", [films])
    assert tree("grown") == tree("fresh")
    shutil.copy2(DATA / "bbb_D.mp4", films / "bbb_B.mp4")
    (films / "bbb_C.mp4").unlink()
    run("grown", [films], more=f'prune = ["{films}/bbb_C.mp4"]')
    now = stamps()
    assert all(now[n] == after[n] for n in after if n.startswith("bbb_A")) and not [n for n in now if n.startswith("bbb_C")], now
    shutil.rmtree(SCRATCH / "fresh")
    run("fresh", [films])
    assert tree("grown") == tree("fresh")
    # The first of several equal videos is used, even if that changes; other options start the job again.
    shutil.copy2(DATA / "bbb_A.mp4", films / "aaa.mp4")
    run("grown", [films])
    run("fresh", [films])
    assert tree("grown") == tree("fresh") and items("grown")["bbb_A"]["of"] == "aaa"
    assert summary("grown")["rules"] == {"ingest.duplicate": 1}
    (films / "aaa.mp4").unlink()
    run("grown", [films])
    assert items("grown")["bbb_A"]["of"] == "aaa", "its results stay, so there is still a copy"
    run("grown", [films], more=f'prune = ["{films}/aaa.mp4"]')
    assert items("grown")["bbb_A"]["end"] == "kept"
    said = run("grown", [films], more='duplicates = "keep"')
    assert "its options or inputs differ from those" in said, said
    again = subprocess.run([KINORA, "run", str(SCRATCH / "grown.toml"), "--set", "run.seed=7"], capture_output=True, text=True, timeout=600)
    assert again.returncode == 0 and "clips: already done" in again.stderr, "no stage of it draws"


def check_nothing_kept():
    """Clips that all fail end the run as a failure, and the next run retries them; filtered clips are not a failure."""
    cut = STAGES.replace(', "caption.describe"', ', { use = "filter.facts", fact = "none" }')
    said = run("nothing", [DATA / "bbb_A.mp4"], cut, code=1)
    made = [i for i in items("nothing").values() if "parent" in i]
    assert made and all(i["end"] == "failed" for i in made), made
    told = summary("nothing")
    assert (told["status"], told["kept"], told["clips"]) == ("failed", 1, {"kept": 0, "filtered": 0, "failed": len(made)}), told
    assert f"all {len(made)} clips failed; items.jsonl has the reason for each; the first is: {made[0]['reason']}" in said, said
    assert "already done" not in run("nothing", [DATA / "bbb_A.mp4"], cut, code=1)
    run("dropped", [DATA / "bbb_A.mp4"], STAGES.replace(', "caption.describe"', ', { use = "filter.facts", fact = "height", at_least = 9999.0 }'))
    assert summary("dropped")["clips"] == {"kept": 0, "filtered": len(made), "failed": 0}
    # The first clip fails because a fact is missing, the others are dropped earlier: the following jobs get nothing.
    mixed = STAGES.replace(', "caption.describe"', f', {{ use = "filter.facts", fact = "first_frame", at_most = 0.0 }}, {{ use = "filter.facts", fact = "none" }}')
    run("rightly", [DATA / "bbb_A.mp4"], mixed, code=1)
    ends = summary("rightly")["clips"]
    assert ends["failed"] >= 1 and ends["filtered"] >= 1 and ends["kept"] == 0, ends
    assert "already done" not in run("rightly", [DATA / "bbb_A.mp4"], mixed, code=1)


def check_other_files():
    """Files of a folder that are not videos are counted, and become inputs only on request."""
    films = SCRATCH / "mixed_films"
    films.mkdir()
    shutil.copy(DATA / "bbb_A.mp4", films / "a.mp4")
    for name in ("a.srt", "b.JPG", "c.jpg", "list.jsonl", ".hidden.mp4", "d.mp4.part"):
        (films / name).write_text(name)
    (films / "sub").mkdir()
    said = run("mixed", [films], '["video.probe"]')
    assert "clips: 1 folder below is not read; recursive = true reads it" in said and "begins with a dot is skipped" in said and "links" not in said, said
    assert "clips: of 1 input 1 kept, 0 filtered, 0 failed\n" in said, said
    assert list(items("mixed")) == ["a"] and "(2 .jpg, 1 .jsonl, 1 .part, 1 .srt)" in said and "all_files = true takes them" in said, said
    assert summary("mixed")["skipped"] == {"hidden": 1, "links": 0, "folders": 1, "no_films": 5, "endings": {".jpg": 2, ".jsonl": 1, ".part": 1, ".srt": 1}}
    assert "items.jsonl has the reasons" in run("mixed_all", [films], '["video.probe"]', "all_files = true")
    assert len(items("mixed_all")) == 6 and summary("mixed_all")["failed"] == 5 and summary("mixed_all")["skipped"]["no_films"] == 0
    run("mixed_named", [films / "*.srt", films / "a.mp4"], '["video.probe"]')
    assert len(items("mixed_named")) == 2


def check_edits():
    """Edits from the studio reach the shards, and survive a curation that starts again."""
    shard = '[[job]]\nname = "shards"\nkind = "shard"\ninput = "clips"\n'
    films = [DATA / "bbb_A.mp4", DATA / "bbb_B.mp4"]
    run("edited", films, jobs=shard)
    keys = sorted({n.split(".")[0] for n in stored("edited")})
    assert len(keys) > 2
    edits = SCRATCH / "edited/clips/edits.jsonl"
    with edits.open("w") as file:
        for key, said in ((keys[0], {"caption": "Mine."}), (keys[1], {"keep": False, "reason": "blurred"}), (keys[2], {"keep": False}),
                          (keys[2], {"keep": True}), (keys[2], {"keep": False}), (keys[2], {"keep": None}), ("nobody-0000", {"keep": False})):
            file.write(json.dumps({"key": key, "time": "2025-01-01T00:00:00Z", "author": "ada", "set": said}) + "\n")
    said = run("edited", films, jobs=shard)
    assert "clips: already done" in said and "1 edit is left out, since" in said and "has not kept its clip" in said, said

    def members():
        out = {}
        for tar in (SCRATCH / "edited/shards").glob("*.tar"):
            with tarfile.open(tar) as open_tar:
                out.update({m.name: open_tar.extractfile(m).read() for m in open_tar})
        return out

    packed = members()
    assert packed[f"{keys[0]}.txt"] == b"Mine." and json.loads(packed[f"{keys[0]}.json"])["caption"] == {"by": "user", "author": "ada"}
    assert f"{keys[1]}.mp4" not in packed and f"{keys[2]}.mp4" in packed
    counts = summary("edited", "shards")
    assert (counts["inputs"], counts["samples"], counts["filtered"], counts["rules"]) == (len(keys), len(keys) - 1, 1, {"studio.reject": 1}), counts
    assert lines(SCRATCH / "edited/shards/dropped.jsonl") == [
        {"key": "nobody-0000", "end": "unused_edit", "reason": "edits_of_clips_not_kept", "set": {"keep": False}},
        {"key": keys[1], "end": "filtered", "rule": "studio.reject", "reason": "blurred"}], "including the edit that changes nothing"
    assert counts["edits_of_clips_not_kept"] == 1 and "not kept its clip: nobody-0000;" in said, said
    text = edits.read_bytes()
    said = run("edited", films, STAGES.replace("120", "96"), jobs=shard, code=2)
    assert f"people have made {len(text.splitlines())} edits in the studio" in said and "--replace" in said, said
    assert sorted({n.split(".")[0] for n in stored("edited")}) == keys and members() == packed, "nothing was replaced"
    run("edited", films, STAGES.replace("120", "96"), jobs=shard, options=["--replace"])
    assert edits.read_bytes() == text and members()[f"{keys[0]}.txt"] == b"Mine."
    # The edit belongs to footage that the clip no longer has: it is left out and reported.
    of = lambda key: {n: items("edited")[key]["facts"][n] for n in ("sha256", "first_frame", "end_frame")}
    with edits.open("a") as file:
        for key, said in ((keys[0], "Fits."), (keys[2], "Fits too.")):
            file.write(json.dumps({"key": key, "of": of(key), "set": {"caption": said}}) + "\n")
    run("edited", films, STAGES.replace("120", "96"), jobs=shard)
    assert members()[f"{keys[0]}.txt"] == b"Fits." and members()[f"{keys[2]}.txt"] == b"Fits too."
    assert summary("edited", "shards")["edits_of_other_footage"] == 0
    said = run("edited", films, STAGES.replace("2.0", "1.0"), jobs=shard, options=["--replace"])
    fits = lambda key: of(key) == json.loads(next(l for l in edits.read_text().splitlines() if f'"{key}", "of"' in l))["of"]
    assert not fits(keys[0]) and "other footage now" in said and summary("edited", "shards")["edits_of_other_footage"] == 2 - fits(keys[2]), said
    assert members()[f"{keys[0]}.txt"] == b"Mine.", "only an edit without footage leaves it unknown"
    with edits.open("a") as file:
        file.write("not json\n")
    assert f"edits.jsonl: line {len(edits.read_text().splitlines())}" in run("edited", films, STAGES.replace("120", "96"), jobs=shard, code=1, options=["--replace"])


def check_replaced():
    """Another run file, or another input with other options, replaces no clips unasked."""
    films, other = [DATA / "bbb_A.mp4"], STAGES.replace("120", "96")
    run("kept", films)
    before = tree("kept")
    run("kept", [DATA / "bbb_B.mp4"], other, code=2)
    file = SCRATCH / "another.toml"
    file.write_text((SCRATCH / "kept.toml").read_text().replace("bbb_B", "bbb_A"))
    done = subprocess.run([KINORA, "run", str(file), "--out", str(SCRATCH / "kept")], capture_output=True, text=True, timeout=600)
    assert done.returncode == 2 and f"they were made by the run file {SCRATCH / 'kept.toml'}" in done.stderr and "--replace" in done.stderr, done
    dry = subprocess.run([KINORA, "run", str(file), "--out", str(SCRATCH / "kept"), "--dry-run"], capture_output=True, text=True, timeout=600)
    assert dry.returncode == 2 and "--replace" in dry.stderr, dry
    assert tree("kept") == before
    run("kept", films, other)  # the same file with other options
    assert tree("kept") != before
    run("kept", [DATA / "bbb_B.mp4"], STAGES, options=["--replace"])
    assert set(items("kept")) >= {"bbb_B"} and "bbb_A" not in items("kept")


def check_edits_of_moved_keys():
    """An added video takes a free key. If a restarted job gives other clips new keys, edits follow the footage, and each is applied once."""
    shard = '[[job]]\nname = "shards"\nkind = "shard"\ninput = "clips"\n'
    films = SCRATCH / "same_names"
    for name, of in (("b", "bbb_B"), ("c", "bbb_A")):
        (films / name).mkdir(parents=True)
        shutil.copy(DATA / f"{of}.mp4", films / name / "001.mp4")
    run("moved", [films], more="recursive = true", jobs=shard)
    before = items("moved")
    assert before["001"]["url"].endswith("b/001.mp4") and before["001-0000"]["end"] == "kept", before
    of = {n: before["001-0000"]["facts"][n] for n in ("sha256", "first_frame", "end_frame")}
    (SCRATCH / "moved/clips/edits.jsonl").write_text(json.dumps({"key": "001-0000", "of": of, "set": {"keep": False, "reason": "logo"}}) + "\n")
    (films / "a").mkdir()
    shutil.copy(DATA / "bbb_C.mp4", films / "a/001.mp4")
    (films / "a/empty.mp4").write_bytes(b"")
    shutil.copy(DATA / "bbb_C.mp4", films / "a/zz.mp4")
    shutil.copy(films / "a/empty.mp4", films / "a/empty too.mp4")
    times = lambda: {name: file.stat().st_mtime_ns for name, file in stored("moved").items()}
    made = times()
    run("moved", [films], more="recursive = true", jobs=shard)
    now = items("moved")
    assert now["001"]["url"].endswith("b/001.mp4") and now["001-2"]["url"].endswith("c/001.mp4") and now["001-3"]["url"].endswith("a/001.mp4"), now
    assert made.items() <= times().items() and len(times()) > len(made), "nothing is redone"
    assert [d["key"] for d in lines(SCRATCH / "moved/shards/dropped.jsonl")] == ["001-0000"]
    # Other options, although they change nothing here, and so the keys of a fresh run.
    said = run("moved", [films], STAGES.replace("min_frames = 1", "min_frames = 2"), more="recursive = true", jobs=shard, options=["--replace"])
    now = items("moved")
    assert now["001-2"]["url"].endswith("b/001.mp4") and now["001-0000"]["end"] == "kept", now
    dropped = lines(SCRATCH / "moved/shards/dropped.jsonl")
    assert [(d["key"], d["rule"], d["reason"]) for d in dropped] == [("001-2-0000", "studio.reject", "logo")], dropped
    assert [now[k]["end"] for k in ("empty", "empty too", "zz")] == ["failed", "failed", "filtered"] and "the file is empty; fetch it again" in now["empty too"]["reason"], now
    assert "of 6 inputs 3 kept, 1 filtered, 2 failed;" in said and "(ingest.duplicate 1)" in said, said


def check_why_nothing():
    """A manifest without a usable line reports why, and skipped folders are reported."""
    folder = SCRATCH / "why"
    (folder / "films/below").mkdir(parents=True)
    (folder / "all.jsonl").write_text('{"film": "a.mp4"}\n[]\n')
    (folder / "head.csv").write_text("Path,caption\na.mp4,x\n")
    said = run("why_lines", [folder / "all.jsonl"], code=2)
    assert "line 1: it names no video; add a 'url' or 'path'" in said and "there is no file in" not in said, said
    assert "it has 'Path', 'caption': write 'Path' as 'path'" in run("why_head", [folder / "head.csv"], code=1)
    said = run("why_folders", [folder / "films"], code=2)
    assert "there is no file in" in said and "(1 folder below is not read; recursive = true reads it)" in said, said


def check_folders():
    """Cosmos' folder layout, with a limited number of shards per part; later jobs read the parts as one dataset."""
    films = [DATA / "bbb_A.mp4", DATA / "bbb_B.mp4"]
    run("binned", films, jobs='[[job]]\nname = "shards"\nkind = "shard"\ninput = "clips"\nlayout = "cosmos"\n'
        'shard = { use = "shard.webdataset", max_count = 2, part = 2 }\n')
    shards = SCRATCH / "binned/shards"
    tars = sorted(str(p.relative_to(shards)) for p in shards.rglob("*.tar"))
    assert tars[0] == "resolution_lt_720/aspect_ratio_16_9/duration_0_5/part_000000/shard-000000.tar" and len(tars) > 2, tars
    assert any("part_000001" in t for t in tars) == (len(tars) > 2), tars
    counts = json.loads((shards / ".nv-meta/.info.json").read_text())["shard_counts"]
    read = {t: len({n.split(".")[0] for n in tarfile.open(shards / t).getnames()}) for t in tars}
    assert counts == read, (counts, read)
    keys = {n.split(".")[0] for n in stored("binned")}
    packed = {m.split(".")[0] for t in tars for m in tarfile.open(shards / t).getnames()}
    assert packed == keys and summary("binned", "shards")["shards"] == len(tars)


def frames_of(film):
    """For every picture: when it is shown, relative to the first one, and the hash of its pixels."""
    said = subprocess.run(["ffmpeg", "-v", "error", "-i", str(film), "-map", "0:v:0", "-f", "framehash", "-hash", "md5", "-fps_mode", "passthrough", "-"],
                          capture_output=True, text=True, check=True).stdout
    base = next(l.split("/") for l in said.splitlines() if l.startswith("#tb 0: "))
    tick = int(base[0].split(": ")[1]) / int(base[1])
    rows = [l.split(",") for l in said.splitlines() if not l.startswith("#")]
    return [(round((int(r[2]) - int(rows[0][2])) * tick, 2), r[5].strip()) for r in rows]


def check_remux():
    """Containers without an index: the same pictures at the same times and the same shots; the copy is deleted with the job."""
    films = SCRATCH / "remux"
    films.mkdir()
    make = lambda name, *how: subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", str(DATA / "film.mp4"), *how, str(films / name)], check=True)
    make("a.ts", "-c:v", "copy", "-c:a", "aac", "-t", "8")
    make("b.flv", "-c:v", "copy", "-c:a", "aac", "-ar", "44100", "-t", "8")
    make("c.avi", "-c:v", "mpeg4", "-bf", "2", "-c:a", "mp3", "-t", "8")
    make("d.mpg", "-c:v", "mpeg2video", "-b:v", "2M", "-c:a", "mp2", "-t", "8")
    make("e.mkv", "-c", "copy", "-t", "8")
    for film, new in (("a.ts", "a.remux.mp4"), ("b.flv", "b.remux.mp4"), ("c.avi", "c.remux.mp4"), ("d.mpg", "d.remux.mp4")):
        done = subprocess.run([KINORA, "apply", "stage/video.remux", str(films / film), "--out", str(SCRATCH / "remuxed"), "--json"], capture_output=True, text=True)
        assert done.returncode == 0, done
        ours, theirs = frames_of(SCRATCH / "remuxed/work" / new), frames_of(films / film)
        assert [h for _, h in ours] == [h for _, h in theirs] and len(ours) > 150, (film, len(ours), len(theirs))
        late = [(a[0], b[0]) for a, b in zip(ours, theirs) if not abs(a[0] - b[0]) <= 0.011]
        assert not late, (film, late[:5])
    stages = '["video.remux", "video.probe", "shots.content", { use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, preset = "ultrafast", max_height = 120 }]'
    run("remux_job", [films], stages)
    found = items("remux_job")
    assert not (SCRATCH / "remux_job/clips/work").exists()
    assert [found[k]["facts"].get("remuxed", {}).get("from") for k in "abcde"] == ["mpegts", "flv", "avi", "mpeg", None], found
    assert all(found[k]["url"] == str(films / n) for k, n in zip("abcde", ("a.ts", "b.flv", "c.avi", "d.mpg", "e.mkv")))
    cuts = [found[k]["shots"]["cuts"] for k in "abcde"]
    assert cuts.count(cuts[4]) == 5 and len(cuts[0]) > 1, cuts
    assert all(i["end"] == "kept" for i in found.values()), found


def check_remux_of_damaged():
    """A truncated video is not rewritten, because its copy would hide the damage: it ends as without video.remux."""
    films = SCRATCH / "cut_off"
    films.mkdir()
    for n, name in enumerate(("a.ts", "b.flv", "c.avi", "d.mpg")):
        data = (SCRATCH / "remux" / name).read_bytes()
        (films / name).write_bytes(data[:int(len(data) * (0.55 + 0.07 * n))])
    rest = '"video.probe", "shots.content", { use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, preset = "ultrafast", max_height = 120 }]'
    run("cut_off_as_they_are", [films], "[" + rest)
    run("cut_off_rewritten", [films], '["video.remux", ' + rest)
    plain, rewritten = items("cut_off_as_they_are"), items("cut_off_rewritten")
    for key in "abcd":
        ends = [(i[key]["end"], "damaged" in i[key], sum(c.get("parent") == key for c in i.values())) for i in (plain, rewritten)]
        assert ends[0] == ends[1], (key, ends, plain[key].get("damaged"), rewritten[key].get("damaged"))
    assert "not rewritten, because it is cut off" in rewritten["c"]["facts"]["remux_failed"], rewritten["c"]
    for key in "cd":
        assert rewritten[key]["end"] == "failed" and rewritten[key]["damaged"], rewritten[key]


def check_one_decode():
    """video.clips equals shots followed by clip.transcode: the same files, and the same record of videos (shots, damage) and clips."""
    films = SCRATCH / "once"
    films.mkdir()
    for name in ("bbb_A.mp4", "calais_1906.ogv", "film_excerpt.webm"):
        shutil.copy(DATA / name, films / name)
    (films / "cut_off.mp4").write_bytes((DATA / "film.mp4").read_bytes()[:500_000])
    shots, clips = 'detectors = ["content", "threshold"], tolerance = 2', 'min_length = 0.5, min_frames = 1, edge_crop = 0.0, max_length = 1.5, preset = "ultrafast", max_height = 120'
    run("two_stages", [films], f'["video.probe", {{ use = "shots", {shots} }}, {{ use = "clip.transcode", {clips} }}, "caption.describe"]')
    run("one_stage", [films], f'["video.probe", {{ use = "video.clips", {shots}, {clips} }}, "caption.describe"]')
    read = lambda name: {n: p.read_bytes() for n, p in stored(name).items()}
    assert len(read("two_stages")) > 10 and read("one_stage") == read("two_stages")
    one, two = items("one_stage"), items("two_stages")
    assert list(one) == list(two) and len(one["bbb_A"]["shots"]["scores"]) == one["bbb_A"]["shots"]["frames"], list(one)
    assert one["cut_off"]["end"] == "failed" and "cut off" in one["cut_off"]["damaged"], one["cut_off"]
    for key, item in one.items():
        other = two[key]
        assert (item.pop("stage", ""), other.pop("stage", "")) in (("video.clips", "clip.transcode"), ("", "")), (item, other)
        assert item == other, (item, other)


def check_page_example():
    """The run file of docs/curate.md works as it is, with a server for its captions; then its search by words."""
    text = (ROOT / "docs/curate.md").read_text().split("## A run file\n", 1)[1].split("\n## ", 1)[0]
    example = text.split("```toml\n", 1)[1].split("```", 1)[0].strip()
    assert "embed-text" in example and "caption.endpoint" in example, example
    videos = SCRATCH / "page_videos"
    videos.mkdir()
    for name in ("bbb_A.mp4", "film.mp4"):
        shutil.copy(DATA / name, videos / name)
    with ModelServer() as server:
        here = example.replace("videos/*.mp4", f"{videos}/*.mp4").replace('use = "caption.endpoint",', f'use = "caption.endpoint", base_url = "{server.url}",')
        (SCRATCH / "page.toml").write_text(f'[run]\nout = "{SCRATCH / "page"}"\n{here}\n')
        done = subprocess.run([KINORA, "run", str(SCRATCH / "page.toml")], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    kept = {i["key"]: i for i in lines(SCRATCH / "page/clips/items.jsonl") if "parent" in i and i["end"] == "kept"}
    assert len(kept) >= 2 and all(i["facts"]["caption"]["by"] == "caption.endpoint" for i in kept.values()), kept
    found = subprocess.run([KINORA, "search", str(SCRATCH / "page"), "a boat at sea", "--top", "99", "--json"], capture_output=True, text=True)
    assert found.returncode == 0 and {json.loads(line)["key"] for line in found.stdout.splitlines()} == set(kept), (found, kept)


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
for test in (check_one_decode, check_folders, check_remux, check_remux_of_damaged, check_manifest, check_variable_rate, check_columns, check_graph, check_patterns, check_same_bytes,
             check_changed_inputs, check_nothing_kept, check_other_files, check_edits, check_replaced, check_edits_of_moved_keys, check_why_nothing, check_page_example):
    test()
    print("ok   ", test.__name__)
