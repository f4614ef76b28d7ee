#!/usr/bin/env python3
"""engine/local from the command line: graphs of stages, separate processes, progress display, reproducible results.
usage: engine.py KINORA ROOT SCRATCH FAULTY [PART]..."""
import hashlib, json, os, pathlib, random, re, shutil, signal, subprocess, sys, time

KINORA, ROOT, SCRATCH, FAULTY = sys.argv[1], *map(pathlib.Path, sys.argv[2:5])
sys.path.append(str(ROOT / "tests/support"))
import record

VIDEO = ROOT / "tests/data/film.mp4"
CUT = (
    'use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, preset = "ultrafast", max_height = 120')
failures = []


def holds(name, true, said=""):
    print(("ok    " if true else "WRONG ") + name)
    if not true:
        failures.append(name)
        print("   ", said)


def kinora(*arguments, **more):
    return subprocess.run([KINORA, "--plugins", FAULTY, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, **more)


def toml(name, inputs, stages, more=""):
    file = SCRATCH / f"{name}.toml"
    listed = ", ".join(f'"{i}"' for i in inputs)
    file.write_text(
        f'[run]\nname = "{name}"\nout = "{SCRATCH / name}"\n[[job]]\nname = "clips"\nkind = "curate"\nduplicates = '
        f'"keep"\n'
                    f'input = [{listed}]\nstages = [{stages}]\n{more}\n')
    return file


def results(name):
    """Every outcome, ordered by key, and a digest of every kept file."""
    folder = SCRATCH / name / "clips"
    items = sorted((json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()),
                   key=lambda i: json.dumps(i, sort_keys=True))
    return items, {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted((folder / "data").iterdir())}


def small(name, *cut):
    """A copy of a video of 160 x 90 pixels."""
    copy = SCRATCH / "small" / name
    if not copy.exists():
        copy.parent.mkdir(exist_ok=True)
        subprocess.run(["ffmpeg", "-v", "error", "-i", ROOT / "tests/data" / name, *cut, "-vf", "scale=160:90",
                        "-preset", "veryfast", "-movflags", "+faststart", copy], check=True)
    return copy


def short_video():
    """The first shots of the video."""
    return small("film.mp4", "-t", "8")


def damaged_videos(folder, n):
    folder.mkdir()
    rng, whole = random.Random(1), short_video().read_bytes()
    for i in range(n):
        data = bytearray(whole)
        if i % 3 == 0:
            data = data[: 1000 if i == 3 else rng.randrange(len(data))]  # one within its index
        elif i % 3 == 1:
            for _ in range(len(data) // 8000):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        (folder / f"film{i}.mp4").write_bytes(data)
    (folder / "empty.mp4").write_bytes(b"")
    return folder


def graphs():
    here = 'engine = { use = "local", isolate = ["none"] }'
    look = '{ use = "video.probe", name = "look" }, { use = "faulty", how = "none", name = "left", from = ["look"] }'
    for name, rest, expected in (("branch",
                                  '{ use = "faulty", how = "error", when = "film", name = "right", from = "look" }',
                                  [("failed", "right"), ("kept", None)]),
                                 ("join", '{ use = "faulty", how = "error", when = "film", name = "last", from = '
                                          '["left", "right"] }, { use = "faulty", how = "none", name = "right", from = '
                                          '["look"] }',
                                  [("failed", "last"), ("failed", "last")])):
        done = kinora("run", toml(name, [VIDEO], f"{look}, {rest}", here))
        file = SCRATCH / name / "clips/items.jsonl"
        ends = sorted((i["end"], i.get("stage"))
                      for i in map(json.loads, file.read_text().splitlines())) if file.exists() else []
        holds(f"{name}: every path of a graph has its own outcome, named after its stage", ends == expected,
              f"{ends} {done.stderr}")
    for what, stages, word in (("an unknown name",
                                '{ use = "video.probe", name = "look" }, { use = "faulty", from = ["lok"] }',
                                "did you mean 'look'"),
                               ("a circle",
                                '{ use = "video.probe", name = "a", from = ["b"] }, { use = "faulty", name = "b", from '
                                '= ["a"] }', "waits for itself"),
                               ("a name given twice", '{ use = "faulty", name = "a" }, { use = "faulty", name = "a" }',
                                "two stages have the name 'a'"),
                               ("a name that means two",
                                '"faulty", "faulty", { use = "faulty", name = "c", from = ["faulty"] }',
                                "2 stages are called 'faulty'"),
                               ("an unknown stage in isolate",
                                '"faulty", "video.probe"]\n'
                                'engine = { use = "local", isolate = ["auto", "fualty"] }\n#[',
                                "isolate names 'fualty', which is not a stage of this job, did you mean 'faulty'?"),
                               ("a `from` that is not a name", '"faulty", { use = "faulty", from = 3 }',
                                "'from' must be the name of a stage")):
        file = toml("bad", [VIDEO], stages)
        done = kinora("check", file)
        holds(f"check finds {what}",
              done.returncode == 2 and word in done.stderr and re.search(r"bad\.toml:\d+:\d+", done.stderr),
              done.stderr)


def of_the_run():
    """`[run] engine` is the engine of jobs that name none, whose own one replaces it whole; it is no part of a job."""
    stages, engine = '{ use = "faulty", how = "none" }', 'engine = { use = "local", profile = true }\n'
    traces = {}
    for name, head, own in (("plain", "", ""), ("head", engine, ""), ("own", engine, 'engine = { use = "local" }')):
        file = toml(name, [VIDEO], stages, own)
        file.write_text(file.read_text().replace("[run]\n", f"[run]\n{head}"))
        done = kinora("run", file)
        traces[name] = (done.returncode, (SCRATCH / name / "clips/trace.json").exists())
    holds("the run's engine is that of a job without one",
          traces == {"plain": (0, False), "head": (0, True), "own": (0, False)}, traces)
    for sets in (["run.engine.use=local", "run.engine.queue=3"], ['clips.engine={use="local",queue=3}'],
                 ['run.engine={use="ray"}']):
        again = kinora("run", SCRATCH / "plain.toml", "--dry-run", *(a for s in sets for a in ("--set", s)))
        holds(f"a finished job stays finished with {sets}", "clips: already done" in again.stderr, again.stderr)
    for head, at, words in (('"loca"', "2:10", "did you mean 'local'?"), ("3", "2:10", "expected the engine's name"),
                            ('{ queue = 3 }', "2:10", "expected the engine's name, or a table such as { use ="),
                            ('{ use = "local", quue = 3 }', "2:27", "did you mean 'queue'?")):
        file = toml("wrong", [VIDEO], stages)
        file.write_text(file.read_text().replace("[run]\n", f"[run]\nengine = {head}\n"))
        done = kinora("check", file)
        holds(f"check refuses the run's engine {head}", done.returncode == 2 and
              any(f"wrong.toml:{at}:" in line and words in line for line in done.stderr.splitlines()), done.stderr)


def isolation():
    videos = damaged_videos(SCRATCH / "videos", 9)
    stages = f'"video.probe", "shots.content", {{ {CUT} }}'
    for name, isolate in (("apart", "auto"), ("together", "none")):
        done = kinora("run", toml(name, [videos], stages, f'engine = {{ use = "local", isolate = ["{isolate}"] }}'))
        holds(f"damaged videos, isolate {isolate}", done.returncode == 0, done.stderr)
    a, b = results("apart"), results("together")
    holds("damaged videos end the same way in processes and in threads", a[0] == b[0], f"{a[0]}\n{b[0]}")
    holds("their clips have the same bytes", a[1] == b[1] and len(a[1]) > 0, f"{a[1]} {b[1]}")
    summary = json.loads((SCRATCH / "apart/clips/summary.json").read_text())
    holds("every video is counted",
          summary["inputs"] == 10 == summary["kept"] + summary["filtered"] + summary["failed"], summary)


def crashes():
    """A stage whose creation crashes gives an error with its place, in the check and in the run, and takes down only
    its own process."""
    for where in ("constructor", "resources"):
        file = toml("unmade", [VIDEO], f'"video.probe", {{ use = "faulty", where = "{where}", name = "broken" }}')
        for command in ("check", "run"):
            done = kinora(command, file)
            words = (
                "job 'clips': stage 'broken' (stage/faulty): killed by signal 11 (SIGSEGV) while an instance was made, "
                "in its constructor or resources(); fix the plugin")
            holds(f"{command}: a crash in the {where} names the stage and the remedy",
                  done.returncode == 2 and words in done.stderr and re.search(r"unmade\.toml:\d+:\d+", done.stderr),
                  done.stderr)


def killed_while_made():
    """A kill by a system short of memory is not blamed on a line of the file."""
    file = toml("unbegun", [VIDEO], '{ use = "faulty", where = "constructor", how = "kill", name = "broken" }')
    for command in ("check", "run"):
        done = kinora(command, file)
        words = (
            "job 'clips': stage 'broken' (stage/faulty): killed by signal 9 (SIGKILL, perhaps by the system for lack "
            "of memory) while an instance was made; free memory and run again")
        holds(f"{command}: a stage killed while it is created is not the file's fault",
              done.returncode == 1 and words in done.stderr and "unbegun.toml:" not in done.stderr,
              f"{done.returncode} {done.stderr}")
    file = toml("unbegun", [VIDEO], '{ use = "faulty", where = "constructor", how = "error", name = "broken" }')
    done = kinora("check", file)
    holds("check: a failing constructor is reported with its stage",
          done.returncode == 2 and "job 'clips': stage 'broken' (stage/faulty): the model is broken" in done.stderr,
          done.stderr)


def stopped_while_made():
    file = toml("unending", [VIDEO], '{ use = "faulty", where = "constructor", how = "hang" }')
    run = subprocess.Popen([KINORA, "--plugins", FAULTY, "run", file], stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not children(run.pid) and time.monotonic() < until:
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    said = run.communicate(timeout=60)[1]  # the constructor never ends
    holds("Ctrl-C works while a stage is created", run.returncode == 130, f"{run.returncode} {said}")


def twins():
    """Two samples with one key, from one video or from two: the first is kept, every other one fails alone."""
    videos = SCRATCH / "twins-of"
    videos.mkdir()
    for i in range(3):
        shutil.copy(VIDEO, videos / f"f{i}.mp4")
    for isolate in ("auto", "none"):
        done = kinora("run", toml("twins", [videos], '{ use = "faulty", how = "none", clips = 2, called = "same" }',
                                  f'engine = {{ use = "local", isolate = ["{isolate}"] }}'))
        items, files = results("twins")
        said = sorted((i["end"], i.get("reason", "")) for i in items if i["key"] == "same")
        holds(f"isolate {isolate}: each second one names a stage",
              {i.get("stage") for i in items if i["key"] == "same" and i["end"] == "failed"} == {"faulty"}, items)
        second = (
            "stage 'faulty' emitted two samples called 'same', and this is the second; fix the stage: each sample "
            "needs its own key")
        other = (
            "a second sample called 'same' came out of stage 'faulty', and would overwrite the first; rename an input, "
            "or fix the stage that names it")
        holds(f"isolate {isolate}: of six samples with one key one is kept",
              done.returncode == 0
              and said == sorted([("kept", "")] + [("failed", second)] * 3 + [("failed", other)] * 2),
              f"{said} {done.stderr}")
        holds(f"isolate {isolate}: the videos are kept",
              sorted(i["end"] for i in items if i["key"] != "same") == ["kept"] * 3 and "same.txt" in files, f"{items}")
        shutil.rmtree(SCRATCH / "twins", ignore_errors=True)
    # "same.report" with a field txt would have the file name of "same" with a field report.txt, and a reader of shards
    # would confuse them.
    done = kinora("run", toml("dotted", [videos / "f0.mp4"],
                              '{ use = "faulty", how = "none", clips = 1, called = "same.report" }'))
    items, files = results("dotted")
    said = [(i["key"], i.get("status"), "has a dot in its last part" in i.get("reason", ""))
            for i in items if i["end"] == "failed"]
    holds("a sample whose key has a dot fails alone",
          done.returncode == 0 and said == [("same.report", "invalid", True)] and "f0.pid" in files
          and not [f for f in files if f.startswith("same")], f"{items} {list(files)} {done.stderr}")
    # A sample named like its own video, or like another, fails alone too.
    done = kinora("run", toml("named", [videos], '{ use = "faulty", how = "none", clips = 1, called = "f1" }'))
    items = results("named")[0]
    own = second.replace("same", "f1")
    said = sorted(i.get("reason", i["end"]) for i in items if i["key"] == "f1")
    holds("a sample named like a video fails, and the video does not",
          done.returncode == 0 and len(items) == 6
          and said == sorted(["kept", own] + [other.replace("same", "f1")] * 2), f"{said} {done.stderr}")


def late():
    """An error about a video that a stage has already emitted is logged and counted, but does not end the video a
    second time."""
    videos = SCRATCH / "late-of"
    videos.mkdir()
    for i in range(3):
        shutil.copy(VIDEO, videos / f"f{i}.mp4")
    for how, words in (("error", "bad bytes"), ("crash", "killed by signal 11 (SIGSEGV) in late, twice")):
        done = kinora("run", toml("late", [videos],
                                  f'{{ use = "faulty", how = "none" }}, {{ use = "faulty", name = "late", where = '
                                  f'"late", when = "f1", how = "{how}" }}'))
        items = results("late")[0]
        holds(f"{how}: each video has one outcome",
              done.returncode == 0 and [(i["key"], i["end"]) for i in items] == [(f"f{i}", "kept") for i in range(3)],
              f"{items} {done.stderr}")
        holds(f"{how}: the log has the stage, the video and the reason",
              f"warning stage 'late': f1: {words}; " in done.stderr, done.stderr)
        summary = json.loads((SCRATCH / "late/clips/summary.json").read_text())
        holds(f"{how}: summary.json counts it", summary.get("errors_after") == {"late": 1}, summary)
        metrics = (SCRATCH / "late/clips/metrics.prom").read_text()
        holds(f"{how}: metrics.prom counts it",
              'kinora_stage_errors_after_total{job="clips",stage="late"} 1\n' in metrics, metrics)
        shutil.rmtree(SCRATCH / "late")


def without_result():
    """A stage that forgets emit() for its input keeps it with nothing stored: one line counts such inputs."""
    videos = SCRATCH / "without-of"
    videos.mkdir()
    for i in range(3):
        shutil.copy(VIDEO, videos / f"f{i}.mp4")
    for clips, count in ((0, 3), (1, 0)):
        stage = f'{{ use = "faulty", how = "none", keeps = true, clips = {clips}, name = "mine" }}'
        done = kinora("run", toml(f"without-{clips}", [videos], stage))
        line = "warning clips: 3 inputs ended in stage 'mine' without a result: it emitted, dropped and failed nothing"
        summary = json.loads((SCRATCH / f"without-{clips}/clips/summary.json").read_text())
        holds(f"{count} inputs ended without a result",
              done.returncode == 0 and done.stderr.count(line) == (count > 0)
              and summary.get("without_result") == ({"mine": 3} if count else None), f"{summary} {done.stderr}")


def resumed():
    """A copy that had ended before its clip is made again with the clip, and counted once."""
    cut = f'{{ {CUT}, max_length = 2.0, long_shots = "equal" }}'
    file = toml("resumed", [small("bbb_A.mp4")],
                f'"video.probe", {cut}, {{ use = "faulty", how = "none", clips = 1, name = "more" }}')
    done = kinora("run", file)
    first = results("resumed") if done.returncode == 0 else ([], {})
    folder = SCRATCH / "resumed/clips"
    gone = [end["id"] for end in record.outcomes(folder) if end["key"] in ("bbb_A", "bbb_A-0001")]
    record.remove(folder, gone)
    done = kinora("run", file)
    live = json.loads((folder / "live.json").read_text())
    holds("a run interrupted before a clip's end gives the same",
          done.returncode == 0 and len(gone) == 2 and results("resumed")[0] == first[0]
          and list(results("resumed")[1]) == list(first[1]), f"{gone} {done.stderr}")
    holds("and counts each clip once", live["made"] == sum(i["key"] != "bbb_A" for i in first[0]) > 0,
          f"{live} {first[0]}")


def joined():
    """A stage joins two videos into one sample. However far an interrupted run came, the next one gives the results of
    an uninterrupted run."""
    videos = SCRATCH / "joined-of"
    videos.mkdir()
    for i in range(5):
        shutil.copy(VIDEO, videos / f"f{i}.mp4")
    file = toml("joined", [videos], '{ use = "pairs" }', "hash = false")
    folder = SCRATCH / "joined/clips"
    done = kinora("run", file)
    whole = results("joined") if done.returncode == 0 else ([], {})
    pairs = {item["key"]: item.get("parents") for item in whole[0]}
    holds("each pair has both as parents",
          pairs == {"f0": None, "f1": None, "f2": None, "f3": None, "f4": None, "f0-0000": ["f0", "f1"],
                    "f2-0000": ["f2", "f3"]}, f"{pairs} {done.stderr}")
    wrong = []
    for left in range(7):
        ends = record.outcomes(folder)
        record.remove(folder, [end["id"] for end in ends[left:]])
        done = kinora("run", file)
        if done.returncode != 0 or results("joined") != whole:
            wrong.append((left, done.stderr))
    holds("a run interrupted after any outcome ends as an uninterrupted one", not wrong, wrong)


def batches():
    """A stage with batches gets them in this process, and one sample at a time in a process of its own, as a third
    party's stage where nothing is configured."""
    videos = SCRATCH / "batches-of"
    videos.mkdir()
    for i in range(6):
        shutil.copy(short_video(), videos / f"f{i}.mp4")
    for isolate, sizes in (("none", ["2", "2", "4", "4", "4", "4"]), ("auto", ["1"] * 6)):
        name = f"batches-{isolate}"
        done = kinora("run", toml(name, [videos], '{ use = "together" }',
                                  f'hash = false\nengine = {{ use = "local", isolate = ["{isolate}"] }}'))
        found = sorted(f.read_text() for f in (SCRATCH / name / "clips/data").glob("*.together"))
        holds(f"batches with isolate = {isolate}", found == sizes, f"{found} {done.stderr}")


def large():
    """Samples larger than the memory limit pass one at a time, with a line in the log and in summary.json. A process
    returns another sample than it got, so it appears twice."""
    videos = SCRATCH / "large-of"
    videos.mkdir()
    for i in range(3):
        shutil.copy(VIDEO, videos / f"f{i}.mp4")
    done = kinora("run", toml("large", [videos],
                              '{ use = "faulty", how = "none", sets = 6000000, name = "grows" }, { use = "faulty", how '
                              '= "none", milliseconds = 50, name = "slow" }', 'memory = "3 MiB"'))
    memory = json.loads((SCRATCH / "large/clips/summary.json").read_text()).get(
        "memory", {}) if done.returncode == 0 else {}
    warned = re.findall(
        r"warning stage 'grows': a sample that it made 6 MiB larger needs \d+ MiB with the others, "
        r"more than memory = 3 MiB", done.stderr)
    holds("the log names the stage, its need and the bound", len(warned) == 1, done.stderr)
    holds("summary.json has the peak and the bound",
          memory.get("bound") == 3 << 20 and 12000000 < memory.get("peak", 0) < 13000000, memory)
    kept = kinora("run", toml("kept", [videos],
                              '{ use = "faulty", how = "none", sets = 6000000, name = "grows" }, { use = "faulty", how '
                              '= "none", holds = true, name = "keeps" }',
                              'memory = "3 MiB"\nengine = { use = "local", isolate = ["none"] }'))
    memory = json.loads((SCRATCH / "kept/clips/summary.json").read_text()).get(
        "memory", {}) if kept.returncode == 0 else {}
    holds("so is a stage that holds samples, which count apart from the bound",
          kept.stderr.count("warning stage 'keeps' holds") == 1 and memory.get("peak", 0) < 13000000
          and memory.get("beside", 0) >= 12000000, f"{memory} {kept.stderr}")
    holds("a stage without larger samples is not named", "warning stage 'slow'" not in done.stderr, done.stderr)


def noise():
    """A stage draws the same numbers in its own process as in a thread, and others with another seed."""
    drawn = {}
    for isolate, seed in (("none", 1), ("auto", 1), ("auto", 2)):
        name = f"noise-{isolate}-{seed}"
        file = toml(name, [VIDEO], '{ use = "faulty", how = "draw" }',
                    f'engine = {{ use = "local", isolate = ["{isolate}"] }}')
        done = kinora("run", file, "--set", f"run.seed={seed}")
        found = list((SCRATCH / name / "clips/data").glob("*.drawn"))
        drawn[isolate, seed] = [float(n) for n in found[0].read_text().split()] if found else done.stderr
    first, apart, other = drawn.values()
    holds("noise works in threads and processes", len(first) == 3 and len({*first, 0.0}) == 4 and first == apart, drawn)
    holds("another seed gives other noise", len(other) == 3 and other != apart, drawn)
    again = kinora("run", file, "--set", "run.seed=1")
    numbers = [float(n) for n in found[0].read_text().split()]
    holds("a stage that draws runs again with another seed",
          "(run.seed was 2 and is 1)" in again.stderr and numbers == first, f"{again.stderr} {numbers}")


def copies():
    """A stage makes several copies of each clip and names the video: a failed copy is retried, and nothing is lost or
    doubled."""
    cut = f'{{ {CUT}, max_length = 2.0, long_shots = "equal" }}'
    stages = (
        f'"video.probe", {cut}, {{ use = "faulty", how = "none", clips = 1, name = "more" }}, {{ use = "faulty", how = '
        f'"error", when = "-0001-0", name = "late" }}')
    file = toml("copies", [small("bbb_A.mp4"), small("bbb_B.mp4")], stages)
    done = kinora("run", file)
    first, stored = results("copies") if done.returncode == 0 else ([], {})
    holds("a copy of a clip failed in each video",
          [i["key"] for i in first if i["end"] == "failed"] == ["bbb_A-0001-0", "bbb_B-0001-0"] and len(first) == 14,
          f"{first} {done.stderr}")
    done = kinora("run", file, "--retry-failed")
    items, files = results("copies")
    holds("they are retried",
          done.returncode == 0 and "2 earlier failures are retried" in done.stderr
          and done.stderr.count("-0001-0: failed in late") == 2, done.stderr)
    holds("and every sample exists once, with its files", items == first and list(files) == list(stored),
          f"{items} {list(files)}")


def anew():
    """A stage that keeps state over all samples gives the bytes of an uninterrupted run, whatever was done before the
    interruption: such a job starts from scratch."""
    videos = SCRATCH / "anew-of"
    videos.mkdir()
    for i in range(3):
        shutil.copy(VIDEO, videos / f"f{i}.mp4")
    counts = lambda name: {f.name: f.read_text() for f in (SCRATCH / name / "clips/data").glob("*.count")}
    said = "stage 'faulty' keeps state over all samples (ordered = 1), so the job reruns from scratch"
    for isolate in ("none", "all"):
        def run(name, ordered=1):
            return kinora("run", toml(name, [videos],
                                      f'{{ use = "faulty", how = "none", counts = true, ordered = {ordered} }}',
                                      f'engine = {{ use = "local", isolate = ["{isolate}"] }}'))
        done = run("anew")
        holds(f"isolate {isolate}: one instance sees all samples in order",
              counts("anew") == {"f0.count": "1", "f1.count": "2", "f2.count": "3"} and said not in done.stderr,
              f"{counts('anew')} {done.stderr}")
        cut_record("anew")
        done = run("anew")
        holds(f"isolate {isolate}: a killed run starts from scratch, and logs it",
              done.returncode == 0 and done.stderr.count(said) == 1 and "resuming" not in done.stderr, done.stderr)
        holds(f"isolate {isolate}: and gives the same result",
              counts("anew") == {"f0.count": "1", "f1.count": "2", "f2.count": "3"}, counts("anew"))
        shutil.copy(VIDEO, videos / "a.mp4")
        done = run("anew")
        holds(f"isolate {isolate}: with a video added",
              done.stderr.count(said) == 1
              and counts("anew") == {"a.count": "1", "f0.count": "2", "f1.count": "3", "f2.count": "4"},
              f"{counts('anew')} {done.stderr}")
        (videos / "a.mp4").unlink()
        (videos / "f0.mp4").unlink()
        done = run("anew")
        holds(f"isolate {isolate}: with videos removed",
              done.stderr.count(said) == 1 and counts("anew") == {"f1.count": "1", "f2.count": "2"},
              f"{counts('anew')} {done.stderr}")
        shutil.copy(VIDEO, videos / "f0.mp4")
        run("held", 2)
        cut_record("held")
        done = run("held", 2)
        holds(f"isolate {isolate}: a stage that keeps only pending samples resumes",
              "resuming: 1 of 3 inputs have ended" in done.stderr and said not in done.stderr, done.stderr)
        for name in ("anew", "held"):
            shutil.rmtree(SCRATCH / name)


def cut_record(name):
    """Leaves the record as a run has it that was killed after its first video had ended."""
    folder = SCRATCH / name / "clips"
    ends = record.outcomes(folder)
    first = next(end for end in ends if not end["made"])
    record.remove(folder, [end["id"] for end in ends if end["input"] != first["input"]])


def children(pid):
    out = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            out.append(int(stat.parent.name))
    return out


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def orphans():
    ids = SCRATCH / "started"
    file = toml("killed", [VIDEO], f'{{ use = "faulty", how = "hang", when = "film", starts = "{ids}" }}')
    run = subprocess.Popen([KINORA, "--plugins", FAULTY, "run", file], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    workers = []
    for _ in range(600):
        time.sleep(0.1)
        workers = children(run.pid)
        if workers and (SCRATCH / "killed/clips/live.json").exists() and ids.exists() and ids.read_text().count(
            "\n") == 2:
            break
    workers += [int(i) for i in ids.read_text().split()]
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    left = workers
    for _ in range(600):
        time.sleep(0.1)
        left = [w for w in left if is_alive(w)]
        if not left:
            break
    holds("neither a worker nor its children outlive a killed run", len(workers) >= 3 and not left, f"{workers} {left}")


def shown():
    videos = SCRATCH / "many"
    videos.mkdir()
    for i in range(6):
        shutil.copy(short_video(), videos / f"f{i}.mp4")
    file = toml("shown", [videos],
                '"video.probe", { use = "faulty", how = "none", milliseconds = 1200 }, "shots.content"')
    run = subprocess.Popen([KINORA, "--plugins", FAULTY, "run", file, "--profile"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
    folder, seen = SCRATCH / "shown/clips", []
    while run.poll() is None:
        time.sleep(0.05)
        if (folder / "live.json").exists():
            seen.append(json.loads((folder / "live.json").read_text()))  # whole at every moment
    holds("a run with --profile", run.returncode == 0, run.stderr.read())
    bound = [s["bound"] for s in seen]
    holds("live.json names the slow stage as the bottleneck", "faulty" in bound, bound)
    last = seen[-1] if seen else {}
    holds("live.json ends with all inputs", json.loads((folder / "live.json").read_text())["done"] == 6, last)
    metrics = (folder / "metrics.prom").read_text()
    line = re.compile(r'^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+\{job="clips"(,stage="[a-z.]+")?\} [0-9.e+-]+)$')
    holds("metrics.prom is Prometheus' text", all(line.match(text) for text in metrics.splitlines()), metrics)
    holds("metrics.prom counts the samples of a stage",
          'kinora_stage_samples_in_total{job="clips",stage="faulty"} 6\n' in metrics, metrics)
    trace = json.loads((folder / "trace.json").read_text())["traceEvents"]
    spans = [e for e in trace if e["ph"] == "X"]
    holds("the trace has one span per stage and video",
          sorted((e["cat"], e["name"])
                 for e in spans) == sorted((s, f"f{i}") for s in ("video.probe", "faulty", "shots.content")
                                           for i in range(6)), spans)
    holds("its spans are as long as the work", all(e["dur"] > 1.1e6 for e in spans if e["cat"] == "faulty"), spans)
    by_lane = {}
    for e in spans:
        by_lane.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    holds("a worker does one thing at a time",
          all(a[1] <= b[0] for lane in by_lane.values() for a, b in zip(sorted(lane), sorted(lane)[1:])), by_lane)


def ten_runs():
    """With any number of threads, in processes and in threads."""
    first = None
    for i in range(10):
        shutil.rmtree(SCRATCH / "same", ignore_errors=True)
        file = toml("same", [short_video()], f'"video.probe", "shots.content", {{ {CUT} }}',
                    f'engine = {{ use = "local", isolate = ["{"none" if i % 2 else "auto"}"] }}')
        done = kinora("run", file, "--set", f"clips.threads={1 + i // 2 % 4}")
        if done.returncode != 0:
            return holds("ten runs", False, done.stderr)
        first = first or results("same")
        if results("same") != first:
            return holds("ten runs give the same", False, f"run {i}")
    holds("ten runs give the same", len(first[1]) > 0)


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
for part in (graphs, of_the_run, isolation, crashes, killed_while_made, stopped_while_made, twins, late,
             without_result, resumed, joined, batches, large, noise, copies, anew, orphans, shown, ten_runs):
    if part.__name__ in (sys.argv[5:] or part.__name__):
        part()
print(f"{len(failures)} failed")
sys.exit(bool(failures))
