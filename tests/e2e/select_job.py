#!/usr/bin/env python3
"""A select job chooses what a plain script over items.jsonl chooses, on random conditions; samples, most different
clips, joined tables and sets likewise, and a shard job packs them. With --time: how long a changed threshold takes over
a made-up record of 100,000 clips, which must not be much longer than Python takes to read the same lines.
usage: select_job.py [--time] KINORA ROOT SCRATCH"""
import json, random, re, shutil, subprocess, sys, tarfile, time

import numpy as np

from select_conditions import check_random_conditions
from select_runs import (CLIPS, CURATE, KINORA, NUMBERS, OUT, SCRATCH, SEED, decisions, install, job, kept, kinora,
                         made_up, run, summary)
from select_samples import check_samples, check_shares, check_tables, share
from select_time import time_threshold


def packed(name, run_folder=OUT):
    """{key: facts} of the samples in the shards."""
    out = {}
    for shard in (run_folder / name).glob("*.tar"):
        with tarfile.open(shard) as tar:
            out |= {member.name.removesuffix(".json"): json.load(tar.extractfile(member))
                    for member in tar if member.name.endswith(".json")}
    return out


def check_shards(clips, sets, young):
    """A shard job packs what is chosen, with the facts that select jobs added, and takes its own `where`."""
    jobs = [job("cats", join="labels.csv", where="label == 'cat' and style == 'mine'"),
            job("both", source="cats", join="videos.jsonl", join_key="film", where="year < 1920"),
            job("sets", sets=["train", "val"], shares=[3, 1])]
    told = run(*jobs, job("pack", "shard", "both"), job("val", "shard", "sets", where="set == 'val' and blur >= 20"),
               job("sharp", "shard", where="blur >= 20"))
    shards = packed("pack")
    assert f", of {len(young)} clips from both" in told and (summary("pack")["given"],
                                                             summary("pack")["given_by"]) == (len(young), "both"), told
    assert "given" not in summary("sharp") and summary("sharp")["curated"] == "clips", "it reads the curate job"
    assert set(shards) == young and all(facts["user"]["year"] < 1920 and facts["user"]["label"] == "cat"
                                        for facts in shards.values())
    sharp = {key for key, facts in clips.items() if facts["scores"].get("filter.blur", -1) >= 20}
    assert set(packed("val")) == {key for key in sharp
                                  if sets[key]
                                  == "val"} and all(facts["set"] == "val" for facts in packed("val").values())
    assert set(packed("sharp")) == sharp and summary("sharp")["rules"] == {"blur >= 20": CLIPS - len(sharp)}
    for name, where, offered in (("val", "set == 'val' and blur >= 20", CLIPS), ("sharp", "blur >= 20", CLIPS)):
        assert summary(name)["not_asked_for"] == {"where": where, "clips": offered - summary(name)["samples"]}, name
        given = f"{summary(name)['not_asked_for']['clips']} {'of them' if name == 'val' else 'clips'}"
        assert re.search(rf"\b{name}: .*; {given} not asked for by where$", told, re.M), told
    assert "not_asked_for" not in summary("pack") and f"; {CLIPS - len(young)} left out before (" in told, told


def check_copies(clips):
    """A dedup job compares the chosen clips alone: a copy of a clip that was left out stays."""
    sharp = [key for key, facts in clips.items() if facts["scores"].get("filter.blur", -1) >= 50]
    dull = [key for key in clips if key not in sharp]
    data = OUT / "clips/data"
    for copy, of in ((sharp[1], sharp[0]), (sharp[2], dull[0])):
        shutil.copy(data / f"{of}.classic.npy", data / f"{copy}.classic.npy")
    run(job("half", where="blur >= 50", sets=["a", "b"]), job("copies", "dedup", "half"),
        job("even", source="copies", where="width == 640"), job("pack", "shard", "even"))
    found = decisions("copies")
    lost = {key for key in sharp if found[key]["end"] != "kept"}
    assert set(found) == set(clips) and len(lost) == 1 and lost < {sharp[0], sharp[1]}, lost
    assert all(found[key]["rule"] == "blur >= 50"
               for key in dull) and all(found[key]["set"] in "ab" for key in sharp if key not in lost)
    even = {key for key in sharp if key not in lost and clips[key]["width"] == 640}
    assert set(packed("pack")) == even == kept("even") and all(facts["set"] in "ab"
                                                               for facts in packed("pack").values())
    assert summary("pack")["rules"] == {"blur >= 50": len(dull), "dedup.semantic": 1,
                                        "width == 640": len(sharp) - 1 - len(even)}


def check_people(clips):
    """What people decided comes first: a rejected clip is removed, an accepted one stays and takes one of the
    places."""
    blur = lambda key: clips[key]["scores"].get("filter.blur", -1)
    rejected, accepted = max(clips, key=blur), min(clips, key=blur)
    (OUT / "clips/edits.jsonl").write_text("".join(json.dumps({"key": key, "set": {"keep": keep}}) + "\n"
                                                   for key, keep in ((rejected, False), (accepted, True))))
    run(job("people", where="blur >= 50"), job("four", source="people", count=4))
    wanted = ({key for key in clips if blur(key) >= 50} - {rejected}) | {accepted}
    assert kept("people") == wanted and decisions("people")[rejected]["rule"] == "studio.reject"
    assert summary("people")["steps"][0] == {"rule": "studio.reject", "in": CLIPS, "removed": 1}
    order = sorted(wanted - {accepted}, key=lambda key: share(f"sample {SEED} {key}"))
    assert kept("four") == {accepted, *order[:3]}
    mine = "a" if share("set split " + accepted) < 0.5 else "b"
    other = "b" if mine == "a" else "a"
    run(job("split", sets=["a", "b"], sets_by="key"), job("one", source="split", where=f"set == '{other}'"),
        job("copies", "dedup", "one", dedup="dedup.semantic"),
        job("by_where", "shard", "split", where=f"set == '{other}'"),
        job("by_select", "shard", "one"), job("by_copies", "shard", "copies"))
    of_other = {key for key in clips if key != rejected and ("a" if share("set split " + key) < 0.5 else "b") == other}
    assert kept("one") == of_other == set(packed("by_where")) == set(
        packed("by_select")), "an accepted clip stays in its set"
    assert set(packed("by_copies")) == kept("copies") <= of_other and len(of_other) - len(kept("copies")) <= 2
    people = lambda: run(job("people", where="blur >= 50 and not film == 'tags'"),
                         job("by_tag", where="blur >= 50", count=1, per=["tags"]),
                         job("tagged", where="tags contains 'mine'"))
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


def check_results_stay(clips):
    """A choice below `min` fails with what each step removed; its results from before and those of later jobs stay. The
    results are there while the job runs again."""
    good = {key for key, facts in clips.items() if facts["scores"].get("filter.blur", -1) >= 50}
    both = {key for key in good if clips[key]["width"] == 1280}
    pack = job("pack", "shard", "good")
    run(job("good", where="blur >= 50", min=len(good)), pack)
    files = lambda: {path: path.read_bytes() for name in ("good", "pack")
                     for path in (OUT / name).rglob("*") if path.is_file()}
    before = files()
    told = run(job("good", where="blur >= 50 and width == 1280", min=len(both) + 1), pack, fails=1)
    assert (
        f"{len(both)} clips are left, fewer than min = {len(both) + 1}: {CLIPS} clips came in; blur >= 50 removed "
        f"{CLIPS - len(good)} of {CLIPS}; width == 1280 removed {len(good) - len(both)} of {len(good)}" in told), told
    assert "good: the results from before are kept" in told and files() == before and kept("good") == set(
        packed("pack")) == good
    assert "min = 3 is more than count = 2" in run(job("good", count=2, min=3), fails=2) and files() == before
    for threshold in (51, 52, 53):
        (SCRATCH / "run.toml").write_text(CURATE + job("good", where=f"blur >= {threshold}"))
        running = subprocess.Popen([KINORA, "run", str(SCRATCH / "run.toml")], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while running.poll() is None:
            assert (OUT / "good/decisions.jsonl").exists() and json.loads((OUT / "good/summary.json").read_text())[
                "status"] == "done"
        assert running.returncode == 0 and kept("good") == {key for key in good
                                                            if clips[key]["scores"]["filter.blur"] >= threshold}
    assert not [path.name for path in OUT.iterdir() if path.name.startswith(".good")], "nothing is left next to it"


def check_folders(clips):
    """Jobs of another run file read the folder of a finished job, without the curate job, and notice when it
    changes."""
    other, sharp = SCRATCH / "other", {key
                                       for key, facts in clips.items() if facts["scores"].get("filter.blur", -1) >= 50}
    wide = {key for key in sharp if clips[key]["width"] == 1280}
    file = SCRATCH / "other.toml"

    def rerun(*jobs, fails=False):
        file.write_text(f'[run]\nname = "other"\nout = "{other}"\n' + "".join(jobs))
        return kinora("run", file, fails=fails)

    run(job("good", where="blur >= 50"))
    mine, of_good = job("mine", source=f"{OUT}/clips",
                        where="blur >= 50"), job("of_good", source=f"{OUT}/good/", where="width == 1280")
    jobs = [mine, job("wide", source="mine", where="width == 1280"), job("pack", "shard", "wide"), of_good,
            job("copies", "dedup", f"{OUT}/good"), job("direct", "shard", f"{OUT}/good", where="width == 1280")]
    rerun(*jobs)
    assert kept("mine", other) == sharp and kept("wide", other) == kept("of_good", other) == set(
        packed("pack", other)) == set(packed("direct", other)) == wide
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
    told = rerun(mine)
    assert "mine: input names files with other contents" in told, told
    told = rerun(job("of_good", source=f"{OUT}/good", where="width == 640"), fails=2)
    assert (f"{OUT}/clips has other clips now than those that {OUT}/good decided about; "
            "run the job 'good' again") in told, told
    path.write_text(json.dumps(json.loads(before) | {"status": "running"}))
    assert "clips: its job has not finished; run it to its end first" in rerun(mine, fails=2)
    path.write_text(before)
    for source, words in ((OUT, "is not the folder of a job (it has no job.json)"),
                          (OUT / "by_where",
                           "is the folder of a shard job; it must be that of a curate or dedup or select job"),
                          (OUT / "gone", "no such file, folder or earlier job"), (f"{OUT}/c?", "folders; give one"),
                          (other / "mine", 'is a job of this file; write input = "mine"')):
        told = rerun(job("mine", source=str(source), where="blur >= 50"), fails=2)
        assert words in told and "other.toml:7:9: " in told, (source, told)


def check_errors():
    (SCRATCH / "twice.csv").write_text("key,label\na,1\na,2\n")
    (SCRATCH / "others.csv").write_text("key,label\na,1\n")
    (SCRATCH / "named.csv").write_text("clip,label\na,1\n")
    (SCRATCH / "labels.parquet").write_text("PAR1")
    (SCRATCH / "blurs.csv").write_text("key,blur,quality score\nclip-0000,1,5\n")
    (SCRATCH / "excel.csv").write_text("key;label\nclip-0000;1\n")
    for options, words in (({"where": "blur > "}, "where: column 8: expected a number"),
                           ({"where": "blurr > 1"}, "where: no clip has the fact 'blurr', did you mean 'blur'?"),
                           ({"where": "tag == 1"}, "did you mean 'tags'?"),
                           ({"count": 2, "per": ["wdith"]}, "per: no clip has the fact 'wdith', did you mean 'width'?"),
                           ({"per": ["width"]}, "set count"),
                           ({"join": "twice.csv"}, "twice.csv: row 3: 'a' has row 2 already"),
                           ({"join": "others.csv"}, "none of its 1 rows is about a clip"),
                           ({"join": "others.csv", "where": "label == '1'"}, "join: "),
                           ({"join": "excel.csv"}, "the columns are separated by ';'; separate them by ','"),
                           ({"join": "blurs.csv", "where": "blur > 1"},
                            "'blur' is a fact of the clips, scores.filter.blur, and a column of"),
                           ({"join": "blurs.csv", "where": "quality score > 1"},
                            "where: column 9: expected ==, !=, <, <=, >, >=, 'in' or 'contains', found 'score'; a fact "
                            "called 'quality score' is written `quality score`"),
                           ({"where": "blur > '20'"},
                            "so it is never compared with '20'; write a number without quotes"),
                           ({"where": "width > 0 and scores == 1"},
                            "where: column 15: scores is an object, so it is never compared with 1; its members are "
                            "scores.filter."),
                           ({"where": "tags == 'sea'"},
                            "where: column 1: tags is a list, so it is never compared with 'sea'; write tags contains "
                            "'sea'"), ({"where": "not style == 1"}, "where: column 5: style is a text, such as '"),
                           ({"where": "damaged contains true"},
                            "damaged is true or false, so nothing is contained in it; write damaged == true"),
                           ({"where": "width in ['640', '1280']"}, "width is a number, such as "),
                           ({"sets": ["a", ""]}, "sets: a set has no name"),
                           ({"sets": ["a", "b"], "shares": [1e308, 1e308]},
                            "shares: the numbers and their sum must be finite"),
                           ({"join": "named.csv"}, "none is called 'key'"),
                           ({"join": "labels.parquet"}, "must be a .csv or .jsonl file; convert it"),
                           ({"join": "nothing.csv"}, "no such file"),
                           ({"sets": ["a", "b"], "shares": [1.0]}, "shares has 1 numbers for 2 sets"),
                           ({"count": 2, "pick": "different", "embedding": "clip"},
                            "has no embedding 'clip'; name another one by `embedding` (there are: classic)"),
                           ({"count": 2, "pick": "different", "memory": "1 MiB"},
                            'need 1.03 MiB, and memory = "1.00 MiB" bounds them; raise memory')):
        assert words in run(job("wrong", **options), fails=True), (options, words)
    assert "a select job reads one job" in run(job("first"), job("second"), job("wrong", source=["first", "second"]),
                                               fails=True)
    assert "where: no clip has the fact 'blurr'" in run(job("wrong", "shard", where="blurr > 1"), fails=True)
    assert "where: column 1" in run(job("wrong", "shard", where="1"), fails=True)
    assert "where: column 1: blur is a number" in run(job("wrong", "shard", where="blur > '20'"), fails=True)
    assert "shares: the numbers and their sum must be finite" in run(
        job("wrong", sets=["a", "b"]) + "shares = [1e308, 1e308]\n", fails=True)
    run(job("quoted", join="blurs.csv", where="`quality score` >= 5 and user.blur == 1"))
    assert kept("quoted") == {"clip-0000"}
    run(job("nothing", where="not has(blurr) and width < 0"))  # a fact in has() may be missing everywhere
    assert kept("nothing") == set()
    # no clip comes in
    told = run(job("nothing", where="not has(blurr) and width < 0"),
               job("still", source="nothing", where="blurr > 1", join="others.csv"), job("empty", "shard", "nothing"),
               fails=True)
    assert summary("still")["inputs"] == 0 and "job 'empty' failed: no clip is left to pack, of " in told, told


def check_report_and_metrics():
    """Only a run that has made the report, or found it up to date, points to it. Its last lines say how many clips each
    job has kept. Every job says in metrics.prom that it has ended."""
    page = '[[job]]\nname = "page"\nkind = "report"\n'
    begun = int(time.time())
    for text in (run(job("few", where="blur >= 50"), page), run(job("few", where="blur >= 50"), page)):
        assert f"; open {OUT}/report.html" in text, text
        good = summary("clips")["kept"]  # of the one input that was there before these clips were put in its place
        assert f" → {good} good → {min(good, summary('few')['clips']['kept'])} chosen\n" in text, text
    for name in ("few", "page"):
        metrics = dict(line.rsplit(" ", 1)
                       for line in (OUT / name / "metrics.prom").read_text().splitlines() if not line.startswith("#"))
        assert metrics[f'kinora_job_ended{{job="{name}"}}'] == "1" and begun <= float(
            metrics[f'kinora_job_updated_seconds{{job="{name}"}}']) <= time.time(), metrics
    told = kinora("run", SCRATCH / "run.toml", "--only", "few", "--set", "few.where=blur >= 60")
    assert f"results are in {OUT}" in told and "report.html" not in told, told
    assert f"; open {OUT}/report.html" in kinora("run", SCRATCH / "run.toml", "--only", "page")


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
