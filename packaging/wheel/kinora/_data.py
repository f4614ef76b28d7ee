"""The samples of shards in the order in which a training takes them, as batches for a loop in Python."""
import json
import queue
import threading

from . import _library as _c
from ._samples import Sample


class _Order:
    """kinora/data.h: the sample of each slot. Used by one thread."""

    def __init__(self, host, table, stages, seed):
        handle = _c.c_void_p()
        _c.check(_c.loading().kinora_data_open(host, table.encode(), json.dumps(list(stages)).encode(), seed,
                                               _c.byref(handle)))
        self._handle = handle
        self.digest = _c.loading().kinora_data_digest(handle).decode()
        self.size = _c.loading().kinora_data_pass(handle)

    def close(self):
        _c.loading().kinora_data_close(self._handle)

    def follow(self, first, count, of):
        _c.check(_c.loading().kinora_data_follow(self._handle, first, count, of))

    def stats(self):
        parts = []

        @_c.WRITE
        def write(_, data, size):
            parts.append(_c.string_at(data, size))

        _c.check(_c.loading().kinora_data_stats(self._handle, _c.Sink(write=write)))
        return json.loads(b"".join(parts))

    def sample(self, slot):
        handle = _c.c_void_p()
        _c.check(_c.loading().kinora_data_at(self._handle, slot, _c.byref(handle)))
        return Sample._adopt(handle.value)


class Loader:
    """An endless iterator of batches, each a list of Sample objects; see kinora.load(). Its thread works until close(),
    or the end of a `with`."""

    def __init__(self, host, table, *, batch, stages, seed, rank, ranks, state, ahead):
        if batch < 1 or batch % ranks or not 0 <= rank < ranks:
            raise ValueError(f"batch = {batch} must be a multiple of ranks = {ranks}, and rank = {rank} below it")
        if ahead < 1:
            raise ValueError(f"ahead = {ahead} must be at least 1: batches that are made while the caller computes")
        self._batch, self._share, self._rank = batch, batch // ranks, rank
        self._order = _Order(host, table, stages, seed)
        self._slots, self._digest, self._pass = 0, self._order.digest, self._order.size
        if state is not None:
            self._slots = self._slots_of(state)
        self._order.follow(self._slots + rank * self._share, self._share, batch)
        self._made, self._ends = queue.Queue(ahead), threading.Event()
        self._thread = threading.Thread(target=self._work, args=(self._slots,), name="kinora-loader", daemon=True)
        self._thread.start()

    def _slots_of(self, state):
        slots, data = (state.get("slots"), state.get("data")) if isinstance(state, dict) else (None, None)
        if type(slots) is not int or not 0 <= slots < 2**63 or not isinstance(data, str):
            raise ValueError(f"state = {state!r}: not a position in data; give what state() of a loader returned")
        if data != self._digest:
            raise ValueError(
                "the state is of other data; the table, the shards and the seed must be those that it was saved with")
        return slots

    def __len__(self):
        """Batches in one pass over the data."""
        return self._pass // self._batch

    def state(self):
        """The position after the last batch that was taken, a small dict for a checkpoint. It fits any rank and number
        of ranks."""
        return {"slots": self._slots, "data": self._digest}

    def stats(self):
        """What was done so far: {"samples": taken from the data, "failed", "dropped": {rule of a stage: samples that it
        dropped}, "left_out": {"part", "where"}, "waited": seconds for samples, "bytes": {path of a set: read from it},
        "cache_hits", "cache_bytes", "ready": samples read ahead, "ahead_peak": most bytes of those at once}."""
        return self._order.stats() if self._order else self._last_stats

    def __iter__(self):
        return self

    def __next__(self):
        made = self._made.get()
        if isinstance(made, BaseException):
            self._made.put(made)  # for the next call
            raise made
        self._slots += self._batch
        return made

    def close(self):
        """Ends the loader's thread. After it next() raises ValueError."""
        self._ends.set()
        while self._thread.is_alive() or not self._made.empty():
            try:
                self._made.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)
        self._made.put(ValueError("the loader is closed; open another one with state=loader.state()"))
        if self._order:
            self._last_stats = self._order.stats()
            self._order.close()
            self._order = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _put(self, item):
        while not self._ends.is_set():
            try:
                return self._made.put(item, timeout=0.1)
            except queue.Full:
                pass

    def _work(self, slots):
        try:
            while not self._ends.is_set():
                first = slots + self._rank * self._share
                self._put([self._order.sample(slot) for slot in range(first, first + self._share)])
                slots += self._batch
        except BaseException as error:
            self._put(error)
