#!/usr/bin/env python3
"""One plugin from any compiler: two stages in C, a stage and a sampler in C++, each built by several compilers,
standard libraries and flags, by plain calls, through CMake and by the Makefile of sdk/README.md, are valid, run, have
the same manifest and export one symbol. usage: compilers.py KINORA ROOT SCRATCH"""
import pathlib, re, shutil, sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from build import ABI, CCACHE, compiled, curated, done, manifest, new
from headers import run
from skips import skip

KINORA, ROOT, SCRATCH = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
INCLUDE, VIDEO = ROOT / "sdk/include", ROOT / "tests/data/film_excerpt.webm"
ONE_SYMBOL = f"-Wl,--version-script={ROOT / 'sdk/cmake/plugin.map'}"
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
IDS = {"dim-scenes": "stage/dim-scenes", "geometric": "sampler/geometric", "pure_c_stage": "stage/count.bytes",
       "dim-plain": "stage/dim-plain"}
LIBCXX = "clang++ with libc++"
CPP = {
    "g++": ["g++", "-O1", "-fvisibility=hidden", *WARNINGS],
    "g++, the old std::string": ["g++", "-O1", "-fvisibility=hidden", "-D_GLIBCXX_USE_CXX11_ABI=0"],
    "g++, everything visible": ["g++", "-O1"],
    "clang++": ["clang++", "-O1", "-fvisibility=hidden", *WARNINGS],
    LIBCXX: ["clang++", "-O1", "-fvisibility=hidden", "-stdlib=libc++"],
}
CMAKE = {"clang++ through CMake": "", "clang++ with libc++ through CMake": "-stdlib=libc++"}
C = {"gcc": ["gcc", "-O2", *WARNINGS, "-pedantic"], "clang": ["clang", "-O2", *WARNINGS, "-pedantic"]}


def usable(name, command):
    """Whether the compiler and its standard library are installed; says what is not."""
    if not shutil.which(command[0]):
        skip(name, f"no {command[0]}; packaging/dev.sh setup installs it")
    elif run(*command, "-fsyntax-only", "-x", "c" if name in C else "c++", "-",
             input="#include <stdint.h>\n" if name in C else "#include <string>\n").returncode:
        skip(name, f"{' '.join(command)} finds no standard library; packaging/dev.sh setup installs it")
    else:
        return True
    return False


def makes(source, folder):
    """Runs the README's Makefile in a folder with this source. Returns the library."""
    folder.mkdir(parents=True, exist_ok=True)
    text = (ROOT / "sdk/README.md").read_text().split("## Without CMake\n", 1)[1]
    (folder / "Makefile").write_text(text.split("```make\n", 1)[1].split("```", 1)[0])
    shutil.copy(source, folder)
    done("make", "-C", folder, f"SDK={ROOT / 'sdk'}", f"KINORA={KINORA}", f"NAME={source.stem}",
         *(f"{name}={' '.join([*CCACHE, compiler])}" for name, compiler in (("CC", "gcc"), ("CXX", "g++"))))
    return folder / f"plugins/{source.stem}/lib{source.stem}.so"


def through_cmake(source, flags):
    """Builds a generated project with clang as its own CMakeLists.txt says. Returns the library."""
    place = SCRATCH / f"cmake{flags}"
    build = place / f"build/{source.stem}"
    done("cmake", "-G", "Ninja", "-S", source.parent, "-B", build, f"-DCMAKE_PREFIX_PATH={ROOT / 'sdk'}",
         f"-DKINORA_PROGRAM={KINORA}", "-DBUILD_TESTING=OFF",
         "-DCMAKE_CXX_COMPILER=clang++", f"-DCMAKE_CXX_FLAGS={flags}",
         *(f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}" for launcher in CCACHE))
    done("cmake", "--build", build)
    shutil.copytree(build / f"lib/kinora/plugins/{source.stem}", place / f"plugins/{source.stem}")
    return place / f"plugins/{source.stem}/lib{source.stem}.so"


def exported(library):
    """The dynamic symbols that the library defines."""
    return [line.split()[2] for line in done("nm", "-D", "--defined-only", library).splitlines()]


# a name in namespace kinora, its typeinfo, vtable, static variable or guard
SDK_SYMBOL = re.compile(r"_Z(T[ISTV]|GV)?Z?NK?6kinora")


def built(sources):
    """{way of building: folder of its plugins}."""
    jobs = []
    for name, command in {**CPP, **C}.items():
        folder = SCRATCH / name.replace(" ", "_")
        flags = [*command[1:], ONE_SYMBOL]
        mine = [s for s in sources if (s.suffix == ".c") == (name in C)]
        if usable(name, command):
            jobs += [(name, s, lambda s=s, c=command, f=flags,
                      d=folder: compiled(c[:1], s, d / f"{s.stem}/lib{s.stem}.so", *f, include=[INCLUDE]))
                     for s in mine]
    jobs += [("make", s, lambda s=s: makes(s, SCRATCH / "make")) for s in sources]
    for name, flags in CMAKE.items():
        if usable(name, ["clang++", *flags.split()]):
            jobs += [(name, s, lambda s=s, f=flags: through_cmake(s, f)) for s in sources if s.suffix == ".cpp"]
    with ThreadPoolExecutor(2) as pool:
        libraries = list(pool.map(lambda job: job[2](), jobs))
    return {name: library.parents[1] for (name, _, _), library in zip(jobs, libraries)}


def check_manifests(folders):
    """The text of a plugin's manifest does not depend on how it was built."""
    texts = {}
    for way, folder in folders.items():
        for library in sorted(folder.glob("*/*.so")):
            text = manifest(KINORA, library)
            first, expected = texts.setdefault(library.stem, (way, text))
            assert text == expected, (
                f"{library.stem}: the manifest from {way} differs from that of {first}:\n{text}\n{expected}")
            done(KINORA, "plugins", "validate", library)
            shown = done(KINORA, "--plugins", folder, "plugins", "inspect", IDS[library.stem[3:]])
            assert str(library) in shown or library.stem[3:] in shown, shown
    assert len(texts) == len(IDS) and all("option." in text for _, text in texts.values()), texts


def check_symbols(folders, sampler):
    for way, folder in folders.items():
        for library in folder.glob("*/*.so"):
            assert exported(library) == ["kinora_plugin_entry"], f"{library}: {exported(library)}"
    # no flag at all
    bare = compiled(["g++"], sampler, SCRATCH / "bare/plugins/geometric/libgeometric.so", include=[INCLUDE])
    mine = [symbol for symbol in exported(bare) if SDK_SYMBOL.match(symbol)]
    assert not mine, f"code of the SDK's headers is exported without -fvisibility: {mine}"
    assert len(exported(bare)) > 10, "nm finds nothing in a library that hides nothing"


def check_runs(folders):
    """The stages of each way of building, next to a stage in C, in one process of the program; then the sampler."""
    import numpy as np
    import safetensors.numpy
    given = SCRATCH / "mixture.safetensors"
    safetensors.numpy.save_file({"mean": np.zeros((1, 2)), "std": np.ones(1), "weight": np.ones(1),
                                 "noise": np.ones((1, 2))}, given)
    ways = [way for way in folders if way not in C]
    for i, way in enumerate(ways):
        both = SCRATCH / f"both{i}"
        shutil.copytree(folders[way], both)
        if way != "make":
            in_c = [c for c in C if c in folders]
            shutil.copytree(folders[in_c[i % len(in_c)]], both, dirs_exist_ok=True)
        curated(KINORA, both, VIDEO, SCRATCH / f"run{i}", '{ use = "video.read", frames = 4, height = 36 }',
                '{ use = "dim-scenes", at_least = 0.0 }',
                '{ use = "count.bytes", field = "json" }')
        out = done(KINORA, "--plugins", both, "apply", "sampler/geometric", "--inputs", given, "--set", "steps=5",
                   "--json")
        assert '"nfe":5' in out.replace(" ", ""), out
        print(f"ok    {way}", flush=True)


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
templates = [new(KINORA, kind, name, SCRATCH / f"new-{name}")
             for kind, name in (("stage", "dim-scenes"), ("sampler", "geometric"))]
plain = new(KINORA, "stage", "dim-plain", SCRATCH / "new-dim-plain", "c")
FOLDERS = built([*templates, ABI / "pure_c_stage.c", plain])
check_symbols(FOLDERS, templates[1])
check_manifests(FOLDERS)
check_runs(FOLDERS)
