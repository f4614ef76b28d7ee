#!/usr/bin/env python3
"""The memory of a curate job does not grow with the number of its inputs: keys of a bucket whose server computes them.
--all: a million of them, pages that take 100 ms each, and two processes that share a hundred thousand from the first to
the last. --most: ten million, which are listed and named.
usage: many_inputs.py [--all|--most] KINORA ROOT SCRATCH"""
import json, os, pathlib, shutil, subprocess, sys, time

HOW = sys.argv[1] if sys.argv[1].startswith("--") else ""
KINORA, ROOT, SCRATCH = sys.argv[-3], pathlib.Path(sys.argv[-2]), pathlib.Path(sys.argv[-1])
sys.path.insert(0, str(ROOT / "tests/support"))
import s3_server
from conditional_s3 import Server
from skips import skip

MIB = 1 << 20


def start(server, name, *options, recursive="true", **environment):
    file = SCRATCH / f"{name}.toml"
    file.write_text(f'''[run]
out = "{SCRATCH / name}"
[storage.s3]
endpoint = "{server.url}"
anonymous = true
[[job]]
name = "clips"
kind = "curate"
input = ["s3://bucket/many/", "{ROOT / "tests/data/bbb_D.mp4"}"]
recursive = {recursive}
stages = ["video.probe"]
''')
    with open(SCRATCH / f"{name}.log", "a") as log:
        return subprocess.Popen([KINORA, "run", file, *options], env=s3_server.environment(SCRATCH, **environment),
                                stdout=subprocess.DEVNULL, stderr=log)


def end_of(process):
    """What a process that ends well has used."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (process.args, process.returncode)
    return usage


def most_memory(process):
    """In bytes."""
    return end_of(process).ru_maxrss * 1024


def most_room(process, folder):
    """Most bytes of the files in the folder that the process has open, until it ends; they have no names there."""
    most = 0
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        now = 0
        for file in pathlib.Path(f"/proc/{process.pid}/fd").glob("*"):
            try:
                now += file.stat().st_size if os.readlink(file).startswith(str(folder)) else 0
            except OSError:  # it was closed meanwhile
                pass
        most = max(most, now)
        time.sleep(0.1)
    return most


def dry_run(many, recursive="true", delay=0):
    """The server of a dry run, the process's use, and the most bytes of its temporary files."""
    server, name, room = Server(many=many, delay=delay), f"dry-{many}-{recursive}", SCRATCH / "room"
    room.mkdir(exist_ok=True)
    process = start(server, name, "--dry", recursive=recursive, SQLITE_TMPDIR=str(room))
    most = most_room(process, room)
    usage = end_of(process)
    log = (SCRATCH / f"{name}.log").read_text()
    assert f"clips: {many + 1} inputs to do" in log, log
    server.stop()
    seconds = usage.ru_utime + usage.ru_stime
    print(f"{many} keys, recursive = {recursive}: {usage.ru_maxrss / 1024:.0f} MiB; for each {most / many:.0f} bytes "
          f"of disk and {seconds / many * 1e6:.1f} us of a processor; {server.pages} requests", flush=True)
    return server, usage, most


def of_dry_run(many, recursive="true"):
    return dry_run(many, recursive)[1].ru_maxrss * 1024


def check_listing():
    few = of_dry_run(10_000)
    # A vector of them took 82 MiB more.
    for recursive in ("true", "false"):
        more = of_dry_run(100_000, recursive)
        assert more - few < 40 * MIB, (few, more, recursive)


def check_a_million():
    assert of_dry_run(1_000_000) < 200 * MIB


def check_parallel_listing():
    """With 100 ms a page, ranges that are listed at the same time take a quarter of the time of one list, or less: 31
    rounds of requests instead of 201, and a few milliseconds of a processor for each page."""
    seconds = {}
    for recursive in ("false", "true"):
        server = dry_run(200_000, recursive, delay=0.1)[0]
        seconds[recursive] = server.listed_at[1] - server.listed_at[0]
        assert server.most_at_once <= (32 if recursive == "true" else 1), server.most_at_once
    print(f"200 pages: {seconds['false']:.1f} s one by one, {seconds['true']:.1f} s by ranges", flush=True)
    assert seconds["false"] > 4 * seconds["true"], seconds


def check_ten_million():
    few, many = (dry_run(n) for n in (100_000, 10_000_000))
    assert many[1].ru_maxrss < 200 * 1024 and many[1].ru_maxrss - few[1].ru_maxrss < 40 * 1024, (few, many)
    assert many[2] < 300 * 10_000_000, "bytes of disk for each, as docs/curate/shared.md has it"


def check_room_for_the_list():
    """A folder for temporary files that is missing or too small: one error says which, and how to choose another."""
    server, small = Server(many=100_000), SCRATCH / "small"

    def error_in(folder, name):
        process = start(server, name, "--dry", SQLITE_TMPDIR=str(folder))
        assert process.wait(timeout=100) != 0, name
        errors = [line for line in (SCRATCH / f"{name}.log").read_text().splitlines() if str(folder) in line]
        assert len(errors) == 1, errors
        return errors[0]

    said = error_in(SCRATCH / "missing", "no-room")
    assert "/missing: it is no folder in which files can be made, for the list of inputs; create it" in said, said
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)],
                      capture_output=True).returncode:
        skip("small folder", "no permission to mount a small file system")
    else:
        try:
            said = error_in(small, "few-room")
            assert f"(a temporary file in {small}; SQLITE_TMPDIR names another folder): " in said, said
            assert "free some space and run again" in said, said
        finally:
            subprocess.run(["umount", str(small)], check=True)
    server.stop()


def check_shared_run():
    """Each is listed as empty, so that it fails before any stage."""
    many = 100_000
    server = Server(many=many, size=0)
    two = [start(server, "shared", "--set", "clips.lease=20") for _ in range(2)]
    most = [most_memory(process) for process in two]
    server.stop()
    print(f"{many} inputs by two processes: {most[0] / MIB:.0f} and {most[1] / MIB:.0f} MiB", flush=True)
    assert max(most) < 200 * MIB, most
    inputs = json.loads((SCRATCH / "shared/clips/summary.json").read_text())["inputs"]
    assert inputs == many + 1, inputs
    with open(SCRATCH / "shared/clips/items.jsonl") as items:
        keys = [json.loads(line)["key"] for line in items]
    assert keys == [f"v{n:09}" for n in range(many)] + ["bbb_D"], "another order than that of one list"


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
CHECKS = {"": (check_listing, check_room_for_the_list), "--most": (check_ten_million,),
          "--all": (check_a_million, check_parallel_listing, check_shared_run)}
for check in CHECKS[HOW]:
    check()
    print("ok   ", check.__name__, flush=True)
