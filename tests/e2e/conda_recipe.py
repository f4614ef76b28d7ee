#!/usr/bin/env python3
"""The conda recipe renders: three packages for CPUs and for CUDA, of this version, each with the libtorch that this
Kinora was built for. Without rattler packaging/conda/local.py has its help, and names what it needs.
usage: conda_recipe.py KINORA ROOT"""
import pathlib, subprocess, sys

KINORA, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
for argument, code, words in (("--help", 0, "usage: local.py render"), ("render", 1, "pip install py-rattler")):
    # -S: no package
    bare = subprocess.run([sys.executable, "-S", ROOT / "packaging/conda/local.py", argument], capture_output=True,
                          text=True)
    assert bare.returncode == code and words in bare.stdout + bare.stderr, bare
try:
    import rattler, rattler_build  # noqa: F401
except ImportError as error:
    print(f"SKIPPED: conda_recipe: {error.name} is not installed; pip install py-rattler py-rattler-build")
    sys.exit(0)
sys.path.insert(0, str(ROOT / "packaging/conda"))
import local, wheel

said = dict(line.split(None, 1)
            for line in subprocess.run([KINORA, "--version"], check=True, capture_output=True,
                                       text=True).stdout.splitlines())
found = {(one.recipe.package.name, one.recipe.build.string.split("_")[0]): one.recipe.to_dict()
         for one in local.rendered()}
assert found.keys() == {(name, flavour) for name in ("libkinora", "kinora", "kinora-sdk")
                        for flavour in ("cpu", "cuda130")}, found.keys()
for (name, flavour), recipe in found.items():
    assert recipe["package"]["version"] == said["kinora"], (recipe["package"], said)
    assert recipe["build"]["files"] and f"License-Expression: {recipe['about']['license']}\n" in wheel.metadata(
        said["kinora"], said["libtorch"]), recipe
    if name == "libkinora":
        assert recipe["requirements"]["run"] == [f"libtorch =={said['libtorch']} {flavour.rstrip('130')}*"], recipe[
            "requirements"]
    else:
        below = {"kinora": "libkinora", "kinora-sdk": "kinora"}[name]
        assert recipe["requirements"]["run"] == [{"pin_subpackage": {"name": below, "exact": True}}], recipe[
            "requirements"]
print("ok")
