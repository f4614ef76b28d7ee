#!/usr/bin/env python3
"""The quickstart, from video to generated video, killed with -9 at random moments: the run that ends has the bytes of
an uninterrupted one. usage: run_kill.py KINORA ROOT SCRATCH [KILLS [SEED]]"""
import json, os, pathlib, random, shutil, signal, subprocess, sys, time

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
KILLS, SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 6, int(sys.argv[5]) if len(sys.argv) > 5 else 7
FEW = ["tokenizer.steps=6", "tokenizer.frames=5", "tokenizer.height=32", "tokenizer.width=48",
       "tokenizer.checkpoint_every=2", "latents.frames=5",
       "latents.height=32", "latents.width=48", "dit.steps=24", "dit.batch=2", "dit.checkpoint_every=3",
       "dit.validation_every=6",
       "dit.model.layers=2", "film.sampler.steps=3"]
# times, memory, order of the work
OWN = {"summary.json", "metrics.jsonl", "live.json", "metrics.prom", "record.db", "kinora.log", "report.html", ".lock",
       ".weights.json"}


def start(out):
    sets = [a for s in FEW for a in ("--set", s)]
    return subprocess.Popen([KINORA, "run", str(ROOT / "configs/quickstart.toml"), "--out", str(out), *sets],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finish(out):
    began = time.monotonic()
    process = start(out)
    said = process.communicate(timeout=600)[1]
    assert process.returncode == 0, said
    return time.monotonic() - began


def results(out):
    """The run's files but those with times; of the metrics, what was computed."""
    files = {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*"))
             if p.is_file() and p.name not in OWN and not p.name.startswith(".lease-")
             and "tensorboard" not in p.relative_to(out).parts}
    for video in sorted(out.glob("film/videos/*.json")):
        files[str(video.relative_to(out))] = json.dumps({k: v
                                                         for k, v in json.loads(video.read_text()).items()
                                                         if k != "seconds"})
    for metrics in sorted(out.rglob("metrics.jsonl")):
        if metrics.parent.name in ("tokenizer", "dit"):
            steps = [json.loads(line) for line in metrics.read_text().splitlines()]
            files[str(metrics.relative_to(out))] = json.dumps([{k: v
                                                                for k, v in s.items()
                                                                if k in (
                                                                    "step", "loss", "validation_loss", "gradient_norm")}
                                                               for s in steps])
    return files


def temporary(out):
    return [str(p) for p in out.rglob("*") if ".tmp" in p.name or ".part" in p.name]


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    whole, killed = SCRATCH / "whole", SCRATCH / "killed"
    seconds = finish(whole)
    moments, done, at = random.Random(SEED), 0, []
    while done < KILLS:
        process = start(killed)
        # each run continues the one before, so short lives reach every job
        wait = moments.uniform(0.05, max(0.6, 2.5 * seconds / KILLS))
        try:
            process.wait(wait)
            assert process.returncode == 0, process.stderr.read()
            shutil.rmtree(killed)  # it ended before its kill: again from the start
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            done += 1
            at.append(sorted(p.name for p in killed.iterdir() if p.is_dir())[-1:] if killed.exists() else [])
    finish(killed)
    want, got = results(whole), results(killed)
    assert sorted(want) == sorted(got), (sorted(set(want) ^ set(got)))
    differ = [name for name in want if want[name] != got[name]]
    assert not differ, f"other bytes after {KILLS} kills, seed {SEED}: {differ}"
    assert len(want) > 20 and any("weights" in name
                                  for name in want) and any(name.endswith("000.mp4") for name in want), sorted(want)
    assert not temporary(killed), temporary(killed)
    print(
        f"{KILLS} kills, an uninterrupted run takes {seconds:.1f} s; {len(want)} files are the same; jobs begun at the "
        f"kills: {sorted({a[0] for a in at if a})}")


main()
