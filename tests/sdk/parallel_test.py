#!/usr/bin/env python3
"""kinora plugins check-parallel: correct strategies pass, the template's included, and a wrong one gets a report of
what differs. usage: parallel_test.py KINORA ROOT SCRATCH"""
import json, os, pathlib, shutil, subprocess, sys

KINORA, ROOT, SCRATCH = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
ENVIRONMENT = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
               "TMPDIR": str(SCRATCH / "tmp")}
FOLDER, BUILD = SCRATCH / "stretch", SCRATCH / "build"

# Errors that give no message by themselves, as changes of the template, and the expected report.
BROKEN = {
    "it cuts nothing": ("link_ ? link_->get() : nullptr", "nullptr",
                        ["gradient of ", "it is 2 times one process'", "partial sum"]),
    "gather() sums what the trainer sums": ("kinora::shared(group_, next.gather(x, seq), 1)",
                                            "kinora::gathered(group_, next.gather(x, seq), 1)",
                                           ["gradient of ", "it is 2 times one process'", "shared, not gathered"]),
    "keys' gradients are not summed": ("kinora::gathered(group_, k, 1), kinora::gathered",
                                       "kinora::shared(group_, k, 1), kinora::gathered",
                                       ["gradient of ", "its adjoint"]),
    "padding is seen": ("columns[KINORA_TOKEN_INDEX] = columns[KINORA_TOKEN_SAMPLE] = -1;", "",
                        ["3 frames of 5 x 7, causal: output is off", "padding has INDEX -1"]),
}


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, env=ENVIRONMENT, timeout=300)


def done(*command, code=0):
    out = run(*command)
    assert out.returncode == code, f"{command}: exit {out.returncode}, expected {code}\n{out.stdout}{out.stderr}"
    return out


def check(*arguments, code=0):
    return done(KINORA, "--plugins", BUILD / "lib/kinora/plugins", "plugins", "check-parallel", *arguments, code=code)


def check_ours():
    found = json.loads(check("cp-ulysses", "--set", "size=2", "--json").stdout)
    assert found["ranks"] == 2 and found["layout"] == {"cp": 2} and len(found["trials"]) == 4, found
    all_off = [off for trial in found["trials"] for off in trial["worst"].values()]
    worst = max(all_off)
    assert worst > 0 and all(off < 1e-10
                             for off in all_off) and all(len(trial["worst"]) == 5 for trial in found["trials"]), found
    print(f"      cp-ulysses: worst {worst:.1e}")
    assert not list((SCRATCH / "tmp").iterdir()), "folders are left behind"
    assert "samples" in check("ddp").stdout  # its ranks do not share a packed row


def check_usage():
    for arguments, says in (([], "needs one ID"), (["cp-ulyses"], "did you mean 'parallel/cp-ulysses'?"),
                            (["model/dit"], "is not a strategy"),
                            (["ddp", "--ranks", 0], "--ranks must be 1 to 64")):
        message = check(*arguments, code=2).stderr
        assert says in message and len(message.splitlines()) == 1, message
    assert "did you mean 'parallel'?" in done(KINORA, "plugins", "new", "strategy", "x", SCRATCH / "x", code=2).stderr


def check_template():
    done(KINORA, "plugins", "new", "parallel", "stretch", FOLDER)
    done("cmake", "-G", "Ninja", "-S", FOLDER, "-B", BUILD, f"-DCMAKE_PREFIX_PATH={ROOT / 'sdk'}",
         f"-DKINORA_PROGRAM={KINORA}")
    done("cmake", "--build", BUILD)
    text = done("ctest", "--test-dir", BUILD, "--output-on-failure").stdout
    assert "stretch_test" in text and "manifest.stretch" in text and "100% tests passed" in text, text
    assert "check-parallel stretch" in (FOLDER / "README.md").read_text()


def check_broken():
    source = FOLDER / "stretch.cpp"
    right = source.read_text()
    for name, (old, new, says) in BROKEN.items():
        assert right.count(old) == 1, name
        source.write_text(right.replace(old, new))
        done("cmake", "--build", BUILD)
        out = check("stretch", code=1)
        assert "parallel/stretch: " in out.stderr and "is off by" in out.stderr and all(
            s in out.stderr for s in says), (name, out.stderr)
        print(f"      {name}: {out.stderr.strip()[:230]}")
    source.write_text(right)


def check_transfers():
    """One rank makes an extra sum: an error that names both transfers, instead of a crash in a Gloo thread."""
    source = FOLDER / "stretch.cpp"
    right = source.read_text()
    source.write_text(right.replace("    const int64_t padding =",
                                    "    if (group_.rank() == 0) group_.sum(x);\n    const int64_t padding =", 1))
    done("cmake", "--build", BUILD)
    message = check("stretch", code=1).stderr
    assert ("gather #" in message and "sum #" in message
            and "start the same transfers in the same order" in message), message
    assert "signal" not in message, message
    source.write_text(right)


def check_manifest():
    """A stale manifest: one remedy, with the target's name."""
    file = FOLDER / "plugin.toml"
    file.write_text(file.read_text().replace("max = 65536", "max = 65537"))
    library = BUILD / "lib/kinora/plugins/stretch/libstretch.so"
    message = done(KINORA, "plugins", "manifest", library, "--check", file, code=1).stderr
    assert message.count("build ") == 1 and "build the target stretch.manifest, then the plugin" in message, message


shutil.rmtree(SCRATCH, ignore_errors=True)
(SCRATCH / "tmp").mkdir(parents=True)
(BUILD / "lib/kinora/plugins").mkdir(parents=True)
for test in (check_usage, check_ours, check_template, check_broken, check_transfers, check_manifest):
    test()
    print("ok   ", test.__name__, flush=True)
