"""Videos whose cuts are known, to measure shot detectors: shots from the videos of tests/data and of moving textures,
joined by hard cuts, dissolves, fades, wipes and short shots, with flashes within the shots and where they change, and
grain. Everything follows from a seed.

Needs numpy and ffmpeg. A transition is (kind, first, end): a detector should report one cut in it, and [first, end) are
the frames that show both shots or black (first == end for a hard cut at that frame).
"""

import dataclasses
import itertools
import pathlib
import subprocess

import numpy as np

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
RATE = 25
# File, first frame, frames: each is a run inside one shot.
RUNS = [
    ("bbb_A.mp4", 0, 125), ("bbb_B.mp4", 0, 125), ("bbb_C.mp4", 0, 125), ("bbb_D.mp4", 0, 48), ("city_cc0.mp4", 0, 116),
    ("city_cc0.mp4", 116, 74),
    ("cockatoo.mp4", 0, 130), ("cockatoo.mp4", 150, 130), ("calais_1906.ogv", 90, 100), ("film.mp4", 84, 96),
    ("film.mp4", 252, 80), ("film.mp4", 332, 72),
    ("film.mp4", 404, 56), ("film.mp4", 460, 84), ("film.mp4", 544, 66), ("film.mp4", 674, 76), ("film.mp4", 750, 80),
    ("film.mp4", 830, 50),
]  # fmt: skip
# Kinds of joins with their lengths in frames; "short" is a hard cut to a shot of 5 to 10 frames and one after it.
KINDS = [("hard", 0), ("hard", 0), ("short", 0), ("dissolve", 12), ("dissolve", 30), ("fade", 30), ("wipe", 15)]
# Hard cuts in a flash: "lit" are the first frames after the cut or the last ones before it, "white" are half of the
# frames on each side.
FLASHING = [("lit", 2), ("lit", -2), ("white", 2), ("white", 4)]


@dataclasses.dataclass
class Video:
    path: pathlib.Path
    frames: int
    transitions: list
    flashes: list  # (first, end)


def real(name, first, frames, width, height):
    scale = f"select='between(n,{first},{first + frames - 1})',scale={width}:{height}"
    command = ["ffmpeg", "-v", "error", "-i", DATA / name, "-vf", scale, "-fps_mode", "passthrough", "-f", "rawvideo",
               "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3).astype(np.float32)


def texture(random, frames, width, height):
    """A smooth pattern that drifts and swells, with a disc that crosses it and a slowly changing light."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32) / height
    waves = [(random.uniform(1, 14, 2), random.uniform(0, 6.3), random.uniform(-4, 4), random.uniform(10, 40, 3))
             for _ in range(7)]
    base, drift, light = random.uniform(50, 200, 3), random.uniform(-0.3, 0.3, 2), random.uniform(-0.2, 0.2)
    start, speed, size, colour = random.uniform(0, 1, 2), random.uniform(-0.5, 0.5, 2), random.uniform(
        0.05, 0.2), random.uniform(0, 255, 3)
    out = np.empty((frames, height, width, 3), np.float32)
    for i in range(frames):
        t = i / RATE
        out[i] = base
        for (fx, fy), phase, pace, strength in waves:
            out[i] += np.sin(fx * (x + drift[0] * t) + fy * (y + drift[1] * t) + phase + pace * t
                             * 0.4)[..., None] * strength.astype(np.float32)
        inside = (x - start[0] * 1.7 - speed[0] * t) ** 2 + (y - start[1] - speed[1] * t) ** 2 < size**2
        out[i][inside] = colour
        out[i] *= 1 + light * np.sin(t)
    return np.clip(out, 0, 255)


def shots(random, count, width, height, longest):
    """Runs and textures in random order, of at most `longest` frames; two runs that follow each other may be of the
    same video."""
    order = []
    while len(order) < count:
        order += list(random.permutation(len(RUNS)))
    for i in order[:count]:
        if random.random() < 0.3:
            yield texture(random, min(120, longest), width, height)
        else:
            name, first, frames = RUNS[i]
            yield real(name, first, min(frames, longest), width, height)


def blend(kind, before, after):
    n = len(before)
    share = ((np.arange(n, dtype=np.float32) + 1) / (n + 1)).reshape(-1, 1, 1, 1)
    if kind == "dissolve":
        return before * (1 - share) + after * share
    if kind == "fade":  # to black and from it
        return np.where(share < 0.5, before * (1 - 2 * share), after * (2 * share - 1))
    columns = np.arange(before.shape[2]).reshape(1, 1, -1, 1) / before.shape[2]
    return np.where(columns < share, after, before)


def lit(frames):
    return np.clip(frames * 1.5 + 120, 0, 255)


def flash(random, frames):
    """Brightens 1 to 3 frames in the middle of a shot, as a photographer's light does."""
    length, at = int(random.integers(1, 4)), len(frames) // 2
    frames[at : at + length] = lit(frames[at : at + length])
    return at, at + length


def flash_at_cut(kind, length, before, after):
    """A flash on the last frames of a shot and the first ones of the next: (frames of it before the cut, frames after
    it)."""
    first, last = (length // 2, length // 2) if kind == "white" else (max(-length, 0), max(length, 0))
    change = (lambda frames: 255) if kind == "white" else lit
    before[len(before) - first :] = change(before[len(before) - first :])
    after[:last] = change(after[:last])
    return first, last


def compose(random, joins, width, height, longest):
    """The frames of a video with these joins, its transitions and its flashes."""
    parts, transitions, flashes, at = [], [], [], 0

    def append(frames):
        nonlocal at
        parts.append(frames)
        at += len(frames)

    source = shots(random, 3 * len(joins) + 3, width, height, longest)
    shot = next(source).copy()
    for kind, length in joins:
        if kind == "short":
            small = next(source)[: int(random.integers(5, 11))]
            append(shot)
            transitions.append(("hard", at, at))
            append(small)
        following = next(source).copy()
        if kind in ("lit", "white"):
            first, last = flash_at_cut(kind, length, shot, following)
            append(shot)
            transitions.append(("cut in a flash", at - first, at + last))
            shot = following
        elif length == 0:
            if kind == "hard":
                append(shot)
            transitions.append((kind, at, at))
            shot = following
        else:
            length = min(length, len(shot) // 2, len(following) // 2)
            append(shot[:-length])
            label = ("short dissolve" if length <= 12 else "long dissolve") if kind == "dissolve" else kind
            transitions.append((label, at, at + length))
            append(blend(kind, shot[-length:], following[:length]))
            shot = following[length:]
        if random.random() < 0.25 and len(shot) > min(40, longest // 2):
            first, end = flash(random, shot)
            flashes.append((at + first, at + end))
    append(shot)
    return np.concatenate(parts), transitions, flashes


def long_dissolves(path, lengths=(50, 75), width=320, height=180):
    """Dissolves of these lengths from every long run to one of another video, between 20 frames of each; hard cuts
    between them."""
    long = [run for run in RUNS if run[2] >= 95]
    parts, transitions, at = [], [], 0
    for length in lengths:
        for (name, first, _), (other, start, _) in zip(long, long[3:] + long[:3]):
            before, after = real(name, first, 20 + length, width,
                                 height), real(other, start, 20 + length, width, height)
            parts += [before[:20], blend("dissolve", before[20:], after[:length]), after[length:]]
            transitions += [(f"dissolve of {length}", at + 20, at + 20 + length),
                            ("hard", at + 40 + length, at + 40 + length)]
            at += 40 + length
    return write(path, np.concatenate(parts), transitions[:-1], [])


def make(path, seed, rounds, grain=0.0, width=320, height=180, longest=130, kinds=KINDS):
    """Writes a video of `rounds` times every kind of join, in random order. grain: standard deviation, of 255."""
    random = np.random.default_rng(seed)
    joins = [kinds[i] for i in random.permutation(len(kinds) * rounds) % len(kinds)]
    frames, transitions, flashes = compose(random, joins, width, height, longest)
    noisy = (frame + grain * random.standard_normal((height, width, 1), dtype=np.float32) if grain else frame
             for frame in frames)
    return write(path, noisy, transitions, flashes)


def write(path, frames, transitions, flashes):
    """Encodes frames [height, width, 3] of values around 0 to 255."""
    frames = iter(frames)
    first = next(frames)
    height, width = first.shape[:2]
    command = (
        f"ffmpeg -v error -y -f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {RATE} -i - -c:v libx264 -preset "
        f"veryfast -crf 20 -pix_fmt yuv420p".split())
    count = 0
    with subprocess.Popen([*command, str(path)], stdin=subprocess.PIPE) as encoder:
        for frame in itertools.chain([first], frames):
            encoder.stdin.write(np.clip(frame, 0, 255).round().astype(np.uint8).tobytes())
            count += 1
        encoder.stdin.close()
    if encoder.returncode:
        raise RuntimeError(f"ffmpeg: exit status {encoder.returncode}")
    return Video(path, count, transitions, flashes)
