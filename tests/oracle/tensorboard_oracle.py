#!/usr/bin/env python3
"""Reads a training job's event files with TensorBoard's own reader: every number of metrics.jsonl, each step once, and
the pictures. usage: tensorboard_oracle.py JOB_FOLDER    (needs the package tensorboard; run by hand)"""
import json, math, pathlib, struct, sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

job = pathlib.Path(sys.argv[1])
files = list((job / "tensorboard").iterdir())
assert len(files) == 1, files
read = EventAccumulator(str(job / "tensorboard"), size_guidance={"scalars": 0, "images": 0}, purge_orphaned_data=False)
read.Reload()
lines = [json.loads(text) for text in (job / "metrics.jsonl").read_text().splitlines()]
single = lambda x: struct.unpack("f", struct.pack("f", x))[0]
checked = 0
for name in {n for line in lines
             for n, v in line.items() if isinstance(v, (int, float)) and not isinstance(v, bool) and n != "step"}:
    tag = name if name.startswith("validation") else "train/" + name
    want = [(line["step"], single(line[name])) for line in lines if name in line]
    got = [(e.step, e.value) for e in read.Scalars(tag)]
    assert got == want, (tag, got[:5], want[:5])
    checked += len(got)
pictures = [(tag, e) for tag in read.Tags()["images"] for e in read.Images(tag)]
for tag, e in pictures:
    assert e.encoded_image_string.startswith(b"\x89PNG") and e.width > 0 and e.height > 0, tag
    assert (e.height, e.width) == struct.unpack(">II", e.encoded_image_string[16:24])[::-1], tag
assert len(pictures) == len(list((job / "samples").glob("step-*.png"))) if (job / "samples").exists() else not pictures
print(f"{checked} scalars and {len(pictures)} pictures are what metrics.jsonl and samples/ hold")
