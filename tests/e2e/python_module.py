#!/usr/bin/env python3
"""The Python module (packaging/wheel/kinora) on the libkinora of a build: components, samples, tensors by DLPack,
stages (open ones too), a run that Ctrl-C stops and that continues, a loader of shards, errors. usage: python_module.py
PREFIX ROOT SCRATCH"""
import concurrent.futures, hashlib, io, itertools, json, logging, os, pathlib, shutil, signal, sys, tarfile, threading
import time

PREFIX, ROOT, SCRATCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
os.environ["KINORA_PREFIX"] = str(PREFIX)
os.environ.setdefault("KINORA_TORCH", str(ROOT / ".deps/torch/torch"))
sys.path.insert(0, str(ROOT / "packaging/wheel"))
import numpy as np

import kinora

VIDEO = ROOT / "tests/data/film.mp4"
CLIPS = f"""
[run]
name = "module"
[[job]]
name = "clips"
kind = "curate"
input = "{VIDEO}"
stages = ["shots.content", "video.clips"]
"""


def fails(call, *words):
    try:
        call()
    except kinora.Error as error:
        assert all(word in str(error) for word in words), error
        return error.reason
    raise AssertionError(f"no error with {words}")


def check_samples():
    sample = kinora.Sample("a", {"txt": "größer", "mp4": b"\0\1"})
    assert (sample.key, sample.fields(), sample["txt"].decode(),
            sample["mp4"]) == ("a", ["txt", "mp4"], "größer", b"\0\1")
    del sample["mp4"]
    assert sample.fields() == ["txt"]
    assert fails(lambda: kinora.Sample("a//b")) == "invalid"


def check_tensors():
    """Memory is shared both ways and lives as long as its last user."""
    given = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2]
    sample = kinora.Sample("a")
    assert fails(lambda: sample.set_tensor("frames", given)) == "unsupported"  # not row-major
    given = np.ascontiguousarray(given)
    sample.set_tensor("frames", given)
    tensor = sample.tensor("frames")
    seen = np.from_dlpack(tensor)
    assert (tensor.shape,
            tensor.dtype) == ((4, 3), "float32") and np.shares_memory(seen, given) and not seen.flags.writeable
    tensor.__dlpack__(max_version=(1, 0))  # a capsule that no one takes
    own = np.full(1 << 20, 7.0)  # of no one but the sample, soon
    sample.set_tensor("frames", own)
    before, own = sample.tensor("frames"), None
    taken = np.from_dlpack(before)
    sample.set_tensor("frames", np.zeros((2, 2)))
    after = np.from_dlpack(before)
    assert before.shape == after.shape == (1 << 20,) and (taken == 7).all() and (after == 7).all()
    assert np.from_dlpack(sample.tensor("frames")).shape == (2, 2)
    del sample["frames"]
    assert (np.from_dlpack(before) == 7).all()
    del sample, tensor
    assert (seen == given).all()
    assert fails(lambda: kinora.Sample("b").tensor("frames"), "sample 'b' has no tensor 'frames'") == "not found"
    assert fails(lambda: kinora.Sample("b").set_tensor("x", [1]), "DLPack") == "unsupported"


def check_apply():
    frames = np.full((2, 48, 64, 3), 128, np.uint8)
    good, bad = kinora.Sample("good", {"json": "{}"}), kinora.Sample("bad", {"json": "{}"})
    good.set_tensor("frames", frames)
    done = kinora.apply(["filter.brightness", {"use": "filter.black", "at_most": 0.5}], [good, bad])
    assert [s.key for s in done.kept] == ["good"] and [f.key for f in done.failed] == [
        "bad"] and "no frames" in done.failed[0].reason, done
    assert json.loads(done.kept[0]["json"])["scores"].keys() == {"filter.brightness", "filter.black"}
    probed = kinora.apply(["video.probe"], [kinora.Sample("film", {"url": str(VIDEO)})])  # in a process of its own
    assert json.loads(probed.kept[0]["json"])["width"] > 0, probed.kept[0]["json"]
    assert fails(lambda: kinora.apply(["video.prob"], []), "video.probe") == "not found"
    assert fails(lambda: kinora.apply([{"use": "filter.black", "at_mots": 1}], []), "at_most") == "invalid"


def check_stage():
    """Open stages: in a process of its own, a chain, one that holds its inputs, errors, and after the end."""
    film, other = kinora.Sample("film", {"json": "{}"}), kinora.Sample("other", {"json": "{}"})  # without frames
    with kinora.stage(["video.probe"]) as probe:
        assert probe.resources()["isolated"] == 1 and probe.resources()["batch"] == 0
        for key in "ab":
            before, done = probe.beats, probe.process(kinora.Sample(key, {"url": str(VIDEO)}))
            assert [s.key for s in done.kept] == [key] and json.loads(done.kept[0]["json"])["width"] > 0, done
            assert probe.beats >= before + 2 and not probe.ended
    with kinora.stage(["filter.brightness"]) as bright:
        assert fails(lambda: bright.process(film), "no frames") and not bright.ended
    with kinora.stage(["filter.brightness", {"use": "filter.black", "at_most": 0.5}]) as chain:
        assert [f.key for f in chain.process([film, other]).failed] == ["film", "other"]
        assert chain.process([]) == chain.finish() == ([], [], [], [], [])
        assert fails(lambda: chain.process(film), "finished") == fails(chain.resources, "chain") == "invalid"
    (SCRATCH / "tars").mkdir()
    with kinora.stage(["shard.webdataset"], out=SCRATCH / "tars", seed=7) as shard:
        for key in ("a", "b"):
            assert shard.process(kinora.Sample(key, {"txt": key})) == ([], [], [], [key], [])
        assert sorted(shard.finish().stored) == ["a", "b"]
    with tarfile.open(next((SCRATCH / "tars").glob("*.tar"))) as tar:
        assert {m.name: tar.extractfile(m).read() for m in tar} == {"a.txt": b"a", "b.txt": b"b"}
    assert fails(lambda: kinora.stage(["video.prob"]), "video.probe") == "not found"
    assert fails(lambda: kinora.stage(["video.probe"], device="tpu"), "cuda:1") == "invalid"
    shard.close()
    raises(ValueError, lambda: shard.process(film))


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def check_callbacks():
    """An outcome is never lost: a stage may give no reason and no rule, and an error of a callback is the call's."""

    def nulls(to):
        sample = kinora.Sample("a")
        for give, *more in ((to.drop, None, 0.5), (to.fail, None)):
            kinora._samples._samples().retain(sample._handle)
            assert give(None, sample._handle, *more) == 0
        return 0

    done = kinora._stage.collected(nulls, None)
    assert done.dropped[0][1:] == ("", 0.5) and done.failed == [("a", "")], done

    def no_memory(_):
        raise MemoryError("of the test")

    adopt, kinora.Sample._adopt = kinora.Sample._adopt, no_memory
    try:
        raises(MemoryError, lambda: kinora.apply(["filter.brightness"], [kinora.Sample("b")]))
    finally:
        kinora.Sample._adopt = adopt


MANY = 50000  # samples: seconds of work


def in_a_moment(stage, action):
    """Calls action() once a call of the stage has begun."""
    before = stage.beats

    def waits():
        while stage.beats == before:
            time.sleep(0.001)
        action()

    threading.Thread(target=waits).start()


def check_stops():
    """Stage.cancel, and Ctrl-C at any moment of process(), end the call and leave the stage usable."""
    press = lambda: os.kill(os.getpid(), signal.SIGINT)
    many = [kinora.Sample("a")] * MANY
    with kinora.stage(["filter.brightness", "filter.black"]) as chain:
        chain.cancel()  # without a call: nothing
        assert len(chain.process(many[:3]).failed) == 3
        in_a_moment(chain, chain.cancel)
        error = raises(kinora.Error, lambda: chain.process(many))
        assert error.reason == "cancelled" and len(error.outcomes.failed) < MANY
        in_a_moment(chain, press)
        raises(KeyboardInterrupt, lambda: chain.process(many))
        library, statuses = kinora._library.library(), []
        process = library.kinora_embed_stage_process

        def late(*arguments):
            """Ctrl-C twice before the call is inside libkinora."""
            for _ in range(2):
                press()
                time.sleep(0.3)
            statuses.append(process(*arguments))
            return statuses[-1]

        library.kinora_embed_stage_process = late
        raises(KeyboardInterrupt, lambda: chain.process(many))
        assert statuses == [-8], statuses  # cancelled, and before process() returned
        library.kinora_embed_stage_process = process
        assert len(chain.process(many[:3]).failed) == 3


def children():
    """The processes that this one has begun."""
    tasks = pathlib.Path("/proc/self/task").glob("*/children")
    return {int(child) for task in tasks for child in task.read_text().split()}


def check_death():
    """A stage says that its process died, and the next call uses a new one."""
    film = kinora.Sample("film", {"url": str(VIDEO)})
    before = children()
    with kinora.stage(["video.probe"]) as probe:
        probe.process(film)
        for child in children() - before:
            os.kill(child, signal.SIGKILL)
        error = raises(kinora.Error, lambda: probe.process(film))
        assert error.reason == "data" and probe.ended and error.outcomes.kept == [], error
        assert len(probe.process(film).kept) == 1 and not probe.ended


def check_fingerprint():
    plugin = next(c["plugin"] for c in kinora.components() if c["id"] == "stage/video.probe")
    library = PREFIX / f"lib/kinora/plugins/{plugin}/lib{plugin}.so"
    told = kinora.fingerprint()
    assert told["version"] == kinora.version() and told["abi"].startswith("1.")
    assert told["plugins"][plugin]["library"] == hashlib.sha256(library.read_bytes()).hexdigest()


class Interrupts(logging.Handler):
    """Presses Ctrl-C at the first line of the job."""

    def emit(self, record):
        if not self.filters and record.getMessage().startswith("clips:"):
            self.addFilter(lambda _: False)
            os.kill(os.getpid(), signal.SIGINT)


def check_run():
    logger = logging.getLogger("kinora")
    logger.setLevel(logging.INFO)
    handler = Interrupts()
    logger.addHandler(handler)
    try:
        kinora.run("module.toml", text=CLIPS, out=SCRATCH / "run")
        raise AssertionError("Ctrl-C had no effect")
    except KeyboardInterrupt:
        assert not (SCRATCH / "run/clips/summary.json").exists()
    logger.removeHandler(handler)
    kinora.run("module.toml", text=CLIPS, out=SCRATCH / "run", sets={"run.log": "debug"})
    assert json.loads((SCRATCH / "run/clips/summary.json").read_text())["clips"]["kept"] > 0
    assert "clips: done" in (SCRATCH / "run/kinora.log").read_text()
    assert fails(lambda: kinora.run("x.toml", text=CLIPS.replace("curate", "curat")), "x.toml:6:8",
                 "did you mean 'curate'") == "invalid"
    assert fails(lambda: kinora.run("x.toml", text=CLIPS, only="clip"), "no job is called 'clip'") == "invalid"
    assert fails(lambda: kinora.run(SCRATCH / "nowhere.toml"), "no such file") == "not found"


def check_load():
    """Batches of shards: the same samples for any number of ranks, from any position; tensors of a stage; a sample that
    is no video is replaced."""
    shards, videos = SCRATCH / "shards", {"a": VIDEO.read_bytes(), "b": (ROOT / "tests/data/bbb_A.mp4").read_bytes(),
                                         "broken": b"no video"}
    shards.mkdir()
    for number in range(2):
        with tarfile.open(shards / f"s-{number}.tar", "w") as tar:
            for name, data in videos.items():
                member = tarfile.TarInfo(f"{name}{number}.mp4")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    table = {"blend": [{"path": shards, "weight": 2}, {"path": shards / "s-1.tar"}], "shuffle": 4}
    keys = lambda loader, n: [[sample.key for sample in batch] for batch in itertools.islice(loader, n)]
    with kinora.load(table, 4, seed=1) as whole, kinora.load(table, 4, seed=1, rank=0,
                                                             ranks=2) as first, kinora.load(
                                                                 table, 4, seed=1, rank=1, ranks=2) as second:
        assert len(whole) == 2 and (all_of := keys(whole, 6)) == [
            one + other for one, other in zip(keys(first, 6), keys(second, 6))]
        state, stats = first.state(), whole.stats()
        assert stats["samples"] >= 24 and stats["failed"] == 0 and stats["waited"] > 0 and stats["bytes"].keys() == {
            str(shards), str(shards / "s-1.tar")}, stats
        assert min(stats["bytes"].values()) > VIDEO.stat().st_size, stats
    assert whole.stats()["samples"] >= stats["samples"]
    assert state["slots"] == 24 and json.loads(json.dumps(state)) == state
    with kinora.load(table, 4, seed=1, state={**state, "slots": 12}) as again:
        assert keys(again, 3) == all_of[3:]
    read = {"use": "video.read", "frames": 3, "height": 32, "width": 48}
    with kinora.load(table, 2, stages=[read]) as loader:
        for batch in itertools.islice(loader, 4):
            assert all(np.from_dlpack(sample.tensor("frames")).shape == (3, 32, 48, 3)
                       and not sample.key.startswith("broken") for sample in batch)
    with kinora.load({**table, "readers": 2, "memory": "1 MB"}, 4, seed=1, rank=1, ranks=2) as ahead:
        assert keys(ahead, 6) == [one[2:] for one in all_of]
        assert 0 < ahead.stats()["ahead_peak"]
    with kinora.load({**table, "max_failed": 0}, 2, stages=[read]) as strict:
        assert fails(lambda: keys(strict, 20), "more than max_failed = 0 allows", "kinora data verify") == "data"
        assert strict.stats()["failed"] == 1
    assert fails(lambda: kinora.load({"path": shards, "readers": -2}, 2),
                 "option 'readers' of input takes an int from 0 to 64") == "invalid"
    assert fails(lambda: kinora.load({"path": shards, "shufle": 1}, 2), "shufle", "shuffle") == "invalid"
    assert fails(lambda: kinora.load(SCRATCH / "nowhere", 2), "nowhere") == "not found"
    closed = kinora.load(table, 4)
    next(closed)
    closed.close()
    closed.close()
    wrongs = [lambda: kinora.load(table, 3, ranks=2), lambda: kinora.load(table, 4, seed=2, state=state),
              lambda: kinora.load(table, 4, ahead=0), lambda: next(closed), lambda: next(closed)]
    positions = [{**state, "slots": slots}
                 for slots in (-1, "12", 1.5, True, 2**64)] + [{}, [], {"slots": 12}, {"data": state["data"]}]
    wrongs += [lambda given=given: kinora.load(table, 4, seed=1, state=given) for given in positions]
    for wrong in wrongs:
        raises(ValueError, wrong)


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:  # the first call opens the host, once
        found = [threads.submit(kinora.components) for _ in range(4)]
    ids = {c["id"]: c for one in found for c in one.result()}
    assert len(ids) > 60 and ids["sampler/euler"]["options"]["steps"]["type"] == "int" and kinora.version().count(
        ".") == 2
    fails(kinora.open, "open host")
    for check in (check_samples, check_tensors, check_apply, check_stage, check_callbacks, check_stops, check_death,
                  check_fingerprint, check_load, check_run):
        check()
        print("ok   ", check.__name__, flush=True)


main()
