"""Writes tests/data/oracle/latents_*.h5: caches of latents as h5py writes them, in the format before HDF5 1.8 (`old`) and in that of 1.8
(`new`), with more samples than a group keeps in its header. Sample k has numbers from k on, the first two of every dtype that a cache
can have.

Needs h5py and numpy.
"""
import json
import pathlib

import h5py
import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "data/oracle"
SAMPLES = 12


def bfloat16():
    t = h5py.h5t.IEEE_F32LE.copy()
    t.set_fields(15, 7, 8, 0, 7)
    t.set_size(2)
    t.set_ebias(127)
    return t


def put_bfloat16(group, name, values):
    bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    space = h5py.h5s.create_simple(values.shape)
    made = h5py.h5d.create(group.id, name.encode(), bfloat16(), space)
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, bits, bfloat16())


def main():
    for name, versions in {"old": ("earliest", "v108"), "new": ("v108", "v108")}.items():
        with h5py.File(OUT / f"latents_{name}.h5", "w", libver=versions) as file:
            file.attrs["kinora.latents"] = np.bytes_('{"job":"latents"}')
            keys = [f"clip {k}" for k in range(SAMPLES)]
            file["keys"] = np.frombuffer(json.dumps(keys).encode(), np.uint8)
            for k, key in enumerate(keys):
                group = file.create_group(f"samples/{key}")
                group["one"] = np.float64(k)
                if k > 1:
                    continue
                # Two chunks along the first dimension, of which the last is cut, and two along the last one.
                group.create_dataset("chunks", data=k + np.arange(30, dtype=np.float32).reshape(5, 6), chunks=(3, 4), fletcher32=True)
                group.create_dataset("plain_chunks", data=k + np.arange(6, dtype=np.int16), chunks=(4,))
                for dtype in ("f8", "f2", "i8", "i4", "i1", "u1"):
                    group[dtype] = (k + np.arange(4)).astype(dtype).reshape(2, 2)
                group["bool"] = np.array([True, False, k % 2 == 1])
                put_bfloat16(group, "bfloat16", k + np.arange(3))


if __name__ == "__main__":
    main()
