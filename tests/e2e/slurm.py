#!/usr/bin/env python3
"""packaging/slurm/train.sbatch without Slurm: a fake srun starts local copies with Slurm's variables, and does to them
what slurm_daemons.py has seen the real one do. Two ranks train one run; a rank that fails once is restarted; a refused
run is not. curate.sbatch: what its tasks run. usage: slurm.py KINORA ROOT SCRATCH"""
import json, os, pathlib, shutil, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import quick
from skips import skip

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
SRUN = r"""#!/usr/bin/env bash
# As srun does it for tasks on one node: after one fails, the others get SIGTERM (--kill-on-bad-exit), and the highest
# code is returned.
set -um
args=()
for arg; do [[ ${#args[@]} -eq 0 && $arg == --* ]] || args+=("$arg"); done
step=$(cat "$FAKE/steps" 2>/dev/null || echo 0); echo $((step + 1)) >"$FAKE/steps"
if [[ $step == 0 && -n ${NO_STEP:-} ]]; then echo "srun: error: Unable to create step" >&2; exit 1; fi
pids=()
for ((task = 0; task < SLURM_NTASKS; task++)); do
  SLURM_STEP_ID=$step SLURM_STEP_NUM_TASKS=$SLURM_NTASKS SLURM_STEP_NODELIST=$SLURM_JOB_NODELIST SLURM_PROCID=$task \
    SLURM_LOCALID=$task SLURM_NODEID=0 "${args[@]}" &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do
  one=0
  wait -n || one=$?
  if ((one && !code)); then for other in "${pids[@]}"; do kill -TERM -- "-$other" 2>/dev/null; done; fi
  ((one <= code)) || code=$one
done
exit "$code"
"""
# The nodes' names are known to Slurm alone.
SCONTROL = """#!/usr/bin/env bash
[[ $* == "--oneliner show node kn1.invalid" && -z ${NO_SCONTROL:-} ]] || exit 1
echo "NodeName=kn1.invalid Arch=x86_64 CPUAlloc=0 NodeAddr=127.0.0.1 NodeHostName=kn1 State=IDLE"
"""
# Fails in place of rank 1 of the first srun.
ONCE = r"""#!/usr/bin/env bash
if [[ $SLURM_STEP_ID == 0 && $SLURM_PROCID == 1 ]]; then exit 1; fi
exec "$REAL" "$@"
"""
FEW = [*quick.FEW, "dit.steps=4", "dit.batch=4", "dit.model.layers=1", "dit.sample_every=0", 'dit.parallel=["ddp"]']

shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("once", ONCE)):
    (SCRATCH / name).write_text(text)
    (SCRATCH / name).chmod(0o755)


def sbatch(*arguments, **environment):
    """Runs the script as sbatch does on one node, with rank 1 of the first srun failing."""
    job = {"ENVIRONMENT": "BATCH", "SLURM_JOB_ID": str(os.getpid()), "SLURM_NTASKS": "2", "SLURM_PROCID": "0",
           "SLURM_LOCALID": "0",
           "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "kn1.invalid,kn2.invalid", "SLURM_CPUS_PER_TASK": "1",
           "FAKE": str(SCRATCH), "REAL": KINORA,
           "KINORA": str(SCRATCH / "once"), "KINORA_TIMEOUT_MS": "8000", "PATH": f"{SCRATCH}:{os.environ['PATH']}"}
    (SCRATCH / "steps").unlink(missing_ok=True)
    return subprocess.run(["bash", str(ROOT / "packaging/slurm/train.sbatch"), *arguments],
                          env={**os.environ, **job, **environment},
                          capture_output=True, text=True, timeout=300)


out = quick.begun(KINORA, ROOT, SCRATCH / "run")
arguments = [str(ROOT / "configs/quickstart.toml"), "--out", str(out), "--only", "dit",
             *[a for s in FEW for a in ("--set", s)]]
failed = sbatch(*arguments)
assert failed.returncode == 1 and "restart" not in failed.stderr, failed
done = sbatch(*arguments, KINORA_RESTARTS="1")
assert done.returncode == 0 and done.stderr.count("restart 1 of 1, from the last checkpoint") == 1, done
lines = [json.loads(line) for line in (out / "dit/metrics.jsonl").read_text().splitlines()]
assert [line["step"] for line in lines] == [1, 2, 3, 4] and lines[-1]["ranks"]["steps"] == [1, 1], lines
assert (out / "logs/rank-1.log").exists()
assert "info" in (out / "logs/rank-1.log").read_text(), "rank 1 must have its own log"
begun = sbatch(*arguments, KINORA_RESTARTS="1", NO_STEP="1")  # done already
assert begun.returncode == 0 and begun.stderr.count("restart 1 of 1, from the last checkpoint") == 1, begun
unknown = sbatch(*arguments, "--set", "dit.batch=2", NO_SCONTROL="1", KINORA=KINORA)
assert (unknown.returncode == 1
        and "the name of the first node, 'kn1.invalid', is not known on this machine" in unknown.stderr
        and "MASTER_ADDR=ADDRESS srun" in unknown.stderr), unknown
refused = sbatch("nonesuch.toml", KINORA_RESTARTS="3", KINORA=KINORA)
assert refused.returncode == 2 and "restart" not in refused.stderr, refused
assert not list(pathlib.Path.cwd().glob(".kinora-*")), "nothing is left where the job began"
script = subprocess.run([KINORA, "run", *arguments, "--set", "dit.parallel=[\"single\"]", "--dry-run"],
                        capture_output=True, text=True,
                        env={**os.environ, "ENVIRONMENT": "BATCH", "SLURM_PROCID": "0", "SLURM_NTASKS": "2",
                             "SLURM_JOB_ID": "1"})
assert (script.returncode == 0
        and "this Slurm job has 2 tasks, and this process is not one of them" in script.stderr), script


# What a task of an array, and a node's only task, run.
def curate(*arguments):
    environment = {**os.environ, "SLURM_NTASKS": "1", "SLURM_JOB_NODELIST": "kn1", "FAKE": str(SCRATCH),
                   "KINORA": "echo", "SLURM_CPUS_PER_TASK": "2", "PATH": f"{SCRATCH}:{os.environ['PATH']}"}
    return subprocess.run(["bash", str(ROOT / "packaging/slurm/curate.sbatch"), *arguments], env=environment,
                          capture_output=True, text=True, timeout=60)


task = curate("my.toml", "clips", "out", "--set", "clips.lease=9")
assert task.returncode == 0, task
assert task.stdout.split() == ("run my.toml --only clips --out out --set clips.lease=60 --set clips.lease=9").split(), (
    task)
wrong = curate("my.toml", "clips")
assert wrong.returncode == 2 and "usage: sbatch --array=1-N" in wrong.stderr, wrong
later = subprocess.run([KINORA, "check", str(ROOT / "configs/curate.toml"), "--set", "clips.memory=no", "--set",
                        "clips.memory=1073741824"], capture_output=True, text=True, timeout=60)
assert later.returncode == 0, later  # a later --set counts
if shutil.which("shellcheck"):
    subprocess.run(["shellcheck", "--severity=warning",
                    *(str(ROOT / f"packaging/slurm/{name}.sbatch") for name in ("train", "torchrun", "curate", "ray"))],
                   check=True)
else:
    skip("the scripts by shellcheck", "shellcheck is not installed")
print("two ranks by srun, a restart, a refusal, a task of an array")
