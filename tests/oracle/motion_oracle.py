#!/usr/bin/env python3
"""Compares filter.motion with an independent computation: motion vectors read by PyAV, painted with numpy, patches
by OpenCV's resize.

    motion_oracle.py KINORA [VIDEO...]     default: H.264 videos of tests/data, and one of 256 lines made from them

Means must agree to a relative 1e-6, patches to 1e-5 (OpenCV adds in float32). A video with a side under 256
pixels has no patches there. Exit status: 0 equal, 1 not, 77 when PyAV or OpenCV is not installed.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"

try:
    import av
    import cv2
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(SKIPPED)


def sampled(path, fps=2.0, share=0.5):
    """Vectors of the sampled frames as (w, h, x, y, dx, dy) rows in the decoder's order, and the size."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.codec_context.flags2 |= av.codec.context.Flags2.export_mvs
        rate = float(stream.average_rate or stream.base_rate or 30)
        seconds = int(container.duration / av.time_base) or 30
        step, most = max(1, round(rate / fps)), max(10, round(fps * seconds * share))
        frames, size = [], None
        for i, frame in enumerate(container.decode(stream)):
            if i % step:
                continue
            size = size or (frame.height, frame.width)
            vectors = [d for d in frame.side_data if d.type == av.sidedata.sidedata.Type.MOTION_VECTORS]
            if vectors:
                v = vectors[0].to_ndarray()
                scale = v["motion_scale"].astype(np.float64)
                frames.append(
                    np.stack(
                        [v["w"], v["h"], v["dst_x"], v["dst_y"], v["motion_x"] / scale, v["motion_y"] / scale], 1
                    )
                )
            if len(frames) == most:
                break
    return frames, size


def lengths(vectors, size):
    """[H, W]: the length of each pixel's vector in fractions of width + height."""
    height, width = size
    flow = np.zeros((height, width))
    for block in ((8, 8), (16, 16), (16, 8), (8, 16)):
        for w, h, x, y, dx, dy in vectors[(vectors[:, 0] == block[0]) & (vectors[:, 1] == block[1])]:
            columns = np.clip(np.arange(int(w)) + int(x) - int(w) // 2, 0, width - 1)
            rows = np.clip(np.arange(int(h)) + int(y) - int(h) // 2, 0, height - 1)
            flow[np.ix_(rows, columns)] = np.hypot(dx, dy) / (width + height)
    return flow


def expected(path):
    frames, size = sampled(path)
    mean = np.mean([lengths(f, size) for f in frames], axis=0)
    patches = cv2.resize(mean.astype(np.float32), None, fx=1 / 256, fy=1 / 256) if min(size) >= 256 else None
    return mean.mean(), None if patches is None else float(patches.min())


def ours(kinora, video):
    out = subprocess.run(
        [kinora, "apply", "stage/filter.motion", video, "--set", "mode=score", "--json"],
        check=True, capture_output=True, text=True,
    )
    scores = json.loads(out.stdout)["emitted"][0]["json"]["scores"]
    return scores["filter.motion"], scores["filter.motion.patch_min"]


def compare(kinora, video):
    (mean, patch), (expected_mean, expected_patch) = ours(kinora, video), expected(video)
    print(video, "mean", mean, expected_mean, "patch", patch, expected_patch)
    same = abs(mean - expected_mean) <= 1e-6 * expected_mean
    if expected_patch is not None:
        same = same and abs(patch - expected_patch) <= 1e-5 * expected_patch + 1e-10
    return same


def main():
    kinora, videos = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        if not videos:
            videos = [str(DATA / name) for name in ("film.mp4", "bbb_A.mp4", "city_cc0.mp4")]
            large = str(pathlib.Path(folder) / "large.mp4")
            subprocess.run(
                ["ffmpeg", "-v", "error", "-i", videos[0], "-t", "20", "-an", "-vf", "scale=660:400", "-c:v", "libx264",
                 "-preset", "veryfast", large],
                check=True,
            )
            videos.append(large)
        return 0 if all([compare(kinora, video) for video in videos]) else 1


if __name__ == "__main__":
    sys.exit(main())
