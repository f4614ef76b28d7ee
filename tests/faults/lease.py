#!/usr/bin/env python3
"""Two copies of one run: the older one, which stood still while the newer took over, stops with one line and changes no
file of the run, with locks (as a requeued attempt of a Slurm job) and without. What a killed copy left blocks no one.
usage: lease.py KINORA ROOT SCRATCH"""
import contextlib, json, os, pathlib, shutil, signal, socket, sqlite3, subprocess, sys, threading, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import quick
from lockless import built, lockless

KINORA, ROOT, SCRATCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
FEW = [*quick.FEW, "dit.steps=1000000", "dit.batch=2", "dit.model.layers=1", "dit.sample_every=0",
       "dit.checkpoint_every=5", "dit.threads=1"]
LEASE = {"KINORA_LEASE_SECONDS": "2"}
JOB = {"SLURM_JOB_ID": "4711", "SLURM_CLUSTER_NAME": "mine"}


def until(condition, what, seconds=120):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)
    return found


class Run:
    all = []

    def __init__(self, out, environment=None, **more):
        command = [KINORA, "run", ROOT / "configs/quickstart.toml", "--out", out, "--only", "dit",
                   *[a for s in FEW for a in ("--set", s)]]
        self.out = out
        self.process = subprocess.Popen([str(c) for c in command], env={**(environment or os.environ), **LEASE, **more},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        Run.all.append(self.process)

    def signal(self, number):
        self.process.send_signal(number)

    def pause(self):
        """Stops it until a signal continues it; returns once it stands still."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def end(self):
        said = self.process.communicate(timeout=120)[1]
        return self.process.returncode, said

    def stop(self):
        self.signal(signal.SIGTERM)
        code, said = self.end()
        assert code == 130, (code, said)
        return said


def steps(out):
    file = out / "dit/metrics.jsonl"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [json.loads(line)["step"] for line in lines]


def reaches(out, step):
    until(lambda: (done := steps(out)) and done[-1] >= step, f"step {step}")


def begun(name):
    return quick.begun(KINORA, ROOT, SCRATCH / name)


def files(out):
    return {str(p.relative_to(out)): (p.stat().st_mtime_ns, p.read_bytes())
            for p in sorted(out.rglob("*")) if p.is_file() and ".tmp-" not in str(p)}


def check_older_stops(name, environment, older, newer):
    out = begun(name)
    old = Run(out, environment, **older)
    reaches(out, 12)
    old.pause()
    last = steps(out)[-1]
    new = Run(out, environment, **newer)
    reaches(out, last + 12)
    new.pause()
    before = files(out)
    old.signal(signal.SIGCONT)
    code, said = old.end()
    taken = "another copy of this run has taken over (epoch "
    assert code == 1 and said.count(taken) == said.count(f" on {socket.gethostname()}, since ") == 1 and said.count(
        "error") == 1 and "this one stops and writes nothing more" in said, (code, said)
    after = files(out)
    assert before == after, [f for f in {*before, *after} if before.get(f) != after.get(f)]
    new.signal(signal.SIGCONT)
    reaches(out, steps(out)[-1] + 10)
    said = new.stop()
    done = steps(out)
    assert done == list(range(1, len(done) + 1)), done
    assert not [p for p in out.rglob("*") if ".tmp-" in p.name], list(out.rglob("*"))
    return out, said


def check_requeued():
    out, said = check_older_stops("requeued", None, JOB, {**JOB, "SLURM_RESTART_COUNT": "1"})
    assert "attempt 1 of Slurm job mine/4711 takes over from attempt 0 (process " in said, said
    code, said = Run(out, **JOB).end()  # a script of the first attempt that starts its program again
    assert code == 2 and "attempt 1 of Slurm job mine/4711 has taken this run over" in said, (code, said)
    last = Run(out, **JOB, SLURM_RESTART_COUNT="2")
    reaches(out, steps(out)[-1] + 3)
    last.stop()


def check_curation():
    """The older copy stands still while the newer finishes its clips."""
    out, file = SCRATCH / "curated", SCRATCH / "curate.toml"
    file.write_text(
        f'[run]\nout = "{out}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = "{ROOT}/tests/data/film.mp4"\n'
                    'stages = ["video.probe", "shots.content", { use = "clip.transcode", min_length = 0.5, min_frames '
                    '= 1, edge_crop = 0.0 }]\n')
    command = [str(KINORA), "run", str(file)]
    process = subprocess.Popen(command, env={**os.environ, **LEASE, **JOB}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    Run.all.append(process)
    until(lambda: (out / "clips/live.json").exists() and process.poll() is None, "the first figures of the job")
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    done = subprocess.run(command, env={**os.environ, **LEASE, **JOB, "SLURM_RESTART_COUNT": "1"}, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done

    def whole():
        """The files; of the record its rows, since who closes it last moves its log into it."""
        with contextlib.closing(sqlite3.connect(f"file:{out}/clips/record.db?mode=ro", uri=True)) as rows:
            record = list(rows.iterdump())
        return {name: content
                for name, content in files(out).items() if not name.startswith("clips/record.db")} | {"record": record}

    before = whole()
    process.send_signal(signal.SIGCONT)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 1 and said.count("another copy of this run has taken over") == 1, (
        process.returncode, said)
    after = whole()
    assert before == after, [f for f in {*before, *after} if before.get(f) != after.get(f)]
    assert "already done" in subprocess.run(command, capture_output=True, text=True, timeout=300).stderr


def check_no_locks():
    environment = lockless(SCRATCH, 95)
    out, said = check_older_stops("no_locks", environment, {}, {})
    assert ("waiting 2 s to see whether it still writes there" in said
            and "shows no life; this one takes over" in said), said
    one = Run(out, environment)  # while the first one lives, a second one is refused
    reaches(out, steps(out)[-1] + 3)
    code, said = Run(out, environment).end()
    assert (code == 1 and f"another kinora run is writing to {out} (process {one.process.pid} on " in said
            and ".lease-" in said), (code, said)
    one.stop()


def lease_in(out):
    return max(out.glob(".lease-*"))


def check_killed():
    """The next start on this machine begins at once; one on another waits for a lease, or is refused while the copy
    lives there."""
    out = begun("killed")
    run = Run(out)
    reaches(out, 6)
    run.signal(signal.SIGKILL)
    run.end()
    again = Run(out)
    reaches(out, steps(out)[-1] + 3)
    again.signal(signal.SIGKILL)
    assert "waiting" not in again.end()[1]
    file = lease_in(out)
    beat, facts = file.read_text().splitlines()
    elsewhere = {**json.loads(facts), "boot": "another", "host": "node7"}

    def write(n):  # as an owner does: readers never meet an empty file
        with open(file, "r+b") as of:
            of.write(f"{n:012}".encode())

    over = threading.Event()
    file.write_text(f"{1:012}\n{json.dumps(elsewhere)}\n")
    beats = threading.Thread(target=lambda: [write(n) for n in range(2, 100000) if not over.wait(0.1)])
    beats.start()
    code, said = Run(out).end()
    over.set()
    beats.join()
    assert code == 1 and "(process " in said and " on node7, since " in said and f"remove {file}" in said, (code, said)
    write(1)
    at = steps(out)[-1]
    run = Run(out)
    reaches(out, at + 3)
    lease_in(out).unlink()  # what the message says for a copy that cannot be reached
    code, said = run.end()
    assert (code == 1 and "shows no life; this one takes over" in said
            and "was removed; this run stops and writes nothing more" in said), (code, said)


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    (SCRATCH / "tmp").mkdir(parents=True)
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        del os.environ[name]
    built(SCRATCH)
    try:
        for check in (check_requeued, check_curation, check_no_locks, check_killed):
            begin = time.monotonic()
            check()
            print(f"ok    {check.__name__} ({time.monotonic() - begin:.0f} s)", flush=True)
    finally:
        for process in Run.all:  # one that stands still would stay
            if process.poll() is None:
                process.kill()


main()
