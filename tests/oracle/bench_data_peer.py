"""The peers of `kinora bench data`: samples a second of loaders in Python over the same shards, of those that can be
imported.
"raw": bytes alone, in one process; "jpeg": RGB batches of 64, by one worker a core.
usage: bench_data_peer.py FOLDER, of shards with Energon's index; copies in the formats of litdata and MDS are made next
to it once. Prints one line of JSON."""
import contextlib, io, json, os, pathlib, sys, tarfile, time

FOLDER = pathlib.Path(sys.argv[1])
SHARDS = [str(shard) for shard in sorted(FOLDER.glob("*.tar"))]
BATCH, WORKERS = 64, min(os.cpu_count(), len(SHARDS))
COPIES = FOLDER.parent / (FOLDER.name + "-copies")


def pictures():
    for shard in SHARDS:
        with tarfile.open(shard) as tar:
            for member in tar:
                if member.name.endswith(".jpg"):
                    yield tar.extractfile(member).read()


def decoded(data):
    import numpy as np
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def webdataset_raw():
    import webdataset

    return webdataset.WebDataset(SHARDS, shardshuffle=False, empty_check=False), 1


def webdataset():
    import webdataset

    batches = webdataset.WebDataset(SHARDS, shardshuffle=False,
                                    empty_check=False).map(lambda sample: decoded(sample["jpg"])).batched(BATCH)
    return webdataset.WebLoader(batches, batch_size=None, num_workers=WORKERS), BATCH


def litdata():
    import litdata
    from litdata.streaming.writer import BinaryWriter

    folder = COPIES / "litdata"
    if not folder.exists():
        writer = BinaryWriter(str(folder), chunk_bytes="64MB")
        for i, data in enumerate(pictures()):
            writer.add_item(i, {"jpg": data})
        writer.done()
        writer.merge()

    class Pictures(litdata.StreamingDataset):
        def __getitem__(self, at):
            return decoded(super().__getitem__(at)["jpg"])

    return litdata.StreamingDataLoader(Pictures(str(folder), shuffle=False), batch_size=BATCH,
                                       num_workers=WORKERS), BATCH


def mds():
    import streaming
    from torch.utils.data import DataLoader

    folder = COPIES / "mds"
    if not folder.exists():
        with streaming.MDSWriter(out=str(folder), columns={"jpg": "bytes"}) as out:
            for data in pictures():
                out.write({"jpg": data})

    class Pictures(streaming.StreamingDataset):
        def __getitem__(self, at):
            return decoded(super().__getitem__(at)["jpg"])

    return DataLoader(Pictures(local=str(folder), shuffle=False, batch_size=BATCH), batch_size=BATCH,
                      num_workers=WORKERS), BATCH


def energon():
    import dataclasses
    import torch
    from megatron.energon import (Cooker, DefaultTaskEncoder, Sample, SampleDecoder, WorkerConfig, basic_sample_keys,
                                  get_loader, get_train_dataset, stateless)

    @dataclasses.dataclass
    class Picture(Sample):
        image: torch.Tensor

    Picture.__qualname__ = "Picture"  # workers send its objects, so the class must be found by name
    globals()["Picture"] = Picture

    @stateless
    def cook(sample):
        return Picture(**basic_sample_keys(sample), image=sample["jpg"])

    class Encoder(DefaultTaskEncoder):
        cookers, decoder = [Cooker(cook)], SampleDecoder(image_decode="torchrgb8")

    workers = WorkerConfig(rank=0, world_size=1, num_workers=WORKERS)
    data = get_train_dataset(str(FOLDER), batch_size=BATCH, shuffle_buffer_size=None, max_samples_per_sequence=None,
                             worker_config=workers, task_encoder=Encoder())
    return get_loader(data), BATCH


def rate(make, least):
    """Samples a second from the first batch on, when the workers have started, for at least so many samples."""
    loader, size = make()
    batches, done = iter(loader), 0
    next(batches)
    start = time.perf_counter()
    for _ in batches:
        done += size
        if done >= least:
            break
    return done / (time.perf_counter() - start)


def main():
    samples, out = sum(1 for _ in pictures()), {}
    for name, make in (("raw.webdataset", webdataset_raw), ("jpeg.webdataset", webdataset), ("jpeg.litdata", litdata),
                       ("jpeg.mds", mds), ("jpeg.energon", energon)):
        try:
            with contextlib.redirect_stdout(sys.stderr):
                out[name] = rate(make, samples * 3 // 4)
        except ImportError as e:
            print(f"{name}: {e}", file=sys.stderr)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
