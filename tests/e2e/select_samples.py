"""Samples, most different clips, joined tables and shares, each against a plain script. Part of select_job.py."""
import csv, hashlib, json, re

import numpy as np

from select_runs import CLIPS, SCRATCH, SEED, decisions, job, kept, run, summary


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
    """n a bin by the keys' hashes; the most different by their embeddings; sets that keep videos together, and sets of
    a set."""
    wide = {key for key, facts in clips.items() if facts["width"] == 1280}
    told = run(job("few", count=5, per=["style", "width"]),
               job("spread", count=12, pick="different", where="width == 1280"),
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
    assert sets == {key: "train" if share("set sets " + facts["film"]) < 0.75 else "val"
                    for key, facts in clips.items()}
    assert summary("sets")["sets"] == {name: list(sets.values()).count(name)
                                       for name in ("train", "val")} and len(set(sets.values())) == 2
    assert {key: line["set"]
            for key, line in decisions("by_key").items()} == {key: "a" if share("set by_key " + key) < 0.5 else "b"
                                                     for key in clips}
    films = sorted({facts["film"] for facts in clips.values()})
    told = run(job("half", sets=["one", "other"], sets_by="key"),
               job("quarter", source="half", where="set == 'one'", sets=["x", "y"], sets_by="key"),
               job("empty", where=f"film in {films[:2]}", sets=["all", "none"], shares=[1, 1e-9]),
               job("rare", sets=["all", "one"], shares=[1, 1e-9]))
    assert ("empty: no clip is in the set 'none'; add videos" in told and "in the set 'x'" not in told
            and "in the set 'y'" not in told and "in the set 'one'" not in told), told
    last = max(films, key=lambda film: share("set rare " + film))
    assert {key for key, line in decisions("rare").items() if line["set"] == "one"} == {
        key for key, facts in clips.items() if facts["film"] == last}, "an empty set takes the nearest video"
    one = {key for key in clips if share("set half " + key) < 0.5}
    assert {key: line["set"]
            for key, line in decisions("quarter").items()
            if line["end"] == "kept"} == {key: "x" if share("set quarter " + key) < 0.5 else "y" for key in one}
    assert min(summary("quarter")["sets"].values()) > len(one) / 4, "a set is split again as all clips would be"
    return sets


def check_tables(clips):
    """Columns of the user's tables are facts; a later table and its row replace what was there."""
    keys = sorted(clips)
    with (SCRATCH / "labels.csv").open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["key", "label", "style"])
        writer.writerows([[key, "cat" if i % 3 else "", "mine"]
                          for i, key in enumerate(keys[:200])] + [["unknown", "cat", ""]])
    (SCRATCH / "videos.jsonl").write_text("".join(json.dumps({"film": f"film-{i:02d}", "year": 1900 + i}) + "\n"
                                                 for i in range(20)))
    told = run(job("cats", join="labels.csv", where="label == 'cat' and style == 'mine'"),
               job("old", join="videos.jsonl", join_key="film", where="year < 1910"),
        job("both", source="cats", join="videos.jsonl", join_key="film", where="year < 1920"))
    cats = {key for i, key in enumerate(keys[:200]) if i % 3}
    assert kept("cats") == cats and decisions("cats")[keys[1]]["user"] == {"label": "cat", "style": "mine"}
    assert summary("cats")["joined"] == {str(SCRATCH / "labels.csv"): {"rows": 201, "rows_of_clips": 200, "clips": 200}}
    assert "labels.csv: 200 of 201 rows are about clips; 200 clips have a row" in told, told
    assert "labels.csv: 1 of its 201 rows is about no clip that came in, the first is 'unknown'" in told, told
    assert kept("old") == {key for key, facts in clips.items() if int(facts["film"][5:]) < 10}
    young = {key for key in cats if int(clips[key]["film"][5:]) < 20}
    assert kept("both") == young and summary("both")["inputs"] == len(cats) and summary("both")[
        "left_out_before"] == CLIPS - len(cats)
    first = decisions("both")[min(young)]
    assert first["user"] == {"label": "cat", "style": "mine", "year": 1900 + int(clips[min(young)]["film"][5:])}, first
    assert {line["rule"]
            for line in decisions("both").values() if line["end"] == "filtered"} == {"label == 'cat'", "year < 1920"}
    return young


def check_shares(clips):
    """Shares of sets that differ by more than 10 of 100 from what was asked are named, and a number that makes each
    clip a group."""
    few = {key: facts["film"] for key, facts in clips.items() if facts["film"] < "film-06"}
    names = [f"e{i}" for i in range(8)]
    told = run(*(job(name, where="film < 'film-06'", sets=["a", "b"], shares=[4, 1]) for name in names))
    differ = []
    for name in names:
        shares = {film: share(f"set {name} {film}") for film in few.values()}
        in_b = {film for film in shares if shares[film] >= 0.8} or set(sorted(shares, key=shares.get, reverse=True)[:1])
        of_a = sum(film not in in_b for film in few.values()) / len(few)
        assert abs(summary(name)["shares"]["a"]
                   - of_a) < 1e-12 and abs(summary(name)["shares"]["b"]
                                           - (1 - of_a)) < 1e-12, (name, summary(name), of_a)
        differ.append(abs(of_a - 0.8) > 0.1)
        line = re.search(
            rf"{name}: set '[ab]': asked (\d+) %, got (\d+) %: the clips of a video are in one set, "
            rf"and there are {len(set(few.values()))} videos", told)
        assert bool(line) == differ[-1], (name, of_a, told)
        assert not line or line.groups() in (("80", f"{100 * of_a:.0f}"),
                                             ("20", f"{100 * (1 - of_a):.0f}")), (line, of_a)
    assert 0 < sum(differ) < len(differ), "both cases must occur"
    told = run(job("each", count=1, per=["flow.p10"]), job("by_film", count=1, per=["film"]))
    assert "by_film: per" not in told and (
        f'each: per = ["flow.p10"] makes each of the {CLIPS} clips a group of its own, '
        'so count = 1 removes none') in told, told
