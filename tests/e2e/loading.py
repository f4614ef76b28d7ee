#!/usr/bin/env python3
"""Training from a table of data: the order of its samples by `kinora data order`, resumed at other numbers of ranks;
subsets, joined fields and shards of MDS, also through kinora.load; and a training that decodes and encodes as it goes,
killed, on two ranks, with a damaged clip, and from a storage through a cache.
usage: loading.py KINORA ROOT SCRATCH"""
import contextlib, hashlib, io, itertools, json, os, pathlib, random, shutil, signal, struct, subprocess, sys
import tarfile, time

import cv2
import numpy as np
import safetensors.numpy

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path += [str(ROOT / "tests/support"), str(ROOT / "packaging/wheel")]
os.environ["KINORA_PREFIX"] = str(pathlib.Path(KINORA).resolve().parents[1])
os.environ.setdefault("KINORA_TORCH", str(ROOT / ".deps/torch/torch"))
import kinora
import quick, s3_server
from faulty_proxy import Proxy

SETS = {"a": [10, 10, 10], "b": [10], "c": [7, 1, 12]}  # samples of each shard
BLEND = '{ blend = [{ path = "a", weight = 3 }, { blend = [{ path = "b" }, { path = "c" }] }], shuffle = 4 }'


def run(*command, code=0, env=None):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == code, f"{command}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def write_sets():
    for name, shards in SETS.items():
        (SCRATCH / name).mkdir()
        for number, count in enumerate(shards):
            with tarfile.open(SCRATCH / name / f"s-{number}.tar", "w") as tar:
                for i in range(count):
                    member = tarfile.TarInfo(f"{name}{number}-{i}.txt")
                    member.size = 3
                    tar.addfile(member, io.BytesIO(b"sea"))


def order_file(name, table, more=""):
    """A run file whose job reads the table; nothing of the job runs."""
    (SCRATCH / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nsea\n")
    file = SCRATCH / f"{name}.toml"
    file.write_text(
        f'[run]\nseed = 3\n{more}[[job]]\nname = "latents"\nkind = "encode"\ninput = {table}\ntokenizer = {{ use = '
        f'"cosmos" }}\n'
                    'tokenizer_weights = "vocab.txt"\ntext_weights = "vocab.txt"\nwords = { use = "text.wordpiece", '
                    'vocab = "vocab.txt" }\ntext = { use = "minilm" }\n')
    return file


def order(file, ranks, steps, *more, batch=8, code=0):
    said = run(KINORA, "data", "order", file, "latents", "--ranks", ranks, "--steps", steps, "--batch", batch, "--json",
               *more, code=code)
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")] if code == 0 else said


def by_slot(lines):
    """The keys in the order of the slots: each step's ranks one after the other."""
    return [key for line in lines for key in line["keys"]]


def check_order():
    """Each epoch has each sample once; any number of ranks takes the same samples at the same step."""
    one = by_slot(order(order_file("one", '{ path = "a", shuffle = 4 }'), 1, 9, batch=10))
    every = sorted(f"a{shard}-{i}" for shard in range(3) for i in range(10))
    epochs = [one[at:at + 30] for at in (0, 30, 60)]
    assert [sorted(epoch) for epoch in epochs] == [every] * 3 and len({tuple(epoch) for epoch in epochs}) == 3
    file = order_file("blend", BLEND)
    lines = {ranks: order(file, ranks, 128) for ranks in (1, 2, 4, 8)}
    assert [(line["step"], line["rank"])
            for line in lines[2]] == [(step, rank) for step in range(1, 129) for rank in range(2)]
    assert all(by_slot(of) == by_slot(lines[1]) for of in lines.values())
    first = by_slot(lines[1])[:1024]
    shares = [sum(key[0] == name for key in first) for name in "abc"]
    # the inner blend has 256 slots of its first 1,024
    assert abs(shares[0] - 768) <= 2 and abs(shares[1] - 128) <= 30, shares
    return file, by_slot(lines[1])


def check_resume(file, whole):
    """Random save points and numbers of ranks give the order of an uninterrupted run."""
    draw, state, taken = random.Random(1), SCRATCH / "at.json", []
    while len(taken) < 500:
        ranks, steps = draw.choice((1, 2, 4, 8)), draw.randint(1, 9)
        taken += by_slot(order(file, ranks, steps, "--save-state", state, *(("--state", state) if taken else ())))
        assert state.stat().st_size < 200
    assert taken == whole[:len(taken)]
    said = order(order_file("other", BLEND.replace("shuffle = 4", "shuffle = 5")), 1, 1, "--state", state, code=2)
    assert "the position is of other data" in said, said
    said = order(file, 3, 1, code=2)
    assert "batch = 8 must be a multiple of accumulate (1) times --ranks (3)" in said, said
    for steps in (-1, 0):
        assert f"--steps {steps}: must be at least 1" in order(file, 1, steps, code=2)
    for batch in (1_000_001, 99999999999999):
        assert f"batch = {batch}: must be at most 1000000 samples" in order(file, 1, 1, batch=batch, code=2)
    assert "must be a multiple" in order(file, 2**62, 1, code=2)
    said = order(order_file("plain", '"a"'), 1, 1, code=2)
    assert "neither job 'latents' nor one that it reads has a table of data" in said, said


def write_tar(path, files):
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def write_mds(folder, samples):
    """A shard of [(key, facts, text)] in the MDS format, as MosaicML Streaming's writer lays it out, and its index."""
    rows = []
    for values in samples:
        encoded = [value.encode() for value in values]
        rows.append(struct.pack("<3I", *map(len, encoded)) + b"".join(encoded))
    columns = {"column_names": ["__key__", "json", "txt"], "column_encodings": ["str", "json", "str"],
               "column_sizes": [None] * 3}
    config = json.dumps(columns).encode()
    ends = list(itertools.accumulate(map(len, rows), initial=4 * (len(rows) + 2) + len(config)))
    data = struct.pack(f"<{len(rows) + 2}I", len(rows), *ends) + config + b"".join(rows)
    folder.mkdir()
    (folder / "shard.00000.mds").write_bytes(data)
    shard = {"version": 2, "format": "mds", "compression": None, "samples": len(rows),
             "raw_data": {"basename": "shard.00000.mds", "bytes": len(data)}, **columns}
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": [shard]}))


def check_subsets():
    """`where`, `part` and `join` give what a filter in Python gives, to kinora.load and to kinora data order, from tar
    files and from MDS."""
    clips = [(f"clip-{i:02}", {"duration_s": i % 7, "scores": {"filter.blur": i}}) for i in range(60)]
    for number in range(3):
        write_tar(SCRATCH / f"clips/s-{number}.tar",
                  [(f"{key}.{field}", data) for key, facts in clips[20 * number:20 * number + 20]
                                                      for field, data in (
                                                          ("txt", b"own"), ("json", json.dumps(facts).encode()))])
    write_tar(SCRATCH / "captions/s-0.tar",
              [(f"{key}.txt", f"caption of {key}".encode()) for key, _ in reversed(clips)])
    write_mds(SCRATCH / "mds", [(key, json.dumps(facts), "own") for key, facts in clips])
    share = lambda key: int(hashlib.sha256(key.encode()).hexdigest()[:13], 16) / 2**52
    expected = [key
                for key, facts in clips
                if facts["scores"]["filter.blur"] >= 20 and facts["duration_s"] > 2 and share(key) < 0.8]
    assert 5 < len(expected) < 40, expected
    table = {"where": "scores.filter.blur >= 20 and duration_s > 2", "part": [0.0, 0.8]}
    with kinora.load({"path": SCRATCH / "clips", "join": [{"path": SCRATCH / "captions", "fields": ["txt"]}], **table},
                     1) as loader:
        assert len(loader) == len(expected)
        taken = [batch[0] for batch in itertools.islice(loader, 2 * len(expected))]
    assert [sample.key for sample in taken] == 2 * expected
    assert all(sample["txt"].decode() == f"caption of {sample.key}" for sample in taken)
    where = f'where = "{table["where"]}", part = [0.0, 0.8]'
    for name, path in (("tars", "clips"), ("mds", "mds"), ("mds_uri", f"file://{SCRATCH.resolve()}/mds")):
        lines = order(
            order_file(name, f'{{ path = "{path}", {where}, join = {{ path = "captions", fields = ["txt"] }} }}'), 1,
            len(expected), batch=2)
        assert by_slot(lines) == 2 * expected, (name, by_slot(lines), expected)
    said = order(order_file("none", '{ path = "clips", where = "motion >= 20" }'), 1, 1, code=2)
    assert ("no sample is left of 60" in said
            and "has no fact 'motion' (its facts: duration_s, scores.filter.blur)" in said), said
    said = order(order_file("wrong", '{ path = "clips", where = "duration_s > " }'), 1, 1, code=2)
    assert "where: column 14: expected a number" in said, said


def check_transforms():
    """A stage of kinora.load draws anew for each slot, and the same again; the field `slot` is there for the stages
    alone."""
    texts = []
    for _ in range(2):
        with kinora.load({"path": SCRATCH / "clips"}, 1, stages=[{"use": "caption.choose", "dropout": 0.5}],
                         seed=3) as loader:
            taken = [batch[0] for batch in itertools.islice(loader, 120)]
        assert all("slot" not in sample.fields() for sample in taken)
        texts.append([sample["txt"] for sample in taken])
    assert texts[0] == texts[1] and set(texts[0]) == {b"", b"own"} and 32 < texts[0].count(b"") < 88, texts[0]
    assert texts[0][:60] != texts[0][60:], "the second epoch draws as the first"


def workers():
    """The processes of this one's stages."""
    out = set()
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid() and b"worker" in (
                stat.parent / "cmdline").read_bytes():
                out.add(stat.parent.name)
    return out


def check_trusted():
    """Media are decoded in a process of their own, those of a trusted table in this one; the frames are the same."""
    write_tar(SCRATCH / "media/s-0.tar", [("a.mp4", (ROOT / "tests/data/bbb_D.mp4").read_bytes())])
    frames = []
    for trusted in (True, False):
        with kinora.load({"path": SCRATCH / "media", "trusted": trusted}, 1,
                         stages=[{"use": "video.read", "frames": 4, "height": 48, "width": 64}]) as loader:
            frames.append(np.from_dlpack(next(loader)[0].tensor("frames")).copy())
            assert bool(workers()) is not trusted, workers()
    assert frames[0].shape == (4, 48, 64, 3) and np.array_equal(*frames)


def check_jpeg():
    """The pixels of a JPEG are those of OpenCV, which has a libjpeg-turbo of its own, to the bit; one that is cut off
    is damaged."""
    y, x = np.mgrid[0:121, 0:203]
    made = np.stack([x * 255 // 202, y * 255 // 120, (x * y) % 256], -1).astype(np.uint8)  # edges in colour, odd sides
    sampling = lambda factors: [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factors]
    ways = {"420": sampling(cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420),
            "422": sampling(cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422),
            "444": sampling(cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444),
            "coarse": [cv2.IMWRITE_JPEG_QUALITY, 20], "progressive": [cv2.IMWRITE_JPEG_PROGRESSIVE, 1],
            "restarts": [cv2.IMWRITE_JPEG_RST_INTERVAL, 3]}
    files = {key: cv2.imencode(".jpg", made, way)[1].tobytes()
             for key, way in ways.items()} | {"grey": cv2.imencode(".jpg", made[..., 0])[1].tobytes()}
    expected = {key: cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
                for key, data in files.items()}
    files["cut"] = files["420"][:len(files["420"]) // 2]
    write_tar(SCRATCH / "jpeg/s-0.tar", [(f"{key}.jpg", data) for key, data in files.items()])
    for trusted in (True, False):
        with kinora.load({"path": SCRATCH / "jpeg", "trusted": trusted}, 1, stages=[{"use": "video.read"}]) as loader:
            taken = {batch[0].key: batch[0] for batch in itertools.islice(loader, len(files))}
        assert taken.keys() == files.keys()
        for key, sample in taken.items():
            assert ("damaged JPEG" in json.loads(sample["json"]).get("damaged", "")) == (key == "cut"), (
                key, sample["json"])
            assert key == "cut" or np.array_equal(np.from_dlpack(sample.tensor("frames"))[0],
                                                  expected[key]), (key, trusted)


def check_sizes():
    """Samples of several sizes: any number of ranks takes those of the step; packed, with about equally many tokens; in
    buckets, of one size each."""
    clips = [(f"video{i}", {"frames": 100, "height": 64, "width": 96})
             for i in range(24)] + [(f"picture{i}", {"frames": 1, "height": 64, "width": 64}) for i in range(36)]
    random.Random(2).shuffle(clips)
    write_tar(SCRATCH / "sizes/s-0.tar",
              [(f"{key}.{field}", data) for key, facts in clips
               for field, data in (("txt", b"sea"), ("json", json.dumps(facts).encode()))])
    file = order_file("sizes", '{ path = "sizes", shuffle = 8 }')
    model = (
        'model = { use = "dit", in_channels = 16, out_channels = 16, text_size = 384, layers = 1, heads = 4, head_size '
        '= 32 }')
    for batches in ("packed", "buckets"):
        many = SCRATCH / f"{batches}.toml"
        many.write_text(file.read_text()
                        + f'sizes = ["1x64x64"]\n[[job]]\nname = "dit"\nkind = "train"\ninput = '
                          f'"latents"\n{model}\nbatch = 12\nbatches = "{batches}"\n')
        steps = {}
        for ranks in (1, 4):
            said = run(KINORA, "data", "order", many, "dit", "--ranks", ranks, "--steps", 5, "--json")
            keys = [json.loads(line)["keys"] for line in said.splitlines() if line.startswith("{")]
            steps[ranks] = [keys[at:at + ranks] for at in range(0, len(keys), ranks)]
        assert all(sorted(sum(step, [])) == sorted(sum(whole, []))
                   for step, whole in zip(steps[4], steps[1], strict=True)), steps
        # 5 steps of 12 are an epoch of 60
        assert sorted(sum(sum(steps[1], []), [])) == sorted(key for key, _ in clips), steps
        kinds = [[{key[0] for key in rank} for rank in step] for step in steps[4]]
        if batches == "buckets":
            assert all(len(kind) == 1 for step in kinds for kind in step), kinds
        else:
            videos = [[sum(key[0] == "v" for key in rank) for rank in step] for step in steps[4]]
            assert all(max(step) - min(step) <= 1 for step in videos), videos  # those with the most tokens


def training(name, shards, steps, more="", keys="", storage=""):
    """The quickstart's latents and training with small settings, from a blend of two sets. keys: more of the table of
    data."""
    jobs = (ROOT / "configs/quickstart.toml").read_text().split("[[job]]")
    latents, dit = (next(job for job in jobs if f'name = "{n}"' in job) for n in ("latents", "dit"))
    out = SCRATCH / name
    if not out.exists():
        quick.begun(KINORA, ROOT, out, ["tokenizer"])
    tokenizer = next(line for line in next(job for job in jobs if 'name = "tokenizer"' in job).splitlines()
                     if line.startswith("tokenizer ="))
    latents = latents.replace('input = ["shards", "tokenizer"]',
                              f'input = {{ blend = [{{ path = "{shards}", weight = 2 }}, {{ path = "{shards}" }}], '
                              f'shuffle = 3{keys} }}\n{tokenizer}\ntokenizer_weights = '
                              f'"{out}/tokenizer/weights.safetensors"\nscale_windows = 4')
    file = SCRATCH / f"{name}.toml"
    file.write_text(
        f'[run]\nseed = 1\nout = "{out}"\n{storage}[[job]]{latents}[[job]]{dit}'.replace("stride = 4\n", ""))
    few = ["latents.frames=5", "latents.height=32", "latents.width=48", "dit.model.layers=1", f"dit.steps={steps}",
           "dit.precision=fp64", "dit.checkpoint_every=2", "dit.log_every=1",
           "dit.batch=2", "dit.validation_every=4", "dit.validation_samples=2"]
    return out, ["run", str(file), *(a for s in [*few, *more.split()] for a in ("--set", s))]


def lines_of(out):
    return [json.loads(line) for line in (out / "dit/metrics.jsonl").read_text().splitlines()]


def losses(out):
    return [line["loss"] for line in lines_of(out)]


def check_training(shards):
    """Killed at random and continued, and on two ranks: the numbers of an uninterrupted process."""
    out, command = training("whole", shards, 8)
    run(KINORA, *command)
    assert all(line["data_wait"] >= 0 for line in lines_of(out)) and "validation_loss" in lines_of(out)[-1]
    summary = json.loads((out / "latents/summary.json").read_text())
    assert summary["measured"] == 4 and summary["sets"] == 2 and not (out / "latents/latents.h5").exists(), summary
    killed, command = training("killed", shards, 8, f"latents.latent_cache={SCRATCH / 'kept-latents'}")
    process = subprocess.Popen([KINORA, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while time.monotonic() < end and not list(killed.glob("dit/checkpoints/*/state.json")):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    for _ in range(2):  # a cache that has filled meanwhile is no new input
        said = run(KINORA, *command)
        assert "starts from scratch" not in said, said
    assert (killed / "dit/weights.safetensors").read_bytes() == (out / "dit/weights.safetensors").read_bytes()
    ranks, command = training("ranks", shards, 8, "dit.parallel=[\"ddp\"]")
    run(KINORA, "launch", "-n", "2", "--", *command)
    assert np.allclose(losses(ranks), losses(out), rtol=1e-10, atol=0), (losses(ranks), losses(out))


def tokenizer(name, shards):
    """The quickstart's tokenizer with small settings, from a table of data."""
    job = next(job for job in (ROOT / "configs/quickstart.toml").read_text().split("[[job]]")
               if 'name = "tokenizer"' in job)
    job = job.replace('input = "shards"', f'input = {{ path = "{shards}", shuffle = 3 }}\ntransforms = ["video.flip"]')
    file = SCRATCH / f"{name}.toml"
    file.write_text(f'[run]\nseed = 1\nout = "{SCRATCH / name}"\n[[job]]{job}')
    few = ["frames=5", "height=32", "width=48", "steps=6", "checkpoint_every=2", "validation=0.2", "memory=4194304"]
    return SCRATCH / name / "tokenizer", ["run", str(file), *(a for s in few for a in ("--set", f"tokenizer.{s}"))]


def check_tokenizer(shards):
    """A tokenizer from a table of data: killed and continued, it has the bytes of an uninterrupted one; other
    transforms make it anew."""
    whole, command = tokenizer("tokenizer_whole", shards)
    run(KINORA, *command)
    weights, summary = (whole / "weights.safetensors").read_bytes(), json.loads((whole / "summary.json").read_text())
    assert summary["failed"] == 0 and 0 < summary["held_out"] < summary["clips"] and summary["psnr"] > 10, summary
    killed, again = tokenizer("tokenizer_killed", shards)
    process = subprocess.Popen([KINORA, *again], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while time.monotonic() < end and not list(killed.glob("checkpoints/*/state.json")):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    run(KINORA, *again)
    assert (killed / "weights.safetensors").read_bytes() == weights
    run(KINORA, *command, "--set", "tokenizer.transforms=[]")
    assert (whole / "weights.safetensors").read_bytes() != weights


def check_changed(shards):
    """A shard that a pattern names is measured anew if another one of its size and time has replaced it, and not if
    only its time is another."""
    copy = SCRATCH / "changing"
    shutil.copytree(shards, copy)
    shard = copy / "shard-000000.tar"
    out, command = training("changed", f"{copy}/shard-{{000000..000000}}.tar", 2)
    run(KINORA, *command, "--only", "latents")
    assert "latents: already done" in run(KINORA, *command, "--only", "latents")
    os.utime(shard)
    assert "latents: already done" in run(KINORA, *command, "--only", "latents")
    before = shard.stat()
    with tarfile.open(shard) as tar:
        members = [(member, tar.extractfile(member).read()) for member in tar]
    last = members[-1][0].name.split(".")[0]
    with tarfile.open(shard, "w", format=tarfile.USTAR_FORMAT) as tar:
        for member, data in members:
            if not member.name.startswith(last):
                tar.addfile(member, io.BytesIO(data))
    os.truncate(shard, before.st_size)
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
    pathlib.Path(f"{shard}.idx").unlink()
    assert "latents: training encodes each window" in run(KINORA, *command, "--only", "latents")


def check_interrupt(shards):
    """Ctrl-C ends the training after its step, with a checkpoint."""
    out, command = training("interrupted", shards, 1000, "dit.checkpoint_every=1000")
    process = subprocess.Popen([KINORA, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 120
    while time.monotonic() < end and not ((out / "dit/metrics.jsonl").exists() and len(lines_of(out)) > 2):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    steps = [json.loads(state.read_text())["step"] for state in out.glob("dit/checkpoints/*/state.json")]
    assert process.returncode == 130 and steps and steps[-1] > 2, (process.returncode, steps, said)


def check_damage(shards):
    """A clip that is no video costs itself: another one takes its place, and the log names it."""
    shutil.copytree(shards, SCRATCH / "spoilt")
    shard = SCRATCH / "spoilt/shard-000000.tar"
    with tarfile.open(shard) as tar:
        media = next(member for member in tar if member.name.endswith(".mp4"))
    with shard.open("r+b") as file:
        file.seek(media.offset_data)
        file.write(b"x" * media.size)
    out, command = training("damaged", SCRATCH / "spoilt", 4)
    said = run(KINORA, *command)
    assert "is left out: " in said and "shard-000000.tar" in said, said
    assert json.loads((out / "dit/summary.json").read_text())["failed"] >= 1
    assert all(np.isfinite(losses(out)))
    said = run(KINORA, *training("strict", SCRATCH / "spoilt", 4, keys=", max_failed = 0")[1], code=1)
    assert ("samples cannot be used, more than max_failed = 0 allows; the last is sample " in said
            and "shard-000000.tar" in said), said


def metrics_of(out):
    return dict(line.rsplit(" ", 1)
                for line in (out / "dit/metrics.prom").read_text().splitlines() if not line.startswith("#"))


def check_storage(shards):
    """From a storage: the numbers of local shards, read ahead; and a second training over the same cache, which names
    them by a pattern, asks the server for no bytes of a shard."""
    server, bucket = s3_server.Server(SCRATCH, "server"), "s3://bucket/shards"

    def trained(name, keys, path=bucket):
        """The run's folder, what its training says of its loading, and the names of shards and indices that it asked
        the server for."""
        proxy = Proxy(server.at)
        # Without validation, which reads keys ahead of all samples.
        out, command = training(name, path, 8, "dit.validation_every=0 dit.sample_every=0",
                                keys=f', cache = "{SCRATCH}/kept"{keys}',
                                storage=f'[storage.s3]\nendpoint = "{proxy.url}"\n')
        run(KINORA, *command, env=s3_server.environment(SCRATCH))
        return out, json.loads((out / "dit/summary.json").read_text())["loading"], [
            target for _, target, *_ in proxy.settled().log if ".tar" in target]

    try:
        shutil.copytree(shards, server.file("shards"))
        out, loading, asked = trained("first", ', memory = "64 MB"')
        assert asked and losses(out) == losses(SCRATCH / "whole"), (losses(out), losses(SCRATCH / "whole"))
        assert loading["samples"] >= 16 and 0 < loading["ahead_peak"] <= 64_000_000 and loading["waited"] > 0, loading
        metrics = metrics_of(out)
        assert float(metrics[f'kinora_data_bytes_total{{job="dit",source="{bucket}"}}']) == loading["bytes"][bucket], (
            metrics, loading)
        assert metrics['kinora_train_step{job="dit"}'] == metrics['kinora_train_steps{job="dit"}'] == "8" and float(
            metrics['kinora_train_loss{job="dit"}']) == losses(out)[-1], metrics
        assert {f'kinora_data_{name}{{job="dit"}}'
                for name in ("queue", "wait_seconds_total", "samples_total")} <= metrics.keys(), metrics
        pattern = bucket + "/shard-{000000..000000}.tar"
        # it reads what the first has taken, and nothing that was read ahead besides
        out, loading, asked = trained("second", ", readers = 0", pattern)
        assert not asked and losses(out) == losses(SCRATCH / "whole"), asked
        assert loading["bytes"] == {pattern: 0} and loading["cache_hits"] >= 16 and loading["ahead_peak"] == 0, loading
        said = run(KINORA, *training("absent", bucket + "/shard-{000000..000001}.tar", 8,
                                     storage=f'[storage.s3]\nendpoint = "{server.url}"\n')[1], code=1,
                   env=s3_server.environment(SCRATCH))
        named = f"{bucket}/shard-{{000000..000001}}.tar"
        assert f"{bucket}/shard-000001.tar: no such file, but {named} names it" in said, said
    finally:
        server.stop()


def check_storage_faults():
    """A shard that its storage cannot give costs its own samples, and is asked for no more often than the retries say;
    one that it refuses ends the command, which says where and why."""
    server, faults = s3_server.Server(SCRATCH, "faulty"), {}
    proxy = Proxy(server.at, lambda number, method, target: faults.get(target.split("?")[0].rsplit("/")[-1]))
    file = order_file("faulty", '{ path = "s3://bucket/a" }', f'[storage.s3]\nendpoint = "{proxy.url}"\nretries = 1\n')

    def said(code=0):
        return run(KINORA, "data", "order", file, "latents", "--steps", 3, "--batch", 10, "--json", code=code,
                   env=s3_server.environment(SCRATCH))

    try:
        shutil.copytree(SCRATCH / "a", server.file("a"))
        run(KINORA, "data", "index", server.file("a"))
        faults["s-1.tar"] = "500"
        lines = said().splitlines()
        keys = by_slot(json.loads(line) for line in lines if line.startswith("{"))
        assert keys[:10] + keys[20:] == [f"a{shard}-{i}" for shard in (0, 2)
                                         for i in range(10)] and all(
                                             key[:2] in ("a0", "a2") for key in keys[10:20]), keys
        lost = [line for line in lines
                if "of s3://bucket/a/s-1.tar is left out: s3://bucket/a/s-1.tar: cannot be read" in line]
        assert len(lost) >= 10 and all("HTTP 500 InternalError" in line and "(2 tries)" in line for line in lost), lines
        asked = [target for _, target, *_ in proxy.settled().log if target.split("?")[0].endswith("s-1.tar")]
        assert len(asked) == 2, asked
        faults["s-1.tar"] = "403"
        refused = said(code=2)
        assert all(words in refused
                   for words in ("s3://bucket/a/s-1.tar: cannot be read", f"server {proxy.url.split('//')[1]}",
                                 "access is denied to", "ask the bucket's owner")), refused
    finally:
        server.stop()


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    write_sets()
    check_resume(*check_order())
    print("ok    order", flush=True)
    check_subsets()
    print("ok    subsets", flush=True)
    check_transforms()
    print("ok    transforms", flush=True)
    check_trusted()
    check_jpeg()
    print("ok    trusted", flush=True)
    check_sizes()
    print("ok    sizes", flush=True)
    quick.begun(KINORA, ROOT, SCRATCH / "base", ["shards"])
    check_training(SCRATCH / "base/shards")
    print("ok    training", flush=True)
    check_tokenizer(SCRATCH / "base/shards")
    print("ok    tokenizer", flush=True)
    check_changed(SCRATCH / "base/shards")
    check_interrupt(SCRATCH / "base/shards")
    print("ok    interrupt", flush=True)
    check_damage(SCRATCH / "base/shards")
    print("ok    damage", flush=True)
    check_storage(SCRATCH / "base/shards")
    print("ok    storage", flush=True)
    check_storage_faults()
    print("ok    storage faults", flush=True)


main()
