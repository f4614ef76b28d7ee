"""The process that makes the videos of a model: `kinora generate` at the other end of a socket, with messages of JSON,
one a line (plugins/jobs/generate/serving.hpp)."""
from __future__ import annotations

import collections
import contextlib
import json
import logging
import os
import queue
import re
import signal
import socket
import subprocess
import threading
import time
from typing import Callable

from . import _library as _c

_LAST = 20  # lines of the log in an error


class ModelProcess:
    """It ends with stop(), and with this Python however that ends.

    arguments: of the program kinora. take: is called with each message, and end, once, with the reason of its end and,
    if it refused its arguments, with its word for that, else ""; both in a thread of this object. Raises Error if it
    cannot be started.
    """

    def __init__(self, arguments: list[str], take: Callable[[dict], None], end: Callable[[str, str], None]):
        self._take, self._end = take, end
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(None)  # whatever socket.setdefaulttimeout() says
        self._unsent: queue.SimpleQueue = queue.SimpleQueue()
        self._lines: collections.deque = collections.deque(maxlen=_LAST)
        self._errors: collections.deque = collections.deque(maxlen=_LAST)  # of them, but for warnings and less
        self._ending, self._is_over, self._over = threading.Lock(), False, threading.Event()
        self._is_stopping = False
        begun: queue.SimpleQueue = queue.SimpleQueue()
        # The system ends the process when the thread that started it ends, so that is a thread of its own.
        self._thread = threading.Thread(target=self._live, args=(arguments, theirs, begun), name="kinora-model",
                                        daemon=True)
        self._thread.start()
        try:
            error = begun.get()
        except BaseException:  # Ctrl-C
            self._socket.shutdown(socket.SHUT_RDWR)
            raise
        if error:
            raise _c.Error(-1, f"{_c.PREFIX / 'bin/kinora'} cannot be started: {error}")

    def send(self, message: dict) -> None:
        """From any thread, and from __del__: never waits. Raises TypeError or ValueError for what JSON has not."""
        self._unsent.put(json.dumps(message, allow_nan=False, ensure_ascii=False).encode() + b"\n")

    def stop(self, seconds: float = 5) -> None:
        """Lets it end by itself within this time, else kills it and all that it started."""
        self._is_stopping = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        own = threading.current_thread() is self._thread  # it collects garbage too
        try:
            self._over.wait(0 if own else seconds)
        finally:
            self._kill()
        self._over.wait(0 if own else 5)

    def _kill(self):
        with self._ending:
            if not self._is_over:
                os.killpg(self._process.pid, signal.SIGKILL)

    def _live(self, arguments, theirs, begun):
        program = str(_c.PREFIX / "bin/kinora")
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno()], start_new_session=True,
                    env={**_c.environment(), "KINORA_REQUESTS": str(theirs.fileno())})
        except Exception as error:
            self._is_over = True
            self._over.set()
            begun.put(error)
            return
        begun.put(None)
        others = [threading.Thread(target=work, name="kinora-model", daemon=True) for work in (self._log, self._write)]
        for one in others:
            one.start()
        self._read()
        self._await_end(1)
        self._kill()
        self._await_end()
        with self._ending:  # from now on the system may give its number to another process
            code, self._is_over = self._process.wait(), True
        self._unsent.put(None)
        others[0].join(2)
        self._over.set()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        wrong = "\n".join(self._errors or self._lines) if code == 2 else ""
        self._end(f"the model's process {how}; its log ends with:\n" + "\n".join(self._lines), wrong)

    def _await_end(self, seconds=None):
        """Waits until it has ended, and leaves its number taken."""
        until = seconds and time.monotonic() + seconds
        how = os.WEXITED | os.WNOWAIT | (os.WNOHANG if until else 0)
        with contextlib.suppress(ChildProcessError):
            while os.waitid(os.P_PID, self._process.pid, how) is None and time.monotonic() < until:
                time.sleep(0.02)

    def _read(self):
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    if line.endswith(b"\n"):
                        self._take(json.loads(line))
        except Exception as error:
            self._lines.append(f"its last message cannot be read: {error!r}")

    def _write(self):
        with contextlib.suppress(OSError), self._socket:
            while (line := self._unsent.get()) is not None:
                self._socket.sendall(line, socket.MSG_NOSIGNAL)

    def _log(self):
        logger = logging.getLogger("kinora")
        with self._process.stdout as lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip("\n")
                self._lines.append(text)
                said = re.fullmatch(r"[\d:]{8} (debug|info|warning|error) (.*)", text)
                level, text = said.groups() if said else ("info", text)
                if not said or level == "error":
                    self._errors.append(text.removeprefix("kinora: "))
                if self._is_stopping:  # it says that it was interrupted
                    level = "debug"
                logger.log(getattr(logging, level.upper()), "%s", text)
