#!/usr/bin/env python3
"""Single components without a run file: inspect, apply against diffusers' results, convert, published folders.
usage: networks.py KINORA ROOT SCRATCH"""
import hashlib, json, os, pathlib, shutil, subprocess, sys, time

import numpy as np
import safetensors
import safetensors.numpy

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
DATA = ROOT / "tests/data"


def kinora(*arguments, code=0):
    done = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{arguments}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done.stdout


def check_damaged_checkpoint():
    """Files of a training's checkpoint are compared with what its state lists, whoever reads them."""
    source, folder, given = DATA / "oracle/wan_t2v/text_encoder", SCRATCH / "step-000100", SCRATCH / "ids.safetensors"
    folder.mkdir()
    weights = folder / "weights.safetensors"
    shutil.copy(source / "model.safetensors", weights)
    whole = weights.read_bytes()
    (folder / "state.json").write_text(
        json.dumps({"files": {weights.name: {"bytes": len(whole), "sha256": hashlib.sha256(whole).hexdigest()}}}))
    safetensors.numpy.save_file({"input_ids": np.array([[5, 3, 9, 1]])}, given)
    apply = ["apply", "model/umt5", "--set", f"weights={folder}", "--set", f"config={source / 'config.json'}",
             "--inputs", given, "--out", SCRATCH / "ids out.safetensors"]
    for data, fault in ((whole, ""),
                        (whole[:-1] + bytes([whole[-1] ^ 1]),
                         "weights.safetensors is damaged: its SHA-256 is not that of what was written")):
        weights.write_bytes(data)
        for command in (["inspect", weights], ["inspect", folder], apply):
            done = subprocess.run([KINORA, *map(str, command)], capture_output=True, text=True, timeout=300)
            assert (done.returncode != 0) == bool(fault) and fault in done.stderr, (command, fault, done)


def check_pipeline():
    """A published folder is inspected and generates without a run file; from given noise it gives diffusers' result."""
    folder = SCRATCH / "published pipeline"
    shutil.copytree(DATA / "oracle/wan_t2v", folder)
    facts = json.loads(kinora("inspect", folder, "--json"))
    assert facts["pipeline"] == "WanPipeline" and facts["makes"] == "videos" and facts["begins_with"] == "a text", facts
    assert [p["component"] for p in facts["parts"]] == ["model/wan", "model/umt5", "tokenizer/wan"], facts
    sizes = {
        p["name"]: sum(
            t.size for t in safetensors.numpy.load_file(next((folder / p["name"]).glob("*.safetensors"))).values())
        for p in facts["parts"]}
    assert {p["name"]: p["parameters"] for p in facts["parts"]} == sizes, facts
    assert facts["memory"]["weights"] == 4 * sum(sizes.values()), facts
    text = kinora("inspect", folder)
    assert ("81 frames of 480 x 832 (height x width), 50 steps of unipc, guidance 5" in text
            and f"kinora generate --pipeline '{folder}' --prompt" in text), text
    assert "of weights alone, as float32; a video's activations, which come on top, are not estimated" in text, text
    assert "model/wan: " in kinora("inspect", folder / "transformer"), "a network's folder is its component"
    absent = subprocess.run([KINORA, "inspect", "Wan2.1-T2V-1.3B-Diffusers"], capture_output=True, text=True,
                            cwd=SCRATCH)
    assert absent.returncode == 2 and "no folder has this name either" in absent.stderr, absent
    here = subprocess.run([KINORA, "inspect", "."], capture_output=True, text=True, cwd=folder)
    assert here.returncode == 0, here
    assert here.stdout.replace("--pipeline .", "").startswith("WanPipeline, written by diffusers 0."), here
    index = json.loads((folder / "model_index.json").read_text())
    for version in ("\x1b[31m", 3):
        (folder / "model_index.json").write_text(json.dumps({**index, "_diffusers_version": version}))
        assert "written by diffusers ?" in kinora("inspect", folder), version
    (folder / "model_index.json").write_text(json.dumps(index))
    check_generated_by_pipeline(folder)
    check_refused_pipeline(folder)
    check_damaged_pipeline(folder)


def check_generated_by_pipeline(folder):
    given = safetensors.numpy.load_file(DATA / "oracle/pipeline_noise.safetensors")
    noise, out = SCRATCH / "noise.safetensors", SCRATCH / "by-pipeline"
    safetensors.numpy.save_file({"000": given["t2v.noise"]}, noise)
    sets = [f"noise={noise}", "steps=5", "frames=9", "height=32", "width=48", "format=['latents']"]
    command = ["generate", "--pipeline", folder, "--prompt", "red sea", "--out", out, "--name", "sea",
               *(x for s in sets for x in ("--set", s))]
    done = subprocess.run([KINORA, *map(str, command)], capture_output=True, text=True, cwd=SCRATCH)
    assert done.returncode == 0 and "steps = 5 (50)" in done.stderr, done
    latent = safetensors.numpy.load_file(out / "sea/videos/000.latents.safetensors")["latent"][0]
    want = given["t2v.latent"]
    assert latent.shape == want.shape and abs(latent - want).max() < 1e-5 * abs(want).max(), abs(latent - want).max()


def check_refused_pipeline(folder):
    """Arguments that do not fit a published folder, and what to write instead."""
    recipe, video = ROOT / "configs/quickstart.toml", SCRATCH / "by-pipeline/sea/videos/000.mp4"
    source, gguf = DATA / "oracle/continued/long.mp4", SCRATCH / "x.gguf"
    gguf.write_bytes(b"GGUF")
    for arguments, said in ((["generate"], "a run file or a pipeline is missing"),
                            (["generate", "--pipeline", DATA, "--prompt", "x"], "model_index.json is missing"),
                            (["generate", "--pipeline", folder, recipe], "are both given"),
                            (["generate", "--pipeline", folder], "add --prompt"),
                            (["generate", folder, "--prompt", "x"], f"kinora generate --pipeline {folder}"),
                            (["generate", "--from", video], "kinora generate FILE.toml --from VIDEO"),
                            (["generate", "--pipeline", folder, "--prompt", "x", "--job", "y"],
                             "leave it out with --pipeline"),
                            (["generate", "--pipeline", folder, "--prompt", "x", "--set", "noise=none.safetensors"],
                             "none.safetensors; fix the path"),
                            (["generate", "--pipeline", folder, "--prompt", "x", "--video", source],
                             f"{folder}: this pipeline begins with a text alone; leave `video` out"),
                            (["generate", "--pipeline", gguf, "--prompt", "x"], "x.gguf is GGUF"),
                            (["generate", "--pipeline", source, "--prompt", "x"], "--pipeline FOLDER --set weights="),
                            (["generate", "--pipeline", folder, "--prompt", os.fsdecode(b"caf\xe9")],
                             "this is not UTF-8; set the terminal to UTF-8"),
                            (["generate", "--pipeline", folder, "--prompt", "x", "--set",
                              os.fsdecode(b"negative=caf\xe9")], "this is not UTF-8; set the terminal to UTF-8"),
                            (["inspect", folder, "--set", "num_layers=3"], "--set and --input are for one network"),
                            (["inspect", folder / "model_index.json"], "is a file; give its folder"),
                            (["inspect", folder / "scheduler"], "neither a pipeline's folder"),
                            (["inspect", "model/wna"], "? no folder has this name either")):
        wrong = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True, cwd=SCRATCH)
        assert wrong.returncode == 2 and said in wrong.stderr, wrong
        assert "--pipeline:" not in wrong.stderr.replace("--pipeline: ", ""), wrong


def check_continued():
    """--video with --pipeline: Predict 2 continues a video from its end as diffusers does
    (tests/oracle/make_continued_fixtures.py)."""
    oracle, noise, out = DATA / "oracle", SCRATCH / "continued noise.safetensors", SCRATCH / "continued"
    given = safetensors.numpy.load_file(oracle / "continued/continued.safetensors")
    safetensors.numpy.save_file({"000": given["predict2_long.noise"]}, noise)
    sets = [f"noise={noise}", "steps=5", "frames=13", "height=32", "width=32", "guidance=3.0", "negative=blurry blue",
            "format=['latents']"]
    kinora("generate", "--pipeline", oracle / "cosmos2_v2w", "--video", oracle / "continued/long.mp4",
           "--prompt", "red sea", "--out", out, "--name", "sea", *(x for s in sets for x in ("--set", s)))
    latent = safetensors.numpy.load_file(out / "sea/videos/000.latents.safetensors")["latent"][0]
    want = given["predict2_long.latent"]
    near(latent[:, 2:], want[:, 2:], 1e-5)
    assert np.abs(latent[:, :2] - want[:, :2]).max() < 0.03, "on the given frames diffusers leaves noise of sigma_min"


def check_damaged_pipeline(folder):
    """inspect refuses the folder that generate refuses, with the same exit code, and prints no command."""
    def with_config(part, **changes):
        config = folder / part / "config.json"
        kept = config.read_text()
        config.write_text(json.dumps({**json.loads(kept), **changes}))
        said = refused("inspect", folder)
        config.write_text(kept)
        return said

    assert "96 parameters: 27 missing" in with_config("transformer", num_layers=3)
    assert "WanVACETransformer3DModel, which Kinora does not have" in with_config(
        "transformer", _class_name="WanVACETransformer3DModel")
    assert "use tokenizer/cosmos" in with_config("vae", _class_name="AutoencoderKLCosmos")
    (folder / "tokenizer/tokenizer.json").unlink()
    assert "tokenizer" in refused("inspect", folder)
    # and nothing of the sampler that the folder would have given
    for broken in ("transformer/config.json", "model_index.json"):
        (folder / broken).unlink()
        said = refused("generate", "--pipeline", folder, "--prompt", "x", "--set", "sampler.steps=4")
        assert f"{broken} is missing" in said and said.endswith("--pipeline: 1 error\n") and said.count("\n") == 2, said


def case(file, name):
    """The case's options, its tensors and its weights (written to a separate file)."""
    with safetensors.safe_open(DATA / "oracle" / file, "np") as f:
        tensors = {k[len(name) + 1:]: f.get_tensor(k) for k in f.keys() if k.startswith(name + ".")}
        options = json.loads(f.metadata()[name])
    weights = SCRATCH / f"{name}.weights.safetensors"
    safetensors.numpy.save_file({k[7:]: v for k, v in tensors.items() if k.startswith("weight.")}, weights)
    sets = [f"{k}={json.dumps(v)}" for k, v in options.items()]
    return [a for s in [*sets, f"weights={weights}"] for a in ("--set", s)], tensors


def apply(id, inputs, *more):
    given, made = SCRATCH / "in.safetensors", SCRATCH / "out.safetensors"
    safetensors.numpy.save_file({k: np.ascontiguousarray(v) for k, v in inputs.items()}, given)
    said = json.loads(kinora("apply", id, "--inputs", given, "--out", made, "--json", *more))
    out = safetensors.numpy.load_file(made)
    assert {k: list(v.shape) for k, v in out.items()} == {k: v["shape"] for k, v in said["tensors"].items()}
    return out, said


def near(a, b, bound=1e-12):
    assert a.shape == b.shape, (a.shape, b.shape)
    error = np.abs(a.astype(np.float64) - b).max() / np.abs(b).max()
    assert error < bound, error


def check_apply():
    sets, t = case("cosmos_tokenizer_whole.safetensors", "a")
    near(apply("tokenizer/cosmos", {"video": t["video"].astype(np.float64)}, "--method", "encode", *sets)[0]["latent"],
         t["latent"])
    near(apply("tokenizer/cosmos", {"latent": t["code"].astype(np.float64)}, "--method", "decode", *sets)[0]["video"],
         t["decoded"])
    near(apply("tokenizer/cosmos", {"video": t["video"]}, "--method", "encode", *sets)[0]["latent"], t["latent"], 1e-5)

    sets, t = case("cosmos_dit.safetensors", "a")
    inputs = {k: t[k].astype(np.float64) if t[k].dtype == np.float32 else t[k]
              for k in ("latent", "timestep", "text", "text_mask")}
    near(apply("model/cosmos", inputs, *sets)[0]["output"], t["output"])
    made, _ = apply("model/cosmos", {**inputs, "grad_output": t["grad_output"].astype(np.float64)}, "--method",
                    "gradient", *sets)
    compared = [k for k in t if k.startswith("grad.")]
    assert len(compared) > 5
    for name in compared:
        near(made[name], t[name])

    mixture = {"mean": np.array([[0.5, -1.0]]), "std": np.array([0.7]), "weight": np.array([1.0]),
               "noise": np.array([[0.3, -0.2], [1.1, 0.4]])}
    out, said = apply("sampler/edm-heun", mixture, "--set", "steps=400")
    assert said["nfe"] == 799, said["nfe"]
    # For a single Gaussian the ODE has an exact solution: x - mean keeps its ratio to sqrt(std^2 + sigma^2).
    exact = mixture["mean"] + (mixture["noise"] * 80 - mixture["mean"]) * 0.7 / np.sqrt(0.7**2 + 80**2)
    near(out["samples"], exact, 1e-4)
    loss, _ = apply("loss/edm", {"latent": np.zeros((1, 1, 1, 1, 1)), "noise": np.ones((1, 1, 1, 1, 1)),
                                 "sigma": np.array([0.5]), "output": np.zeros((1, 1, 1, 1, 1))})
    # c_skip = s^2 / (sigma^2 + s^2) with s = 0.5, lambda = (sigma^2 + s^2) / (sigma s)^2, D = c_skip sigma n
    near(loss["loss"], np.array([(0.5 / 0.0625) * (0.5 * 0.5) ** 2]))
    score, said = apply("score/psnr",
                        {"prediction": np.zeros((2, 3, 1, 2, 2)), "target": np.full((2, 3, 1, 2, 2), 0.2)})
    near(np.array([score["psnr"], said["psnr"]]), np.array([20.0, 20.0]))  # 10 log10(2^2 / 0.2^2)
    # Without spread every estimate is the mean, and so is the last one.
    out, said = apply("sampler/flow-renoise", {**mixture, "std": np.array([0.0])})
    assert said["sigmas"][1] == 0.9375 and said["nfe"] == 4, said
    near(out["samples"], np.repeat(mixture["mean"], 2, 0))
    three = {name: np.full((1, 2, 1, 1, 2), value) for name, value in (("x", 1.0), ("real", 0.5), ("fake", 0.75))}
    loss, _ = apply("loss/dmd", three)
    near(loss["grad"], np.full((1, 2, 1, 1, 2), 0.25 / 0.5))
    near(loss["loss"], np.array([0.5 * 0.5**2]))


def check_apply_to_video():
    """A score of one video takes the file, at its own rate: 125 frames in 5.2 seconds."""
    said = json.loads(kinora("apply", "score/drift", DATA / "bbb_A.mp4", "--set", "chunk=25", "--json"))
    assert all(0 < said[name] < 1 for name in ("mean", "mean_end", "spread", "histogram", "histogram_end")), said
    assert said["border_jump"] != 0 and said["tensors"]["mean"], said
    assert said == json.loads(kinora("apply", "score/drift", DATA / "bbb_A.mp4", "--set", "chunk=25", "--set", "fps=9",
                                     "--json")), "the file's rate counts"
    assert said["state"][0] == 5 and len(said["state"]) == 2 + 5 * 6, said["state"]
    assert "needs a video or --inputs FILE.safetensors" in refused("apply", "score/drift")
    assert "is a folder; give one video" in refused("apply", "score/drift", SCRATCH)
    assert "takes tensors instead of the file" in refused(
        "apply", "score/psnr", DATA / "bbb_A.mp4", "--inputs", "x.safetensors")


def drift_table(video, fps, chunk):
    """The rows of score/drift: each whole second of bytes [T, H, W, 3] against the first, and the jump at all
    borders."""
    v, times = video / 255, np.arange(len(video))
    change, border = np.r_[0, np.abs(np.diff(v, axis=0)).mean((1, 2, 3))], (times > 0) & (times % chunk == 0)
    luma = v @ np.array([0.299, 0.587, 0.114])
    sharp = np.abs(4 * luma[:, 1:-1, 1:-1] - luma[:, :-2, 1:-1] - luma[:, 2:, 1:-1] - luma[:, 1:-1, :-2]
                   - luma[:, 1:-1, 2:]).mean((1, 2))

    def jump(of):
        at, elsewhere = of & border, of & ~border & (times > 0)
        return change[at].mean() - change[elsewhere].mean() if at.any() and elsewhere.any() else 0

    def numbers(of):
        code = np.minimum((v[of] * 8).astype(int), 7) @ np.array([64, 8, 1])
        return (v[of].mean((0, 1, 2)), v[of].std((0, 1, 2)), np.bincount(code.ravel(), minlength=512) / code.size,
                sharp[of].mean(), np.ptp(v[of], axis=-1).mean(), jump(of))

    seconds = [numbers(times // fps == k) for k in range(len(video) // fps)]
    mean, spread, colours, sharpness = seconds[0][:4]
    return np.array([[np.abs(m - mean).mean(), np.abs(s - spread).mean(), np.abs(c - colours).sum() / 2,
                      l - sharpness, *rest] for m, s, c, l, *rest in seconds]), jump(times >= 0)


def check_drift():
    """A made video that gets redder, paler and blurred, with a step at each border: its table is that of NumPy, in
    JSON and in the file."""
    t, noise = np.arange(44)[:, None, None, None], np.random.default_rng(5).normal(size=(12, 15, 3))
    made = 110 + noise * (30 - 0.5 * t) + t * np.array([2, 0, -1]) + 3 * (t // 10)
    video = np.clip(made, 0, 255).astype(np.uint8)
    table, jump = drift_table(video, 8, 10)
    assert (np.diff(table[:, 0]) > 0).all() and table[-1, 3] < 0 < jump, (table, jump)
    out, said = apply("score/drift", {"video": video.transpose(3, 0, 1, 2)[None]},
                      "--set", "fps=8", "--set", "chunk=10")
    assert said["state"] == out["state"].tolist()
    near(out["state"], np.r_[5, jump, table.ravel()])
    near(np.array([said[n] for n in ("mean", "mean_end", "sharpness", "sharpness_end", "histogram", "spread")]),
         np.array([table[1:, 0].mean(), table[-1, 0], table[1:, 3].mean(), table[-1, 3], table[1:, 2].mean(),
                   table[1:, 1].mean()]))
    near(np.array([said["saturation_slope"]]), np.polyfit(np.arange(5), table[:, 4], 1)[:1])


def refused(*arguments):
    """The single line with which the command refuses its arguments."""
    done = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and not done.stdout, (arguments, done)
    return done.stderr


def tensors(name, **values):
    file = SCRATCH / f"{name}.safetensors"
    safetensors.numpy.save_file({k: np.ascontiguousarray(v) for k, v in values.items()}, file)
    return file


def check_apply_refuses():
    """apply does not ignore unknown arguments."""
    sets, t = case("cosmos_dit.safetensors", "a")
    inputs = {k: t[k] for k in ("latent", "timestep", "text", "text_mask")}
    misspelt = tensors("misspelt", **{"txet" if k == "text" else k: v for k, v in inputs.items()})
    said = refused("apply", "model/cosmos", "--inputs", misspelt, *sets)
    assert "takes no tensor 'txet', did you mean 'text'?" in said and "misspelt.safetensors" in said, said
    gradient = tensors("gradient", grad_output=t["grad_output"], **inputs)
    said = refused("apply", "model/cosmos", "--inputs", gradient, *sets)
    assert "grad_output is for --method gradient" in said, said
    kinora("apply", "model/cosmos", "--inputs", gradient, "--method", "gradient", *sets)
    mixture = {"mean": np.zeros((1, 2)), "std": np.ones(1), "weight": np.ones(1), "noise": np.zeros((1, 2))}
    said = refused("apply", "sampler/euler", "--inputs", tensors("mixture", **mixture), "--set", "weights=/nonexistent")
    assert "sampler/euler has no weights" in said, said
    said = refused("apply", "sampler/euler", "--inputs", tensors("more", wieght=np.ones(1), **mixture))
    assert "no tensor 'wieght', did you mean 'weight'?" in said, said
    said = refused("apply", "precision/bf16", "--inputs", tensors("x", x=np.ones((2, 2)), y=np.ones(1)))
    assert "takes no tensor 'y'; it takes: x" in said, said
    one = np.ones((1, 1, 1, 1, 1))
    loss = {"latent": one, "noise": one, "sigma": np.ones(1), "prediction": one}
    kinora("apply", "loss/edm", "--inputs", tensors("loss", **loss))
    assert "'weigth'" in refused("apply", "loss/edm", "--inputs", tensors("loss", weigth=one, **loss))
    video = tensors("video", video=np.zeros((1, 3, 1, 32, 32), np.float32), mask=np.ones(1))
    assert "takes no tensor 'mask'; it takes: video, latent" in refused("apply", "tokenizer/cosmos", "--inputs", video)
    assert "takes tensors instead of the file 'source.mp4'" in refused(
        "apply", "model/cosmos", "source.mp4", "--inputs", misspelt)
    source = DATA / "source.mp4"
    assert "has no methods" in refused("apply", "stage/shots.content", source, "--method", "cut")
    assert "takes a file instead of tensors" in refused("apply", "stage/shots.content", source, "--inputs", misspelt)
    assert "is a folder; apply takes one file" in refused("apply", "stage/shots.content", SCRATCH)
    assert "has no weights" in refused("apply", "stage/shots.content", source, "--set", "weights=x")


def check_apply_config():
    """A published configuration: its members are options, --set overrides it, and members that are not options are
    reported."""
    options = json.loads(safetensors.safe_open(DATA / "oracle/cosmos_dit.safetensors", "np").metadata()["a"])
    sets, t = case("cosmos_dit.safetensors", "a")
    weights = sets[-2:]
    inputs = {k: t[k].astype(np.float64) if t[k].dtype == np.float32 else t[k]
              for k in ("latent", "timestep", "text", "text_mask")}
    config = SCRATCH / "config.json"

    def written(**more):
        config.write_text(json.dumps({"_class_name": "CosmosTransformer3DModel", "_diffusers_version": "0.36.0",
                                      **options, **more}))
        return ["--set", f"config={config}", *weights]

    near(apply("model/cosmos", inputs, *written())[0]["output"], t["output"])
    near(apply("model/cosmos", inputs, *written(layers=options["layers"] + 1), "--set",
               f"layers={options['layers']}")[0]["output"], t["output"])
    written()
    near(apply("model/cosmos", inputs, "--set", f"config={SCRATCH}", *weights)[0]["output"], t["output"])
    given = tensors("given", **inputs)
    done = subprocess.run([KINORA, "apply", "model/cosmos", "--inputs", given, *written(layerz=3, size=None)],
                          capture_output=True, text=True)
    warned = [line for line in done.stderr.splitlines() if "ignored" in line]
    assert done.returncode == 0 and len(warned) == 1 and "config.json" in warned[0], done
    assert "layerz (did you mean 'layers'?)" in warned[0], warned
    assert "_class_name" not in done.stderr and "_diffusers_version" not in done.stderr, done
    assert not any(f" {name}," in warned[0] for name in options), warned
    said = refused("apply", "model/cosmos", "--inputs", given, *written(layers="two", heads=0))
    assert said.count("config.json: ") == 2 and "'layers'" in said and "'heads'" in said, said
    config.write_text("[1]")
    assert "a configuration is a JSON object" in refused("apply", "model/cosmos", "--inputs", given, "--set",
                                                         f"config={config}")
    config.write_text('{"layers": ')
    assert "config.json: not valid JSON" in refused("apply", "model/cosmos", "--inputs", given, "--set",
                                                    f"config={config}")
    kinora("apply", "model/cosmos", "--inputs", given, "--set", "config=/nonexistent", code=1)


def check_published():
    """A pipeline's folder in diffusers' layout is all that is needed; mismatches are reported by name."""
    options = json.loads(safetensors.safe_open(DATA / "oracle/cosmos_dit.safetensors", "np").metadata()["a"])
    sets, t = case("cosmos_dit.safetensors", "a")
    inputs = {k: t[k].astype(np.float64) if t[k].dtype == np.float32 else t[k]
              for k in ("latent", "timestep", "text", "text_mask")}
    weights = pathlib.Path(sets[-1].removeprefix("weights="))
    pipeline = SCRATCH / "pipeline"
    pipeline.mkdir()
    kinora("convert", weights, pipeline / "transformer", "--max-shard", "4 kB", "--json")
    (pipeline / "transformer/config.json").write_text(
        json.dumps({"_class_name": "CosmosTransformer3DModel", **options}))
    (pipeline / "model_index.json").write_text("{}")
    near(apply("model/cosmos", inputs, "--set", f"weights={pipeline}")[0]["output"], t["output"])
    given = tensors("published", **inputs)
    part = pipeline / "transformer"
    index = json.loads((part / "diffusion_pytorch_model.safetensors.index.json").read_text())["weight_map"]
    shard = part / index["proj_out.weight"]
    held = safetensors.numpy.load_file(shard)
    held["proj_uot.weight"] = held.pop("proj_out.weight")
    safetensors.numpy.save_file(held, shard)
    said = subprocess.run([KINORA, "apply", "model/cosmos", "--inputs", str(given), "--set", f"weights={pipeline}"],
                          capture_output=True, text=True)
    assert said.returncode == 1 and "'proj_out.weight' is not in" in said.stderr, said
    whole = SCRATCH / "misspelt_weights.safetensors"
    all_weights = safetensors.numpy.load_file(weights)
    all_weights["proj_uot.weight"] = all_weights.pop("proj_out.weight")
    safetensors.numpy.save_file(all_weights, whole)
    said = refused("apply", "model/cosmos", "--inputs", given, *sets[:-1], f"weights={whole}")
    assert "1 missing: 'proj_out.weight', did you mean 'proj_uot.weight'?" in said and "1 unexpected" in said, said
    shard.unlink()
    said = subprocess.run([KINORA, "apply", "model/cosmos", "--inputs", str(given), "--set", f"weights={pipeline}"],
                          capture_output=True, text=True)
    assert said.returncode == 1 and "shards are missing: " + shard.name in said.stderr, said


def same_but_for_the_order_of_metadata(first, second):
    """The safetensors library writes the entries of __metadata__ in arbitrary order."""
    def parts(path):
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        return json.loads(data[8:8 + size]), list(json.loads(data[8:8 + size]))[1:], data[8 + size:]
    assert parts(first) == parts(second)


def check_convert():
    """One file to shards and back gives the same bytes; dtypes, adapters, and refused arguments."""
    sets, _ = case("cosmos_dit.safetensors", "a")
    weights = pathlib.Path(sets[-1].removeprefix("weights="))
    first, folder, second = SCRATCH / "first.safetensors", SCRATCH / "sharded", SCRATCH / "second.safetensors"
    safetensors.numpy.save_file(safetensors.numpy.load_file(weights), first, {"format": "pt", "note": "kept"})
    done = json.loads(kinora("convert", first, folder, "--max-shard", "10 kB", "--json"))
    assert done["file"].endswith("diffusion_pytorch_model.safetensors.index.json") and len(
        list(folder.glob("*.safetensors"))) > 3, done
    held = [tensor for shard in folder.glob("*.safetensors") for tensor in safetensors.numpy.load_file(shard)]
    assert sorted(held) == sorted(safetensors.numpy.load_file(first)), held
    assert "tensors" in kinora("convert", folder, second)
    same_but_for_the_order_of_metadata(first, second)
    assert "exists already" in refused("convert", folder, second)
    assert "--from and --to need --component" in refused("convert", first, SCRATCH / "never.safetensors", "--to",
                                                         "diffusers")
    assert "has no layout 'orignal'" in refused("convert", first, SCRATCH / "never.safetensors", "--to", "orignal",
                                                "--component", "model/cosmos")
    assert "--max-shard" in refused("convert", first, SCRATCH / "never.safetensors", "--max-shard", "0")
    assert "IN and OUT are required" in refused("convert", first)
    assert "convert: absent: no such file or folder; give a safetensors file" in refused(
        "convert", "absent", SCRATCH / "never.safetensors")
    assert "convert: absent: no such file or folder; give the file or folder of a LoRA adapter" in refused(
        "convert", first, SCRATCH / "never.safetensors", "--merge", "absent")
    adapter = DATA / "oracle/peft_dit_a"
    assert "does not fit" in refused("convert", given := tensors("one", x=np.ones(3)), SCRATCH / "never.safetensors",
                                     "--merge", adapter), given
    done = json.loads(kinora("convert", first, SCRATCH / "merged.safetensors", "--merge", adapter, "--json"))
    assert done["merged"] == 12, done
    before, after = safetensors.numpy.load_file(first), safetensors.numpy.load_file(SCRATCH / "merged.safetensors")
    changed = {k for k in before if not np.array_equal(before[k], after[k])}
    assert len(changed) == 12 and all("to_q" in k or "to_v" in k or "to_out.0" in k for k in changed), changed
    half = SCRATCH / "half.safetensors"
    kinora("convert", first, half, "--dtype", "fp16")
    assert all(v.dtype == np.float16 for v in safetensors.numpy.load_file(half).values())


def metadata(file, name):
    return json.loads(safetensors.safe_open(DATA / "oracle" / file, "np").metadata()[name])


def tiny_wan():
    """Options, and weights with diffusers' names from the oracle's list; head size 12, width 24."""
    D, text, wide, waves, patch = 24, 10, 32, 16, 4 * 2 * 2
    linear = {"patch_embedding": (D, 4, 1, 2, 2), "proj_out": (patch, D), "time_proj": (6 * D, D),
              "text_embedder.linear_1": (D, text), "time_embedder.linear_1": (D, waves),
              "ffn.net.0.proj": (wide, D), "ffn.net.2": (D, wide)}
    drawn, weights = np.random.default_rng(3), {}
    for name in metadata("wan.safetensors", "names").values():
        if "image" in name or "add" in name:
            continue
        module, _, kind = name.rpartition(".")
        shape = next((s for m, s in linear.items() if module.endswith(m)), (D,) if "norm" in name else (D, D))
        if name.endswith("scale_shift_table"):
            shape = (1, 6 if module else 2, D)
        shape = shape[:1] if kind == "bias" else shape
        weights[name] = drawn.normal(0, 0.3, shape).astype(np.float32)
    options = {"num_attention_heads": 2, "attention_head_dim": 12, "in_channels": 4, "out_channels": 4,
               "text_dim": text, "freq_dim": waves, "ffn_dim": wide, "num_layers": 2}
    inputs = {"latent": drawn.normal(size=(1, 4, 2, 4, 6)), "timestep": np.array([500.0]),
              "text": drawn.normal(size=(1, 3, text))}
    return options, weights, inputs


def check_layouts():
    """Published names: conversion from diffusers' names to the authors' and back gives the same file, and either gives
    the same numbers."""
    options, t = metadata("cosmos_dit.safetensors", "a"), case("cosmos_dit.safetensors", "a")[1]
    weights = {k[7:]: v for k, v in t.items() if k.startswith("weight.")}
    cosmos = options, weights, {k: t[k] for k in ("latent", "timestep", "text", "text_mask")}
    wan_names = metadata("wan.safetensors", "names")
    layouts = [("model/wan", "original", "", wan_names, tiny_wan()),
               ("model/wan", "comfyui", "model.diffusion_model.", wan_names, tiny_wan()),
               ("model/wan", "longlive", "model.", wan_names, tiny_wan())]
    layouts += [("model/cosmos", name, "net.", metadata("cosmos_dit.safetensors", f"keys.{name}"), cosmos)
                for name in ("predict1", "predict2")]
    made = {}  # by component, from its own names
    for id, layout, prefix, names, (options, weights, inputs) in layouts:
        theirs = {ours: prefix + name for name, ours in names.items() if ours}
        ours, original, back = (SCRATCH / f"{layout}.{which}.safetensors" for which in ("ours", "original", "back"))
        safetensors.numpy.save_file(weights, ours, {"format": "pt"})
        sets = [a for k, v in options.items() for a in ("--set", f"{k}={json.dumps(v)}")]
        said = json.loads(kinora("convert", ours, original, "--component", id, "--to", layout, *sets, "--json"))
        assert (said["from"], said["to"], said["dropped"]) == ("kinora", layout, []), said
        found = safetensors.numpy.load_file(original)
        assert sorted(found) == sorted(theirs[k] for k in weights), set(found) ^ {theirs[k] for k in weights}
        assert all(np.array_equal(found[theirs[k]], v) for k, v in weights.items())
        said = json.loads(kinora("convert", original, back, "--component", id, "--to", "kinora", *sets, "--json"))
        assert said["from"] == layout, said
        assert back.read_bytes() == ours.read_bytes()
        output = lambda weights: apply(id, inputs, *sets, "--set", f"weights={weights}")[0]["output"]
        if id not in made:
            made[id] = output(ours)
        assert np.abs(made[id]).max() > 0 and np.array_equal(made[id], output(original)), layout
    shown = json.loads(kinora("plugins", "inspect", "model/wan", "--json"))
    assert "original" in json.dumps(shown), shown
    check_trainers_checkpoints(wan_names)


def check_trainers_checkpoints(wan_names):
    """Checkpoints of Self-Forcing and LongLive, their dictionaries joined by dots: the generator or its average is
    read, the critic is dropped, and inspect says what the file is."""
    options, weights, _ = tiny_wan()
    theirs = {ours: name for name, ours in wan_names.items()}
    sets = [a for k, v in options.items() for a in ("--set", f"{k}={json.dumps(v)}")]
    for layout, prefix in (("self-forcing", "generator.model."),
                           ("self-forcing-ema", "generator_ema.model._fsdp_wrapped_module.")):
        given, back = (SCRATCH / f"{layout}.{which}.safetensors" for which in ("given", "back"))
        tensors = {prefix + theirs[k]: v for k, v in weights.items()}
        tensors |= {"critic.model." + theirs[k]: v + 1 for k, v in weights.items()}
        safetensors.numpy.save_file(tensors, given, {"step": "700"})
        said = json.loads(kinora("convert", given, back, "--component", "model/wan", "--to", "kinora", *sets, "--json"))
        assert said["from"] == layout and len(said["dropped"]) == len(weights), said
        found = safetensors.numpy.load_file(back)
        assert sorted(found) == sorted(weights) and all(np.array_equal(found[k], v) for k, v in weights.items())
        facts = json.loads(kinora("inspect", given, "--json"))["checkpoint"]
        assert (facts["component"], facts["names"], facts["training_step"]) == ("model/wan", layout, 700), facts
        assert facts["holds"] == sorted(["critic", prefix.split(".")[0]]), facts


def check_inspect():
    """Describes a model of any size quickly and without memory; operations in closed form; unknown names."""
    start = time.monotonic()
    script = (
        "import resource,subprocess,sys; r = subprocess.run(sys.argv[1:], capture_output=True, text=True); "
        "sys.stderr.write(r.stderr); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, r.returncode); print(r.stdout)")
    command = [KINORA, "inspect", "model/cosmos", "--set", "layers=60", "--set", "heads=48", "--set", "head_size=128",
               "--input", "latent=1x16x21x90x160", "--input", "timestep=1", "--input", "text=1x512x384", "--json"]
    done = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, text=True, check=True)
    seconds = time.monotonic() - start
    (peak, code), found = map(int, done.stdout.split("\n", 1)[0].split()), json.loads(done.stdout.split("\n", 1)[1])
    assert code == 0, done
    print(f"      {found['parameters'] / 1e9:.1f} B parameters described in {seconds:.2f} s, peak {peak // 1024} MiB")
    assert found["parameters"] > 28e9 and found["bytes"]["bf16"] == 2 * found["parameters"], found
    assert peak < 500 * 1024, f"{peak} KiB"
    n, L, D, R, layers = 21 * 45 * 80, 512, 6144, 64, 60
    assert found["flops"]["forward"]["attention"] == layers * 4 * n * (n + L) * D, found["flops"]
    block = 3 * (D * R + R * 3 * D) + (4 + 2) * n * D * D + 2 * L * 384 * D + 2 * n * D * 4 * D
    ends = n * 64 * D * 2 + D * D + 3 * D * D + D * R + R * 2 * D
    assert found["flops"]["forward"]["linear"] == 2 * (layers * block + ends), found["flops"]
    assert found["flops"]["training_step"] == 3 * found["flops"]["forward"]["total"]
    assert {p["name"]: p["copies"] for p in found["parts"]}["transformer_blocks"] == 60, found["parts"]
    assert "floating-point operations" in kinora("inspect", "tokenizer/cosmos", "--input", "video=1x3x9x64x64")
    assert "parameters in" in kinora("inspect", "model/minilm")
    assert "takes no input 'latnet', did you mean 'latent'?" in refused(
        "inspect", "model/cosmos", "--input", "latnet=1x16x2x4x4")
    assert "expected NAME=SHAPE" in refused("inspect", "model/cosmos", "--input", "latent=1x16xx4")
    assert "'timestep' is missing" in refused("inspect", "model/cosmos", "--input", "latent=1x16x2x4x4")
    assert "layerz" in refused("inspect", "model/cosmos", "--set", "layerz=3")
    assert "has no parameters" in refused("inspect", "sampler/euler")
    assert "did you mean 'model/dit'?" in refused("inspect", "model/dti")


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    for check in (check_apply, check_apply_to_video, check_drift, check_apply_refuses, check_apply_config,
                  check_published, check_convert, check_layouts, check_inspect, check_damaged_checkpoint,
                  check_pipeline, check_continued):
        check()
        print("ok   ", check.__name__, flush=True)


main()
