"""The actors on the nodes: KinoraNode, one a node, and KinoraStage, one for each instance of a stage."""
import collections
import contextlib
import ctypes
import itertools
import json
import os
import pathlib
import pickle
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from ._processes import largest

_BEAT = 1.0  # seconds between two looks at signs of life
_QUICK = 0.02  # seconds in which most small calls end
_AHEAD, _SHORT = 16, 4096  # letters without pieces that may wait in a call, and the most bytes of one
_SMALL = 32 << 10  # bytes of a field that is in a head, as in host/workers/sample_message.hpp


class _Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_uint64)]


_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_PIECE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _Bytes, ctypes.c_void_p)
_MADE_OF = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
_lent, _next = {}, iter(range(1, 1 << 62))  # pieces that samples use, by the number that release() gets


@_RELEASE
def _release(number):
    _lent.pop(number, None)


def _address(view):
    buffer = (ctypes.c_void_p * 12)()  # Python's Py_buffer, which has 10 words; the first is the address
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), buffer, 0)
    out = buffer[0]
    ctypes.pythonapi.PyBuffer_Release(buffer)
    return out


def _aligned(piece):
    """(address, size, owner) of the piece, in a copy if it begins where a tensor could not."""
    view = memoryview(piece).cast("B")
    address = _address(view)
    if address % 64 == 0:
        return address, len(view), view
    copy = ctypes.create_string_buffer(len(view) + 64)
    begin = -ctypes.addressof(copy) % 64
    memoryview(copy).cast("B")[begin:begin + len(view)] = view
    return ctypes.addressof(copy) + begin, len(view), copy


def _library():
    from kinora import _library as c
    library = c.library()
    if not library.kinora_embed_unpack.argtypes:
        library.kinora_embed_pack.restype = library.kinora_embed_unpack.restype = ctypes.c_int32
        library.kinora_embed_pack.argtypes = [ctypes.c_void_p, ctypes.POINTER(c.Sink), _PIECE]
        library.kinora_embed_store.restype = ctypes.c_int32
        library.kinora_embed_store.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(c.Sink)]
        library.kinora_embed_unpack.argtypes = [_Bytes, ctypes.POINTER(_Bytes), ctypes.c_uint64, _RELEASE,
                                                ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]
    return c, library


def unpacked(packet, parts):
    """The kinora.Sample of a letter and what _aligned() gave of its pieces."""
    from kinora import Sample
    c, library = _library()
    number, out = next(_next), ctypes.c_void_p()
    head = ctypes.create_string_buffer(packet, len(packet))
    given = (_Bytes * len(parts))(*(_Bytes(address, size) for address, size, _ in parts))
    _lent[number] = parts
    try:
        c.check(library.kinora_embed_unpack(_Bytes(ctypes.addressof(head), len(packet)), given, len(parts), _release,
                                            number, ctypes.byref(out)))
    except c.Error:
        _lent.pop(number, None)
        raise
    return Sample._adopt(out.value)


class _Packed:
    """A sample's head; for each of its pieces the number by which the bridge knows it, or 0; and the others, which are
    valid until release(). known: {(address, size): number}."""

    def __init__(self, handle, known):
        from kinora import _samples
        c, library = _library()
        self.head, self.numbers, self.pieces, self.keepers, self.samples = b"", [], [], [], _samples._samples()

        def write(_, data, size):
            self.head += ctypes.string_at(data, size)

        def piece(_, data, keeper):
            self.numbers.append(known.get((data.data, data.size), 0))
            if self.numbers[-1]:
                return self.samples.release(keeper)
            memory = (ctypes.c_char * data.size).from_address(data.data)
            self.pieces.append(pickle.PickleBuffer(memoryview(memory).cast("B")))
            self.keepers.append(keeper)

        c.check(library.kinora_embed_pack(handle, c.Sink(None, c.WRITE(write)), _PIECE(piece)))

    def release(self):
        for keeper in self.keepers:
            self.samples.release(keeper)


def _fields(handle):
    """{name: (address, size)} of a sample's byte fields."""
    from kinora import _samples
    c, _ = _library()
    out, name, value = {}, c.Str(), c.Str()
    while _samples._samples().field(handle, len(out), ctypes.byref(name), ctypes.byref(value)) == 0:
        out[c.text(name)] = (value.data, value.size)
    return out


def _stored(folder, handle):
    """Stores the sample in a new folder. Returns what is told of it, and the handle of a sample with the fields that
    the record may need; None: it cannot be stored there."""
    from kinora import Sample, _samples
    c, library = _library()
    files = bytearray()
    write = c.WRITE(lambda _, data, size: files.extend(ctypes.string_at(data, size)))
    try:
        os.mkdir(folder)
        c.check(library.kinora_embed_store(os.fsencode(folder), handle, c.Sink(None, write)))
        kept = Sample(c.text(_samples._samples().key(handle)),
                      {name: ctypes.string_at(data, size) for name, (data, size) in _fields(handle).items()
                       if size < _SMALL or name.endswith(("json", "txt"))})
    except (OSError, c.Error):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    out, kept._handle = kept._handle, None
    return {"folder": folder, "files": json.loads(files)}, out


class _Call:
    """A call of a stage, which runs on another thread. What the stage tells waits here until the bridge has read it,
    and so does the stage; of small letters, _AHEAD may wait before it does."""

    def __init__(self, stage, id_, what, samples, known, kept, folder):
        self.stage, self.id, self.what, self.samples, self.known = stage, id_, what, samples, known
        self.folders = (f"{folder}-{i}" for i in itertools.count()) if folder else None
        self.kept = kept  # an address means a piece until the end of the call
        self.told, self.given, self.changed = collections.deque(), 0, threading.Condition()
        self.cancelled = False
        self.own = samples[0]._handle if what == "process" else None  # the input, until the stage emits it

    def cancel(self):
        with self.changed:
            self.cancelled = True
            self.changed.notify_all()
        self.stage.cancel()

    def _is_full(self):
        """Whether the stage waits, or has ended."""
        if not self.told:
            return False
        what, _, packed = self.told[-1]
        is_small = not packed or not packed.pieces and len(packed.head) < _SHORT
        return what == "done" or not is_small or self.given + len(self.told) >= _AHEAD

    def letters(self, seconds, whole):
        """What was told within this time: (what, fields, packed), of which only the last may have pieces, and only if
        whole. The bridge has read what the call before returned."""
        out = []
        with self.changed:
            self.given = 0
            self.changed.notify_all()
            if self.changed.wait_for(lambda: self.told, seconds):
                self.changed.wait_for(self._is_full, _QUICK)
            large = False
            while self.told and not large:
                large = self.told[0][2] is not None and bool(self.told[0][2].pieces)
                if large and not whole:
                    break
                out.append(self.told.popleft())
            self.given = len(out)
        return out

    def _put(self, what, fields, packed):
        with self.changed:
            if what != "done" and self.cancelled:
                return
            self.told.append((what, fields, packed))
            self.changed.notify_all()
            if what != "done" and self._is_full():
                self.changed.wait_for(lambda: self.cancelled or not self.given and not self.told)

    def _tell(self, what, fields, handle=None):
        from kinora import _samples
        if handle is not None and handle == self.own:
            self.own = None
        try:
            packed = _Packed(handle, self.known) if handle is not None else None
            self._put(what, fields, packed)
            return -8 if self.cancelled else 0
        except Exception as error:  # a sample with tensors on a GPU
            self.refused = str(error)
            return -4
        finally:
            if handle is not None:
                _samples._samples().release(handle)

    def _emit(self, handle):
        """What leaves the pipeline is stored here, if that can be; else its bytes go where the others do."""
        from kinora import _samples
        stored = _stored(next(self.folders), handle) if self.folders and not self.cancelled else None
        if not stored:
            return self._tell("emit", {}, handle)
        if handle == self.own:
            self.own = None
        _samples._samples().release(handle)
        return self._tell("emit", {"stored": stored[0]}, stored[1])

    def _table(self):
        c, _ = _library()

        def words(given):
            return (given or b"").decode(errors="replace")

        def made_of(_, keys, n):
            names = ctypes.cast(keys, ctypes.POINTER(c.Str))
            return self._tell("made_of", {"keys": [c.text(names[i]) for i in range(n)]})

        self.made_of = _MADE_OF(made_of)
        return c.Emit(emit=c.EMIT(lambda _, sample: self._emit(sample)),
                      drop=c.DROP(lambda _, sample, rule, score: self._tell(
                          "drop", {"rule": words(rule), "score": float(score)}, sample)),
                      hold=c.HOLD(lambda _: self._tell("hold", {})),
                      stored=c.STORED(lambda _, key: self._tell("stored", {"key": c.text(key)})),
                      fail=c.FAIL(lambda _, sample, reason: self._tell(
                          "fail", {"reason": words(reason)[:16384]}, sample)),
                      made_of=ctypes.cast(self.made_of, ctypes.c_void_p))

    def run(self):
        c, library = _library()
        self.refused, status, message, ended = "", -1, "", False
        try:
            handle, to = self.stage._opened(), self._table()
            before = _fields(self.samples[0]._handle) if self.own else None
            if self.what == "finish":
                status = library.kinora_embed_stage_finish(handle, to)
            else:
                handles = (ctypes.c_void_p * len(self.samples))(*(sample._handle for sample in self.samples))
                status = library.kinora_embed_stage_process(handle, handles, len(self.samples), to)
            if status < 0:
                # libkinora names the stage, and the sample whose process died; the engine does so itself.
                message = self.refused or library.kinora_embed_error().decode(errors="replace")
                message, ended = message.removeprefix(f"{self.id}: "), self.stage.ended
                if ended and self.samples:
                    message = message.removeprefix(f"{self.samples[0].key}: ")
            elif self.own:
                self._tell_what_was_set(before)
        except Exception as error:
            status, message = getattr(error, "code", -1), str(error)
        self._put("done", {"status": min(status, 0), "message": message, "ended": ended}, None)

    def _tell_what_was_set(self, before):
        """A stage that does not emit its input may still have set fields of it, which go into its record."""
        from kinora import Sample
        sample = self.samples[0]
        changed = {name: sample[name] for name, place in _fields(sample._handle).items() if before.get(name) != place}
        if changed:
            changes = Sample(sample.key, changed)
            handle, changes._handle = changes._handle, None
            self._tell("set", {}, handle)


def _memory(root=""):
    """memory_of_machine() of kinora/memory.hpp."""
    out = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError), open(f"{root}/proc/self/cgroup") as groups:
        for _, controllers, path in (line.rstrip("\n").split(":", 2) for line in groups):
            place, name = ("/memory", "memory.limit_in_bytes") if controllers else ("", "memory.max")
            for group in (path, *map(str, pathlib.PurePosixPath(path).parents)):
                with contextlib.suppress(OSError, ValueError), \
                     open(f"{root}/sys/fs/cgroup{place}{group}/{name}") as bound:
                    if not controllers or "memory" in controllers.split(","):
                        out = min(out, int(bound.read()))
    return out


class KinoraNode:
    """Keeps what the job uses of its node, so that Ray gives it to nobody else, and bounds the memory of its stages."""

    def __init__(self):
        self.memory, self.killed = _memory() // 4 * 3, []
        threading.Thread(target=self._watch, daemon=True).start()

    def about(self):
        import kinora
        import ray
        return {"fingerprint": kinora.fingerprint(), "gpus": ray.get_gpu_ids(), "memory": self.memory,
                "token": os.environ.get("RAY_AUTH_MODE") == "token"}

    def _watch(self):
        """As engine/local's worker_memory: kills the largest process when all hold more than they may."""
        while True:
            time.sleep(_BEAT)
            if found := largest(os.getppid(), "ray::KinoraStage", self.memory):
                with contextlib.suppress(OSError):
                    os.kill(found[0], signal.SIGKILL)
                    self.killed.append(f"killed a process with {found[1] >> 20} MiB, the most of its stages' processes"
                                       f", which held {found[2] >> 20} MiB, more than three quarters of its memory")

    def here(self):
        """Answers, if its node is there."""

    def write(self, folder):
        """A file in a new folder, as a kept sample is stored."""
        os.mkdir(folder)
        pathlib.Path(folder, "probe").touch()

    def looked(self):
        """Bytes that the node's object store has on disk, and what was said of processes since the last look."""
        import ray
        session = ray._private.worker._global_node.get_session_dir_path()
        folder = f"{session}/ray_spilled_objects_{ray.get_runtime_context().get_node_id()}"
        said, self.killed = self.killed, []
        return sum(file.stat().st_size for file in os.scandir(folder)) if os.path.isdir(folder) else 0, said


class KinoraStage:
    """One open stage, and its call: begin() returns what it tells at first, and rest() what comes then, if it is not
    over. Letters are (what, fields, head, numbers of its pieces); the last one of a call is "done"."""

    def __init__(self):
        self.call = self.stage = self.id = None
        self.thread = ThreadPoolExecutor(1, "kinora")

    def open(self, spec):
        """Returns the stage's resources."""
        import kinora
        gpus = spec["gpus"]  # of the node
        if gpus:
            used = [gpus[i] for i in spec["devices"]] or gpus
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, used))
        stages = [{**json.loads(spec["options"]), "use": spec["id"].partition("/")[2]}]
        with kinora.stage(stages, out=spec["out"] or None, seed=spec["seed"]) as first:
            resources = first.resources()
        self.id = spec["id"]
        threads = max(1, int(min(resources["cores"], spec["cores"])))
        device = "cuda" if gpus and resources["gpus"] > 0 else "cpu"
        self.stage = kinora.stage(stages, device=device, out=spec["out"] or None, seed=spec["seed"], threads=threads)
        return resources

    def begin(self, what, inputs, folder, *pieces):
        """Begins a call. Returns letters without new pieces. inputs: (packet, numbers of its pieces). folder: what it
        emits is stored in folders whose names begin so; "": in none."""
        pieces, samples, kept, known = iter(pieces), [], [], {}
        for packet, numbers in inputs:
            parts = [_aligned(next(pieces)) for _ in numbers]
            known.update(((address, size), number) for (address, size, _), number in zip(parts, numbers) if number)
            samples.append(unpacked(packet, parts))
            kept += parts
        self.call = _Call(self.stage, self.id, what, samples, known, kept, folder)
        self.thread.submit(self.call.run)
        return self.passed_on(self.call.letters(_QUICK, False))

    def rest(self):
        """Yields lists of letters, and after each the pieces of its last one that have no number. Ray holds it back
        until the bridge has read. The pieces of a dead process that it has yielded live on."""
        beats = self.stage.beats
        while self.call:
            letters = self.call.letters(_BEAT, True)
            if letters:
                yield self.passed_on(letters)
                if packed := letters[-1][2]:
                    while packed.pieces:
                        yield packed.pieces.pop(0)
                    packed.release()
            elif (now := self.stage.beats) != beats:
                beats = now
                yield [("beat", {}, b"", [])]

    def passed_on(self, letters):
        if letters and letters[-1][0] == "done":
            self.call = None
        return [(what, fields, packed.head if packed else b"", packed.numbers if packed else [])
                for what, fields, packed in letters]

    def here(self):
        """Answers, in a thread of its own, if the process is there."""

    def cancel(self):
        """In a thread of its own, during a call."""
        if call := self.call:
            call.cancel()
