#!/usr/bin/env python3
"""The SDK's three steps, out of tree: kinora plugins new, cmake, kinora --plugins DIR. Every kind
compiles; a stage (in C++ and in C), a sampler, a storage and an engine are built, tested and used; models of both tiers
are trained against an installation. The filter of sdk/README.md is built from the document's text, and filters. With
--kinds: only builds and tests the other kinds. usage: template_test.py KINORA ROOT SCRATCH [--kinds]"""
import json, os, pathlib, shutil, subprocess, sys

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import quick

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
VIDEO = ROOT / "tests/data/film_excerpt.webm"
# These are only compiled with these warnings, and built with --kinds.
OTHERS = ["tokenizer", "loss", "parallel", "precision", "score", "source", "cache", "collective"]
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
CCACHE = ["ccache"] if shutil.which("ccache") else []  # every run compiles the same sources
ENVIRONMENT = {**os.environ, "KINORA_TORCH": str(ROOT / ".deps/torch/torch"),
               "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "CCACHE_BASEDIR": str(ROOT),
               "CCACHE_NOHASHDIR": "1",
               **({"CMAKE_CXX_COMPILER_LAUNCHER": "ccache"} if CCACHE else {})}
ASKS = {"storage": " --at here", "source": " --input lines.txt"}  # what validate needs of these kinds
failures = []


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, env=ENVIRONMENT, timeout=600)


def check(name, done, code=0, *words):
    text = done.stdout + done.stderr
    wrong = [f"exit {done.returncode}, expected {code}"] if done.returncode != code else []
    wrong += [f"no '{w}'" for w in words if w not in text]
    print(("ok    " if not wrong else "WRONG ") + name, flush=True)
    if wrong:
        failures.append(name)
        print("   ", "; ".join(wrong), "\n   ", text.strip()[-4000:].replace("\n", "\n    "))
    return not wrong


def kinora(*arguments, program=KINORA):
    return run(program, *arguments)


def looks_right(id, folder):
    """Short files, and a recipe."""
    for file in folder.iterdir():
        if (lines := len(file.read_text().splitlines())) >= 120:
            failures.append(f"{id}: {file.name} has {lines} lines")
            print("WRONG", failures[-1])
    text = (folder / "recipe.yaml").read_text()
    recipe, name = yaml.safe_load(text), id.split("/")[1]
    if recipe["package"]["name"] != f"kinora-plugin-{name}" or "@" in text or not recipe["requirements"]["run"][
        0].startswith("kinora") or ASKS.get(id.split("/")[0], "") not in recipe["tests"][0]["script"]:
        failures.append(f"{id}: {recipe}")
        print("WRONG", failures[-1])
    try:
        import rattler_build
    except ImportError:
        return
    rendered = rattler_build.Stage0Recipe.from_file(folder / "recipe.yaml").render(
        rattler_build.VariantConfig(), rattler_build.RenderConfig())
    if len(rendered) != 1:
        failures.append(f"{id}: the recipe has {len(rendered)} variants")


def built(kind, name, sdk, tier="stable", program=KINORA, lang="c++"):
    """Creates, builds and inspects one plugin; returns the folder of its plugins."""
    folder, id = SCRATCH / name, f"{kind}/{name}"
    build, plugins = folder / "build", folder / "build/lib/kinora/plugins"
    library = plugins / name / f"lib{name}.so"
    tiers = [] if kind == "job" else ["--tier", tier]
    check(f"{id}: new", kinora("plugins", "new", kind, name, folder, *tiers, "--lang", lang, program=program), 0,
          "plugin.toml")
    looks_right(id, folder)
    named = [] if program != KINORA else [f"-DKINORA_PROGRAM={KINORA}"]  # an installation finds its own
    configured = run("cmake", "-G", "Ninja", "-S", folder, "-B", build, f"-DCMAKE_PREFIX_PATH={sdk}", *named,
                     *([f"-DCMAKE_{'C' if lang == 'c' else 'CXX'}_FLAGS={' '.join(WARNINGS)}"] if tier == "stable"
                       else []))
    if not check(f"{id}: configure", configured) or not check(f"{id}: build", run("cmake", "--build", build)):
        return plugins
    check(f"{id}: its tests", run("ctest", "--test-dir", build, "--output-on-failure"), 0, "100% tests passed",
          f"{name}_test")
    check(f"{id}: inspect", kinora("--plugins", plugins, "plugins", "inspect", id, program=program), 0, id)
    asks = {"storage": ["--at", "here"], "source": ["--input", VIDEO]}.get(kind, [])
    check(f"{id}: validate", kinora("plugins", "validate", library, *asks, program=program))
    before = (folder / "plugin.toml").read_text()
    check(f"{id}: manifest", run("cmake", "--build", build, "--target", f"{name}.manifest"))
    if (folder / "plugin.toml").read_text() != before:
        failures.append(f"{id}: the target {name}.manifest changed a manifest that was current")
    return plugins


def installed():
    """The program in a folder of its own, with the SDK."""
    place = SCRATCH / "installed"
    check("install", run("cmake", "--install", pathlib.Path(KINORA).resolve().parents[1], "--prefix", place))
    return place


def trained(place, plugins, name, *sets):
    """Losses of three steps of the shipped recipe with this model instead of its own."""
    model = f'dit.model={{use="{name}", channels=32}}'
    sets = [a for one in (*quick.FEW, model, "dit.steps=3", *sets) for a in ("--set", one)]
    shutil.rmtree(SCRATCH / "run/dit", ignore_errors=True)  # a different way of computing does not restart a training
    done = kinora("--plugins", plugins, "run", ROOT / "configs/quickstart.toml", "--only", "dit", "--out",
                  SCRATCH / "run", *sets, program=place / "bin/kinora")
    if not check(f"{name} is trained {sets[-1]}", done, 0, "dit: done"):
        return []
    lines = [json.loads(line) for line in (SCRATCH / "run/dit/metrics.jsonl").read_text().splitlines()]
    if len(lines) != 3 or any(line.get("skipped") or not line["gradient_norm"] > 0 or not line["mfu"] > 0
                              for line in lines):
        failures.append(f"{name}: {lines}")
        print("WRONG", failures[-1])
    return [line["loss"] for line in lines]


def near(name, ours, theirs, bound):
    if not ours or len(ours) != len(theirs) or not all(abs(a / b - 1) <= bound for a, b in zip(ours, theirs)):
        failures.append(f"{name}: {ours}, {theirs}")
        print("WRONG", failures[-1])


def models():
    """A model from its template to training, in both tiers; with recomputation in the backward pass it is the same
    model."""
    place = installed()
    quick.begun(KINORA, ROOT, SCRATCH / "run")
    for tier, name in (("stable", "first-model"), ("pinned", "pinned.model")):
        plugins = built("model", name, place, tier, place / "bin/kinora")
        losses = trained(place, plugins, name)
        near(f"{name} recomputed", trained(place, plugins, name, 'dit.parallel=["recompute"]'), losses, 1e-6)
        wrong = kinora("--plugins", plugins, "check", ROOT / "configs/quickstart.toml", "--set",
                       f'dit.model={{use="{name}", channels=16}}', program=place / "bin/kinora")
        check(f"{name} with other channels", wrong, 2, "job 'dit': ", "the latent has 32 channels, channels is 16")
    folder = SCRATCH / "pinned.model"
    source, lists = folder / "pinned.model.cpp", folder / "CMakeLists.txt"
    text = source.read_text()
    source.write_text(text.replace("at::gelu(",
                                   "kinora::gelu(").replace('#include "kinora/aten.hpp"',
                                                            '#include "kernels/torch/gelu.hpp"\n#include '
                                                            '"kinora/aten.hpp"'))
    lists.write_text(lists.read_text().replace("pinned.model.cpp)", "pinned.model.cpp LIBS kinora::kernels)"))
    if source.read_text() != text and check("with kernels: build", run("cmake", "--build", folder / "build")):
        near("with kernels", trained(place, plugins, name, "dit.keep=3"), losses, 1e-4)


def optimizer():
    """An optimizer from its template trains, and its state is in the checkpoint."""
    place = SCRATCH / "installed"
    plugins = built("optimizer", "descent", place, "stable", place / "bin/kinora")
    sets = [a for one in (*quick.FEW, "dit.steps=3", "dit.checkpoint_every=3", 'dit.optimizer={use="descent"}')
            for a in ("--set", one)]
    done = kinora("--plugins", plugins, "run", ROOT / "configs/quickstart.toml", "--only", "dit", "--out",
                  SCRATCH / "run", *sets, program=place / "bin/kinora")
    if check("trained by optimizer/descent", done, 0, "dit: done"):
        names = (SCRATCH / "run/dit/checkpoints/step-000003/optimizer.safetensors").read_bytes()
        if b'"velocity.' not in names or b'"first.' in names:
            failures.append("the checkpoint lacks the velocity")
            print("WRONG", failures[-1])


def stage():
    plugins = built("stage", "dim-scenes", ROOT / "sdk")
    check("apply without frames", kinora("--plugins", plugins, "apply", "stage/dim-scenes", VIDEO, "--json"), 1,
          "has no frames", "video.read")
    readme = (SCRATCH / "dim-scenes/README.md").read_text().split("with `my.toml`", 1)[1]
    file, out = SCRATCH / "my.toml", SCRATCH / "readme"
    file.write_text("\n".join(line[4:]
                              for line in readme.splitlines()
                              if line.startswith("    ")).replace("video.mp4", str(VIDEO)))
    if check("README's run file", kinora("--plugins", plugins, "run", file, "--out", out)):
        item = json.loads((out / "look/items.jsonl").read_text())
        score = item["facts"]["scores"]["dim-scenes"]
        if (item["end"], item.get("reason")) != (("kept", None) if score >= 0.2 else ("filtered", "dim-scenes")):
            failures.append(f"README's run file: {item}")
            print("WRONG", failures[-1])
    drops_by_its_bound(plugins, "dim-scenes")
    is_chosen_by_its_score(plugins)
    in_c = built("stage", "dim.c", ROOT / "sdk", lang="c")
    source = SCRATCH / "dim.c/dim.c.c"
    if len(source.read_text().splitlines()) >= 120:
        failures.append("the stage in C has 120 lines")
    drops_by_its_bound(in_c, "dim.c")
    check("a stage in C without frames", kinora("--plugins", in_c, "apply", "stage/dim.c", VIDEO, "--json"), 2,
          "stage/dim.c needs frames", "video.read")


def is_chosen_by_its_score(plugins):
    """The template's score is a fact of select jobs and has its title in the report; the bound that dropped a sample is
    noted."""
    file, out = SCRATCH / "chosen.toml", SCRATCH / "chosen"
    text = f'''[run]
out = "{out}"
[[job]]
name = "look"
kind = "curate"
input = ["{VIDEO}"]
stages = [{{ use = "video.read", frames = 4, height = 36 }}, {{ use = "dim-scenes", at_least = 1.0, mode = "score" }}]
[[job]]
name = "light"
kind = "select"
input = "look"
where = "dim-scenes >= 0.0 and dim-scenes < 1"
[[job]]
kind = "report"
'''
    file.write_text(text)
    if check("select by the template's score", kinora("--plugins", plugins, "run", file), 0,
             "light: 1 of 1 clip chosen"):
        page = (out / "report.html").read_text()
        if '"title":"Lightness"' not in page or json.loads((out / "look/job.json").read_text())["scores"] != {
            "dim-scenes": {"title": "Lightness", "unit": "of white"}}:
            failures.append("the report lacks the score's title")
            print("WRONG", failures[-1])
    file.write_text(text.replace(', mode = "score"', ""))
    if check("the template's bound", kinora("--plugins", plugins, "run", file)):
        item = json.loads((out / "look/items.jsonl").read_text())
        if (item["reason"], item["facts"]["bounds"]) != ("dim-scenes", {"dim-scenes": {"at_least": 1.0}}):
            failures.append(f"the bound is not noted: {item}")
            print("WRONG", failures[-1])


def drops_by_its_bound(plugins, name):
    for bound, kept in ((0.0, 1), (1.0, 0)):
        file, out = SCRATCH / f"{name}{kept}.toml", SCRATCH / f"{name}{kept}"
        file.write_text(f'''[run]
name = "dim"
out = "{out}"
[[job]]
name = "look"
kind = "curate"
input = ["{VIDEO}"]
stages = [{{ use = "video.read", frames = 4, height = 36 }}, {{ use = "{name}", at_least = {bound} }}]
''')
        if check(f"run of {name} with at_least = {bound}", kinora("--plugins", plugins, "run", file)):
            summary = json.loads((out / "look/summary.json").read_text())
            if (summary["kept"], summary["failed"]) != (kept, 0):
                failures.append(f"{name}, at_least = {bound}: {summary}")
                print("WRONG", failures[-1])


def job():
    """A kind of job of another project: it reads what a curate job left, resumes, is checked, and is refused on another
    Kinora."""
    plugins = built("job", "count-files", SCRATCH / "installed", "stable", SCRATCH / "installed/bin/kinora")
    program = SCRATCH / "installed/bin/kinora"
    file, out = SCRATCH / "count.toml", SCRATCH / "count"
    text = f'''[run]
out = "{out}"
[[job]]
name = "clips"
kind = "curate"
input = ["{VIDEO}"]
stages = [{{ use = "video.probe" }}]
[[job]]
name = "counted"
kind = "count-files"
input = "clips"
ending = ".json"
'''
    file.write_text(text)
    run_it = lambda *more: kinora("--plugins", plugins, "run", file, *more, program=program)
    if check("job of a third party: run", run_it(), 0, "counted: begins", "counted: done"):
        summary = json.loads((out / "counted/summary.json").read_text())
        there = [f for f in (out / "clips").rglob("*.json") if f.is_file()]
        if (summary["files"], summary["bytes"]) != (len(there), sum(f.stat().st_size for f in there)):
            failures.append(f"count-files: {summary}")
            print("WRONG", failures[-1])
    check("again: up to date", run_it(), 0, "counted: already done")
    check("how_only option: up to date", run_it("--set", "counted.log_every=5"), 0, "counted: already done")
    check("another result: done anew", run_it("--set", 'counted.ending=".mp4"'), 0, "counted: done")
    check("its check", run_it("--set", 'counted.ending="mp4"'), 2, "--set counted.ending",
          "job 'counted': ending 'mp4' must begin with a dot")
    check("without its plugin", kinora("check", file, program=program), 2, "unknown kind of job 'count-files'")
    for package, words in (("fmt", "libfmt-dev"), ("nlohmann_json", "nlohmann-json3-dev")):
        done = run("cmake", "-G", "Ninja", "-S", SCRATCH / "count-files", "-B", SCRATCH / f"without-{package}",
                   f"-DCMAKE_PREFIX_PATH={SCRATCH / 'installed'}", f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON")
        check(f"without the package {package}", done, 1, "count-files is a job", words)
    manifest, library = plugins / "count-files/plugin.toml", plugins / "count-files/libcount-files.so"
    other = SCRATCH / "other-kinora/count-files"
    other.mkdir(parents=True)
    bytes = library.read_bytes()
    now = manifest.read_text().split('kinora = "', 1)[1].split('"', 1)[0]
    assert bytes.count(f'kinora = "{now}"'.encode()) == 1
    version = "==9.9.9"
    assert len(version) == len(now)
    (other / library.name).write_bytes(bytes.replace(f'kinora = "{now}"'.encode(), f'kinora = "{version}"'.encode()))
    (other / "plugin.toml").write_text(manifest.read_text().replace(f'kinora = "{now}"', f'kinora = "{version}"'))
    check("built for another Kinora", kinora("--plugins", other.parent, "check", file, program=program), 2,
          "count-files", "expected " + now[2:] + ", found 9.9.9")


def block(text, language):
    """The first fenced block in the language."""
    return text.split(f"```{language}\n", 1)[1].split("```", 1)[0]


def fallen(name, videos, plugins, option):
    """{video: (outcome, rule, score)} of a run with the README's filter."""
    file, out = SCRATCH / f"{name}.toml", SCRATCH / name
    file.write_text(f'''[run]
out = "{out}"
[[job]]
name = "clips"
kind = "curate"
input = {json.dumps([str(video) for video in videos])}
stages = [{{ use = "video.read", height = 32 }}, {{ use = "colourful", {option} }}]
''')
    if not check(f"{name}: run", kinora("--plugins", plugins, "run", file)):
        return {}
    items = [json.loads(line) for line in (out / "clips/items.jsonl").read_text().splitlines()]
    return {item["key"]: (item["end"], item.get("reason"), item["facts"]["scores"]["colourful"]) for item in items}


def readme_filter():
    """Videos of one colour with known scores: grey 0, blue 1, half of each 1/2."""
    section = (ROOT / "sdk/README.md").read_text().split("## A filter for curation\n", 1)[1].split("\n## ", 1)[0]
    folder, build = SCRATCH / "colourful", SCRATCH / "colourful/build"
    folder.mkdir()
    (folder / "colourful.cpp").write_text(block(section, "cpp"))
    (folder / "CMakeLists.txt").write_text(block(section, "cmake"))
    for what, *command in (("configure", "cmake", "-G", "Ninja", "-S", folder, "-B", build,
                            f"-DCMAKE_PREFIX_PATH={ROOT / 'sdk'}", f"-DKINORA_PROGRAM={KINORA}"),
                           ("build", "cmake", "--build", build)):
        if not check(f"README's filter: {what}", run(*command)):
            return
    wanted = {"grey": ("color=gray", 0.0), "half": ("color=gray,drawbox=w=iw/2:c=blue:t=fill", 0.5),
              "blue": ("color=blue", 1.0)}
    videos = [SCRATCH / f"{name}.mkv" for name in wanted]
    for video, (picture, _) in zip(videos, wanted.values()):
        source = picture.replace("color=", "color=size=64x64:rate=4:duration=1:color=", 1)
        run("ffmpeg", "-v", "error", "-f", "lavfi", "-i", source, "-c:v", "ffv1", "-pix_fmt", "bgr0", video)
    for name, option, dropped in (("filter-on", "at_least = 0.25", {"grey"}),
                                  ("filter-score", 'at_least = 0.25, mode = "score"', set())):
        found = fallen(name, videos, build / "lib/kinora/plugins", option)
        right = {video: (("filtered", "colourful") if video in dropped else ("kept", None)) for video in wanted}
        is_right = {video: end[:2] for video, end in found.items()} == right
        if not is_right or not all(abs(found[video][2] - wanted[video][1]) <= 0.02 for video in found):
            failures.append(f"{name}: {found}")
            print("WRONG", failures[-1])
    blind = SCRATCH / "filter-blind.toml"
    blind.write_text(
        (SCRATCH / "filter-on.toml").read_text().replace('{ use = "video.read", height = 32 }, ',
                                                         "").replace("filter-on", "filter-blind"))
    check("README's filter without frames, checked: what is not Kinora's own may do without",
          kinora("--plugins", build / "lib/kinora/plugins", "check", blind), 0,
          "colourful looks at frames of its samples")
    check("README's filter without frames", kinora("--plugins", build / "lib/kinora/plugins", "run", blind), 1,
          "sample_fps", "video.read")


def sampler():
    """After a change of its options one build is enough; its own test notices a wrong number."""
    plugins = built("sampler", "geometric", ROOT / "sdk")
    folder, source = SCRATCH / "geometric", SCRATCH / "geometric/geometric.cpp"
    text = source.read_text()
    source.write_text(text.replace("    double sigma_min = 0.002",
                                   "    double power = 1;\n    double sigma_min = 0.002")
                      .replace('    d.option("sigma_min"',
                               '    d.option("power", &Options::power).above(0).help("of nothing");\n    '
                               'd.option("sigma_min"'))
    check("another option: one build", run("cmake", "--build", folder / "build"))
    check("another option: validate", kinora("plugins", "validate", plugins / "geometric/libgeometric.so"))
    check("another option: inspect", kinora("--plugins", plugins, "plugins", "inspect", "sampler/geometric"), 0,
          "of nothing")
    if "option.power" not in (folder / "plugin.toml").read_text():
        failures.append("plugin.toml lacks the new option")
    check("another option: nothing is left to build", run("cmake", "--build", folder / "build"), 0, "no work to do")
    source.write_text(text.replace("x0 + (x - x0) * (", "x0 + (x - x0) * 0.9 * ("))
    check("a wrong step: build", run("cmake", "--build", folder / "build"))
    check("a wrong step: its test", run("ctest", "--test-dir", folder / "build"), 8, "geometric_test (Failed)")


def engine():
    """An engine from its template curates as engine/local does."""
    plugins = built("engine", "in-order", ROOT / "sdk")
    lines = []
    for engine in ("in-order", "local"):
        file, out = SCRATCH / f"{engine}.toml", SCRATCH / f"run-{engine}"
        file.write_text(f"""[run]
out = "{out}"
[[job]]
name = "clips"
kind = "curate"
engine = "{engine}"
input = ["{VIDEO}"]
stages = ["video.probe", "shots.content", {{ use = "video.clips", sample_fps = 2.0, sample_height = 64 }},
  "filter.brightness"]
""")
        if check(f"a run with engine = {engine}", kinora("--plugins", plugins, "run", file), 0, "2 clips kept"):
            lines.append(sorted((out / "clips/items.jsonl").read_text().splitlines()))
    if len(lines) != 2 or lines[0] != lines[1] or len(lines[0]) != 3:
        failures.append(f"engine/in-order: {lines}")
        print("WRONG", failures[-1][:2000])


def every_kind_compiles():
    for kind in OTHERS:
        folder = SCRATCH / f"only-{kind}"
        if not check(f"{kind}: new", kinora("plugins", "new", kind, "first.try-2", folder)):
            continue
        looks_right(f"{kind}/first.try-2", folder)
        names = ("KINORA_PLUGIN_NAME=\"first.try-2\"", "KINORA_PLUGIN_VERSION=\"0\"")
        compiler = [*CCACHE, "c++", "-std=c++20", "-fvisibility=hidden", "-c", "-o", folder / "first.o", *WARNINGS]
        check(f"{kind}: compiles",
              run(*compiler, *(f"-D{n}" for n in names), f"-I{ROOT}/sdk/include", folder / "first.try-2.cpp"))


def refusals():
    check("unknown kind", kinora("plugins", "new", "stag", "x", SCRATCH / "x"), 2, "did you mean 'stage'?",
          "collective")
    check("unknown tier", kinora("plugins", "new", "model", "x", SCRATCH / "x", "--tier", "loose"), 2,
          "stable and pinned")
    check("pinned stage", kinora("plugins", "new", "stage", "x", SCRATCH / "x", "--tier", "pinned"), 2,
          "has a template for models")
    for tier in ("stable", "pinned", "host"):
        check(f"a job of tier {tier}", kinora("plugins", "new", "job", "x", SCRATCH / "x", "--tier", tier), 2,
              "a kind of job is of tier host", "leave --tier out")
    check("unknown language", kinora("plugins", "new", "stage", "x", SCRATCH / "x", "--lang", "rust"), 2, "c++ and c")
    check("a sampler in C", kinora("plugins", "new", "sampler", "x", SCRATCH / "x", "--lang", "c"), 2,
          "template in C for stages only", "kinora/abi/sampler.h")
    check("no name", kinora("plugins", "new", "stage"), 2, "KIND NAME", "tokenizer")
    check("bad name", kinora("plugins", "new", "stage", "My Stage", SCRATCH / "x"), 2, "My Stage", "a-z")
    check("folder in use", kinora("plugins", "new", "stage", "x", SCRATCH / "dim-scenes"), 2, "exists already")


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
if sys.argv[4:] == ["--kinds"]:
    for kind in OTHERS:
        built(kind, f"my-{kind}", ROOT / "sdk")
else:
    stage()
    readme_filter()
    sampler()
    engine()
    built("storage", "memory", ROOT / "sdk/cmake")
    models()
    optimizer()
    job()
    every_kind_compiles()
    refusals()
print(f"{len(failures)} failed")
sys.exit(bool(failures))
