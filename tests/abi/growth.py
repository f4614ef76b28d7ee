#!/usr/bin/env python3
"""ABI structs of another minor: every struct with struct_size has 8 more bytes at its end. usage: growth.py KINORA ROOT
SCRATCH [--host]

Without --host: plugins that are built with the larger structs work with this program, and no function writes past a
struct of a host whose structs are smaller, or larger. With --host (slow): this program's plugins, and a stage that is
built with the headers of ABI 1.0, work with a program that is built with the larger structs, and its engine and stages
with this program.

What it finds, by the defects that the first review of the ABI had found (the first two were put back by hand, and
found):
 - a context in kinora_link by value: link.h does not compile once kinora_context has grown
 - `*out = one` instead of KINORA_FILL in resources() or info(): canary.c sees bytes behind its struct (for resources()
 in every run)
 - an array of structs without a stride, and a struct that is not read because it is shorter than the reader's: --host,
 by a run with the other's
   engine and by check-parallel; layout.py looks for the second in the sources too"""
import os, pathlib, shutil, sys
from concurrent.futures import ThreadPoolExecutor

from build import ABI, build_kinora, compiled, curated, done, libtorch_of, new, without_jobs
from headers import PINNED, grow, run, texts

KINORA, ROOT, SCRATCH = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
TODAY, VIDEO = ROOT / "sdk/include", ROOT / "tests/data/film_excerpt.webm"
OURS = KINORA.parents[1] / "lib/kinora/plugins"
# a host that writes past a struct on a plugin's stack ends it
FLAGS = [f"-Wl,--version-script={ROOT / 'sdk/cmake/plugin.map'}", "-O0", "-fvisibility=hidden", "-fstack-protector-all"]
STAGES = ('{ use = "video.read", frames = 4, height = 36 }', '{ use = "dim-scenes", at_least = 0.0 }',
          '{ use = "count.bytes", field = "json" }')
KINDS = {"stage": "dim-scenes", "tokenizer": "plain", "sampler": "geometric", "model": "first-model",
         "parallel": "stretch"}


def with_a_function(model):
    """Gives the template's model a node of its own in the graph (kinora_function), which changes nothing."""
    text, same = model.read_text(), "[](const Tensors& t) { return Tensors{t[0] + 0.0}; }"
    for before, more in (("class ", '#include "kinora/autograd.hpp"\n'),
                         ("    return {permuted(ctx.gather(",
                          f"    h = kinora::autograd_apply<Tensor>({{h}}, 1, {same}, {same})[0];\n")):
        assert before in text, f"the template of models has no '{before}'"
        text = text.replace(before, more + before, 1)
    model.write_text(text)


def plugins(folder, include, kinds, c_include=None):
    """A plugin of each kind from its template, and the stage in C, all built with these headers. Returns the folder of
    plugins."""
    sources = {name: new(KINORA, kind, name, folder / name) for kind, name in kinds.items()}
    with_a_function(sources[kinds["model"]])
    jobs = [(["g++"], source, folder / f"plugins/{name}/lib{name}.so", include) for name, source in sources.items()]
    jobs.append((["gcc"], ABI / "pure_c_stage.c", folder / "plugins/pure_c_stage/libpure_c_stage.so",
                 c_include or include))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: compiled(*job[:3], *FLAGS, include=[job[3]]), jobs))
    return folder / "plugins"


def sizes(include):
    """{struct: bytes} as the headers assert them."""
    return {type: int(size) for text in texts(include).values()
            for type, member, size in PINNED.findall(text) if not member}


def canary(include):
    program = SCRATCH / f"canary-{include.parent.name}"
    done("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{include}", ABI / "canary.c", "-o", program, "-ldl")
    return program


def check_fills(grown, new_plugins):
    """kinora_resources and kinora_tokenizer_info, between every pair of sizes."""
    host, later_host, now = canary(TODAY), canary(grown), sizes(TODAY)
    for name, struct in {"dim-scenes": "kinora_resources", "pure_c_stage": "kinora_resources",
                         "plain": "kinora_tokenizer_info"}.items():
        assert f"{struct} {now[struct]} of {now[struct]}" in done(host, new_plugins / name / f"lib{name}.so"), name
    old = compiled(["gcc"], ABI / "pure_c_stage.c", SCRATCH / "v1/plugins/pure_c_stage/libpure_c_stage.so", *FLAGS,
                   include=[ABI / "v1"])
    assert f"kinora_resources {sizes(ABI / 'v1')['kinora_resources']} of {now['kinora_resources'] + 8}" in done(
        later_host, old)
    careless = SCRATCH / "careless.c"
    text = (ABI / "pure_c_stage.c").read_text()
    assert text.count("KINORA_FILL(out, &one);") == 1
    careless.write_text(text.replace("KINORA_FILL(out, &one);", "*out = one;"))
    compiled(["gcc"], careless, SCRATCH / "careless/plugins/careless/libcareless.so", *FLAGS, include=[grown])
    found = run(host, SCRATCH / "careless/plugins/careless/libcareless.so")
    assert (found.returncode == 1 and "stage/count.bytes" in found.stdout
            and not found.stderr), "a stage that writes past the host's struct is not found"


def check_tensors(kinora, folder, out):
    """Sampler, model and strategy: structs that go through the chain of links."""
    import numpy as np
    import safetensors.numpy
    given = out / "mixture.safetensors"
    safetensors.numpy.save_file({"mean": np.zeros((1, 2)), "std": np.ones(1), "weight": np.ones(1),
                                 "noise": np.ones((1, 2))}, given)
    assert '"nfe":' in done(kinora, "--plugins", folder, "apply", "sampler/geometric", "--inputs", given, "--json")
    given = out / "latent.safetensors"
    safetensors.numpy.save_file({"latent": np.ones((1, 16, 2, 4, 4), np.float32), "timestep": np.ones(1, np.float32)},
                                given)
    done(kinora, "--plugins", folder, "apply", "model/first-model", "--inputs", given)
    done(kinora, "--plugins", folder, "plugins", "check-parallel", "stretch")


def new_on_old(grown):
    folder = plugins(SCRATCH / "new", grown, KINDS)
    for library in sorted(folder.glob("*/*.so")):
        done(KINORA, "plugins", "validate", library)
    check_fills(grown, folder)
    for isolate in ("none", "all"):
        curated(KINORA, folder, VIDEO, SCRATCH / f"run-{isolate}", *STAGES, isolate=isolate)
    check_tensors(KINORA, folder, SCRATCH / "run-none")


def refreshed(tree):
    """A copy of the sources with larger structs; files that are equal keep their time, so that a second build is
    short."""
    for top in ("apps", "core", "host", "kernels", "plugins", "sdk", "packaging", "docs", "configs", "tests/abi",
                *(f.name for f in ROOT.iterdir() if f.is_file())):
        top = ROOT / top
        for file in [top] if top.is_file() else top.rglob("*"):
            to = tree / file.relative_to(ROOT)
            text = SCRATCH / "grown/include" / file.relative_to(TODAY) if file.is_relative_to(TODAY) else file
            if file.is_file() and not (to.exists() and to.read_bytes() == text.read_bytes()):
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(text, to)


def later_host():
    """The program, its engine, storage and video stages, built with larger structs."""
    tree = SCRATCH / "tree"
    refreshed(tree)
    return build_kinora(tree, tree / "build", libtorch_of(KINORA), "plugin.jobs-curate", "plugin.jobs-train",
                        "plugin.engine-local", "plugin.storage-file", "plugin.video")


def old_on_new():
    kinora = later_host()
    theirs = kinora.parents[1] / "lib/kinora/plugins"
    old = plugins(SCRATCH / "old", TODAY, {kind: name for kind, name in KINDS.items() if kind != "tokenizer"},
                  c_include=ABI / "v1")
    curated(kinora, old, VIDEO, SCRATCH / "old-stages", *STAGES, isolate="all")
    all_old = shutil.copytree(old, without_jobs(OURS, SCRATCH / "all-old"), dirs_exist_ok=True)
    curated(kinora, all_old, VIDEO, SCRATCH / "old-engine", *STAGES)
    check_tensors(kinora, all_old, SCRATCH / "old-engine")
    all_new = shutil.copytree(old, without_jobs(theirs, SCRATCH / "all-new"), dirs_exist_ok=True)
    curated(KINORA, all_new, VIDEO, SCRATCH / "new-engine", *STAGES)


os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"  # its cmake
host = "--host" in sys.argv[4:]
SCRATCH.mkdir(parents=True, exist_ok=True)
for entry in SCRATCH.iterdir():
    if entry.name != "tree":
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
structs = grow(TODAY, SCRATCH / "grown/include")
assert structs >= 45, f"only {structs} structs are understood"
if host:
    old_on_new()
else:
    new_on_old(SCRATCH / "grown/include")
print(f"{structs} structs with 8 more bytes: " + ("old plugins work in a new program" if host
                                                  else "new plugins work in an old program"))
