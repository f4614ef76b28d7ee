#!/usr/bin/env python3
"""Reads a folder of shards with independent code and compares every sample with a listing.

    shards_oracle.py FOLDER LISTING.json    LISTING: [{"key": "a", "fields": {"mp4": "00ff..."}}, ...], bytes in hex, in
    order

- webdataset: keys, fields and bytes, in order.
- Python's tarfile and sqlite3: the offsets in every .tar.idx and in .nv-meta/index.sqlite.
- megatron-energon, if it is installed: the samples of the splits as a crude dataset, a look-up by key, and with PyTorch
its loader.

Exit status: 0 equal, 1 not, 2 usage, 77 if webdataset is not installed (pip install webdataset==1.0.2).
"""
import importlib.util
import json
import pathlib
import sqlite3
import struct
import sys
import tarfile
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import torch_standin
from skips import skip

SKIPPED = 77


def check(condition, text):
    if not condition:
        sys.exit(f"shards_oracle: {text}")


def same(what, found, expected):
    """found, expected: lists of (key, {field: bytes})."""
    check([k for k, _ in found] == [k for k, _ in expected], f"{what}: keys differ: {[k for k, _ in found][:5]} ...")
    for (key, a), (_, b) in zip(found, expected):
        check(list(a) == list(b), f"{what}: {key} has fields {list(a)}, not {list(b)}")
        for field in a:
            check(a[field] == b[field], f"{what}: {key}.{field} differs ({len(a[field])} and {len(b[field])} bytes)")
    print(f"{what}: {len(found)} samples equal")


def with_webdataset(shards, expected):
    import webdataset

    dataset = webdataset.WebDataset([str(s) for s in shards], shardshuffle=False, empty_check=False)
    found = [(s["__key__"], {k: v for k, v in s.items() if not k.startswith("__")}) for s in dataset]
    same("webdataset", found, [(k, {f.lower(): b for f, b in fields.items()}) for k, fields in expected])


def with_tarfile(folder, shards):
    database = sqlite3.connect(f"file:{folder}/.nv-meta/index.sqlite?mode=ro", uri=True)
    samples = parts = 0
    for number, shard in enumerate(shards):
        begins, keys = [], []
        with tarfile.open(shard, "r:") as tar:
            for member in tar:
                check((member.mtime, member.uid, member.gid, member.mode) == (0, 0, 0, 0o644),
                      f"{shard}: header of {member.name}")
                key, _, part = member.name.rpartition("/")[2].partition(".")
                key = member.name[: len(member.name) - len(part) - 1]
                if not keys or keys[-1] != key:
                    begins.append(member.offset)
                    keys.append(key)
                row = database.execute(
                    "SELECT p.content_byte_offset, p.content_byte_size, s.byte_offset FROM sample_parts p JOIN samples "
                    "s USING (tar_file_id, "
                    "sample_index) WHERE s.tar_file_id = ? AND s.sample_key = ? AND p.part_name = ?",
                    (number, key, part)).fetchall()
                check(row == [(member.offset_data, member.size, begins[-1])], f"index.sqlite: {key}.{part} is at {row}")
                parts += 1
            begins.append(tar.offset)
        index = pathlib.Path(f"{shard}.idx").read_bytes()
        check(list(struct.unpack(f"<{len(index) // 8}Q", index)) == begins,
              f"{shard}.idx differs from tarfile's offsets")
        samples += len(keys)
    for table, count in (("samples", samples), ("sample_parts", parts)):
        check(database.execute(f"SELECT count(*) FROM {table}").fetchone() == (count,),
              f"index.sqlite: {table} has other rows")
    uuid.UUID((folder / ".nv-meta/index.uuid").read_text())
    print(f"tarfile, sqlite3: {samples} samples, {parts} parts where the indexes say")


def with_energon(folder, expected):
    if not importlib.util.find_spec("megatron"):
        return skip("energon", "megatron-energon is not installed")
    without_torch = torch_standin.needed()
    try:
        from megatron.energon.epathlib import EPath
        from megatron.energon.flavors.webdataset.itar_reader import ShardInfosITarReader, SqliteITarEntryReader
        from megatron.energon.flavors.webdataset.metadata import WebdatasetMeta, get_dataset_type
    except ImportError as error:
        sys.exit(f"shards_oracle: megatron-energon is installed, and cannot be imported: {error}")
    path = EPath(str(folder))
    print(f"megatron-energon: {get_dataset_type(path)}")
    found = {}
    for split in ("train", "val"):
        try:
            meta = WebdatasetMeta.from_config(path, split_part=split)
        except AssertionError:  # there is no such part
            continue
        reader = ShardInfosITarReader(path, meta.shards)
        for i in range(len(reader)):
            sample = reader[i]
            check(sample["__key__"] not in found, f"energon: {sample['__key__']} is in two splits")
            found[sample["__key__"]] = {k: v for k, v in sample.items() if not k.startswith("__")}
    same("megatron-energon, by split", [(k, found.get(k, {})) for k, _ in expected], expected)
    check(len(found) == len(expected), "energon: other samples")
    by_key = SqliteITarEntryReader(path, key_is_full_entryname=True)
    for key, fields in expected:
        for field, data in fields.items():
            check(by_key[f"{key}.{field}"][0] == data, f"energon: look-up of {key}.{field} differs")
    print(f"megatron-energon: {len(expected)} samples equal by key")
    if without_torch:
        print("megatron-energon: its loader is left out, since it needs PyTorch")
    else:
        cooked_by_energon(folder, expected)


def cooked_by_energon(folder, expected):
    """Reads like a training program: the folder as a crude dataset through a task encoder and a loader."""
    import megatron.energon as energon

    @energon.stateless
    def cook(sample):
        return {"__key__": sample["__key__"], "__restore_key__": sample["__restore_key__"]}

    class Encoder(energon.DefaultTaskEncoder):
        decoder = None  # the bytes need not be videos
        cookers = [energon.Cooker(cook)]

        @energon.stateless
        def batch(self, samples):
            return [s["__key__"] for s in samples]

        @energon.stateless
        def encode_sample(self, sample):
            return sample

    config = energon.WorkerConfig(rank=0, world_size=1, num_workers=0)
    dataset = energon.get_val_dataset(str(folder), split_part="train", batch_size=1, worker_config=config,
                                      task_encoder=Encoder())
    keys = [key for batch in energon.get_loader(dataset) for key in batch]
    check(set(keys) <= {k for k, _ in expected} and len(keys) == len(set(keys)) and keys,
          "energon: the loader gives other samples")
    print(f"megatron-energon: its loader gives {len(keys)} training samples")


def main():
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    try:
        import webdataset  # noqa: F401
    except ImportError:
        print("webdataset is not installed")
        return SKIPPED
    folder = pathlib.Path(sys.argv[1])
    listing = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    expected = [(s["key"], {f: bytes.fromhex(h) for f, h in s["fields"].items()}) for s in listing]
    info = json.loads((folder / ".nv-meta/.info.json").read_text())
    shards = [folder / name for name in info["shard_counts"]]
    check(shards == sorted(folder.glob("*.tar")), ".info.json names other shards than there are")
    check(sum(info["shard_counts"].values()) == len(expected), ".info.json counts other samples than there are")
    with_webdataset(shards, expected)
    with_tarfile(folder, shards)
    with_energon(folder, expected)
    return 0


if __name__ == "__main__":
    sys.exit(main())
