#!/usr/bin/env python3
"""kinora.Pipeline of the Python module, on a tiny published folder: its frames are those that `kinora generate` writes,
whole and in chunks; requests take turns, are cancelled, and survive the end of the model's process, which ends with its
Python; the examples of docs/python.md run. usage: python_pipeline.py PREFIX ROOT SCRATCH"""
import concurrent.futures, inspect, json, os, pathlib, shutil, signal, subprocess, sys, threading, time, typing

PREFIX, ROOT, SCRATCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
os.environ["KINORA_PREFIX"] = str(PREFIX)
os.environ.setdefault("KINORA_TORCH", str(ROOT / ".deps/torch/torch"))
sys.path += [str(ROOT / "packaging/wheel"), str(ROOT / "tests/support")]
import cv2
import numpy as np

import kinora
from pages import blocks

FOLDER = ROOT / "tests/data/oracle/wan_t2v"
# Chunk by chunk, a latent frame each, which is four frames, after one for the first.
SETS = {"teacher_forcing": True, "chunk": 1, "height": 16, "width": 16, "fps": 8.0, "frames": 9, "steps": 2,
        "guidance": 1.0}
LONG = 8001  # frames: many seconds of work


def array(frames):
    return np.from_dlpack(frames)


def fails(call, *words):
    try:
        call()
    except kinora.Error as error:
        assert all(word in str(error) for word in words), error
        return error.reason
    raise AssertionError(f"no error with {words}")


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def children(pid="self"):
    """The processes that this one has begun, or those that the other one has."""
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return {int(child) for task in tasks for child in task.read_text().split()}


def soon(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, inspect.getsource(condition)
        time.sleep(0.02)


def has_ended(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def begun(pipeline):
    """A long video that is being made."""
    request = pipeline.start("a long walk", num_frames=LONG)
    soon(lambda: request.progress > 0)
    return request


def check_frames(pipeline):
    """The frames are bit for bit those of `kinora generate`, from its PNGs; the MP4 has as many, and the settings."""
    sets = [word for name, value in SETS.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    done = subprocess.run([PREFIX / "bin/kinora", "generate", "--pipeline", FOLDER, "--prompt", "a boat at sea",
                           "--seed", "3", *sets, "--set", 'format=["png"]', "--out", SCRATCH / "alone", "--name",
                           "alone"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    pictures = sorted((SCRATCH / "alone/alone/videos/000").glob("*.png"))
    expected = np.stack([cv2.imread(str(one))[:, :, ::-1] for one in pictures])
    told = []
    video = pipeline.generate("a boat at sea", seed=3, on_progress=told.append)
    got = array(video.frames)
    assert got.shape == video.frames.shape == (9, 16, 16, 3) and got.dtype == np.uint8 and video.fps == 8
    assert (got == expected).all() and got.std() > 1
    assert told == sorted(set(told)) and 0 <= told[0] and told[-1] == 1, told
    assert np.shares_memory(got, array(video.frames)) and got.flags.writeable
    raises(BufferError, lambda: video.frames.__dlpack__())  # DLPack 0
    assert video.settings["prompt"] == "a boat at sea" and video.settings["seed"] == 3, video.settings
    video.save(SCRATCH / "boat.mp4")
    film = cv2.VideoCapture(str(SCRATCH / "boat.mp4"))
    shown = []
    while (read := film.read())[0]:
        shown.append(read[1][:, :, ::-1])
    assert len(shown) == 9 and np.abs(np.stack(shown).astype(float) - got).mean() < 12
    raises(FileNotFoundError, lambda: video.save(SCRATCH / "nowhere/boat.mp4"))
    assert not (array(pipeline.generate("a boat at sea", seed=4).frames) == got).all(), "equal would prove nothing"
    return got


def check_stream(pipeline, expected):
    """The chunks are the video; who takes them slowly slows the model; close() ends it."""
    with pipeline.stream("a boat at sea", seed=3) as stream:
        chunks = list(stream)
        assert [c.first_frame for c in chunks] == [0, 1, 5] and [c.time for c in chunks] == [0, 1 / 8, 5 / 8]
        assert (np.concatenate([array(c.frames) for c in chunks]) == expected).all()
        stream.save(SCRATCH / "stream.mp4")
        assert stream.settings["seed"] == 3 and stream.progress == 1 and list(stream) == []
    assert (SCRATCH / "stream.mp4").stat().st_size > 0
    count = 101  # chunks
    with pipeline.stream("a boat at sea", num_frames=4 * count - 3) as slow:
        next(slow)
        raises(ValueError, lambda: slow.save("slow.mp4"))
        before = -1
        while slow.progress > before:
            before = slow.progress
            time.sleep(0.5)
        assert before < 9 / count, before
        next(slow)
        soon(lambda: slow.progress > before)
        slow.close()
        raises(StopIteration, lambda: next(slow))
    with pipeline.stream("a boat at sea", num_frames=LONG) as held:
        next(held)
        assert fails(lambda: pipeline.generate("red sea"), "close the stream first") == "invalid"
        with pipeline.stream("red sea") as inner:
            assert fails(lambda: next(inner), "close the stream first") == "invalid"
        later = pipeline.start("a boat at sea", seed=3)
        fails(later.result, "close the stream first")
        next(held)
    assert (array(later.result().frames) == expected).all()
    dropped = pipeline.stream("a boat at sea", num_frames=LONG)
    next(dropped)
    del dropped  # as close()
    assert (array(pipeline.generate("a boat at sea", seed=3).frames) == expected).all()


def check_cancel(pipeline):
    """One at work ends within a step, one that waits at once; others do not notice."""
    first, waits, other = begun(pipeline), pipeline.start("red sea"), pipeline.start("a boat at sea")
    waits.cancel()
    assert fails(waits.result) == "cancelled" and not first.done
    first.cancel()
    first.cancel()
    begin = time.monotonic()
    assert fails(first.result) == "cancelled" and first.done and first.progress < 0.9
    assert time.monotonic() - begin < 5
    assert other.result().frames.shape[0] == 9 and other.result() is other.result() and other.progress == 1
    other.cancel()
    assert other.result().fps == 8


def check_interrupt(pipeline):
    """Ctrl-C, and an error of on_progress, cancel a video and leave the pipeline usable."""
    press = lambda *_: os.kill(os.getpid(), signal.SIGINT)
    raises(KeyboardInterrupt, lambda: pipeline.generate("a boat", num_frames=LONG, on_progress=press))
    threading.Timer(0.5, press).start()
    raises(KeyboardInterrupt, lambda: pipeline.generate("a boat", num_frames=LONG))
    raises(ZeroDivisionError, lambda: pipeline.generate("a boat", num_frames=LONG, on_progress=lambda _: 1 / 0))
    assert pipeline.generate("a boat").frames.shape == (9, 16, 16, 3)


def check_threads(pipeline, expected):
    """Each thread has its own video."""
    seeds = [3, 4, 5]
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        videos = list(threads.map(lambda seed: array(pipeline.generate("a boat at sea", seed=seed).frames), seeds))
    assert (videos[0] == expected).all() and not (videos[1] == videos[0]).all() and not (videos[2] == videos[0]).all()


def check_fork(pipeline):
    """A process that os.fork() made leaves the model to this one."""
    request = begun(pipeline)
    if (child := os.fork()) == 0:
        pipeline.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0 and not request.done
    request.cancel()
    assert fails(request.result) == "cancelled"
    assert pipeline.generate("a boat").frames.shape == (9, 16, 16, 3)


def check_refusals(pipeline):
    for settings in ({"sizes": (16, 16)}, {"seed": 1.5}, {"shots": [{"prompt": "a"}]}, {"image": "a", "video": "b"}):
        raises(TypeError, lambda: pipeline.start("a boat", **settings))
    for settings in ({"seed": -1}, {"fps": float("nan")}, {"seconds": 0}, {"strength": 2}):
        raises(ValueError, lambda: pipeline.start("a boat", **settings))
    raises(ValueError, lambda: pipeline.start(shots=[]))
    assert fails(lambda: pipeline.start("a boat", strength=0.5), "give a video") == "invalid"
    raises(TypeError, lambda: pipeline.start())
    raises(ValueError, lambda: pipeline.start("\ud800"))
    assert fails(lambda: pipeline.start("a boat", seconds=1, num_frames=9), "leave one of them out") == "invalid"
    assert fails(lambda: pipeline.start("a boat", image=SCRATCH / "nowhere.png"), "nowhere.png") == "invalid"
    assert fails(lambda: pipeline.start("a boat", lora="toon"), "unknown LoRA 'toon'") == "invalid"
    nowhere = str(SCRATCH / "nowhere.toml")
    assert fails(lambda: kinora.Pipeline(nowhere), nowhere) == "invalid"
    assert "exit code" not in str(raises(kinora.Error, lambda: kinora.Pipeline(nowhere)))
    raises(ValueError, lambda: pipeline.start("a boat", size="16"))
    assert pipeline.generate("a boat", size="16x32").frames.shape == (9, 32, 16, 3)


def check_death(pipeline, expected, before):
    """Killed: the requests in progress say so, and the next one has a new process."""
    model, = children() - before
    request, waits = begun(pipeline), pipeline.start("red sea")
    os.kill(model, signal.SIGKILL)
    for one in (request, waits):
        assert fails(one.result, "ended by signal 9", "its log ends with") == "failed"
    assert (array(pipeline.generate("a boat at sea", seed=3).frames) == expected).all()


OPENED_BY_A_THREAD = """
import sys, threading, time
sys.path.insert(0, sys.argv[1])
import kinora
opened = []
def begin():
    opened.append(kinora.Pipeline(sys.argv[2], sets=eval(sys.argv[3])))
    opened.append(opened[0].start("a boat", num_frames=201))
thread = threading.Thread(target=begin)
thread.start()
thread.join()
print(opened[1].result().frames.shape, flush=True)
request = opened[0].start("a boat", num_frames=2001)
if sys.argv[4] == "waits":
    time.sleep(100)
"""


def check_ends(before):
    """The process ends with its Pipeline, and with its Python however that ends, but not with the thread that opened
    it."""
    assert children() <= before, "the process of a closed pipeline"
    for way in ("waits", "returns"):
        python = subprocess.Popen([sys.executable, "-c", OPENED_BY_A_THREAD, ROOT / "packaging/wheel", FOLDER,
                                   repr(SETS), way], stdout=subprocess.PIPE, text=True)
        assert python.stdout.readline().strip() == "(201, 16, 16, 3)"
        models = children(python.pid)
        if way == "waits":
            assert models
            python.kill()
        assert python.wait(20) == (-signal.SIGKILL if way == "waits" else 0)
        soon(lambda: all(map(has_ended, models)))
        python.stdout.close()


def check_run_file():
    """The generate job of a run file, in the file's folder, which afterwards has no result of it."""
    sets = "".join(f"{name} = {json.dumps(value)}\n" for name, value in SETS.items())
    (SCRATCH / "run.toml").write_text(f'[run]\nname = "run"\nout = "{SCRATCH / "run"}"\n' + "".join(
        f'[[job]]\nname = "{name}"\nkind = "generate"\npipeline = "{FOLDER}"\nprompts = ["sea"]\n{sets}'
        for name in ("film", "other")))
    with kinora.Pipeline(SCRATCH / "run.toml", job="film", sets={"film.frames": 5}) as pipeline:
        assert pipeline.defaults["num_frames"] == 5 and pipeline.generate("sea").frames.shape == (5, 16, 16, 3)
    assert not list((SCRATCH / "run").rglob("*.mp4")) and not (SCRATCH / "run/film").exists()


def check_lora():
    toon = ROOT / "tests/data/oracle/adapters/diffusers.safetensors"
    with kinora.Pipeline(FOLDER, sets=SETS | {"loras": [{"name": "toon", "file": toon}]}) as pipeline:
        plain, adapted = (array(pipeline.generate("a red sea", seed=7, lora=lora).frames)
                          for lora in ("", {"name": "toon", "scale": 4}))
        assert not (plain == adapted).all()


def check_types():
    """Every public method says its types and has a text."""
    assert (ROOT / "packaging/wheel/kinora/py.typed").exists()
    for kind in (kinora.Pipeline, kinora.Request, kinora.Stream, kinora.Video):
        for name, member in vars(kind).items():
            function = getattr(member, "fget", member)
            if not inspect.isfunction(function) or (name.startswith("_") and name != "__init__"):
                continue
            hints = typing.get_type_hints(function, None, {"Unpack": typing.Unpack})
            missing = set(inspect.signature(function).parameters) - {"self"} - set(hints)
            assert not missing and (name == "__init__" or "return" in hints), (kind, name, missing)
            assert kind.__doc__ if name == "__init__" else function.__doc__, (kind, name)


def check_page():
    """The examples of docs/python.md, on the tiny folder and with short videos."""
    page = [code for _, language, code in blocks((ROOT / "docs/python.md").read_text())
            if language == "python" and "kinora.Pipeline(" in code]
    assert len(page) == 2
    names, seen = {"FOLDER": FOLDER, "SETS": SETS, "show": lambda frames, at: seen.append((len(frames), at))}, []
    for code in page:
        for shown, small in (('"Wan2.1-T2V-1.3B-Diffusers"', "FOLDER, sets=SETS"),
                             ('"longlive.toml"', "FOLDER, sets=SETS"),
                             ("size=(832, 480), seconds=4", "size=(32, 16), seconds=1"), ("seconds=60", "seconds=2")):
            code = code.replace(shown, small)
        assert "seconds=1" in code or "seconds=2" in code, code
        exec(code, names)
    assert names["frames"].shape == (8, 16, 32, 3) and pathlib.Path("boat.mp4").exists()
    assert sum(count for count, _ in seen) == 16 and seen[1] == (4, 1 / 8) and pathlib.Path("walk.mp4").exists(), seen


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    os.chdir(SCRATCH)
    (SCRATCH / "temporary").mkdir()
    os.environ["TMPDIR"] = str(SCRATCH / "temporary")
    before = children()
    with kinora.Pipeline(FOLDER, sets=SETS) as pipeline:
        defaults = {"width": 16, "height": 16, "num_frames": 9, "fps": 8, "guidance_scale": 1}
        assert pipeline.defaults == defaults, pipeline.defaults
        expected = check_frames(pipeline)
        for check, *more in ((check_stream, expected), (check_cancel,), (check_interrupt,), (check_threads, expected),
                             (check_fork,), (check_refusals,), (check_death, expected, before)):
            check(pipeline, *more)
            print("ok   ", check.__name__, flush=True)
        last = begun(pipeline)
    assert fails(last.result, "closed") == fails(lambda: pipeline.start("a boat"), "closed") == "cancelled"
    for check, *more in ((check_ends, before), (check_run_file,), (check_lora,), (check_page,), (check_types,)):
        check(*more)
        print("ok   ", check.__name__, flush=True)
    left = [file for file in (SCRATCH / "temporary").iterdir()]
    assert len(left) <= 1, left  # of the Python that was killed


main()
