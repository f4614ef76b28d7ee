#!/usr/bin/env python3
"""`kinora check` tells what the Python of engine/ray lacks, each in one line with its place and a remedy, and connects
to nothing. Ray is not needed: only its version is read. The files of packaging/ray for clusters name what there is.
usage: ray_python.py KINORA BUILD ROOT SCRATCH"""
import os, pathlib, re, shutil, subprocess, sys

import yaml

KINORA, BUILD, ROOT, SCRATCH = (pathlib.Path(a).resolve() for a in sys.argv[1:5])
VERSION = subprocess.run([KINORA, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
SITE = f"{ROOT / 'packaging/wheel'}:{ROOT / 'packaging/ray'}"


def written(name, text):
    file = SCRATCH / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def program(name, text):
    file = written(name, f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def with_ray(version):
    """A folder of Python with the metadata of this Ray."""
    written(f"ray{version}/ray-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: ray\nVersion: {version}\n")
    return f"{SCRATCH / f'ray{version}'}:{SITE}"


def answer(python, path, **more):
    """python: the option; "": none."""
    option = f', python = "{python}"' if python else ""
    file = written("run.toml", f'[run]\nengine = {{ use = "ray"{option} }}\n[[job]]\nname = "clips"\nkind = "curate"\n'
                               f'input = "{ROOT / "tests/data/bbb_A.mp4"}"\nstages = ["video.probe"]\n')
    inherited = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    env = {**inherited, "KINORA_PREFIX": str(BUILD), "PYTHONPATH": path, **more}
    done = subprocess.run([KINORA, "check", file], env=env, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr.replace(f"{file}:2:10: job 'clips': engine/ray: ", "AT ")


def check_files():
    """The files for clusters hold what their comments tell a reader to make, and the Ray that is tested."""
    text = (ROOT / "packaging/ray/kuberay.yaml").read_text()
    cluster = yaml.safe_load(text)
    assert cluster["kind"] == "RayCluster" and f"ray.io/cluster={cluster['metadata']['name']}," in text, text
    tested = re.search(r"ray==(\S+)", (ROOT / "packaging/dev.sh").read_text())[1]
    assert cluster["spec"]["rayVersion"] == tested, tested
    made = re.search(r"create secret generic (\S+) --from-literal=(\w+)=", text).groups()
    for group in (cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        [node] = pod["containers"]
        env = {one["name"]: one.get("value") or one["valueFrom"]["secretKeyRef"] for one in node["env"]}
        assert env["RAY_AUTH_MODE"] == "token", env
        assert (env["RAY_AUTH_TOKEN"]["name"], env["RAY_AUTH_TOKEN"]["key"]) == made, (env, made)
        assert node["image"] == "IMAGE" and {one["name"] for one in node["volumeMounts"]} == {
            one["name"] for one in pod["volumes"]}, pod
    text = (ROOT / "packaging/ray/cluster.yaml").read_text()
    cluster = yaml.safe_load(text)
    options = dict(one.removeprefix("--env=").partition("=")[::2] for one in cluster["docker"]["run_options"])
    assert options["RAY_AUTH_MODE"] == "token" and cluster["docker"]["image"] == "IMAGE", options
    token = next(one.split(":") for one in cluster["docker"]["run_options"] if one.endswith(":ro"))
    assert token[0].endswith("/USER/ray-token") and token[1] == options["RAY_AUTH_TOKEN_PATH"], token
    assert ">ray-token " in text and {"HEAD", "WORKER", "USER", "IMAGE", "/shared"} <= set(
        re.split(r"[,. ]+", re.search(r"# Replace (.*)\.\n", text)[1])), text
    port = re.search(r"--head --port=(\d+)", cluster["head_start_ray_commands"][-1])[1]
    assert cluster["worker_start_ray_commands"][-1].endswith(f"$RAY_HEAD_IP:{port}"), cluster


def check_difference():
    """What is said of a node whose Kinora or plugins are others."""
    sys.path[:0] = SITE.split(":")
    from kinora_ray.bridge import _difference
    mine = {"version": "1", "abi": "7", "plugins": {"cut": "aa", "probe": "bb"}}
    said = [_difference(mine, {**mine, **theirs})
            for theirs in ({}, {"version": "2"}, {"abi": "8"}, {"plugins": {"cut": "aa", "probe": "cc", "new": "dd"}})]
    assert said == ["", "its Kinora has version 2, and this one 1", "its Kinora has abi 8, and this one 7",
                    "its plugins differ: new, probe"], said


def check_pieces():
    """What a stage passes on keeps the number by which the bridge knows it; what it makes has none."""
    os.environ["KINORA_PREFIX"] = str(BUILD)
    import kinora
    from kinora_ray import _stage
    clip = kinora.Sample("clip", {"mp4": b"m" * 50000, "txt": b"a street"})
    first = _stage._Packed(clip._handle, {})
    parts = [_stage._aligned(bytes(memoryview(piece))) for piece in first.pieces]
    assert first.numbers == [0] and [size for _, size, _ in parts] == [50000], first.numbers
    first.release()
    there = _stage.unpacked(first.head, parts)
    there["webp"] = b"w" * 40000
    again = _stage._Packed(there._handle, {parts[0][:2]: 7})
    assert again.numbers == [7, 0] and bytes(memoryview(again.pieces[0])) == b"w" * 40000, again.numbers
    again.release()


def main():
    check_files()
    check_difference()
    check_pieces()
    shutil.rmtree(SCRATCH, ignore_errors=True)
    # without the packages of the interpreter's own folders
    python = program("python", f'exec "{sys.executable}" -S "$@"')
    environment = program("env/bin/python3", f'exec "{sys.executable}" -S "$@"')
    fine = with_ray("2.60.0")
    for answered in (answer(python, with_ray("2.49.1")),
                     answer("", with_ray("2.61.9"), VIRTUAL_ENV=str(environment.parents[1])),
                     answer("", fine, VIRTUAL_ENV="", PATH=f"{environment.parent}:{os.environ['PATH']}")):
        assert answered[0] == 0 and "AT" not in answered[1], answered
    other = written("other/kinora.py", 'def version():\n    return "0.0.9"\n').parent
    older = written("older/kinora_ray/__init__.py",
                    (ROOT / "packaging/ray/kinora_ray/__init__.py").read_text().replace(VERSION, "0.0.9")).parents[1]
    wheel, half = str(ROOT / "packaging/wheel"), str(ROOT / "packaging/ray")
    cases = (("/nowhere/python3", fine, {}, "'/nowhere/python3' cannot be started; install Python with kinora-ray, or"),
             (program("ends", "exit 1"), fine, {}, "cannot be started"),
             (program("dies", "echo here; kill -9 $$"), fine, {}, "has no kinora-ray; pip install"),
             (python, wheel, {}, f"has no kinora-ray; pip install kinora-ray=={VERSION}, or set"),
             (python, f"{older}:{fine}", {}, f"has kinora-ray 0.0.9, and this is Kinora {VERSION}; install the same"),
             (python, f"{other}:{fine}", {}, f"has Kinora 0.0.9, and this is Kinora {VERSION}; install the same"),
             (python, half, {}, "has no Kinora (No module named 'kinora'); install the wheel"),
             (python, fine, {"KINORA_PREFIX": "/nowhere"}, "has no Kinora (/nowhere/lib/libkinora_embed.so"),
             (python, SITE, {}, "has no Ray; pip install 'ray>=2.49,<2.62', or set the option python"),
             (python, with_ray("2.48.9"), {}, "has Ray 2.48.9, and kinora-ray takes 2.49 to 2.61; pip install"),
             (python, with_ray("2.62.0"), {}, "has Ray 2.62.0, and kinora-ray takes 2.49 to 2.61; pip install"))
    for option, path, more, words in cases:
        code, said = answer(option, path, **more)
        first, *rest = said.splitlines()
        assert code == 2 and first.startswith("AT ") and words in first and len(rest) == 1, (words, code, said)


main()
