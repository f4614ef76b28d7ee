#!/usr/bin/env python3
"""The quickstart from video to report, with few steps; then again (nothing is redone), and killed in the middle
(nothing is lost: the same losses). usage: quickstart.py KINORA ROOT SCRATCH"""
import hashlib, json, os, pathlib, shutil, signal, subprocess, sys, tarfile, time

import safetensors.numpy

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
FEW = ["tokenizer.steps=3", "tokenizer.frames=5", "tokenizer.height=32", "tokenizer.width=48", "latents.frames=5",
       "latents.height=32",
       "latents.width=48", "dit.steps=12", "dit.batch=2", "dit.checkpoint_every=4", "dit.validation_every=4",
       "dit.model.layers=2", "film.sampler.steps=3"]


def command(out, *more):
    sets = [a for s in FEW for a in ("--set", s)]
    return [KINORA, "run", str(ROOT / "configs/quickstart.toml"), "--out", str(out), *sets, *more]


def run(out, *more):
    done = subprocess.run(command(out, *more), capture_output=True, text=True)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stderr}"
    return done


def lines(file):
    return [json.loads(text) for text in file.read_text().splitlines()]


def files(folder):
    return {p: p.stat().st_mtime_ns
            for p in folder.rglob("*") if p.is_file() and p.name != "kinora.log" and not p.name.startswith(".lease-")}


def check_last_lines(out, said):
    out = out.absolute()
    results, video = said.splitlines()[-2:]
    assert results.endswith(f"/whole; open {out}/report.html"), said
    assert video == f"the video: {out}/film/videos/000.mp4", said


def check_clips(out):
    truth = json.loads((ROOT / "tests/data/film.json").read_text())
    items = lines(out / "clips/items.jsonl")
    video = next(i for i in items if i["key"] == "film")
    assert video["shots"]["cuts"] == truth["cuts"], (video["shots"]["cuts"], truth["cuts"])
    assert video["shots"]["frames"] == truth["frames"]
    clips = {i["key"]: i for i in items if i["key"] != "film"}
    bounds = [0, *truth["cuts"], truth["frames"]]
    assert len(clips) == len(bounds) - 1
    for n, (first, end) in enumerate(zip(bounds, bounds[1:])):
        clip = clips[f"film-{n:04}"]
        assert (clip["facts"]["first_frame"], clip["facts"]["end_frame"]) == (first, end)
        assert clip["end"] in ("kept", "filtered")
        if clip["end"] == "kept":
            assert clip["caption"].endswith(".")
            counted = subprocess.run(["ffprobe", "-v", "error", "-count_frames", "-select_streams", "v:0",
                                      "-show_entries", "stream=nb_read_frames",
                                      "-of", "csv=p=0", str(out / f"clips/data/film-{n:04}.mp4")], capture_output=True,
                                     text=True).stdout
            assert int(counted.strip().strip(",")) == end - first, (n, counted)
    summary = json.loads((out / "clips/summary.json").read_text())
    ends = [i["end"] for i in clips.values()]
    assert summary["clips"] == {e: ends.count(e) for e in ("kept", "filtered", "failed")}, summary
    return sorted(k for k, i in clips.items() if i["end"] == "kept")


def check_shards(out, keys):
    stored = {}
    for shard in sorted((out / "shards").glob("*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar.getmembers():
                key, field = member.name.split(".", 1)
                stored.setdefault(key, {})[field] = tar.extractfile(member).read()
    assert sorted(stored) == keys
    for key in keys:
        for field, value in stored[key].items():
            assert (out / f"clips/data/{key}.{field}").read_bytes() == value, (key, field)


def check_results(out):
    for job in ("tokenizer", "dit"):
        weights = safetensors.numpy.load_file(out / job / "weights.safetensors")
        assert sum(w.size for w in weights.values()) >= json.loads((out / job / "summary.json").read_text())[
            "parameters"]
    dit = json.loads((out / "dit/summary.json").read_text())
    judged = [e["validation_loss"] for e in lines(out / "dit/metrics.jsonl") if "validation_loss" in e]
    assert 0 < dit["held_out"] < dit["samples"] / 2 and len(judged) == 3 and judged[-1] == dit["validation_loss"], (
        dit, judged)
    assert judged[0] > judged[1] > judged[2], judged
    probe = json.loads(subprocess.run(["ffprobe", "-v", "error", "-of", "json", "-show_streams", "-show_format",
                                       str(out / "film/videos/000.mp4")],
                                      capture_output=True, text=True).stdout)
    video = next(s for s in probe["streams"] if s["codec_type"] == "video")
    assert (video["codec_name"], video["width"], video["height"], video["nb_frames"]) == ("h264", 48, 32, "5"), video
    about = json.loads(probe["format"]["tags"]["comment"])
    assert about["sampler"] == "sampler/flow-euler" and about["nfe"] == 3 and about["seed"] == 1, about
    page = (out / "report.html").read_text()
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    sources = next(job["source_videos"]["list"] for job in data["jobs"] if "source_videos" in job)
    assert [len(source["shots"])
            for source in sources] == [12] and "data:video/mp4;base64" in page and "data:image/jpeg;base64" in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page


def check_generate(out):
    """Generates by hand with the run's networks: the same video from its stored settings, another with one setting
    changed."""
    def generate(*more):
        done = subprocess.run([KINORA, "generate", *command(out)[2:], *more], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [pathlib.Path(line) for line in done.stdout.splitlines() if line.endswith(".mp4")]
    [same] = generate("--from", str(out / "film/videos/000.mp4"))
    pixels = lambda path: subprocess.run(["ffmpeg", "-v", "error", "-i", str(path), "-f", "md5", "-"],
                                         capture_output=True, text=True, check=True).stdout
    assert pixels(same) == pixels(out / "film/videos/000.mp4"), "not the same video as the original"
    [other] = generate("--from", str(out / "film/videos/000.mp4"), "--seed", "8")
    assert pixels(other) != pixels(same)
    assert same.exists(), "one setting replaced another"
    wrong = subprocess.run([KINORA, "generate", *command(out)[2:], "--from", str(ROOT / "tests/data/film.mp4")],
                           capture_output=True, text=True)
    assert wrong.returncode == 1 and "does not say how it was made" in wrong.stderr, wrong.stderr
    check_other_weights(out, same)
    check_failure(out)


def check_other_weights(out, video):
    """The tokenizer's weights with another number: refused as damaged; as another training's, --from warns in one line,
    and does not mention plugins."""
    weights, summary = out / "tokenizer/weights.safetensors", out / "tokenizer/summary.json"
    whole, listed = weights.read_bytes(), summary.read_text()
    changed = whole[:-1] + bytes([whole[-1] ^ 1])
    again = lambda: subprocess.run([KINORA, "generate", *command(out)[2:], "--from", str(video), "--name", "others"],
                                   capture_output=True, text=True)
    weights.write_bytes(changed)
    damaged = again()
    assert damaged.returncode == 1 and "tokenizer: weights.safetensors is damaged" in damaged.stderr, damaged.stderr
    assert hashlib.sha256(whole).hexdigest() in listed
    summary.write_text(listed.replace(hashlib.sha256(whole).hexdigest(), hashlib.sha256(changed).hexdigest()))
    done = again()
    weights.write_bytes(whole)
    summary.write_text(listed)
    told = [line for line in done.stderr.splitlines() if "may differ" in line]
    assert done.returncode == 0 and len(told) == 1, done.stderr
    digest = "sha256:" + hashlib.sha256(whole).hexdigest()[:12]
    assert f"weights of tokenizer ({digest}, here sha256:" in told[0] and "components" not in told[0] and told[0].count(
        "here") == 1, told
    assert "may differ" in (out / "kinora.log").read_text()
    shutil.rmtree(out / "others")


def check_failure(out):
    """No partial result remains, and the log says why."""
    names = lambda: sorted(p.name for p in out.iterdir() if not p.name.startswith(".lease-"))
    before = names()
    broken = SCRATCH / "broken.png"
    broken.write_text("no picture")
    # one is noticed before the job begins, one when the file is read
    for image, code in ((SCRATCH / "nothing.png", 2), (broken, 1)):
        wrong = subprocess.run([KINORA, "generate", *command(out)[2:], "--image", str(image)], capture_output=True,
                               text=True)
        assert wrong.returncode == code and image.name in wrong.stderr, wrong.stderr
        assert names() == before
        assert image.name in (out / "kinora.log").read_text()


def losses(out):
    return [(e["step"], e["loss"], e["gradient_norm"]) for e in lines(out / "dit/metrics.jsonl")]


def killed_and_resumed(out, whole):
    """kill -9 during training, at several moments; then a run to the end."""
    kills = 0
    for wanted in (2, 6, 9):
        process = subprocess.Popen(command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        metrics = out / "dit/metrics.jsonl"
        while process.poll() is None and not (metrics.exists() and len(metrics.read_text().splitlines()) >= wanted):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        # On a busy machine it may end first.
        ended = (out / "dit/summary.json").exists()
        assert not ended or len(lines(metrics)) == 12
        kills += not ended
    assert kills, "no run was killed while it trained"
    run(out)
    assert losses(out) == whole, f"interrupted {losses(out)}\nwhole {whole}"
    assert [p.name for p in out.rglob("*") if "tmp" in p.name] == []


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    out = SCRATCH / "whole"
    done = run(out)
    check_last_lines(out, done.stdout)
    keys = check_clips(out)
    check_shards(out, keys)
    check_results(out)
    check_generate(out)
    before, start = files(out), time.time()
    again = run(out)
    assert files(out) == before, "a second run changed files"
    assert again.stderr.count("already done") == 7, again.stderr
    print(f"second run: {time.time() - start:.2f} s")
    whole = losses(out)
    resumed = SCRATCH / "killed"
    shutil.copytree(out, resumed)
    for job in ("dit", "film", "report"):
        shutil.rmtree(resumed / job)
    killed_and_resumed(resumed, whole)
    for name in ("dit/weights.safetensors", "film/videos/000.mp4"):
        assert (out / name).read_bytes() == (resumed / name).read_bytes(), f"{name} differs after kill -9"
    print("quickstart: all checks passed")


main()
