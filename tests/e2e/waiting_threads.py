#!/usr/bin/env python3
"""Waiting threads of libgomp do not spin, in the program and in its workers, unless the user's environment says otherwise.
usage: waiting_threads.py KINORA ROOT SCRATCH FAULTY"""
import os, pathlib, shutil, subprocess, sys

KINORA, ROOT, SCRATCH, FAULTY = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve(), sys.argv[4]
shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)


def run(policy, *arguments):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    environment |= {"OMP_DISPLAY_ENV": "TRUE"} | ({"OMP_WAIT_POLICY": policy} if policy else {})
    done = subprocess.run([KINORA, "--plugins", FAULTY, *arguments], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stderr


# The value that libgomp reads when libtorch loads it; "inspect" loads libtorch.
for policy, expected in ((None, "PASSIVE"), ("active", "ACTIVE")):
    said = run(policy, "inspect", "model/dit")
    assert f"OMP_WAIT_POLICY = '{expected}'" in said, said

# The value that a stage in a separate process sees.
film = ROOT / "tests/data/bbb_C.mp4"
for policy, expected in ((None, "passive"), ("active", "active")):
    out = SCRATCH / expected
    run(policy, "apply", "stage/faulty", str(film), "--set", "how=none", "--set", "tells=OMP_WAIT_POLICY", "--out", str(out))
    assert (out / "bbb_C.told").read_text() == expected
print("ok")
