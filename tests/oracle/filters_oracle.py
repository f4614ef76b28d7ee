#!/usr/bin/env python3
"""Compares the scores of the filters with OpenCV, numpy and ffmpeg's own detectors, and the samples that they drop with
the constructed ones. usage: filters_oracle.py KINORA ROOT SCRATCH [MEDIA...]

Videos are made lossless (FFV1, planar RGB), so that both sides see the same pixels: real ones from tests/data, or
MEDIA, at 2 frames per second and 360 lines, unchanged and each spoilt in one way. Exit 0 equal, 1 not, 77 without
OpenCV."""
import json, pathlib, re, shutil, subprocess, sys

try:
    import cv2
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}; packaging/dev.sh setup installs it", file=sys.stderr)
    sys.exit(77)

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
MEDIA = [pathlib.Path(p) for p in sys.argv[4:]] or [ROOT / "tests/data" / n
                                                    for n in ("bbb_A.mp4", "city_cc0.mp4", "calais_1906.ogv")]
cv2.setNumThreads(1)
FONT = next((f for f in ("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",) if pathlib.Path(f).exists()), None)
SAMPLED = "fps=2,scale=-2:360"
TITLE = "drawtext=" + (f"fontfile={FONT}:" if FONT
                       else "") + "text='SUBSCRIBE to the channel':fontsize=28:fontcolor=white:borderw=2:x=40:y=300"
# How a real video is spoilt, the filter that must detect it, and bounds of its score if the construction gives them.
SPOILT = {
    "dark": ("lutrgb=r=val/40:g=val/40:b=val/40", "brightness"),
    "bright": ("lutrgb=r=250:g=max(val\\,246):b=250", "brightness"),
    "blurred": ("gblur=sigma=8", "blur"),
    "black": ("drawbox=t=fill:color=black:enable='between(n,2,6)'", "black"),
    "frozen": ("loop=loop=60:size=1:start=2,setpts=N/2/TB", "frozen"),
    "boxed": ("scale=-2:270,pad=iw:360:0:45", "letterbox"),
    "text": (TITLE, "text"),
}
failures = []


def holds(name, true, said=""):
    print(("ok    " if true else "WRONG ") + name, "" if true else said)
    if not true:
        failures.append(name)


def ffmpeg(*arguments):
    done = subprocess.run(["ffmpeg", "-hide_banner", "-nostdin", *map(str, arguments)], capture_output=True, text=True,
                          timeout=300)
    if done.returncode:
        sys.exit(f"ffmpeg {' '.join(map(str, arguments))}\n{done.stderr[-2000:]}")
    return done.stderr


def make_videos(folder):
    folder.mkdir(parents=True)
    for video in MEDIA:
        for name, (spoil, _) in {"real": ("null", None), **SPOILT}.items():
            out = folder / f"{video.stem}_{name}.mkv"
            ffmpeg("-v", "error", "-t", 5, "-i", video, "-vf", f"{SAMPLED},{spoil},format=gbrp", "-an", "-c:v", "ffv1",
                   out)


def curate(name, videos, filters):
    """Facts and outcomes by key of one run of the filters over the videos."""
    stages = ", ".join(['"video.probe"', '{ use = "video.read", memory = "4 GiB" }', *filters])
    out = SCRATCH / name
    file = SCRATCH / f"{name}.toml"
    file.write_text(
        f'[run]\nname = "{name}"\nout = "{out}"\n[[job]]\nname = "f"\nkind = "curate"\ninput = '
        f'{json.dumps(list(map(str, videos)))}\nstages = [{stages}]\n')
    done = subprocess.run([KINORA, "run", file], capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(done.stderr)
    return {i["key"]: i for i in map(json.loads, (out / "f/items.jsonl").read_text().splitlines())}


def frames_of(video):
    """[T, H, W, 3], blue first, in OpenCV's order."""
    size = subprocess.run(["ffprobe", "-v", "error", "-show_entries", "stream=height,width", "-of", "csv=p=0",
                           str(video)], capture_output=True, text=True, check=True)
    width, height = map(int, size.stdout.strip().split(","))
    raw = subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-i", str(video), "-f", "rawvideo", "-pix_fmt", "bgr24",
                          "-"], capture_output=True, check=True)
    return np.frombuffer(raw.stdout, np.uint8).reshape(-1, height, width, 3)


def black_frames(video):
    """From blackdetect; a last interval that reaches the end includes the last frame."""
    said = ffmpeg("-i", video, "-vf", "blackdetect=d=0.01", "-f", "null", "-")
    return sum(round(float(d) * 2) for d in re.findall(r"black_duration:([\d.]+)", said))


def frozen_frames(video):
    """From freezedetect; a freeze lasts from its first frame to the first one that differs."""
    said = ffmpeg("-i", video, "-vf", "freezedetect=d=0.1", "-f", "null", "-")
    return sum(round(float(d) * 2) - 1 for d in re.findall(r"freeze_duration: ([\d.]+)", said)), said


def flow_of(greys):
    means, tenths = [], []
    small = [cv2.resize(g, (round(g.shape[1] * 144 / g.shape[0]), 144), interpolation=cv2.INTER_AREA) for g in greys]
    for a, b in zip(small, small[1:]):
        vectors = cv2.calcOpticalFlowFarneback(a, b, None, 0.5, 5, 15, 2, 5, 1.1, 0)
        length = np.linalg.norm(vectors, axis=2) / np.hypot(*a.shape)
        length = np.where(length <= 1, length, 0) * 2  # two frames per second
        means.append(length.mean())
        tenths.append(np.percentile(length, 10))
    return float(np.mean(means)), float(np.mean(tenths))


def compare_scores(videos, items):
    gaps = dict.fromkeys(("brightness", "blur", "black", "frozen", "flow", "flow.p10"), 0.0)
    for video in sorted(videos.iterdir()):
        scores = items[video.stem]["facts"]["scores"]
        frames = frames_of(video)
        greys = [cv2.cvtColor(f, cv2.COLOR_BGR2GRAY) for f in frames]
        note = lambda name, gap: gaps.__setitem__(name, np.max([gaps[name], abs(gap)]))
        note("brightness", scores["filter.brightness"] - np.mean([f @ (0.114, 0.587, 0.299) for f in frames]) / 255)
        blur = np.mean([cv2.Laplacian(g, cv2.CV_64F).var() for g in greys])
        note("blur", scores["filter.blur"] / blur - 1 if blur else scores["filter.blur"])
        flow, tenth = flow_of(greys)
        note("flow", scores["filter.flow"] - flow)
        note("flow.p10", scores["filter.flow.p10"] - tenth)
        if video.stem.endswith(("_real", "_black")):
            note("black", scores["filter.black"] * len(frames) - black_frames(video))
        if video.stem.endswith(("_real", "_frozen")):
            count, said = frozen_frames(video)
            note("frozen", scores["filter.frozen"] * (len(frames) - 1) - count)
    print("largest gaps:", ", ".join(f"{k} {v:.3g}" for k, v in gaps.items()))
    # Brightness to half a level of luma. The 10th percentile is not interpolated.
    bounds = {"brightness": 0.5 / 255, "blur": 1e-9, "black": 1e-6, "frozen": 1e-6, "flow": 1e-6, "flow.p10": 1e-4}
    for name, bound in bounds.items():
        holds(f"{name} equals the peer's to {bound:g}", gaps[name] <= bound, gaps[name])


def compare_crops(videos, items):
    """Compares with ffmpeg's cropdetect on the padded videos; their picture has an even size and position."""
    for video in sorted(videos.glob("*_boxed.mkv")):
        said = re.findall(r"crop=(\d+):(\d+):(\d+):(\d+)",
                          ffmpeg("-i", video, "-vf", "cropdetect=limit=24:round=2", "-f", "null", "-"))
        width, height, x, y = map(int, said[-1])
        ours = items[video.stem]["facts"].get("crop", {})
        rows = (ours.get("y"), ours.get("height"))
        built = (46, 268) if rows == (46, 268) else (45 + 45 % 2, 270 - 2 * (45 % 2))
        holds(f"{video.stem}: rows {rows} of cropdetect's {(y, height)}", rows == built and abs(y - rows[0]) <= 2,
              built)


def has_bars(video):
    """From cropdetect: more than 0.02 of the picture."""
    width, height = map(int, re.findall(r"crop=(\d+):(\d+)",
                                        ffmpeg("-i", video, "-vf", "cropdetect=limit=24:round=2", "-f", "null",
                                               "-"))[-1])
    return width * height < 0.98 * frames_of(video)[0].shape[0] * frames_of(video)[0].shape[1]


def drops(videos):
    """Each filter alone, with its defaults: a real video passes, the spoilt one is dropped under the filter's own
    name."""
    # nothing but a still is constructed for flow: it keeps the real ones
    for name in sorted({f for _, f in SPOILT.values()} | {"flow"}):
        use = f'{{ use = "filter.{name}"' + (', mode = "filter" }' if name == "letterbox" else " }")
        kinds = {"real", *(kind for kind, (_, by) in SPOILT.items() if by == name)}
        items = curate(f"drop_{name}", [f for f in sorted(videos.iterdir()) if f.stem.rsplit("_", 1)[1] in kinds],
                       [use])
        for key, item in sorted(items.items()):
            kind = key.rsplit("_", 1)[1]
            if kind == "real" and name == "letterbox" and has_bars(videos / f"{key}.mkv"):
                holds(f"{name} drops {key}, which has bars", item["end"] == "filtered", item)
            elif kind == "real":
                holds(f"{name} keeps {key}", item["end"] == "kept", item)
            else:
                holds(f"{name} drops {key}", (item["end"], item.get("reason")) == ("filtered", f"filter.{name}"), item)


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    videos = SCRATCH / "videos"
    make_videos(videos)
    score = [f'{{ use = "filter.{n}", mode = "score" }}'
             for n in ("brightness", "blur", "black", "frozen", "flow", "text")]
    items = curate("scores", [videos], [*score, '"filter.letterbox"'])
    for key, item in sorted(items.items()):
        print(f"{key:24}", " ".join(f"{k[7:]} {v:.4f}" for k, v in item["facts"]["scores"].items()))
    compare_scores(videos, items)
    compare_crops(videos, items)
    drops(videos)
    print(f"{len(failures)} wrong" if failures else "all equal")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
