#!/usr/bin/env python3
"""An installation, moved to another folder: its program, run files, SDK, completion and licences work, nothing in it
names the folder in which it was built, and libtorch is found where docs/operate.md says. usage: installed.py KINORA
ROOT SCRATCH"""
import base64, hashlib, json, os, pathlib, re, shlex, shutil, subprocess, sys, zipfile

import yaml

KINORA, ROOT, SCRATCH = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(
    sys.argv[3])
BUILD, PLACE = KINORA.parents[1], SCRATCH / "moved"
TORCH = ROOT / ".deps/torch/torch"
BARE = {"PATH": "/usr/bin:/bin", "HOME": str(SCRATCH),
        "KINORA_ASSETS": os.environ.get("KINORA_ASSETS", str(ROOT / ".deps/assets"))}
WITH_TORCH = {**BARE, "KINORA_TORCH": str(TORCH)}
sys.path.insert(0, str(ROOT / "packaging"))
sys.path.insert(0, str(ROOT / "packaging/conda"))
sys.path.insert(0, str(ROOT / "tests/support"))
import local, sbom
from skips import skip


def run(*command, env=WITH_TORCH, code=0, cwd=SCRATCH):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=env, cwd=cwd, timeout=300)
    assert done.returncode == code, f"{command}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def kinora(*arguments, **how):
    return run(PLACE / "bin/kinora", *arguments, **how)


def install():
    first = SCRATCH / "first"
    run(pathlib.Path(sys.executable).parent / "cmake", "--install", BUILD, "--prefix", first, "--strip", env=os.environ)
    first.rename(PLACE)
    for archive in PLACE.rglob("*.a"):  # a build with debug information; CMake strips programs and libraries only
        run("strip", "--strip-debug", archive)


def files():
    return [file for file in sorted(PLACE.rglob("*")) if file.is_file() and not file.is_symlink()]


def elf_files():
    return [file for file in files() if file.open("rb").read(4) == b"\x7fELF"]


def check_no_path_of_the_build():
    words = {str(path).encode() for path in (BUILD, ROOT, TORCH.resolve(), SCRATCH.resolve())}
    found = [(str(file.relative_to(PLACE)),
              re.search(rb"[ -~]{0,40}" + re.escape(word) + rb"[ -~]{0,60}", bytes)[0].decode())
             for file in files() for bytes in [file.read_bytes()] for word in words if word in bytes]
    assert not found, found[:20]
    broken = [str(link)
              for link in PLACE.rglob("*")
              if link.is_symlink() and (not link.exists() or os.readlink(link).startswith("/"))]
    assert not broken, broken


def run_path(dynamic):
    """The entries of each run path: an empty one would be the current folder."""
    return [path for paths in re.findall(r"(?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic) for path in paths.split(":")]


def check_build_tree():
    """No program or library of the build tree, where developers run it, looks for libraries in the current folder."""
    libraries = [file for file in (BUILD / "lib").rglob("*.so") if not file.is_relative_to(BUILD / "lib/torch")]
    assert len(libraries) > 20, libraries
    for file in (KINORA, *libraries):
        for path in run_path(run("readelf", "-dW", file)):
            assert re.match(r"\$ORIGIN(/|$)|/", path) or file.name == "libkinora_cuda.so", (file, path)


def check_linking():
    """Run paths are relative to the file, libraries have a versioned name, and LIBRARIES.md knows all that they need.
    Programs lie anywhere in memory, and what the linker writes is read-only once it is written (the flags of compilers
    are those of the release: the test `packages`)."""
    linked, _ = sbom.tables()
    for file in elf_files():
        dynamic, header = run("readelf", "-dW", file), run("readelf", "-hlW", file)
        assert " DYN " in header and "GNU_RELRO" in header and re.search(
            r"BIND_NOW|Flags: .*\bNOW\b", dynamic) and "TEXTREL" not in dynamic, file
        assert not re.search(r"GNU_STACK.* RWE ", header), file
        for path in run_path(dynamic):
            assert re.match(r"\$ORIGIN(/|$)", path), (file, path)
        for library in re.findall(r"NEEDED\).*\[(.*)\]", dynamic):
            assert "/" not in library, (file, library)
            is_listed = re.fullmatch(r"libkinora\w*\.so\.\d+", library) or sbom.licence_of(library, linked)
            assert is_listed, f"{file} needs {library}, which packaging/LIBRARIES.md lacks"
        if file.parent == PLACE / "lib":
            name = re.search(r"SONAME\).*\[(.*)\]", dynamic)[1]
            assert re.fullmatch(r"libkinora\w*\.so\.\d+",
                                name) and (file.parent / name).resolve() == file.resolve(), (file, name)
    assert {f"libkinora{part}.so.0" for part in ("", "_host", "_torch", "_training", "_curation")} <= {
        p.name for p in (PLACE / "lib").iterdir()}


def check_program():
    said = kinora("--version", env=BARE)
    assert re.match(r"kinora \d+\.\d+\.\d+\n", said), said
    for command in ((), ("run",)):  # the example of the help works
        example = re.search(r"kinora run (\S*quickstart\.toml)", kinora(*command, "--help", env=BARE))[1]
        assert pathlib.Path(example) == PLACE.resolve() / "share/kinora/configs/quickstart.toml", example
    listed = json.loads(kinora("plugins", "list", "--json"))
    assert len(listed) > 60 and all(c["state"] == "ready" and c["library"].startswith(str(PLACE.resolve()))
                                    for c in listed), listed
    tensors = kinora("plugins", "validate", next(c["library"] for c in listed if c["id"] == "collective/gloo"))
    assert "ok      libtorch\n" in tensors, tensors
    disabled = [c for c in json.loads(kinora("plugins", "list", "--json", env=BARE)) if c["state"] == "disabled"]
    assert disabled and all("pip install torch==" in c["reason"] for c in disabled), disabled
    said = kinora("plugins", "list", env=BARE)  # one reason for all of them
    assert said.count("pip install torch==") == 1 and " are disabled:\n" in said, said

    said = kinora("bench", "shots", env=BARE, code=1)
    lacking = f"{PLACE.resolve()}/bin/kinora-bench: no such program, as an installation has none"
    assert lacking in said and "packaging/dev.sh build kinora-bench" in said, said
    assert "packaging/dev.sh build kinora-bench" in " ".join(kinora("bench", "--help", env=BARE).split())
    assert "\n  bench " not in kinora("--help", env=BARE), "the benchmarks are not installed"


def check_libtorch():
    """Without libtorch: the version and a command. In an active environment it is found; another version is not."""
    version = re.search(r"libtorch +(\S+)", kinora("--version"))[1]
    probed = kinora("apply", "stage/video.probe", PLACE / "share/kinora/media/film.mp4", "--json", env=BARE)
    assert '"frames"' in probed or "640" in probed, probed
    for env, words in ((BARE, f"not found in {PLACE.resolve()}/lib"),
                       ({**BARE, "KINORA_TORCH": "/nowhere"}, "not found in KINORA_TORCH=/nowhere")):
        done = subprocess.run([PLACE / "bin/kinora", "inspect", "model/dit"], capture_output=True, text=True, env=env,
                              cwd=SCRATCH)
        assert (done.returncode and f"libtorch {version} is required" in done.stderr
                and f"pip install torch=={version}" in done.stderr and words in done.stderr), done
    package = SCRATCH / "venv/lib/python3.11/site-packages/torch"
    package.parent.mkdir(parents=True)
    package.symlink_to(TORCH.resolve())
    active = {**BARE, "VIRTUAL_ENV": str(SCRATCH / "venv")}
    assert "parameters" in kinora("inspect", "model/dit", env=active)
    package.unlink()
    package.mkdir()
    (package / "lib").symlink_to(TORCH.resolve() / "lib")
    (package / "version.py").write_text("__version__ = '0.4.1'\n")
    done = subprocess.run([PLACE / "bin/kinora", "inspect", "model/dit"], capture_output=True, text=True, env=active,
                          cwd=SCRATCH)
    assert done.returncode and "is version 0.4.1" in done.stderr, done


def check_run_files():
    """Every run file reads videos that are installed, and a way from a video to shards works in another folder."""
    configs = sorted((PLACE / "share/kinora/configs").glob("*.toml"))
    assert {c.name for c in configs} == {c.name for c in (ROOT / "configs").glob("*.toml")}
    for config in configs:
        for path in re.findall(r'"(\.\./[^"]+)"', config.read_text()):
            assert list((config.parent / path).parent.glob(pathlib.Path(path).name)), (config, path)
        kinora("check", config)
    # Without libtorch: the jobs of the file that need it do not run, so their problems are ignored.
    kinora("run", PLACE / "share/kinora/configs/quickstart.toml", "--only", "shards", "--out", SCRATCH / "run",
           env=BARE)
    summary = json.loads((SCRATCH / "run/clips/summary.json").read_text())
    assert summary["clips"]["kept"] > 3 and summary["failed"] == 0 and list(
        (SCRATCH / "run/shards").rglob("*.tar")), summary


def check_sdk():
    env = {**BARE, "PKG_CONFIG_PATH": str(PLACE / "share/pkgconfig")}
    flags = shlex.split(run("pkg-config", "--cflags", "kinora-sdk", env=env))
    include = pathlib.Path(flags[0].removeprefix("-I"))
    assert len(flags) == 1 and include.resolve() == (PLACE / "share/kinora/sdk/include").resolve() and (
        include / "kinora/abi/base.h").exists(), flags
    for name in ("version_script", "plugindir"):
        assert pathlib.Path(run("pkg-config", f"--variable={name}", "kinora-sdk", env=env).strip()).exists(), name
    version = run("pkg-config", "--modversion", "kinora-sdk", env=env).strip()
    assert f"abi      {version}" in kinora("--version"), version
    for file in ("sdk/cmake/torch_root.cmake", "sdk/template/kinds", "sdk/examples/pure_c_stage.c",
                 "sdk/lib/libkinora_kernels.a"):
        assert (PLACE / "share/kinora" / file).exists(), file
    assert (PLACE / "share/cmake/kinora-sdk/kinora-sdk-config.cmake").exists()
    kinora("plugins", "new", "stage", "mine", SCRATCH / "mine")
    program = SCRATCH / "embeds"
    program.with_suffix(".c").write_text('#include <stdio.h>\n#include "kinora/embed.h"\n'
                                         "int main(void) { return puts(kinora_embed_version()) < 0; }\n")
    flags = shlex.split(run("pkg-config", "--cflags", "--libs", "kinora-embed", env=env))
    run("gcc", "-std=c11", "-Wall", "-Werror", program.with_suffix(".c"), "-o", program, *flags)
    release = run("pkg-config", "--modversion", "kinora-embed", env=env).strip()
    assert run(program, env=BARE).strip() == release and f"kinora {release}\n" in kinora("--version"), release


def check_completion():
    share, env = PLACE / "share", {**WITH_TORCH, "PATH": f"{PLACE}/bin:/usr/bin:/bin"}
    scripts = {"bash": share / "bash-completion/completions/kinora", "zsh": share / "zsh/site-functions/_kinora",
               "fish": share / "fish/vendor_completions.d/kinora.fish"}
    for shell, script in scripts.items():
        assert script.read_text() == kinora("completion", shell), shell
        if shutil.which(shell):
            run(shell, "-n", script)
        else:
            skip(f"check_completion of {shell}", f"{shell} is not installed")
    words = 'COMP_WORDS=(kinora apply model/d); COMP_CWORD=2; _kinora; printf "%s\\n" "${COMPREPLY[@]}"'
    assert run("bash", "-c", f"source {shlex.quote(str(scripts['bash']))}; {words}", env=env) == "model/dit\n"
    inner = re.search(r"bash -c '(.*?)'", scripts["fish"].read_text(), re.S)[1]  # what fish asks bash
    assert run("bash", "-c", inner, "bash", "kinora", "plu", env=env) == "plugins\n"


def check_man_page():
    """It has the help's text, and roff has nothing to say about it."""
    page = PLACE / "share/man/man1/kinora.1"
    text = page.read_text()
    assert text.startswith(".TH KINORA 1") and "run FILE.toml" in text and "\\-\\-plugins\\-lock FILE" in text and str(
        ROOT) not in text, text
    assert "\n  bench" not in text, "it is not installed"
    if shutil.which("groff"):
        assert not run("groff", "-man", "-ww", "-z", page, env=BARE)


def check_licences():
    doc = PLACE / "share/doc/kinora"
    for name in ("LICENSE", "NOTICE"):
        assert (doc / name).read_bytes() == (ROOT / name).read_bytes(), name
    assert {page.relative_to(doc)
            for page in (doc / "docs").rglob("*.md")} == {page.relative_to(ROOT)
                                                          for page in (ROOT / "docs").rglob("*.md")} and (
                                                              doc / "README.md").exists()
    text = (doc / "MEDIA.md").read_text()
    for video in (PLACE / "share/kinora/media").iterdir():
        assert video.name == "LICENSES.md" or f"`{video.name}`" in text, video
    assert "libx264" in (doc / "LIBRARIES.md").read_text() and (doc / "copyright").exists()


def check_links():
    """Every link of an installed page leads to an installed file, or to a web address."""
    pages = [page for page in files() if page.suffix == ".md"]
    assert {"README.md", "ARCHITECTURE.md", "MEDIA.md", "operate.md"} <= {page.name for page in pages}, pages
    links = [(page, link) for page in pages
             for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?ms)^ *```.*?```$", "", page.read_text()))]
    dead = [f"{page.relative_to(PLACE)}: {link}" for page, link in links
            if not re.match(r"https?://|mailto:|#", link) and not (page.parent / link.partition("#")[0]).exists()]
    assert len(links) > 40 and not dead, dead


def check_bill_of_materials():
    out = SCRATCH / "kinora.spdx.json"
    run(sys.executable, ROOT / "packaging/sbom.py", PLACE, out, env={**os.environ, "SOURCE_DATE_EPOCH": "0"})
    whole = json.loads(out.read_text())
    assert whole["spdxVersion"] == "SPDX-2.3" and whole["dataLicense"] == "CC0-1.0" and whole[
        "SPDXID"] == "SPDXRef-DOCUMENT"
    assert whole["name"] and whole["creationInfo"]["created"] == "1970-01-01T00:00:00Z" and re.fullmatch(
        r"https?://[^#]+", whole["documentNamespace"])
    ids = [one["SPDXID"] for one in whole["packages"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", id) for id in ids), ids
    assert all(one["name"] and one["downloadLocation"] and "licenseDeclared" in one for one in whole["packages"])
    names = {one["name"] for one in whole["packages"]}
    assert {"kinora", "torch", "libfaiss-dev", "kinora-media", "kinora-ray"} <= names, names
    for link in whole["relationships"]:
        assert {link["spdxElementId"], link["relatedSpdxElement"]} <= {"SPDXRef-DOCUMENT", *ids}, link
    if validator := shutil.which("pyspdxtools"):  # of the Python package spdx-tools
        run(validator, "-i", out, env=os.environ)
    else:
        skip("check_bill_of_materials by pyspdxtools", "pyspdxtools is not installed")


def check_record(file):
    """The names in a wheel, of which its RECORD is right."""
    with zipfile.ZipFile(file) as wheel:
        record = [line.split(",")
                  for line in wheel.read(next(n for n in wheel.namelist()
                                              if n.endswith("/RECORD"))).decode().splitlines()]
        assert sorted(name for name, _, _ in record) == sorted(wheel.namelist())
        for name, digest, size in record:
            data = wheel.read(name)
            found = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert name.endswith("/RECORD") or (digest, size) == (found, str(len(data))), name
        return set(wheel.namelist())


def check_wheel_of_ray():
    """kinora-ray, in the environment of check_wheel(): it wants the other wheel's version, and says that Ray is
    missing."""
    file, again = (next((SCRATCH / folder).glob("kinora_ray-*-py3-none-any.whl")) for folder in ("wheel", "again"))
    assert file.read_bytes() == again.read_bytes()
    assert {f"kinora_ray/{one.name}" for one in (ROOT / "packaging/ray/kinora_ray").glob("*.py")} <= check_record(file)
    pip = [SCRATCH / "env/bin/pip", "--disable-pip-version-check"]
    lacking = run(*pip, "install", "--no-index", file, code=1)
    assert "ray<2.62,>=2.49" in lacking, lacking
    run(*pip, "install", "--no-index", "--no-deps", file)
    version = re.match(r"kinora (\S+)", kinora("--version"))[1]
    said = run(SCRATCH / "env/bin/python", "-c", f"import kinora_ray; print(kinora_ray.problem('{version}'))")
    assert "has no Ray; pip install 'ray>=2.49,<2.62'" in said, said
    assert f"and this is Kinora {version}.1" in run(SCRATCH / "env/bin/python", "-c",
                                                    f"import kinora_ray; print(kinora_ray.problem('{version}.1'))")
    bridge = run(SCRATCH / "env/bin/python", "-m", "kinora_ray", code=1)
    assert "`kinora run` starts this itself" in bridge, bridge


def check_wheel():
    """The wheel of the installation: the same bytes twice, as its RECORD says, and pip installs its command without a
    network."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
    said = [run(sys.executable, ROOT / "packaging/wheel.py", PLACE, SCRATCH / folder, env=env)
            for folder in ("wheel", "again")]
    file, again = (next((SCRATCH / folder).glob("kinora-*-py3-none-linux_*.whl")) for folder in ("wheel", "again"))
    assert file.read_bytes() == again.read_bytes() and re.search(r"libavcodec\.so\.\d+  LGPL", said[0]), said
    assert {"kinora/_pipeline.py", "kinora/py.typed"} <= check_record(file)
    run(sys.executable, "-m", "venv", SCRATCH / "env")
    run(SCRATCH / "env/bin/pip", "install", "--no-index", "--disable-pip-version-check", file)
    assert kinora("--version") == run(SCRATCH / "env/bin/kinora", "--version", env=BARE)
    listed = run(SCRATCH / "env/bin/python", "-c",
                 "import kinora; print(kinora.version(), *(c['id'] for c in kinora.components()))", env=WITH_TORCH)
    assert "stage/video.probe" in listed and "model/dit" in listed, listed
    # A kind of job links libkinora, of which a wheel has no symbolic link.
    prefix = next((SCRATCH / "env").glob("lib/python*/site-packages/kinora/prefix"))
    run(SCRATCH / "env/bin/kinora", "plugins", "new", "job", "first-job", SCRATCH / "first-job", env=BARE)
    run("cmake", "-G", "Ninja", "-S", SCRATCH / "first-job", "-B", SCRATCH / "first-job/build",
        f"-DCMAKE_PREFIX_PATH={prefix}", env=os.environ)


def matches(pattern, name):
    """As rattler-build matches a path: ** is any number of folders, * is within one."""
    return re.fullmatch("".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part))
                                for part in re.split(r"(\*\*|\*)", pattern)), name)


def check_conda_packages():
    """Each installed file is in exactly one package of packaging/conda/recipe.yaml, and no pattern there is for
    nothing."""
    outputs = yaml.safe_load((ROOT / "packaging/conda/recipe.yaml").read_text())["outputs"]
    given = {one["package"]["name"]: one["build"]["files"] for one in outputs if "package" in one}
    parts = {name: local.globs(files) for name, files in given.items()}
    names = [str(file.relative_to(PLACE)) for file in sorted(PLACE.rglob("*")) if file.is_file() or file.is_symlink()]
    assert set(parts) == {"libkinora", "kinora", "kinora-sdk"} and names
    for name in names:
        owners = [part
                  for part, (some, none) in parts.items()
                  if any(matches(p, name) for p in some) and not any(matches(p, name) for p in none)]
        assert len(owners) == 1, f"{name} is in the packages {owners} of packaging/conda/recipe.yaml"
    for part, patterns in parts.items():
        idle = [p for p in sum(patterns, []) if not any(matches(p, name) for name in names)]
        assert not idle, f"{part}: no installed file matches {idle}"


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    install()
    for check in (check_build_tree, check_no_path_of_the_build, check_linking, check_program, check_libtorch,
                  check_run_files, check_sdk, check_completion, check_man_page, check_licences, check_links,
                  check_bill_of_materials, check_conda_packages, check_wheel, check_wheel_of_ray):
        check()
        print("ok   ", check.__name__, flush=True)


main()
