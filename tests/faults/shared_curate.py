#!/usr/bin/env python3
"""Several processes share a curate job by leases in one output folder. Two of four are killed and one stands still for
three terms: the results are those of one process, byte for byte; so they are with leases in a bucket. With PROCESSES,
as many share 400 videos, and a third of them are killed or stand still.
usage: shared_curate.py KINORA ROOT SCRATCH [PROCESSES]"""
import json, os, pathlib, random, shutil, signal, struct, subprocess, sys, time

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.insert(0, str(ROOT / "tests/support"))
import s3_server
from conditional_s3 import Server

TERM = 0.5  # s
# times, memory, and the order of the work
OWN = {"summary.json", "metrics.jsonl", "live.json", "metrics.prom", "record.db", "job.json"}


def make_inputs():
    """8 videos with different bytes, the same video again, and a file that is none."""
    folder = SCRATCH / "videos"
    folder.mkdir(parents=True)
    for n in range(8):
        video = (ROOT / f"tests/data/bbb_{'CD'[n % 2]}.mp4").read_bytes()
        (folder / f"v{n:02}.mp4").write_bytes(video + struct.pack(">I4sI", 12, b"free", n))
    shutil.copy(folder / "v00.mp4", folder / "w.mp4")
    (folder / "x.mp4").write_text("this is not a video\n" * 100)


def command(out, *more):
    file = SCRATCH / f"{out.name}.toml"
    if not file.exists():  # a process may be reading it
        file.write_text(f'''[run]
out = "{out}"
[[job]]
name = "clips"
kind = "curate"
input = "{SCRATCH / "videos"}"
threads = 1
lease_inputs = 2
stages = ["video.probe", "shots.content", {{ use = "clip.transcode", min_length = 0.5, min_frames = 1, \
edge_crop = 0.0, max_height = 64, preset = "ultrafast" }}]
[[job]]
name = "shards"
kind = "shard"
input = "clips"
shard = {{ use = "shard.webdataset", max_count = 5 }}
''')
    return [KINORA, "run", str(file), *[word for one in more for word in ("--set", one)]]


def results(out):
    return {str(p.relative_to(out)): p.read_bytes()
            for job in ("clips", "shards") for p in sorted((out / job).rglob("*"))
            if p.is_file() and p.name not in OWN}


def summary(out):
    return json.loads((out / "clips/summary.json").read_text())


def same(out, expected):
    ours, theirs = results(out), results(expected)
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    different = [name for name in ours if ours[name] != theirs[name]]
    assert not different, different
    for member in ("inputs", "clips", "kept_sha256", "rules"):
        assert summary(out).get(member) == summary(expected).get(member), member
    assert not (out / ".leases").exists(), list((out / ".leases").rglob("*"))


def leases(out):
    found = []
    for file in out.glob(".leases/clips/*/leases/0*.json"):
        try:
            found.append(json.loads(file.read_text()))
        except FileNotFoundError:  # replaced by rename, or the job has ended
            pass
    return found


def until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.005)
    return found


def owned_by(out, process):
    return [l for l in leases(out) if f"-{process.pid}-" in l["owner"] and l["state"] == "held"]


def start(out, *more):
    return subprocess.Popen(command(out, f"clips.lease={TERM}", *more), env=s3_server.environment(SCRATCH),
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def check_processes(alone):
    out = SCRATCH / "shared"
    four = [start(out) for _ in range(4)]
    try:
        for process in four[:2]:
            until(lambda: owned_by(out, process), f"a lease of process {process.pid}")
            process.kill()
        four[2].send_signal(signal.SIGSTOP)
        time.sleep(3 * TERM)
        four[2].send_signal(signal.SIGCONT)
        ends = [(p.communicate(timeout=120)[1], p.returncode) for p in four]
    finally:
        for process in four:
            if process.poll() is None:
                process.kill()
    assert [code for _, code in ends] == [-signal.SIGKILL, -signal.SIGKILL, 0, 0], ends
    said = "".join(text for text, _ in ends)
    assert "shows no life; this process takes them over" in said, said
    assert said.count(" taken over from ") == 1, said
    same(out, alone)
    again = subprocess.run(command(out, f"clips.lease={TERM}"), capture_output=True, text=True, timeout=60)
    assert again.returncode == 0 and "clips: already done" in again.stderr, again


def check_one_afterwards(alone):
    """What processes have done by leases counts for one without."""
    out = SCRATCH / "left"
    first = start(out)
    until(lambda: [l for l in leases(out) if l["state"] == "done"], "a range that is done")
    first.kill()
    first.communicate()
    last = subprocess.run(command(out, "clips.threads=0"), capture_output=True, text=True, timeout=120)
    assert last.returncode == 0 and " taken over from " in last.stderr, last
    same(out, alone)


def check_beside_a_plain_run(alone):
    """While a run without leases lives, none with leases begins there; and the other way round."""
    out = SCRATCH / "plain"
    plain = subprocess.Popen(command(out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: [f for f in out.glob(".lease-*") if f.read_text().endswith("}\n")], "a lease of the plain run")
        plain.send_signal(signal.SIGSTOP)
        refused = subprocess.run(command(out, f"clips.lease={TERM}"), capture_output=True, text=True, timeout=60)
        plain.send_signal(signal.SIGCONT)
        said = plain.communicate(timeout=120)[1]
    finally:
        if plain.poll() is None:
            plain.kill()
    assert plain.returncode == 0, said
    assert refused.returncode == 1 and f"another kinora run is writing to {out} (process {plain.pid} on" in (
        refused.stderr), refused
    same(out, alone)
    again = subprocess.run(command(out, f"clips.lease={TERM}"), capture_output=True, text=True, timeout=60)
    assert again.returncode == 0 and "clips: already done" in again.stderr, again
    check_a_plain_run_beside_them()


def check_a_plain_run_beside_them():
    """While a process that shares has inputs, none without a lease begins there. Its last input cannot be read yet. The
    inputs are listed once: a video that comes meanwhile is for the next run."""
    out, server, late = SCRATCH / "beside", Server(), SCRATCH / "videos/y.mp4"
    server.objects["slow.mp4"], server.held = (ROOT / "tests/data/bbb_D.mp4").read_bytes(), "slow"
    s3 = [f"storage.s3.endpoint={server.url}", "storage.s3.anonymous=true",
          f'clips.input=["{SCRATCH / "videos"}", "s3://bucket/slow.mp4"]']
    shares = start(out, *s3)
    try:
        until(lambda: owned_by(out, shares), "a lease of the process that shares")
        for more in ([], ["--from-scratch"]):
            plain = subprocess.run([*command(out, *s3), *more], capture_output=True, text=True, timeout=60,
                                   env=s3_server.environment(SCRATCH))
            assert plain.returncode == 1 and f"-{shares.pid}-" in plain.stderr, plain
            assert f"shares its inputs by leases in {out}/.leases/clips; end the" in plain.stderr, plain
        late.write_bytes(server.objects["slow.mp4"])
        server.held = ""
        said = shares.communicate(timeout=120)[1]
    finally:
        if shares.poll() is None:
            shares.kill()
        server.stop()
        late.unlink(missing_ok=True)
    assert shares.returncode == 0 and summary(out)["inputs"] == 11, said


def in_bucket(server):
    return [f"storage.s3.endpoint={server.url}", "storage.s3.anonymous=true", "clips.lease_at=s3://bucket/shared/"]


def has_lease(server, folder, process):
    """Whether the process has a lease in this folder of the bucket."""
    found = [json.loads(text) for key, text in list(server.objects.items()) if f"/{folder}/0" in key]
    return any(f"-{process.pid}-" in l["owner"] and l["state"] == "held" for l in found)


def check_bucket(alone):
    """Three processes with output folders of their own. One is killed at work, and another one while it fetches what
    all have done: the third has the results."""
    server = Server()
    server.held = "/parts/"
    outs = [SCRATCH / f"own-{n}" for n in range(3)]
    three = [start(out, *in_bucket(server)) for out in outs]
    try:
        until(lambda: has_lease(server, "leases", three[0]), "a lease of the first process")
        three[0].kill()
        taker = until(lambda: [p for p in three[1:] if has_lease(server, "taker", p)], "a process that fetches")[0]
        taker.kill()
        server.held = ""
        ends = [(p.communicate(timeout=120)[1], p.returncode) for p in three]
    finally:
        for process in three:
            if process.poll() is None:
                process.kill()
    last = 3 - three.index(taker)
    assert [code for _, code in ends] == [0 if n == last else -signal.SIGKILL for n in range(3)], ends
    assert "shows no life; this process takes them over" in ends[last][0], ends
    same(outs[last], alone)
    for n in range(3):
        again = subprocess.run(command(outs[n], f"clips.lease={TERM}", *in_bucket(server)), capture_output=True,
                               text=True, timeout=60, env=s3_server.environment(SCRATCH))
        said = "clips: already done" if n == last else "another process has taken the results to its own output folder"
        assert again.returncode == 0 and said in again.stderr, again
        assert ("results are in" in again.stdout) == (n == last), again
        assert (outs[n] / "clips").exists() == (n == last), n
    server.stop()


def check_server_that_ignores_conditions(_):
    for ignores in ("create", "replace"):
        server = Server(ignores)
        process = start(SCRATCH / f"refused-{ignores}", *in_bucket(server))
        said = process.communicate(timeout=60)[1]
        assert process.returncode != 0 and "processes cannot share work in this storage" in said, said
        server.stop()


def check_many(count):
    """Processes that share 400 videos. Every 6th is killed and every 6th stands still for three terms, when they have a
    lease."""
    global TERM
    TERM = 1 + count / 20  # s; all of them have two processors
    folder, choose = SCRATCH / "many", random.Random(7)
    folder.mkdir()
    video = (ROOT / "tests/data/bbb_D.mp4").read_bytes()
    for n in range(400):
        (folder / f"v{n:03}.mp4").write_bytes(video + struct.pack(">I4sI", 12, b"free", n))
    file, out = SCRATCH / "many.toml", SCRATCH / "out-many"
    file.write_text(f'''[run]
out = "{out}"
[[job]]
name = "clips"
kind = "curate"
input = "{folder}"
threads = 1
lease_inputs = 2
stages = ["video.probe"]
''')
    alone = subprocess.run([KINORA, "run", file, "--out", SCRATCH / "alone-many"], capture_output=True, text=True)
    assert alone.returncode == 0, alone
    left = [subprocess.Popen([KINORA, "run", file, "--set", f"clips.lease={TERM}"], stdout=subprocess.DEVNULL,
                             stderr=open(SCRATCH / f"many-{n}.log", "w")) for n in range(count)]
    every, faults, stopped = list(left), [signal.SIGKILL, signal.SIGSTOP] * (count // 6), []
    try:
        while left:
            for end, process in [one for one in stopped if one[0] < time.monotonic()]:
                process.send_signal(signal.SIGCONT)
                stopped.remove((end, process))
            held = {int(l["owner"].split("-")[-2]) for l in leases(out) if l["state"] == "held"}
            owners = [p for p in left if p.pid in held and p.poll() is None and p not in [q for _, q in stopped]]
            if faults and owners:
                process = choose.choice(owners)
                process.send_signal(faults[-1])
                if faults.pop() == signal.SIGSTOP:
                    stopped.append((time.monotonic() + 3 * TERM, process))
            left = [p for p in left if p.poll() is None]
            time.sleep(choose.uniform(0, 0.5))
    finally:
        for process in left:
            process.kill()
    codes = [p.returncode for p in every]
    assert set(codes) <= {0, -signal.SIGKILL} and 0 in codes and codes.count(-signal.SIGKILL) >= count // 12, codes
    assert not faults[count // 6:], f"{len(faults)} faults are left: the work was over too soon"
    said = "".join((SCRATCH / f"many-{n}.log").read_text() for n in range(count))
    assert "shows no life; this process takes them over" in said
    same(out, SCRATCH / "alone-many")
    items = [json.loads(line) for line in (out / "clips/items.jsonl").read_text().splitlines()]
    assert sorted(item["key"] for item in items) == [f"v{n:03}" for n in range(400)]


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    if len(sys.argv) > 4:
        SCRATCH.mkdir(parents=True)
        return check_many(int(sys.argv[4]))
    make_inputs()
    alone = SCRATCH / "alone"
    done = subprocess.run(command(alone, "clips.threads=0"), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    for check in (check_processes, check_one_afterwards, check_beside_a_plain_run, check_bucket,
                  check_server_that_ignores_conditions):
        begin = time.monotonic()
        check(alone)
        print(f"ok    {check.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)


main()
