"""libkinora_embed's C API (kinora/embed.h, kinora/data.h) by ctypes, and where the library and libtorch are."""
import ctypes
import functools
import importlib.util
import json
import os
import pathlib
import sys
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_uint8, c_uint16,
                    c_uint32, c_uint64, c_void_p,
                    string_at)  # byref, string_at: for the other modules

DRAFT = 3  # KINORA_EMBED_DRAFT
PREFIX = pathlib.Path(os.environ.get("KINORA_PREFIX") or pathlib.Path(__file__).parent / "prefix")
if "torch" not in sys.modules:  # else it is too late, and libkinora says so
    # as libkinora does (core/runtime/runtime.cpp), but before a torch that is imported next
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
CODES = {-1: "failed", -2: "invalid", -3: "not found", -4: "unsupported", -5: "io", -6: "no memory", -7: "data",
         -8: "cancelled", -9: "timeout", -10: "refused"}


class Error(RuntimeError):
    """What is wrong, where, and what to do. code: a KINORA_ERROR_* of the C API; reason: its name; outcomes: of
    apply() and of a call of a Stage, those before the error, else None."""

    def __init__(self, code, message):
        super().__init__(message or CODES.get(code, "failed"))
        self.code, self.reason, self.outcomes = code, CODES.get(code, "failed"), None


class Str(Structure):
    _fields_ = [("data", c_void_p), ("size", c_uint64)]


class Sized(Structure):
    """A struct that begins with its size."""

    def __init__(self, **members):
        super().__init__(struct_size=ctypes.sizeof(self), **members)


LOG = CFUNCTYPE(None, c_void_p, c_int32, Str)
EMIT = CFUNCTYPE(c_int32, c_void_p, c_void_p)
DROP = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_char_p, c_double)
HOLD = CFUNCTYPE(c_int32, c_void_p)
STORED = CFUNCTYPE(c_int32, c_void_p, Str)
FAIL = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_char_p)
WRITE = CFUNCTYPE(None, c_void_p, c_void_p, c_uint64)


class Options(Sized):
    _fields_ = [("struct_size", c_uint32), ("draft", c_uint32), ("plugin_folders", POINTER(c_char_p)),
                ("n_plugin_folders", c_uint64),
                ("log_level", c_char_p), ("log", LOG), ("user", c_void_p)]


class RunOptions(Sized):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("file", c_char_p), ("text", c_char_p),
                ("out", c_char_p), ("only", c_char_p),
                ("sets", POINTER(c_char_p)), ("n_sets", c_uint64)]


class Emit(Sized):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("self", c_void_p), ("emit", EMIT), ("drop", DROP),
                ("hold", HOLD), ("stored", STORED), ("fail", FAIL), ("made_of", c_void_p)]


class StageOptions(Sized):
    _fields_ = [("struct_size", c_uint32), ("n_threads", c_int32), ("stages", c_char_p), ("device", c_char_p),
                ("out", c_char_p), ("seed", c_uint64)]


class Resources(Sized):
    _fields_ = [("struct_size", c_uint32), ("ordered", c_uint32), ("cores", c_double), ("gpus", c_double),
                ("memory", c_uint64), ("isolated", c_uint32), ("nvdec", c_uint32), ("nvenc", c_uint32),
                ("batch", c_uint32)]


class Sink(Structure):
    _fields_ = [("self", c_void_p), ("write", WRITE)]


class DlTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8),
                ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class DlManaged(Structure):
    """DLPack's DLManagedTensorVersioned."""


DELETER = CFUNCTYPE(None, POINTER(DlManaged))
DlManaged._fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p), ("deleter", DELETER),
                      ("flags", c_uint64), ("tensor", DlTensor)]


class Samples(Structure):
    """kinora_samples_api: functions, in their order."""

    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32),
                ("create", CFUNCTYPE(c_int32, Str, POINTER(c_void_p))),
                ("clone", CFUNCTYPE(c_int32, c_void_p, Str, POINTER(c_void_p))),
                ("retain", CFUNCTYPE(None, c_void_p)),
                ("release", CFUNCTYPE(None, c_void_p)),
                ("key", CFUNCTYPE(Str, c_void_p)),
                ("field", CFUNCTYPE(c_int32, c_void_p, c_uint64, POINTER(Str), POINTER(Str))),
                ("get", CFUNCTYPE(c_int32, c_void_p, c_char_p, POINTER(Str))),
                ("set", CFUNCTYPE(c_int32, c_void_p, c_char_p, Str, c_void_p, c_void_p)),
                ("remove", CFUNCTYPE(None, c_void_p, c_char_p)),
                ("get_tensor", c_void_p),
                ("set_tensor", CFUNCTYPE(c_int32, c_void_p, c_char_p, c_void_p))]


def toml(value):
    """A value as TOML writes it on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(str(k))} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(os.fspath(value) if hasattr(value, "__fspath__") else value, ensure_ascii=False)


def bytes_of(text):
    """The bytes of a Str."""
    return string_at(text.data, text.size) if text.size else b""


def text(str_):
    return bytes_of(str_).decode(errors="replace")


def str_of(data):
    """A Str of bytes, which keeps them alive."""
    out = Str(ctypes.cast(c_char_p(data), c_void_p), len(data))
    out.kept = data
    return out


def environment():
    """The environment with KINORA_TORCH set to this Python's torch package, unless it is set. torch is found and not
    imported."""
    found = importlib.util.find_spec("torch")
    if found and found.submodule_search_locations:
        os.environ.setdefault("KINORA_TORCH", list(found.submodule_search_locations)[0])
    return os.environ


@functools.cache
def library():
    environment()
    path = PREFIX / "lib/libkinora_embed.so.0"
    try:
        out = ctypes.CDLL(str(path))
    except OSError as error:
        raise Error(
            -4, f"{path} cannot be opened: {error}; install what it needs, see "
                f"{PREFIX / 'share/doc/kinora/LIBRARIES.md'}") from None
    for name, result, *arguments in (("version", c_char_p), ("error", c_char_p),
                                     ("open", c_int32, POINTER(Options), POINTER(c_void_p)),
                                     ("run", c_int32, c_void_p, POINTER(RunOptions)), ("cancel", None, c_void_p),
                                     ("components", c_int32, c_void_p, POINTER(Sink)),
                                     ("fingerprint", c_int32, c_void_p, POINTER(Sink)), ("samples", POINTER(Samples)),
                                     ("stage_open", c_int32, c_void_p, POINTER(StageOptions), POINTER(c_void_p)),
                                     ("stage_close", None, c_void_p), ("stage_cancel", None, c_void_p),
                                     ("stage_resources", c_int32, c_void_p, POINTER(Resources)),
                                     ("stage_process", c_int32, c_void_p, POINTER(c_void_p), c_uint64, POINTER(Emit)),
                                     ("stage_finish", c_int32, c_void_p, POINTER(Emit)),
                                     ("stage_ended", c_int32, c_void_p), ("stage_beats", c_uint64, c_void_p),
                                     ("share_tensor", c_int32, c_void_p, c_char_p, POINTER(POINTER(DlManaged))),
                                     ("apply", c_int32, c_void_p, c_char_p, POINTER(c_void_p), c_uint64,
                                      POINTER(Emit))):
        function = getattr(out, "kinora_embed_" + name)
        function.restype, function.argtypes = result, arguments
    return out


@functools.cache
def loading():
    """The functions of kinora/data.h."""
    out = library()
    for name, result, *arguments in (("open", c_int32, c_void_p, c_char_p, c_char_p, c_uint64, POINTER(c_void_p)),
                                     ("close", None, c_void_p),
                                     ("pass", c_uint64, c_void_p), ("digest", c_char_p, c_void_p),
                                     ("at", c_int32, c_void_p, c_uint64, POINTER(c_void_p)),
                                     ("follow", c_int32, c_void_p, c_uint64, c_uint64, c_uint64),
                                     ("stats", c_int32, c_void_p, POINTER(Sink))):
        function = getattr(out, "kinora_data_" + name)
        function.restype, function.argtypes = result, arguments
    return out


def check(status):
    """Raises Error for a negative status, with the message of this thread."""
    if status < 0:
        raise Error(status, library().kinora_embed_error().decode(errors="replace"))
