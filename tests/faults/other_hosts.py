#!/usr/bin/env python3
"""Fourteen faults that plugins of other programs had, each after a public report: what becomes of a run whose stage has
one, apart (the default) and in the program's own process, and what `kinora plugins validate` says.
usage: other_hosts.py KINORA ROOT SCRATCH"""
import json, os, pathlib, re, shutil, signal, subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor

KINORA, ROOT, SCRATCH = sys.argv[1], *(pathlib.Path(p).resolve() for p in sys.argv[2:4])
HEAD = '[plugin]\nmanifest = 1\nname = "{0}"\nversion = "0.1.0"\nabi = "1.0"\ntier = "stable"\n\n' \
       '[[component]]\nid = "stage/{0}"\nhelp = "of a test"\n'
VIDEOS = [str(ROOT / f"tests/data/{name}.mp4") for name in ("bbb_A", "bbb_B")]
KEPT = (0, "kept", "")
DIED = range(-64, 0)  # by a signal
# the checks of a stage that call process()
IN_PROCESS = "surroundings samples read-only outcomes same-outcomes sample-leaks threads"
# name: (macros and flags of the compiler, what fails of validate with words of it, the end of a run apart, and of one
# in process: (exit codes, outcome, words of the log or of the reason)); None: not tried, and not known as an outcome.
# Words are separated by |
FAULTS = {
    # github.com/llvm/llvm-project/issues/57589, bugs.openjdk.org JDK-8188052
    "fast-math": (["-ffast-math"], ("surroundings", "modes of floating-point"), KEPT,
                  (0, "kept", "changed the modes of floating-point arithmetic")),
    # gstreamer: a buffer is written to that others hold
    "writes": (["-DWRITES_TO_A_CLONE"], ("read-only", "changed bytes of a sample in place"), KEPT, KEPT),
    # nine kinds of DLPack tensors
    "tensors": (["-DTENSORS"], None, (1, "failed", "0 of 9 unusable tensors"),
                (1, "failed", "0 of 9 unusable tensors")),
    # github.com/audacity/audacity/issues/3047: memory that is used after its end, so that more than one end is right
    "not-retained": (["-DNOT_RETAINED"], ("sample-leaks", "released once too often"), ((0, 1), None, ""),
                     ((*DIED, 0, 1), None, "")),
    # duckdb/duckdb#22921: a slot of a later minor
    "later-slot": (["-DLATER_SLOT"], (IN_PROCESS, "it was in process()"), (1, "failed", "killed by signal"),
                   (DIED, None, "liblater-slot.so (stage/later-slot); ")),
    # gap-system/gap#1693: umask, working directory, handler of Ctrl-C
    "changes": (["-DSURROUNDINGS"],
                ("surroundings", "the umask: 777|the working directory: /,|the handler of signal 2: 0x1,"), KEPT,
                (0, "kept", "changed the umask|changed the working directory|changed what a signal does")),
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
    assert sorted(failed) == sorted(checks.split()) and all(
        word in text for text in failed.values() for word in words.split("|")), (name, failed)


def run_file(name, isolate, stages):
    out, file = SCRATCH / f"runs/{name}-{isolate}", SCRATCH / f"{name}-{isolate}.toml"
    file.write_text(f'[run]\nout = "{out}"\n[[job]]\nname = "look"\nkind = "curate"\ninput = {json.dumps(VIDEOS)}\n'
                    f'stages = [{{ use = "video.read", frames = 1, height = 36 }}, {json.dumps(stages)[1:-1]}]\n'
                    f'engine = {{ use = "local", isolate = ["{isolate}"] }}\n')
    return file, out


def items_of(out):
    return {item["key"]: item for item in map(json.loads, (out / "look/items.jsonl").read_text().splitlines())}


def run(name, isolate, expected):
    """A run whose stage after the fault says what it finds of the process and of the sample."""
    codes, outcome, words = expected
    file, out = run_file(name, isolate, [name, "clean"])
    done = kinora("run", file)
    items = items_of(out) if outcome else {}
    where = (name, isolate, done.returncode, done.stderr, items)
    assert done.returncode in (codes if isinstance(codes, (range, tuple)) else [codes]), where
    assert all(word in done.stderr + json.dumps(items) for word in words.split("|")), where
    if done.returncode < 0:  # a plugin of Kinora's is not blamed
        line = next((line for line in done.stderr.splitlines() if line.startswith("kinora: killed by signal")), None)
        assert line, where
        blamed = re.search(r" in plugin (\S+?)[, ]", line)
        assert 'isolate = ["all"]' in line and (not blamed or blamed[1].startswith(str(SCRATCH))), where
    if not outcome:
        return
    assert {item["end"] for item in items.values()} == {outcome} and len(items) == len(VIDEOS), where
    if outcome == "kept":
        for key, item in items.items():
            found, sound = item["facts"], CLEAN[isolate][key]["facts"]
            if name == "writes" and key == "bbb_A":
                assert found["first"] == 255 - sound["first"], where  # its own sample, and no other
                found["first"] = sound["first"]
            for fact in ("denormal", "first", "umask", "folder", "interrupt"):
                assert found[fact] == sound[fact], (fact, found[fact], sound[fact], *where)
    modes = {oct(file.stat().st_mode & 0o777) for file in (out / "look").iterdir() if file.is_file()}
    assert "0o0" not in modes, (*where, modes)


def without_fault(isolate):
    """{key: item} of a run without a fault."""
    file, out = run_file("clean", isolate, ["clean"])
    done = kinora("run", file)
    items = items_of(out)
    assert done.returncode == 0 and len(items) == len(VIDEOS), (isolate, done.stderr, items)
    for item in items.values():
        found = item["facts"]
        assert found["denormal"] and found["umask"] == 0o022 and found["first"] >= 0, (isolate, found)
        assert isolate == "all" or (found["folder"], found["interrupt"]) == (os.getcwd(), "handled"), (isolate, found)
    return items


def interrupted(isolate):
    """Ctrl-C ends a run after a stage has made its process ignore it."""
    MARK.unlink(missing_ok=True)
    file, _ = run_file("slow", isolate, ["changes", "slow"])
    running = subprocess.Popen([KINORA, "--plugins", SCRATCH / "plugins", "run", file], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    while running.poll() is None and not MARK.exists():
        time.sleep(0.01)
    time.sleep(0.3)  # the call that changes it returns
    start = time.monotonic()
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[1]
    assert running.returncode == 130 and time.monotonic() - start < 10, (isolate, running.returncode, said)


def tried(name):
    flags, said, apart, inside = FAULTS[name]
    validate(name, said)
    for isolate, expected in (("all", apart), ("none", inside)):
        if expected:
            run(name, isolate, expected)
    return name


os.umask(0o022)
shutil.rmtree(SCRATCH, ignore_errors=True)
MARK = SCRATCH / "slow-waits"
built("clean", ["-DCLEAN"])
built("slow", [f'-DMARK="{MARK}"'])
for name, (flags, *_) in FAULTS.items():
    built(name, flags)
CLEAN = {isolate: without_fault(isolate) for isolate in ("all", "none")}
for isolate in CLEAN:
    interrupted(isolate)
    print(f"ok    Ctrl-C, isolate = {isolate}")
with ThreadPoolExecutor(2) as pool:
    for name in pool.map(tried, FAULTS):
        print(f"ok    {name}")
