"""Frames of a video, which other libraries see by DLPack."""
from __future__ import annotations

import ctypes
import math
import mmap
import os
from typing import Any

from . import _library as _c
from ._samples import capsule_of, require_shared

_CPU = (1, 0)
_shared: dict[int, tuple] = {}  # what each shared tensor needs, by its address


@_c.DELETER
def _release(managed):
    _shared.pop(ctypes.addressof(managed.contents), None)


class Frames:
    """Frames of a video, uint8 [T, H, W, 3], RGB, in memory of the CPU: numpy.from_dlpack(f) and torch.from_dlpack(f)
    share it. It may be written to, and lives as long as its last user."""

    dtype = "uint8"
    shape: tuple[int, int, int, int]  # frames, height, width, 3

    def __init__(self, file: str, shape):
        """Takes the bytes of a file, and removes it."""
        self.shape = tuple(shape)
        with open(file, "rb") as opened:
            self._memory = mmap.mmap(opened.fileno(), math.prod(shape), access=mmap.ACCESS_COPY)
        os.unlink(file)

    def __repr__(self) -> str:
        return f"kinora.Frames(shape={self.shape}, dtype=uint8)"

    def __len__(self) -> int:
        return self.shape[0]

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None) -> Any:
        """A capsule of DLPack 1; raises BufferError for a library that is older, or asks for a copy or another
        device."""
        require_shared(_CPU, stream, max_version, dl_device, copy)
        shape = (ctypes.c_int64 * 4)(*self.shape)
        strides = (ctypes.c_int64 * 4)(*(math.prod(self.shape[i + 1:]) for i in range(4)))
        bytes_ = ctypes.c_char.from_buffer(self._memory)  # keeps it mapped
        tensor = _c.DlTensor(ctypes.addressof(bytes_), *_CPU, 4, 1, 8, 1, shape, strides, 0)
        managed = _c.DlManaged(1, 0, None, _release, 0, tensor)
        _shared[ctypes.addressof(managed)] = (managed, shape, strides, bytes_)
        return capsule_of(ctypes.pointer(managed))
