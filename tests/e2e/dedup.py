#!/usr/bin/env python3
"""Real clips with planted copies (the same file, re-encoded, scaled, shifted): embeddings, the dedup job against
SemDeDup's rule in numpy, shards without the copies, and kinora search against products in numpy. usage: dedup.py KINORA
ROOT SCRATCH"""
import hashlib, json, os, pathlib, shutil, subprocess, sys, tarfile

import numpy as np

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.insert(0, str(ROOT / "tests/support"))
from clips import EMBED_TEXT, caption_rows, curate_folder, lines, nearest, pictures

DATA = ROOT / "tests/data"
ORIGINALS = ["bbb_A", "bbb_B", "bbb_C", "bbb_D", "city_cc0", "cockatoo"]
EPS = 0.01
MINILM = pathlib.Path(os.environ.get("KINORA_ASSETS", "")) / "minilm/model.safetensors"
RUN = """
[run]
name = "copies"
[[job]]
name = "clips"
kind = "curate"
input = "videos"
duplicates = "keep"
stages = [{{ use = "clip.transcode", min_length = 0.1, min_frames = 1, edge_crop = 0.0 }},
          {{ use = "video.read", stride = 6, height = 96 }}, {{ use = "embed.classic" }},
          {{ use = "caption.describe" }}]
[[job]]
name = "copies"
kind = "dedup"
input = "clips"
dedup = {{ use = "dedup.semantic", eps = {eps}, keep = "{keep}" }}
[[job]]
name = "shards"
kind = "shard"
input = "copies"
"""


def ffmpeg(source, target, *arguments):
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", str(source), *arguments, "-an", "-c:v", "libx264", "-pix_fmt",
                    "yuv420p", str(target)], check=True)


def make_videos():
    """The originals at 240 lines, to keep the work small, and copies of five of them."""
    videos = SCRATCH / "videos"
    videos.mkdir(parents=True)
    for name in ORIGINALS:
        ffmpeg(DATA / f"{name}.mp4", videos / f"{name}.mp4", "-t", "2", "-vf", "scale=-2:240", "-crf", "18")
    shutil.copy(videos / "bbb_A.mp4", videos / "bbb_A-same.mp4")
    ffmpeg(videos / "bbb_B.mp4", videos / "bbb_B-again.mp4", "-crf", "32")
    ffmpeg(videos / "bbb_C.mp4", videos / "bbb_C-small.mp4", "-vf", "scale=-2:144")
    ffmpeg(videos / "city_cc0.mp4", videos / "city_cc0-later.mp4", "-vf", "trim=start_frame=3,setpts=PTS-STARTPTS")
    ffmpeg(videos / "cockatoo.mp4", videos / "cockatoo-moved.mp4", "-vf", "crop=iw-4:ih-4:4:4")


def kinora(*arguments, fails=False):
    done = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True)
    assert (done.returncode != 0) == fails, done
    return done.stderr if fails else done.stdout


def semdedup(out, keep):
    """{key: (of, cosine)} of the removed clips, from the matrix of all products."""
    vectors = pictures(out)
    keys = sorted(vectors)
    facts = {k: json.loads((out / f"clips/data/{k}.json").read_text()) for k in keys}
    size = lambda k: facts[k]["width"] * facts[k]["height"]
    bits = lambda k: (out / f"clips/data/{k}.mp4").stat().st_size / (size(k) * facts[k]["frames"])
    # the lengths of copies differ by less than 5 %, but for one in width and one in length
    picture = lambda k: (-facts[k]["fps"], -bits(k), -facts[k]["duration_s"], k)
    length = lambda k: -round(facts[k]["duration_s"] / 0.12)
    worth = {"largest": lambda k: (-size(k), length(k), *picture(k)),
             "longest": lambda k: (length(k), -size(k), *picture(k)), "first": lambda k: k}[keep]
    order = sorted(keys, key=worth)
    contents = {}
    going = {}
    for key in order:
        first = contents.setdefault((out / f"clips/data/{key}.mp4").read_bytes(), key)
        if first != key:
            going[key] = (first, 1.0)
    left = [k for k in order if k not in going]
    x = np.stack([vectors[k] for k in left])
    assert x.shape == (len(left), 488) and np.allclose(np.linalg.norm(x, axis=1), 1, atol=1e-6), x.shape
    products = np.triu(x @ x.T, 1)
    for column in range(1, len(left)):
        row = products[:column, column].argmax()
        if products[row, column] >= 1 - EPS:
            going[left[column]] = (left[row], products[row, column])
    return order, going


def check_decisions(out, keep):
    order, going = semdedup(out, keep)
    decisions = {d["key"]: d for d in lines(out / "copies/decisions.jsonl")}
    assert sorted(decisions) == sorted(order), decisions
    for key, d in decisions.items():
        assert (d["end"] == "filtered") == (key in going), (d, going.get(key))
        if key in going:
            of, cosine = going[key]
            assert d["of"] == of and abs(d["score"]
                                         - cosine) < 1e-6 and d["rule"] == (
                                             "dedup.exact" if cosine == 1.0 else "dedup.semantic"), (d, of, cosine)
    summary = json.loads((out / "copies/summary.json").read_text())
    assert summary["clips"] == {"kept": len(order) - len(going), "filtered": len(going), "failed": 0}, summary
    return {k for k in order if k not in going}


def check_planted(out):
    """Each copy is removed and its original stays; nothing else is removed."""
    decisions = {d["key"]: d for d in lines(out / "copies/decisions.jsonl")}
    copies = {"bbb_A-same-0000": "dedup.exact", "bbb_B-again-0000": "dedup.semantic",
              "bbb_C-small-0000": "dedup.semantic",
              "city_cc0-later-0000": "dedup.semantic", "cockatoo-moved-0000": "dedup.semantic"}
    found = {k: d["rule"] for k, d in decisions.items() if d["end"] != "kept"}
    assert found == copies, (found, {k: d.get("score") for k, d in decisions.items()})
    for key in copies:
        of = key.split("-")[0] + "-0000"
        why = "the same bytes" if copies[
            key] == "dedup.exact" else f"cosine {decisions[key]['score']:.4f}, by the embedding alone"
        assert decisions[key]["of"] == of and decisions[key]["reason"] == f"copy of {of}: {why}", decisions[key]


def check_recorded(out, file):
    """With mode = "score" all clips are kept. The copies have the originals, scores and reasons for which they were
    left out, in decisions.jsonl and as a fact of the shards."""
    before = {d["key"]: d for d in lines(out / "copies/decisions.jsonl") if d["end"] == "filtered"}
    score = ("--set", "copies.dedup.mode=score")
    said = subprocess.run([KINORA, "run", str(file), "--out", str(out), "--only", "shards", *score],
                          capture_output=True, text=True, check=True).stderr
    assert f"copies: {len(before)} copies are kept and recorded" in said, said
    decisions = {d["key"]: d for d in lines(out / "copies/decisions.jsonl")}
    assert {d["end"] for d in decisions.values()} == {"kept"}, decisions
    recorded = {key: d["duplicate"] for key, d in decisions.items() if "duplicate" in d}
    told = {key: (r["of"], r["similarity"], r["why"]) for key, r in recorded.items()}
    assert told == {key: (d["of"], d["score"], d["reason"]) for key, d in before.items()}, recorded
    packed = {}
    for shard in (out / "shards").glob("*.tar"):
        with tarfile.open(shard) as tar:
            packed |= {m.name.split(".")[0]: json.load(tar.extractfile(m)).get("duplicate")
                       for m in tar if "." not in m.name.removesuffix(".json")}
    assert {key: fact for key, fact in packed.items() if fact} == recorded and set(packed) == set(decisions), packed
    kinora("run", file, "--out", out, "--only", "shards")


def check_shards(out, kept):
    packed = set()
    for shard in (out / "shards").glob("*.tar"):
        with tarfile.open(shard) as tar:
            packed |= {name.split(".")[0] for name in tar.getnames()}
    assert packed == kept, packed ^ kept
    assert json.loads((out / "shards/summary.json").read_text())["filtered"] == len(
        list((out / "clips/data").glob("*.mp4"))) - len(kept)


def check_rejected(out, edits, found):
    """Clips that users rejected are left out like copies, with a message, and marked if requested."""
    edits.write_text("".join(json.dumps({"key": key, "set": {"keep": False}}) + "\n"
                             for key in ("bbb_D-0000", "bbb_A-same-0000")))
    ask = lambda *more: subprocess.run([KINORA, "search", str(out), "--like", "bbb_B-0000", "--top", "50", *more],
                                       capture_output=True, text=True, check=True)
    shown = lambda *more: [json.loads(line) for line in ask("--json", *more).stdout.splitlines()]
    copies = {"bbb_B-again-0000", "bbb_C-small-0000", "city_cc0-later-0000", "cockatoo-moved-0000"}
    rejected = {"bbb_D-0000", "bbb_A-same-0000"}
    marked = lambda lines, mark: {line["key"] for line in lines if line.get(mark) is True}
    assert [line["key"] for line in shown()] == [key for key in found if key not in copies | rejected]
    assert ask("--json").stderr == "left out: 4 copies, 2 rejected clips; show with --copies --rejected\n", ask(
        "--json").stderr
    for more, wanted in ((["--copies"], copies), (["--rejected"], rejected),
                         (["--copies", "--rejected"], copies | rejected)):
        lines = shown(*more)
        assert [line["key"]
                for line in lines] == [key for key in found if key not in (copies | rejected) - wanted], (more, lines)
        assert marked(lines, "rejected") == rejected & wanted and marked(lines, "copy") == copies & wanted, (
            more, lines)
    assert ask("--copies", "--rejected").stderr == ""
    table = ask("--copies", "--rejected").stdout.splitlines()
    assert all((" rejected " in line) == any(f" {key} " in line for key in rejected) for line in table), table
    edits.unlink()
    assert "quote the text: \"a boat\"" in kinora("search", out, "a", "boat", fails=True)
    only = SCRATCH / "only/clips/data"
    only.mkdir(parents=True)
    for name in ("bbb_B-0000.classic.npy", "bbb_B-0000.json"):
        shutil.copy(out / "clips/data" / name, only)
    said = subprocess.run([KINORA, "search", str(only.parent.parent), "--like", "bbb_B-0000"], capture_output=True,
                          text=True, check=True)
    assert said.stdout == "" and "is the only clip with an embedding 'classic'" in said.stderr, said


def check_like(out):
    """By a key: all others, ordered by their products; by a file: its own clip first."""
    found = [json.loads(line)
             for line in kinora("search", out, "--like", "bbb_B-0000", "--top", 50, "--copies", "--json").splitlines()]
    files = pictures(out)
    query = files.pop("bbb_B-0000")
    want = nearest(files, query)
    assert [f["key"] for f in found] == [k for _, k in want], (found, want)
    assert all(abs(f["score"] - s) < 1e-6 for f, (s, _) in zip(found, want))
    assert found[0]["key"] == "bbb_B-again-0000" and pathlib.Path(found[0]["path"]).name == "bbb_B-again-0000.mp4"
    assert found[0]["caption"] == (out / "clips/data/bbb_B-again-0000.txt").read_text()
    by_video = kinora("search", out, "--like", "bbb_B-0000", "--top", 50, "--copies", "--where",
                     "film contains 'bbb' and duration_s > 0", "--json").splitlines()
    assert [json.loads(line)["key"] for line in by_video] == [f["key"] for f in found if f["key"].startswith("bbb")]
    assert "no clip has the fact 'flim', did you mean 'film'?" in kinora(
        "search", out, "--like", "bbb_B-0000", "--where", "flim == 'x'", fails=True)
    assert "where: column 6" in kinora("search", out, "--like", "bbb_B-0000", "--where", "film = 'x'", fails=True)
    copies = {d["key"] for d in lines(out / "copies/decisions.jsonl") if "of" in d and d["end"] == "filtered"}
    assert len(copies) == 5
    for where in (out, out / "clips"):
        shown = [json.loads(line)["key"]
                 for line in kinora("search", where, "--like", "bbb_B-0000", "--top", 50, "--json").splitlines()]
        assert shown == [f["key"] for f in found if f["key"] not in copies], (shown, copies)
        of_copy = [json.loads(line)["key"]
                   for line in kinora("search", where, "--like", "bbb_B-again-0000", "--top", 50,
                                      "--json").splitlines()]
        assert of_copy[0] == "bbb_B-0000" and len(of_copy) == len(shown) + 1, "a copy may be the query"
    edits = out / "clips/edits.jsonl"
    edits.write_text(json.dumps({"key": "bbb_B-again-0000", "set": {"keep": True}}) + "\n")
    assert json.loads(kinora("search", out, "--like", "bbb_B-0000", "--top", 1,
                             "--json"))["key"] == "bbb_B-again-0000", "a user accepted it"
    edits.unlink()
    check_other_footage(out)
    check_rejected(out, edits, [f["key"] for f in found])
    by_file = [json.loads(line) for line in kinora("search", out, "--like", DATA / "bbb_D.mp4", "--json").splitlines()]
    # another frame rate: motion differs
    assert by_file[0]["key"] == "bbb_D-0000" and by_file[0]["score"] > 0.9 > by_file[1]["score"] + 0.02, by_file
    table = kinora("search", out / "clips", "--like", "bbb_B-0000", "--top", 2, "--copies").splitlines()
    assert len(table) == 2 and "bbb_B-again-0000" in table[0], table
    check_refused_searches(out)


def check_other_footage(out):
    """A decision about other footage with the same key must not apply."""
    facts = out / "clips/data/bbb_B-again-0000.json"
    whole = facts.read_text()
    facts.write_text(json.dumps(json.loads(whole) | {"sha256": "0" * 64}))
    done = subprocess.run([KINORA, "search", out, "--like", "bbb_B-0000", "--top", "1", "--json"], capture_output=True,
                          text=True, check=True)
    assert json.loads(done.stdout)["key"] == "bbb_B-again-0000", done
    assert done.stderr.count(
        "copies: 1 copy is not left out: dedup has not run since the clips changed; run it again") == 1, done.stderr
    facts.write_text(whole)


def check_refused_searches(out):
    """Questions without an answer, and embeddings that must be named."""
    assert "neither a key" in kinora("search", out, "--like", "nothing", fails=True)
    assert "there is: classic" in kinora("search", out, "--like", "bbb_B-0000", "--embedding", "clip", fails=True)
    assert "no clips" in kinora("search", SCRATCH / "videos/none", "--like", "x", fails=True)
    shutil.copytree(out / "clips", SCRATCH / "alone/clips")
    assert "embed-text" in kinora("search", SCRATCH / "alone/clips", "a bird", fails=True)
    for file in list((SCRATCH / "alone/clips/data").glob("*.classic.npy")):
        shutil.copy(file, str(file).replace(".classic.", ".rag."))
        file.rename(str(file).replace(".classic.", ".mine."))
    assert "name one: --embedding mine (there are: mine, rag)" in kinora(
        "search", SCRATCH / "alone/clips", "--like", "bbb_B-0000", fails=True)
    assert kinora("search", SCRATCH / "alone/clips", "--like", "bbb_B-0000", "--embedding", "rag")
    assert kinora("search", SCRATCH / "alone/clips", "--like", "bbb_B-0000", "--name", "rag"), "the former name"
    for question, words in (([""], "the text is empty"), ([" \t"], "the text is empty"),
                            (["a bird", "--top", "0"], "--top 0: must be 1 or more"),
                            (["a bird", "--top=-3"], "--top -3"), (["--like", ""], "--like is empty")):
        assert words in kinora("search", out, *question, fails=True), question


def check_text(out):
    """The rows match the captions, and a caption finds itself."""
    rows = caption_rows(out)
    assert all(row.shape == (384,) and abs(np.linalg.norm(row) - 1) < 1e-6 for row in rows.values())
    captions = {k: (out / f"clips/data/{k}.txt").read_text() for k in rows}
    for key in ("bbb_D-0000", "cockatoo-0000"):
        found = [json.loads(line)
                 for line in kinora("search", out, captions[key], "--top", 99, "--copies", "--json").splitlines()]
        by_key = {f["key"]: f["score"] for f in found}
        assert abs(by_key[key] - 1) < 1e-5 and found[0]["score"] < 1 + 1e-5, found
        for k, row in rows.items():
            assert abs(by_key[k] - row @ rows[key]) < 1e-5, (k, by_key[k], row @ rows[key])
        assert by_key == dict(sorted(by_key.items(), key=lambda p: -p[1]))
    beside = kinora("search", out / "clips", "a dark video, mostly black", "--json")
    assert beside == kinora("search", out, "a dark video, mostly black",
                            "--json"), "the embed-text job next to a curate job is found"
    by_word = [json.loads(line)
               for line in kinora("search", out, "a dark video, mostly black", "--copies", "--json").splitlines()]
    assert len(by_word) == 10 and all(f["caption"] == captions[f["key"]] for f in by_word)


def check_texts_once(out, file):
    """An edit costs the one text that it changes; a text shared by several clips is embedded once."""
    about, rows = json.loads((out / "captions/text.json").read_text()), np.load(out / "captions/text.npy")
    keys = about["keys"]
    embedded = lambda: json.loads((out / "captions/summary.json").read_text())["embedded"]
    captions = [(out / f"clips/data/{k}.txt").read_text() for k in keys]
    assert embedded() == len(set(captions)), (embedded(), captions)
    assert about["texts"] == [hashlib.sha256(c.encode()).hexdigest() for c in captions]
    edits = out / "clips/edits.jsonl"
    edits.write_text(json.dumps({"key": keys[2], "set": {"caption": "A boat at sea."}}) + "\n")
    kinora("run", file, "--out", out, "--only", "captions")
    now = np.load(out / "captions/text.npy")
    assert embedded() == 1 and (np.delete(now, 2, 0) == np.delete(rows, 2, 0)).all() and not (now[2] == rows[2]).all()
    found = json.loads(kinora("search", out, "A boat at sea.", "--top", 1, "--json"))
    assert found["key"] == keys[2] and abs(found["score"] - 1) < 1e-5, found
    # Rows that do not match text.json, as a kill between the two files leaves them, are not trusted.
    (out / "captions/text.npy").write_bytes((out / "captions/text.npy").read_bytes()[:-4] + b"\0\0\0\0")
    edits.unlink()
    kinora("run", file, "--out", out, "--only", "captions")
    assert embedded() == len(set(captions)) and (np.load(out / "captions/text.npy") == rows).all()


def check_texts_of_kept(out, file):
    """An embed-text job that reads the dedup job embeds the captions of the clips that it keeps."""
    rows, kept = caption_rows(out), {d["key"] for d in lines(out / "copies/decisions.jsonl") if d["end"] == "kept"}
    kinora("run", file, "--out", out, "--only", "captions", "--set", "captions.input=copies")
    fewer = caption_rows(out)
    assert set(fewer) == kept < set(rows) and all((fewer[key] == rows[key]).all() for key in kept)
    assert json.loads((out / "captions/summary.json").read_text())["embedded"] == 0, "their vectors were known"
    kinora("run", file, "--out", out, "--only", "captions")


def check_edits(out, file):
    """A rejected clip is not a reason to remove its copy; after undo, the result is as before. `of` is always a clip
    that stays."""
    before = (out / "copies/decisions.jsonl").read_bytes()
    edits = out / "clips/edits.jsonl"

    def run():
        said = subprocess.run([KINORA, "run", str(file), "--out", str(out)], capture_output=True, text=True,
                              check=True).stderr
        decisions = {d["key"]: d for d in lines(out / "copies/decisions.jsonl")}
        for d in decisions.values():
            assert "of" not in d or decisions[d["of"]]["end"] == "kept", d
        return said, decisions

    rejected = ["bbb_A-0000", "city_cc0-0000"]
    edits.write_text("".join(json.dumps({"key": k, "author": "mia", "set": {"keep": False, "reason": "blurred"}}) + "\n"
                             for k in rejected))
    said, decisions = run()
    assert {k for k, d in decisions.items() if d.get("rule") == "studio.reject"} == set(rejected), decisions
    for copy in ("bbb_A-same-0000", "city_cc0-later-0000"):
        assert decisions[copy]["end"] == "kept" and decisions[copy]["instead_of"] == copy.replace("-same", "").replace(
            "-later", ""), decisions[copy]
    assert (
        "shards: 2 copies of a rejected clip take its place: bbb_A-same-0000 (of bbb_A-0000), city_cc0-later-0000 (of "
        "city_cc0-0000); reject them too" in said), said
    assert (
        "copies: 11 clips have no signature, so the embedding alone decides whether they are copies; to compare their "
        "motion too, put clip.signature into the stages" in said), said
    assert json.loads((out / "shards/summary.json").read_text())["copies_of_rejected"] == 2
    check_shards(out, {k for k, d in decisions.items() if d["end"] == "kept"})
    dropped = {d["key"]: d for d in lines(out / "shards/dropped.jsonl")}
    assert all(dropped[k]["reason"] == "blurred" for k in rejected) and len(dropped) == 5, dropped
    counts = json.loads((out / "copies/summary.json").read_text())
    assert counts["rules"]["studio.reject"] == 2 and counts["clips"] == {"kept": 6, "filtered": 5, "failed": 0}, counts
    # A caption or a reason changes no decision.
    made = (out / "copies/decisions.jsonl").stat().st_mtime_ns
    with edits.open("a") as file_of:
        file_of.write(json.dumps({"key": "bbb_B-0000",
                                  "set": {"caption": "Grass."}}) + "\n"
                      + json.dumps({"key": rejected[0], "set": {"reason": "dark"}}) + "\n")
    run()
    assert (out / "copies/decisions.jsonl").stat().st_mtime_ns == made
    with edits.open("a") as file_of:  # as an undo is stored
        file_of.write("".join(json.dumps({"key": k, "author": "mia", "set": {"keep": None}, "undo": True}) + "\n"
                              for k in rejected))
    run()
    assert (out / "copies/decisions.jsonl").read_bytes() == before, "null does not count as a decision"
    edits.unlink()
    run()
    assert (out / "copies/decisions.jsonl").read_bytes() == before


def check_memory(out, file):
    """The data about all clips fits the job's memory, or the job says what to do."""
    facts = out / "clips/data/bbb_A-0000.json"
    text = facts.read_text()
    facts.write_text(json.dumps({**json.loads(text), "user": "x" * 2_000_000}))
    said = kinora("run", file, "--out", out, "--only", "copies", "--set", "copies.dedup.seed=7", "--set",
                  "copies.memory=1 MiB", fails=True)
    assert "more than memory = 1048576" in said and "give the job more memory or fewer clips" in said, said
    kinora("run", file, "--out", out, "--only", "copies", "--set", "copies.dedup.seed=7", "--set",
           "copies.memory=8 MiB")
    facts.write_text(text)


def check_damaged():
    """Of two clips of the same bytes the one stays whose video is whole, whatever their names."""
    folder = SCRATCH / "damaged/clips"
    items = []
    for film, damage in (("a-broken", {"damaged": "cut off"}), ("good", {})):
        facts = {"film": film, "duration_s": 2.0, "width": 64, "height": 36, "frames": 24, "fps": 12.0}
        items.append({"key": film, "url": f"{film}.mp4", "end": "kept", "consumed": True, "facts": {}, **damage})
        items.append({"key": f"{film}-0000", "parent": film, "end": "kept", "consumed": False, "facts": facts})
    curate_folder(folder, items)
    (folder / "summary.json").write_text('{"status": "done"}')
    for item in items[1::2]:
        stored = folder / "data" / item["key"]
        stored.with_name(f"{item['key']}.json").write_text(json.dumps(item["facts"]))
        stored.with_name(f"{item['key']}.mp4").write_bytes(b"the same bytes")
        np.save(stored.with_name(f"{item['key']}.classic.npy"), np.eye(8, dtype=np.float32)[0])
    file = SCRATCH / "damaged.toml"
    file.write_text('[run]\nname = "damaged"\n[[job]]\nname = "copies"\nkind = "dedup"\n'
                    f'input = "{folder}"\ndedup = {{ use = "dedup.semantic" }}\n')
    kinora("run", file, "--out", SCRATCH / "damaged/out")
    ends = {d["key"]: d["end"] for d in lines(SCRATCH / "damaged/out/copies/decisions.jsonl")}
    assert ends == {"a-broken-0000": "filtered", "good-0000": "kept"}, ends


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    check_damaged()
    make_videos()
    out, file = SCRATCH / "out", SCRATCH / "run.toml"
    text = EMBED_TEXT if MINILM.exists() else ""
    for keep in ("largest", "longest", "first"):
        file.write_text(RUN.format(eps=EPS, keep=keep) + text)
        kinora("run", file, "--out", out)
        kept = check_decisions(out, keep)
        check_shards(out, kept)
        if keep == "largest":
            check_planted(out)
            check_recorded(out, file)
    check_like(out)
    if text:
        check_text(out)
        check_texts_once(out, file)
        check_texts_of_kept(out, file)
    check_edits(out, file)
    check_memory(out, file)
    if not text:
        print(f"{MINILM} is not there: the search by text was left out")


main()
