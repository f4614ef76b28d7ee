#!/usr/bin/env python3
"""`kinora check` tells what the Python of engine/ray lacks, each in one line with its place and a remedy, and connects
to nothing. Ray is not needed: only its version is read. The files of packaging/ray for clusters name what there is.
usage: ray_python.py KINORA BUILD ROOT SCRATCH"""
import asyncio, contextlib, itertools, os, pathlib, re, shutil, signal, subprocess, sys, tempfile, threading, time
import types

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
    cluster, policy = yaml.safe_load_all(text)
    [within] = policy["spec"]["ingress"]
    of_cluster = {"matchLabels": {"ray.io/cluster": cluster["metadata"]["name"]}}
    assert policy["spec"]["podSelector"] == within["from"][0]["podSelector"] == of_cluster, policy
    assert cluster["kind"] == "RayCluster" and f"ray.io/cluster={cluster['metadata']['name']}," in text, text
    tested = re.search(r"ray==(\S+)", (ROOT / "packaging/dev.sh").read_text())[1]
    assert cluster["spec"]["rayVersion"] == tested, tested
    made = re.search(r"create secret generic (\S+) --from-file=(\w+)=/dev/stdin", text).groups()
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


def check_slurm_memory():
    """ray.sbatch gives Ray the memory that Slurm grants, by node or by core; without a limit all of the node."""
    [line] = re.findall(r"(?m)^memory=.*$", (ROOT / "packaging/slurm/ray.sbatch").read_text())
    for granted, expected in (({}, 0), ({"SLURM_MEM_PER_NODE": "100"}, 100), ({"SLURM_MEM_PER_NODE": "0"}, 0),
                              ({"SLURM_MEM_PER_CPU": "10", "SLURM_CPUS_PER_TASK": "4"}, 40),
                              ({"SLURM_MEM_PER_NODE": "", "SLURM_MEM_PER_CPU": ""}, 0)):
        said = subprocess.run(["bash", "-euc", f"{line}; echo $memory"], env={"PATH": os.environ["PATH"], **granted},
                              capture_output=True, text=True, check=True, timeout=60).stdout
        assert int(said) == expected << 20, (granted, said)


def check_difference():
    """What is said of a node whose Kinora or plugins are others."""
    sys.path[:0] = SITE.split(":")
    from kinora_ray.bridge import _difference
    mine = {"version": "1", "abi": "7", "plugins": {"cut": "aa", "probe": "bb"}}
    said = [_difference(mine, {**mine, **theirs})
            for theirs in ({}, {"version": "2"}, {"abi": "8"}, {"plugins": {"cut": "aa", "probe": "cc", "new": "dd"}})]
    assert said == ["", "its Kinora has version 2, and this one 1", "its Kinora has abi 8, and this one 7",
                    "its plugins differ: new, probe"], said


def check_local_folder():
    """Ray's sockets in it have short paths, whatever TMPDIR is."""
    made = "import shutil; from kinora_ray._local import Local; at = Local().folder; shutil.rmtree(at); print(at)"
    for length, is_there in ((16, True), (17, False)):
        place = tempfile.mkdtemp(prefix="/tmp/", suffix="x" * (length - len("/tmp/") - 8))
        try:
            said = subprocess.run([sys.executable, "-c", made], check=True, capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "PYTHONPATH": SITE, "TMPDIR": place}).stdout
            assert len(place) == length and said.startswith(f"{place}/kinora-ray-" if is_there else "/tmp/kinora-ray-")
        finally:
            os.rmdir(place)


def write_on(folder, seconds):
    """As processes that live a moment longer than the one that started them."""
    end, names = time.monotonic() + seconds, itertools.count()
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            (folder / f"{next(names)}").mkdir()


def check_sweep():
    """The next start removes the folder of a process that was killed, also while others write there, and no other."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="/tmp/", suffix="x"))
    (place / "kinora-ray-other").mkdir()
    (place / "another").mkdir()
    env = {**os.environ, "PYTHONPATH": SITE, "TMPDIR": str(place)}
    begins = [sys.executable, "-c", "import sys; from kinora_ray._local import Local; local = Local(); "
              "print(local.folder, flush=True); sys.stdin.read()"]
    processes, folders, pipe = [], [], subprocess.PIPE
    try:
        for _ in range(3):
            processes.append(subprocess.Popen(begins, env=env, stdin=pipe, stdout=pipe, text=True))
            folders.append(pathlib.Path(processes[-1].stdout.readline().strip()))
            assert folders[-1].parent == place and folders[0].is_dir() == (len(folders) < 3), folders
            if len(folders) == 2:
                processes[0].kill()
                processes[0].wait()
                threading.Thread(target=write_on, args=(folders[0] / "ray", 1)).start()
                log = f"{folders[0]}/ray/log"
                others = [subprocess.Popen([*words, log], stdin=pipe, stderr=subprocess.DEVNULL)
                          for words in ([sys.executable, "-c", "import time; time.sleep(60)"],
                                        ["tail", "-f", "/dev/null"])]
                processes += others
        assert others[0].wait(timeout=30) == -signal.SIGKILL, "a process of Ray ends"
        assert others[1].poll() is None, "a reader of its log does not"
        assert {one.name for one in place.iterdir()} == {"kinora-ray-other", "another", folders[1].name,
                                                         folders[2].name}, folders
    finally:
        for process in processes:
            process.kill()
            process.communicate()
        shutil.rmtree(place)


def check_last_words():
    """Ray's reason of an actor's end is below its names."""
    from kinora_ray.bridge import Bridge
    said = ("The actor died unexpectedly.\n\tclass_name: KinoraStage\n\tpid: 5\nThe node runs low on memory.\n"
            "1.9 of 2 GB")
    assert [Bridge(None).last_words(Exception(one)) for one in (said, "It is gone.", "")] == [
        "The node runs low on memory. 1.9 of 2 GB", "It is gone.", "Exception"]


def check_memory():
    """A node's memory is that of its container."""
    from kinora_ray._stage import _memory
    shutil.rmtree(SCRATCH, ignore_errors=True)
    written("proc/self/cgroup", "5:cpu:/c\n4:pids,memory:/d/e\n0::/a\n")
    machine = _memory("/nowhere")
    assert _memory(SCRATCH) == machine > 1 << 24
    written("sys/fs/cgroup/a/memory.max", "max\n")
    written("sys/fs/cgroup/memory.max", "8192\n")
    assert _memory(SCRATCH) == 8192
    written("sys/fs/cgroup/memory/d/memory.limit_in_bytes", "4096\n")
    assert _memory(SCRATCH) == 4096


def told_of(node, free):
    """What a bridge asks of Ray for the actor that keeps this node, and its letter about it."""
    from kinora_ray.bridge import Bridge
    about = {"fingerprint": {"version": "1", "abi": "7", "plugins": {}}, "gpus": ["0", "1"], "memory": 5,
             "token": True}
    asked, letters = {}, []
    bridge = Bridge(types.SimpleNamespace(send=lambda head, packed, beside: letters.append(head)))
    bridge.on, bridge.fingerprint, bridge.wants_token = lambda node: {}, about["fingerprint"], False
    space = types.SimpleNamespace
    keeper = space(about=space(remote=lambda: asyncio.sleep(0, about)))
    bridge.ray = space(remote=lambda kind: space(options=lambda **options: asked.update(options) or space(
        remote=lambda: keeper)))
    asyncio.run(bridge.keep({"NodeID": "n", "NodeManagerAddress": "10.0.0.5", **node}, free))
    [letter] = letters
    return asked, letter


# Starts a stage, which starts another process, and an idle worker; each holds so many MiB.
HOLDERS = """
import subprocess, sys
holds = "held = bytearray({} << 20); print('here', flush=True); input()"
starts = f"import subprocess; subprocess.Popen([{sys.executable!r}, '-c', {{!r}}]); "
for name, code in (("ray::KinoraStage.rest", starts.format(holds.format(240)) + holds.format(120)),
                   ("ray::IDLE", holds.format(480))):
    subprocess.Popen([name, "-c", code], executable=sys.executable)
input()
"""


def check_bound():
    """The largest process of a node's stages is found when all of them together hold too much."""
    from kinora_ray._processes import below, largest, table
    pipe = subprocess.PIPE
    holders = subprocess.Popen([sys.executable, "-c", HOLDERS], stdin=pipe, stdout=pipe, text=True)
    try:
        assert [holders.stdout.readline() for _ in range(3)] == ["here\n"] * 3
        pid, bytes_, all_ = largest(holders.pid, "ray::KinoraStage", 300 << 20)
        assert 240 << 20 < bytes_ < 300 << 20 and 360 << 20 < all_ < 460 << 20, (bytes_, all_)
        assert table()[table()[pid][0]][0] == holders.pid and len(below({holders.pid}, table())) == 4
        assert largest(holders.pid, "ray::KinoraStage", 500 << 20) is None
    finally:
        for pid in below({holders.pid}, table()):
            os.kill(pid, signal.SIGKILL)
        holders.communicate()


def check_coders():
    """An operator's count of decoders comes before that of the model, and the job takes what is free of them."""
    labels, has = {"ray.io/accelerator-type": "H200"}, {"CPU": 8.0, "GPU": 2.0, "object_store_memory": 1e9}
    asked, letter = told_of({"Labels": labels, "Resources": has}, {"CPU": 6.0, "GPU": 2.0})
    assert asked == {"num_cpus": 6, "num_gpus": 2, "resources": {}}, asked
    assert letter["model"] == "H200" and letter["gpus"] == 2.0 and "nvdec" not in letter, letter
    asked, letter = told_of({"Labels": {}, "Resources": {**has, "kinora": 4.0, "NVDEC": 7.0, "NVENC": 3.0}},
                            {"CPU": 6.0, "kinora": 4.0, "NVDEC": 5.0})
    assert asked == {"num_cpus": 0, "num_gpus": 0, "resources": {"kinora": 4, "NVDEC": 5.0}}, asked
    assert (letter["model"], letter["cores"], letter["nvdec"], letter["nvenc"]) == ("", 4.0, 5.0, 0.0), letter


def check_device():
    """A stage sees its own GPUs of the node; one that has none of its own sees them all."""
    for devices, seen in (([1], "5"), ([], "3,5")):
        spec = {"id": "stage/video.probe", "options": "{}", "out": "", "seed": 0, "cores": 2, "gpus": ["3", "5"],
                "devices": devices}
        opens = f"import os; from kinora_ray._stage import KinoraStage; KinoraStage().open({spec})"
        said = subprocess.run([sys.executable, "-c", f"{opens}; print(os.environ['CUDA_VISIBLE_DEVICES'])"],
                              check=True, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PYTHONPATH": SITE}).stdout
        assert said == f"{seen}\n", said


def check_pieces():
    """What a stage passes on keeps the number by which the bridge knows it; what it makes has none."""
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


def check_letters():
    """Small letters of a call travel together, at most 16; one with pieces comes alone or last, and after it the stage
    waits; a stage that is asked to stop does not wait."""
    from kinora_ray._stage import _Call
    small, large = (types.SimpleNamespace(head=b"h" * 100, pieces=pieces) for pieces in ([], [b"p"]))
    call = _Call(types.SimpleNamespace(cancel=lambda: None), "stage/s", "finish", [], {}, [], "")

    def tell():
        for i in range(20):
            call._put(f"small{i}", {}, small)
        call._put("large", {}, large)
        call._put("after", {}, small)
        call._put("last", {}, large)
        call._put("done", {}, None)

    stage = threading.Thread(target=tell)
    stage.start()

    def names(whole=True):
        return [what for what, _, _ in call.letters(60, whole)]

    def wait_for(n):
        end = time.monotonic() + 60
        while len(call.told) < n and time.monotonic() < end:
            time.sleep(0.01)

    wait_for(16)
    assert names() == [f"small{i}" for i in range(16)]
    got = []
    while "large" not in got:
        got += names()
    assert got == [*(f"small{i}" for i in range(16, 20)), "large"] and not call.told, got
    assert names(False) == ["after"]
    wait_for(1)
    call.cancel()
    stage.join(60)
    assert not stage.is_alive() and names() == ["last"] and names() == ["done"]


def check_local_start():
    """A node that does not start ends the job with a remedy, and leaves no process."""
    written("fake/ray/__init__.py", "")
    written("fake/ray/cluster_utils.py", """import subprocess


class Cluster:
    head_node, worker_nodes = None, set()

    def add_node(self, **options):
        self.begun = subprocess.Popen(["sleep", "1000"])
        raise Exception("the raylet\\nis late")
""")
    sys.path.insert(0, str(SCRATCH / "fake"))
    from kinora_ray import _local, bridge
    before = dict(os.environ)
    local = _local.Local()
    try:
        local.start(2)
        raise AssertionError("no node was refused")
    except bridge.Unusable as error:
        assert re.fullmatch(r"Ray's nodes did not start in 0 s; this machine is busy: run again, or take engine = "
                            r'"local" \(the raylet is late\)', str(error)), error
    finally:
        local.stop()
        os.environ.clear()
        os.environ.update(before)
    assert local.cluster.begun.wait(timeout=30) == -9 and not pathlib.Path(local.folder).exists()


def main():
    os.environ["KINORA_PREFIX"] = str(BUILD)  # kinora looks for it once
    check_files()
    check_slurm_memory()
    check_difference()
    check_local_folder()
    check_sweep()
    check_last_words()
    check_memory()
    check_bound()
    check_coders()
    check_device()
    check_pieces()
    check_letters()
    shutil.rmtree(SCRATCH, ignore_errors=True)
    check_local_start()
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
             (program("dies", "echo here; kill -9 $$"), fine, {}, "has no kinora-ray; install the wheel"),
             (python, wheel, {}, "has no kinora-ray; install the wheel kinora-ray of this release, or set"),
             (python, f"{older}:{fine}", {}, f"has kinora-ray 0.0.9, and this is Kinora {VERSION}; install the same"),
             (python, f"{other}:{fine}", {}, f"has Kinora 0.0.9, and this is Kinora {VERSION}; install the same"),
             (python, half, {}, "has no Kinora (No module named 'kinora'); install the wheel"),
             (python, fine, {"KINORA_PREFIX": "/nowhere"}, "has no Kinora (/nowhere/lib/libkinora_embed.so"),
             (python, SITE, {}, "has no Ray; pip install 'ray>=2.49,<2.62', or set the option python"),
             (python, with_ray("2.48.9"), {}, "has Ray 2.48.9, and kinora-ray takes 2.49 to 2.61; pip install"),
             (python, with_ray("2.62.0"), {}, "has Ray 2.62.0, and kinora-ray takes 2.49 to 2.61; pip install"))
    for address in ("ray://head:10001", "http://head:8265", "head", "local:65"):
        code, said = answer(f'{python}", address = "{address}', fine)
        words = "expected auto, HOST:PORT of a cluster's head without ray:// or http://, or local:N"
        assert code == 2 and words in said, (address, code, said)
    for option, path, more, words in cases:
        code, said = answer(option, path, **more)
        first, *rest = said.splitlines()
        assert code == 2 and first.startswith("AT ") and words in first and len(rest) == 1, (words, code, said)


main()
