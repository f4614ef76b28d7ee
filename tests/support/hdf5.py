"""Reads HDF5 files by the C library that Kinora links too, since the tests' Python has no h5py."""
import ctypes, ctypes.util

import numpy as np

ID, NONE = ctypes.c_int64, ctypes.c_int64(0)
LIBRARY = ctypes.CDLL(ctypes.util.find_library("hdf5_serial") or ctypes.util.find_library("hdf5"))
LIBRARY.H5open()
for name in ("H5Fopen", "H5Dopen2", "H5Dget_type", "H5Dget_space", "H5Dget_create_plist", "H5Aopen", "H5Aget_type",
             "H5Tget_size", "H5Gopen2"):
    getattr(LIBRARY, name).restype = ID
LISTED = ctypes.CFUNCTYPE(ctypes.c_int, ID, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)
FLETCHER32 = 3


def opened(identifier, what):
    assert identifier > 0, f"HDF5 cannot open {what}"
    return ID(identifier)


class File:
    def __init__(self, path):
        self.file = opened(LIBRARY.H5Fopen(str(path).encode(), 0, NONE), path)

    def attributes(self):
        names = []
        LIBRARY.H5Aiterate2(self.file, 0, 0, None, LISTED(lambda _, name, *rest: names.append(name.decode()) or 0),
                            None)
        return names

    def text(self, name):
        """An attribute of the root that is a text."""
        attribute = opened(LIBRARY.H5Aopen(self.file, name.encode(), NONE), name)
        kind = ID(LIBRARY.H5Aget_type(attribute))
        value = ctypes.create_string_buffer(LIBRARY.H5Tget_size(kind))
        assert LIBRARY.H5Aread(attribute, kind, value) >= 0, name
        return value.raw.decode()

    def names(self, group):
        """The names in a group, sorted."""
        names = []
        at = opened(LIBRARY.H5Gopen2(self.file, group.encode(), NONE), group)
        LIBRARY.H5Literate(at, 0, 0, None, LISTED(lambda _, name, *rest: names.append(name.decode()) or 0), None)
        return names

    def read(self, name, dtype):
        """A dataset as an array of this dtype, its chunk and its filters. A filter's checksum is checked on the way."""
        data = opened(LIBRARY.H5Dopen2(self.file, name.encode(), NONE), name)
        space, kind, plan = ID(LIBRARY.H5Dget_space(data)), ID(LIBRARY.H5Dget_type(data)), ID(
            LIBRARY.H5Dget_create_plist(data))
        rank = LIBRARY.H5Sget_simple_extent_ndims(space)
        shape, chunk = (ctypes.c_uint64 * rank)(), (ctypes.c_uint64 * rank)()
        LIBRARY.H5Sget_simple_extent_dims(space, shape, None)
        assert LIBRARY.H5Pget_chunk(plan, rank,
                                    chunk) == rank and LIBRARY.H5Tget_size(kind) == np.dtype(dtype).itemsize, name
        filters = [LIBRARY.H5Pget_filter2(plan, n, None, None, None, 0, None, None)
                   for n in range(LIBRARY.H5Pget_nfilters(plan))]
        out = np.empty(list(shape), dtype)
        assert LIBRARY.H5Dread(data, kind, NONE, NONE, NONE, out.ctypes.data_as(ctypes.c_void_p)) >= 0, name
        return out, list(chunk), filters
