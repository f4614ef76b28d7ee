#!/usr/bin/env python3
"""packaging/slurm on real daemons. Two ranks train one run; a rank that fails is restarted, a refused run is not; a
requeued job continues, also while its lost attempt still runs; a second job in the folder of a run is refused; an array
curates; a run has a Ray cluster of its own, on which the engine `ray` curates. usage: slurm_daemons.py KINORA ROOT
SCRATCH [CHECK]..."""
import json, os, pathlib, shlex, shutil, signal, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import quick
from skips import skip
from slurm_cluster import Cluster, NEEDED, kill, until

KINORA, ROOT, SCRATCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
RAY = pathlib.Path(os.environ.get("KINORA_RAY_PYTHON") or ROOT / ".deps/ray/bin/python3").parent  # as of the test ray
# In place of the program: rank 1 of the first step of a job ends with 1.
ONCE = """#!/usr/bin/env bash
if [[ $SLURM_STEP_ID == 0 && $SLURM_PROCID == 1 ]]; then exit 1; fi
exec "$REAL" "$@"
"""
# In place of the program, under ray.sbatch.
PROGRAM = """#!/usr/bin/env python3
import ray, signal, sys
ray.init(log_to_driver=False, logging_level="ERROR")
nodes = [node["Resources"].get("CPU") for node in ray.nodes() if node["Alive"]]
ray.shutdown()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
print(*sys.argv[1:], "on", nodes, flush=True)
signal.pause()
"""
FEW = [*quick.FEW, "dit.batch=4", "dit.model.layers=1", "dit.sample_every=0", 'dit.parallel=["ddp"]']


def steps(out):
    return [json.loads(line)["step"] for line in (out / "dit/metrics.jsonl").read_text().splitlines()]


def reaches(out, step):
    until(lambda: (out / "dit/metrics.jsonl").exists() and len(steps(out)) >= step, f"{step} steps")


def contents(job):
    """The files of a job."""
    return {str(file): file.read_bytes() for file in sorted(job.rglob("*")) if file.is_file()}


ONE = ["--nodes=1", "--ntasks-per-node=1", "--gpus-per-node=0", "--cpus-per-task=1"]
TWO = ["--nodes=2", *ONE[1:]]


def training(name, number):
    out = quick.begun(KINORA, ROOT, SCRATCH / name)
    return out, [ROOT / "configs/quickstart.toml", "--out", out, "--only", "dit",
                 *[a for s in (*FEW, f"dit.steps={number}", "dit.checkpoint_every=10") for a in ("--set", s)]]


def check_restart(cluster):
    """Two ranks on two nodes; the first step fails, and a restart completes the run."""
    (SCRATCH / "once").write_text(ONCE)
    (SCRATCH / "once").chmod(0o755)
    out, arguments = training("restart", 4)
    how = dict(KINORA=str(SCRATCH / "once"), REAL=str(KINORA), KINORA_TIMEOUT_MS="20000")
    job = cluster.sbatch("train", TWO, arguments, KINORA_RESTARTS="1", **how)
    cluster.ended(job, 0)
    assert cluster.output(job).count("restart 1 of 1, from the last checkpoint") == 1, cluster.output(job)
    assert steps(out) == [1, 2, 3, 4] and (out / "logs/rank-1.log").exists(), cluster.output(job)
    job = cluster.sbatch("train", TWO, training("fails", 4)[1], **how)
    cluster.ended(job, 1)
    assert "restart" not in cluster.output(job), cluster.output(job)


def check_refused(cluster):
    job = cluster.sbatch("train", TWO, ["nonesuch.toml"], KINORA_RESTARTS="3", KINORA=str(KINORA))
    cluster.ended(job, 2)
    assert "restart" not in cluster.output(job) and "nonesuch.toml" in cluster.output(job), cluster.output(job)


def check_stopped(cluster):
    """Another job of this run is refused while it runs. Slurm's warning before the time limit, here by scancel: a
    checkpoint, and no restart."""
    out, arguments = training("stopped", 2000)
    job = cluster.sbatch("train", TWO, arguments, KINORA_RESTARTS="3", KINORA=str(KINORA))
    reaches(out, 4)
    second = cluster.sbatch("train", ONE, arguments, KINORA=str(KINORA))
    cluster.ended(second, 1)
    assert f"another kinora run is writing to {out} (process " in cluster.output(second), cluster.output(second)
    assert cluster.facts(job)["JobState"] == "RUNNING", cluster.output(job)
    assert cluster.run("scancel", "--signal=TERM", job).returncode == 0
    cluster.ended(job, 130)
    assert "restart" not in cluster.output(job) and list((out / "dit/checkpoints").glob("step-*")), cluster.output(job)


def check_requeued(cluster):
    """A job that is preempted continues from the checkpoint that it saved at once, in the same output file."""
    out, arguments = training("requeued", 100)
    job = cluster.sbatch("train", TWO, [*arguments, "--set", "dit.checkpoint_every=1000"], KINORA=str(KINORA),
                         KINORA_LEASE_SECONDS="4")
    reaches(out, 12)
    assert cluster.run("scontrol", "requeue", job).returncode == 0
    cluster.starts_again(job)
    cluster.ended(job, 0)
    assert steps(out) == list(range(1, 101)), steps(out)
    second = json.loads((out / "dit/summary.json").read_text())["ranks"]["steps"]
    assert max(second) <= 88, second
    assert not list(SCRATCH.glob(".kinora-*")), list(SCRATCH.glob(".kinora-*"))


def check_lost_node(cluster, frozen):
    """A node loses its daemon and its connection: Slurm requeues the job, and srun, which is stopped, ends no rank. The
    ranks of the lost attempt end themselves, and every step is done once. frozen: they stand still until the next
    attempt is done, and then change nothing."""
    out, arguments = training("frozen" if frozen else "lost", 120)
    job = cluster.sbatch("train", ["--nodes=1", "--ntasks-per-node=2", *TWO[2:]], arguments, KINORA=str(KINORA),
                         KINORA_LEASE_SECONDS="4")
    reaches(out, 13)
    node = cluster.facts(job)["BatchHost"]
    lost, ranks = cluster.processes("srun", job), cluster.processes("kinora", job)
    assert lost and len(ranks) == 2, (lost, ranks)
    for pid in [*lost, *(ranks if frozen else [])]:
        os.kill(pid, signal.SIGSTOP)
    cluster.lose(node)
    cluster.starts_again(job)
    if frozen:
        cluster.ended(job, 0)
        before = contents(out / "dit")
        for pid in ranks:
            os.kill(pid, signal.SIGCONT)
    until(lambda: not {*ranks} & {*cluster.processes("kinora")}, "the end of the ranks that were lost")
    kill(lost)
    cluster.ended(job, 0)
    assert steps(out) == list(range(1, 121)), steps(out)
    assert not frozen or contents(out / "dit") == before, "the attempt that was lost has changed the run"
    until(lambda: not list(SCRATCH.glob(".kinora-*")), f"the end of {list(SCRATCH.glob('.kinora-*'))}")
    said = cluster.output(job)
    assert f"attempt 1 of Slurm job kinora/{job} takes over from attempt 0 (process " in said, said
    cluster.slurmd(node)


def check_plain(cluster):
    """`srun kinora run` in a script of one's own, on two nodes whose names only Slurm knows."""
    out, arguments = training("plain", 4)
    wrapped = " ".join(shlex.quote(str(a)) for a in ("srun", "--cpus-per-task=1", KINORA, "run", *arguments))
    done = cluster.run("sbatch", "--parsable", *TWO, "--output=kinora-%j.out", "--wrap", wrapped)
    assert done.returncode == 0, done
    job = done.stdout.strip()
    cluster.ended(job, 0)
    assert steps(out) == [1, 2, 3, 4], cluster.output(job)


def leased_by(out, pids):
    """Whether one of these processes has a lease of inputs."""
    for file in out.glob(".leases/clips/*/leases/0*.json"):
        try:
            lease = json.loads(file.read_text())
        except FileNotFoundError:  # replaced just now
            continue
        if lease["state"] == "held" and any(f"-{pid}-" in lease["owner"] for pid in pids):
            return True
    return False


def check_array(cluster):
    """The tasks of an array share a job by leases. One loses its node and is requeued, while its first attempt stands
    still; that changes nothing when it continues."""
    videos = [ROOT / f"tests/data/{name}.mp4" for name in ("bbb_A", "bbb_B", "bbb_C", "bbb_D", "film")]
    (SCRATCH / "videos.txt").write_text("".join(f"{video}\n" for video in videos))
    (SCRATCH / "cut.toml").write_text(
        '[run]\nname = "cut"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = "videos.txt"\nthreads = 1\n'
        'stages = ["video.probe", "shots.content", { use = "clip.transcode", min_length = 0.5, min_frames = 1, '
        'edge_crop = 0.0, preset = "ultrafast" }]\n')
    out, sets = SCRATCH / "cut", ["--set", "clips.lease=1", "--set", "clips.lease_inputs=1"]
    job = cluster.sbatch("curate", ["--array=1-2", "--cpus-per-task=4"], ["cut.toml", "clips", out, *sets],
                         KINORA=str(KINORA))
    one, two = f"{job}_1", f"{job}_2"
    number = until(lambda: (f := cluster.facts(one)).get("JobState") == "RUNNING" and f["JobId"], "the first task")
    until(lambda: leased_by(out, cluster.processes("kinora", number)), "its first lease")
    node = cluster.facts(one)["BatchHost"]
    lost, workers = cluster.processes("srun", number), cluster.processes("kinora", number)
    for pid in [*lost, *workers]:
        os.kill(pid, signal.SIGSTOP)
    cluster.lose(node)
    cluster.starts_again(one)
    cluster.ended(one, 0)
    cluster.ended(two, 0)
    found = json.loads((out / "clips/summary.json").read_text())
    assert found["inputs"] == len(videos) and found["clips"]["kept"] > 0, found
    before = contents(out / "clips")
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    until(lambda: not {*workers} & {*cluster.processes("kinora")}, "the end of the attempt that was lost")
    kill(lost)
    assert contents(out / "clips") == before, "the attempt that was lost has changed results"
    cluster.slurmd(node)


def check_ray(cluster):
    """A run has a Ray cluster of two nodes, whose token no one else can read; a second one runs next to it. Nothing is
    left of one that stops before its time limit, here by scancel, nor of one that is cancelled."""
    if not (RAY / "ray").exists():
        return skip("slurm_daemons: ray.sbatch", f"Ray is not installed in {RAY / 'python3'}; packaging/dev.sh ray "
                                                 "installs it")
    (SCRATCH / "program").write_text(PROGRAM)
    (SCRATCH / "program").chmod(0o755)
    how = dict(KINORA=str(SCRATCH / "program"), PATH=f"{RAY}:{os.environ['PATH']}")
    one, two = (cluster.sbatch("ray", ["--nodes=2", "--cpus-per-task=1", "--mem=300"], [file], **how)
                for file in ("one.toml", "two.toml"))
    for job, file in ((one, "one.toml"), (two, "two.toml")):
        until(lambda: f"run {file} on [1.0, 1.0]" in cluster.output(job), f"the run of {file}")
        assert (SCRATCH / f".kinora-ray-{job}-0").stat().st_mode & 0o777 == 0o600
    assert cluster.run("scancel", "--signal=TERM", "--batch", two).returncode == 0
    cluster.ended(two, 130)
    assert cluster.facts(one)["JobState"] == "RUNNING", cluster.output(one)
    assert cluster.run("scancel", one).returncode == 0
    cluster.ended(one)
    until(lambda: not any(cluster.processes("", job) for job in (one, two)), "the end of all their processes", 30)
    left = [*SCRATCH.glob(".kinora-ray-*"), *(place for job in (one, two)
                                              for place in pathlib.Path("/tmp").glob(f"kinora-ray-{job}-0-*"))]
    assert not left, left


def check_ray_engine(cluster):
    """The engine `ray` on the nodes of such a job: the files of engine/local."""
    if not (RAY / "ray").exists():
        return skip("slurm_daemons: the engine ray", f"Ray is not installed in {RAY / 'python3'}; packaging/dev.sh ray "
                                                     "installs it")
    (SCRATCH / "spread.toml").write_text(
        f'[run]\nname = "spread"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = "{ROOT}/tests/data/bbb_?.mp4"\n'
        'stages = ["video.probe", "shots.content", { use = "clip.transcode", min_length = 0.5, min_frames = 1, '
        'edge_crop = 0.0, preset = "ultrafast", max_height = 120 }]\n')
    job = cluster.sbatch("ray", ["--nodes=2", "--cpus-per-task=1", "--mem=400"],
                         ["spread.toml", "--out", SCRATCH / "spread", "--set", "run.engine.use=ray"],
                         KINORA=str(KINORA), KINORA_PREFIX=str(KINORA.parents[1]), VIRTUAL_ENV=str(RAY.parent),
                         PATH=f"{RAY}:{os.environ['PATH']}",
                         PYTHONPATH=f"{ROOT / 'packaging/wheel'}:{ROOT / 'packaging/ray'}")
    cluster.ended(job, 0)
    done = cluster.run(KINORA, "run", "spread.toml", "--out", SCRATCH / "here")
    assert done.returncode == 0, done
    spread, here = (contents(SCRATCH / name / "clips/data") for name in ("spread", "here"))
    assert len(here) > 3 and [*spread.values()] == [*here.values()], (cluster.output(job), [*spread], [*here])
    assert (SCRATCH / "spread/clips/ray.log").exists(), cluster.output(job)
    until(lambda: not cluster.processes("", job), "the end of all its processes", 30)


CHECKS = {"restart": check_restart, "refused": check_refused, "stopped": check_stopped, "plain": check_plain,
          "requeued": check_requeued, "array": check_array, "ray": check_ray, "ray_engine": check_ray_engine,
          "lost": lambda cluster: check_lost_node(cluster, False),
          "frozen": lambda cluster: check_lost_node(cluster, True)}


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        return skip("slurm_daemons", f"{missing[0]} is not installed; packaging/dev.sh slurm installs it")
    if os.geteuid() != 0:
        return skip("slurm_daemons", "only root may start Slurm's daemons")
    with Cluster(SCRATCH, ROOT / "packaging/slurm") as cluster:
        for name in sys.argv[4:] or CHECKS:
            begun = time.monotonic()
            CHECKS[name](cluster)
            print(f"ok    {name} ({time.monotonic() - begun:.0f} s)", flush=True)


main()
