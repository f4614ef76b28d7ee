#!/usr/bin/env python3
"""Videos that are added, removed or unavailable: no loss goes unreported, and a dry run prints what the run will print.
usage: come_and_go.py KINORA ROOT SCRATCH"""
import json, os, pathlib, re, shutil, subprocess, sys

KINORA, ROOT, SCRATCH = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
sys.path.append(str(ROOT / "tests/support"))
import record

DATA = ROOT / "tests/data"
STAGES = (
    '["video.probe", { use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, '
    'preset = "ultrafast", max_height = 120 }]')
SHARDS = '[[job]]\nname = "shards"\nkind = "shard"\ninput = "clips"\n'


def videos(name, **of):
    folder = SCRATCH / f"{name}_videos"
    for video, source in of.items():
        (folder / video).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(DATA / f"{source}.mp4", folder / f"{video}.mp4")
    return folder


def write(name, given, stages=STAGES, more="", jobs=""):
    file = SCRATCH / f"{name}.toml"
    file.write_text(
        f'[run]\nout = "{SCRATCH / name}"\n[[job]]\nname = "clips"\nkind = "curate"\n'
        f'input = {given if given[0] == "[" else json.dumps(given)}\nstages = {stages}\n{more}\n{jobs}')
    return file


def run(name, *options, code=0, cwd=None):
    done = subprocess.run([KINORA, "run", str(SCRATCH / f"{name}.toml"), *options], capture_output=True, text=True,
                          timeout=600, cwd=cwd)
    assert done.returncode == code, (name, options, done.returncode, done.stderr)
    return done.stderr


def said(text, level="(?:info|warning)"):
    return re.findall(rf"(?m)^\S+ {level} clips: (.*)$", text)


def stored(name):
    return sorted(p.name for p in (SCRATCH / name / "clips/data").iterdir())


def items(name):
    return {i["key"]: i for i in map(json.loads, (SCRATCH / name / "clips/items.jsonl").read_text().splitlines())}


def tree(name):
    return {str(p): p.read_bytes()
            for p in (SCRATCH / name).rglob("*") if p.is_file() and not p.name.startswith(".lease-")}


def clips_of(name, videos):
    return len([n for n in stored(name) if n.startswith(tuple(f"{video}-" for video in videos)) and n.endswith(".mp4")])


def many(n, whose):
    return f"{whose} {n} clip{'s are' if n > 1 else ' is'}"


def check_unseen():
    """A link into a missing disk: results of the video are kept, and a video that was never read has failed."""
    folder, real = videos("unseen", a="bbb_A"), SCRATCH / "real"
    real.mkdir()
    shutil.copy2(DATA / "bbb_B.mp4", real / "b.mp4")
    (folder / "b.mp4").symlink_to("../real/b.mp4")
    write("unseen", str(folder), jobs=SHARDS)
    run("unseen")
    whole = stored("unseen")
    assert [n for n in whole if n.startswith("b-0000.")], whole
    real.rename(SCRATCH / "unmounted")
    dry = run("unseen", "--dry-run")
    now = run("unseen")
    for text in (dry, now):
        assert f"1 video is unavailable ({folder}/b.mp4); {many(clips_of('unseen', 'b'), 'its')} kept" in said(
            text, "warning"), text
    assert stored("unseen") == whole and items("unseen")["b"]["end"] == "kept", stored("unseen")
    write("never", str(folder))
    run("never")
    assert items("never")["b"]["end"] == "failed" and "b.mp4" in items("never")["b"]["reason"], items("never")
    (SCRATCH / "unmounted").rename(real)
    back = run("unseen")
    for text in (now, back):
        assert ("resuming: 2 of 2 inputs have ended" in text and "shards: already done" in text
                and "starts from scratch" not in text), text
    assert stored("unseen") == whole
    run("never")
    assert items("never")["b"]["end"] == "kept", "the video is there now"


def check_disks():
    """A mount point without its disk, below a folder, a pattern and as an input: results are kept until they are
    pruned, and an interrupted run resumes."""
    for name, given in (("folder", "{}/"), ("pattern", "{}/**/*.mp4"), ("inputs", '["{0}/", "{0}/disk/"]')):
        folder = videos(f"disk_{name}", **{"a": "bbb_A", "disk/b": "bbb_B", "disk/c": "bbb_C"})
        write(f"disk_{name}", given.format(folder), more="" if name == "inputs" else "recursive = true", jobs=SHARDS)
        run(f"disk_{name}")
        whole = stored(f"disk_{name}")
        clips = clips_of(f"disk_{name}", "bc")
        (folder / "disk").rename(folder.parent / "away")
        (folder / "disk").mkdir()
        kept = (
            f"2 videos are no longer found by the input, {folder}/disk/b.mp4 the first: {many(clips, 'their')} kept; "
            f"prune = [\"{folder}/disk/b.mp4\"] removes the results of that one")
        for options in (["--dry-run"], []):
            text = run(f"disk_{name}", *options)
            assert kept in said(text, "warning") and stored(f"disk_{name}") == whole, text
        assert "shards: already done" in text, text
        failed = [i["reason"] for i in items(f"disk_{name}").values() if i["end"] == "failed"]
        assert len(failed) == (name == "inputs"), failed
        assert all("disk/: contains no files" in reason for reason in failed), failed
        shutil.copy2(DATA / "bbb_D.mp4", folder / "d.mp4")
        text = run(f"disk_{name}")
        assert "resuming: " in text and set(stored(f"disk_{name}")) > set(whole), text
        shutil.rmtree(folder / "disk")
        (folder.parent / "away").rename(folder / "disk")
        text = run(f"disk_{name}")
        assert "no longer found" not in text and "resuming: 4 of 4 inputs have ended" in text, text
        if name == "inputs":
            check_absent(folder)
            continue
        shutil.rmtree(folder / "disk")
        pruned = run(f"disk_{name}", "--set", f'clips.prune=["{folder}/disk"]')
        assert f"2 videos are pruned: {many(clips, 'their')} removed" in said(pruned, "warning"), pruned
        assert not [n for n in stored(f"disk_{name}") if n[0] in "bc"], pruned
    # The run was interrupted there: without the video's own outcome and that of its last clip, as a kill leaves it.
    folder = videos("disk_cut", **{"a": "bbb_A", "disk/b": "city_cc0"})
    write("disk_cut", str(folder),
          STAGES.replace('{ use = "clip', '{ use = "shots.fixed", stride = 1.0 }, { use = "clip'),
          more="recursive = true")
    run("disk_cut")
    whole = {n: (SCRATCH / "disk_cut/clips/data" / n).read_bytes() for n in stored("disk_cut")}
    clips = [end["id"] for end in record.outcomes(SCRATCH / "disk_cut/clips") if end["input"] == "b"]
    assert len(clips) > 3, clips
    record.remove(SCRATCH / "disk_cut/clips", clips[-2:])
    (folder / "disk").rename(folder.parent / "away")
    text = run("disk_cut")
    assert "1 video is no longer found by the input" in text and clips_of("disk_cut", "b") == len(clips) - 2, text
    (folder.parent / "away").rename(folder / "disk")
    text = run("disk_cut")
    assert "resuming: 1 of 2 inputs have ended" in text, text
    assert {n: (SCRATCH / "disk_cut/clips/data" / n).read_bytes() for n in stored("disk_cut")} == whole


def check_absent(folder):
    """A folder that `input` itself names is absent, mount point and all: the run is refused before it starts, nothing
    changes, and it is done when the folder is back."""
    (folder / "disk").rename(folder.parent / "away")
    before = tree("disk_inputs")
    for options in (["--dry-run"], []):
        text = run("disk_inputs", *options, code=2)
        assert f"no such file, folder or earlier job: '{folder}/disk/'" in text, text
    assert tree("disk_inputs") == before and before
    (folder.parent / "away").rename(folder / "disk")
    assert "clips: already done" in run("disk_inputs") and tree("disk_inputs").keys() == before.keys()


def check_listed_folder():
    """A folder of a list that is unavailable now has failed; the results of its videos are kept."""
    folder = videos("listed", **{"a": "bbb_A", "disk/b": "bbb_B"})
    (folder / "list.txt").write_text("a.mp4\ndisk/\n")
    write("listed", str(folder / "list.txt"))
    run("listed")
    whole = stored("listed")
    (folder / "disk").rename(folder / "away")
    for empty in (False, True):  # the mount point may still exist
        if empty:
            (folder / "disk").mkdir()
        text = run("listed")
        assert "1 video is no longer found by the input" in text and stored("listed") == whole, text
        assert [i["key"] for i in items("listed").values() if i["end"] == "failed"] == ["disk"], items("listed")
    (folder / "disk").rmdir()
    (folder / "away").rename(folder / "disk")
    assert "resuming: 2 of 2 inputs have ended" in run("listed") and stored("listed") == whole, "after the failed run"
    assert "disk" not in items("listed"), "the folder is listed again"


def check_gone():
    """A video that was deleted keeps its clips until it is pruned; a changed one is redone: reported before and during
    the run."""
    folder = videos("gone", a="bbb_A", b="bbb_B", c="bbb_C")
    write("gone", str(folder), jobs=SHARDS)
    assert re.search(r"shards: \d+ samples in 1 shard$", run("gone"), re.M)
    clips = {video: clips_of("gone", video) for video in "abc"}
    (folder / "a.mp4").unlink()
    shutil.copy2(DATA / "bbb_D.mp4", folder / "b.mp4")
    prune = ["--set", f'clips.prune=["{folder.name}/a.mp4"]']
    before = tree("gone")
    dry = run("gone", "--dry-run", *prune)
    assert tree("gone") == before, "a dry run changes nothing"
    now = run("gone", *prune)
    expected = ["its inputs have changed; finished work on the remaining inputs is kept",
                f"1 video is pruned: {many(clips['a'], 'its')} removed",
                f"1 video has changed, and is redone: {many(clips['b'], 'its')} removed",
                f"resuming: 1 of 2 inputs have ended, and {clips['c']} clip{'s' if clips['c'] > 1 else ''}"]
    for text in (dry, now):
        assert [s for s in said(text) if s in expected] == expected, said(text)
    assert "would run (" in said(dry)[0] and not any("replace" in s for s in said(dry)), said(dry)
    assert not [n for n in stored("gone") if n.startswith("a")]


def check_foretold():
    """An interrupted job, other options, retried failures: a dry run prints the run's own sentences."""
    folder = videos("foretold", a="bbb_A", b="bbb_B")
    (folder / "broken.mp4").write_bytes((DATA / "bbb_C.mp4").read_bytes()[:3000])
    file = write("foretold", str(folder), jobs=SHARDS)
    run("foretold")
    dry = run("foretold", "--retry-failed", "--dry-run")
    assert said(dry)[0] == "would try again 1 failure" and "1 earlier failure is retried" in said(dry), dry
    assert "already done" not in said(dry) and "shards: would run again if clips then keeps other samples" in dry, dry
    assert any(s.startswith("resuming: 2 of 3 inputs have ended") for s in said(dry)), dry
    now = run("foretold", "--retry-failed")
    assert [s for s in said(now) if s in said(dry)] == said(dry)[1:], (said(dry), said(now))
    (SCRATCH / "foretold/clips/summary.json").unlink()  # as if the run had been killed
    dry, now = run("foretold", "--dry-run"), run("foretold")
    going = [s for s in said(dry) if s.startswith("resuming: 3 of 3 inputs have ended")]
    assert f"it has begun, and {SCRATCH / 'foretold/clips/summary.json'} does not say that it is done" in said(dry), dry
    assert going and going[0] in said(now), (dry, now)
    file.write_text(file.read_text().replace("max_height = 120", "max_height = 90"))
    dry, now = run("foretold", "--dry-run"), run("foretold")
    other = [s for s in said(dry, "warning") if "max_height was 120 and is 90" in s]
    assert other and "its options or inputs differ from those" in other[0] and other[0] in said(now, "warning"), (
        dry, now)
    assert "3 inputs to do, none of them done before" in said(dry), dry
    assert "info shards: its inputs have changed since" in now and "warning shards" not in now, now
    now = run("foretold", "--set", "shards.where=duration_s > 0")
    assert ('info shards: where was "" and is "duration_s > 0"; it runs again' in now
            and "warning shards" not in now), now
    packed = lambda: {f.name: f.read_bytes() for f in (SCRATCH / "foretold/shards").glob("*.tar")}
    before = packed()
    now = run("foretold", "--set", "shards.where=duration_s > 9999", code=1)
    assert ('job \'shards\' failed: where = "duration_s > 9999" leaves none of ' in now and before
            and packed() == before), "a wrong condition costs no shards"


def check_nothing_kept():
    """If something failed and nothing remains, that is an error, and the next run retries the failures; filtered inputs
    are not read again."""
    cut = (
        '["video.probe", { use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, '
        'preset = "ultrafast", max_height = 120, long_shots = "equal", max_length = 2.0 }, '
        '{ use = "filter.facts", fact = "first_frame", at_least = 1.0 }, '
        '{ use = "filter.facts", fact = "none", at_least = 0.0 }]')
    write("nothing", str(DATA / "bbb_A.mp4"), cut, jobs=SHARDS)
    text = run("nothing", code=1)
    assert re.search(
        r"job 'clips' failed: nothing was kept, and \d+ clips? failed; items.jsonl has the reason for each; "
        r"the first is: ", text), text
    assert not (SCRATCH / "nothing/shards").exists(), "a job that reads the empty result must not start"
    failed = [k for k, i in items("nothing").items() if i["end"] == "failed"]
    again = run("nothing", code=1)
    assert f"{len(failed)} earlier failure{'s are' if len(failed) > 1 else ' is'} retried" in said(again), again


def check_places():
    """A relative input is relative to the run file's folder; the working folder is used only if it does not exist
    there, with a warning."""
    there, here = SCRATCH / "there", SCRATCH / "here"
    for folder, source in ((there, "bbb_A"), (here, "bbb_B")):
        (folder / "videos").mkdir(parents=True)
        shutil.copy2(DATA / f"{source}.mp4", folder / f"videos/{source}.mp4")
    (there / "run.toml").write_text(
        f'[[job]]\nname = "clips"\nkind = "curate"\ninput = "videos/"\nstages = ["video.probe"]\n')
    def started(name):
        done = subprocess.run([KINORA, "run", str(there / "run.toml"), "--out", str(SCRATCH / name)],
                              capture_output=True, text=True, timeout=600, cwd=here)
        assert done.returncode == 0, done.stderr
        return done.stderr, [k for k in items(name)]
    text, keys = started("placed_there")
    assert keys == ["bbb_A"] and "taken from the working directory" not in text, (text, keys)
    (there / "videos").rename(there / "away")
    text, keys = started("placed_here")
    assert keys == ["bbb_B"] and text.count(
        f"not found in {there}, the run file's folder; taken from the working directory {here}") == 1, (text, keys)


def check_names():
    """The log tells videos with equal names apart; a pipe does not count as an empty file; a misspelt column is
    reported."""
    folder = videos("names", **{"x/scene": "bbb_A", "y/scene": "bbb_B"})
    (folder / "y/scene.mp4").write_bytes((DATA / "bbb_B.mp4").read_bytes()[:3000])
    os.mkfifo(folder / "pipe.mp4")
    (folder / "list.csv").write_text("path,captions\nx/scene.mp4,A boat.\n")
    write("names", json.dumps([str(folder), str(folder / "list.csv")]), more="recursive = true")
    text = run("names")
    assert re.search(r"scene-2 \(y/scene.mp4\): failed in video.probe: ", text), text
    assert "pipe.mp4: not a regular file but a pipe; give the path of a file" in text, text
    assert text.count("column 'captions' is kept as a column of your own; if you mean 'caption', rename it") == 1, text


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
for test in (check_unseen, check_disks, check_listed_folder, check_gone, check_foretold, check_nothing_kept,
             check_places, check_names):
    test()
    print("ok   ", test.__name__, flush=True)
