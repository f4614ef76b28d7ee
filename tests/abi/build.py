"""Plugins built by plain calls of a compiler, without CMake, for growth.py and compilers.py."""
import json, os, pathlib, shutil

from headers import run

CCACHE = ["ccache"] if shutil.which("ccache") else []  # every run compiles the same sources
ABI = pathlib.Path(__file__).resolve().parent


def done(*command, code=0, **more):
    out = run(*command, **more)
    assert out.returncode == code, f"{' '.join(str(c) for c in command)}: exit {out.returncode}, expected {code}\n{out.stdout}{out.stderr}"
    return out.stdout


def new(kinora, kind, name, folder):
    """The template of a kind, filled in. Returns its source."""
    done(kinora, "plugins", "new", kind, name, folder)
    return folder / f"{name}.cpp"


def compiled(compiler, source, library, *flags, include):
    """Compiles one source, links it as the library of a plugin, and copies plugin.toml from the source's folder, if there is one."""
    library.parent.mkdir(parents=True, exist_ok=True)
    name = library.stem[3:]
    c = source.suffix == ".c"
    names = [] if c else [f'-DKINORA_PLUGIN_NAME="{name}"', '-DKINORA_PLUGIN_VERSION="0.1.0"']
    environment = {**os.environ, "CCACHE_BASEDIR": str(library.parents[2]), "CCACHE_NOHASHDIR": "1"}
    object = library.with_suffix(".o")
    own = [flag for flag in flags if not flag.startswith("-Wl,")]
    done(*CCACHE, *compiler, "-std=c11" if c else "-std=c++20", "-fPIC", *(f"-I{i}" for i in include), *names, *own, "-c", source, "-o", object, env=environment)
    done(*compiler, "-shared", *flags, object, "-o", library)
    object.unlink()
    if (source.parent / "plugin.toml").exists():
        shutil.copy(source.parent / "plugin.toml", library.parent)
    return library


def manifest(kinora, library):
    """Writes plugin.toml next to the library from its describe() functions; the text."""
    done(kinora, "plugins", "manifest", library, "--out", library.parent / "plugin.toml")
    return (library.parent / "plugin.toml").read_text()


def curated(kinora, plugins, film, out, *stages, isolate="none"):
    """Runs one curate job, which ends with dim-scenes and count.bytes and keeps its only input. isolate: "none" in one process, "all" in several."""
    out.mkdir(parents=True)
    file = out / "run.toml"
    file.write_text(f'[run]\nout = "{out}"\n[[job]]\nname = "look"\nkind = "curate"\nengine = {{ use = "local", isolate = ["{isolate}"] }}\ninput = ["{film}"]\nstages = [{", ".join(stages)}]\n')
    done(kinora, "--plugins", plugins, "run", file)
    summary = json.loads((out / "look/summary.json").read_text())
    assert (summary["kept"], summary["failed"]) == (1, 0), summary
    size = next((out / "look").rglob("*.size")).read_text()
    assert size == str(next((out / "look").rglob("*.dim-scenes.json")).stat().st_size), size  # as the stage in C counted it
