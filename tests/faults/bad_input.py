#!/usr/bin/env python3
"""What bad input gets: one line that names the thing and what to do, a documented exit code, nothing half-written.
usage: bad_input.py KINORA ROOT SCRATCH"""
import os, pathlib, shutil, subprocess, sys

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
FILM = ROOT / "tests/data/film.mp4"
failures = []


def kinora(*arguments, **environment):
    return subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)


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


def curate(paths, stages='"video.probe", "shots.content", "clip.transcode", "caption.describe"', more=""):
    listed = ", ".join(f'"{p}"' for p in paths)
    return f'[[job]]\nname = "clips"\nkind = "curate"\ninput = [{listed}]\nstages = [{stages}]\n{more}\n'


def configuration():
    check("missing run file", kinora("run", SCRATCH / "none.toml"), 2, "none.toml", "no such file")
    check("syntax error", kinora("check", toml("syntax", "[[job]\n")), 2, "syntax.toml:5:")
    check("unknown key", kinora("check", toml("key", curate([FILM]), "sede = 1")), 2, "key.toml:4:1", "unknown key 'sede'", "did you mean 'seed'?")
    check("unknown kind", kinora("check", toml("kind", '[[job]]\nkind = "curat"\n')), 2, "kind.toml:6:8", "did you mean 'curate'?")
    check("unknown component", kinora("check", toml("component", curate([FILM], '"shots.contnt"'))), 2, "component.toml:9:11", "did you mean", "shots.content")
    check("unknown option", kinora("check", toml("option", curate([FILM], '{ use = "shots.content", treshold = 3 }'))), 2, ":9:36", "did you mean 'threshold'?")
    check("wrong type", kinora("check", toml("type", curate([FILM], '{ use = "shots.content", threshold = "high" }'))), 2, "threshold", "float")
    check("out of range", kinora("check", toml("range", curate([FILM], '{ use = "shots.content", threshold = 300 }'))), 2, "threshold", "255")
    check("missing input", kinora("check", toml("input", curate([SCRATCH / "none.mp4"]))), 2, "none.mp4", "no such file")
    both = toml("both", curate([SCRATCH / "none.mp4"], '{ use = "shots.content", threshold = 300 }', "memry = 3"))
    check("all errors at once", kinora("check", both), 2, "none.mp4", "255", "did you mean 'memory'?", "3 errors")
    check("--set of nothing", kinora("check", toml("set", curate([FILM])), "--set", "clip.memory=1"), 2, "clip.memory")
    check("unknown command", kinora("rum"), 2, "did you mean 'run'?")


def media():
    SCRATCH.joinpath("empty.mp4").write_bytes(b"")
    SCRATCH.joinpath("text.mp4").write_text("this is not a film\n" * 100)
    SCRATCH.joinpath("cut.mp4").write_bytes(FILM.read_bytes()[:200_000])
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "sine=duration=1", str(SCRATCH / "sound.mp4")], check=True)
    for name, words in (("empty", ["empty.mp4", "empty"]), ("text", ["text.mp4"]), ("sound", ["sound.mp4", "no video stream"]), ("none", ["none.mp4"])):
        check(f"{name} film", kinora("apply", "stage/shots.content", SCRATCH / f"{name}.mp4", "--json"), 1, *words)
    mixed = toml("mixed", curate([SCRATCH / "empty.mp4", SCRATCH / "text.mp4", SCRATCH / "sound.mp4", ROOT / "tests/data/bbb_A.mp4"]))
    check("others go on", kinora("run", mixed), 0, "results are in")
    import json
    summary = json.loads((SCRATCH / "mixed/clips/summary.json").read_text())
    if (summary["inputs"], summary["kept"], summary["failed"]) != (4, 1, 3):
        failures.append("counts")
        print("WRONG counts", summary)
    only_bad = toml("bad", curate([SCRATCH / "empty.mp4"]))
    check("nothing usable", kinora("run", only_bad), 1, "items.jsonl")


def folders():
    full = SCRATCH / "full"
    full.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(full)], capture_output=True).returncode == 0:
        try:
            done = kinora("run", toml("fulldisk", curate([FILM])), "--out", full / "run")
            check("full disk", done, 1, "full")
            left = [p for p in full.rglob("*.mp4") if p.stat().st_size == 0]
            if left:
                failures.append(f"half-written {left}")
        finally:
            subprocess.run(["umount", str(full)], check=True)
    else:
        print("skip  full disk: no permission to mount a small file system")
    check("unwritable output folder", kinora("run", toml("ro", curate([FILM])), "--out", "/proc/kinora"), 1, "/proc/kinora")
    check("weights that are not safetensors", kinora("apply", "model/minilm", "--inputs", FILM), 1, "film.mp4")
    nowhere = kinora("--plugins", SCRATCH / "no-plugins", "plugins", "list")
    check("plugin folder that does not exist", nowhere, 0, "no-plugins")


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
configuration()
media()
folders()
print(f"{len(failures)} failed")
sys.exit(bool(failures))
