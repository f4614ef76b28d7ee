#!/usr/bin/env python3
"""Recipes of configs/ from video to video, with few steps. A second run redoes nothing. A recipe without a case here
fails. Jobs that a recipe shares with the quickstart are done already (the fixture "quick"); the others read shorter
videos (that theirs exist, the test `check` sees). usage: configs.py KINORA ROOT SCRATCH [RECIPE...]"""
import json, pathlib, re, shutil, subprocess, sys, tarfile, time

import safetensors.numpy

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.append(str(ROOT / "tests/support"))
import quick

DATA = ROOT / "tests/data"
VIDEO = SCRATCH / "film.mp4"  # the first six shots of the video
STREAMED = SCRATCH / "long-video.mp4"
ELSEWHERE = {"quickstart"}  # quickstart.py
BEGUN = {"autoregressive": ["clips", "shards"], "flow": ["clips", "shards"], "long-video": ["clips", "shards"],
         "nvfp4": ["clips", "shards", "tokenizer", "latents"]}


def small(encode):
    return [setting.replace("latents.", f"{encode}.") for setting in quick.FEW]


def check_codes(out):
    """The file contains the codes as sampled, and the given ones first."""
    video, continued = (json.loads((out / job / "videos/000.json").read_text()) for job in ("film", "continued"))
    tokens = 2 * 4 * 6
    assert (video["nfe"], video["model_calls"], video["cache_tokens"]) == (tokens, 2 * tokens, tokens), video
    # branches, layers, k and v, heads, size
    of_a_token, of_text = 2 * 1 * 2 * 2 * 32 * 4, video["cache_text_bytes"]
    assert video["cache_bytes"] - of_text == tokens * of_a_token and of_text % of_a_token == 0 < of_text, video
    assert continued["nfe"] == tokens // 2 and continued["model_calls"] == tokens // 2, continued
    codes = {job: safetensors.numpy.load_file(out / job / "videos/000.latents.safetensors")["codes"]
             for job in ("film", "continued")}
    for job, drawn in codes.items():
        assert drawn.shape == (1, 2, 4, 6) and drawn.min() >= 0 and drawn.max() < 1000, (job, drawn)
    assert (codes["film"] != codes["continued"]).any()
    made = subprocess.run([KINORA, "generate", *command("autoregressive", out)[2:], "--from",
                           str(out / "film/videos/000.mp4")], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    same = next(pathlib.Path(line) for line in made.stdout.splitlines() if line.endswith(".safetensors"))
    assert (safetensors.numpy.load_file(same)["codes"] == codes["film"]).all(), "not the same video as the original"


def check_flow(out):
    video = json.loads((out / "film/videos/000.json").read_text())
    assert (video["sampler"], video["nfe"], video["model_calls"]) == ("sampler/unipc", 4, 8), video


def check_long_video(out):
    """The shots have their lengths, the model distilled on two windows of a video makes them in its two steps, the
    cache holds its capacity and the streamed file has the video's frames."""
    lines = [json.loads(line) for line in (out / "few/metrics.jsonl").read_text().splitlines()]
    assert [line["window"] for line in lines] == [1, 2], lines
    video = json.loads((out / "film/videos/000.json").read_text())
    assert [shot["frame"] for shot in video["shots"]] == [0, 33, 57, 81] and video["frames"] == 105, video
    chunks = 1 + 104 // 4
    assert (video["sampler"], video["nfe"]) == ("sampler/flow-renoise", 2 * chunks), video
    assert video["cache_tokens"] == 4 * 4 * 6 and min(video["frames_per_second"].values()) > 0, video
    check_video(out / "film/videos/000.mp4", frames=105)
    check_video(STREAMED, frames=105)
    drift, page = video["drift"], (out / "report.html").read_text()
    assert len(drift) == 8 and {len(numbers) for numbers in drift.values()} == {8}, "eight numbers of eight seconds"
    assert drift["mean"][0] == drift["latent_mean"][0] == 0 < drift["mean"][-1], drift
    assert "data:video/mp4;base64" in page and "Jump at borders of chunks" in page


def check_many_ranks(out):
    """Every rank had its part, checkpoints are sharded, and the same file runs on one rank."""
    ranks = json.loads((out / "dit/summary.json").read_text())["ranks"]
    assert len(ranks["tokens"]) == RANKS["many-ranks"] and min(ranks["tokens"]) > 0, ranks
    last = sorted((out / "dit/checkpoints").iterdir())[-1]
    assert len(list(last.glob("weights-*.safetensors"))) > 1, list(last.iterdir())
    videos = [json.loads((out / f"film/videos/{n:03}.json").read_text()) for n in range(2)]
    assert [(f["number"], f["nfe"], f["model_calls"]) for f in videos] == [(0, 4, 8), (1, 4, 8)], videos
    check_video(out / "film/videos/001.mp4")
    alone = SCRATCH / "many-ranks-alone"
    for job in ("clips", "shards"):
        shutil.copytree(out / job, alone / job)
    done = subprocess.run(command("many-ranks", alone, ranks=1), capture_output=True, text=True)
    assert done.returncode == 0 and "one process computes what parallel/tp of size 2 would" in done.stderr, done.stderr
    check_video(alone / "film/videos/001.mp4")


def check_nvfp4(out):
    """Both trainings have nearly the same loss; each low layer has figures of four bits, and the report shows them."""
    bf16, nvfp4 = (json.loads((out / job / "metrics.jsonl").read_text().splitlines()[-1]) for job in ("bf16", "nvfp4"))
    # Gates that begin at zero hide the blocks from the first losses; the gradients behind them differ.
    assert bf16["gradient_norm"] != nvfp4["gradient_norm"] and abs(nvfp4["loss"] / bf16["loss"] - 1) < 0.05, (
        bf16, nvfp4)
    summary = json.loads((out / "nvfp4/summary.json").read_text())
    assert "rounding" not in json.loads((out / "bf16/summary.json").read_text())
    # not linear_kv, which reads the text, and adaLN, which reads conditions: they stay high
    measured = summary["rounding"]
    assert len(measured) == 6 and {row["layer"].split(".")[-2]
                                   for row in measured} == {"linear_qkv", "linear_proj", "linear_q", "linear_fc1",
                                                            "linear_fc2"}, measured
    for row in measured:
        assert 15 < row["activations"]["sqnr"] < 30 and 15 < row["weights"]["sqnr"] < 30 and 5 < row["gradients"][
            "sqnr"] < 30, row
    check_export(out, [row["layer"] for row in measured])
    high = r".*, decoder\.layers\.0\.adaLN\.adaLN_modulation\.1\.weight, .*linear_kv\.weight"
    assert re.search(rf"NVFP4: 6 of 15 weights are low; high: {high}", (out / "kinora.log").read_text())
    page = (out / "report.html").read_text()
    assert measured[0]["layer"] in page and '"validation_loss":' in page


def stored(path):
    """Metadata and bytes by name; NumPy has no E4M3, so the library cannot read files in four bits."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return header.pop("__metadata__", {}), {name: data[8 + size:][slice(*t["data_offsets"])]
                                            for name, t in header.items()}


def check_export(out, low):
    """An export rounds what the training rounded, as it did, and nothing else; so does one of a checkpoint's weights,
    and one of an export."""
    def packed_by(name, *options, of=out / "nvfp4/weights.safetensors"):
        to = out / f"{name}.safetensors"
        subprocess.run([KINORA, "convert", str(of), str(to), "--precision", "nvfp4", *options], check=True,
                       capture_output=True)
        return to

    def codes_in(path):
        return {name: data
                for name, data in stored(path)[1].items() if name.endswith((".weight_packed", ".weight_scale"))}

    def noted_in(path):
        return {key: json.loads(text) for key, text in stored(path)[0].items() if key.startswith("low_")}

    packed = packed_by("packed")
    assert packed.read_bytes() == packed_by("same", "--block", "16x16", "--scale-rule",
                                            "static_6").read_bytes() != packed_by(
                                                "mse", "--scale-rule", "mse").read_bytes()
    assert {name.rsplit("_", 1)[0] for name in codes_in(packed)} == set(low), low
    assert codes_in(packed_by("again", of=packed)) == codes_in(packed)
    saved = sorted((out / "nvfp4/checkpoints").iterdir())[-1]
    averages = sorted(saved.glob("ema-*.safetensors"))
    assert len(averages) == 1, averages
    for path in (out / "nvfp4/weights.safetensors", saved / "weights.safetensors", *averages):
        assert noted_in(path) == {"low_weights": low,
                                  "low_rule": {"scale_rule": "static_6", "block": "16x16"}}, (path, noted_in(path))
    assert codes_in(packed_by("average", of=averages[0])) == codes_in(packed), "the job's weights are the average"
    assert codes_in(packed_by("last", of=saved / "weights.safetensors")).keys() == codes_in(packed).keys()


def check_curate(out):
    """Every remaining clip is in the shards with its caption and its scores, and a search for a caption finds its
    clip."""
    items = [json.loads(line) for line in (out / "clips/items.jsonl").read_text().splitlines()]
    clips = {i["key"]: i for i in items if "parent" in i and i["end"] == "kept"}
    assert len(clips) > 8 and not [i for i in items if i["end"] == "failed"], items
    scores = {"filter." + name for name in ("black", "brightness", "blur", "frozen", "flow", "text", "letterbox")}
    for key, clip in clips.items():
        assert scores <= set(clip["facts"]["scores"]) and clip["facts"]["embeddings"]["classic"]["size"] == 488, clip
        assert ("filter.motion" in clip["facts"]["scores"]) != ("filter.motion" in clip["facts"]), clip
    assert any("merge" in i["shots"] for i in items if i.get("shots")), items
    decisions = [json.loads(line) for line in (out / "copies/decisions.jsonl").read_text().splitlines()]
    assert {d["key"] for d in decisions} == set(clips)
    packed = {}
    for shard in (out / "shards").glob("*.tar"):
        with tarfile.open(shard) as tar:
            packed.update({m.name: tar.extractfile(m).read() for m in tar})
    left = {d["key"] for d in decisions if d["end"] == "kept"}
    sharp = {key
             for key, clip in clips.items()
             if (got := clip["facts"]["scores"])["filter.blur"] >= 20 and got["filter.frozen"] <= 0.8
             and got["filter.text"] <= 0.05 and got["filter.letterbox"] <= 0.1}
    chosen = [json.loads(line) for line in (out / "bounds/decisions.jsonl").read_text().splitlines()]
    assert {d["key"] for d in chosen} == set(clips) and {d["key"]
                                                         for d in chosen if d["end"] == "kept"} == sharp >= left, chosen
    assert {d["of"] for d in decisions if "of" in d} <= left, "a copy stays out only for a clip that is in the shards"
    assert {n.split(".")[0]
            for n in packed} == left and all({f"{k}.{e}"
                                              for e in ("mp4", "txt", "json", "classic.npy",
                                                        "preview.webp")} <= set(packed) for k in left), sorted(packed)
    key = sorted(left)[0]
    for more, there in (([], set(clips) - {d["key"] for d in decisions if "of" in d}), (["--copies"], set(clips))):
        said = subprocess.run([KINORA, "search", str(out), packed[f"{key}.txt"].decode(), "--top", "99", "--json",
                               *more], capture_output=True, text=True, check=True)
        found = [json.loads(line) for line in said.stdout.splitlines()]
        assert {f["key"] for f in found} == there and "no caption matches" not in said.stderr, said
    assert abs(max(f["score"]
                   for f in found if f["key"] == key) - found[0]["score"]) < 1e-5 and found[0]["score"] > 0.99, found
    said = subprocess.run([KINORA, "search", str(out), "two people cooking soup", "--top", "1"], capture_output=True,
                          text=True, check=True)
    assert len(
        said.stdout.splitlines()) == 1 and "no caption matches this text: the highest score is" in said.stderr, said


# Name of the recipe: its settings, the jobs that train, the jobs that generate, and further checks.
CASES = {
    "curate": ([f'clips.input=["{DATA}/bbb_D.mp4", "{DATA}/city_cc0.mp4", "{VIDEO}"]'], [], [], check_curate),
    "autoregressive": ([*small("codes"), "ar.steps=2", "ar.batch=2", "ar.model.n_layers=1",
                        "continued.condition_frames=1",
                        'film.format=["mp4", "latents"]', 'continued.format=["mp4", "latents"]'], ["tokenizer", "ar"],
                       ["film", "continued"], check_codes),
    "flow": ([*small("latents"), "stdit.steps=2", "stdit.batch=2", "stdit.model.layers=1", "film.sampler.steps=4"],
             ["tokenizer", "stdit"], ["film"],
             check_flow),
    "long-video": ([*small("latents"), "dit.steps=2", "dit.batch=2", "dit.model.layers=1", "few.steps=2", "few.every=1",
                    "few.batch=2", "few.sampler.timesteps=[1000, 500]", "few.video_windows=2",
                    f"film.stream={STREAMED}"],
                   ["tokenizer", "dit", "few"], [], check_long_video),
    "nvfp4": ([*small("latents"), "bf16.steps=4", "nvfp4.steps=4", "bf16.model.layers=1", "nvfp4.model.layers=1",
               "film.sampler.steps=4"],
              ["tokenizer", "bf16", "nvfp4"], ["film"], check_nvfp4),
    "many-ranks": ([f"clips.input={DATA}/bbb_*.mp4", *small("latents"), "dit.steps=2", "dit.checkpoint_every=1",
                    "dit.shard_size=100000", "film.sampler.steps=4"], ["tokenizer", "dit"],
                   ["film"], check_many_ranks),
}
RANKS = {"many-ranks": 4}


def command(recipe, out, ranks=None):
    sets = [a for s in CASES[recipe][0] for a in ("--set", s)]
    ranks = ranks or RANKS.get(recipe, 1)
    launch = ["launch", "-n", str(ranks), "--"] if ranks > 1 else []
    return [KINORA, *launch, "run", str(ROOT / f"configs/{recipe}.toml"), "--out", str(out), *sets]


def run(recipe, out):
    done = subprocess.run(command(recipe, out), capture_output=True, text=True)
    assert done.returncode == 0, f"{recipe}: exit {done.returncode}\n{done.stderr}"
    return done


def files(folder):
    return {p: p.stat().st_mtime_ns
            for p in folder.rglob("*")
            if p.is_file() and p.name != "kinora.log" and p.parent.name != "logs" and not p.name.startswith(".lease-")}


def check_video(path, frames=5):
    probe = json.loads(subprocess.run(["ffprobe", "-v", "error", "-of", "json", "-show_streams", str(path)],
                                      capture_output=True, text=True).stdout)
    video = next(s for s in probe["streams"] if s["codec_type"] == "video")
    assert (video["codec_name"], video["width"], video["height"],
            video["nb_frames"]) == ("h264", 48, 32, str(frames)), (path, video)


def check(recipe):
    _, trained, videos, more = CASES[recipe]
    out, start = SCRATCH / recipe, time.time()
    if recipe in BEGUN:
        quick.begun(KINORA, ROOT, out, BEGUN[recipe])
    first = run(recipe, out)
    assert re.findall(r"(\S+): already done\n", first.stderr) == BEGUN.get(recipe, []), first.stderr
    for job in trained:
        lines = [json.loads(line) for line in (out / job / "metrics.jsonl").read_text().splitlines()]
        assert lines and all(line["loss"] == line["loss"] and not line.get("skipped") for line in lines), (job, lines)
        assert any((out / job / f"weights.safetensors{end}").exists() for end in ("", ".index.json")), job
    for job in videos:
        check_video(out / job / "videos/000.mp4")
    more(out)
    assert not videos or "data:video/mp4;base64" in (out / "report.html").read_text()
    before = files(out)
    again = run(recipe, out)
    assert files(out) == before, f"{recipe}: a second run changed files"
    jobs = (ROOT / f"configs/{recipe}.toml").read_text().count("[[job]]")
    assert again.stderr.count("already done") == jobs, again.stderr
    print(f"{recipe}: all checks passed in {time.time() - start:.0f} s")


def main():
    found = {p.stem for p in (ROOT / "configs").glob("*.toml")}
    assert found == set(CASES) | ELSEWHERE, f"recipes {sorted(found)}, tested {sorted(set(CASES) | ELSEWHERE)}"
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    subprocess.run(["ffmpeg", "-v", "error", "-i", DATA / "film.mp4", "-c", "copy", "-t", "19.1", "-movflags",
                    "+faststart", VIDEO], check=True)
    for recipe in sys.argv[4:] or sorted(CASES):
        check(recipe)


main()
