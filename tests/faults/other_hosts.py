#!/usr/bin/env python3
"""Fourteen faults that plugins of other programs had, each after a public report: what becomes of a run whose stage has
one, apart (the default) and in the program's own process, and what `kinora plugins validate` says.
usage: other_hosts.py KINORA ROOT SCRATCH"""
import json, os, pathlib, re, shutil, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

KINORA, ROOT, SCRATCH = sys.argv[1], *(pathlib.Path(p).resolve() for p in sys.argv[2:4])
HEAD = '[plugin]\nmanifest = 1\nname = "{0}"\nversion = "0.1.0"\nabi = "1.0"\ntier = "stable"\n\n' \
       '[[component]]\nid = "stage/{0}"\nhelp = "of a test"\n'
VIDEO = ROOT / "tests/data/bbb_A.mp4"
KEPT = (0, "kept", "")
# the checks of a stage that call process()
IN_PROCESS = "surroundings samples read-only outcomes same-outcomes sample-leaks threads"
# name: (macros and flags of the compiler, what fails of validate with words of it, the end of a run apart, and of one
# in process: (exit code, outcome, words of the log or of the reason)); None: not tried
FAULTS = {
    # github.com/llvm/llvm-project/issues/57589, bugs.openjdk.org JDK-8188052
    "fast-math": (["-ffast-math"], ("surroundings", "modes of floating-point"), KEPT,
                  (0, "kept", "changed the modes of floating-point arithmetic")),
    # gstreamer: a buffer is written to that others hold; see `writes` of broken_plugins.py
    # nine kinds of DLPack tensors
    "tensors": (["-DTENSORS"], None, (1, "failed", "0 of 9 unusable tensors"),
                (1, "failed", "0 of 9 unusable tensors")),
    # github.com/audacity/audacity/issues/3047
    "not-retained": (["-DNOT_RETAINED"], ("sample-leaks", "released once too often"), None, None),
    # duckdb/duckdb#22921: a slot of a later minor
    "later-slot": (["-DLATER_SLOT"], (IN_PROCESS, "it was in process()"), (1, "failed", "killed by signal"), None),
    # gap-system/gap#1693: umask, working directory, handler of Ctrl-C
    "changes": (["-DSURROUNDINGS"], ("surroundings", "the umask: 777"), KEPT, (0, "kept", "changed the umask")),
    "size-forgotten": (["-DSIZE_FORGOTTEN"], ("resources", "is 77"), (2, None, "ordered of its resources() is 77"),
                       (2, None, "ordered of its resources() is 77")),
    # melonDS-emu/melonDS#217
    "executable-stack": (["-Wl,-z,execstack"], ("surroundings", "-z noexecstack"), KEPT, None),
    # pytorch/pytorch#2575
    "static-tls": (["-DSTATIC_TLS"], ("opens", "-ftls-model=global-dynamic"), (2, None, "-ftls-model=global-dynamic"),
                   (2, None, "-ftls-model=global-dynamic")),
    # ggml-org/llama.cpp#11780
    "sigill": (["-DSIGILL_IN_CONSTRUCTOR"], ("opens", "(SIGILL)"), (2, None, "SIGILL"), None),
    "prints": (["-DPRINTS"], None, KEPT, KEPT),
    "emits-on-a-thread": (["-DEMIT_ON_A_THREAD"], None, KEPT, KEPT),
    "fails-on-a-thread": (["-DERROR_ON_A_THREAD"], (IN_PROCESS, "without a message"), (1, "failed", "status -7"),
                          (1, "failed", "status -7")),
    "forks": (["-DFORKS"], None, KEPT, KEPT),
    # obsproject: a thread that outlives its plugin
    "thread-left": (["-DTHREAD_LEFT"], ("surroundings", "threads still run"), KEPT, KEPT)}


def built(name, flags):
    folder = SCRATCH / "plugins" / name
    folder.mkdir(parents=True)
    done = subprocess.run(["gcc", "-std=gnu11", "-O1", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden",
                           f"-I{ROOT / 'sdk/include'}", f'-DNAME="{name}"', ROOT / "tests/faults/other_hosts.c", "-o",
                           folder / f"lib{name}.so", f"-Wl,--version-script={ROOT / 'sdk/cmake/plugin.map'}", *flags],
                          capture_output=True, text=True)
    assert done.returncode == 0, (name, done.stderr)
    (folder / "plugin.toml").write_text(HEAD.format(name))


def kinora(*arguments):
    return subprocess.run([KINORA, "--plugins", SCRATCH / "plugins", *map(str, arguments)], capture_output=True,
                          text=True,
                          timeout=120)


def validate(name, expected):
    told = json.loads(kinora("plugins", "validate", SCRATCH / f"plugins/{name}/lib{name}.so", "--json").stdout)
    failed = {c["check"]: c["message"] for c in told["checks"] if not c["ok"]}
    checks, words = expected or ("", "")
    assert sorted(failed) == sorted(checks.split()) and all(words in text for text in failed.values()), (name, failed)


def run(name, isolate, expected):
    """A run whose stage after the fault says whether denormal numbers are still numbers."""
    code, outcome, words = expected
    out = SCRATCH / f"runs/{name}-{isolate}"
    config = SCRATCH / f"{name}-{isolate}.toml"
    config.write_text(f'[run]\nout = "{out}"\n[[job]]\nname = "look"\nkind = "curate"\ninput = "{VIDEO}"\n'
                      f'stages = ["{name}", "clean"]\nengine = {{ use = "local", isolate = ["{isolate}"] }}\n')
    done = kinora("run", config)
    items = [json.loads(line) for line in (out / "look/items.jsonl").read_text().splitlines()] if outcome else []
    assert done.returncode == code, (name, isolate, done.returncode, done.stderr)
    assert words in done.stderr + json.dumps(items), (name, isolate, done.stderr, items)
    if not outcome:
        return
    assert {item["end"] for item in items} == {outcome}, (name, isolate, items)
    if outcome == "kept":
        assert all(item["facts"]["denormal"] for item in items), (name, items)
    modes = {oct(file.stat().st_mode & 0o777) for file in (out / "look").iterdir() if file.is_file()}
    assert "0o0" not in modes, (name, isolate, modes)


def tried(name):
    flags, said, apart, inside = FAULTS[name]
    validate(name, said)
    for isolate, expected in (("all", apart), ("none", inside)):
        if expected:
            run(name, isolate, expected)
    return name


os.umask(0o022)
shutil.rmtree(SCRATCH, ignore_errors=True)
built("clean", [])
for name, (flags, *_) in FAULTS.items():
    built(name, flags)
with ThreadPoolExecutor(2) as pool:
    for name in pool.map(tried, FAULTS):
        print(f"ok    {name}")
