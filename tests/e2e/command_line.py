#!/usr/bin/env python3
"""The program as a user sees it: plugins list and inspect, apply against diffusers' results, completion, Ctrl-C.
usage: command_line.py KINORA ROOT SCRATCH"""
import json, os, pathlib, re, shutil, signal, subprocess, sys, time

import numpy as np
import safetensors
import safetensors.numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import quick

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.insert(0, str(ROOT / "tests/support"))
from skips import skip

DATA = ROOT / "tests/data"


def kinora(*arguments, code=0):
    done = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{arguments}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done.stdout


def check_plugins():
    version = kinora("--version")
    in_git = (ROOT / ".git").exists() and subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True).returncode == 0
    for line in (r"kinora \d+\.\d+\.\d+", r"commit +[0-9a-f]{7,}\n" if in_git else "", r"build +\S+", r"abi +1\.0", r"libtorch 2\.11", r"ffmpeg +\d"):
        assert re.search(line, version), (line, version)
    listed = json.loads(kinora("plugins", "list", "--json"))
    for c in listed:
        assert {"id", "kind", "plugin", "version", "abi", "tier", "state"} <= c.keys(), c
        assert c["state"] == "ready" and c["id"] == f"{c['kind']}/{c['name']}", c
    ids = {c["id"] for c in listed}
    assert {"storage/file", "engine/local", "stage/video.read", "stage/video.probe", "stage/shots.content", "stage/clip.transcode",
            "stage/caption.describe", "stage/shard.webdataset", "tokenizer/cosmos", "model/cosmos", "model/dit", "model/stdit", "loss/edm", "sampler/edm-heun",
            "sampler/euler", "parallel/single", "parallel/ddp", "parallel/recompute", "collective/gloo", "precision/fp32",
            "precision/bf16"} <= ids, ids
    for id in sorted(ids):
        one = json.loads(kinora("plugins", "inspect", id, "--json"))
        assert one["id"] == id and all(o["help"] for o in one["options"]), one
        if one["kind"] in ("tokenizer", "model", "loss", "sampler", "precision"):
            assert one["methods"] and one["inputs"] and one["outputs"], one
            assert all(t["name"] and (t["shape"] or t["dtype"] == "none") and t["dtype"] for t in one["inputs"] + one["outputs"]), one
    for id in {c["kind"]: c["id"] for c in listed}.values():  # the text output, one component of each kind
        assert id in kinora("plugins", "inspect", id)
    for kind, word in (("curate", "stages"), ("shard", "memory"), ("train-tokenizer", "ema"), ("encode", "words"), ("train", "warmup"),
                       ("generate", "negative"), ("report", "report.html")):
        assert word in kinora("plugins", "inspect", f"job/{kind}"), kind
    assert kinora("plugins", "inspect", "dedup.semantic") == kinora("plugins", "inspect", "stage/dedup.semantic")
    assert kinora("plugins", "inspect", "dedup") == kinora("plugins", "inspect", "job/dedup") and "endpoint" in kinora("plugins", "inspect", "storage/s3")
    for word, said in (("storage-s3", "'storage-s3' is a plugin; give one of its components: storage/s3"), ("wordpiece", "unknown component 'wordpiece'")):
        wrong = subprocess.run([KINORA, "plugins", "inspect", word], capture_output=True, text=True)
        assert wrong.returncode == 2 and said in wrong.stderr, wrong
    wrong = subprocess.run([KINORA, "plugins", "inspect", "model/dti"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "did you mean 'model/dit'?" in wrong.stderr, wrong
    for library in sorted({c["library"] for c in listed}):
        kinora("plugins", "validate", library)


def check_pipeline():
    """A published folder is inspected and generates without a run file; from given noise it gives diffusers' result."""
    oracle, folder = DATA / "oracle", SCRATCH / "published pipeline"
    shutil.copytree(oracle / "wan_t2v", folder)
    facts = json.loads(kinora("inspect", folder, "--json"))
    assert facts["pipeline"] == "WanPipeline" and facts["makes"] == "videos" and facts["begins_with"] == "a text", facts
    assert [p["component"] for p in facts["parts"]] == ["model/wan", "model/umt5", "tokenizer/wan"], facts
    sizes = {p["name"]: sum(t.size for t in safetensors.numpy.load_file(next((folder / p["name"]).glob("*.safetensors"))).values()) for p in facts["parts"]}
    assert {p["name"]: p["parameters"] for p in facts["parts"]} == sizes and facts["memory"]["weights"] == 4 * sum(sizes.values()), facts
    text = kinora("inspect", folder)
    assert "81 frames of 480 x 832 (height x width), 50 steps of unipc, guidance 5" in text and f"kinora generate --pipeline '{folder}' --prompt" in text, text
    assert "of weights alone, as float32; a video's activations, which come on top, are not estimated" in text, text
    assert "model/wan: " in kinora("inspect", folder / "transformer"), "a network's folder is its component"
    absent = subprocess.run([KINORA, "inspect", "Wan2.1-T2V-1.3B-Diffusers"], capture_output=True, text=True, cwd=SCRATCH)
    assert absent.returncode == 2 and "no folder has this name either" in absent.stderr, absent
    here = subprocess.run([KINORA, "inspect", "."], capture_output=True, text=True, cwd=folder)
    assert here.returncode == 0 and here.stdout.replace("--pipeline .", "").startswith("WanPipeline, written by diffusers 0."), here
    index = json.loads((folder / "model_index.json").read_text())
    for version in ("\x1b[31m", 3):
        (folder / "model_index.json").write_text(json.dumps({**index, "_diffusers_version": version}))
        assert "written by diffusers ?" in kinora("inspect", folder), version
    (folder / "model_index.json").write_text(json.dumps(index))
    given = safetensors.numpy.load_file(oracle / "pipeline_noise.safetensors")
    noise, out = SCRATCH / "noise.safetensors", SCRATCH / "by-pipeline"
    safetensors.numpy.save_file({"000": given["t2v.noise"]}, noise)
    sets = [f"noise={noise}", "steps=5", "frames=9", "height=32", "width=48", "format=['latents']"]
    command = ["generate", "--pipeline", folder, "--prompt", "red sea", "--out", out, "--name", "sea", *(x for s in sets for x in ("--set", s))]
    done = subprocess.run([KINORA, *map(str, command)], capture_output=True, text=True, cwd=SCRATCH)
    assert done.returncode == 0 and "steps = 5 (50)" in done.stderr, done
    latent = safetensors.numpy.load_file(out / "sea/videos/000.latents.safetensors")["latent"][0]
    want = given["t2v.latent"]
    assert latent.shape == want.shape and abs(latent - want).max() < 1e-5 * abs(want).max(), abs(latent - want).max()
    for arguments, said in ((["generate"], "a run file or a pipeline is missing"), (["generate", "--pipeline", DATA, "--prompt", "x"], "model_index.json is missing")):
        wrong = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True, cwd=SCRATCH)
        assert wrong.returncode == 2 and said in wrong.stderr, wrong


def check_missing_library():
    """A plugin that lacks a library is disabled before any run; list, inspect and check all report why."""
    folder = SCRATCH / "plugins/missing_library"
    folder.mkdir(parents=True)
    shutil.copy(pathlib.Path(KINORA).parents[1] / "tests/abi/libmissing_library.so", folder)
    (folder / "plugin.toml").write_text('[plugin]\nname = "missing_library"\nversion = "0.1.0"\nabi = "1.0"\ntier = "stable"\n'
                                        '[[component]]\nid = "stage/minimal"\nhelp = "of a test"\n')
    why = "requires libkinora_absent.so.3, which is not installed; install"
    listed = {c["id"]: c for c in json.loads(kinora("--plugins", folder.parent, "plugins", "list", "--json"))}
    assert listed["stage/minimal"]["state"] == "disabled" and why in listed["stage/minimal"]["reason"], listed["stage/minimal"]
    assert all(c["state"] == "ready" for id, c in listed.items() if id != "stage/minimal")
    assert why in kinora("--plugins", folder.parent, "plugins", "inspect", "stage/minimal")
    run = SCRATCH / "minimal.toml"
    run.write_text('[run]\nname = "minimal"\nout = "out"\n[[job]]\nname = "a"\nkind = "curate"\ninput = "."\nstages = [{ use = "minimal" }]\n')
    checked = subprocess.run([KINORA, "--plugins", str(folder.parent), "check", str(run)], capture_output=True, text=True)
    assert checked.returncode == 2 and why in checked.stdout + checked.stderr, checked


def check_broken_twin():
    """A folder whose library is missing hides nothing from another one with the same plugin name."""
    library = pathlib.Path(next(c["library"] for c in json.loads(kinora("plugins", "list", "--json")) if c["id"] == "sampler/edm-heun"))
    folder = SCRATCH / "twin/broken"
    folder.mkdir(parents=True)
    shutil.copy(library.with_name("plugin.toml"), folder)
    for word in ("sampler/edm-heun", "edm-heun"):
        said = kinora("--plugins", folder.parent, "plugins", "inspect", word)
        assert f"library  {library}" in said and "state    ready" in said, said
    assert f"{folder}/{library.name}" in kinora("--plugins", folder.parent, "plugins", "list")
    copy = SCRATCH / "twin/none/plugin.toml"  # without another plugin of its name, the broken one is shown
    copy.parent.mkdir()
    copy.write_text('[plugin]\nname = "lonely"\nversion = "0.1.0"\nabi = "1.0"\ntier = "stable"\n[[component]]\nid = "stage/lonely"\nhelp = "of a test"\n')
    assert "state    disabled" in kinora("--plugins", copy.parent, "plugins", "inspect", "stage/lonely")


def check_taken_over():
    """A plugin that takes over one of Kinora's own is named in one warning, with both folders, by check and run."""
    library = pathlib.Path(next(c["library"] for c in json.loads(kinora("plugins", "list", "--json")) if c["id"] == "engine/local"))
    taken = SCRATCH.resolve() / "taken" / library.parent.name
    shutil.copytree(library.parent, taken)
    run = SCRATCH / "taken.toml"
    run.write_text(f'[run]\nout = "{SCRATCH / "taken-out"}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = "{DATA / "film.mp4"}"\nstages = ["video.probe"]\n')
    for words, code in ((["check", run], 0), (["run", run, "--dry-run"], 0)):
        done = subprocess.run([KINORA, "--plugins", str(taken.parent), *map(str, words)], capture_output=True, text=True)
        assert done.returncode == code, done
        lines = [line for line in done.stderr.splitlines() if "engine/local: the plugin in " in line]
        assert len(lines) == 1 and str(taken) in lines[0] and str(library.parent) in lines[0], done
    assert "the plugin in" not in subprocess.run([KINORA, "check", str(run)], capture_output=True, text=True).stderr


def check_drafts():
    """Components of kinds that may still change are marked; one of another draft is disabled, and says so."""
    listed = {c["id"]: c for c in json.loads(kinora("plugins", "list", "--json"))}
    for id, draft in (("engine/local", True), ("model/dit", True), ("stage/video.probe", False), ("sampler/edm-heun", False)):
        assert listed[id]["draft"] == draft, listed[id]
    line = next(line for line in kinora("plugins", "list", "engine").splitlines() if line.startswith("engine/local"))
    assert " draft " in line, line
    folder = SCRATCH / "drafts/other"
    folder.mkdir(parents=True)
    shutil.copy(pathlib.Path(KINORA).parents[1] / "tests/abi/libminimal.so", folder / "libother.so")
    (folder / "plugin.toml").write_text('[plugin]\nname = "other"\nversion = "0.1.0"\nabi = "1.0"\ntier = "stable"\nlicence = "MIT"\n'
                                        '[[component]]\nid = "model/other"\nhelp = "of a test"\ninterface = "kinora.model/1-draft.0"\n')
    done = subprocess.run([KINORA, "--plugins", str(folder.parent), "plugins", "list", "model"], capture_output=True, text=True)
    assert "model/other is disabled:" in done.stdout and "is built for kinora.model/1-draft.0, this Kinora has " in done.stdout, done
    assert done.stderr.count("unknown key 'licence' in [plugin]") == 1, done
    said = kinora("plugins", "validate", folder / "libother.so", code=1)
    assert "unknown key 'licence' in [plugin]" in said and "is built for kinora.model/1-draft.0" in said, said


def check_use_lines():
    """The line for a run file that inspect prints is valid in one, for every kind."""
    recipe = pathlib.Path(ROOT) / "configs/quickstart.toml"
    places = {"stage": "clips", "engine": "clips", "tokenizer": "tokenizer"}
    for id in ("storage/s3", "storage/file", "engine/local", "stage/video.probe", "tokenizer/cosmos", "model/dit", "loss/edm", "sampler/edm-heun",
               "parallel/ddp", "precision/bf16", "collective/gloo"):
        kind, use = id.split("/")[0], [line.strip() for line in kinora("plugins", "inspect", id).split("in a run file\n")[1].splitlines()]
        file, sets = SCRATCH / "use.toml", []
        file.write_text(recipe.read_text().replace("../", f"{ROOT}/") + ("\n".join(["", *use, ""]) if kind == "storage" else ""))
        if kind == "storage":
            assert use[0] == f"[{id.replace('/', '.')}]", use
        else:
            assert len(use) == 1 and use[0].startswith(kind), use
            sets = ["--set", f"{places.get(kind, 'dit')}.{use[0].replace(' = ', '=', 1)}"]
        said = subprocess.run([KINORA, "check", str(file), *sets], capture_output=True, text=True, cwd=ROOT)
        unfit = "in_channels is" in said.stderr and ": 1 error" in said.stderr  # it was parsed; its defaults just do not match the other components
        assert said.returncode == 0 or unfit, (id, use, said)


def check_manifest_is_written_whole():
    """A manifest is replaced in one step: a hard link to the old one keeps the old text. If it cannot be written, nothing changes."""
    library = next(c["library"] for c in json.loads(kinora("plugins", "list", "--json")) if c["id"] == "sampler/edm-heun")
    out, older = SCRATCH / "manifest/plugin.toml", SCRATCH / "older.toml"
    out.parent.mkdir()
    out.write_text("older")
    older.hardlink_to(out)
    kinora("plugins", "manifest", library, "--out", out)
    assert out.read_text() == pathlib.Path(library).with_name("plugin.toml").read_text() and older.read_text() == "older"
    assert [p.name for p in out.parent.iterdir()] == ["plugin.toml"]
    kinora("plugins", "manifest", library, "--out", SCRATCH / "nowhere/plugin.toml", code=1)
    wrong = subprocess.run([KINORA, "plugins", "manifest", pathlib.Path(KINORA).parents[1] / "tests/abi/libwrong_describe.so", "--out", out], capture_output=True, text=True)
    assert wrong.returncode == 1 and "describe() functions write is wrong: plugin.toml:" in wrong.stderr, wrong
    assert "edm-heun" in out.read_text(), "an invalid manifest was written"


def check_a_plugin_that_cannot_be_read():
    """The message about an unknown component gives the reason why another plugin cannot be read; validate finds a library with a wrong file name."""
    broken = SCRATCH / "broken plugins/mine"
    broken.mkdir(parents=True)
    (broken / "plugin.toml").write_text("name = 5\n")
    said = subprocess.run([KINORA, "--plugins", broken.parent, "plugins", "inspect", "stage/mine"], capture_output=True, text=True).stderr
    assert "1 plugin cannot be read: " in said and "plugin.toml:1" in said, said
    library = pathlib.Path(next(c["library"] for c in json.loads(kinora("plugins", "list", "--json")) if c["id"] == "sampler/edm-heun"))
    shutil.copytree(library.parent, SCRATCH / "renamed")
    (SCRATCH / "renamed" / library.name).rename(SCRATCH / "renamed/libother.so")
    said = kinora("plugins", "validate", SCRATCH / "renamed/libother.so", code=1)
    assert f"its file must be called {library.name}, found libother.so" in said, said


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
    near(apply("tokenizer/cosmos", {"video": t["video"].astype(np.float64)}, "--method", "encode", *sets)[0]["latent"], t["latent"])
    near(apply("tokenizer/cosmos", {"latent": t["code"].astype(np.float64)}, "--method", "decode", *sets)[0]["video"], t["decoded"])
    near(apply("tokenizer/cosmos", {"video": t["video"]}, "--method", "encode", *sets)[0]["latent"], t["latent"], 1e-5)

    sets, t = case("cosmos_dit.safetensors", "a")
    inputs = {k: t[k].astype(np.float64) if t[k].dtype == np.float32 else t[k] for k in ("latent", "timestep", "text", "text_mask")}
    near(apply("model/cosmos", inputs, *sets)[0]["output"], t["output"])
    made, _ = apply("model/cosmos", {**inputs, "grad_output": t["grad_output"].astype(np.float64)}, "--method", "gradient", *sets)
    compared = [k for k in t if k.startswith("grad.")]
    assert len(compared) > 5
    for name in compared:
        near(made[name], t[name])

    mixture = {"mean": np.array([[0.5, -1.0]]), "std": np.array([0.7]), "weight": np.array([1.0]), "noise": np.array([[0.3, -0.2], [1.1, 0.4]])}
    out, said = apply("sampler/edm-heun", mixture, "--set", "steps=400")
    assert said["nfe"] == 799, said["nfe"]
    # For a single Gaussian the ODE has an exact solution: x - mean keeps its ratio to sqrt(std^2 + sigma^2).
    exact = mixture["mean"] + (mixture["noise"] * 80 - mixture["mean"]) * 0.7 / np.sqrt(0.7**2 + 80**2)
    near(out["samples"], exact, 1e-4)
    loss, _ = apply("loss/edm", {"latent": np.zeros((1, 1, 1, 1, 1)), "noise": np.ones((1, 1, 1, 1, 1)), "sigma": np.array([0.5]),
                                 "output": np.zeros((1, 1, 1, 1, 1))})
    # c_skip = s^2 / (sigma^2 + s^2) with s = 0.5, lambda = (sigma^2 + s^2) / (sigma s)^2, D = c_skip sigma n
    near(loss["loss"], np.array([(0.5 / 0.0625) * (0.5 * 0.5) ** 2]))


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
    assert "takes tensors instead of the file 'film.mp4'" in refused("apply", "model/cosmos", "film.mp4", "--inputs", misspelt)
    film = DATA / "film.mp4"
    assert "has no methods" in refused("apply", "stage/shots.content", film, "--method", "cut")
    assert "takes a file instead of tensors" in refused("apply", "stage/shots.content", film, "--inputs", misspelt)
    assert "is a folder; apply takes one file" in refused("apply", "stage/shots.content", SCRATCH)
    assert "has no weights" in refused("apply", "stage/shots.content", film, "--set", "weights=x")


def check_apply_config():
    """A published configuration: its members are options, --set overrides it, and members that are not options are reported."""
    options = json.loads(safetensors.safe_open(DATA / "oracle/cosmos_dit.safetensors", "np").metadata()["a"])
    sets, t = case("cosmos_dit.safetensors", "a")
    weights = sets[-2:]
    inputs = {k: t[k].astype(np.float64) if t[k].dtype == np.float32 else t[k] for k in ("latent", "timestep", "text", "text_mask")}
    config = SCRATCH / "config.json"

    def written(**more):
        config.write_text(json.dumps({"_class_name": "CosmosTransformer3DModel", "_diffusers_version": "0.36.0", **options, **more}))
        return ["--set", f"config={config}", *weights]

    near(apply("model/cosmos", inputs, *written())[0]["output"], t["output"])
    near(apply("model/cosmos", inputs, *written(layers=options["layers"] + 1), "--set", f"layers={options['layers']}")[0]["output"], t["output"])
    written()
    near(apply("model/cosmos", inputs, "--set", f"config={SCRATCH}", *weights)[0]["output"], t["output"])
    given = tensors("given", **inputs)
    done = subprocess.run([KINORA, "apply", "model/cosmos", "--inputs", given, *written(layerz=3, size=None)], capture_output=True, text=True)
    warned = [line for line in done.stderr.splitlines() if "ignored" in line]
    assert done.returncode == 0 and len(warned) == 1 and "config.json" in warned[0], done
    assert "layerz (did you mean 'layers'?)" in warned[0], warned
    assert "_class_name" not in done.stderr and "_diffusers_version" not in done.stderr, done
    assert not any(f" {name}," in warned[0] for name in options), warned
    said = refused("apply", "model/cosmos", "--inputs", given, *written(layers="two", heads=0))
    assert said.count("config.json: ") == 2 and "'layers'" in said and "'heads'" in said, said
    config.write_text("[1]")
    assert "a configuration is a JSON object" in refused("apply", "model/cosmos", "--inputs", given, "--set", f"config={config}")
    config.write_text('{"layers": ')
    assert "config.json: not valid JSON" in refused("apply", "model/cosmos", "--inputs", given, "--set", f"config={config}")
    kinora("apply", "model/cosmos", "--inputs", given, "--set", "config=/nonexistent", code=1)


def check_published():
    """A pipeline's folder in diffusers' layout is all that is needed; mismatches are reported by name."""
    options = json.loads(safetensors.safe_open(DATA / "oracle/cosmos_dit.safetensors", "np").metadata()["a"])
    sets, t = case("cosmos_dit.safetensors", "a")
    inputs = {k: t[k].astype(np.float64) if t[k].dtype == np.float32 else t[k] for k in ("latent", "timestep", "text", "text_mask")}
    weights = pathlib.Path(sets[-1].removeprefix("weights="))
    pipeline = SCRATCH / "pipeline"
    pipeline.mkdir()
    kinora("convert", weights, pipeline / "transformer", "--max-shard", "4 kB", "--json")
    (pipeline / "transformer/config.json").write_text(json.dumps({"_class_name": "CosmosTransformer3DModel", **options}))
    (pipeline / "model_index.json").write_text("{}")
    near(apply("model/cosmos", inputs, "--set", f"weights={pipeline}")[0]["output"], t["output"])
    given = tensors("published", **inputs)
    part = pipeline / "transformer"
    index = json.loads((part / "diffusion_pytorch_model.safetensors.index.json").read_text())["weight_map"]
    shard = part / index["proj_out.weight"]
    held = safetensors.numpy.load_file(shard)
    held["proj_uot.weight"] = held.pop("proj_out.weight")
    safetensors.numpy.save_file(held, shard)
    said = subprocess.run([KINORA, "apply", "model/cosmos", "--inputs", str(given), "--set", f"weights={pipeline}"], capture_output=True, text=True)
    assert said.returncode == 1 and "'proj_out.weight' is not in" in said.stderr, said
    whole = SCRATCH / "misspelt_weights.safetensors"
    all_weights = safetensors.numpy.load_file(weights)
    all_weights["proj_uot.weight"] = all_weights.pop("proj_out.weight")
    safetensors.numpy.save_file(all_weights, whole)
    said = refused("apply", "model/cosmos", "--inputs", given, *sets[:-1], f"weights={whole}")
    assert "1 missing: 'proj_out.weight', did you mean 'proj_uot.weight'?" in said and "1 unexpected" in said, said
    shard.unlink()
    said = subprocess.run([KINORA, "apply", "model/cosmos", "--inputs", str(given), "--set", f"weights={pipeline}"], capture_output=True, text=True)
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
    assert done["file"].endswith("diffusion_pytorch_model.safetensors.index.json") and len(list(folder.glob("*.safetensors"))) > 3, done
    held = [tensor for shard in folder.glob("*.safetensors") for tensor in safetensors.numpy.load_file(shard)]
    assert sorted(held) == sorted(safetensors.numpy.load_file(first)), held
    assert "tensors" in kinora("convert", folder, second)
    same_but_for_the_order_of_metadata(first, second)
    assert "exists already" in refused("convert", folder, second)
    assert "--from and --to need --component" in refused("convert", first, SCRATCH / "never.safetensors", "--to", "diffusers")
    assert "has no layout 'orignal'" in refused("convert", first, SCRATCH / "never.safetensors", "--to", "orignal", "--component", "model/cosmos")
    assert "--max-shard" in refused("convert", first, SCRATCH / "never.safetensors", "--max-shard", "0")
    assert "IN and OUT are required" in refused("convert", first)
    adapter = DATA / "oracle/peft_dit_a"
    assert "does not fit" in refused("convert", given := tensors("one", x=np.ones(3)), SCRATCH / "never.safetensors", "--merge", adapter), given
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
    linear = {"patch_embedding": (D, 4, 1, 2, 2), "proj_out": (patch, D), "time_proj": (6 * D, D), "text_embedder.linear_1": (D, text),
              "time_embedder.linear_1": (D, waves), "ffn.net.0.proj": (wide, D), "ffn.net.2": (D, wide)}
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
    options = {"num_attention_heads": 2, "attention_head_dim": 12, "in_channels": 4, "out_channels": 4, "text_dim": text, "freq_dim": waves,
               "ffn_dim": wide, "num_layers": 2}
    inputs = {"latent": drawn.normal(size=(1, 4, 2, 4, 6)), "timestep": np.array([500.0]), "text": drawn.normal(size=(1, 3, text))}
    return options, weights, inputs


def check_layouts():
    """Published names: conversion from diffusers' names to the authors' and back gives the same file, and either gives the same numbers."""
    options, t = metadata("cosmos_dit.safetensors", "a"), case("cosmos_dit.safetensors", "a")[1]
    cosmos = options, {k[7:]: v for k, v in t.items() if k.startswith("weight.")}, {k: t[k] for k in ("latent", "timestep", "text", "text_mask")}
    wan_names = metadata("wan.safetensors", "names")
    layouts = [("model/wan", "original", "", wan_names, tiny_wan()), ("model/wan", "comfyui", "model.diffusion_model.", wan_names, tiny_wan())]
    layouts += [("model/cosmos", name, "net.", metadata("cosmos_dit.safetensors", f"keys.{name}"), cosmos) for name in ("predict1", "predict2")]
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
        outputs = [apply(id, inputs, *sets, "--set", f"weights={w}")[0]["output"] for w in (ours, original)]
        assert np.abs(outputs[0]).max() > 0 and np.array_equal(*outputs), layout
    shown = json.loads(kinora("plugins", "inspect", "model/wan", "--json"))
    assert "original" in json.dumps(shown), shown


def check_inspect():
    """Describes a model of any size quickly and without memory; operations in closed form; unknown names."""
    start = time.monotonic()
    script = "import resource,subprocess,sys; r = subprocess.run(sys.argv[1:], capture_output=True, text=True); sys.stderr.write(r.stderr); " \
             "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, r.returncode); print(r.stdout)"
    command = [KINORA, "inspect", "model/cosmos", "--set", "layers=60", "--set", "heads=48", "--set", "head_size=128", "--input",
               "latent=1x16x21x90x160", "--input", "timestep=1", "--input", "text=1x512x384", "--json"]
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
    assert "takes no input 'latnet', did you mean 'latent'?" in refused("inspect", "model/cosmos", "--input", "latnet=1x16x2x4x4")
    assert "expected NAME=SHAPE" in refused("inspect", "model/cosmos", "--input", "latent=1x16xx4")
    assert "'timestep' is missing" in refused("inspect", "model/cosmos", "--input", "latent=1x16x2x4x4")
    assert "layerz" in refused("inspect", "model/cosmos", "--set", "layerz=3")
    assert "has no parameters" in refused("inspect", "sampler/euler")
    assert "did you mean 'model/dit'?" in refused("inspect", "model/dti")


def complete(*words):
    line = " ".join(f"'{w}'" for w in words)
    script = (f"PATH={pathlib.Path(KINORA).parent}:$PATH; source <(kinora completion bash); COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
              "_kinora; printf '%s\\n' \"${COMPREPLY[@]}\"")
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=ROOT, check=True).stdout.split()


def check_completion():
    assert complete("kinora", "plu") == ["plugins"]
    assert complete("kinora", "plan", "my.toml", "--cl") == ["--cluster"]
    assert {"list", "inspect", "validate"} <= set(complete("kinora", "plugins", ""))
    assert complete("kinora", "apply", "model/d") == ["model/dit"]
    assert complete("kinora", "run", "configs/quick") == ["configs/quickstart.toml"]
    assert complete("kinora", "run", "configs/quickstart.toml", "--dr") == ["--dry-run"]


def quick_run(out, steps):
    few = [*quick.FEW, "film.sampler.steps=2", "dit.batch=1", "dit.model.layers=1", f"dit.steps={steps}"]
    return [KINORA, "run", str(ROOT / "configs/quickstart.toml"), "--out", str(out), *(a for s in few for a in ("--set", s))]


def check_interrupt():
    """Ctrl-C during training: exit code 130, one line, no partial files; the same command resumes."""
    out = quick.begun(KINORA, ROOT, SCRATCH / "interrupted")
    command = quick_run(out, steps=100000)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    curve = out / "dit/metrics.jsonl"
    end = time.monotonic() + 240
    while time.monotonic() < end and process.poll() is None and not (curve.exists() and curve.stat().st_size > 500):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, (process.returncode, said)
    assert "interrupted; run the same command again to continue" in said and "terminate" not in said, said
    left = [p for p in out.rglob("*") if p.name.endswith((".tmp", ".part")) or ".tmp" in p.name]
    assert not left, left
    again = subprocess.run([*command, "--dry-run"], capture_output=True, text=True)
    assert again.returncode == 0 and "latents: already done" in again.stderr and "dit: would run" in again.stderr, again.stdout + again.stderr


def check_full_disk():
    """The disk fills up during training: one line reports it, and no partial files remain; with free space the run resumes."""
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
    films = []
    for name, churn in (("still", 0.0), ("churn", 2.0), ("again", 2.0)):
        folder = SCRATCH / name
        shutil.copytree(out, folder, ignore=shutil.ignore_patterns("film", "dit"))
        done = subprocess.run([*quick_run(folder, steps=2), "--only", "film", "--set", 'dit.loss={use="edm"}',
                               "--set", f'film.sampler={{use="edm-heun", steps=4, s_churn={churn}}}'], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        films.append((folder / "film/videos/000.mp4").read_bytes())
    assert films[0] != films[1] and films[1] == films[2]


def check_identity():
    """The same job means the same options and the same named files, not how it runs. No other files are removed."""
    out = SCRATCH / "interrupted"
    vocabulary = SCRATCH / "vocab.txt"
    command = [*quick_run(out, steps=100000), "--dry-run", "--set"]

    def said(*sets):
        done = subprocess.run([*command, f"latents.words.vocab={vocabulary}", *(a for s in sets for a in ("--set", s))], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    vocabulary.write_bytes((pathlib.Path(os.environ["KINORA_ASSETS"]) / "minilm/vocab.txt").read_bytes())
    redo = quick_run(out, steps=100000)
    done = subprocess.run([*redo, "--only", "latents", "--set", f"latents.words.vocab={vocabulary}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "latents: already done" in said()
    assert "latents: already done" in said("latents.threads=1") and "tokenizer: already done" in said("tokenizer.checkpoint_every=1")
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
    bad = subprocess.run([KINORA, "check", str(ROOT / "configs/quickstart.toml"), "--set", "run.log=debugg"], capture_output=True, text=True)
    assert bad.returncode == 2 and "did you mean 'debug'?" in bad.stderr + bad.stdout, bad


def check_ranks():
    """A failure on rank 0 ends the ranks that wait for it, with its reason."""
    film = SCRATCH / "no film.mp4"
    film.write_bytes(b"")
    file = SCRATCH / "ranks.toml"
    file.write_text(f'[run]\nout = "{SCRATCH / "ranks"}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = "{film}"\nstages = ["video.probe"]\n')
    both = [subprocess.Popen([KINORA, "run", str(file)], stderr=subprocess.PIPE, text=True, env={**os.environ, "RANK": rank, "WORLD_SIZE": "2"})
            for rank in ("1", "0")]
    for process, words in zip(both, ("job 'clips' failed on rank 0: none of the 1 inputs", "job 'clips' failed: none of the 1 inputs")):
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 1 and words in said, said


def check_waiting_rank():
    """A rank that waits for another reports it, and Ctrl-C ends it at once; the folder is then unlocked."""
    port = quick.held_port()
    out = SCRATCH / "waiting"
    shutil.copytree(SCRATCH / "interrupted", out, ignore=shutil.ignore_patterns("film", "dit"))
    command = [*quick_run(out, steps=2), "--only", "dit", "--set", 'dit.parallel=["ddp"]', "--set", "dit.batch=2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": str(port)})
    said = ""
    for line in process.stderr:
        said += line
        if "waiting for" in line:
            break
    process.send_signal(signal.SIGINT)
    asked = time.monotonic()
    said += process.communicate(timeout=60)[1]
    assert process.returncode == 130 and time.monotonic() - asked < 5, (process.returncode, said)
    assert f"waiting for rank 1 at 127.0.0.1:{port}, at most 600 s" in said and "MASTER_ADDR is not set, and the ranks meet at 127.0.0.1" in said, said
    assert "[W" not in said and "Exception" not in said, said
    alone = subprocess.run([*command, "--set", 'dit.parallel=["single"]'], capture_output=True, text=True)
    assert alone.returncode == 0, alone.stderr


def check_installed():
    """The program outside the checkout, in an empty environment, finds its plugins, and libtorch where KINORA_TORCH says."""
    build, place = pathlib.Path(KINORA).resolve().parent.parent, SCRATCH / "installed"
    cmake = pathlib.Path(sys.executable).parent / "cmake"
    subprocess.run([cmake, "--install", build, "--prefix", place, "--strip"], check=True, capture_output=True)
    given = SCRATCH / "mixture.safetensors"
    safetensors.numpy.save_file({"mean": np.zeros((1, 2)), "std": np.ones(1), "weight": np.ones(1), "noise": np.ones((1, 2))}, given)
    done = subprocess.run([place / "bin/kinora", "apply", "sampler/euler", "--inputs", given, "--json"], capture_output=True, text=True,
                          env=(bare := {"PATH": "/usr/bin:/bin", "HOME": str(SCRATCH), "KINORA_TORCH": str(ROOT / ".deps/torch/torch")}), cwd=SCRATCH)
    assert done.returncode == 0 and json.loads(done.stdout)["nfe"] == 35, done
    listed = subprocess.run([place / "bin/kinora", "plugins", "list", "--json"], capture_output=True, text=True, env=bare)
    assert all(c["state"] == "ready" and c["library"].startswith(str(place)) for c in json.loads(listed.stdout)), listed.stdout
    check_stage_in_c(place)


def check_stage_in_c(place):
    """The commands of sdk/README.md about a stage in plain C work as written."""
    section = (pathlib.Path(ROOT) / "sdk/README.md").read_text().split("## A stage in plain C\n")[1].split("\n## ")[0]
    commands = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    work = SCRATCH / "plain_c"
    work.mkdir()
    for command in commands:
        command = command.replace("<kinora's prefix>", str(place))
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=work, env={**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}"})
        assert done.returncode == 0, (command, done)
    assert len(commands) > 2 and "stage/count.bytes" in done.stdout, (commands, done.stdout)


def main():
    subprocess.run(["umount", str(SCRATCH / "disk")], capture_output=True)  # left by a killed run
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    for check in (check_plugins, check_missing_library, check_broken_twin, check_taken_over, check_drafts, check_use_lines, check_manifest_is_written_whole, check_a_plugin_that_cannot_be_read, check_apply, check_apply_refuses, check_apply_config,
                  check_published, check_convert, check_layouts, check_inspect, check_pipeline, check_completion, check_interrupt, check_full_disk, check_identity, check_noise, check_ranks, check_waiting_rank, check_installed):
        check()
        print("ok   ", check.__name__)


main()
