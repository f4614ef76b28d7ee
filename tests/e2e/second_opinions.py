#!/usr/bin/env python3
"""Checks by programs of others that the suite does not install: rattler-build renders, packs and installs the conda
packages, without a network; spdx-tools validates the bill of materials; megatron-energon reads shards; torchao
quantises the same matrices; diffusers and PEFT load adapters that Kinora writes; lintian reads the DEB. Needs what
`packaging/dev.sh opinions` installs. usage: second_opinions.py KINORA ROOT SCRATCH SHARD_TEST FP4_CASES FP8_CASES"""
import os, pathlib, shutil, subprocess, sys

KINORA, ROOT, SCRATCH, SHARD_TEST, FP4_CASES, FP8_CASES = (pathlib.Path(a).resolve() for a in sys.argv[1:7])
PLACE = ROOT / ".deps/opinions/bin"
sys.path.insert(0, str(ROOT / "tests/support"))
import cpu_torch
from skips import skip


def run(*command, **environment):
    """What it prints; a skip is an error here."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env={**os.environ, **environment},
                          cwd=SCRATCH, timeout=300)
    assert (done.returncode == 0
            and "SKIPPED" not in done.stdout), f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def check_conda(prefix):
    local = PLACE / "python", ROOT / "packaging/conda/local.py"
    run(PLACE / "python", ROOT / "tests/e2e/conda_recipe.py", KINORA, ROOT)
    packed = run(*local, "pack", prefix, SCRATCH / "channel")
    assert all(f"/{name}-" in packed for name in ("libkinora", "kinora", "kinora-sdk")), packed
    tried = run(*local, "try", SCRATCH / "channel", SCRATCH / "environment")
    assert "kinora --version: " in tried and "kinora plugins list --ids: " in tried, tried
    for wrong, words in ((("pack", SCRATCH / "nothing", SCRATCH / "other"), "is not an installation"),
                         (("try", SCRATCH / "nothing", SCRATCH / "other"), "is not a channel")):
        done = subprocess.run([str(c) for c in (*local, *wrong)], capture_output=True, text=True)
        assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr, done


def check_bill_of_materials(prefix):
    bill = SCRATCH / "kinora.spdx.json"
    run(sys.executable, ROOT / "packaging/sbom.py", prefix, bill, SOURCE_DATE_EPOCH="0")
    run(PLACE / "pyspdxtools", "-i", bill)


def check_shards():
    said = run(SHARD_TEST, "--gtest_filter=Shards.AreWhatOtherReadersExpect",
               KINORA_ORACLE_PYTHON=str(PLACE / "python"))
    assert "[  PASSED  ] 1 test" in said and "samples equal by key" in said, said


def check_torchao():
    env = cpu_torch.environment(ROOT / ".deps/torch", SCRATCH / "no_cuda")
    said = run(PLACE / "python", ROOT / "tests/oracle/torchao_oracle.py", FP4_CASES, FP8_CASES, SCRATCH / "torchao",
               **env)
    assert "equal torchao's and torch's to the bit" in said, said


def check_adapters():
    """diffusers' load_lora_weights and PEFT read what `kinora convert --to` writes, merged equal."""
    env = cpu_torch.environment(ROOT / ".deps/torch", SCRATCH / "no_cuda")
    said = run(PLACE / "python", ROOT / "tests/oracle/make_adapter_fixtures.py", "--check", KINORA, **env)
    assert said.count("matrices within") == 10, said


# Errors of lintian that stay, and why.
STAYS = {"malformed-contact": "the project has no address for mail",
         "arch-dependent-file-in-usr-share": "the SDK's library of kernels lies with the SDK, which may be copied as a "
                                             "whole"}


def check_debian_package():
    """lintian finds no errors in the DEB."""
    assert shutil.which("lintian"), "lintian is not installed; packaging/dev.sh opinions installs it"
    cpack = pathlib.Path(sys.executable).parent / "cpack"
    run(cpack, "-G", "DEB", "--config", KINORA.parents[1] / "CPackConfig.cmake", "-B", SCRATCH / "deb")
    package = next((SCRATCH / "deb").glob("kinora_*.deb"))
    run("lintian", "--fail-on", "error", "--allow-root", "--suppress-tags", ",".join(STAYS), package)


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    if not (PLACE / "pyspdxtools").exists():
        return skip("second_opinions", "no Python in .deps/opinions; packaging/dev.sh opinions makes it")
    prefix = SCRATCH / "prefix"
    run(pathlib.Path(sys.executable).parent / "cmake", "--install", KINORA.parents[1], "--prefix", prefix, "--strip")
    for check, given in ((check_conda, [prefix]), (check_bill_of_materials, [prefix]), (check_debian_package, []),
                         (check_shards, []), (check_torchao, []), (check_adapters, [])):
        check(*given)
        print("ok   ", check.__name__, flush=True)


main()
