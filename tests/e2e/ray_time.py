"""Parts of ray.py that measure: two nodes against one, what a sample costs on its way to nodes and back, and the memory
of `kinora run` and its bridge. All take the module ray.py; the stage sleeps or does nothing (plugin `faulty`)."""
import os, pathlib, shutil, subprocess, threading, time


def inputs(test, n):
    folder = test.SCRATCH / f"inputs{n}"
    folder.mkdir(exist_ok=True)
    for i in range(n):
        (folder / f"v{i:06}.mp4").write_bytes(b"x")
    return folder


def sleeping(*milliseconds):
    return ", ".join(f'{{ use = "together", most = 1, ordered = 0, milliseconds = {n} }}' for n in milliseconds)


def with_plugin(test):
    """Before there is a cluster, whose processes inherit it."""
    test.ENV["KINORA_PLUGIN_PATH"] = str(test.BUILD / "tests/faulty/kinora/plugins")


def check_two(test):
    """Stages that sleep for a quarter of a second, on one node of a core and on two, in turns: samples a second from
    the first one that is stored to the last."""
    with_plugin(test)
    folder, address, ratios = inputs(test, 64), f"127.0.0.1:{test.PORT}", []

    def rate(name):
        test.run(test.run_file(name, test.ray(1, address=address), folder, "hash = false\n", sleeping(80, 120, 50)))
        files = (test.SCRATCH / name / "clips/data").glob("*.together")
        times = sorted(file.stat().st_mtime_ns for file in files)
        assert len(times) == 64, times
        return 63e9 / (times[-1] - times[0])

    for i in range(2):
        cluster = test.Cluster()
        try:
            cluster.head()
            one = rate(f"one-node{i}")
            cluster.node()
            two = rate(f"two-nodes{i}")
        finally:
            cluster.kill()
            shutil.rmtree(cluster.folder, ignore_errors=True)
        print(f"one node {one:.2f}, two {two:.2f} samples/s: {two / one:.2f} times", flush=True)
        ratios.append(two / one)
    assert max(ratios) >= 1.3, ratios  # 1.8 and more where no other program takes the cores


def own_prefix(test):
    """An installation with the plugin `faulty` among its own: others' have processes of their own, and no batches."""
    prefix = test.SCRATCH / "prefix"
    plugins = prefix / "lib/kinora/plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    (prefix / "bin").mkdir(exist_ok=True)
    shutil.copy(test.KINORA, prefix / "bin/kinora")
    for library in (test.BUILD / "lib").glob("*.so*"):
        shutil.copy(library, prefix / "lib")
    for plugin in (test.BUILD / "lib/kinora/plugins").iterdir():
        (plugins / plugin.name).symlink_to(plugin)
    shutil.copytree(test.BUILD / "tests/faulty/kinora/plugins/faulty", plugins / "faulty")
    return prefix


def processor_time(pids):
    """Seconds that these processes have used."""
    out = 0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            out += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return out / os.sysconf("SC_CLK_TCK")


def cost_of(test, prefix, name, engine, most, n):
    """Milliseconds a sample, by the clock and of processors, of the second half of n samples."""
    # Calls are full where samples come faster than they are taken.
    how = "cores = 0.5" if most == 1 else "cores = 1.0, milliseconds = 250"
    stage = f'{{ use = "together", most = {most}, ordered = 0, {how} }}'
    file = test.run_file(name, engine, inputs(test, n), "hash = false\n", stage)
    command = [str(prefix / "bin/kinora") if word == str(test.KINORA) else word for word in test.kinora("run", file)]
    process = subprocess.Popen(["sh", "-c", '"$@"; exit $?', "sh", *command], stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.STDOUT, env={**test.ENV, "KINORA_PREFIX": str(prefix)})
    data, seen = test.SCRATCH / name / "clips/data", []
    while process.poll() is None:
        done = sum(file.name.endswith(".together") for file in os.scandir(data)) if data.is_dir() else 0
        if n // 2 <= done < n:
            seen.append((done, time.monotonic(), processor_time(test.processes(process.pid))))
        time.sleep(0.1)
    test.ended(process)
    calls = [int(file.read_text()) for file in data.glob("*.together")]
    assert len(calls) == n and sum(calls) > n * most * 3 // 4, (len(calls), sum(calls))
    (first, *begin), (last, *end) = seen[0], seen[-1]
    shutil.rmtree(test.SCRATCH / name)
    return [(b - a) / (last - first) * 1e3 for a, b in zip(begin, end)]


def check_cost(test):
    """What engine/ray adds to samples that a stage passes on, alone and in sixteens, in turns with engine/local."""
    prefix = own_prefix(test)
    for most, bound in ((1, 10), (16, 4)):
        local, ray = (cost_of(test, prefix, name, engine, most, 3000)
                      for name, engine in (("cost-local", test.LOCAL), ("cost-ray", test.ray(1))))
        print(f"{most} a call: engine/local {local[0]:.2f} ms a sample, {local[1]:.2f} ms of processors; engine/ray "
              f"{ray[0]:.2f} and {ray[1]:.2f}", flush=True)
        assert ray[1] - local[1] < bound, (local, ray)


def most_memory(process, found):
    """The most resident bytes of `kinora run` and of its bridge, until the process ends, in found."""
    while process.poll() is None:
        for name, ends in (("run", str(found["file"])), ("bridge", "kinora_ray bridge")):
            for pid, line in found["processes"](process.pid).items():
                if line.rstrip().endswith(ends):
                    try:
                        status = pathlib.Path(f"/proc/{pid}/status").read_text()
                    except OSError:
                        continue
                    if "VmHWM:" in status:
                        found[name] = max(found[name], int(status.split("VmHWM:")[1].split()[0]) << 10)
        time.sleep(0.5)


def memory_of(test, n):
    name = f"inputs-{n}"
    file = test.run_file(name, test.ray(1), inputs(test, n), "hash = false\n", sleeping(0))
    process = subprocess.Popen(["sh", "-c", '"$@"; exit $?', "sh", *test.kinora("run", file)], env=test.ENV,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = {"file": file, "processes": test.processes, "run": 0, "bridge": 0}
    watch = threading.Thread(target=most_memory, args=(process, found))
    watch.start()
    test.ended(process)
    watch.join()
    print(f"{n} inputs: kinora run {found['run'] / 1e6:.1f} MB, its bridge {found['bridge'] / 1e6:.1f} MB", flush=True)
    shutil.rmtree(test.SCRATCH / name)
    return found["run"], found["bridge"]


def check_many(test):
    """The memory of `kinora run` and of the bridge does not grow with the number of inputs."""
    with_plugin(test)
    few, many = (memory_of(test, n) for n in (500, int(os.environ.get("KINORA_RAY_INPUTS", 4000))))
    assert max(many) < 200e6 and all(b - a < 16e6 for a, b in zip(few, many)), (few, many)
