#!/usr/bin/env python3
"""Ranks that were started with other options, in another folder or for another run are refused before they compute,
with the difference, and no rank waits forever.
usage: strangers.py KINORA ROOT SCRATCH"""
import os, pathlib, re, shutil, signal, subprocess, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import quick

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
FEW = [*quick.FEW, "dit.steps=400", "dit.batch=4", "dit.model.layers=2", "dit.threads=1", 'dit.parallel=["ddp"]',
       'tokenizer.parallel=["ddp"]']


def command(out, *options, sets=()):
    return [KINORA, "run", str(ROOT / "configs/quickstart.toml"), "--out", str(out), *options,
            *[a for s in [*FEW, *sets] for a in ("--set", s)]]


class Ranks:
    """Two processes with torchrun's variables; the second may belong to another run."""

    def __init__(self, out, other=None, sets=(), timeout=120, options=("--only", "dit")):
        env = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(quick.held_port()),
               "KINORA_TIMEOUT_MS": str(timeout * 1000)}
        self.begin = time.monotonic()
        self.all = [subprocess.Popen(command(folder, *options, sets=own), env={**env, "RANK": str(r)},
                                     stderr=subprocess.PIPE, text=True)
                    for r, (folder, own) in enumerate([(out, ()), (other or out, sets)])]

    def end_of(self, rank, limit):
        """Exit code and messages of a rank that ends by itself."""
        text = self.all[rank].communicate(timeout=limit)[1]
        return self.all[rank].returncode, text

    def stop(self):
        for p in self.all:
            if p.poll() is None:
                p.send_signal(signal.SIGTERM)
        for p in self.all:
            p.wait(timeout=60)


def refused(name, text_parts, limit, code, **how):
    ranks = Ranks(SCRATCH / "one", **how)
    got, text = ranks.end_of(1, limit)
    seconds = time.monotonic() - ranks.begin
    ranks.stop()
    assert got == code, (name, got, text)
    for part in text_parts:
        assert part in text, (name, part, text)
    print(f"{name}: refused after {seconds:.0f} s: {text.strip().splitlines()[-1][:160]}")


shutil.rmtree(SCRATCH, ignore_errors=True)
quick.begun(KINORA, ROOT, SCRATCH / "one")
done = subprocess.run(command(SCRATCH / "one", "--only", "latents"), stderr=subprocess.PIPE, text=True, timeout=300)
assert done.returncode == 0, done.stderr
refused("another seed", ["rank 1 does not agree with rank 0", "run.seed is 1 there and 5 here"], 60, 2,
        sets=["run.seed=5"])
refused("another option", ["job 'dit': batch is 4 there and 8 here"], 60, 2, sets=["dit.batch=8"])
refused("an option of a later job", ["job 'film': sampler.steps is 24 there and 3 here"], 60, 2,
        sets=["film.sampler.steps=3"], options=())
refused("an empty folder", ["rank 0 did not begin in", "two within 12 s (no run has begun there)"], 60, 1,
        other=SCRATCH / "two", timeout=12)

# Two runs that meet by accident: each folder was used by its own launch before.
one, two = SCRATCH / "one", SCRATCH / "other"
shutil.copytree(one, two)
ranks = Ranks(one, other=two)
for rank in (1, 0):
    code, text = ranks.end_of(rank, 120)
    assert code != 0 and "the run's folder: rank 1 has " in text, (rank, code, text)
    assert not re.search(r"dit: step", text), text
ranks.stop()
print("two runs that meet: refused by both")

# Rank 0 is gone while the other waits for a job that only rank 0 runs.
shutil.rmtree(one / "clips")
ranks = Ranks(one, timeout=8, options=("--only", "latents"))
while not (one / "clips" / "job.json").exists():
    time.sleep(0.02)
ranks.all[0].kill()
code, text = ranks.end_of(1, 60)
assert code == 1 and "rank 0 no longer runs in" in text, (code, text)
print(f"rank 0 gone: {time.monotonic() - ranks.begin:.0f} s")
