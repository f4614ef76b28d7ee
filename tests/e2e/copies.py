#!/usr/bin/env python3
"""Precision and recall of the dedup job on a set made here: 58 scenes, many of them dark or alike, among them title
cards and shots that fade in and out, and 280 copies of them (re-encoded, scaled, retimed, cropped, with bars, a logo or
another brightness, cut at another start). By the embedding alone, and with the second look. Copies of the kinds HARD
count for precision alone. usage: copies.py KINORA ROOT SCRATCH"""
import json, pathlib, shutil, subprocess, sys

import numpy as np

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve()
sys.path.insert(0, str(ROOT / "tests/support"))
from clips import lines

DATA, VIDEOS = ROOT / "tests/data", SCRATCH / "videos"
WIDTH, HEIGHT, RATE = 320, 180, 24
X264 = ["-an", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-preset", "veryfast"]
DARK = ",eq=brightness=-0.06:contrast=0.9,lutyuv=y='16+(val-16)*0.16':u='128+(val-128)*0.3':v='128+(val-128)*0.3'"
# Kind of copy: FFmpeg's options, and its filter.
KINDS = {
    "crf": (["-crf", "38"], None),
    "small": (["-crf", "26"], "scale=160:90"),
    "mpeg4": (["-c:v", "mpeg4", "-q:v", "12"], None),
    "hevc": (["-c:v", "libx265", "-x265-params", "log-level=none", "-crf", "34"], None),
    "fps15": (["-crf", "26"], "fps=15"),
    "fps30": (["-crf", "26"], "fps=30"),
    "fast": (["-crf", "26"], "setpts=PTS/1.0427,fps=25"),
    "slow": (["-crf", "26"], "setpts=PTS/0.96,fps=24"),
    "crop": (["-crf", "26"], f"crop=iw*0.94:ih*0.94,scale={WIDTH}:{HEIGHT}"),
    "bars": (["-crf", "26"], f"scale={WIDTH}:158,pad={WIDTH}:{HEIGHT}:0:-1"),
    "logo": (["-crf", "26"], "drawbox=x=iw*0.84:y=ih*0.05:w=iw*0.12:h=ih*0.14:color=white:t=fill"),
    "bright": (["-crf", "26"], "eq=brightness=0.05:gamma=1.2"),
    "late": (["-crf", "26", "-ss", "0.13"], None),
    "part": (["-crf", "26", "-ss", "0.4", "-t", "1.5"], None)}
# Kinds that are not looked for, and one more, "faded": scenes that fade in and out.
HARD = {
    "mirrored": (["-crf", "26"], "hflip"),
    "closer": (["-crf", "26"], f"crop=iw*0.8:ih*0.8,scale={WIDTH}:{HEIGHT}"),
    "square": (["-crf", "26"], "crop=ih:ih"),
    "thickbars": (["-crf", "26"], f"scale={WIDTH}:136,pad={WIDTH}:{HEIGHT}:0:-1"),
    "fade": (["-crf", "26"], "fade=in:0:24,fade=out:36:24")}
OF_STILLS = ("crf", "hevc", "small", "logo", "bright", "fps30")
RUN = """
[[job]]
name = "clips"
kind = "curate"
input = "videos"
stages = [
  { use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, preset = "ultrafast", \
    sample_fps = 4.0, sample_height = 180 },
  "embed.classic", "clip.signature"]
[[job]]
name = "eps_0_01"
kind = "dedup"
input = "clips"
dedup = { use = "dedup.semantic", eps = 0.01, motion = 1.0 }
[[job]]
name = "embedding"
kind = "dedup"
input = "clips"
dedup = { use = "dedup.semantic", motion = 1.0 }
[[job]]
name = "motion"
kind = "dedup"
input = "clips"
"""


def ffmpeg(*arguments, raw=None):
    subprocess.run(["ffmpeg", "-v", "error", "-y", *map(str, arguments)], check=True, input=raw)


def stage(seed):
    """72 frames of a dark stage with two or three figures and a moving light; another seed is another shot of the same
    stage."""
    draw = np.random.default_rng(seed)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    scene = 10 + 8 * np.exp(-((x - WIDTH / 2) ** 2 + (y - HEIGHT) ** 2) / 9000) + 3 * np.sin(x / 9) * (y < 120)
    t = np.arange(72) / RATE
    wave = lambda low, high: np.sin(draw.uniform(low, high) * t + draw.uniform(0, 6))
    figures = [(draw.uniform(60, 260) + 40 * wave(0.5, 2.5), 115 + draw.uniform(5, 15) * wave(1, 5),
                draw.uniform(7, 12)) for _ in range(2 + seed % 2)]
    centre, spread = draw.uniform(60, 260) + 60 * wave(0.3, 1.2), draw.uniform(25, 45)
    for i in range(72):
        light = np.exp(-((x - centre[i]) ** 2) / (2 * spread**2))
        frame = scene * (0.6 + 0.9 * light) + draw.normal(0, 1.2, scene.shape)
        for across, down, size in figures:
            frame += 60 * (0.3 + light) * np.exp(
                -((((x - across[i]) / size) ** 2 + ((y - down[i]) / (2.5 * size)) ** 2) ** 2))
        yield np.clip(np.stack([frame, frame * 0.92, frame * 0.8], -1), 0, 255).astype(np.uint8)


def texture(seed):
    """72 frames over one brown texture; another seed moves elsewhere in another direction."""
    pitch = np.fft.fftfreq(512)
    noise = np.fft.ifft2(np.fft.fft2(np.random.default_rng(7).normal(size=(512, 512)))
                         / (0.01 + np.hypot(pitch[:, None], pitch[None]))).real
    noise = (noise - noise.min()) / (noise.max() - noise.min()) * 255
    for i in range(72):
        far = (2 + seed % 3) * i
        dx, dy = int(round(far * np.cos(seed * 1.3))) + 40 * seed, int(round(far * np.sin(seed * 1.3))) + 70 * seed
        frame = np.roll(noise, (-dy, -dx), (0, 1))[:HEIGHT, :WIDTH]
        yield np.stack([frame, frame * 0.8, frame * 0.6], -1).astype(np.uint8)


def card(seed):
    """72 frames of a title and a smaller line below it, in letters of its own, on black, which fade in and out in half
    a second."""
    letters, draw, picture = np.random.default_rng(0).random((26, 7, 5)) < 0.55, np.random.default_rng(seed), np.zeros(
        (HEIGHT, WIDTH))
    for size, top, light in ((3, 65, 255), (2, 110, 200)):
        line = np.concatenate([np.pad(letters[i], ((0, 0), (0, 1)))
                               for i in draw.integers(0, 26, draw.integers(9, 15))],
                              1).repeat(size, 0).repeat(size, 1) * light
        left = (WIDTH - line.shape[1]) // 2
        picture[top : top + line.shape[0], left : left + line.shape[1]] = line
    for i in range(72):
        yield np.stack([picture * min(1, i / 12, (71 - i) / 12)] * 3, -1).astype(np.uint8)


def drawn(name, frames):
    ffmpeg("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{WIDTH}x{HEIGHT}", "-r", RATE, "-i", "-", *X264, "-crf", "18",
           VIDEOS / f"{name}.mp4", raw=b"".join(f.tobytes() for f in frames))


def taken(name, source, start, seconds, more=""):
    ffmpeg("-i", DATA / source, "-vf",
           f"trim={start}:{start + seconds},setpts=PTS-STARTPTS,scale={WIDTH}:{HEIGHT}{more}", *X264, "-crf", "18",
           VIDEOS / f"{name}.mp4")


def make_scenes():
    """Names of scenes that move, of which several show one place at other moments, and of those in which nothing
    moves."""
    shots = json.loads((DATA / "film.json").read_text())["shots"]
    for i in (0, 3, 4, 5, 9, 10, 11):  # the others are in the videos below
        taken(f"film{i}", "film.mp4", shots[i]["first"] / 24, shots[i]["frames"] / 24 - 0.05,
              DARK if i in (5, 9, 10, 11) else "")
    for video in "ABC":
        for half in (0, 1):
            taken(f"bbb{video}{half}", f"bbb_{video}.mp4", 2.6 * half, 2.5, DARK if video == "C" else "")
    taken("bbbD", "bbb_D.mp4", 0, 2)
    for i, (start, seconds) in enumerate(((0, 2.2), (2.3, 2.2), (4.7, 2.8))):
        taken(f"city{i}", "city_cc0.mp4", start, seconds)
    for i in range(4):
        taken(f"cockatoo{i}", "cockatoo.mp4", 3.4 * i, 3.2)
        taken(f"calais{i}", "calais_1906.ogv", 4.6 * i, 4.4)
    for seed in range(12):
        drawn(f"stage{seed}", stage(seed))
    for seed in range(5):
        drawn(f"texture{seed}", texture(seed))
    fade = ",fade=in:0:12,fade=out:60:12"
    for i in range(3):
        taken(f"cockatoo{i}-faded", "cockatoo.mp4", 3.4 * i, 3, fade)
        taken(f"calais{i}-faded", "calais_1906.ogv", 4.6 * i, 3, fade)
    for seed in range(20, 24):
        drawn(f"stage{seed}",
              ((frame * min(1, i / 12, (71 - i) / 12)).astype(np.uint8) for i, frame in enumerate(stage(seed))))
    moving = sorted(p.stem for p in VIDEOS.glob("*.mp4"))
    still = ",loop=71:1,setpts=N/24/TB,noise=alls=3:allf=t,fps=24,trim=0:3"
    for i, (source, at,
            more) in enumerate((("bbb_B.mp4", 1, ""), ("bbb_C.mp4", 1, DARK), ("cockatoo.mp4", 1, ""),
                                ("calais_1906.ogv", 2, ""),
                                            ("bbb_A.mp4", 2, DARK + ",crop=300:170,scale=320:180"),
                                ("bbb_A.mp4", 2, DARK + ",crop=260:150:50:20,scale=320:180"))):
        taken(f"still{i}", source, at, 0.05, more + still)
    for seed in range(6):
        drawn(f"card{seed}", card(seed))
    return moving, [f"still{i}" for i in range(6)] + [f"card{i}" for i in range(6)]


def make_copies(moving, still):
    kinds, at = list(KINDS), 0
    for name in moving:
        for kind in (kinds[(at + n) % len(kinds)] for n in range(4)):
            copy(name, kind)
        at += 4
    for name in still:
        for kind in OF_STILLS:
            copy(name, kind)
    for n, kind in enumerate(HARD):
        for name in moving[n::13]:
            copy(name, kind)


def copy(name, kind):
    options, picture = (KINDS | HARD)[kind]
    ffmpeg("-i", VIDEOS / f"{name}.mp4", *(["-vf", picture] if picture else []), *X264, *options,
           VIDEOS / f"{name}-{kind}.mp4")


def scene(key):
    return key.split("-")[0]


def is_hard(decision):
    return decision["key"].rsplit("-", 1)[0].partition("-")[2] in {"faded", *HARD}


def score(job):
    """(precision, recall, scenes of which nothing is left); a clip is dropped rightly if it is dropped for a clip of
    its scene."""
    decisions = list(lines(SCRATCH / f"out/{job}/decisions.jsonl"))
    scenes = {scene(d["key"]) for d in decisions}
    dropped = [d for d in decisions if d["end"] == "filtered"]
    right = [d for d in dropped if scene(d["key"]) == scene(d.get("nearest", d["of"]))]
    lost = scenes - {scene(d["key"]) for d in decisions if d["end"] == "kept"}
    found, hard = sum(not is_hard(d) for d in right), sum(is_hard(d) for d in decisions)
    copies = len(decisions) - len(scenes) - hard
    print(
        f"{job}: {len(right)} of {len(dropped)} dropped clips are copies (precision {len(right) / len(dropped):.3f}), "
        f"{found} of {copies} copies found (recall {found / copies:.3f}), {len(right) - found} of {hard} hard ones, "
        f"nothing is left of {len(lost)} of {len(scenes)} scenes")
    return len(right) / len(dropped), found / copies, len(lost)


def check_set():
    make_copies(*make_scenes())
    (SCRATCH / "run.toml").write_text('[run]\nout = "out"\n' + RUN)
    subprocess.run([KINORA, "run", str(SCRATCH / "run.toml"), "--out", str(SCRATCH / "out")], check=True,
                   capture_output=True)
    loose, close, motion = (score(job) for job in ("eps_0_01", "embedding", "motion"))
    assert motion[0] == 1 and motion[1] > 0.75 and motion[2] == 0, motion
    assert motion[1] > max(close[1], loose[1]) and motion[0] > max(close[0], loose[0])


shutil.rmtree(SCRATCH, ignore_errors=True)
VIDEOS.mkdir(parents=True)
check_set()
