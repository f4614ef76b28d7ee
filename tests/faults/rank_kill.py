#!/usr/bin/env python3
"""A world of two ranks under `kinora launch` that loses one: it stops in time, reports the missing rank, restarts from
the last checkpoint, and its losses equal those of an undisturbed run, to the last digit. An interrupted run resumes; a
slow rank is reported; no process remains. usage: rank_kill.py KINORA ROOT SCRATCH"""
import json, os, pathlib, pty, re, shutil, signal, subprocess, sys, threading, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import quick

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
STEPS, LIMIT = 40, 20  # LIMIT: seconds that a rank waits for another
FEW = [*quick.FEW, f"dit.steps={STEPS}", "dit.batch=4", "dit.model.layers=2", "dit.warmup=0", "dit.checkpoint_every=7",
       "dit.validation_every=0", "dit.sample_every=0", 'dit.parallel=["ddp"]']


def command(out, *launch, sets=()):
    sets = [a for s in (*FEW, *sets) for a in ("--set", s)]
    return [KINORA, "launch", "-n", "2", "--timeout", str(LIMIT), "--grace", "5", *launch, "--", "run",
            str(ROOT / "configs/quickstart.toml"),
            "--out", str(out), "--only", "dit", *sets]


class Launch:
    """A running launch; its stderr is read as it arrives, each line with its time."""

    def __init__(self, out, *launch, sets=()):
        self.out, self.lines = out, []
        self.process = subprocess.Popen(command(out, *launch, sets=sets), stderr=subprocess.PIPE,
                                        stdout=subprocess.DEVNULL, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append((time.monotonic(), line))

    def text(self):
        return "".join(line for _, line in self.lines)

    def end(self, code, limit=240):
        assert self.process.wait(limit) == code, (self.process.returncode, self.text())
        self.reader.join()

    def rank(self, number):
        """The pid of a rank, which is a child of the launch."""
        for child in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            if f"RANK={number}".encode() in pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                return int(child)
        raise AssertionError(f"no rank {number} in {self.text()}")

    def wait_for_step(self, step):
        until = time.monotonic() + 120
        while time.monotonic() < until and self.process.poll() is None:
            if any(line["step"] >= step for line in metrics(self.out)):
                return
            time.sleep(0.005)
        raise AssertionError(f"step {step} did not come: {self.text()}")


def metrics(out):
    file = out / "dit/metrics.jsonl"
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def losses(out):
    """Losses of every step in order, as written: numbers with 17 digits."""
    lines = metrics(out)
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1)), lines
    return [(json.dumps(line["loss"]), json.dumps(line["gradient_norm"])) for line in lines]


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def prepared(name):
    """A folder in which every job before the training is finished."""
    return quick.begun(KINORA, ROOT, SCRATCH / name)


def check_kill(whole, rank):
    out = prepared(f"kill-{rank}")
    launch = Launch(out, "--restarts", "1")
    launch.wait_for_step(17)
    time.sleep(0.013)  # at some point within a step
    os.kill(launch.rank(rank), signal.SIGKILL)
    killed = time.monotonic()
    launch.end(0)
    again = [when
             for when, line in launch.lines
             if "all ranks are started again (restart 1 of 1), from the last checkpoint" in line]
    assert len(again) == 1 and again[0] - killed < LIMIT / 2, (again, killed, launch.text())
    assert f"rank {rank} of 2 was killed by signal 9" in launch.text(), launch.text()
    other = (out / f"logs/rank-{1 - rank}.log").read_text()
    missing = re.search(rf"gloo: (\S+ #\d+) of group '\S+' .*rank {rank} did not take part", other)
    assert missing and "restart 1 of 1" in other, other
    assert "resuming after step" in (out / "logs/rank-1.log").read_text(), "it began from scratch"
    assert len(re.findall(r"(?m)^\S+ info latents: already done", launch.text())) == 1, launch.text()
    assert losses(out) == whole, "the losses differ"
    files = sorted((SCRATCH / "whole/dit").glob("weights*.safetensors"))
    assert len(files) == 2, files  # and the averages
    for file in files:
        assert (out / "dit" / file.name).read_bytes() == file.read_bytes(), file
    print(f"rank {rank} killed: started again after {again[0] - killed:.2f} s; the other waited in {missing[1]}")


def check_no_restart():
    out = prepared("given-up")
    launch = Launch(out)
    launch.wait_for_step(3)
    os.kill(launch.rank(1), signal.SIGKILL)
    launch.end(1, 30)
    assert "rank 1 of 2 was killed by signal 9" in launch.text() and "its full log: " in launch.text(), launch.text()


def check_interrupt(whole):
    """Ctrl-C stops all ranks after a checkpoint; the same command resumes. A killed launch leaves no process."""
    out = prepared("interrupted")
    launch = Launch(out)
    launch.wait_for_step(9)
    launch.process.send_signal(signal.SIGINT)
    launch.end(130, 60)
    assert launch.text().count("interrupted; run the same command again to continue") == 1, launch.text()
    assert len(metrics(out)) < STEPS
    launch = Launch(out)
    launch.wait_for_step(20)
    ranks = [launch.rank(0), launch.rank(1)]
    launch.process.kill()
    launch.process.wait()
    until = time.monotonic() + 60
    while any(map(is_alive, ranks)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(map(is_alive, ranks)), "ranks outlive the launch"
    launch = Launch(out)
    launch.end(0)
    assert losses(out) == whole, "the losses differ"


def check_slow_rank():
    out = prepared("slow")
    launch = Launch(out, sets=["dit.log_every=5"])
    launch.wait_for_step(5)
    pid, done = launch.rank(1), False
    while launch.process.poll() is None and not done:  # stopped for nine tenths of its time
        for stop, seconds in ((signal.SIGSTOP, 0.27), (signal.SIGCONT, 0.03)):
            try:
                os.kill(pid, stop)
            except ProcessLookupError:
                break
            time.sleep(seconds)
        done = "slower than the median" in launch.text()
    launch.end(0)
    named = re.search(r"dit: (rank 1 is ([\d.]+)x slower than the median of the others: .*)", launch.text())
    assert named and float(named[2]) > 4, launch.text()
    assert "rank 0 is" not in launch.text(), launch.text()
    print(named[1])
    summary = json.loads((out / "dit/summary.json").read_text())
    ranks = summary["ranks"]
    assert ranks["tokens"][0] == ranks["tokens"][1] > 0 and ranks["steps"] == [STEPS, STEPS], ranks
    assert sum(ranks["bytes_sent"]) == sum(ranks["bytes_received"]) > 0, ranks
    assert ranks["computing_seconds"][1] > ranks["computing_seconds"][0] and ranks["waiting_seconds"][0] > ranks[
        "waiting_seconds"][1], ranks
    assert {(t["rank"], t["operation"]) for t in summary["transfers"]} >= {(0, "sum"), (1, "sum")}, summary["transfers"]
    logged = [line["ranks"] for line in metrics(out)]
    assert len(logged) == STEPS // 5 and sum(r["steps"][1] for r in logged) == STEPS, logged
    assert "work of each rank" in launch.text()


def check_second_launch():
    """A second launch, or run, into a folder in use is refused before it writes a line into the other's log."""
    out = prepared("twice")
    first = Launch(out, sets=("dit.steps=100000",))
    first.wait_for_step(5)
    for arguments, words in ((command(out), "another kinora launch is writing its logs"),
                             (["kinora", *command(out)[command(out).index("run"):]], "another kinora run is writing")):
        done = subprocess.run([KINORA, *arguments[1:]], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and words in done.stderr, done
    assert first.process.poll() is None, first.text()
    first.process.send_signal(signal.SIGINT)
    first.end(130)
    for rank in (0, 1):
        log = (out / f"logs/rank-{rank}.log").read_text()
        assert log.count("=== kinora launch") == 1 and "is writing to" not in log, log
    assert "is writing to" not in (out / "kinora.log").read_text()


def check_terminal():
    """Rank 0 draws its progress bar if there is a terminal; its log has lines without colours."""
    out = prepared("terminal")
    shown, terminal = pty.openpty()
    process = subprocess.Popen(command(out), stderr=terminal, stdout=terminal, stdin=subprocess.DEVNULL,
                               env={**os.environ, "TERM": "xterm"})
    os.close(terminal)
    text = b""
    try:
        while piece := os.read(shown, 65536):
            text += piece
    except OSError:
        pass
    assert process.wait() == 0, text
    assert b"\r\x1b[Jdit" in text and b"40/40 steps" in text and b"results are in" in text, text
    log = (out / "logs/rank-0.log").read_bytes()
    assert b"\r" not in log and b"\x1b" not in log and b"40/40 steps" in log and b"results are in" in log, log
    assert b"results are in" in (out / "logs/rank-1.log").read_bytes()


shutil.rmtree(SCRATCH, ignore_errors=True)
Launch(prepared("whole")).end(0)
whole = losses(SCRATCH / "whole")
check_kill(whole, 1)
check_kill(whole, 0)
check_no_restart()
check_interrupt(whole)
check_slow_rank()
check_second_launch()
check_terminal()
