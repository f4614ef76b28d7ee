"""The actors on the nodes: KinoraNode, one a node, and KinoraStage, one for each instance of a stage."""
import contextlib
import ctypes
import json
import os
import pathlib
import pickle
import queue
import threading

_BEAT = 1.0  # seconds between two looks at signs of life


class _Buffer(ctypes.Structure):
    """Python's Py_buffer."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


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
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(buffer), 0)
    out = buffer.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
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


class _Call:
    """A call of a stage on a thread of its own. What the stage tells waits in it until the reader has passed it on."""

    def __init__(self, stage, id_, what, samples, known):
        self.stage, self.id, self.what, self.samples, self.known = stage, id_, what, samples, known
        self.told, self.taken = queue.Queue(), threading.Semaphore(0)
        self.cancelled = False
        self.own = samples[0]._handle if what == "process" else None  # the input, until the stage emits it
        threading.Thread(target=self._run, name="kinora").start()

    def cancel(self):
        self.cancelled = True
        self.stage.cancel()

    def _tell(self, what, fields, handle=None):
        from kinora import _samples
        if handle is not None and handle == self.own:
            self.own = None
        try:
            packed = _Packed(handle, self.known) if handle is not None else None
            if not self.cancelled:
                self.told.put((what, fields, packed))
                self.taken.acquire()
            return -8 if self.cancelled else 0
        except Exception as error:  # a sample with tensors on a GPU
            self.refused = str(error)
            return -4
        finally:
            if handle is not None:
                _samples._samples().release(handle)

    def _table(self):
        c, _ = _library()

        def words(given):
            return (given or b"").decode(errors="replace")

        def made_of(_, keys, n):
            names = ctypes.cast(keys, ctypes.POINTER(c.Str))
            return self._tell("made_of", {"keys": [c.text(names[i]) for i in range(n)]})

        self.made_of = _MADE_OF(made_of)
        return c.Emit(emit=c.EMIT(lambda _, sample: self._tell("emit", {}, sample)),
                      drop=c.DROP(lambda _, sample, rule, score: self._tell(
                          "drop", {"rule": words(rule), "score": float(score)}, sample)),
                      hold=c.HOLD(lambda _: self._tell("hold", {})),
                      stored=c.STORED(lambda _, key: self._tell("stored", {"key": c.text(key)})),
                      fail=c.FAIL(lambda _, sample, reason: self._tell(
                          "fail", {"reason": words(reason)[:16384]}, sample)),
                      made_of=ctypes.cast(self.made_of, ctypes.c_void_p))

    def _fields(self, sample):
        """{name: (address, size)} of its byte fields."""
        from kinora import _samples
        c, _ = _library()
        out, name, value = {}, c.Str(), c.Str()
        while _samples._samples().field(sample._handle, len(out), ctypes.byref(name), ctypes.byref(value)) == 0:
            out[c.text(name)] = (value.data, value.size)
        return out

    def _run(self):
        c, library = _library()
        self.refused, status, message, ended = "", -1, "", False
        try:
            handle, to = self.stage._opened(), self._table()
            before = self._fields(self.samples[0]) if self.own else None
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
        self.told.put(("done", {"status": min(status, 0), "message": message, "ended": ended}, None))

    def _tell_what_was_set(self, before):
        """A stage that does not emit its input may still have set fields of it, which go into its record."""
        from kinora import Sample
        sample = self.samples[0]
        changed = {name: sample[name] for name, place in self._fields(sample).items() if before.get(name) != place}
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
    """Keeps what the job uses of its node, so that Ray gives it to nobody else."""

    def about(self):
        import kinora
        import ray
        return {"fingerprint": kinora.fingerprint(), "gpus": ray.get_gpu_ids(), "memory": _memory() // 4 * 3,
                "token": os.environ.get("RAY_AUTH_MODE") == "token"}

    def here(self):
        """Answers, if its node is there."""

    def spilled(self):
        """Bytes that the node's object store has on disk."""
        import ray
        session = ray._private.worker._global_node.get_session_dir_path()
        folder = f"{session}/ray_spilled_objects_{ray.get_runtime_context().get_node_id()}"
        return sum(file.stat().st_size for file in os.scandir(folder)) if os.path.isdir(folder) else 0


class KinoraStage:
    """One open stage. serve() is a generator of what the stage tells; Ray holds it back until the bridge has read."""

    def __init__(self):
        self.call = self.stage = self.id = None

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

    def serve(self, what, inputs, *pieces):
        """Yields (what, fields, head, numbers of its pieces), and after it each piece that has none; the last one is
        "done". inputs: (packet, numbers of its pieces). The pieces of a dead process that it has yielded live on."""
        pieces, samples, kept, known = iter(pieces), [], [], {}
        for packet, numbers in inputs:
            parts = [_aligned(next(pieces)) for _ in numbers]
            known.update(((address, size), number) for (address, size, _), number in zip(parts, numbers) if number)
            samples.append(unpacked(packet, parts))
            kept += parts  # an address means a piece until the end of the call
        self.call = call = _Call(self.stage, self.id, what, samples, known)
        beats = self.stage.beats
        while True:
            try:
                told, fields, packed = call.told.get(timeout=_BEAT)
            except queue.Empty:
                now = self.stage.beats
                if now != beats:
                    beats = now
                    yield "beat", {}, b"", []
                continue
            yield told, fields, packed.head if packed else b"", packed.numbers if packed else []
            if packed:
                while packed.pieces:
                    yield packed.pieces.pop(0)
                packed.release()
            call.taken.release()
            if told == "done":
                return

    def here(self):
        """Answers, in a thread of its own, if the process is there."""

    def cancel(self):
        """In a thread of its own, during serve()."""
        if self.call:
            self.call.cancel()
