#!/usr/bin/env python3
"""A select job chooses what a plain script over items.jsonl chooses, on random conditions; samples, most different clips, joined tables and
sets likewise, and a shard job packs them. With --time: how long a changed threshold takes over a made-up record of 100,000 clips.
usage: select_job.py [--time] KINORA ROOT SCRATCH"""
import csv, hashlib, json, os, pathlib, random, re, shutil, subprocess, sys, tarfile, time

import numpy as np

KINORA, ROOT, SCRATCH = sys.argv[-3], pathlib.Path(sys.argv[-2]), pathlib.Path(sys.argv[-1])
sys.path.insert(0, str(ROOT / "tests/support"))
from clips import lines

OUT = SCRATCH / "out"
CLIPS, SEED, NUMBERS = 300, 11, 900  # NUMBERS: of an embedding
CURATE = f"""
[run]
name = "choose"
out = "{OUT}"
seed = {SEED}
[[job]]
name = "clips"
kind = "curate"
input = "{ROOT}/tests/data/bbb_A.mp4"
stages = ["video.probe", {{ use = "video.read", stride = 30, height = 64 }}, "embed.classic"]
"""


def kinora(*arguments, fails=False):
    """fails: whether it does, or the exit code."""
    done = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == fails or (fails is True and done.returncode != 0), done
    return done.stdout + done.stderr


def job(name, kind="select", source="clips", **options):
    text = f'[[job]]\nname = "{name}"\nkind = "{kind}"\ninput = {json.dumps(source)}\n'
    return text + "".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items())


def run(*jobs, fails=False):
    file = SCRATCH / "run.toml"
    file.write_text(CURATE + "".join(jobs))
    return kinora("run", file, fails=fails)


def made_up(draw):
    """Items of a curate job: kept clips of 40 videos with scores, some facts missing or of another type, and other outcomes."""
    items = []
    for i in range(CLIPS):
        facts = {"film": f"film-{draw.randrange(40):02d}", "duration_s": round(draw.uniform(0.5, 9), 2), "width": draw.choice([640, 1280]), "damaged": draw.random() < 0.2,
                 "scores": {"filter.blur": draw.randrange(100), "filter.flow.p10": draw.random()}, "tags": draw.sample(["sea", "sky", "car"], draw.randrange(3)),
                 "sha256": "ab", "first_frame": i}
        if draw.random() < 0.5:
            facts["user"] = {"rating": draw.choice(["1", "4", "9", "x", 4, 7]), "style": draw.choice(["film", "anime"])}
        if draw.random() < 0.1:
            facts["duration_s"] = None
        if draw.random() < 0.1:
            del facts["scores"]["filter.blur"]
        items.append({"consumed": False, "end": "kept", "facts": facts, "key": f"clip-{i:04d}"})
    others = [{"consumed": True, "end": "kept", "facts": {}, "key": "film-00"}, {"consumed": False, "end": "filtered", "reason": "filter.blur", "facts": {"width": 640}, "key": "gone-1"},
              {"consumed": False, "end": "failed", "reason": "broken", "facts": {}, "key": "gone-2"}]
    return items + others


def install(items, vectors):
    """Puts the items in place of those of the finished curate job, so that later jobs find them. vectors: embeddings by key; none: no files of
    clips."""
    folder = OUT / "clips"
    shutil.rmtree(folder / "data")
    (folder / "data").mkdir()
    with (folder / "items.jsonl").open("w") as out:
        for item in items:
            out.write(json.dumps(item, separators=(",", ":")) + "\n")
            if item["key"] in vectors:
                (folder / "data" / f"{item['key']}.json").write_text(json.dumps(item["facts"]))
                np.save(folder / "data" / f"{item['key']}.classic.npy", vectors[item["key"]])
    summary = json.loads((folder / "summary.json").read_text())
    summary["results"] |= {"items.jsonl": (folder / "items.jsonl").stat().st_size, "data": len(list((folder / "data").iterdir()))}
    (folder / "summary.json").write_text(json.dumps(summary))


# A condition and what it means, each in its own words: the text for Kinora, and a function of facts and key for Python.
MISSING = object()
FACTS = {"duration_s": ("duration_s",), "blur": ("scores", "filter.blur"), "scores.filter.blur": ("scores", "filter.blur"), "flow.p10": ("scores", "filter.flow.p10"), "width": ("width",),
         "damaged": ("damaged",), "film": ("film",), "rating": ("user", "rating"), "user.style": ("user", "style"), "tags": ("tags",)}
VALUES = {"duration_s": [2, 4.5], "blur": [20, 50.5], "scores.filter.blur": [80], "flow.p10": [0.25, 0.5], "width": [640, 1000], "damaged": [True, False], "film": ["film-03", "film-2"], "rating": [4, "4", 0],
          "user.style": ["anime", "a"], "tags": ["sea"], "key": ["clip-0042", "clip-01"]}


SHAPES = {"damaged": ["compare", "in", "has"], "tags": ["contains", "has"]}  # of facts that other shapes never hold for


def fact(facts, key, name):
    if name == "key":
        return key
    for member in FACTS[name]:
        facts = facts.get(member, MISSING) if isinstance(facts, dict) else MISSING
    return MISSING if facts is None else facts


def number(text):
    try:
        return float(text)
    except ValueError:
        return MISSING


def compared(a, by, b):
    if isinstance(a, str) and isinstance(b, (int, float)) and not isinstance(b, bool):
        a = number(a)
    kinds = [("bool" if isinstance(x, bool) else "number" if isinstance(x, (int, float)) else "text" if isinstance(x, str) else "other") for x in (a, b)]
    return kinds[0] == kinds[1] != "other" and {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[by]


def contained(a, b):
    return any(compared(x, "==", b) for x in a) if isinstance(a, list) else isinstance(a, str) and isinstance(b, str) and b in a


def simple(draw):
    name = draw.choice(list(VALUES))
    value, other = draw.choice(VALUES[name]), draw.choice(VALUES[name])
    text = draw.choice([v for v in VALUES[name] if isinstance(v, str)] or [None])
    shape = draw.choice(SHAPES.get(name, ["compare", "compare", "compare", "in", "has", "contains" if text else "compare"]))
    if shape == "has":
        return f"has({name})", lambda f, k: fact(f, k, name) is not MISSING
    if shape == "in":
        return f"{name} in {json.dumps([value, other])}", lambda f, k: any(compared(fact(f, k, name), "==", v) for v in (value, other))
    if shape == "contains":
        return f"{name} contains {json.dumps(text)}", lambda f, k: contained(fact(f, k, name), text)
    by = draw.choice(["==", "!="] if isinstance(value, bool) else ["==", "!=", "<", "<=", ">", ">="])
    return f"{name} {by} {json.dumps(value)}", lambda f, k: compared(fact(f, k, name), by, value)


def condition(draw, depth):
    kind = draw.choice(["simple", "not", "and", "or"]) if depth else "simple"
    if kind == "simple":
        return simple(draw)
    a, b = condition(draw, depth - 1), condition(draw, depth - 1)
    if kind == "not":
        return f"not ({a[0]})", lambda f, k: not a[1](f, k)
    return f"({a[0]} {kind} {b[0]})", (lambda f, k: a[1](f, k) and b[1](f, k)) if kind == "and" else (lambda f, k: a[1](f, k) or b[1](f, k))


def decisions(name, out=OUT):
    return {line["key"]: line for line in lines(out / name / "decisions.jsonl")}


def summary(name):
    return json.loads((OUT / name / "summary.json").read_text())


def kept(name, out=OUT):
    return {key for key, line in decisions(name, out).items() if line["end"] == "kept"}


def check_random_conditions(clips, draw):
    """Each clip is kept, or removed by the first condition of the top-level `and` that is false for it; the steps count that."""
    cases = [[condition(draw, draw.randrange(3)) for _ in range(draw.randrange(1, 4))] for _ in range(60)]
    run(*(job(f"c{i}", where=" and ".join(text for text, _ in parts)) for i, parts in enumerate(cases)))
    shares = []
    for i, parts in enumerate(cases):
        left, steps = dict(clips), []
        for _, holds in parts:
            rest = {key: facts for key, facts in left.items() if holds(facts, key)}
            steps.append((len(left), len(left) - len(rest)))
            left = rest
        where = " and ".join(text for text, _ in parts)
        assert kept(f"c{i}") == set(left), (where, kept(f"c{i}") ^ set(left))
        told = summary(f"c{i}")
        assert told["clips"] == {"kept": len(left), "filtered": CLIPS - len(left), "failed": 0} and told["inputs"] == CLIPS, (where, told)
        if len(parts) > 1:  # alone, a condition in parentheses counts by its own parts
            assert [(step["in"], step["removed"]) for step in told["steps"]] == steps, (where, told["steps"], steps)
            removed = {}
            for line in decisions(f"c{i}").values():
                if line["end"] == "filtered":
                    removed[line["rule"]] = removed.get(line["rule"], 0) + 1
            assert removed == told["rules"], (where, removed, told["rules"])
        shares.append(len(left) / CLIPS)
    assert sum(0 < share < 1 for share in shares) > 20, "most conditions must choose some clips and not others"
    print(f"{len(cases)} random conditions choose what a plain script chooses")


def share(text):
    return int(hashlib.sha256(text.encode()).hexdigest()[:13], 16) / 2**52


def farthest(keys, vectors, count):
    """Farthest point first in float64, from the first key."""
    x = np.stack([vectors[key] for key in keys]).astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    chosen = [0]
    while len(chosen) < count:
        nearest = (x @ x[chosen].T).max(axis=1)
        nearest[chosen] = np.inf
        chosen.append(int(nearest.argmin()))
    return {keys[i] for i in chosen}


def check_samples(clips, vectors):
    """n a bin by the keys' hashes; the most different by their embeddings; sets that keep videos together, and sets of a set."""
    wide = {key for key, facts in clips.items() if facts["width"] == 1280}
    told = run(job("few", count=5, per=["style", "width"]), job("spread", count=12, pick="different", where="width == 1280"),
        job("sets", sets=["train", "val"], shares=[3, 1]), job("by_key", sets=["a", "b"], sets_by="key"))
    bins = {}
    for key, facts in clips.items():
        bins.setdefault((facts.get("user", {}).get("style", "no style"), facts["width"]), []).append(key)
    wanted = {key for keys in bins.values() for key in sorted(keys, key=lambda k: share(f"sample {SEED} {k}"))[:5]}
    assert "no style, 640: 5" in told.split("; by value: ", 1)[1].split("\n", 1)[0], told
    assert kept("few") == wanted and len(bins) == 6 and summary("few")["bins"]["no style, 640"] == 5, summary("few")
    assert summary("few")["rules"] == {"count": CLIPS - len(wanted)}
    assert kept("spread") == farthest(sorted(wide), vectors, 12)
    sets = {key: line["set"] for key, line in decisions("sets").items()}
    assert sets == {key: "train" if share("set sets " + facts["film"]) < 0.75 else "val" for key, facts in clips.items()}
    assert summary("sets")["sets"] == {name: list(sets.values()).count(name) for name in ("train", "val")} and len(set(sets.values())) == 2
    assert {key: line["set"] for key, line in decisions("by_key").items()} == {key: "a" if share("set by_key " + key) < 0.5 else "b" for key in clips}
    told = run(job("half", sets=["one", "other"], sets_by="key"), job("quarter", source="half", where="set == 'one'", sets=["x", "y"], sets_by="key"),
               job("empty", sets=["all", "none"], shares=[1, 1e-9]))
    assert "empty: no clip is in the set 'none'; give it a larger share" in told and "in the set 'x'" not in told and "in the set 'y'" not in told, told
    one = {key for key in clips if share("set half " + key) < 0.5}
    assert {key: line["set"] for key, line in decisions("quarter").items() if line["end"] == "kept"} == {key: "x" if share("set quarter " + key) < 0.5 else "y" for key in one}
    assert min(summary("quarter")["sets"].values()) > len(one) / 4, "a set is split again as all clips would be"
    return sets


def check_tables(clips):
    """Columns of the user's tables are facts; a later table and its row replace what was there."""
    keys = sorted(clips)
    with (SCRATCH / "labels.csv").open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["key", "label", "style"])
        writer.writerows([[key, "cat" if i % 3 else "", "mine"] for i, key in enumerate(keys[:200])] + [["unknown", "cat", ""]])
    (SCRATCH / "films.jsonl").write_text("".join(json.dumps({"film": f"film-{i:02d}", "year": 1900 + i}) + "\n" for i in range(20)))
    told = run(job("cats", join="labels.csv", where="label == 'cat' and style == 'mine'"), job("old", join="films.jsonl", join_key="film", where="year < 1910"),
        job("both", source="cats", join="films.jsonl", join_key="film", where="year < 1920"))
    cats = {key for i, key in enumerate(keys[:200]) if i % 3}
    assert kept("cats") == cats and decisions("cats")[keys[1]]["user"] == {"label": "cat", "style": "mine"}
    assert summary("cats")["joined"] == {str(SCRATCH / "labels.csv"): {"rows": 201, "rows_of_clips": 200, "clips": 200}}
    assert "labels.csv: 200 of 201 rows are about clips; 200 clips have a row" in told, told
    assert "labels.csv: 1 of its 201 rows is about no clip that came in, the first is 'unknown'" in told, told
    assert kept("old") == {key for key, facts in clips.items() if int(facts["film"][5:]) < 10}
    young = {key for key in cats if int(clips[key]["film"][5:]) < 20}
    assert kept("both") == young and summary("both")["inputs"] == len(cats) and summary("both")["left_out_before"] == CLIPS - len(cats)
    first = decisions("both")[min(young)]
    assert first["user"] == {"label": "cat", "style": "mine", "year": 1900 + int(clips[min(young)]["film"][5:])}, first
    assert {line["rule"] for line in decisions("both").values() if line["end"] == "filtered"} == {"label == 'cat'", "year < 1920"}
    return young


def packed(name, run_folder=OUT):
    """{key: facts} of the samples in the shards."""
    out = {}
    for shard in (run_folder / name).glob("*.tar"):
        with tarfile.open(shard) as tar:
            out |= {member.name.removesuffix(".json"): json.load(tar.extractfile(member)) for member in tar if member.name.endswith(".json")}
    return out


def check_shards(clips, sets, young):
    """A shard job packs what is chosen, with the facts that select jobs added, and takes its own `where`."""
    jobs = [job("cats", join="labels.csv", where="label == 'cat' and style == 'mine'"), job("both", source="cats", join="films.jsonl", join_key="film", where="year < 1920"),
            job("sets", sets=["train", "val"], shares=[3, 1])]
    told = run(*jobs, job("pack", "shard", "both"), job("val", "shard", "sets", where="set == 'val' and blur >= 20"), job("sharp", "shard", where="blur >= 20"))
    shards = packed("pack")
    assert f", of {len(young)} clips from both" in told and (summary("pack")["given"], summary("pack")["given_by"]) == (len(young), "both"), told
    assert "given" not in summary("sharp"), "it reads the curate job"
    assert set(shards) == young and all(facts["user"]["year"] < 1920 and facts["user"]["label"] == "cat" for facts in shards.values())
    sharp = {key for key, facts in clips.items() if facts["scores"].get("filter.blur", -1) >= 20}
    assert set(packed("val")) == {key for key in sharp if sets[key] == "val"} and all(facts["set"] == "val" for facts in packed("val").values())
    assert set(packed("sharp")) == sharp and summary("sharp")["rules"] == {"blur >= 20": CLIPS - len(sharp)}


def check_copies(clips):
    """A dedup job compares the chosen clips alone: a copy of a clip that was left out stays."""
    sharp = [key for key, facts in clips.items() if facts["scores"].get("filter.blur", -1) >= 50]
    dull = [key for key in clips if key not in sharp]
    data = OUT / "clips/data"
    for copy, of in ((sharp[1], sharp[0]), (sharp[2], dull[0])):
        shutil.copy(data / f"{of}.classic.npy", data / f"{copy}.classic.npy")
    run(job("half", where="blur >= 50", sets=["a", "b"]), job("copies", "dedup", "half"), job("even", source="copies", where="width == 640"), job("pack", "shard", "even"))
    found = decisions("copies")
    lost = {key for key in sharp if found[key]["end"] != "kept"}
    assert set(found) == set(clips) and len(lost) == 1 and lost < {sharp[0], sharp[1]}, lost
    assert all(found[key]["rule"] == "blur >= 50" for key in dull) and all(found[key]["set"] in "ab" for key in sharp if key not in lost)
    even = {key for key in sharp if key not in lost and clips[key]["width"] == 640}
    assert set(packed("pack")) == even == kept("even") and all(facts["set"] in "ab" for facts in packed("pack").values())
    assert summary("pack")["rules"] == {"blur >= 50": len(dull), "dedup.semantic": 1, "width == 640": len(sharp) - 1 - len(even)}


def check_people(clips):
    """What people decided comes first: a rejected clip is removed, an accepted one stays and takes one of the places."""
    blur = lambda key: clips[key]["scores"].get("filter.blur", -1)
    rejected, accepted = max(clips, key=blur), min(clips, key=blur)
    (OUT / "clips/edits.jsonl").write_text("".join(json.dumps({"key": key, "set": {"keep": keep}}) + "\n" for key, keep in ((rejected, False), (accepted, True))))
    run(job("people", where="blur >= 50"), job("four", source="people", count=4))
    wanted = ({key for key in clips if blur(key) >= 50} - {rejected}) | {accepted}
    assert kept("people") == wanted and decisions("people")[rejected]["rule"] == "studio.reject"
    assert summary("people")["steps"][0] == {"rule": "studio.reject", "in": CLIPS, "removed": 1}
    order = sorted(wanted - {accepted}, key=lambda key: share(f"sample {SEED} {key}"))
    assert kept("four") == {accepted, *order[:3]}
    mine = "a" if share("set split " + accepted) < 0.5 else "b"
    other = "b" if mine == "a" else "a"
    run(job("split", sets=["a", "b"], sets_by="key"), job("one", source="split", where=f"set == '{other}'"), job("copies", "dedup", "one", dedup="dedup.semantic"), job("by_where", "shard", "split", where=f"set == '{other}'"),
        job("by_select", "shard", "one"), job("by_copies", "shard", "copies"))
    of_other = {key for key in clips if key != rejected and ("a" if share("set split " + key) < 0.5 else "b") == other}
    assert kept("one") == of_other == set(packed("by_where")) == set(packed("by_select")), "an accepted clip stays in its set"
    assert set(packed("by_copies")) == kept("copies") <= of_other and len(of_other) - len(kept("copies")) <= 2
    people = lambda: run(job("people", where="blur >= 50 and not film == 'tags'"), job("by_tag", where="blur >= 50", count=1, per=["tags"]), job("tagged", where="tags contains 'mine'"))
    people()
    before = (OUT / "people/decisions.jsonl").stat().st_mtime_ns
    assert "people: already done" in people() and (OUT / "people/decisions.jsonl").stat().st_mtime_ns == before
    with (OUT / "clips/edits.jsonl").open("a") as out:
        out.write(json.dumps({"key": accepted, "set": {"tags": ["mine"]}}) + "\n")
    told = people()
    assert "people: already done" in told, "no option of it names the fact tags"
    assert "by_tag: already done" not in told and "tagged: already done" not in told
    assert kept("tagged") == {accepted}
    (OUT / "clips/edits.jsonl").unlink()
    run(job("people", where="blur >= 50"))
    assert kept("people") == {key for key in clips if blur(key) >= 50}


def check_shares(clips):
    """Shares of sets that differ by more than 10 of 100 from what was asked are named, and a number that makes each clip a group."""
    few = {key: facts["film"] for key, facts in clips.items() if facts["film"] < "film-06"}
    names = [f"e{i}" for i in range(8)]
    told = run(*(job(name, where="film < 'film-06'", sets=["a", "b"], shares=[4, 1]) for name in names))
    differ = []
    for name in names:
        of_a = sum(share(f"set {name} {film}") < 0.8 for film in few.values()) / len(few)
        assert abs(summary(name)["shares"]["a"] - of_a) < 1e-12 and abs(summary(name)["shares"]["b"] - (1 - of_a)) < 1e-12, (name, summary(name), of_a)
        differ.append(abs(of_a - 0.8) > 0.1)
        line = re.search(rf"{name}: set '[ab]': asked (\d+) %, got (\d+) %: the clips of a video are in one set, and there are {len(set(few.values()))} videos", told)
        assert bool(line) == differ[-1], (name, of_a, told)
        assert not line or line.groups() in (("80", f"{100 * of_a:.0f}"), ("20", f"{100 * (1 - of_a):.0f}")), (line, of_a)
    assert 0 < sum(differ) < len(differ), "both cases must occur"
    told = run(job("each", count=1, per=["flow.p10"]), job("by_film", count=1, per=["film"]))
    assert f'each: per = ["flow.p10"] makes each of the {CLIPS} clips a group of its own, so count = 1 removes none' in told and "by_film: per" not in told, told


def check_results_stay(clips):
    """A choice below `min` fails with what each step removed; its results from before and those of later jobs stay. The results are there while
    the job runs again."""
    good = {key for key, facts in clips.items() if facts["scores"].get("filter.blur", -1) >= 50}
    both = {key for key in good if clips[key]["width"] == 1280}
    pack = job("pack", "shard", "good")
    run(job("good", where="blur >= 50", min=len(good)), pack)
    files = lambda: {path: path.read_bytes() for name in ("good", "pack") for path in (OUT / name).rglob("*") if path.is_file()}
    before = files()
    told = run(job("good", where="blur >= 50 and width == 1280", min=len(both) + 1), pack, fails=1)
    assert f"{len(both)} clips are left, fewer than min = {len(both) + 1}: {CLIPS} clips came in; blur >= 50 removed {CLIPS - len(good)} of {CLIPS}; width == 1280 removed {len(good) - len(both)} of {len(good)}" in told, told
    assert "good: the results from before are kept" in told and files() == before and kept("good") == set(packed("pack")) == good
    assert "min = 3 is more than count = 2" in run(job("good", count=2, min=3), fails=2) and files() == before
    for threshold in (51, 52, 53):
        (SCRATCH / "run.toml").write_text(CURATE + job("good", where=f"blur >= {threshold}"))
        running = subprocess.Popen([KINORA, "run", str(SCRATCH / "run.toml")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while running.poll() is None:
            assert (OUT / "good/decisions.jsonl").exists() and json.loads((OUT / "good/summary.json").read_text())["status"] == "done"
        assert running.returncode == 0 and kept("good") == {key for key in good if clips[key]["scores"]["filter.blur"] >= threshold}
    assert not [path.name for path in OUT.iterdir() if path.name.startswith(".good")], "nothing is left next to it"


def check_folders(clips):
    """Jobs of another run file read the folder of a finished job, without the curate job, and notice when it changes."""
    other, sharp = SCRATCH / "other", {key for key, facts in clips.items() if facts["scores"].get("filter.blur", -1) >= 50}
    wide = {key for key in sharp if clips[key]["width"] == 1280}
    file = SCRATCH / "other.toml"

    def rerun(*jobs, fails=False):
        file.write_text(f'[run]\nname = "other"\nout = "{other}"\n' + "".join(jobs))
        return kinora("run", file, fails=fails)

    run(job("good", where="blur >= 50"))
    mine, of_good = job("mine", source=f"{OUT}/clips", where="blur >= 50"), job("of_good", source=f"{OUT}/good/", where="width == 1280")
    jobs = [mine, job("wide", source="mine", where="width == 1280"), job("pack", "shard", "wide"), of_good, job("copies", "dedup", f"{OUT}/good"), job("direct", "shard", f"{OUT}/good", where="width == 1280")]
    rerun(*jobs)
    assert kept("mine", other) == sharp and kept("wide", other) == kept("of_good", other) == set(packed("pack", other)) == set(packed("direct", other)) == wide
    assert kept("copies", other) <= sharp and len(kept("copies", other)) > len(sharp) - 5
    assert rerun(*jobs).count("already done") == len(jobs)
    rejected = min(sharp)
    (OUT / "clips/edits.jsonl").write_text(json.dumps({"key": rejected, "set": {"keep": False}}) + "\n")
    assert "already done" not in rerun(mine) and kept("mine", other) == sharp - {rejected}
    (OUT / "clips/edits.jsonl").unlink()
    assert "already done" not in rerun(mine) and "already done" in rerun(mine)
    path = OUT / "clips/summary.json"
    before = path.read_text()
    path.write_text(json.dumps(json.loads(before) | {"kept_sha256": "of other clips"}))
    assert "mine: its inputs have changed" in rerun(mine)
    told = rerun(job("of_good", source=f"{OUT}/good", where="width == 640"), fails=2)
    assert f"{OUT}/clips has other clips now than those that {OUT}/good decided about; run the job 'good' again" in told, told
    path.write_text(json.dumps(json.loads(before) | {"status": "running"}))
    assert "clips: its job has not finished; run it to its end first" in rerun(mine, fails=2)
    path.write_text(before)
    for source, words in ((OUT, "is not the folder of a job (it has no job.json)"), (OUT / "by_where", "is the folder of a shard job; it must be that of a curate or dedup or select job"),
                          (OUT / "gone", "no such file, folder or earlier job"), (f"{OUT}/c?", "folders; give one"), (other / "mine", 'is a job of this file; write input = "mine"')):
        told = rerun(job("mine", source=str(source), where="blur >= 50"), fails=2)
        assert words in told and "other.toml:7:9: " in told, (source, told)


def check_errors():
    (SCRATCH / "twice.csv").write_text("key,label\na,1\na,2\n")
    (SCRATCH / "others.csv").write_text("key,label\na,1\n")
    (SCRATCH / "named.csv").write_text("clip,label\na,1\n")
    (SCRATCH / "labels.parquet").write_text("PAR1")
    (SCRATCH / "blurs.csv").write_text("key,blur,quality score\nclip-0000,1,5\n")
    (SCRATCH / "excel.csv").write_text("key;label\nclip-0000;1\n")
    for options, words in (({"where": "blur > "}, "where: column 8: expected a number"), ({"where": "blurr > 1"}, "where: no clip has the fact 'blurr', did you mean 'blur'?"),
                           ({"where": "tag == 1"}, "did you mean 'tags'?"), ({"count": 2, "per": ["wdith"]}, "per: no clip has the fact 'wdith', did you mean 'width'?"), ({"per": ["width"]}, "set count"),
                           ({"join": "twice.csv"}, "twice.csv: row 3: 'a' has row 2 already"), ({"join": "others.csv"}, "none of its 1 rows is about a clip"),
                           ({"join": "others.csv", "where": "label == '1'"}, "join: "), ({"join": "excel.csv"}, "the columns are separated by ';'; separate them by ','"),
                           ({"join": "blurs.csv", "where": "blur > 1"}, "'blur' is a fact of the clips, scores.filter.blur, and a column of"),
                           ({"join": "blurs.csv", "where": "quality score > 1"}, "where: column 9: expected ==, !=, <, <=, >, >=, 'in' or 'contains', found 'score'; a fact called 'quality score' is written `quality score`"),
                           ({"where": "blur > '20'"}, "so it is never compared with '20'; write a number without quotes"), ({"where": "width > 0 and scores == 1"}, "where: column 15: scores is an object, so it is never compared with 1; its members are scores.filter."),
                           ({"where": "tags == 'sea'"}, "where: column 1: tags is a list, so it is never compared with 'sea'; write tags contains 'sea'"), ({"where": "not style == 1"}, "where: column 5: style is a text, such as '"),
                           ({"where": "damaged contains true"}, "damaged is true or false, so nothing is contained in it; write damaged == true"), ({"where": "width in ['640', '1280']"}, "width is a number, such as "),
                           ({"sets": ["a", ""]}, "sets: a set has no name"), ({"sets": ["a", "b"], "shares": [1e308, 1e308]}, "shares: the numbers and their sum must be finite"),
                           ({"join": "named.csv"}, "none is called 'key'"), ({"join": "labels.parquet"}, "must be a .csv or .jsonl file; convert it"), ({"join": "nothing.csv"}, "no such file"),
                           ({"sets": ["a", "b"], "shares": [1.0]}, "shares has 1 numbers for 2 sets"), ({"count": 2, "pick": "different", "embedding": "clip"}, "has no embedding 'clip'; name another one by `embedding` (there are: classic)"),
                           ({"count": 2, "pick": "different", "memory": "1 MiB"}, 'need 1.03 MiB, and memory = "1.00 MiB" bounds them; raise memory')):
        assert words in run(job("wrong", **options), fails=True), (options, words)
    assert "a select job reads one job" in run(job("first"), job("second"), job("wrong", source=["first", "second"]), fails=True)
    assert "where: no clip has the fact 'blurr'" in run(job("wrong", "shard", where="blurr > 1"), fails=True)
    assert "where: column 1" in run(job("wrong", "shard", where="1"), fails=True)
    assert "where: column 1: blur is a number" in run(job("wrong", "shard", where="blur > '20'"), fails=True)
    assert "shares: the numbers and their sum must be finite" in run(job("wrong", sets=["a", "b"]) + "shares = [inf, 1.0]\n", fails=True)
    run(job("quoted", join="blurs.csv", where="`quality score` >= 5 and user.blur == 1"))
    assert kept("quoted") == {"clip-0000"}
    run(job("nothing", where="not has(blurr) and width < 0"))  # a fact in has() may be missing everywhere
    assert kept("nothing") == set()
    told = run(job("nothing", where="not has(blurr) and width < 0"), job("still", source="nothing", where="blurr > 1", join="others.csv"), job("empty", "shard", "nothing"), fails=True)  # no clip comes in
    assert summary("still")["inputs"] == 0 and "job 'empty' failed: no clip is left to pack, of " in told, told


def check_report_and_metrics():
    """Only a run that has made the report, or found it up to date, points to it. Every job says in metrics.prom that it has ended."""
    page = '[[job]]\nname = "page"\nkind = "report"\n'
    begun = int(time.time())
    for text in (run(job("few", where="blur >= 50"), page), run(job("few", where="blur >= 50"), page)):
        assert f"; open {OUT}/report.html" in text, text
    for name in ("few", "page"):
        metrics = dict(line.rsplit(" ", 1) for line in (OUT / name / "metrics.prom").read_text().splitlines() if not line.startswith("#"))
        assert metrics[f'kinora_job_ended{{job="{name}"}}'] == "1" and begun <= float(metrics[f'kinora_job_updated_seconds{{job="{name}"}}']) <= time.time(), metrics
    told = kinora("run", SCRATCH / "run.toml", "--only", "few", "--set", "few.where=blur >= 60")
    assert f"results are in {OUT}" in told and "report.html" not in told, told
    assert f"; open {OUT}/report.html" in kinora("run", SCRATCH / "run.toml", "--only", "page")


def large():
    """Items of 100,000 clips of 10,000 videos with what the stages of configs/curate.toml leave: 1.3 KB a clip, and scores of 1,200 frames a video."""
    draw = random.Random(1)
    frames = [draw.random() * 100 for _ in range(1200)]
    facts = {"bin": {"aspect": "16_9", "duration": "5_10", "resolution": "720"}, "caption": {"by": "caption.describe"}, "codec": "h264", "container": "mov,mp4,m4a,3gp,3g2,mj2", "copied": 0,
             "embeddings": {"classic": {"model": "embed.classic", "size": 488}}, "end_frame": 125, "end_s": 5.2, "field_order": "progressive", "first_frame": 0, "fps": 24.0, "frames": 125,
             "frames_at": [i / 4 for i in range(21)], "height": 720, "matrix": "bt709", "measured": {"brightness": 0.36272515950829687, "colours": ["green", "black"], "contrast": 0.19115898557959674},
             "pixel_format": "yuv420p", "rotation": 0, "sha256": "0666d6d50414bf1c40e852d3f631bb3ba93d49aa95307b2b5a89c53b4e792c3a", "start_s": 0.0, "width": 1280}
    scores = {f"filter.{name}": 0.006585426624466277 for name in ("black", "brightness", "flow", "flow.p10", "frozen", "letterbox", "motion", "motion.patch_min", "text")}
    for i in range(100_000):
        film = f"film-{i // 10:05d}"
        if i % 10 == 0:
            yield {"consumed": True, "end": "kept", "facts": {"sha256": facts["sha256"]}, "key": film, "shots": {"fps": 24, "frames": 1200, "scores": frames}}
        of_clip = {"duration_s": draw.random() * 10, "film": film, "scores": scores | {"filter.blur": draw.random() * 100}}
        yield {"caption": "A dim video of 5.2 seconds, mostly green and black, with slow motion and medium contrast.", "consumed": False, "end": "kept", "facts": facts | of_clip, "key": f"{film}-{i % 10:04d}", "parent": film}


def time_threshold():
    run()
    install(large(), {})
    size = (OUT / "clips/items.jsonl").stat().st_size
    for threshold in (20, 21, 22, 23, 24):
        before, begun = os.times(), time.monotonic()
        run(job("sharp", where=f"blur >= {threshold} and duration_s > 2"))
        spent = os.times()
        told = summary("sharp")
        print(f"blur >= {threshold}: {told['clips']['kept']:,} of {told['inputs']:,} clips, {size / 1e6:.0f} MB: {time.monotonic() - begun:.2f} s from start to end, "
              f"{spent.children_user - before.children_user + spent.children_system - before.children_system:.2f} s of processor time")


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
if "--time" in sys.argv:
    time_threshold()
    sys.exit()
draw = random.Random(5)
items = made_up(draw)
clips = {item["key"]: item["facts"] for item in items if item["end"] == "kept" and not item["consumed"]}
rng = np.random.default_rng(3)
vectors = {key: rng.standard_normal(NUMBERS).astype(np.float32) for key in clips}
run()
install(items, vectors)
check_random_conditions(clips, draw)
sets = check_samples(clips, vectors)
young = check_tables(clips)
check_shards(clips, sets, young)
check_copies(clips)
check_people(clips)
check_shares(clips)
check_results_stay(clips)
check_folders(clips)
check_errors()
check_report_and_metrics()
print("a select job chooses by conditions, samples, tables and sets")
