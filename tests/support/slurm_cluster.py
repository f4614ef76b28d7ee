"""Slurm's daemons on this machine for tests: munged, slurmctld and three slurmd on loopback, whose nodes have names
that do not resolve; and what tests ask of jobs."""
import os, pathlib, secrets, shutil, signal, subprocess, tempfile, time

import quick

NODES = ("kn1", "kn2", "kn3")
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch")
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT")
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


def until(condition, what, seconds=90):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)
    return found


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


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


class Cluster:
    """Daemons in a folder of their own, with a short name since it has sockets. Jobs begin, and write, in `work`."""

    def __init__(self, work, scripts):
        self.work, self.scripts = work, scripts

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
            until(lambda: self.run("sinfo", "-h", "-o", "%D %t").stdout.split() == ["3", "idle"], "three idle nodes")
        except BaseException as e:
            self.__exit__(type(e))
            raise
        return self

    def start(self, *command):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        assert done.returncode == 0, done

    def slurmd(self, node):
        self.start("slurmd", "-N", node, "-f", self.place / "slurm.conf")

    def __exit__(self, kind=None, *_):
        if kind and (log := self.place / "slurmctld.log").exists():
            print(log.read_text(errors="replace")[-4000:], flush=True)
        self.run("scancel", "--user=root", "--signal=KILL", "--full")
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
        kill(self.processes(""))
        shutil.rmtree(self.place, ignore_errors=True)

    def run(self, *command, **environment):
        return subprocess.run([str(c) for c in command], capture_output=True, text=True,
                              env={**os.environ, **environment}, cwd=self.work)

    def sbatch(self, script, options, arguments, **environment):
        """The number of a new job."""
        done = self.run("sbatch", "--parsable", *options, self.scripts / f"{script}.sbatch", *arguments, **environment)
        assert done.returncode == 0, done
        return done.stdout.split(";")[0].strip()

    def facts(self, job):
        return dict(word.split("=", 1)
                    for word in self.run("scontrol", "show", "job", job, "--oneliner").stdout.split() if "=" in word)

    def output(self, job):
        file = self.work / f"kinora-{job.replace('_', '-')}.out"
        return file.read_text(errors="replace") if file.exists() else ""

    def ended(self, job, code=None):
        """Waits for the job's end, with this exit code."""
        found = until(lambda: (f := self.facts(job)).get("JobState") in ENDED and f, f"the end of job {job}")
        assert code is None or found["ExitCode"] == f"{code}:0", (found["JobState"], found["ExitCode"],
                                                                   self.output(job))

    def starts_again(self, job):
        """Slurm holds a requeued job for two minutes; this one does not wait."""
        until(lambda: self.run("scontrol", "update", f"jobid={job}", "StartTime=now")
              and self.facts(job).get("Restarts") == "1" and self.facts(job).get("JobState") == "RUNNING",
              "the next attempt")

    def processes(self, name, job=None):
        """Those that jobs of this cluster, or this one, have started."""
        return processes(name, self.conf, *([f"SLURM_JOB_ID={job}\0"] if job else []))

    def lose(self, node):
        """The daemon of a node dies, and Slurm sees it at once."""
        os.kill(int((self.place / f"slurmd-{node}.pid").read_text()), signal.SIGKILL)
        assert self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=lost").returncode == 0
