#!/usr/bin/env python3
"""The memory of a curate job does not grow with the number of its inputs: keys of a bucket whose server computes them.
--all: a million of them, and two processes that share a hundred thousand from the first to the last.
usage: many_inputs.py [--all] KINORA ROOT SCRATCH"""
import json, os, pathlib, shutil, subprocess, sys

IS_ALL = sys.argv[1] == "--all"
KINORA, ROOT, SCRATCH = sys.argv[-3], pathlib.Path(sys.argv[-2]), pathlib.Path(sys.argv[-1])
sys.path.insert(0, str(ROOT / "tests/support"))
import s3_server
from conditional_s3 import Server

MIB = 1 << 20


def start(server, name, *options, recursive="true"):
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
        return subprocess.Popen([KINORA, "run", file, *options], env=s3_server.environment(SCRATCH),
                                stdout=subprocess.DEVNULL, stderr=log)


def most_memory(process):
    """Of a process that ends well, in bytes."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (process.args, process.returncode)
    return usage.ru_maxrss * 1024


def of_dry_run(many, recursive="true"):
    server, name = Server(many=many), f"dry-{many}-{recursive}"
    most = most_memory(start(server, name, "--dry", recursive=recursive))
    log = (SCRATCH / f"{name}.log").read_text()
    assert f"clips: {many + 1} inputs to do" in log, log
    server.stop()
    print(f"{many} keys, recursive = {recursive}: {most / MIB:.0f} MiB", flush=True)
    return most


def check_listing():
    few = of_dry_run(10_000)
    # A vector of them took 82 MiB more.
    for recursive in ("true", "false"):
        more = of_dry_run(100_000, recursive)
        assert more - few < 40 * MIB, (few, more, recursive)


def check_a_million():
    assert of_dry_run(1_000_000) < 200 * MIB


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
    assert len(keys) == len(set(keys)) == many + 1, len(keys)


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
for check in (check_a_million, check_shared_run) if IS_ALL else (check_listing,):
    check()
    print("ok   ", check.__name__, flush=True)
