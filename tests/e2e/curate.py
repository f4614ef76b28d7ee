#!/usr/bin/env python3
"""The inputs of a curate job, what it reports about them, and the users' later edits.
usage: curate.py KINORA ROOT SCRATCH"""
import csv, hashlib, json, pathlib, re, shutil, subprocess, sys, tarfile

from curate_edits import check_edits, check_edits_of_moved_keys, check_replaced, check_trimmed
from curate_runs import DATA, KINORA, ROOT, SCRATCH, STAGES, items, lines, run, stored, summary, tree
from curate_videos import check_one_decode, check_remux, check_remux_of_damaged, check_variable_rate

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
from model_server import ModelServer


def check_manifest():
    """The user's fields follow the video; unusable inputs are reported; the output says where it came from."""
    videos = SCRATCH / "videos"
    videos.mkdir()
    for name in ("bbb_A.mp4", "bbb_B.mp4"):
        shutil.copy(DATA / name, videos / name)
    (videos / "list.jsonl").write_text(
        '{"url": "bbb_A.mp4", "caption": "A rabbit\\u2026", "licence": "CC-BY"}\n{"url": "bbb_B.mp4"}\n'
                                      '{"url": "none.mp4", "key": "missing"}\nno json\n{"url": "sub/*.mp4"}\n')
    run("manifest", [videos / "list.jsonl"])
    found = items("manifest")
    digest = hashlib.sha256((DATA / "bbb_A.mp4").read_bytes()).hexdigest()
    a = found["bbb_A"]
    assert a["caption"] == "A rabbit…" and a["facts"]["user"] == {"licence": "CC-BY"} and a["facts"]["caption"] == {
        "by": "user"}, a
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
    assert {i["caption"]
            for i in found.values() if i.get("parent") == "bbb_A"} == {"A rabbit…"}, "the user's fields reach the clips"
    assert table[0]["caption"] == "A rabbit…" and float(next(t for t in table
                                                             if t["film"] == "bbb_A")["end"]) == clip["end"]
    kept = [i for i in found.values() if "parent" in i and i["end"] == "kept"]
    assert abs(said["clip_seconds"] - sum(i["facts"]["duration_s"] for i in kept)) < 1e-9 and said["film_seconds"] > 0
    assert said["bytes_kept"] == sum(p.stat().st_size for p in stored("manifest").values()), said
    assert said["peak_memory"]["process"] > 1 << 20 and said["throughput"]["film_seconds_per_second"] > 0, said


def check_columns():
    """The user's columns reach the output, filters can use the numbers among them, and an unreadable record fails
    alone."""
    videos = SCRATCH / "columns"
    videos.mkdir()
    for name in "ABC":
        shutil.copy(DATA / f"bbb_{name}.mp4", videos / f"{name.lower()}.mp4")
    (videos / "videos.csv").write_text('path,rating,by\na.mp4, 7.5 ,"x ""y"""\nc.mp4,"8"0",x\nb.mp4,3,\n')
    # A value that is used as a number but is not one is reported with its text.
    (videos / "words.csv").write_text("path,rating\na.mp4,good\nb.mp4,4\n")
    run("words", [videos / "words.csv"],
        '["video.probe", { use = "filter.facts", fact = "user.rating", at_least = 5.0 }]', code=1)
    said = items("words")["a"]["reason"]
    assert ("has no number 'user.rating': that fact is \"good\"; write a number with a point" in said
            and 'missing = "keep"' in said), said
    assert (items("words")["b"]["end"], items("words")["b"]["score"]) == ("filtered", 4), items("words")
    run("columns", [videos / "videos.csv"],
        STAGES.replace('"video.probe"',
                       '"video.probe", { use = "filter.facts", fact = "user.rating", at_least = 5.0 }'))
    found = items("columns")
    assert found["a"]["end"] == "kept" and (found["b"]["end"], found["b"]["score"]) == ("filtered", 3), found
    broken = next(i for i in found.values() if i["end"] == "failed")
    assert "videos.csv: record 3: " in broken["reason"] and broken["status"] == "data" and summary("columns")[
        "inputs"] == 3, broken
    with open(SCRATCH / "columns/clips/manifest.csv", newline="") as file:
        table = {t["key"]: t for t in csv.DictReader(file)}
    manifest = {m["key"]: m for m in lines(SCRATCH / "columns/clips/manifest.jsonl")}
    assert (table["a"]["user.rating"], table["a"]["user.by"], table["b"]["user.by"]) == (" 7.5 ", 'x "y"', ""), table
    assert manifest["a-0000"]["user.by"] == 'x "y"' and table["a-0000"][
        "user.rating"] == " 7.5 " and "user.by" not in manifest["b"], manifest


def check_graph():
    """Two branches that both keep a sample: the second one's key is KEY@STAGE. The graph is the one of
    docs/curate/engine.md."""
    text = (ROOT / "docs/curate/engine.md").read_text()
    example = text[text.index("## Graphs"):]
    stages = example[example.index("stages = [") + len("stages = "):example.index("`name` is what")]
    run("graph", [DATA / "bbb_A.mp4", DATA / "bbb_B.mp4"], stages)
    found, files = items("graph"), stored("graph")
    assert list(found) == ["bbb_A", "bbb_A@caption-describe", "bbb_B", "bbb_B@caption-describe"], list(found)
    for key in ("bbb_A", "bbb_B"):
        assert found[key]["shots"]["cuts"] is not None and "caption" not in found[key] and found[key]["end"] == "kept"
        branch = found[f"{key}@caption-describe"]
        assert branch["caption"] and "shots" not in branch and branch["parent"] == key, branch
        assert files[f"{key}@caption-describe.txt"].read_text() == branch[
            "caption"] and f"{key}.json" in files and f"{key}.txt" not in files
    manifest = {m["key"]: m for m in lines(SCRATCH / "graph/clips/manifest.jsonl")}
    assert manifest["bbb_A@caption-describe"]["film"] == "bbb_A" and manifest["bbb_A@caption-describe"]["url"].endswith(
        "bbb_A.mp4")
    said = summary("graph")
    assert (said["inputs"], said["kept"], said["clips"]) == (2, 2, {"kept": 2, "filtered": 0, "failed": 0}), said
    # Two branches that cut clips with equal names and different sizes.
    cut = (
        '{{ use = "clip.transcode", name = "{}", from = ["look"], min_length = 0.5, max_length = 2.0, preset = '
        '"ultrafast", max_height = {} }}')
    run("sizes", [DATA / "bbb_A.mp4"],
        f'[{{ use = "video.probe", name = "look" }}, {cut.format("large", 120)}, {cut.format("small", 60)}]',
        jobs='[[job]]\nname = "shards"\nkind = "shard"\ninput = "clips"\n')
    found = items("sizes")
    clips = {k: i["facts"]["height"] for k, i in found.items() if i["end"] == "kept" and not i["consumed"]}
    large = [k for k in clips if "@" not in k]
    assert large and clips == {**{k: 120 for k in large},
                               **{k.replace("bbb_A", "bbb_A@small"): 60 for k in large}}, clips
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
    (tree_of / "videos.csv").write_text('path,caption\r\nx/b.mp4,"two, ""words"""\r\n')
    run("table", [tree_of / "videos.csv"], '["video.probe"]')
    assert items("table")["b"]["caption"] == 'two, "words"'
    checked = subprocess.run([KINORA, "check", str(SCRATCH / "table.toml"), "--set",
                              f'clips.input="{tree_of}/none/**/*.mp4"'], capture_output=True, text=True)
    assert checked.returncode == 2 and "none/**/*.mp4" in checked.stderr + checked.stdout, checked
    (tree_of / "videos.csv").write_text("name\nx\n")
    checked = subprocess.run([KINORA, "check", str(SCRATCH / "table.toml")], capture_output=True, text=True)
    assert (checked.returncode == 2 and "videos.csv" in checked.stderr + checked.stdout
            and "'url' or 'path'" in checked.stderr + checked.stdout), checked


# Several detectors, sampled frames for videos and clips, copied groups of pictures, embeddings and previews.
MANY_STAGES = (
    '["video.probe", { use = "shots", detectors = ["content", "hash", "threshold"], decide = "any", sample_every = '
    '0.5, sample_height = 64 }, '
               '{ use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, max_length = 2.0, '
               'long_shots = "equal", preset = "ultrafast", '
               'copy = "auto", sample_fps = 2.0, sample_height = 64 }, "embed.classic", { use = "clip.preview", height '
               '= 64 }, "caption.describe"]')


def check_same_bytes():
    """The same bytes with 1, 2 and 4 threads, and with the inputs in another order."""
    videos = [DATA / n for n in ("bbb_A.mp4", "bbb_B.mp4", "bbb_C.mp4", "bbb_D.mp4")]
    for number, threads in enumerate((1, 2, 4, 4)):
        order = videos[::-1] if number % 2 else videos
        name = f"same-{number}"
        run(name, order, MANY_STAGES, more=f"threads = {threads}")
        whole = tree(name)
        assert len(whole) > 10
        assert {n.split(".", 1)[1]
                for n in whole if n.startswith("data/")} == {"mp4", "json", "txt", "classic.npy",
                                                             "preview.webp"}, sorted(whole)
        if number == 0:
            first = whole
            assert any(json.loads(b)["copied"] > 0
                       for n, b in whole.items() if n.startswith("data/") and n.endswith(".json"))
        if number == 1:
            reversed_first = whole
        assert whole == (reversed_first if number % 2 else first), number
        assert {n: b
                for n, b in whole.items()
                if n.startswith("data/")} == {n: b for n, b in first.items() if n.startswith("data/")}
        assert sorted(whole["items.jsonl"].splitlines()) == sorted(first["items.jsonl"].splitlines())
        if number > 1:
            shutil.rmtree(SCRATCH / name)


def check_changed_inputs():
    """A new video adds its own work; a changed or pruned one affects only its own clips. The result equals a fresh
    run's."""
    videos = SCRATCH / "changing"
    videos.mkdir()
    for name in ("bbb_B.mp4", "bbb_C.mp4"):
        shutil.copy2(DATA / name, videos / name)
    stamps = lambda: {n: (p.stat().st_ino, p.stat().st_mtime_ns) for n, p in stored("grown").items()}
    run("grown", [videos])
    before = stamps()
    (videos / "bbb_B.mp4").touch()
    assert "already done" in run("grown", [videos]), "its bytes are the same"
    shutil.copy2(DATA / "bbb_A.mp4", videos / "bbb_A.mp4")
    said = run("grown", [videos])
    assert ("its inputs have changed; finished work on the remaining inputs is kept" in said
            and "2 of 3 inputs have ended" in said), said
    after = stamps()
    assert all(after[n] == s for n, s in before.items()) and len(after) > len(before)
    assert summary("grown")["resumed"]["inputs"] == 2
    live = json.loads((SCRATCH / "grown/clips/live.json").read_text())
    made = sum("parent" in i for i in items("grown").values())
    assert (live["total"], live["done"], live["made"]) == (3, 3, made), "of what is done in earlier runs too"
    run("fresh", [videos])
    assert tree("grown") == tree("fresh")
    shutil.copy2(DATA / "bbb_D.mp4", videos / "bbb_B.mp4")
    (videos / "bbb_C.mp4").unlink()
    run("grown", [videos], more=f'prune = ["{videos}/bbb_C.mp4"]')
    now = stamps()
    assert all(now[n] == after[n]
               for n in after if n.startswith("bbb_A")) and not [n for n in now if n.startswith("bbb_C")], now
    shutil.rmtree(SCRATCH / "fresh")
    run("fresh", [videos])
    assert tree("grown") == tree("fresh")
    # The first of several equal videos is used, even if that changes; other options start the job again.
    shutil.copy2(DATA / "bbb_A.mp4", videos / "aaa.mp4")
    run("grown", [videos])
    run("fresh", [videos])
    assert tree("grown") == tree("fresh") and items("grown")["bbb_A"]["of"] == "aaa"
    assert summary("grown")["rules"] == {"ingest.duplicate": 1}
    (videos / "aaa.mp4").unlink()
    run("grown", [videos])
    assert items("grown")["bbb_A"]["of"] == "aaa", "its results stay, so there is still a copy"
    run("grown", [videos], more=f'prune = ["{videos}/aaa.mp4"]')
    assert items("grown")["bbb_A"]["end"] == "kept"
    said = run("grown", [videos], more='duplicates = "keep"')
    assert "its options or inputs differ from those" in said, said
    again = subprocess.run([KINORA, "run", str(SCRATCH / "grown.toml"), "--set", "run.seed=7"], capture_output=True,
                           text=True, timeout=600)
    assert again.returncode == 0 and "clips: already done" in again.stderr, "no stage of it draws"


def check_nothing_kept():
    """Clips that all fail end the run as a failure, and the next run retries them; filtered clips are not a failure."""
    cut = STAGES.replace(', "caption.describe"', ', { use = "filter.facts", fact = "none" }')
    said = run("nothing", [DATA / "bbb_A.mp4"], cut, code=1)
    made = [i for i in items("nothing").values() if "parent" in i]
    assert made and all(i["end"] == "failed" for i in made), made
    told = summary("nothing")
    assert (told["status"], told["kept"], told["clips"]) == ("failed", 1,
                                                             {"kept": 0, "filtered": 0, "failed": len(made)}), told
    reason = f"items.jsonl has the reason for each; the first is: {made[0]['reason']}"
    assert f"all {len(made)} clips failed; {reason}" in said, said
    assert "already done" not in run("nothing", [DATA / "bbb_A.mp4"], cut, code=1)
    run("dropped", [DATA / "bbb_A.mp4"],
        STAGES.replace(', "caption.describe"', ', { use = "filter.facts", fact = "height", at_least = 9999.0 }'))
    assert summary("dropped")["clips"] == {"kept": 0, "filtered": len(made), "failed": 0}
    # The first clip fails because a fact is missing, the others are dropped earlier: the following jobs get nothing.
    mixed = STAGES.replace(', "caption.describe"',
                           f', {{ use = "filter.facts", fact = "first_frame", at_most = 0.0 }}, {{ use = '
                           f'"filter.facts", fact = "none" }}')
    run("rightly", [DATA / "bbb_A.mp4"], mixed, code=1)
    ends = summary("rightly")["clips"]
    assert ends["failed"] >= 1 and ends["filtered"] >= 1 and ends["kept"] == 0, ends
    assert "already done" not in run("rightly", [DATA / "bbb_A.mp4"], mixed, code=1)


def check_other_files():
    """Files of a folder that are not videos are counted, and become inputs only on request."""
    videos = SCRATCH / "mixed_videos"
    videos.mkdir()
    shutil.copy(DATA / "bbb_A.mp4", videos / "a.mp4")
    for name in ("a.srt", "b.JPG", "c.jpg", "list.jsonl", ".hidden.mp4", "d.mp4.part"):
        (videos / name).write_text(name)
    (videos / "sub").mkdir()
    said = run("mixed", [videos], '["video.probe"]')
    assert ("clips: 1 folder below is not read; recursive = true reads it" in said
            and "begins with a dot is skipped" in said and "links" not in said), said
    assert "clips: of 1 input 1 kept, 0 filtered, 0 failed\n" in said, said
    assert list(items("mixed")) == [
        "a"] and "(2 .jpg, 1 .jsonl, 1 .part, 1 .srt)" in said and "all_files = true takes them" in said, said
    assert summary("mixed")["skipped"] == {"hidden": 1, "links": 0, "folders": 1, "no_films": 5,
                                           "endings": {".jpg": 2, ".jsonl": 1, ".part": 1, ".srt": 1}}
    assert "items.jsonl has the reasons" in run("mixed_all", [videos], '["video.probe"]', "all_files = true")
    assert len(items("mixed_all")) == 6 and summary("mixed_all")["failed"] == 5 and summary("mixed_all")["skipped"][
        "no_films"] == 0
    run("mixed_named", [videos / "*.srt", videos / "a.mp4"], '["video.probe"]')
    assert len(items("mixed_named")) == 2


def check_why_nothing():
    """A manifest without a usable line reports why, and skipped folders are reported."""
    folder = SCRATCH / "why"
    (folder / "videos/below").mkdir(parents=True)
    (folder / "all.jsonl").write_text('{"film": "a.mp4"}\n[]\n')
    (folder / "head.csv").write_text("Path,caption\na.mp4,x\n")
    said = run("why_lines", [folder / "all.jsonl"], code=2)
    assert "line 1: it names no video; add a 'url' or 'path'" in said and "there is no file in" not in said, said
    assert "it has 'Path', 'caption': write 'Path' as 'path'" in run("why_head", [folder / "head.csv"], code=1)
    said = run("why_folders", [folder / "videos"], code=2)
    assert "there is no file in" in said and "(1 folder below is not read; recursive = true reads it)" in said, said


def check_folders():
    """Cosmos' folder layout, with a limited number of shards per part; later jobs read the parts as one dataset."""
    videos = [DATA / "bbb_A.mp4", DATA / "bbb_B.mp4"]
    run("binned", videos, jobs='[[job]]\nname = "shards"\nkind = "shard"\ninput = "clips"\nlayout = "cosmos"\n'
        'shard = { use = "shard.webdataset", max_count = 2, part = 2 }\n')
    shards = SCRATCH / "binned/shards"
    tars = sorted(str(p.relative_to(shards)) for p in shards.rglob("*.tar"))
    assert tars[0] == "resolution_lt_720/aspect_ratio_16_9/duration_0_5/part_000000/shard-000000.tar" and len(
        tars) > 2, tars
    assert any("part_000001" in t for t in tars) == (len(tars) > 2), tars
    counts = json.loads((shards / ".nv-meta/.info.json").read_text())["shard_counts"]
    read = {t: len({n.split(".")[0] for n in tarfile.open(shards / t).getnames()}) for t in tars}
    assert counts == read, (counts, read)
    keys = {n.split(".")[0] for n in stored("binned")}
    packed = {m.split(".")[0] for t in tars for m in tarfile.open(shards / t).getnames()}
    assert packed == keys and summary("binned", "shards")["shards"] == len(tars)


def check_page_example():
    """The run file of docs/curate.md works with the stage for captions by a server that the page puts in; then its
    search by words."""
    text = (ROOT / "docs/curate.md").read_text().split("## A run file\n", 1)[1].split("\n## ", 1)[0]
    example = text.split("```toml\n", 1)[1].split("```", 1)[0].strip()
    endpoint = re.search(r'\{ use = "caption\.endpoint",[^}]*\}', text)[0]
    assert "embed-text" in example and '{ use = "caption.describe" }' in example, example
    videos = SCRATCH / "page_videos"
    videos.mkdir()
    for name in ("bbb_A.mp4", "film.mp4"):
        shutil.copy(DATA / name, videos / name)
    with ModelServer() as server:
        here = example.replace("videos/*.mp4",
                               f"{videos}/*.mp4").replace('{ use = "caption.describe" }', endpoint.replace(
                                   'use = "caption.endpoint",',
                                   f'use = "caption.endpoint", base_url = "{server.url}",'))
        (SCRATCH / "page.toml").write_text(f'[run]\nout = "{SCRATCH / "page"}"\n{here}\n')
        done = subprocess.run([KINORA, "run", str(SCRATCH / "page.toml")], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    kept = {i["key"]: i for i in lines(SCRATCH / "page/clips/items.jsonl") if "parent" in i and i["end"] == "kept"}
    assert len(kept) >= 2 and all(i["facts"]["caption"]["by"] == "caption.endpoint" for i in kept.values()), kept
    found = subprocess.run([KINORA, "search", str(SCRATCH / "page"), "a boat at sea", "--top", "99", "--json"],
                           capture_output=True, text=True)
    assert found.returncode == 0 and {json.loads(line)["key"]
                                      for line in found.stdout.splitlines()} == set(kept), (found, kept)


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
for test in (check_one_decode, check_folders, check_remux, check_remux_of_damaged, check_manifest, check_variable_rate,
             check_columns, check_graph, check_patterns, check_same_bytes,
             check_changed_inputs, check_nothing_kept, check_other_files, check_edits, check_replaced,
             check_edits_of_moved_keys, check_trimmed, check_why_nothing, check_page_example):
    test()
    print("ok   ", test.__name__)
