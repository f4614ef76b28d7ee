#!/usr/bin/env python3
"""A run under changes and disturbances: Ctrl-C, a full disk, other options, failing and missing ranks; and the program
outside of the checkout. usage: running.py KINORA ROOT SCRATCH"""
import json, os, pathlib, re, shutil, signal, subprocess, sys, time

import numpy as np
import safetensors.numpy

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.append(str(ROOT / "tests/support"))
import quick
from skips import skip


def kinora(*arguments, code=0):
    done = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{arguments}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done.stdout


def quick_run(out, steps):
    few = [*quick.FEW, "film.sampler.steps=2", "dit.batch=1", "dit.model.layers=1", f"dit.steps={steps}"]
    return [KINORA, "run", str(ROOT / "configs/quickstart.toml"), "--out", str(out),
            *(a for s in few for a in ("--set", s))]


def check_interrupt():
    """Ctrl-C during training: exit code 130, one line, no partial files; the same command resumes."""
    out = quick.begun(KINORA, ROOT, SCRATCH / "interrupted")
    command = quick_run(out, steps=100000)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    curve = out / "dit/metrics.jsonl"
    end = time.monotonic() + 240
    while time.monotonic() < end and process.poll() is None and not (curve.exists() and curve.stat().st_size > 500):
        time.sleep(0.1)
    assert " info dit: " in (out / "kinora.log").read_text(), "a killed run leaves its lines"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, (process.returncode, said)
    assert "interrupted; run the same command again to continue" in said and "terminate" not in said, said
    assert (out / "kinora.log").read_text().endswith(" interrupted\n")
    left = [p for p in out.rglob("*") if p.name.endswith((".tmp", ".part")) or ".tmp" in p.name]
    assert not left, left
    again = subprocess.run([*command, "--dry-run"], capture_output=True, text=True)
    assert (again.returncode == 0 and "latents: already done" in again.stderr
            and "dit: would run" in again.stderr), again.stdout + again.stderr


def check_full_disk():
    """The disk fills up during training: one line reports it, and no partial files remain; with free space the run
    resumes."""
    disk = SCRATCH / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(disk)], capture_output=True).returncode:
        skip("check_full_disk", "no permission to mount a small file system")
        return
    try:
        shutil.copytree(SCRATCH / "interrupted", disk / "run")
        shutil.rmtree(disk / "run/dit")
        left = shutil.disk_usage(disk).free - 400_000
        (disk / "filler").write_bytes(bytes(left))
        command = quick_run(disk / "run", steps=4)
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1 and re.search(r"No space left|full", done.stderr), (done.returncode, done.stderr)
        assert "LOG ERROR" not in done.stderr, done.stderr
        assert not list((disk / "run/dit").rglob("*.safetensors")), list((disk / "run/dit").rglob("*"))
        (disk / "filler").unlink()
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0 and (disk / "run/report.html").stat().st_size > 10_000, done.stderr
    finally:
        subprocess.run(["umount", str(disk)], check=False)


def check_noise():
    """A sampler that draws its own noise gets it from the run: another video, and the same one each time."""
    out = SCRATCH / "interrupted"
    videos = []
    for name, churn in (("still", 0.0), ("churn", 2.0), ("again", 2.0)):
        folder = SCRATCH / name
        shutil.copytree(out, folder, ignore=shutil.ignore_patterns("film", "dit"))
        done = subprocess.run([*quick_run(folder, steps=2), "--only", "film", "--set", 'dit.loss={use="edm"}',
                               "--set", f'film.sampler={{use="edm-heun", steps=4, s_churn={churn}}}'],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        videos.append((folder / "film/videos/000.mp4").read_bytes())
    assert videos[0] != videos[1] and videos[1] == videos[2]


def check_more_steps():
    """A finished training with `steps` raised continues where it ended; --from-scratch does not, and begins a finished
    one again; fewer steps give its results back."""
    folder = SCRATCH / "still"

    def said(steps, *more):
        done = subprocess.run([*quick_run(folder, steps), "--only", "dit", "--set", 'dit.loss={use="edm"}', *more],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    text = said(3)
    assert ("steps was 2 and is 3; it continues from the results in" in text
            and "dit: resuming after step 2; steps was 2 and is 3, so the" in text), text
    assert [json.loads(line)["step"] for line in (folder / "dit/metrics.jsonl").read_text().splitlines()] == [1, 2, 3]
    assert "dit: already done" in said(3, "--dry-run")
    first = (folder / "dit/job.json").stat().st_mtime_ns
    assert "dit: would run from scratch" in said(3, "--dry-run",
                                                 "--from-scratch") and (
                                                     folder / "dit/job.json").stat().st_mtime_ns == first
    text = said(3, "--from-scratch")
    assert ("dit: it starts from scratch; the old results are kept until it is done" in text
            and "dit: resuming" not in text and "latents: already done" in text), text
    assert [json.loads(line)["step"] for line in (folder / "dit/metrics.jsonl").read_text().splitlines()] == [1, 2, 3]
    assert not (folder / ".dit.before").exists() and "dit: already done" in said(3)
    every = subprocess.run([*quick_run(folder, 3), "--set", 'dit.loss={use="edm"}', "--from-scratch", "--dry-run"],
                           capture_output=True, text=True)
    assert "latents: already done; --from-scratch runs a finished job again with --only latents" in every.stderr, every
    assert "steps was 3 and is 4; it continues" in said(4, "--dry-run") and "starts from scratch" in said(
        2, "--dry-run")
    assert "dit: would run from scratch" in said(4, "--dry-run", "--from-scratch")


def check_identity():
    """The same job means the same options and the same named files, not how it runs. No other files are removed."""
    out = SCRATCH / "interrupted"
    vocabulary = SCRATCH / "vocab.txt"
    command = [*quick_run(out, steps=100000), "--dry-run", "--set"]

    def said(*sets):
        done = subprocess.run([*command, f"latents.words.vocab={vocabulary}", *(a for s in sets for a in ("--set", s))],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    vocabulary.write_bytes((pathlib.Path(os.environ["KINORA_ASSETS"]) / "minilm/vocab.txt").read_bytes())
    redo = quick_run(out, steps=100000)
    done = subprocess.run([*redo, "--only", "latents", "--set", f"latents.words.vocab={vocabulary}"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "latents: already done" in said()
    assert "latents: already done" in said("latents.threads=1") and "tokenizer: already done" in said(
        "tokenizer.checkpoint_every=1")
    assert "tokenizer: would run" in said("tokenizer.learning_rate=1e-4")
    vocabulary.write_text("".join(reversed(vocabulary.read_text().splitlines(keepends=True))))
    assert "latents: would run" in said() and "tokenizer: already done" in said()

    mine = SCRATCH / "mine"
    (mine / "clips/holiday").mkdir(parents=True)
    (mine / "clips/holiday/photo.txt").write_text("mine")
    refused = subprocess.run(quick_run(mine, steps=1), capture_output=True, text=True)
    assert refused.returncode == 1 and "holds files that no job made" in refused.stderr, refused.stderr
    assert (mine / "clips/holiday/photo.txt").read_text() == "mine"
    assert not (SCRATCH / "dry").exists()
    kinora("run", ROOT / "configs/quickstart.toml", "--out", SCRATCH / "dry", "--dry-run")
    assert not (SCRATCH / "dry").exists(), "a dry run writes nothing"
    bad = subprocess.run([KINORA, "check", str(ROOT / "configs/quickstart.toml"), "--set", "run.log=debugg"],
                         capture_output=True, text=True)
    assert bad.returncode == 2 and "did you mean 'debug'?" in bad.stderr + bad.stdout, bad


def check_ranks():
    """A failure on rank 0 ends the ranks that wait for it, with its reason."""
    video = SCRATCH / "no video.mp4"
    video.write_bytes(b"")
    file = SCRATCH / "ranks.toml"
    file.write_text(
        f'[run]\nout = "{SCRATCH / "ranks"}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = "{video}"\nstages = '
        f'["video.probe"]\n')
    both = [subprocess.Popen([KINORA, "run", str(file)], stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "RANK": rank, "WORLD_SIZE": "2"})
            for rank in ("1", "0")]
    for process, words in zip(both, ("job 'clips' failed on rank 0: none of the 1 inputs",
                                     "job 'clips' failed: none of the 1 inputs")):
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 1 and words in said, said


def check_waiting_rank():
    """A rank that waits for another reports it, and Ctrl-C ends it at once; the folder is then unlocked."""
    port = quick.held_port()
    out = SCRATCH / "waiting"
    shutil.copytree(SCRATCH / "interrupted", out, ignore=shutil.ignore_patterns("film", "dit"))
    command = [*quick_run(out, steps=2), "--only", "dit", "--set", 'dit.parallel=["ddp"]', "--set", "dit.batch=2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": str(port)})
    said = ""
    for line in process.stderr:
        said += line
        if "waiting for" in line:
            break
    process.send_signal(signal.SIGINT)
    said += process.communicate(timeout=60)[1]  # not after the 600 s
    assert process.returncode == 130, (process.returncode, said)
    assert (f"waiting for rank 1 at 127.0.0.1:{port}, at most 600 s" in said
            and "MASTER_ADDR is not set, and the ranks meet at 127.0.0.1" in said), said
    assert "[W" not in said and "Exception" not in said, said
    alone = subprocess.run([*command, "--set", 'dit.parallel=["single"]'], capture_output=True, text=True)
    assert alone.returncode == 0, alone.stderr


def check_installed():
    """The program outside the checkout, in an empty environment, finds its plugins, and libtorch where KINORA_TORCH
    says."""
    build, place = pathlib.Path(KINORA).resolve().parent.parent, SCRATCH / "installed"
    cmake = pathlib.Path(sys.executable).parent / "cmake"
    subprocess.run([cmake, "--install", build, "--prefix", place, "--strip"], check=True, capture_output=True)
    given = SCRATCH / "mixture.safetensors"
    safetensors.numpy.save_file({"mean": np.zeros((1, 2)), "std": np.ones(1), "weight": np.ones(1),
                                 "noise": np.ones((1, 2))}, given)
    done = subprocess.run([place / "bin/kinora", "apply", "sampler/euler", "--inputs", given, "--json"],
                          capture_output=True, text=True,
                          env=(bare := {"PATH": "/usr/bin:/bin", "HOME": str(SCRATCH),
                                        "KINORA_TORCH": str(ROOT / ".deps/torch/torch")}), cwd=SCRATCH)
    assert done.returncode == 0 and json.loads(done.stdout)["nfe"] == 35, done
    listed = subprocess.run([place / "bin/kinora", "plugins", "list", "--json"], capture_output=True, text=True,
                            env=bare)
    assert all(c["state"] == "ready" and c["library"].startswith(str(place))
               for c in json.loads(listed.stdout)), listed.stdout
    check_stage_in_c(place)


def check_stage_in_c(place):
    """The commands of sdk/README.md about a stage in plain C work as written."""
    section = (pathlib.Path(ROOT) / "sdk/README.md").read_text().split("## A stage in plain C\n")[1].split("\n## ")[0]
    commands = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    work = SCRATCH / "plain_c"
    work.mkdir()
    for command in commands:
        command = command.replace("<kinora's prefix>", str(place))
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=work,
                              env={**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}"})
        assert done.returncode == 0, (command, done)
    assert len(commands) > 2 and "stage/count.bytes" in done.stdout, (commands, done.stdout)


def main():
    subprocess.run(["umount", str(SCRATCH / "disk")], capture_output=True)  # left by a killed run
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    for check in (check_interrupt, check_full_disk, check_identity, check_noise, check_more_steps, check_ranks,
                  check_waiting_rank, check_installed):
        check()
        print("ok   ", check.__name__, flush=True)


main()
