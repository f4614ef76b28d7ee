"""Videos, their chunks, and the making of one."""
from __future__ import annotations

import collections
import dataclasses
import mmap
import os
import shutil
import threading
from typing import Any, Callable

from . import _library as _c
from ._frames import Frames


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Consecutive frames of a video."""

    frames: Frames  # uint8 [T, H, W, 3]
    first_frame: int  # the number of its first one, from 0
    time: float  # of that one in the video, in seconds


class Mp4:
    """The MP4 of a finished video."""

    fps: float
    settings: dict  # all that makes it again, as the MP4 has it: prompt, seed, options, versions, and speeds

    def __init__(self, file: str, fps: float, settings: dict):
        """Takes the bytes of a file, and removes it."""
        self.fps, self.settings = fps, settings
        with open(file, "rb") as opened:
            self._bytes = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        os.unlink(file)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the MP4 (H.264), with its settings: `kinora generate --from` makes it again."""
        part = f"{os.fspath(path)}.{os.getpid()}.part"
        try:
            with open(part, "wb") as out:
                out.write(self._bytes)
            os.replace(part, path)
        finally:
            if os.path.exists(part):
                os.unlink(part)


class Video(Mp4):
    """A finished video: its MP4 and its frames."""

    frames: Frames  # uint8 [T, H, W, 3], all of them

    def __init__(self, frames: Frames, file: str, fps: float, settings: dict):
        super().__init__(file, fps, settings)
        self.frames = frames

    def __repr__(self) -> str:
        return f"kinora.Video({self.frames}, fps={self.fps:g})"


class Task:
    """The making of a video. `changed` guards it, and is notified of each change."""

    def __init__(self, id: str, folder: str, fields: dict, process, changed, streams):
        """streams: the model's tasks whose chunks are taken."""
        self.id, self.folder, self.fields, self._process, self._changed = id, folder, fields, process, changed
        self._streams = streams
        self.taker: int | None = threading.get_ident()  # thread that takes its chunks; None: it is over for it
        self.progress: float = 0.0
        self.outcome: Any = None  # at the end an Mp4, which is a Video if its frames were not taken, or an Error
        self._chunks: collections.deque = collections.deque()
        self._is_cancelled = False

    def take(self, message: dict) -> bool:
        """With the lock: notes what the process says. True: it was the last message."""
        if "frames" in message:
            if not self._is_cancelled:
                self._chunks.append(message)
        elif "done" in message:
            self.end(self._made(message))
        elif "failed" in message:
            self.end(_c.Error(-8 if self._is_cancelled else -1, message["failed"]))
        else:
            self.progress = max(self.progress, message.get("progress", 0.0))
        return self.outcome is not None

    def _made(self, message):
        try:
            whole, done = os.path.join(self.folder, "frames"), message["done"]
            shape = (done["num_frames"], done["height"], done["width"], 3)
            mp4 = (os.path.join(self.folder, "video.mp4"), self.fields["fps"], message["settings"])
            return Video(Frames(whole, shape), *mp4) if os.path.exists(whole) else Mp4(*mp4)
        except (OSError, ValueError) as error:
            return _c.Error(-5, f"the video cannot be read: {error}")

    def end(self, outcome: Any) -> None:
        """With the lock. Chunks that were not taken stay."""
        self.outcome = outcome
        if isinstance(outcome, Mp4):
            self.progress = 1.0
        if not self._chunks:
            shutil.rmtree(self.folder, ignore_errors=True)

    def cancel(self) -> None:
        with self._changed:
            if self.outcome is None and not self._is_cancelled:
                self._is_cancelled = True
                self._process.send({"cancel": self.id})
            self.taker = None
            self._changed.notify_all()
            self._drop()

    def _require_turn(self):
        """With the lock: the tasks before it are not streams that wait for this same thread."""
        me = threading.get_ident()
        if self.outcome is None and any(one.taker == me and int(one.id) < int(self.id) for one in self._streams):
            raise _c.Error(-2, "this thread has a stream open whose video comes first and waits for its chunks to be "
                               "taken; finish or close the stream first")

    def _drop(self):
        self._chunks.clear()
        if self.outcome is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def result(self, on_progress: Callable[[float], Any] | None = None) -> Any:
        told = -1.0
        while True:
            with self._changed:
                self._require_turn()
                self._changed.wait_for(lambda: self.outcome is not None or (on_progress and self.progress > told))
                progress, outcome = self.progress, self.outcome
            if on_progress and progress > told:
                told = progress
                on_progress(progress)
            if isinstance(outcome, Mp4):
                return outcome
            if outcome is not None:
                raise outcome.with_traceback(None)

    def next_chunk(self) -> Chunk:
        with self._changed:
            self.taker = threading.get_ident() if self.taker else None
            if not self._chunks:
                self._require_turn()
            self._changed.wait_for(lambda: self._chunks or self._is_cancelled or self.outcome is not None)
            if self._is_cancelled or not self._chunks:
                self.taker = None
            if self._is_cancelled or (not self._chunks and isinstance(self.outcome, Mp4)):
                raise StopIteration
            if not self._chunks:
                raise self.outcome.with_traceback(None)
            message = self._chunks.popleft()
        first = message["first_frame"]
        try:
            chunk = Chunk(Frames(message["file"], message["frames"]), first, first / self.fields["fps"])
        except (OSError, ValueError) as error:
            raise _c.Error(-5, f"the chunk from frame {first} on cannot be read: {error}") from None
        self._process.send({"steer": self.id, "taken": message["number"]})
        if self.outcome is not None and not self._chunks:
            self._drop()
        return chunk
