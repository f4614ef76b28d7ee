"""Clips of a folder of films by engine/ray, Ray Data and Xenna with the same stages: each stage of the peers is an
actor that has Kinora's stage open by the Python module, so that only what is around the stages differs.
usage: bench_ray_peer.py KINORA BUILD ROOT SCRATCH FILMS [ROUNDS], with KINORA_RAY_PYTHON, a Python that has ray[data],
and KINORA_XENNA_PYTHON, one that has cosmos-xenna. Prints a line of JSON a run: clips a second between the tenth of
the clips and the last, and the most memory of all its processes (their shares of it, PSS).
       bench_ray_peer.py data|xenna FILMS OUT, the peers themselves."""
import hashlib, json, os, pathlib, pickle, shutil, subprocess, sys, tempfile, time

STAGES = ["video.probe", "shots.content", {"use": "clip.transcode", "min_length": 0.5, "min_frames": 1,
                                           "edge_crop": 0.0, "preset": "ultrafast", "max_height": 120}]
WORKERS = [1, 1, 2]  # of the peers' stages: as many as two cores keep busy
CORES = 2


class Step:
    """A stage of the peers: samples are pickled {"key": ..., "fields": {name: bytes}}."""

    def __init__(self, stage, out):
        import kinora

        self.kinora, self.out, self.stage = kinora, out, kinora.stage([stage], threads=1)

    def samples(self, packed):
        sample = pickle.loads(packed)
        kept = self.stage.process(self.kinora.Sample(sample["key"], sample["fields"])).kept
        for one in kept:
            if self.out:
                for name in one.fields():
                    pathlib.Path(self.out, f"{one.key.replace('/', '_')}.{name}").write_bytes(one[name])
        return [pickle.dumps({"key": one.key, "fields": {} if self.out else {name: one[name] for name in one.fields()}})
                for one in kept]


def inputs(films):
    return [pickle.dumps({"key": film.stem, "fields": {"url": str(film)}}) for film in sorted(films.iterdir())]


def places(out):
    return [None] * (len(STAGES) - 1) + [str(out)]


def by_data(films, out):
    import ray
    import ray.data

    class Rows(Step):
        def __call__(self, row):
            return [{"sample": sample} for sample in self.samples(row["sample"])]

    ray.init(num_cpus=CORES, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    given = inputs(films)
    data = ray.data.from_items([{"sample": sample} for sample in given], override_num_blocks=len(given))
    for stage, workers, place in zip(STAGES, WORKERS, places(out)):
        data = data.flat_map(Rows, fn_constructor_args=(stage, place), num_cpus=CORES / sum(WORKERS),
                             compute=ray.data.ActorPoolStrategy(size=workers))
    for _ in data.iter_batches(batch_size=None):
        pass


def by_xenna(films, out):
    import ray
    from cosmos_xenna.pipelines import v1

    class Tasks(v1.Stage):
        def __init__(self, stage, place):
            self.made_of = stage, place

        @property
        def required_resources(self):
            return v1.Resources(cpus=CORES / sum(WORKERS), gpus=0.0)

        def setup(self, worker_metadata):
            self.step = Step(*self.made_of)

        def process_data(self, in_data):
            return [sample for packed in in_data for sample in self.step.samples(packed)]

    # Xenna asks Ray's dashboard about actors, and would find those of other programs.
    os.environ.update(RAY_MAX_LIMIT_FROM_API_SERVER="40000", RAY_MAX_LIMIT_FROM_DATA_SOURCE="40000")
    ray.init(num_cpus=CORES, log_to_driver=False, _node_ip_address="127.0.0.1")
    os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
    stages = [v1.StageSpec(Tasks(stage, place), num_workers=workers)
              for stage, workers, place in zip(STAGES, WORKERS, places(out))]
    v1.run_pipeline(v1.PipelineSpec(inputs(films), stages, v1.PipelineConfig(cpu_allocation_percentage=1.0)))


def children(of):
    parents, out = {}, []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    for pid in parents:
        above = pid
        while above in parents and above != of:
            above = parents[above]
        if above == of:
            out.append(pid)
    return out


def share(pid):
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


def measured(name, command, env, folder):
    """Runs it, alone in a network of its own. Returns the facts for a line, and a digest of each clip."""
    alone = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"] if os.geteuid() == 0 else []
    with open(folder.parent / f"{name}.log", "w") as log:
        process = subprocess.Popen([*alone, *command], env={**os.environ, **env}, stdout=log, stderr=log)
    most, begin = 0, time.monotonic()
    while process.poll() is None:
        most = max(most, sum(map(share, children(process.pid))))
        time.sleep(0.5)
    assert process.returncode == 0, pathlib.Path(log.name).read_text()[-4000:]
    clips = sorted(folder.rglob("*.mp4"), key=lambda file: file.stat().st_mtime_ns)
    times = [file.stat().st_mtime_ns / 1e9 for file in clips]
    first = len(clips) // 10
    facts = {"by": name, "clips": len(clips), "rate": round((len(clips) - 1 - first) / (times[-1] - times[first]), 2),
             "memory_mb": round(most / 1e6), "seconds": round(time.monotonic() - begin, 1)}
    print(json.dumps(facts), flush=True)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in clips}


def compare(kinora, build, root, scratch, n, rounds, short):
    """short: a folder for Ray's sockets, whose paths are short."""
    shutil.rmtree(scratch, ignore_errors=True)
    films = scratch / "films"
    films.mkdir(parents=True)
    subprocess.run(["ffmpeg", "-v", "error", "-i", root / "tests/data/film.mp4", "-t", "8", "-vf", "scale=160:90",
                    "-preset", "veryfast", films / "film000.mp4"], check=True)
    for i in range(1, n):
        shutil.copy(films / "film000.mp4", films / f"film{i:03}.mp4")
    data, xenna = os.environ["KINORA_RAY_PYTHON"], os.environ.get("KINORA_XENNA_PYTHON")
    env = {"KINORA_PREFIX": str(build), "PYTHONPATH": f"{root / 'packaging/wheel'}:{root / 'packaging/ray'}",
           "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "HOME": str(scratch), "RAY_TMPDIR": short}
    for i in range(rounds):
        out = scratch / f"kinora{i}"
        (scratch / f"kinora{i}.toml").write_text(
            f'[run]\nout = "{out}"\n[[job]]\nname = "clips"\nkind = "curate"\nduplicates = "keep"\nhash = false\n'
            f'input = "{films}"\nstages = {json.dumps(STAGES).replace(": ", " = ")}\n'
            f'engine = {{ use = "ray", address = "local:1", python = "{data}" }}\n')
        clips = [measured("kinora", [kinora, "run", scratch / f"kinora{i}.toml"], env, out)]
        for name, python in (("data", data), ("xenna", xenna)):
            if python:
                out = scratch / f"{name}{i}"
                out.mkdir()
                clips.append(measured(name, [python, __file__, name, films, out], env, out))
        assert all(sorted(one.values()) == sorted(clips[0].values()) for one in clips), "the clips differ"


if sys.argv[1] in ("data", "xenna"):
    {"data": by_data, "xenna": by_xenna}[sys.argv[1]](*map(pathlib.Path, sys.argv[2:4]))
else:
    with tempfile.TemporaryDirectory(prefix="kr-") as short:
        compare(*(pathlib.Path(one).resolve() for one in sys.argv[1:5]), int(sys.argv[5]),
                int((sys.argv[6:] or [1])[0]), short)
