"""Samples, a key and named byte fields as WebDataset stores them, and their tensors, which other libraries see by
DLPack."""
import ctypes

from . import _library as _c

_CAPSULE, _USED = b"dltensor_versioned", b"used_dltensor_versioned"  # DLPack 1.0
_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer_of_dying = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _release_unused(capsule):
    """The end of a capsule: whoever took its tensor has renamed it."""
    if _is_valid(capsule, _CAPSULE):
        managed = ctypes.cast(_pointer_of_dying(capsule, _CAPSULE), ctypes.POINTER(_c.DlManaged))
        managed.contents.deleter(managed)


def require_shared(device, stream, max_version, dl_device, copy):
    """Raises BufferError unless these arguments of __dlpack__ ask for what is there, by DLPack 1."""
    if max_version is None or max_version[0] < 1:
        raise BufferError(
            "this library asks for a tensor of DLPack 0; use one with DLPack 1, such as numpy 2.1 or torch 2.9")
    if copy or dl_device not in (None, device) or stream is not None:
        raise BufferError("the tensor is shared in memory of the CPU; copy it after numpy.from_dlpack()")


def capsule_of(managed):
    """The capsule of a pointer to a DlManaged, which it takes over."""
    return _api.PyCapsule_New(ctypes.cast(managed, ctypes.c_void_p), _CAPSULE,
                              ctypes.cast(_release_unused, ctypes.c_void_p))


def _samples():
    return _c.library().kinora_embed_samples().contents


class Tensor:
    """A read-only tensor of a sample, in memory of the CPU: numpy.from_dlpack(t) and torch.from_dlpack(t) share it. It
    stays what it is when the sample's is set again or removed."""

    def __init__(self, sample, name):
        """sample: one that no one else has and changes."""
        self._sample, self._name, self._managed = sample, name, None
        self._managed = sample._share(name)
        tensor = self._managed.contents.tensor
        self.shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
        self.dtype = "bool" if tensor.code == 6 else f"{_KINDS.get(tensor.code, '?')}{tensor.bits}"
        self._device = (tensor.device_type, tensor.device_id)

    def __repr__(self):
        return f"kinora.Tensor(shape={self.shape}, dtype={self.dtype})"

    def __dlpack_device__(self):
        return self._device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A capsule of DLPack 1; raises BufferError for a library that is older, or asks for a copy or another
        device."""
        require_shared(self._device, stream, max_version, dl_device, copy)
        return capsule_of(self._sample._share(self._name))

    def __del__(self):
        if self._managed:
            self._managed.contents.deleter(self._managed)


class Sample:
    """A sample with a key and byte fields: Sample("a", {"url": "a.mp4"}); sample["json"] is bytes. Use it from one
    thread at a time."""

    def __init__(self, key, fields=None):
        self._handle = None
        handle = ctypes.c_void_p()
        _c.check(_samples().create(_c.str_of(key.encode()), ctypes.byref(handle)))
        self._handle = handle.value
        for name, value in (fields or {}).items():
            self[name] = value

    @classmethod
    def _adopt(cls, handle):
        """Takes over a reference."""
        out = cls.__new__(cls)
        out._handle = handle
        return out

    def __del__(self):
        if self._handle:
            _samples().release(self._handle)

    def __repr__(self):
        return f"kinora.Sample({self.key!r}, {', '.join(self.fields())})"

    @property
    def key(self):
        return _c.text(_samples().key(self._handle))

    def fields(self):
        """The names of the byte fields, in the order they were set."""
        out, name, value = [], _c.Str(), _c.Str()
        while _samples().field(self._handle, len(out), ctypes.byref(name), ctypes.byref(value)) == 0:
            out.append(_c.text(name))
        return out

    def __getitem__(self, name):
        value = _c.Str()
        if _samples().get(self._handle, name.encode(), ctypes.byref(value)) != 0:
            raise KeyError(f"sample {self.key!r} has no field {name!r}; it has {', '.join(self.fields()) or 'none'}")
        return _c.bytes_of(value)

    def __setitem__(self, name, value):
        """Sets a field to bytes or a text, which are copied."""
        data = value.encode() if isinstance(value, str) else bytes(value)
        _c.check(_samples().set(self._handle, name.encode(), _c.str_of(data), None, None))

    def __delitem__(self, name):
        """Removes a byte field or a tensor."""
        _samples().remove(self._handle, name.encode())

    def _share(self, name):
        managed = ctypes.POINTER(_c.DlManaged)()
        _c.check(_c.library().kinora_embed_share_tensor(self._handle, name.encode(), ctypes.byref(managed)))
        return managed

    def tensor(self, name):
        """The tensor `name`, shared. Raises Error if there is none."""
        handle = ctypes.c_void_p()
        _c.check(_samples().clone(self._handle, _samples().key(self._handle), ctypes.byref(handle)))
        return Tensor(Sample._adopt(handle.value), name)

    def set_tensor(self, name, value):
        """Sets a tensor to anything that speaks DLPack 1 (numpy 2.1, torch 2.9), on the CPU and row-major
        (numpy.ascontiguousarray makes it so); the memory is shared and must not change."""
        try:
            capsule = value.__dlpack__(max_version=(1, 0))
            managed = _api.PyCapsule_GetPointer(capsule, _CAPSULE)
        except (AttributeError, TypeError, ValueError) as error:
            raise _c.Error(
                -4, f"tensor {name!r}: a {type(value).__name__} gives no tensor of DLPack 1 ({error}); use numpy 2.1 "
                    f"or torch 2.9") from None
        _c.check(_samples().set_tensor(self._handle, name.encode(), managed))
        _api.PyCapsule_SetName(capsule, _USED)
