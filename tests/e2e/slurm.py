#!/usr/bin/env python3
"""packaging/slurm/train.sbatch without Slurm: a fake srun starts local copies with Slurm's variables, and does to them
what slurm_daemons.py has seen the real one do. Two ranks train one run; a rank that fails once is restarted; a refused
run is not. curate.sbatch: which videos a task takes. usage: slurm.py KINORA ROOT SCRATCH"""
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
unknown = sbatch(*arguments, "--set", "dit.batch=2", NO_SCONTROL="1", KINORA=KINORA)
assert (unknown.returncode == 1
        and "the name of the first node, 'kn1.invalid', is not known on this machine" in unknown.stderr
        and "MASTER_ADDR=ADDRESS srun" in unknown.stderr), unknown
refused = sbatch("nonesuch.toml", KINORA_RESTARTS="3", KINORA=KINORA)
assert refused.returncode == 2 and "restart" not in refused.stderr, refused
script = subprocess.run([KINORA, "run", *arguments, "--set", "dit.parallel=[\"single\"]", "--dry-run"],
                        capture_output=True, text=True,
                        env={**os.environ, "ENVIRONMENT": "BATCH", "SLURM_PROCID": "0", "SLURM_NTASKS": "2",
                             "SLURM_JOB_ID": "1"})
assert (script.returncode == 0
        and "this Slurm job has 2 tasks, and this process is not one of them" in script.stderr), script


# The tasks of an array: each video in one part, or an error.
STUB = r"""#!/usr/bin/env bash
for arg; do
  [[ $arg == *.input=* ]] && file=${arg#*=\"} && list=${file%\"}
  [[ ${before:-} == --out ]] && out=$arg
  before=$arg
done
mkdir -p "$out" && cat "$list" >"$out/videos"
"""
(SCRATCH / "stub").write_text(STUB)
(SCRATCH / "stub").chmod(0o755)
VIDEOS = [f"{i}.mp4" for i in range(11)]
(SCRATCH / "videos.txt").write_text("".join(f"{v}\n" for v in VIDEOS))


def curate(task, array, folder, **environment):
    """One task of an array with these ids."""
    gaps = {b - a for a, b in zip(array, array[1:])}
    job = {"SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_TASK_MIN": array[0], "SLURM_ARRAY_TASK_MAX": array[-1],
           "SLURM_ARRAY_TASK_COUNT": len(array),
           "SLURM_ARRAY_TASK_STEP": gaps.pop() if len(gaps) == 1 else 1, "SLURM_NTASKS": 1, "SLURM_JOB_NODELIST": "kn1",
           "FAKE": SCRATCH, "KINORA": SCRATCH / "stub",
           "PATH": f"{SCRATCH}:{os.environ['PATH']}"}
    return subprocess.run(["bash", str(ROOT / "packaging/slurm/curate.sbatch"), "my.toml", "clips",
                           str(SCRATCH / "videos.txt"), str(SCRATCH / folder)],
                          env={**os.environ, **{name: str(value) for name, value in job.items()}, **environment},
                          capture_output=True, text=True, timeout=60)


def videos_in(folder):
    return {int(part.parent.name.removeprefix("part-")): part.read_text().split()
            for part in (SCRATCH / folder).glob("part-*/videos")}


for task in range(4):
    assert curate(task, range(4), "all").returncode == 0
whole = videos_in("all")
assert sorted(whole) == [0, 1, 2, 3] and sorted(v for part in whole.values() for v in part) == sorted(VIDEOS), whole
(SCRATCH / "all/part-3/videos").unlink()
again = curate(3, [3], "all", KINORA_PARTS="4")
assert again.returncode == 0 and videos_in("all") == whole, again
for task, array, parts, words in ((3, [3], "", "without a gap"), (2, range(0, 7, 2), "", "without a gap"),
                                  (1, range(1, 5), "", "without a gap"), (3, [0, 1, 3], "", "without a gap"),
                                  (4, [4], "4", "task 4 is none of 4 parts"), (0, [0], "none", "is not a number"),
                                  (0, [0], "0", "is not a number")):
    wrong = curate(task, array, "wrong", KINORA_PARTS=parts)
    assert (wrong.returncode == 2 and words in wrong.stderr and "KINORA_PARTS=4 sbatch --array=3 ..." in wrong.stderr
            and not videos_in("wrong")), (task, array, wrong)
for wrong in (curate(0, [0], "all", KINORA_PARTS="5"), curate(0, range(3), "all")):
    assert wrong.returncode == 2 and "all has 4 parts, not " in wrong.stderr and videos_in("all") == whole, wrong
if shutil.which("shellcheck"):
    subprocess.run(["shellcheck", "--severity=warning",
                    *(str(ROOT / f"packaging/slurm/{name}.sbatch") for name in ("train", "torchrun", "curate"))],
                   check=True)
else:
    skip("the scripts by shellcheck", "shellcheck is not installed")
print("two ranks by srun, a restart, a refusal, the parts of a list")
