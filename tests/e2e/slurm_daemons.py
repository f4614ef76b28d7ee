#!/usr/bin/env python3
"""packaging/slurm on real daemons: munged, slurmctld and three slurmd on loopback, whose nodes have names that do not
resolve. Two ranks train one run; a rank that fails is restarted, a refused run is not; a requeued job continues while
its lost attempt still runs; an array curates. usage: slurm_daemons.py KINORA ROOT SCRATCH"""
import json, os, pathlib, secrets, shlex, shutil, signal, subprocess, sys, tempfile, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import quick
from skips import skip

KINORA, ROOT, SCRATCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
NODES = ("kn1", "kn2", "kn3")
CONF = """ClusterName=kinora
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
AuthInfo=socket={place}/munge.sock
SlurmUser=root
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
ReturnToService=2
SelectType=select/cons_tres
SchedulerParameters=sched_interval=1,bf_interval=1
KillWait=3
SlurmdTimeout=300
SlurmdParameters=config_overrides
NodeName={nodes[0]} NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 RealMemory=1000
NodeName={nodes[1]} NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4 RealMemory=1000
NodeName={nodes[2]} NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[3]} CPUs=4 RealMemory=1000
PartitionName=p Nodes=kn[1-3] Default=YES
"""
# In place of the program: rank 1 of the first step of a job ends with 1.
ONCE = """#!/usr/bin/env bash
if [[ $SLURM_STEP_ID == 0 && $SLURM_PROCID == 1 ]]; then exit 1; fi
exec "$REAL" "$@"
"""
FEW = [*quick.FEW, "dit.batch=4", "dit.model.layers=1", "dit.sample_every=0", 'dit.parallel=["ddp"]']


def until(condition, what, seconds=90):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)
    return found


class Cluster:
    """Daemons in a folder of their own, with a short name since it has sockets."""

    def __enter__(self):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="kslurm-"))
        self.ports = [quick.held_port() for _ in range(4)]
        for socket in quick._held:
            socket.close()
        for folder in ("state", *(f"spool-{node}" for node in NODES)):
            (self.place / folder).mkdir()
        (self.place / "slurm.conf").write_text(CONF.format(place=self.place, ports=self.ports, nodes=NODES))
        key = self.place / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        os.chmod(self.place, 0o755)
        os.environ["SLURM_CONF"] = str(self.place / "slurm.conf")
        self.conf = f"SLURM_CONF={self.place}/slurm.conf\0"
        try:
            self.start("munged", "--force",
                       *(f"--{name}={self.place}/munge.{end}"
                         for name, end in (("key-file", "key"), ("socket", "sock"), ("pid-file", "pid"),
                                           ("log-file", "log"), ("seed-file", "seed"))))
            self.start("slurmctld", "-c", "-f", self.place / "slurm.conf")
            for node in NODES:
                self.slurmd(node)
            until(lambda: run("sinfo", "-h", "-o", "%D %t").stdout.split() == ["3", "idle"], "three idle nodes")
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, *command):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        assert done.returncode == 0, done

    def slurmd(self, node):
        self.start("slurmd", "-N", node, "-f", self.place / "slurm.conf")

    def __exit__(self, *_):
        run("scancel", "--user=root", "--signal=KILL", "--full")
        for name in (*(f"slurmd-{node}" for node in NODES), "slurmctld", "munge"):
            file = self.place / f"{name}.pid"
            if file.exists():
                try:
                    os.kill(int(file.read_text()), signal.SIGTERM)
                except ProcessLookupError:
                    pass
        end = time.monotonic() + 10
        while list(self.place.glob("*.pid")) and time.monotonic() < end:
            time.sleep(0.1)
        kill(processes("", self.conf))
        shutil.rmtree(self.place, ignore_errors=True)


def run(*command, **environment):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, env={**os.environ, **environment},
                          cwd=SCRATCH)


def sbatch(script, options, arguments, **environment):
    """The number of a new job."""
    done = run("sbatch", "--parsable", *options, ROOT / f"packaging/slurm/{script}.sbatch", *arguments, **environment)
    assert done.returncode == 0, done
    return done.stdout.split(";")[0].strip()


def facts(job):
    return dict(word.split("=", 1)
                for word in run("scontrol", "show", "job", job, "--oneliner").stdout.split() if "=" in word)


def output(job):
    file = SCRATCH / f"kinora-{job}.out"
    return file.read_text(errors="replace") if file.exists() else ""


def ended(job, code):
    """Waits for the job's end with this exit code."""
    found = until(lambda: (f := facts(job)).get("JobState") in ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL",
                                                                "TIMEOUT") and f, f"the end of job {job}")
    assert found["ExitCode"] == f"{code}:0", (found["JobState"], found["ExitCode"], output(job))


def steps(out):
    return [json.loads(line)["step"] for line in (out / "dit/metrics.jsonl").read_text().splitlines()]


TWO = ["--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=0", "--cpus-per-task=1"]


def training(name, number):
    out = quick.begun(KINORA, ROOT, SCRATCH / name)
    return out, [ROOT / "configs/quickstart.toml", "--out", out, "--only", "dit",
                 *[a for s in (*FEW, f"dit.steps={number}", "dit.checkpoint_every=10") for a in ("--set", s)]]


def check_restart():
    """Two ranks on two nodes; the first step fails, and a restart completes the run."""
    (SCRATCH / "once").write_text(ONCE)
    (SCRATCH / "once").chmod(0o755)
    out, arguments = training("restart", 4)
    how = dict(KINORA=str(SCRATCH / "once"), REAL=str(KINORA), KINORA_TIMEOUT_MS="20000")
    job = sbatch("train", TWO, arguments, KINORA_RESTARTS="1", **how)
    ended(job, 0)
    assert output(job).count("restart 1 of 1, from the last checkpoint") == 1, output(job)
    assert steps(out) == [1, 2, 3, 4] and (out / "logs/rank-1.log").exists(), output(job)
    job = sbatch("train", TWO, training("fails", 4)[1], **how)
    ended(job, 1)
    assert "restart" not in output(job), output(job)


def check_refused():
    job = sbatch("train", TWO, ["nonesuch.toml"], KINORA_RESTARTS="3", KINORA=str(KINORA))
    ended(job, 2)
    assert "restart" not in output(job) and "nonesuch.toml" in output(job), output(job)


def check_stopped():
    """Slurm's warning before the time limit, here by scancel: a checkpoint, and no restart."""
    out, arguments = training("stopped", 2000)
    job = sbatch("train", TWO, arguments, KINORA_RESTARTS="3", KINORA=str(KINORA))
    until(lambda: (out / "dit/metrics.jsonl").exists() and len(steps(out)) > 3, "three steps")
    assert run("scancel", "--signal=TERM", job).returncode == 0
    until(lambda: facts(job).get("JobState") in ("FAILED", "COMPLETED", "CANCELLED"), "the end")
    assert "restart" not in output(job) and list((out / "dit/checkpoints").glob("step-*")), output(job)


def processes(name, *variables):
    """Those of a program in whose environment all of these are; "": of any program."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int(folder.name) != os.getpid() and name in ("", (folder / "comm").read_text().strip()) and all(
                v.encode() in (folder / "environ").read_bytes() for v in variables):
                found.append(int(folder.name))
        except OSError:
            pass
    return found


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def check_lost_node(cluster):
    """A node loses its daemon and its connection: Slurm requeues the job, and srun, which is stopped, ends no rank. The
    ranks of the lost attempt end themselves, and every step is done once."""
    out, arguments = training("lost", 200)
    job = sbatch("train", ["--nodes=1", "--ntasks-per-node=2", *TWO[2:]], arguments, KINORA=str(KINORA),
                 KINORA_LEASE_SECONDS="4")
    until(lambda: (out / "dit/metrics.jsonl").exists() and len(steps(out)) > 12, "twelve steps")
    node, lost = facts(job)["BatchHost"], processes("srun", f"SLURM_JOB_ID={job}\0", cluster.conf)
    ranks = processes("kinora", f"SLURM_JOB_ID={job}\0", cluster.conf)
    assert lost and len(ranks) == 2, (lost, ranks)
    for pid in lost:
        os.kill(pid, signal.SIGSTOP)
    os.kill(int((cluster.place / f"slurmd-{node}.pid").read_text()), signal.SIGKILL)
    assert run("scontrol", "update", f"nodename={node}", "state=down", "reason=lost").returncode == 0
    # Slurm holds a requeued job for two minutes.
    until(lambda: run("scontrol", "update", f"jobid={job}",
                      "StartTime=now") and facts(job).get("Restarts") == "1"
          and facts(job).get("JobState") == "RUNNING", "the next attempt")
    until(lambda: not {*ranks} & {*processes("kinora", cluster.conf)}, "the end of the ranks that were lost")
    kill(lost)
    ended(job, 0)
    assert steps(out) == list(range(1, 201)), steps(out)
    assert not list(SCRATCH.glob(".kinora-*")), list(SCRATCH.glob(".kinora-*"))
    assert f"attempt 1 of Slurm job kinora/{job} takes over from attempt 0 (process " in output(job), output(job)


def check_plain():
    """`srun kinora run` in a script of one's own, on two nodes whose names only Slurm knows."""
    out, arguments = training("plain", 4)
    wrapped = " ".join(shlex.quote(str(a)) for a in ("srun", "--cpus-per-task=1", KINORA, "run", *arguments))
    done = run("sbatch", "--parsable", *TWO, "--output=kinora-%j.out", "--wrap", wrapped)
    assert done.returncode == 0, done
    job = done.stdout.strip()
    ended(job, 0)
    assert steps(out) == [1, 2, 3, 4], output(job)


def check_array():
    """Each task of an array curates its share of a list of videos."""
    videos = [ROOT / f"tests/data/bbb_{letter}.mp4" for letter in "ABCD"]
    (SCRATCH / "videos.txt").write_text("".join(f"{video}\n" for video in videos))
    (SCRATCH / "cut.toml").write_text(
        '[run]\nname = "cut"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = "videos.txt"\nstages = ["video.probe", '
        '"shots.content", "video.clips"]\n')
    job = sbatch("curate", ["--array=0-1", "--cpus-per-task=1"], ["cut.toml", "clips", "videos.txt", SCRATCH / "parts"],
                 KINORA=str(KINORA))
    parts = [SCRATCH / f"parts/part-{task}/clips/summary.json" for task in (0, 1)]
    until(lambda: all(part.exists() for part in parts), f"both parts {list(SCRATCH.glob('kinora-*'))}")
    found = [json.loads(part.read_text()) for part in parts]
    assert [one["inputs"] for one in found] == [2, 2] and all(one["clips"]["kept"] > 0 for one in found), found


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    missing = [name for name in ("munged", "slurmctld", "slurmd",
                                 "sbatch") if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")]
    if missing:
        return skip("slurm_daemons", f"{missing[0]} is not installed; packaging/dev.sh slurm installs it")
    if os.geteuid() != 0:
        return skip("slurm_daemons", "only root may start Slurm's daemons")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    with Cluster() as cluster:
        for check, given in ((check_restart, []), (check_refused, []), (check_stopped, []), (check_plain, []),
                             (check_array, []), (check_lost_node, [cluster])):
            begun = time.monotonic()
            check(*given)
            print(f"ok    {check.__name__} ({time.monotonic() - begun:.0f} s)", flush=True)


main()
