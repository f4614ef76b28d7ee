"""Plugins built by plain calls of a compiler, without CMake, and a second Kinora, for the tests of the ABI."""
import json, os, pathlib, re, shutil

from headers import run

CCACHE = ["ccache"] if shutil.which("ccache") else []  # every run compiles the same sources
ABI = pathlib.Path(__file__).resolve().parent


def done(*command, code=0, **more):
    out = run(*command, **more)
    assert out.returncode == code, (
        f"{' '.join(map(str, command))}: exit {out.returncode}, expected {code}\n{out.stdout}{out.stderr}")
    return out.stdout


def new(kinora, kind, name, folder, language="c++"):
    """The template of a kind, filled in. Returns its source."""
    done(kinora, "plugins", "new", kind, name, folder, "--lang", language)
    return folder / f"{name}.{'c' if language == 'c' else 'cpp'}"


def compiled(compiler, source, library, *flags, include):
    """Compiles one source, links it as the library of a plugin, and copies plugin.toml from the source's folder, if
    there is one."""
    library.parent.mkdir(parents=True, exist_ok=True)
    name = library.stem[3:]
    c = source.suffix == ".c"
    names = [f'-DKINORA_PLUGIN_NAME="{name}"', '-DKINORA_PLUGIN_VERSION="0.1.0"']
    environment = {**os.environ, "CCACHE_BASEDIR": str(library.parents[2]), "CCACHE_NOHASHDIR": "1"}
    object = library.with_suffix(".o")
    own = [flag for flag in flags if not flag.startswith("-Wl,")]
    done(*CCACHE, *compiler, "-std=c11" if c else "-std=c++20", "-fPIC", *(f"-I{i}" for i in include), *names, *own,
         "-c", source, "-o", object, env=environment)
    done(*compiler, "-shared", *flags, object, "-o", library)
    object.unlink()
    if (source.parent / "plugin.toml").exists():
        shutil.copy(source.parent / "plugin.toml", library.parent)
    return library


def manifest(kinora, library):
    """Writes plugin.toml next to the library from its describe() functions; the text."""
    done(kinora, "plugins", "manifest", library, "--out", library.parent / "plugin.toml")
    return (library.parent / "plugin.toml").read_text()


def build_kinora(source, build, torch, *targets):
    """Builds these targets of Kinora from other sources or with another libtorch, its folder; a second time only what
    has changed. Returns the program."""
    launchers = [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX") if CCACHE]
    done("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release",
         "-DCMAKE_CXX_FLAGS_RELEASE=-O0", "-DCMAKE_C_FLAGS_RELEASE=-O0",
         "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=10", "-DKINORA_TESTS=OFF",
         f"-DKINORA_TORCH_ROOT={torch}", *launchers)
    done("cmake", "--build", build, "--parallel", 2, "--target", "kinora", "kinora_torch", *targets, timeout=2600,
         env={**os.environ, "CCACHE_BASEDIR": str(source), "CCACHE_NOHASHDIR": "1",
              "CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime"})
    return build / "bin/kinora"


def libtorch_of(kinora):
    """The folder of the torch package that a build's CMake used."""
    return pathlib.Path(re.search(r"^KINORA_TORCH_ROOT:\w+=(.*)$", (kinora.parents[1] / "CMakeCache.txt").read_text(),
                                  re.M)[1])


def without_jobs(plugins, to):
    """Copies the plugins except kinds of jobs, which work with the program that they are built with and no other."""
    to.mkdir(parents=True)
    for folder in plugins.iterdir():
        if not folder.name.startswith("jobs-") and (folder / "plugin.toml").exists():
            shutil.copytree(folder, to / folder.name)
    return to


def curated(kinora, plugins, video, out, *stages, isolate="none"):
    """Runs one curate job, which ends with dim-scenes and count.bytes and keeps its only input. isolate: "none" in one
    process, "all" in several."""
    out.mkdir(parents=True)
    file = out / "run.toml"
    file.write_text(
        f'[run]\nout = "{out}"\n[[job]]\nname = "look"\nkind = "curate"\nengine = {{ use = "local", isolate = '
        f'["{isolate}"] }}\ninput = ["{video}"]\nstages = [{", ".join(stages)}]\n')
    done(kinora, "--plugins", plugins, "run", file)
    summary = json.loads((out / "look/summary.json").read_text())
    assert (summary["kept"], summary["failed"]) == (1, 0), summary
    size = next((out / "look").rglob("*.size")).read_text()
    score = json.loads((out / "look/items.jsonl").read_text())["facts"]["scores"]["dim-scenes"]
    # as the stage in C counted it
    assert 0 < score < 1 and int(size) > len(json.dumps({"scores": {"dim-scenes": score}})) - 4, (size, score)
