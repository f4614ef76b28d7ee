#!/usr/bin/env python3
"""Bad input gives one line with the cause and what to do, a documented exit code, and no partial files.
usage: bad_input.py KINORA ROOT SCRATCH"""
import json, os, pathlib, shutil, subprocess, sys, tarfile

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.insert(0, str(ROOT / "tests/support"))
from skips import skip

VIDEO = ROOT / "tests/data/film.mp4"
failures = []


def kinora(*arguments, **environment):
    return subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **environment}, timeout=120)


def check(name, done, code, *words):
    text = done.stderr + done.stdout
    wrong = [f"exit {done.returncode}, expected {code}"] if done.returncode != code else []
    wrong += [f"no '{w}'" for w in words if w not in text]
    wrong += [f"'{w}' in it" for w in ("terminate called", "Traceback", "std::", "Segmentation") if w in text]
    print(("ok    " if not wrong else "WRONG ") + name)
    if wrong:
        failures.append(name)
        print("   ", "; ".join(wrong), "\n   ", text.strip().replace("\n", "\n    "))


def toml(name, jobs, head=""):
    file = SCRATCH / f"{name}.toml"
    file.write_text(f'[run]\nname = "{name}"\nout = "{SCRATCH / name}"\n{head}\n{jobs}')
    return file


def curate(
    paths, stages='"video.probe", "shots.content", { use = "clip.transcode", min_length = 0.5, min_frames = 1, '
                  'edge_crop = 0.0 }, "caption.describe"', more=""):
    listed = ", ".join(f'"{p}"' for p in paths)
    return f'[[job]]\nname = "clips"\nkind = "curate"\ninput = [{listed}]\nstages = [{stages}]\n{more}\n'


def holds(name, true, said=""):
    print(("ok    " if true else "WRONG ") + name)
    if not true:
        failures.append(name)
        print("   ", said)


def frames(video):
    """Number of frames that ffprobe decodes; -1 if it complains about any."""
    done = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v:0", "-count_frames", "-show_entries",
                           "stream=nb_read_frames",
                           "-of", "csv=p=0", str(video)], capture_output=True, text=True, timeout=120)
    return int(done.stdout.strip().rstrip(",") or -1) if done.returncode == 0 and not done.stderr else -1


def broken(folder):
    """Incomplete files under their final names, and leftover temporary files."""
    def whole(path):
        if path.name.endswith(".failed"):  # the note with the reason of a failed job
            return "message" in json.loads(path.read_text())
        if path.name.startswith(".") or path.suffix in (".tmp", ".part",
                                                        ".partial") or ".tmp" in path.name or (
                                                            path.stat().st_size == 0 and path.suffix != ".jsonl"):
            return False
        if path.suffix == ".mp4":
            return frames(path) > 0
        if path.suffix == ".tar":
            with tarfile.open(path) as tar:
                return all(len(tar.extractfile(m).read()) == m.size
                           for m in tar) and path.read_bytes()[-1024:] == bytes(1024)
        if path.suffix == ".json":
            return json.loads(path.read_text()) is not None
        if path.suffix == ".jsonl":
            return all(json.loads(line) for line in path.read_text().splitlines())
        return True

    found = []
    for path in sorted(p for p in folder.rglob("*")
                       if p.is_file() and p.parent.name != ".nv-meta"
                       and not p.name.startswith((".lock", ".lease-", ".weights.json"))):
        try:
            found += [] if whole(path) else [path]
        except (ValueError, OSError, tarfile.TarError, EOFError):
            found.append(path)
    return found


def outcomes(folder):
    """summary.json and the items by key, videos and clips."""
    summary = json.loads((folder / "summary.json").read_text())
    items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    return summary, [i for i in items if "parent" not in i], [i for i in items if "parent" in i]


def configuration():
    check("missing run file", kinora("run", SCRATCH / "none.toml"), 2, "none.toml", "no such file")
    check("syntax error", kinora("check", toml("syntax", "[[job]\n")), 2, "syntax.toml:5:")
    check("unknown key", kinora("check", toml("key", curate([VIDEO]), "sede = 1")), 2, "key.toml:4:1",
          "unknown key 'sede'", "did you mean 'seed'?")
    check("unknown kind", kinora("check", toml("kind", '[[job]]\nkind = "curat"\n')), 2, "kind.toml:6:8",
          "did you mean 'curate'?")
    two = (
        '[[job]]\nname = "copies"\nkind = "dedu"\ninput = "clips"\n[[job]]\nname = "shards"\nkind = "shard"\ninput = '
        '"copiess"\n')
    check("an input's typo next to a kind's", kinora("check", toml("two", two)), 2, "did you mean 'dedup'?",
          "no earlier job is called 'copiess', did you mean 'copies'?")
    later = (
        '[[job]]\nname = "copies"\nkind = "dedup"\ninput = "clips"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = '
        '"none.mp4"\nstages = ["video.probe"]\n')
    check("an input that comes later", kinora("check", toml("later", later)), 2, "later.toml:8:9",
          "job 'clips' comes later; move it above job 'copies'")
    check("unknown component", kinora("check", toml("component", curate([VIDEO], '"shots.contnt"'))), 2,
          "component.toml:9:11", "did you mean", "shots.content")
    check("unknown option", kinora("check", toml("option", curate([VIDEO], '{ use = "shots.content", treshold = 3 }'))),
          2, ":9:36", "did you mean 'threshold'?")
    check("wrong type", kinora("check", toml("type", curate([VIDEO], '{ use = "shots.content", threshold = "high" }'))),
          2, "threshold", "float")
    check("out of range", kinora("check", toml("range", curate([VIDEO], '{ use = "shots.content", threshold = 300 }'))),
          2, "threshold", "255")
    check("missing input", kinora("check", toml("input", curate([SCRATCH / "none.mp4"]))), 2, "none.mp4",
          "no such file")
    both = toml("both", curate([SCRATCH / "none.mp4"], '{ use = "shots.content", threshold = 300 }', "memry = 3"))
    check("all errors at once", kinora("check", both), 2, "none.mp4", "255", "did you mean 'memory'?", "3 errors")
    check("--set of nothing", kinora("check", toml("set", curate([VIDEO])), "--set", "clip.memory=1"), 2, "clip.memory")
    check("unknown command", kinora("rum"), 2, "did you mean 'run'?")
    check("a folder as run file", kinora("run", SCRATCH), 2, f"{SCRATCH}: this is a folder")
    check("a folder as video", kinora("apply", "stage/shots.content", SCRATCH), 2, f"'{SCRATCH}' is a folder",
          "a curate job takes folders")
    check("an engine applied", kinora("apply", "engine/local", "--inputs", VIDEO), 2, "kind 'engine'", "samplers")
    check("one job", kinora("check", toml("one", curate([VIDEO]))), 0, ": 1 job, no errors")


def nothing_to_do():
    SCRATCH.joinpath("no videos").mkdir()
    check("an empty folder", kinora("run", toml("nothing", curate([SCRATCH / "no videos"]))), 2, "there is no file in",
          "no videos")
    all_short = curate([ROOT / "tests/data/bbb_A.mp4"], '{ use = "clip.transcode", min_length = 60.0 }')
    check("everything filtered", kinora("run", toml("filtered", all_short)), 0, "nothing was kept")


def media():
    SCRATCH.joinpath("empty.mp4").write_bytes(b"")
    SCRATCH.joinpath("text.mp4").write_text("this is not a video\n" * 100)
    SCRATCH.joinpath("cut.mp4").write_bytes(VIDEO.read_bytes()[:200_000])
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "sine=duration=1", str(SCRATCH / "sound.mp4")],
                   check=True)
    for name, words in (("empty", ["empty.mp4", "empty"]), ("text", ["text.mp4"]),
                        ("sound", ["sound.mp4", "no video stream"]), ("none", ["none.mp4"])):
        check(f"{name} video", kinora("apply", "stage/shots.content", SCRATCH / f"{name}.mp4", "--json"), 1, *words)
    mixed = toml("mixed",
                 curate([SCRATCH / "empty.mp4", SCRATCH / "text.mp4", SCRATCH / "sound.mp4",
                         ROOT / "tests/data/bbb_A.mp4"]))
    check("other inputs continue", kinora("run", mixed), 0, "results are in")
    summary, _, _ = outcomes(SCRATCH / "mixed/clips")
    holds("counts", (summary["inputs"], summary["kept"], summary["failed"]) == (4, 1, 3), summary)
    only_bad = toml("bad", curate([SCRATCH / "empty.mp4"]))
    check("nothing usable", kinora("run", only_bad), 1, "items.jsonl")


def damaged():
    """A truncated and a corrupt video: reported by apply, counted as failed with the reason; exactly their intact clips
    are kept."""
    rotten = bytearray(VIDEO.read_bytes())
    for at in range(150_000, 150_400):
        rotten[at] ^= 0x5A
    SCRATCH.joinpath("rotten.mp4").write_bytes(rotten)
    for stage in ("shots.content", "video.probe", "caption.describe"):
        done = kinora("apply", f"stage/{stage}", SCRATCH / "cut.mp4", "--json")
        check(f"{stage} of a truncated video", done, 1, "cut.mp4", "cut off", "fetch it again")
        holds(f"{stage} says so in its JSON", '"damaged":"cut.mp4: ' in done.stdout and json.loads(done.stdout),
              done.stdout)
        holds(f"{stage} says so in one line", len(done.stderr.strip().splitlines()) == 1, done.stderr)
    clips = SCRATCH / "cut-clips"
    check("clips of a corrupt video",
          kinora("apply", "stage/clip.transcode", SCRATCH / "rotten.mp4", "--set", "min_length=0.5", "--set",
                 "min_frames=1", "--set", "edge_crop=0", "--set", "long_shots=equal", "--set", "max_length=8", "--set",
                 "audio=false",
                                           "--out", clips), 1, "rotten.mp4", "incomplete pictures")
    kept = sorted(p.name for p in clips.glob("*.mp4"))
    holds("the whole ones are there", kept == [f"rotten-000{n}.mp4" for n in range(1, 5)] and not broken(clips), kept)
    videos = [SCRATCH / "cut.mp4", SCRATCH / "rotten.mp4", ROOT / "tests/data/bbb_A.mp4"]
    run = toml("damaged",
               curate(videos)
               + '[[job]]\nname = "pack"\nkind = "shard"\ninput = "clips"\n[[job]]\nname = "page"\nkind = "report"\n')
    check("damaged videos fail alone", kinora("run", run), 0)
    summary, videos, clips = outcomes(SCRATCH / "damaged/clips")
    ends = {f["key"]: f["end"] for f in videos}
    holds("damaged videos have failed", ends == {"cut": "failed", "rotten": "failed", "bbb_A": "kept"}, ends)
    holds("with their reasons",
          all("cut off" in f["reason"] if f["key"] == "cut" else "incomplete" in f["reason"]
              for f in videos if f["end"] == "failed"), videos)
    holds("and are counted",
          [summary[k] for k in ("inputs", "kept", "filtered", "failed", "damaged")] == [3, 1, 0, 2, 2], summary)
    failed = {c["key"]: c["reason"] for c in clips if c["end"] == "failed"}
    holds("damaged clips have failed",
          set(failed) == {"cut-0000", "rotten-0000"} and all("is damaged from frame" in r for r in failed.values()),
          failed)
    holds("and are counted too", summary["clips"] == {"kept": 12, "filtered": 0, "failed": 2}, summary)
    page = (SCRATCH / "damaged/report.html").read_text()
    holds("the report shows them",
          all(t in page for t in ("damaged from frame", "incomplete pictures", "cut off", '"damaged":2')))
    left = broken(SCRATCH / "damaged")
    holds("what is there is whole", not left, left)
    stored = {p.stem for p in (SCRATCH / "damaged/clips/data").glob("*.mp4")}
    holds("only whole clips are stored", stored == {c["key"] for c in clips if c["end"] == "kept"}, stored)
    lengths = [c for c in clips
               if c["end"] == "kept" and frames(SCRATCH / f"damaged/clips/data/{c['key']}.mp4") != c["facts"]["frames"]]
    holds("and have the frames they say", not lengths, lengths)
    # Tests the check itself: it finds incomplete files.
    SCRATCH.joinpath("broken").mkdir()
    pack = next((SCRATCH / "damaged/pack").glob("*.tar")).read_bytes()
    for name, content in (("a.mp4", SCRATCH.joinpath("cut.mp4").read_bytes()), ("b.tar", pack[: len(pack) // 2]),
                          ("c.json", b"{"), (".d.txt.tmp", b"x")):
        SCRATCH.joinpath("broken", name).write_bytes(content)
    holds("half-written files are noticed", len(broken(SCRATCH / "broken")) == 4, broken(SCRATCH / "broken"))


def names():
    """Videos named like another video's clips."""
    folder = SCRATCH / "names"
    folder.mkdir()
    for name in ("f", "f-0000", "f-0000-0000"):
        shutil.copy(ROOT / "tests/data/bbb_D.mp4", folder / f"{name}.mp4")
    run = toml("named",
               curate([folder], '{ use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0 }',
                      'duplicates = "keep"'))
    check("videos named like clips", kinora("run", run), 0)
    summary, videos, clips = outcomes(SCRATCH / "named/clips")
    keys = [i["key"] for i in videos + clips]
    holds("have keys of their own",
          len(set(keys)) == 6 and {f["key"] for f in videos} == {"f", "f-0000-film", "f-0000-0000-film"}, keys)
    holds("and are counted as videos", (summary["inputs"], summary["kept"], summary["clips"]["kept"]) == (3, 3, 3),
          summary)
    stored = sorted(p.name for p in (SCRATCH / "named/clips/data").glob("*.mp4"))
    holds("and every clip is stored", len(stored) == 3, stored)


def folders():
    full = SCRATCH / "full"
    full.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(full)],
                      capture_output=True).returncode == 0:
        try:
            done = kinora("run", toml("fulldisk", curate([VIDEO])), "--out", full / "run")
            check("full disk", done, 1, "full")
            left = broken(full / "run")
            holds("nothing half-written on it", not left, left)
        finally:
            subprocess.run(["umount", str(full)], check=True)
    else:
        skip("full disk", "no permission to mount a small file system")
    check("unwritable output folder", kinora("run", toml("ro", curate([VIDEO])), "--out", "/proc/kinora"), 1,
          "/proc/kinora")
    flv = SCRATCH / "damaged.flv"
    flv.write_bytes(b"FLV\x01\x05\0\0\0\x09" + bytes(100))
    goes_on = kinora("apply", "stage/video.remux", flv, "--out", SCRATCH / "remuxed", "--json")
    check("a video that cannot be rewritten continues", goes_on, 0, "")
    holds("and says why", "remux_failed" in goes_on.stdout, goes_on.stdout)
    check("or fails, if it is required",
          kinora("apply", "stage/video.remux", flv, "--out", SCRATCH / "remuxed", "--set", "require=true"), 1,
          "damaged.flv")
    check("weights that are not safetensors", kinora("apply", "model/minilm", "--inputs", VIDEO), 1, "film.mp4")
    nowhere = kinora("--plugins", SCRATCH / "no-plugins", "plugins", "list")
    check("plugin folder that does not exist", nowhere, 0, "no-plugins")


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
configuration()
media()
damaged()
names()
nothing_to_do()
folders()
print(f"{len(failures)} failed")
sys.exit(bool(failures))
