"""Videos of a published pipeline or of a run file's generate job, made in a process of its own."""
from __future__ import annotations

import json
import operator
import os
import re
import shutil
import tempfile
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Sequence, TypedDict

from . import _library as _c
from ._model_process import ModelProcess
from ._videos import Chunk, Task, Video

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Least and most; of whole numbers and of others.
_WHOLE = {"seed": (0, 2**53 - 1), "num_frames": (1, 10**6), "steps": (1, 10**4)}
_REAL = {"seconds": (0.01, 1e6), "fps": (0.01, 1000.0), "guidance_scale": (0.0, 1000.0), "strength": (0.01, 1.0)}


class Settings(TypedDict, total=False):
    """What a video may have besides its prompt; None: the pipeline's own."""

    shots: Sequence[Mapping[str, Any]] | None  # instead of a prompt: [{"prompt": "a boat", "seconds": 4}, ...]
    seed: int | None  # the same seed and settings give the same video
    size: tuple[int, int] | str | None  # width and height in pixels, or "832x480"
    seconds: float | None  # rounded up to a length that the model makes
    num_frames: int | None  # instead of seconds; of shots, it cuts their end
    fps: float | None  # frames a second
    steps: int | None  # of the sampler
    guidance_scale: float | None
    negative_prompt: str | None
    image: str | os.PathLike | None  # picture to begin with
    video: str | os.PathLike | None  # video to continue or to change
    strength: float | None  # share of the steps that change the video
    lora: str | Mapping[str, Any] | None  # one of the job's `loras`: its name, or {"name": "toon", "scale": 0.7}


def _number(name, value):
    least, most = _WHOLE.get(name) or _REAL[name]
    value = operator.index(value) if name in _WHOLE else float(value)
    if not least <= value <= most:
        raise ValueError(f"{name} = {value}: expected a number from {least} to {most}")
    return value


def _size(value):
    if not isinstance(value, str):
        return map(operator.index, value)
    if not re.fullmatch(r"[0-9]{1,5}x[0-9]{1,5}", value):
        raise ValueError(f"size = {value!r}: expected WIDTHxHEIGHT in pixels, such as 832x480")
    return map(int, value.split("x"))


def _fields(prompt, settings):
    """As the process takes them."""
    for name in settings:
        if name not in Settings.__annotations__:
            raise TypeError(f"unknown setting {name!r}; there are {', '.join(Settings.__annotations__)}")
    out = {name: value for name, value in settings.items() if value is not None}
    if (prompt is None) == ("shots" not in out):
        raise TypeError("expected a prompt or shots, and not both")
    if "image" in out and "video" in out:
        raise TypeError("expected an image or a video, and not both")
    for name in [name for name in out if name in _WHOLE or name in _REAL]:
        out[name] = _number(name, out[name])
    if prompt is not None:
        out["prompt"] = prompt
    if "shots" in out:
        out["shots"] = [json.dumps(dict(shot)) for shot in out["shots"]]
        if not out["shots"]:
            raise ValueError("shots: expected one or more")
    if "lora" in out:
        out["lora"] = {"name": out["lora"]} if isinstance(out["lora"], str) else dict(out["lora"])
    if "size" in out:
        out["width"], out["height"] = _size(out.pop("size"))
    for name in ("image", "video"):
        if name in out:
            out["input_reference"] = os.path.abspath(os.fspath(out.pop(name)))
    return out


class _Model:
    """The process, started again when it has ended, and the tasks that it works at."""

    def __init__(self, arguments):
        self.folder = tempfile.mkdtemp(prefix="kinora-")
        self.defaults: dict = {}
        self._owner = os.getpid()
        self._arguments, self._starting = arguments, threading.Lock()
        self._changed = threading.Condition()  # guards the following
        self._process, self._is_ready, self._is_closed = None, False, False
        self._why, self._code = "", -1  # the process ended, and the error that this is
        self._asked, self._answers, self._tasks, self._streams = 0, {}, {}, weakref.WeakSet()

    def process(self):
        """The process, once it has loaded the model."""
        with self._starting:
            with self._changed:
                if self._process and not self._why and not self._is_closed:
                    return self._process
                self._process, self._is_ready, self._why, self._code = None, False, "", -1
                self._require(None)
            process = ModelProcess(self._arguments, self._take, self._end)
            with self._changed:
                self._process, is_closed = process, self._is_closed
            if is_closed:
                process.stop(0)
            with self._changed:
                self._changed.wait_for(lambda: self._is_ready or self._has_ended(process))
                self._require(process)
            return process

    def _has_ended(self, process):
        return self._is_closed or self._why or self._process is not process

    def _require(self, process):
        if self._is_closed:
            raise _c.Error(-8, "the pipeline is closed; open another one")
        if self._has_ended(process):
            raise _c.Error(self._code, self._why or "the model's process ended")

    def begin(self, fields, form):
        """Has the fields checked and completed, and begins a task."""
        process = self.process()
        with self._changed:
            self._asked = number = self._asked + 1
        process.send({"check": number, "fields": fields})
        with self._changed:
            self._changed.wait_for(lambda: number in self._answers or self._has_ended(process))
            self._require(process)
            answer = self._answers.pop(number)
            if "error" in answer:
                raise _c.Error(-2, answer["error"])
            folder = os.path.join(self.folder, str(number))
            os.mkdir(folder)
            task = self._tasks[str(number)] = Task(str(number), folder, answer["fields"], process, self._changed,
                                                   self._streams)
            if form == "chunks":
                self._streams.add(task)
        process.send({"make": task.id, "folder": folder, "fields": task.fields, "frames": form})
        return task

    def _take(self, message):
        with self._changed:
            if "ready" in message:
                self.defaults, self._is_ready = message["ready"], True
            elif "checked" in message:
                self._answers[message["checked"]] = message
            elif (task := self._tasks.get(message.get("video"))) and task.take(message):
                del self._tasks[task.id]
            self._changed.notify_all()

    def _end(self, why, wrong):
        with self._changed:
            if wrong and not self._is_ready:  # the arguments
                why, self._code = wrong, -2
            self._why = why
            self._fail(_c.Error(self._code, why))

    def _fail(self, error):
        for task in self._tasks.values():
            task.end(error)
        self._tasks.clear()
        self._answers.clear()
        self._changed.notify_all()

    def close(self):
        if os.getpid() != self._owner:  # after os.fork() the process and the folder are the other one's
            return
        with self._changed:
            if self._is_closed:
                return
            self._is_closed, process, seconds = True, self._process, 5 if self._is_ready else 0
            self._fail(_c.Error(-8, "the pipeline was closed"))
        if process:
            process.stop(seconds)
        shutil.rmtree(self.folder, ignore_errors=True)


class Pipeline:
    """A model that is loaded once and makes videos, one after the other, until close() or the end of a `with`.

    folder: a published pipeline (model_index.json), or a run file with a generate job, whose name is `job` if there are
    several; jobs that it reads run first. out: the folder of that run, else the file's own. sets: other values of the
    job's options, {"steps": 30, "device": "cuda:1"}; of a run file's, {"film.steps": 30}.

    The model is in a process of its own, which a crash ends without harm to this one: the requests in progress raise
    Error with the last lines of its log, and the next request loads the model again. Log lines go to
    logging.getLogger("kinora"). Any thread may make requests; they take turns. Returns when the model is loaded. Raises
    Error if it cannot be.
    """

    def __init__(self, folder: str | os.PathLike, *, job: str | None = None, out: str | os.PathLike | None = None,
                 sets: Mapping[str, Any] | None = None):
        arguments = ["generate", "--prompt", "", "--name", "python"]
        self._model = _Model(arguments)
        self._closes = weakref.finalize(self, self._model.close)
        is_folder = os.path.isdir(folder)
        if out is None and is_folder:
            out = os.path.join(self._model.folder, "run")
        arguments += ["--pipeline", os.fspath(folder)] if is_folder else [os.fspath(folder)]
        arguments += ["--job", job] if job is not None else []
        arguments += ["--out", os.fspath(out)] if out is not None else []
        for name, value in (sets or {}).items():
            arguments += ["--set", f"{name}={_c.toml(value)}"]
        try:
            self._model.process()
        except BaseException:
            self.close()
            raise

    @property
    def defaults(self) -> dict:
        """Of its videos: {"width", "height", "num_frames", "fps", "guidance_scale"}."""
        return dict(self._model.defaults)

    def generate(self, prompt: str | None = None, *, on_progress: Callable[[float], Any] | None = None,
                 **settings: Unpack[Settings]) -> Video:
        """Makes a video and returns it whole. on_progress: is called in this thread with the share that is done, 0 to
        1, which never falls. Ctrl-C, and an error of on_progress, cancel the video. Raises Error."""
        request = self.start(prompt, **settings)
        try:
            return request.result(on_progress)
        except BaseException:
            request.cancel()
            raise

    def start(self, prompt: str | None = None, **settings: Unpack[Settings]) -> Request:
        """Begins a video, or queues it, and returns once its settings are accepted. Raises Error if they are not."""
        return Request(self, self._model.begin(_fields(prompt, settings), "whole"))

    def stream(self, prompt: str | None = None, **settings: Unpack[Settings]) -> Stream:
        """Begins a video whose chunks are taken while it is made. A model that makes a video at once gives one chunk.
        Raises Error if the settings are not accepted."""
        return Stream(self, self._model.begin(_fields(prompt, settings), "chunks"))

    def close(self) -> None:
        """Ends the process. Requests in progress raise Error; videos that were returned stay."""
        self._closes()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_) -> None:
        self.close()


class Request:
    """A video that is made, or waits for its turn. For any thread."""

    def __init__(self, pipeline: Pipeline, task: Task):
        self._pipeline, self._task = pipeline, task  # the pipeline must not be collected before

    @property
    def progress(self) -> float:
        """The share of the work that is done, 0 to 1; it never falls."""
        return self._task.progress

    @property
    def done(self) -> bool:
        """Whether result() returns, or raises, at once."""
        return self._task.outcome is not None

    def cancel(self) -> None:
        """Ends it within a step of the sampler; result() then raises Error with reason "cancelled"."""
        self._task.cancel()

    def result(self, on_progress: Callable[[float], Any] | None = None) -> Video:
        """Waits for the video. on_progress: as of Pipeline.generate(). Raises Error."""
        return self._task.result(on_progress)


class Stream:
    """An iterator of the chunks of a video that is made meanwhile, for one thread at a time. The model is a few chunks
    ahead of the one that was taken last, and waits: two whose frames are in files, and at most four more.
    close(), the end of a `with` or of this object cancels the video; it ends, with an Error, when no chunk is taken for
    90 s. Later requests come after it, so the thread that takes its chunks cannot wait for them: that raises Error."""

    def __init__(self, pipeline: Pipeline, task: Task):
        self._pipeline, self._task = pipeline, task

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        return self._task.next_chunk()

    @property
    def progress(self) -> float:
        """As of a Request."""
        return self._task.progress

    @property
    def settings(self) -> dict:
        """As of a Video, after the last chunk."""
        return self._mp4().settings

    def save(self, path: str | os.PathLike) -> None:
        """As of a Video, after the last chunk."""
        self._mp4().save(path)

    def _mp4(self):
        if self._task.outcome is None:
            raise ValueError("the video is not finished; take its chunks to the last one")
        return self._task.result()

    def close(self) -> None:
        """Cancels the video unless it is finished. Chunks that were taken stay; no more come."""
        self._task.cancel()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        if task := getattr(self, "_task", None):
            task.cancel()
