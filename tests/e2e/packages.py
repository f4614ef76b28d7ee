#!/usr/bin/env python3
"""The archives that CPack makes of a build: the TGZ, unpacked, curates and shards without libtorch; the DEB has the
same files and names the packages it needs. usage: packages.py KINORA ROOT SCRATCH"""
import json, os, pathlib, shlex, shutil, subprocess, sys, tarfile

KINORA, ROOT, SCRATCH = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(
    sys.argv[3]).resolve()
BUILD = KINORA.parents[1]
BARE = {"PATH": "/usr/bin:/bin", "HOME": str(SCRATCH),
        "KINORA_ASSETS": os.environ.get("KINORA_ASSETS", str(ROOT / ".deps/assets"))}
sys.path.insert(0, str(ROOT / "tests/support"))
from skips import skip


def run(*command, env=BARE, cwd=SCRATCH):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=env, cwd=cwd, timeout=300)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def files(prefix):
    return {str(p.relative_to(prefix)): p.stat().st_mode & 0o111 for p in prefix.rglob("*") if p.is_file()}


def only(pattern):
    found = list((SCRATCH / "out").glob(pattern))
    assert len(found) == 1, (pattern, found)
    return found[0]


def check_tgz():
    """Returns the unpacked folder."""
    with tarfile.open(only("kinora-*.tar.gz")) as archive:
        archive.extractall(SCRATCH / "tgz", filter="data")
    place = next((SCRATCH / "tgz").iterdir())
    assert run(place / "bin/kinora", "--version") == run(KINORA, "--version")
    run(place / "bin/kinora", "run", place / "share/kinora/configs/quickstart.toml", "--only", "shards", "--out",
        SCRATCH / "run")
    summary = json.loads((SCRATCH / "run/clips/summary.json").read_text())
    assert summary["clips"]["kept"] > 3 and summary["failed"] == 0 and list(
        (SCRATCH / "run/shards").rglob("*.tar")), summary
    return place


def check_deb(tgz):
    deb = only("kinora_*.deb")
    run("dpkg-deb", "-x", deb, SCRATCH / "deb")
    extra = set(files(SCRATCH / "deb/usr")) ^ set(files(tgz))
    assert all(name.startswith(("share/doc/", "share/man/")) for name in extra), sorted(extra)[:20]
    assert {"share/doc/kinora/changelog.gz", "share/man/man1/kinora.1.gz"} <= extra, extra
    needs = run("dpkg-deb", "-f", deb, "Depends")
    assert all(name in needs
               for name in ("libavcodec", "libsqlite3-0",
                            "libc6 (>=")) and "torch" not in needs and "cuda" not in needs, needs
    assert run(SCRATCH / "deb/usr/bin/kinora", "--version") == run(KINORA, "--version")


def check_flags():
    """The release compiles everything with checks of stacks and copies, which need optimisation; a library that it
    builds has them. The linker's part is checked in the test `installed`."""
    tree = SCRATCH / "release"
    cmake = pathlib.Path(sys.executable).parent / "cmake"
    run(cmake, "--preset", "release", "-S", ROOT, "-B", tree, env=os.environ, cwd=ROOT)
    commands = [shlex.split(one["command"])
                for one in json.loads((tree / "compile_commands.json").read_text()) if not one["file"].endswith(".S")]
    weak = [c[-1] for c in commands if not {"-fstack-protector-strong",
                                            "-D_FORTIFY_SOURCE=2"} <= set(c) or not {"-O1", "-O2", "-O3"} & set(c)]
    assert len(commands) > 50 and not weak, weak
    run(cmake, "--build", tree, "--target", "plugin.storage-file", env=os.environ)
    library = next((tree / "lib/kinora/plugins").rglob("*.so"))
    assert "__stack_chk_fail" in run("readelf", "-W", "--dyn-syms", library), library


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    if not shutil.which("dpkg-shlibdeps"):
        return skip("packages", "dpkg-shlibdeps is not installed (apt install dpkg-dev)")
    cpack = pathlib.Path(sys.executable).parent / "cpack"
    run(cpack, "--config", BUILD / "CPackConfig.cmake", "-B", SCRATCH / "out", env=os.environ)
    check_deb(check_tgz())
    check_flags()


main()
