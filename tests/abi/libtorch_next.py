#!/usr/bin/env python3
"""Plugins of the tier stable, as this build made them with its libtorch, work unrebuilt in a Kinora that is built with
a later libtorch: losses, samplers, precisions, a model's gradients, and encode, train and generate jobs whose every
component is stable give the same numbers. Pinned plugins are refused. usage: libtorch_next.py KINORA ROOT SCRATCH

The later libtorch is KINORA_TORCH_NEXT, the folder of a torch package, or .deps/torch-next/torch, which
packaging/dev.sh torch-next makes; without one the test is skipped. The first run builds a Kinora with it, which takes
about 20 minutes; it stays in SCRATCH/build.

Everything is computed in float64. Another libtorch may add the terms of a sum in another order, hence 1e-12 of a
tensor's largest value; how many tensors are equal to the last bit is printed. NEAR is that bound; float32 is what the
jobs store."""
import json, os, pathlib, re, shutil, sys

import numpy as np
import safetensors.numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import quick
from build import ABI, build_kinora, compiled, done, libtorch_of, manifest, new, without_jobs
from skips import skip

KINORA, ROOT, SCRATCH = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
NEAR = {"float64": 1e-12, "float32": 1e-6}
FLAGS = [f"-Wl,--version-script={ROOT / 'sdk/cmake/plugin.map'}", "-O1", "-fvisibility=hidden"]
TEMPLATES = {"model": "first-model", "optimizer": "descent", "tokenizer": "plain", "collective": "alone"}
MODEL = ["--set", "channels=3", "--set", "text_size=8"]
RUN = """
[run]
seed = 1
[[job]]
name = "latents"
kind = "encode"
input = "{shards}"
tokenizer = {{ use = "plain" }}
tokenizer_weights = "{no_weights}"
words = {{ use = "text.wordpiece", vocab = "asset:minilm/vocab.txt" }}
text = {{ use = "waves" }}
text_weights = "{no_weights}"
collective = {{ use = "alone" }}
frames = 2
every = 8
height = 16
width = 16
scale = "none"
[[job]]
name = "dit"
kind = "train"
input = "latents"
model = {{ use = "first-model", channels = 3, text_size = 8 }}
loss = {{ use = "{loss}" }}
optimizer = {{ use = "descent" }}
precision = "fp64"
parallel = ["{parallel}"]
collective = {{ use = "alone" }}
steps = 4
batch = 2
text_dropout = 0.5
device = "cpu"
[[job]]
name = "film"
kind = "generate"
input = "dit"
tokenizer = {{ use = "plain" }}
tokenizer_weights = "{no_weights}"
sampler = {{ use = "{sampler}", steps = 4 }}
collective = {{ use = "alone" }}
precision = "fp64"
prompts = ["a bright room"]
guidance = 2.0
format = ["latents"]
device = "cpu"
"""


def version_of(torch):
    return re.search(r"__version__ = '([\d.]+)", (torch / "version.py").read_text())[1]


def later_libtorch():
    """The folder of the later torch package, or None."""
    given = os.environ.pop("KINORA_TORCH_NEXT", "")
    torch = pathlib.Path(given) if given else ROOT / ".deps/torch-next/torch"
    if not (torch / "lib/libtorch_cpu.so").exists():
        assert not given, (
            f"KINORA_TORCH_NEXT={given} has no lib/libtorch_cpu.so; expected the folder of a torch package")
        return None
    assert version_of(torch) != version_of(
        libtorch_of(KINORA)), f"{torch} is the libtorch that this Kinora was built with; another one is required"
    return torch


def own_plugins(folder):
    """Builds plugins from the templates, and a text encoder. Both programs use them."""
    sources = [new(KINORA, kind, name, folder / name) for kind, name in TEMPLATES.items()] + [ABI / "waves.cpp"]
    for source in sources:
        library = compiled(["g++"], source, folder / f"plugins/{source.stem}/lib{source.stem}.so", *FLAGS,
                           include=[ROOT / "sdk/include"])
        if not (library.parent / "plugin.toml").exists():
            manifest(KINORA, library)
    return folder / "plugins"


def components(kinora, plugins):
    """{id: what `plugins list` says}."""
    return {one["id"]: one
            for one in json.loads(done(kinora, "--plugins", plugins, "plugins", "list", "--json"))
            if one["state"] != "shadowed"}


def check_listed(ours, theirs, plugins, torch):
    """Every stable component is ready there, from these very libraries; every pinned one is refused for its
    libtorch."""
    stable = [id for id, one in ours.items() if one["tier"] == "stable"]
    pinned = [id for id, one in ours.items() if one["tier"] == "pinned"]
    assert len(stable) > 60 and len(pinned) > 20, (len(stable), len(pinned))
    for id in stable:
        assert theirs[id]["state"] == "ready" and pathlib.Path(theirs[id]["library"]).is_relative_to(plugins), theirs[
            id]
    for id in pinned:
        assert theirs[id][
            "state"] != "ready" and f"expected {version_of(torch)}, found {version_of(libtorch_of(KINORA))}" in theirs[
                id]["reason"], theirs[id]
    return stable


def inputs(draw):
    """{kind of input: tensors} for kinora apply."""
    clip = lambda: draw.standard_normal((2, 3, 2, 4, 6))
    return {
        "latents": {"latent": clip(), "noise": clip(), "prediction": clip(), "sigma": np.array([0.3, 0.8])},
        "codes": {"output": draw.standard_normal((2, 5, 7)), "codes": draw.integers(0, 7, (2, 5)),
                  "mask": np.arange(10).reshape(2, 5) % 4 != 3},
        "mixture": {"mean": draw.standard_normal((3, 4)), "std": np.array([0.5, 1.0, 0.7]),
                    "weight": np.array([1.0, 2.0, 1.5]), "noise": draw.standard_normal((6, 4))},
        "matrix": {"x": draw.standard_normal((8, 64))},
        "model": {"latent": clip(), "timestep": np.array([0.3, 0.8]), "text": draw.standard_normal((2, 4, 8)),
                  "grad_output": clip()},
        "video": {"video": clip()},
    }


def calls(ids):
    """(name, id, kind of input, arguments) of each call of kinora apply."""
    given = {"loss": "latents", "sampler": "mixture", "precision": "matrix"}
    out = [(id, id, "codes" if id == "loss/next-token" else given[id.split("/")[0]], [])
           for id in ids if id.split("/")[0] in given]
    return out + [("gradients", "model/first-model", "model", ["--method", "gradient", *MODEL]),
                  ("tokenizer/plain", "tokenizer/plain", "video", ["--method", "encode_decode"])]


def loaded(file):
    """{name: tensor} of a safetensors file; bfloat16, which numpy does not have, as its bits."""
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    numbers = {"F64": "float64", "F32": "float32", "BF16": "uint16", "I64": "int64", "I32": "int32", "U8": "uint8",
               "BOOL": "bool"}
    parts = {name: of for name, of in json.loads(data[8:start]).items() if name != "__metadata__"}
    return {name: np.frombuffer(data[start + of["data_offsets"][0] : start + of["data_offsets"][1]],
                                numbers[of["dtype"]]).reshape(of["shape"]) for name, of in parts.items()}


def applied(kinora, plugins, ids, files, out):
    """{name: tensor} of all that the components compute."""
    found = {}
    for name, id, kind, arguments in calls(ids):
        file = out / f"{name.replace('/', '-')}.safetensors"
        done(kinora, "--plugins", plugins, "apply", id, "--inputs", files[kind], "--out", file, *arguments)
        found |= {f"{name} {key}": tensor for key, tensor in loaded(file).items()}
    return found


def jobs(kinora, plugins, shards, out):
    """{name: tensor} of trainings and what their models generate: losses and norms of each step, weights, latents."""
    found, none = {}, out / "none.safetensors"
    safetensors.numpy.save_file({}, none)
    for loss, sampler, parallel in (("flow", "unipc", "recompute"), ("edm", "edm-heun", "single")):
        file, folder = out / f"{loss}.toml", out / loss
        file.write_text(RUN.format(shards=shards, no_weights=none, loss=loss, sampler=sampler, parallel=parallel))
        done(kinora, "--plugins", plugins, "run", file, "--out", folder)
        steps = [json.loads(line) for line in (folder / "dit/metrics.jsonl").read_text().splitlines()]
        assert len(steps) == 4 and all(step["gradient_norm"] > 0 for step in steps), steps
        found |= {f"{loss} {key}": np.array([step[key] for step in steps])
                  for key in ("loss", "gradient_norm", "weight_norm")}
        for part in (folder / "dit/checkpoints/step-000004/weights.safetensors",
                     folder / "film/videos/000.latents.safetensors"):
            found |= {f"{loss} {part.stem} {key}": tensor for key, tensor in loaded(part).items()}
    return found


def distance(a, b):
    """The largest difference as a share of the largest value; infinite for another shape or dtype, and for what is not
    a number."""
    if a.shape != b.shape or a.dtype != b.dtype or not np.isfinite(np.asarray([a, b], dtype=np.float64)).all():
        return np.inf
    return float(np.abs(a.astype(np.float64) - b).max(initial=0) / np.maximum(np.abs(a).max(initial=0), 1e-300))


def compare(ours, theirs):
    assert ours.keys() == theirs.keys() and len(ours) > 60, (len(ours), ours.keys() ^ theirs.keys())
    far = {name: distance(tensor, theirs[name]) for name, tensor in ours.items()}
    equal = sum(ours[name].tobytes() == theirs[name].tobytes() for name in ours)
    print(
        f"{len(far)} tensors, {equal} of them equal to the last bit; the largest difference is "
        f"{max(far.items(), key=lambda one: one[1])}")
    wrong = {name: d for name, d in far.items() if not d <= NEAR.get(str(ours[name].dtype), 0)}
    assert not wrong, wrong


def main(torch):
    for entry in SCRATCH.iterdir():
        if entry.name != "build":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    later = build_kinora(ROOT, SCRATCH / "build", torch, "plugin.jobs-encode", "plugin.jobs-train",
                         "plugin.jobs-generate")
    assert f"libtorch {version_of(torch)}" in done(later, "--version")
    plugins = without_jobs(KINORA.parents[1] / "lib/kinora/plugins", SCRATCH / "plugins")
    own = own_plugins(SCRATCH / "own")
    shutil.copytree(own, plugins, dirs_exist_ok=True)
    stable = check_listed(components(KINORA, own), components(later, plugins), plugins, torch)
    shards = quick.begun(KINORA, ROOT, SCRATCH / "quick") / "shards"
    files = {kind: SCRATCH / f"{kind}.safetensors" for kind in inputs(np.random.default_rng(1))}
    for kind, tensors in inputs(np.random.default_rng(1)).items():
        safetensors.numpy.save_file(tensors, files[kind])
    found = []
    for name, kinora, folder in (("ours", KINORA, own), ("theirs", later, plugins)):
        (SCRATCH / name).mkdir()
        found.append(applied(kinora, folder, stable, files,
                             SCRATCH / name) | jobs(kinora, folder, shards, SCRATCH / name))
    compare(*found)


one = np.linspace(1, 2, 5)
assert distance(one, one) == 0 and distance(one, one.astype(np.float32)) == distance(
    one, np.full(5, np.nan)) == np.inf and distance(one, one * (1 + 1e-11)) > NEAR["float64"]
os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"  # its cmake
os.environ.pop("KINORA_TORCH", None)
SCRATCH.mkdir(parents=True, exist_ok=True)
if torch := later_libtorch():
    main(torch)
else:
    skip("libtorch_next",
         "no second libtorch; packaging/dev.sh torch-next downloads one into .deps/torch-next, or set "
         "KINORA_TORCH_NEXT to the folder of a torch package")
