"""A stand-in for PyTorch where it is not installed, in which every name is an empty class: megatron-energon imports
torch everywhere, but its readers of shards compute nothing with it."""
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types


class Empty:
    def __init_subclass__(cls, **_):
        pass

    def __class_getitem__(cls, _):
        return cls


class StandIn(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, type(name, (Empty,), {"__module__": self.__name__}))
        return getattr(self, name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self,
                                              is_package=True) if name.partition(".")[0] == "torch" else None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


def needed():
    """Installs the stand-in unless there is a PyTorch; whether it did."""
    if importlib.util.find_spec("torch"):
        return False
    sys.meta_path.append(Finder())
    return True
