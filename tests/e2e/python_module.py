#!/usr/bin/env python3
"""The Python module (packaging/wheel/kinora) on the libkinora of a build: components, samples, tensors by DLPack, stages, a run that Ctrl-C stops
and that continues, a loader of shards, errors. usage: python_module.py PREFIX ROOT SCRATCH"""
import io, itertools, json, logging, os, pathlib, shutil, signal, sys, tarfile

PREFIX, ROOT, SCRATCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
os.environ["KINORA_PREFIX"] = str(PREFIX)
os.environ.setdefault("KINORA_TORCH", str(ROOT / ".deps/torch/torch"))
sys.path.insert(0, str(ROOT / "packaging/wheel"))
import numpy as np

import kinora

FILM = ROOT / "tests/data/film.mp4"
CLIPS = f"""
[run]
name = "module"
[[job]]
name = "clips"
kind = "curate"
input = "{FILM}"
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
    assert (sample.key, sample.fields(), sample["txt"].decode(), sample["mp4"]) == ("a", ["txt", "mp4"], "größer", b"\0\1")
    del sample["mp4"]
    assert sample.fields() == ["txt"]
    assert fails(lambda: kinora.Sample("a//b")) == "invalid"


def check_tensors():
    """Memory is shared both ways and lives as long as its last user."""
    given = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2]
    sample = kinora.Sample("a")
    sample.set_tensor("frames", given)
    tensor = sample.tensor("frames")
    seen = np.from_dlpack(tensor)
    assert (tensor.shape, tensor.dtype) == ((4, 3), "float32") and np.shares_memory(seen, given) and not seen.flags.writeable
    tensor.__dlpack__(max_version=(1, 0))  # a capsule that no one takes
    del sample, tensor
    assert (seen == given).all()
    assert fails(lambda: kinora.Sample("b").tensor("frames"), "sample 'b' has no tensor 'frames'") == "not found"
    assert fails(lambda: kinora.Sample("b").set_tensor("x", [1]), "DLPack") == "unsupported"


def check_apply():
    frames = np.full((2, 48, 64, 3), 128, np.uint8)
    good, bad = kinora.Sample("good", {"json": "{}"}), kinora.Sample("bad", {"json": "{}"})
    good.set_tensor("frames", frames)
    done = kinora.apply(["filter.brightness", {"use": "filter.black", "at_most": 0.5}], [good, bad])
    assert [s.key for s in done.kept] == ["good"] and [f.key for f in done.failed] == ["bad"] and "no frames" in done.failed[0].reason, done
    assert json.loads(done.kept[0]["json"])["scores"].keys() == {"filter.brightness", "filter.black"}
    probed = kinora.apply(["video.probe"], [kinora.Sample("film", {"url": str(FILM)})])  # in a process of its own
    assert json.loads(probed.kept[0]["json"])["width"] > 0, probed.kept[0]["json"]
    assert fails(lambda: kinora.apply(["video.prob"], []), "video.probe") == "not found"
    assert fails(lambda: kinora.apply([{"use": "filter.black", "at_mots": 1}], []), "at_most") == "invalid"


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
    assert fails(lambda: kinora.run("x.toml", text=CLIPS.replace("curate", "curat")), "x.toml:6:8", "did you mean 'curate'") == "invalid"
    assert fails(lambda: kinora.run("x.toml", text=CLIPS, only="clip"), "no job is called 'clip'") == "invalid"
    assert fails(lambda: kinora.run(SCRATCH / "nowhere.toml"), "no such file") == "not found"


def check_load():
    """Batches of shards: the same samples for any number of ranks, from any position; tensors of a stage; a sample that is no video is replaced."""
    shards, films = SCRATCH / "shards", {"a": FILM.read_bytes(), "b": (ROOT / "tests/data/bbb_A.mp4").read_bytes(), "broken": b"no film"}
    shards.mkdir()
    for number in range(2):
        with tarfile.open(shards / f"s-{number}.tar", "w") as tar:
            for name, data in films.items():
                member = tarfile.TarInfo(f"{name}{number}.mp4")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    table = {"blend": [{"path": shards, "weight": 2}, {"path": shards / "s-1.tar"}], "shuffle": 4}
    keys = lambda loader, n: [[sample.key for sample in batch] for batch in itertools.islice(loader, n)]
    with kinora.load(table, 4, seed=1) as whole, kinora.load(table, 4, seed=1, rank=0, ranks=2) as first, kinora.load(table, 4, seed=1, rank=1, ranks=2) as second:
        assert len(whole) == 2 and (all_of := keys(whole, 6)) == [one + other for one, other in zip(keys(first, 6), keys(second, 6))]
        state, stats = first.state(), whole.stats()
        assert stats["samples"] >= 24 and stats["failed"] == 0 and stats["waited"] > 0 and stats["bytes"].keys() == {str(shards), str(shards / "s-1.tar")}, stats
        assert min(stats["bytes"].values()) > FILM.stat().st_size, stats
    assert whole.stats()["samples"] >= stats["samples"]
    assert state["slots"] == 24 and json.loads(json.dumps(state)) == state
    with kinora.load(table, 4, seed=1, state={**state, "slots": 12}) as again:
        assert keys(again, 3) == all_of[3:]
    read = {"use": "video.read", "frames": 3, "height": 32, "width": 48}
    with kinora.load(table, 2, stages=[read]) as loader:
        for batch in itertools.islice(loader, 4):
            assert all(np.from_dlpack(sample.tensor("frames")).shape == (3, 32, 48, 3) and not sample.key.startswith("broken") for sample in batch)
    with kinora.load({**table, "readers": 2, "memory": "1 MB"}, 4, seed=1, rank=1, ranks=2) as ahead:
        assert keys(ahead, 6) == [one[2:] for one in all_of]
        assert 0 < ahead.stats()["ahead_peak"]
    with kinora.load({**table, "max_failed": 0}, 2, stages=[read]) as strict:
        assert fails(lambda: keys(strict, 20), "more than max_failed = 0 allows", "kinora data verify") == "data"
        assert strict.stats()["failed"] == 1
    assert fails(lambda: kinora.load({"path": shards, "readers": -2}, 2), "option 'readers' of input takes an int from 0 to 64") == "invalid"
    assert fails(lambda: kinora.load({"path": shards, "shufle": 1}, 2), "shufle", "shuffle") == "invalid"
    assert fails(lambda: kinora.load(SCRATCH / "nowhere", 2), "nowhere") == "not found"
    closed = kinora.load(table, 4)
    next(closed)
    closed.close()
    closed.close()
    wrongs = [lambda: kinora.load(table, 3, ranks=2), lambda: kinora.load(table, 4, seed=2, state=state), lambda: next(closed), lambda: next(closed)]
    positions = [{**state, "slots": slots} for slots in (-1, "12", 1.5, True, 2**64)] + [{}, [], {"slots": 12}, {"data": state["data"]}]
    wrongs += [lambda given=given: kinora.load(table, 4, seed=1, state=given) for given in positions]
    for wrong in wrongs:
        try:
            wrong()
            raise AssertionError("accepted")
        except ValueError:
            pass


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    ids = {c["id"]: c for c in kinora.components()}
    assert len(ids) > 60 and ids["sampler/euler"]["options"]["steps"]["type"] == "int" and kinora.version().count(".") == 2
    fails(kinora.open, "open host")
    for check in (check_samples, check_tensors, check_apply, check_load, check_run):
        check()
        print("ok   ", check.__name__, flush=True)


main()
