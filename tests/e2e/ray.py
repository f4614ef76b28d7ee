#!/usr/bin/env python3
"""engine/ray on real raylets of this machine: the outcomes and files of engine/local, one engine going on where the
other was killed, nodes that come and are drained, and kill -9 of a stage's process, of a raylet, of the bridge, of the
head and of the driver, also at random moments. What is kept is written by the nodes.
usage: ray.py KINORA BUILD ROOT SCRATCH [PART...]

Ray is that of `packaging/dev.sh ray`, or of the Python that KINORA_RAY_PYTHON names. KINORA_RAY_SEED repeats the
moments of an earlier run, which printed it."""
import hashlib, json, os, pathlib, random, re, shutil, signal, subprocess, sys, tempfile, time

KINORA, BUILD, ROOT, SCRATCH = (pathlib.Path(a).resolve() for a in sys.argv[1:5])
sys.path.append(str(ROOT / "tests/support"))
import ray_time
from skips import skip

PYTHON = pathlib.Path(os.environ.get("KINORA_RAY_PYTHON") or ROOT / ".deps/ray/bin/python3")
ENV = {**os.environ, "KINORA_PREFIX": str(BUILD), "PATH": f"{PYTHON.parent}:{os.environ['PATH']}",
       "PYTHONPATH": f"{ROOT / 'packaging/wheel'}:{ROOT / 'packaging/ray'}"}
# Ray looks for this machine's address: no network but loopback is the surest loopback.
ALONE = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"] if os.geteuid() == 0 else []
INSIDE = "KINORA_RAY_INSIDE" in os.environ  # this program is alone already, beside a cluster of its own
PORT = 6390
SEED = os.environ.setdefault("KINORA_RAY_SEED", str(random.randrange(10**6)))
STAGES = ('"video.probe", "shots.content", { use = "clip.transcode", min_length = 0.5, min_frames = 1, '
          'edge_crop = 0.0, preset = "ultrafast", max_height = 120 }')


def kinora(*arguments):
    return [*([] if INSIDE else ALONE), str(KINORA), *map(str, arguments)]


def run_file(name, engine, videos, more="", stages=STAGES):
    file = SCRATCH / f"{name}.toml"
    file.write_text(f'[run]\nname = "{name}"\nout = "{SCRATCH / name}"\n[[job]]\nname = "clips"\nkind = "curate"\n'
                    f'duplicates = "keep"\ninput = "{videos}"\nstages = [{stages}]\nengine = {engine}\n{more}')
    return file


def ray(nodes, **more):
    options = {"address": f"local:{nodes}", "python": str(PYTHON), **more}
    return '{ use = "ray", ' + ", ".join(f"{k} = {json.dumps(v)}" for k, v in options.items()) + " }"


LOCAL = '{ use = "local" }'


def run(file, code=0, **env):
    done = subprocess.run(kinora("run", file), env={**ENV, **env}, capture_output=True, text=True, timeout=240)
    said = done.stdout + done.stderr
    assert done.returncode == code, f"exit {done.returncode}, expected {code}\n{said[-4000:]}"
    return said


def results(name):
    """Every outcome, and a digest of every file."""
    folder = SCRATCH / name / "clips"
    items = sorted((folder / "items.jsonl").read_text().splitlines())
    keys = [json.loads(item)["key"] for item in items]
    assert len(keys) == len(set(keys)), "an outcome is there twice"
    return items, {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted((folder / "data").iterdir())}


def same(name, expected):
    items, files = results(name)
    assert items == expected[0], [pair for pair in zip(items, expected[0]) if pair[0] != pair[1]][:2]
    assert files == expected[1], set(files.items()) ^ set(expected[1].items())


def videos(n):
    """Copies of a small film, so that a run lasts some seconds; one is damaged."""
    folder = SCRATCH / f"videos{n}"
    folder.mkdir()
    small = folder / "film00.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-i", ROOT / "tests/data/film.mp4", "-t", "8", "-vf", "scale=160:90",
                    "-preset", "veryfast", "-movflags", "+faststart", small], check=True)
    for i in range(1, n):
        shutil.copy(small, folder / f"film{i:02}.mp4")
    (folder / "short.mp4").write_bytes(small.read_bytes()[:3000])
    return folder


def processes(of):
    """{pid: command line} of everything below a process."""
    parents, lines = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            lines[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (OSError, ValueError, IndexError):
            continue

    def is_below(pid):
        while pid and pid != of:
            pid = parents.get(pid, 0)
        return pid == of

    return {pid: lines[pid] for pid in lines if pid != of and is_below(pid)}


def begun(file, name, least):
    """A run that has told so many outcomes."""
    process = subprocess.Popen(kinora("run", file), env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True)
    live, end = SCRATCH / name / "clips/live.json", time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        try:
            if json.loads(live.read_text())["stages"][0]["in"] >= least:
                return process
        except (OSError, ValueError, KeyError, IndexError):
            pass
        time.sleep(0.05)
    raise AssertionError(f"the run did not begin: {process.poll()} {process.communicate(timeout=60)[0][-4000:]}")


def ended(process, code=0):
    said = process.communicate(timeout=240)[0]
    assert process.returncode == code, f"exit {process.returncode}, expected {code}\n{said[-4000:]}"
    return said


def check_equality(expected, folder):
    run(run_file("one", ray(1), folder))
    same("one", expected)


def check_deaths(expected, folder):
    """The process in which an actor has its stage, an actor, and a raylet, but not the first one."""
    process = begun(run_file("killed", ray(2, item_retries=3), folder, "memory = 1048576\n"), "killed", 2)
    found = processes(process.pid)
    stages = [pid for pid, line in found.items() if "ray::KinoraStage" in line]
    raylets = [pid for pid, line in found.items() if "/raylet/raylet" in line and "__internal_head__" not in line]
    workers = [pid for pid, line in found.items() if is_worker(line)]
    assert stages and workers and len(raylets) == 1, found
    os.kill(workers[-1], signal.SIGKILL)
    os.kill(stages[0], signal.SIGKILL)
    time.sleep(0.5)
    os.kill(raylets[0], signal.SIGKILL)
    said = ended(process)
    assert "was lost; what it worked on is done again elsewhere" in said, said[-4000:]
    same("killed", expected)


def is_worker(line):
    return line.rstrip().endswith(" worker")


# What dies in a round of its own: the process in which an actor has its stage, the actor, a raylet, the bridge, the
# driver, which another engine replaces.
DIE = {"worker": is_worker, "actor": lambda line: "ray::KinoraStage" in line,
       "raylet": lambda line: "/raylet/raylet" in line and "__internal_head__" not in line,
       "bridge": lambda line: line.rstrip().endswith("kinora_ray bridge"), "driver": None}


def kill_at_random(kind, expected, folder):
    """Of one of such processes, after a drawn number of outcomes of the first stage and a drawn time. Returns whether
    the run was still there."""
    draw, name = random.Random(f"{SEED} {kind}"), f"random-{kind}"
    process = begun(run_file(name, ray(2, item_retries=3), folder, "memory = 1048576\n"), name, draw.randint(1, 4))
    time.sleep(draw.uniform(0, 0.5))
    below = processes(process.pid)
    found = [pid for pid, line in sorted(below.items()) if DIE[kind](line)] if DIE[kind] else [process.pid]
    alive = process.poll() is None
    assert found or not alive, below
    if alive:
        try:
            os.kill(draw.choice(found), signal.SIGKILL)
        except ProcessLookupError:  # it has just ended
            alive = False
    if alive and kind == "driver":
        process.communicate(timeout=60)
        await_end(below)
        run(run_file(name, LOCAL, folder))
    else:
        ended(process)
    same(name, expected)
    return alive


def check_random(expected, folder):
    print(f"KINORA_RAY_SEED={SEED}", flush=True)
    alive = [kind for kind in DIE if kill_at_random(kind, expected, folder)]
    assert len(alive) >= 3, f"all other runs had ended before; longer films are needed: {alive}"


def check_memory():
    """Clips with frames of about 4 MiB before a slow stage, and a bound of 8 MiB a node: at most an emission of each
    worker is beyond it, and no store writes to disk."""
    folder, width, height, bound = SCRATCH / "large", 640, 360, 8 << 20
    folder.mkdir()
    subprocess.run(["ffmpeg", "-v", "error", "-i", ROOT / "tests/data/film.mp4", "-t", "12", "-vf",
                    f"scale={width}:{height}", "-preset", "veryfast", folder / "film0.mp4"], check=True)
    for i in range(1, 4):
        shutil.copy(folder / "film0.mp4", folder / f"film{i}.mp4")
    stages = ('"video.probe", "shots.content", { use = "clip.transcode", min_length = 0.5, min_frames = 1, '
              'edge_crop = 0.0, preset = "ultrafast", sample_fps = 1.5 }, "filter.flow"')
    for name, engine in (("memory-local", LOCAL), ("memory", ray(2))):
        said = run(run_file(name, engine, folder, f"memory = {bound}\n", stages))
    same("memory", results("memory-local"))
    assert "writes to disk" not in said, said[-4000:]
    facts = [json.loads(item)["facts"] for item in results("memory")[0]]
    frames = [len(fact["frames_at"]) * width * height * 3 for fact in facts if "frames_at" in fact]
    live = json.loads((SCRATCH / "memory/clips/live.json").read_text())
    workers = {stage["name"]: stage["limit"] for stage in live["stages"]}
    beyond = (workers["clip.transcode"] + workers["filter.flow"]) * (max(frames) + (1 << 20))
    assert sum(frames) > 4 * bound, sum(frames)
    # of the node, or of this machine, that had most
    assert max(frames) < live["memory"]["peak"] <= bound + beyond, (live["memory"], workers, max(frames))


def check_bridge(expected, folder, name, how, why, **options):
    """The bridge of nodes that end with it is killed, or stands still: the next one has others, and removes the folder
    of the first ones."""
    process = begun(run_file(name, ray(2, item_retries=0, **options), folder), name, 2)
    bridges = [pid for pid, line in processes(process.pid).items() if line.rstrip().endswith("kinora_ray bridge")]
    assert len(bridges) == 1, processes(process.pid)
    folders = set(re.findall(r"/\S*?/kinora-ray-\w+", " ".join(processes(process.pid).values())))
    assert len(folders) == 1 and all(map(os.path.isdir, folders)), folders
    os.kill(bridges[0], how)
    said = ended(process)
    assert said.count(f"the bridge to Ray {why}; all nodes with it") == 1, said[-4000:]
    assert said.count("there is a node again") == 1, said[-4000:]
    assert not any(map(os.path.exists, folders)), folders
    same(name, expected)


def check_store():
    """What is kept is written where it was made: not even the largest clip passes through this machine, unless the
    engine says so."""
    folder = SCRATCH / "noisy"
    folder.mkdir()
    subprocess.run(["ffmpeg", "-v", "error", "-i", ROOT / "tests/data/film.mp4", "-t", "6", "-vf",
                    "scale=256:144,noise=alls=20:allf=t", "-preset", "veryfast", folder / "film0.mp4"], check=True)
    for i in range(1, 3):
        shutil.copy(folder / "film0.mp4", folder / f"film{i}.mp4")
    stages = STAGES.replace("max_height = 120", "max_height = 144")
    for name, engine in (("stored-local", LOCAL), ("stored", ray(2)), ("stored-driver", ray(2, store="driver"))):
        said = run(run_file(name, engine, folder, stages=stages))
        same(name, results("stored-local"))
        assert "does not share the job's folder" not in said, said[-4000:]
        assert not (SCRATCH / name / "clips/work").exists()
        largest = max(file.stat().st_size for file in (SCRATCH / name / "clips/data").iterdir())
        peak = json.loads((SCRATCH / name / "clips/live.json").read_text())["memory"]["peak"]
        assert (peak < largest) == (name == "stored"), (name, peak, largest)


class Cluster:
    """Nodes that `ray start` has started, in the network of this program."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="kr-")  # paths of sockets are short
        self.env = {**ENV, "RAY_TMPDIR": self.folder, "RAY_USAGE_STATS_ENABLED": "0"}
        self.nodes = []

    def start(self, *arguments, hidden=""):
        """hidden: a folder in whose place the node has another one."""
        hides = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$1" && shift && exec "$@"', "sh", hidden]
        node = subprocess.Popen([*(hides if hidden else ()), PYTHON.parent / "ray", "start", *arguments, "--block",
                                 "--node-ip-address=127.0.0.1", "--num-cpus=0", '--resources={"kinora": 1}',
                                 "--object-store-memory=80000000"],
                                env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.nodes.append(node)
        said = []
        for line in node.stdout:
            said.append(line)
            if "Ray runtime started" in line:
                return
        raise AssertionError("".join(said)[-4000:])

    def head(self, **more):
        self.start("--head", f"--port={PORT}", "--include-dashboard=false", **more)

    def node(self):
        self.start(f"--address=127.0.0.1:{PORT}")

    def kill(self):
        """All of it at once, as with its machine."""
        found = {pid: line for node in self.nodes for pid, line in processes(node.pid).items()}
        for node in self.nodes:
            node.kill()
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for node in self.nodes:
            node.communicate(timeout=60)
        self.nodes.clear()

    def drain(self, seconds):
        """The node that is not the head, as before a preemption."""
        asked = ("import ray; ray.init(address='auto', logging_level='ERROR'); "
                 "print(*[n['NodeID'] for n in ray.nodes() if 'node:__internal_head__' not in n['Resources']])")
        name = subprocess.run([PYTHON, "-c", asked], env={**self.env, "RAY_ADDRESS": f"127.0.0.1:{PORT}"}, check=True,
                              capture_output=True, text=True, timeout=60).stdout.split()[-1]
        subprocess.run([PYTHON.parent / "ray", "drain-node", f"--address=127.0.0.1:{PORT}", f"--node-id={name}",
                        "--reason=DRAIN_NODE_REASON_PREEMPTION", "--reason-message=a test",
                        f"--deadline-remaining-seconds={seconds}"], env=self.env, check=True, capture_output=True,
                       timeout=60)


def beside_a_cluster(part):
    """The part, in a network that it shares with a cluster of its own."""
    def run_part():
        subprocess.run([*ALONE, sys.executable, *sys.argv[:5], part], env={**os.environ, "KINORA_RAY_INSIDE": "1"},
                       check=True, timeout=280)
    return run_part


def check_head(expected, folder):
    """The head dies, and a new one has its address: the same run goes on."""
    cluster = Cluster()
    try:
        cluster.head()
        file = run_file("head", ray(1, address=f"127.0.0.1:{PORT}", item_retries=0, cluster_wait=200), folder)
        draw = random.Random(f"{SEED} head")
        process = begun(file, "head", draw.randint(1, 2))
        time.sleep(draw.uniform(0, 0.3))
        cluster.kill()
        cluster.head()
        said = ended(process)
        assert "worked on is done again" in said and "there is a node again" in said, said[-4000:]
        same("head", expected)
    finally:
        cluster.kill()
        shutil.rmtree(cluster.folder, ignore_errors=True)


def check_nodes(expected, folder):
    """A node comes during the run, and is drained; the run stands still while Ray is slow."""
    cluster = Cluster()
    try:
        cluster.head()
        file = run_file("nodes", ray(1, address=f"127.0.0.1:{PORT}", item_retries=0), folder)
        process = begun(file, "nodes", 1)
        process.send_signal(signal.SIGSTOP)
        cluster.node()
        process.send_signal(signal.SIGCONT)
        end = time.monotonic() + 60
        while not any("ray::KinoraStage" in line for line in processes(cluster.nodes[1].pid).values()):
            assert process.poll() is None and time.monotonic() < end, "the node was not used"
            time.sleep(0.02)
        process.send_signal(signal.SIGSTOP)
        cluster.drain(6)
        process.send_signal(signal.SIGCONT)
        said = ended(process)
        assert "leaves; nothing begins there any more" in said, said[-4000:]
        same("nodes", expected)
    finally:
        cluster.kill()
        shutil.rmtree(cluster.folder, ignore_errors=True)


# Has a node's cores until its input ends.
HOLDER = """
import ray, sys
ray.init(address=sys.argv[1], logging_level="ERROR")
actor = ray.remote(type("Holder", (), {"here": lambda self: 0})).options(num_cpus=0, resources={"kinora": 1}).remote()
ray.get(actor.here.remote())
print("held", flush=True)
sys.stdin.read()
"""


def check_busy(expected, folder):
    """A node whose cores another program has when the run begins is used when that has ended."""
    cluster = Cluster()
    holder = None
    try:
        cluster.head()
        address = f"127.0.0.1:{PORT}"
        holder = subprocess.Popen([PYTHON, "-c", HOLDER, address], env=cluster.env, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        assert "held" in holder.stdout.readline()
        process = subprocess.Popen(kinora("run", run_file("busy", ray(1, address=address), folder)), env=ENV,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = ""
        while "it has no free core" not in said:
            said += (line := process.stdout.readline())
            assert line, said[-4000:]
        holder.communicate("", timeout=60)
        ended(process)
        same("busy", expected)
    finally:
        if holder:
            holder.kill()
        cluster.kill()
        shutil.rmtree(cluster.folder, ignore_errors=True)


def check_foreign(expected, folder):
    """A node that has another disk in the place of the job's folder: what is kept there comes to this machine."""
    cluster = Cluster()
    hidden = SCRATCH / "foreign"
    hidden.mkdir()
    try:
        cluster.head(hidden=hidden)
        said = run(run_file("foreign", ray(1, address=f"127.0.0.1:{PORT}"), folder))
        assert said.count("does not share the job's folder with this machine") == 1, said[-4000:]
        same("foreign", expected)
    finally:
        cluster.kill()
        shutil.rmtree(cluster.folder, ignore_errors=True)


def check_driver(expected, folder):
    """The driver dies; nothing of it stays, and the other engine goes on."""
    file = run_file("driver", ray(1), folder)
    process = begun(file, "driver", 3)
    left = list(processes(process.pid))
    process.kill()
    process.communicate(timeout=60)
    await_end(left)
    run(run_file("driver", LOCAL, folder))
    same("driver", expected)


def await_end(pids):
    end = time.monotonic() + 40
    while (alive := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < end:
        time.sleep(0.2)
    assert not alive, alive


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def check_version():
    said = subprocess.run([KINORA, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    project = (ROOT / "packaging/ray/pyproject.toml").read_text()
    assert f'version = "{said}"' in project and f'"kinora=={said}"' in project, said
    assert f'__version__ = "{said}"' in (ROOT / "packaging/ray/kinora_ray/__init__.py").read_text(), said


# A cluster at an address; each `kinora run FILE` there, with the token that it is given, and their exit codes.
HEAD = """
import os, subprocess, sys, tempfile
with tempfile.TemporaryDirectory(prefix="ray-") as folder:
    os.mkdir(f"{folder}/ray")
    os.environ["RAY_TMPDIR"] = folder
    from ray.cluster_utils import Cluster
    cluster = Cluster(initialize_head=True, head_node_args={
        "num_cpus": 0, "resources": {"kinora": 1}, "include_dashboard": False, "node_ip_address": sys.argv[1],
        "temp_dir": f"{folder}/ray", "object_store_memory": 80 << 20})
    for file in sys.argv[4:]:
        code = subprocess.call([sys.argv[3], "run", file, "--set", f"clips.engine.address={cluster.address}"],
                               env={**os.environ, "RAY_AUTH_TOKEN": sys.argv[2],
                                    **({"RAY_AUTH_MODE": "token"} if sys.argv[2] else {})})
        print("exit", code, flush=True)
    cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
"""


def at(address, token, *files, **env):
    """What each run says, and its exit code, on a cluster at this address."""
    alone = [*ALONE[:4], f"ip addr add {address}/32 dev lo; {ALONE[4]}", *ALONE[5:]] if ALONE else []
    done = subprocess.run([*alone, PYTHON, "-c", HEAD, address, token, KINORA, *files], env={**ENV, **env}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
    assert done.returncode == 0 and done.stdout.count("exit ") == len(files), done.stdout[-4000:]
    return done.stdout.split("exit ")


def check_token(folder):
    """A wrong token, and none where others could reach the cluster."""
    said = at("127.0.0.1", "b" * 64, run_file("token", ray(1), folder), RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="a" * 64)
    assert "refuses this process" in said[0] and "give it the cluster's token" in said[0] and said[1] == "1\n", said
    if not ALONE:
        return skip("ray: a cluster without a token", "only root can give loopback an address")
    nowhere = dict(where=["pool=none"], cluster_wait=15)
    said = at("10.9.8.7", "", run_file("open", ray(1), folder), run_file("insecure", ray(1, insecure=True, **nowhere),
                                                                        folder), RAY_AUTH_MODE="disabled")
    assert "the cluster at 10.9.8.7 takes work from whoever reaches its ports; give all" in said[0], said
    assert said[1].startswith("1\n") and "that `where` names labels" in said[1] and said[2] == "1\n", said
    said = at("10.9.8.7", "b" * 64, run_file("pretence", ray(1, cluster_wait=30), folder), RAY_AUTH_MODE="disabled")
    # Where its processes do not already end because their client speaks of a token.
    assert "node 10.9.8.7 is not used: " in said[0] and said[1] == "1\n", said


def check_refusals(folder):
    """One line with a remedy each."""
    for name, engine, words in (
            ("nobody", ray(1, address="127.0.0.1:1", cluster_wait=60), "no Ray cluster at '127.0.0.1:1'"),
            ("named", ray(1, address="auto", cluster_wait=60), "no Ray cluster at '127.0.0.1:2'"),
            ("label", ray(1, where=["pool=none"], cluster_wait=15), "that `where` names labels that they have")):
        said = run(run_file(name, engine, folder), code=1, RAY_ADDRESS="127.0.0.1:2")
        assert words in said, (name, said[-2000:])
    for name, engine, words in (("address", ray(1, address="local:0"), "expected auto, HOST:PORT"),
                                ("scheme", ray(1, address="ray://head:10001"), "head without ray:// or http://"),
                                ("page", ray(1, address="http://head:8265"), "head without ray:// or http://"),
                                ("no_label", ray(1, where=["pool"]), "LABEL=VALUE")):
        file = run_file(name, engine, folder)
        done = subprocess.run([KINORA, "check", file], env=ENV, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and f"{file}:10:" in done.stderr and words in done.stderr, (name, done.stderr)


def check_two(expected, folder):
    ray_time.check_two(sys.modules[__name__])


def main():
    if INSIDE:
        part = {"busy": check_busy, "foreign": check_foreign, "head": check_head, "nodes": check_nodes,
                "two": check_two}[sys.argv[5]]
        return part(results("local"), SCRATCH / "videos24")
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    check_version()
    if subprocess.run([PYTHON, "-c", "import ray"], capture_output=True).returncode if PYTHON.exists() else True:
        return skip("ray", f"Ray is not installed in {PYTHON}; packaging/dev.sh ray installs it")
    folder = videos(24)
    run(run_file("local", LOCAL, folder))
    expected = results("local")
    assert len(expected[1]) > 10, expected[1]
    parts = {"equality": lambda: check_equality(expected, folder), "deaths": lambda: check_deaths(expected, folder),
             "random": lambda: check_random(expected, folder),
             "bridge": lambda: check_bridge(expected, folder, "bridge", signal.SIGKILL, "has ended"),
             "still": lambda: check_bridge(expected, folder, "still", signal.SIGSTOP, "stands still", item_timeout=60),
             "head": beside_a_cluster("head"),
             "nodes": beside_a_cluster("nodes"), "busy": beside_a_cluster("busy"),
             "driver": lambda: check_driver(expected, folder), "refusals": lambda: check_refusals(folder),
             "two": beside_a_cluster("two"), "many": lambda: ray_time.check_many(sys.modules[__name__]),
             "cost": lambda: ray_time.check_cost(sys.modules[__name__]),
             "memory": check_memory, "store": check_store, "token": lambda: check_token(folder)}
    if ALONE:
        parts["foreign"] = beside_a_cluster("foreign")
    for name in sys.argv[5:] or parts:
        begin = time.monotonic()
        parts[name]()
        print(f"ok {name} {time.monotonic() - begin:.1f} s", flush=True)


main()
