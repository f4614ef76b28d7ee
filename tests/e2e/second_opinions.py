#!/usr/bin/env python3
"""Checks by programs of others that the suite does not install: rattler-build renders, packs and installs the conda packages, without a network; spdx-tools
validates the bill of materials; megatron-energon reads shards. Needs the Python that `packaging/dev.sh opinions` makes.
usage: second_opinions.py KINORA ROOT SCRATCH SHARD_TEST"""
import os, pathlib, shutil, subprocess, sys

KINORA, ROOT, SCRATCH, SHARD_TEST = (pathlib.Path(a).resolve() for a in sys.argv[1:5])
PLACE = ROOT / ".deps/opinions/bin"
sys.path.insert(0, str(ROOT / "tests/support"))
from skips import skip


def run(*command, **environment):
    """What it prints; a skip is an error here."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env={**os.environ, **environment}, cwd=SCRATCH, timeout=300)
    assert done.returncode == 0 and "SKIPPED" not in done.stdout, f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def check_conda(prefix):
    local = PLACE / "python", ROOT / "packaging/conda/local.py"
    run(PLACE / "python", ROOT / "tests/e2e/conda_recipe.py", KINORA, ROOT)
    packed = run(*local, "pack", prefix, SCRATCH / "channel")
    assert all(f"/{name}-" in packed for name in ("libkinora", "kinora", "kinora-sdk")), packed
    tried = run(*local, "try", SCRATCH / "channel", SCRATCH / "environment")
    assert "kinora --version: " in tried and "kinora plugins list --ids: " in tried, tried
    for wrong, words in ((("pack", SCRATCH / "nothing", SCRATCH / "other"), "is not an installation"), (("try", SCRATCH / "nothing", SCRATCH / "other"), "is not a channel")):
        done = subprocess.run([str(c) for c in (*local, *wrong)], capture_output=True, text=True)
        assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr, done


def check_bill_of_materials(prefix):
    bill = SCRATCH / "kinora.spdx.json"
    run(sys.executable, ROOT / "packaging/sbom.py", prefix, bill, SOURCE_DATE_EPOCH="0")
    run(PLACE / "pyspdxtools", "-i", bill)


def check_shards():
    said = run(SHARD_TEST, "--gtest_filter=Shards.AreWhatOtherReadersExpect", KINORA_ORACLE_PYTHON=str(PLACE / "python"))
    assert "[  PASSED  ] 1 test" in said and "samples equal by key" in said, said


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    if not (PLACE / "pyspdxtools").exists():
        return skip("second_opinions", "no Python in .deps/opinions; packaging/dev.sh opinions makes it")
    prefix = SCRATCH / "prefix"
    run(pathlib.Path(sys.executable).parent / "cmake", "--install", KINORA.parents[1], "--prefix", prefix, "--strip")
    for check, given in ((check_conda, [prefix]), (check_bill_of_materials, [prefix]), (check_shards, [])):
        check(*given)
        print("ok   ", check.__name__, flush=True)


main()
