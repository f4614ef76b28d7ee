"""Stages that are open, called with samples; and the outcomes of such calls."""
import json
import os
import threading
from typing import NamedTuple

from . import _library as _c
from ._samples import Sample


class Dropped(NamedTuple):
    sample: Sample
    rule: str
    score: float


class Failed(NamedTuple):
    key: str
    reason: str


class Applied(NamedTuple):
    """The outcomes of apply(): samples that left the last stage, that a stage filtered, and that failed."""

    kept: list
    dropped: list
    failed: list


class Outcomes(NamedTuple):
    """The outcomes of one call of a Stage: those of Applied, and keys of inputs: that one stage holds back for a later
    call, and that it held and has stored by itself."""

    kept: list
    dropped: list
    failed: list
    held: list
    stored: list


def collected(call, cancel, key=None):
    """The Outcomes of call(to), a call of the C API that Ctrl-C stops by cancel(). key: of the input that may be held.
    Raises what a callback of `to` raised, else Error, which has those before it."""
    outcomes, raised = Outcomes([], [], [], [], []), []

    def callback(take):

        def take_or_fail(_, *arguments):
            try:
                take(*arguments)
                return 0
            except BaseException as error:
                raised.append(error)
                return -1

        return take_or_fail

    def words(given):
        return (given or b"").decode(errors="replace")

    def drop(sample, rule, score):
        outcomes.dropped.append(Dropped(Sample._adopt(sample), words(rule), score))

    def fail(sample, reason):
        outcomes.failed.append(Failed(Sample._adopt(sample).key, words(reason)))

    to = _c.Emit(emit=_c.EMIT(callback(lambda sample: outcomes.kept.append(Sample._adopt(sample)))),
                 drop=_c.DROP(callback(drop)),
                 hold=_c.HOLD(callback(lambda: outcomes.held.append(key))),
                 stored=_c.STORED(callback(lambda key: outcomes.stored.append(_c.text(key)))),
                 fail=_c.FAIL(callback(fail)))
    try:
        interruptible(lambda: _c.check(call(to)), cancel)
    except _c.Error as error:
        error.outcomes = outcomes
        raised.append(error)
    if raised:
        raise raised[0]
    return outcomes


def interruptible(call, cancel):
    """Calls it in another thread, so that Ctrl-C, or what else a signal's handler raises, stops it by cancel(); returns
    when it has ended. Raises what it raises."""
    raised, begun, done = [], threading.Lock(), threading.Event()

    def body():
        if not begun.acquire(blocking=False):
            return
        try:
            call()
        except BaseException as error:
            raised.append(error)
        done.set()

    try:
        threading.Thread(target=body, name="kinora").start()
        while not done.wait(0.1):  # Thread.join() takes an interrupted wait for the thread's end (Python 3.11)
            pass
    except BaseException:
        if not begun.acquire(blocking=False):
            _stop(cancel, done)
        raise
    if raised:
        raise raised[0]


def _stop(cancel, done):
    """Ends a call whose thread has begun: a cancel() before it is inside libkinora does nothing, so there are many."""
    while True:
        try:
            while not done.wait(0.05):
                cancel()
            return
        except BaseException:  # one more Ctrl-C
            pass


class Stage:
    """One stage, or a chain of them, that stays open until close() or the end of a `with`; see kinora.stage(). One
    thread at a time calls process() and finish(); cancel() and beats are for any thread."""

    def __init__(self, host, stages, *, device, out, seed, threads):
        self._handle = None
        options = _c.StageOptions(n_threads=threads, stages=json.dumps(list(stages)).encode(), seed=seed)
        options.device = device.encode() if device is not None else None
        options.out = os.fsencode(out) if out is not None else None
        handle = _c.c_void_p()
        _c.check(_c.library().kinora_embed_stage_open(host, options, _c.byref(handle)))
        self._handle = handle

    def _opened(self):
        if self._handle is None:
            raise ValueError("the stage is closed; open another one")
        return self._handle

    def _call(self, function, *arguments, key=None):
        handle = self._opened()
        return collected(lambda to: function(handle, *arguments, to), self.cancel, key)

    def process(self, samples):
        """Gives it a sample, or several, and returns the Outcomes of this call.

        One stage: an error on the sample is raised as Error, and so is a death of its process, after which `ended` is
        true and the next call uses a new process; `outcomes` of the Error are those before it. Several samples are
        one batch, at most resources()["batch"]. A chain takes any number; an error on a sample is its outcome.
        """
        samples = [samples] if isinstance(samples, Sample) else list(samples)
        handles = (_c.c_void_p * len(samples))(*(sample._handle for sample in samples))
        key = samples[0].key if samples else None  # no input of a batch is held
        return self._call(_c.library().kinora_embed_stage_process, handles, len(samples), key=key)

    def finish(self):
        """No more input: returns the Outcomes of what the stages held. Only close() may follow."""
        return self._call(_c.library().kinora_embed_stage_finish)

    def resources(self):
        """What one stage occupies: {"ordered", "cores", "gpus", "memory", "isolated", "nvdec", "nvenc", "batch"}.
        Raises Error for a chain."""
        out = _c.Resources()
        _c.check(_c.library().kinora_embed_stage_resources(self._opened(), out))
        return {name: getattr(out, name) for name, _ in out._fields_[1:]}

    @property
    def ended(self):
        """Whether the last call raised Error because the stage's process died."""
        return _c.library().kinora_embed_stage_ended(self._opened()) != 0

    @property
    def beats(self):
        """A number that grows with each sign of life of the stages, also during a call."""
        return _c.library().kinora_embed_stage_beats(self._opened())

    def cancel(self):
        """Asks the call that is in progress to stop: it raises Error with reason "cancelled"."""
        _c.library().kinora_embed_stage_cancel(self._opened())

    def close(self):
        """Closes it, also without finish(): what the stages hold is then lost. Not during a call."""
        if self._handle is not None:
            _c.library().kinora_embed_stage_close(self._handle)
            self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()
