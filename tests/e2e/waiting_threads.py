#!/usr/bin/env python3
"""Waiting threads of libgomp do not spin, in the program, in its workers and in a Python program, unless the user's
environment says otherwise. usage: waiting_threads.py KINORA ROOT SCRATCH FAULTY"""
import os, pathlib, shutil, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import quick

KINORA, ROOT, SCRATCH, FAULTY = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve(), sys.argv[4]
shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)


def said_by(policy, *command, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    environment |= {"OMP_DISPLAY_ENV": "VERBOSE"} | ({"OMP_WAIT_POLICY": policy} if policy else {}) | more
    done = subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stderr


def run(policy, *arguments):
    return said_by(policy, KINORA, "--plugins", FAULTY, *arguments)


# How often a thread looks before it sleeps, which libgomp prints when libtorch loads it: never, "active", and what it
# does on its own. (The policy that it prints is PASSIVE for the last one too.)
PASSIVE, ACTIVE, UNSET = (f"GOMP_SPINCOUNT = '{count}'" for count in (0, 30000000000, 300000))

# "inspect" loads libtorch.
for policy, expected in ((None, PASSIVE), ("active", ACTIVE)):
    said = run(policy, "inspect", "model/dit")
    assert expected in said, said

# The value that a stage in a separate process sees.
video = ROOT / "tests/data/bbb_C.mp4"
for policy, expected in ((None, "passive"), ("active", "active")):
    out = SCRATCH / expected
    run(policy, "apply", "stage/faulty", str(video), "--set", "how=none", "--set", "tells=OMP_WAIT_POLICY", "--out",
        str(out))
    assert (out / "bbb_C.told").read_text() == expected

# A Python program: the module sets the policy when it is imported, or else the library when it is opened; if torch came
# first, a warning says so.
PROGRAM = """
import ctypes, importlib.machinery, logging, os, sys, types
logging.basicConfig()
module, file, out, case = sys.argv[1:]
if case == "torch first":
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(os.environ["KINORA_TORCH"] + "/lib/" + name)
    sys.modules["torch"] = types.ModuleType("torch")
    sys.modules["torch"].__spec__ = importlib.machinery.ModuleSpec("torch", None)
sys.path.insert(0, module)
import kinora
if case == "library":
    del os.environ["OMP_WAIT_POLICY"]
sets = {"dit.steps": 1, "dit.batch": 2, "dit.model.layers": 1, "dit.sample_every": 0, %s}
kinora.run(file, out=out, only="dit", sets=sets)
""" % ", ".join("%r: %s" % tuple(s.split("=")) for s in quick.FEW)
WARNING = "libtorch was loaded before Kinora"
for case, policy, expected in (("import", None, PASSIVE), ("library", None, PASSIVE), ("user", "active", ACTIVE),
                               ("torch first", None, UNSET)):
    out = quick.begun(KINORA, ROOT, SCRATCH / f"run-{case.replace(' ', '-')}")
    said = said_by(policy, sys.executable, "-c", PROGRAM, ROOT / "packaging/wheel", ROOT / "configs/quickstart.toml",
                   out, case,
                   KINORA_PREFIX=str(pathlib.Path(KINORA).parents[1]),
                   KINORA_TORCH=os.environ.get("KINORA_TORCH", str(ROOT / ".deps/torch/torch")))
    assert expected in said and (WARNING in said) == (case == "torch first"), said
print("ok")
