"""Kinora in Python: runs run files and applies stages to samples, in this process, through libkinora's C API
(kinora/embed.h).

    kinora.run("quickstart.toml", out="runs/q", sets={"dit.steps": 100})
    kinora.apply(["video.probe"], [kinora.Sample("a", {"url": "a.mp4"})]).kept[0]["json"]
    with kinora.stage(["video.probe"]) as stage: stage.process(sample).kept
    torch.from_dlpack(sample.tensor("frames"))
    for batch in kinora.load("shards/", 8, stages=[{"use": "video.read", "frames": 17}]): ...
    with kinora.Pipeline("Wan2.1-T2V-1.3B-Diffusers") as p: p.generate("a boat at sea").save("boat.mp4")

libtorch is the torch package of this Python environment, if its version is the one that this Kinora was built for. Log
lines go to logging.getLogger("kinora"). Python runs none of the work: every call releases the GIL. A Pipeline has its
model in a process of its own.
"""
import json
import logging
import os
import threading

from . import _library as _c
from ._library import Error
from ._data import Loader
from ._frames import Frames
from ._pipeline import Pipeline, Request, Settings, Stream
from ._samples import Sample, Tensor
from ._stage import Applied, Dropped, Failed, Outcomes, Stage, collected, interruptible
from ._videos import Chunk, Video

__all__ = ["Applied", "Chunk", "Dropped", "Error", "Failed", "Frames", "Loader", "Outcomes", "Pipeline", "Request",
           "Sample", "Settings", "Stage", "Stream", "Tensor", "Video", "apply", "components", "fingerprint", "load",
           "open", "run", "stage", "version"]

_host = None
_kept: list = []  # what libkinora points to while the host is open
_opening = threading.RLock()


def version():
    """The version of libkinora, "0.1.0"."""
    return _c.library().kinora_embed_version().decode()


def open(plugins=(), log_level=None):
    """Finds the plugins; other functions do it on their first call, with none but the usual folders.

    plugins: folders that are searched first. log_level: trace, debug, info, warn, error, off. Raises Error if it is
    open already.
    """
    global _host
    logger = logging.getLogger("kinora")
    levels = (5, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)

    @_c.LOG
    def log(_, level, line):
        logger.log(levels[max(0, min(level, 4))], "%s", _c.text(line))

    folders = (_c.c_char_p * len(plugins))(*map(os.fsencode, plugins))
    options = _c.Options(draft=_c.DRAFT, plugin_folders=folders, n_plugin_folders=len(folders), log=log)
    options.log_level = log_level.encode() if log_level else None
    host = _c.c_void_p()
    _kept.append(log)
    with _opening:
        try:
            _c.check(_c.library().kinora_embed_open(options, _c.byref(host)))
        finally:
            if host:  # also if Ctrl-C ended this call
                _host = host


def _opened():
    with _opening:
        if _host is None:
            open()
        return _host


def run(file=None, *, text=None, out=None, only=None, sets=None):
    """Runs the jobs of a run file, as `kinora run` does; what is finished is not repeated.

    file: path of a run file. text: the contents of one instead; `file` is then its name in messages, and relative paths
    start in its folder. out: the output folder. only: a job, which is run with those that it reads. sets: other values,
    {"dit.steps": 100}. Raises
    Error with every problem of the file, or the error of the job that failed; KeyboardInterrupt on Ctrl-C, after which
    the same call continues.
    """
    host, encoded = _opened(), [f"{name}={_c.toml(value)}".encode() for name, value in (sets or {}).items()]
    options = _c.RunOptions(sets=(_c.c_char_p * len(encoded))(*encoded), n_sets=len(encoded))
    options.file, options.out = (os.fsencode(path) if path is not None else None for path in (file, out))
    options.text, options.only = (words.encode() if words is not None else None for words in (text, only))
    interruptible(lambda: _c.check(_c.library().kinora_embed_run(host, options)), _cancel)


def apply(stages, samples):
    """Sends samples through stages, one after the other, and returns their outcomes as Applied.

    stages: names, or {"use": "clip.transcode", "max_height": 240} with options. samples: Sample objects. An error on
    one sample is its outcome; raises Error for an unknown stage or option. The stages of the last four lists stay open
    for the next call, so that one sample costs no new process; those of a third party, and those that keep state or
    have work at their end, are opened for each call: give such a call many samples.
    """
    host, samples = _opened(), list(samples)
    handles = (_c.c_void_p * len(samples))(*(sample._handle for sample in samples))
    chain = json.dumps(list(stages)).encode()
    call = lambda to: _c.library().kinora_embed_apply(host, chain, handles, len(samples), to)
    return Applied(*collected(call, _cancel)[:3])


def stage(stages, *, device=None, out=None, seed=0, threads=0):
    """Opens stages for calls of the caller's choosing: a Stage. Any number are open at once.

    stages: a list as of apply(); of one stage the caller is the engine, as kinora/embed.h says. device: "cpu" (the
    default), "cuda", "cuda:1". out: the folder of stages that write files; else the working directory. seed: of what
    they draw. threads: 0 means one for each processor. Raises Error for an unknown stage or option.
    """
    return Stage(_opened(), stages, device=device, out=out, seed=seed, threads=threads)


def load(data, batch, *, stages=(), seed=0, rank=0, ranks=1, state=None, ahead=2):
    """Batches of samples of shards, in the order in which a training takes them: an endless iterator, a Loader.

    data: a path or URI of shards, or a table as in a run file: {"path": "shards/", "shuffle": 1000}, {"blend":
    [{"path": "a/", "weight": 3}, ...]},
    {"path": "shards/", "part": [0.0, 0.9], "where": "duration_s > 2", "join": {"path": "captions/", "fields":
    ["txt"]}}, also with "memory", "readers", "cache", "cache_limit", "max_failed", "max_failed_share" and "trusted".
    batch: samples of all ranks together; this one gets batch / ranks of them. stages: what each sample passes, such as
    [{"use": "video.read", "frames": 17, "height": 256, "width": 256}], which sets the tensor "frames". state: of
    Loader.state(), to continue after the batches that were taken, also with another number of ranks. ahead: batches
    that a thread makes while the caller computes, at least 1. A sample that cannot be read, or that a stage drops
    or fails, is replaced by another one of its set, with a warning. Raises Error for data that cannot be opened, and
    when more samples fail than max_failed and max_failed_share accept.
    """
    table = data if isinstance(data, dict) else {"path": data}
    return Loader(_opened(), _c.toml(table), batch=batch, stages=stages, seed=seed, rank=rank, ranks=ranks, state=state,
                  ahead=ahead)


def components():
    """Every component that can be used: a list of {"id", "kind", "name", "help", "plugin", "version", "options"}."""
    return _written(_c.library().kinora_embed_components)


def fingerprint():
    """What two machines that run the same Kinora with the same plugins have in common: {"version", "abi", "plugins":
    {name: {"version", "library", "manifest"}}}, the latter two as SHA-256."""
    return _written(_c.library().kinora_embed_fingerprint)


def _written(function):
    """The JSON that a function writes about the host."""
    host, parts = _opened(), []

    @_c.WRITE
    def write(_, data, size):
        parts.append(_c.string_at(data, size))

    _c.check(function(host, _c.Sink(write=write)))
    return json.loads(b"".join(parts))


def _cancel():
    _c.library().kinora_embed_cancel(_host)
