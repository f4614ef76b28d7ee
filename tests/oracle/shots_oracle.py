#!/usr/bin/env python3
"""Compares the stages shots.* with PySceneDetect's detectors, frame by frame.

    shots_oracle.py KINORA [VIDEO...]      run `KINORA apply stage/shots.NAME VIDEO --json` on each video, with every
    detector
                                          and downscale (default: the videos of tests/data, and constructed ones)
    shots_oracle.py --quick KINORA        fewer videos and sizes
    shots_oracle.py --part I/N KINORA     every N-th of the default videos, from the I-th on
    shots_oracle.py --expect VIDEO         print the result of PySceneDetect's ContentDetector in the same form

A result is {"fps", "frames", "cuts", "scores", ...}; a cut is the index of a new shot's first frame. Frames and cuts
must be equal, scores to 1e-12, the rate to a relative 1e-9. Exit status: 0 equal, 1 not, 2 usage, 77 if PySceneDetect
is not installed (pip install scenedetect==0.7.2 opencv-python-headless).

PySceneDetect reads frames with OpenCV, which cannot convert those marked as interlaced; for an interlaced video it
therefore gets a lossless progressive copy. OpenCV honours a video's colour tags only with FFmpeg 8 inside; OpenCV 4
with an older one treats every video as BT.601.
"""

import itertools
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import shots_videos

VERSION = "0.7.2"
SCORE_TOLERANCE = 1e-12
RATE_TOLERANCE = 1e-9
SKIPPED = 77
VIDEO_SUFFIXES = {".mp4", ".webm", ".mov", ".mkv", ".ogv"}
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"


def cases():
    """Detectors by our name: our options, the equal PySceneDetect detector, and its score of a frame."""
    from scenedetect.detector import FlashFilter
    from scenedetect.detectors import (AdaptiveDetector, ContentDetector, HashDetector, HistogramDetector,
                                       ThresholdDetector)

    edges = ContentDetector.Components(1.0, 1.0, 1.0, 1.0)
    suppress = FlashFilter.Mode.SUPPRESS
    ceiling = ThresholdDetector.Method.CEILING
    ratio, luma_ratio = "adaptive_ratio (w=2)", "adaptive_ratio_lum (w=4)"
    return {
        "content": ({}, lambda: ContentDetector(), "content_val"),
        "content edges": ({"edges": 1, "threshold": 35}, lambda: ContentDetector(threshold=35, weights=edges),
                          "content_val"),
        "content edges 7": (
            {"edges": 1, "kernel_size": 7},
            lambda: ContentDetector(weights=edges, kernel_size=7),
            "content_val",
        ),
        "content luma": ({"luma_only": "true"}, lambda: ContentDetector(luma_only=True), "content_val"),
        "content suppress": (
            {"filter": "suppress", "threshold": 12, "min_length": 5},
            lambda: ContentDetector(threshold=12, min_scene_len=5, filter_mode=suppress),
            "content_val",
        ),
        "adaptive": ({}, lambda: AdaptiveDetector(), ratio),
        "adaptive luma": (
            {"luma_only": "true", "window": 4, "threshold": 2, "min_content": 8, "min_length": 4},
            lambda: AdaptiveDetector(2.0, 4, 4, 8.0, luma_only=True),
            luma_ratio,
        ),
        "adaptive short": (
            {"window": 3, "threshold": 2, "min_content": 8, "min_length": 5},
            lambda: AdaptiveDetector(2.0, 5, 3, 8.0),
            "adaptive_ratio (w=3)",
        ),
        "histogram": ({}, lambda: HistogramDetector(), "hist_diff [bins=128]"),
        "histogram 100": (
            {"bins": 100, "threshold": 0.2, "min_length": 3},
            lambda: HistogramDetector(0.2, 100, 3),
            "hist_diff [bins=100]",
        ),
        "hash": ({}, lambda: HashDetector(), "hash_dist [size=8 lowpass=2]"),
        "hash 16": (
            {"size": 16, "lowpass": 4, "threshold": 0.3, "min_length": 2},
            lambda: HashDetector(0.3, 16, 4, 2),
            "hash_dist [size=16 lowpass=4]",
        ),
        "threshold": ({}, lambda: ThresholdDetector(), "average_rgb"),
        "threshold bias": (
            {"threshold": 60, "fade_bias": -0.7, "min_length": 3, "final_cut": "true"},
            lambda: ThresholdDetector(60, 3, -0.7, True),
            "average_rgb",
        ),
        "threshold ceiling": (
            {"threshold": 110, "fade": "ceiling", "fade_bias": 1, "min_length": 2},
            lambda: ThresholdDetector(110, 2, 1.0, False, ceiling),
            "average_rgb",
        ),
    }


def detected(file, detectors, downscale=0):
    """Each detector's cuts and scores, from one pass over the video: {"fps", "frames", NAME: (cuts, scores)}."""
    import scenedetect

    # Pixels and times are OpenCV's; lengths in frames count by the rate of the backend "pyav", because OpenCV's is the
    # average.
    video = scenedetect.open_video(str(file), frame_rate=scenedetect.open_video(str(file), backend="pyav").frame_rate)
    times, found = [], {}

    class Clock(scenedetect.detector.SceneDetector):
        def process_frame(self, timecode, frame_img):
            times.append(timecode)
            return []

    # Each has its own statistics, since the first detector of a kind would fill shared ones.
    managers = {}
    for name, (make, key) in detectors.items():
        detector = make()
        detector.stats_manager = scenedetect.StatsManager()
        managers[name] = detector
        found[name] = (key, detector, [])
    manager = scenedetect.SceneManager()
    manager.auto_downscale = downscale == 0
    if downscale:
        manager.downscale = downscale
    manager.add_detector(Clock())

    class Recorder(scenedetect.detector.SceneDetector):
        def __init__(self, detector, cuts):
            super().__init__()
            self.detector, self.cuts = detector, cuts

        def process_frame(self, timecode, frame_img):
            self.cuts += self.detector.process_frame(timecode, frame_img)
            return []

        def post_process(self, timecode):
            self.cuts += self.detector.post_process(timecode)
            return []

    for _, detector, cuts in found.values():
        manager.add_detector(Recorder(detector, cuts))
    manager.detect_scenes(video)
    rate = float(scenedetect.open_video(str(file)).frame_rate)
    out = {"fps": rate, "frames": len(times)}
    for name, (key, detector, cuts) in found.items():
        metrics = [detector.stats_manager.get_metrics(time, [key])[0] for time in times]
        out[name] = ([index_of(cut, times) for cut in cuts], metrics)
    return out


def index_of(cut, times):
    """By identity, since two frames of a video may share a time; a fade's cut is a number of nominal frames."""
    for i, time in enumerate(times):
        if time is cut:
            return i
    return next(i for i, time in enumerate(times) if time.frame_num >= cut.frame_num)


def found_by(kinora, stage, video, options):
    command = [kinora, "apply", f"stage/{stage}", str(video), "--json"]
    for key, value in options.items():
        command += ["--set", f"{key}={value}"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


# Rounding decides bits of a hash in flat pictures (docs/curate/shots.md). In a video of plain colours this many frames
# may differ, each by this many bits.
FLAT_FRAMES, FLAT_BITS = 6, 2


def differences(name, ours, theirs, bits=0):
    """bits: size of the hash of a video of plain colours; 0 for all other comparisons, which must be equal."""
    cuts, scores = theirs[name]
    out = []
    if ours["frames"] != theirs["frames"]:
        out.append(f"{ours['frames']} frames instead of {theirs['frames']}")
    if ours["cuts"] != cuts:
        out.append(f"cuts {ours['cuts']} instead of {cuts}")
    if not abs(ours["fps"] - theirs["fps"]) <= RATE_TOLERANCE * theirs["fps"]:
        out.append(f"fps {ours['fps']} instead of {theirs['fps']}")
    pairs = [(i, a, b) for i, (a, b) in enumerate(zip(ours["scores"], scores)) if b is not None]
    gaps = [abs(a - b) for _, a, b in pairs]
    wrong = [pair for pair, gap in zip(pairs, gaps) if not gap <= SCORE_TOLERANCE]
    is_rounding = bits and len(wrong) <= FLAT_FRAMES and all(abs(a - b) <= FLAT_BITS / bits + SCORE_TOLERANCE
                                                             for _, a, b in wrong)
    if wrong and not is_rounding:
        out.append(f"{len(wrong)} scores, first at frame {wrong[0][0]}: {wrong[0][1]!r} instead of {wrong[0][2]!r}")
    if len(pairs) < theirs["frames"] - 8:
        out.append(f"only {len(pairs)} scores to compare")
    return out, sum(gap == 0 for gap in gaps), len(gaps)


def compare_video(kinora, video, read_by_peer, downscales, is_flat=False):
    """Prints one line per detector and size; True if all are equal. is_flat: the video has plain colours."""
    rows, good = [], True
    all_cases = cases()
    for downscale in downscales:
        theirs = detected(read_by_peer, {name: (make, key) for name, (_, make, key) in all_cases.items()}, downscale)
        for name, (options, _, _) in all_cases.items():
            if name.startswith("content edges") and downscale == 1 and theirs["frames"] > 300:
                continue  # the peer's edges at full size take minutes
            try:
                ours = found_by(kinora, "shots." + name.split()[0], video, {**options, "downscale": downscale})
                bits = {"hash": 8 * 8, "hash 16": 16 * 16}.get(name, 0) if is_flat else 0
                wrong, same, compared = differences(name, ours, theirs, bits)
            except (OSError, subprocess.CalledProcessError, ValueError) as error:
                wrong, same, compared = [str(error)], 0, 0
            good = good and not wrong
            result = "; ".join(wrong) or "equal"
            cuts = len(theirs[name][0])
            rows.append(
                f"{video.name:<22} {downscale:>3} {name:<18} {cuts:>3} cuts, {same}/{compared} scores to the bit  "
                f"{result}")
    print("\n".join(rows), flush=True)
    return good


def compare_together(kinora, video):
    """All detectors in one decoding pass give the same results as each alone, for any number of threads."""
    names = ["content", "adaptive", "histogram", "hash", "threshold"]
    options = {"detectors": json.dumps(names), "threads": 2}
    together = found_by(kinora, "shots", video, options)
    good = together["cuts"] == sorted({cut for name in names for cut in together["detectors"][name]["cuts"]})
    for name in names:
        alone = found_by(kinora, f"shots.{name}", video, {})
        good = good and together["detectors"][name] == {"cuts": alone["cuts"], "scores": alone["scores"]}
    print(f"{video.name:<22}     all in one decode: {'equal' if good else 'DIFFERENT'}", flush=True)
    return good


def compare_constructed(kinora, quick, part):
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for made in part(shots_videos.make_all(pathlib.Path(folder), quick)):
            ours = found_by(kinora, "shots.content", made.path, {})
            problems = []
            if ours["frames"] != made.frames:
                problems.append(f"{ours['frames']} frames instead of {made.frames}")
            if made.cuts is not None and ours["cuts"] != made.cuts:
                problems.append(f"cuts {ours['cuts']} instead of {made.cuts}")
            if made.cuts is not None and ours["times_us"] != made.cut_times_us:
                problems.append(f"times {ours['times_us']} instead of {made.cut_times_us}")
            print(f"{made.path.name:<22}     by construction: {'; '.join(problems) or 'equal'}", flush=True)
            good = good and not problems
            if made.peer is not None:
                sizes = [0] if quick else [0, 1, 3]
                good = compare_video(kinora, made.path, made.peer, sizes, is_flat=True) and good
    return good


def main(arguments):
    quick, part = arguments[:1] == ["--quick"], lambda videos: videos
    if quick:
        arguments = arguments[1:]
    elif arguments[:1] == ["--part"]:
        index, parts = map(int, arguments[1].split("/"))
        part = lambda videos: itertools.islice(videos, index - 1, None, parts)
        arguments = arguments[2:]
    if not arguments or (arguments[0].startswith("-") and arguments[0] != "--expect"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        import cv2
        import scenedetect
    except ImportError as error:
        print(f"skipped: {error}; pip install scenedetect==0.7.2 opencv-python-headless", file=sys.stderr)
        return SKIPPED
    if scenedetect.__version__ != VERSION:
        print(f"scenedetect is {scenedetect.__version__}, and the detectors are those of {VERSION}", file=sys.stderr)
        return 1
    if arguments[0] == "--expect":
        _, make, key = cases()["content"]
        theirs = detected(arguments[1], {"content": (make, key)})
        scores = [0.0 if score is None or math.isnan(score) else float(score) for score in theirs["content"][1]]
        print(json.dumps({"fps": theirs["fps"], "frames": theirs["frames"], "cuts": theirs["content"][0],
                          "scores": scores}))
        return 0
    videos = [pathlib.Path(video) for video in arguments[1:]]
    print(f"scenedetect {scenedetect.__version__}, OpenCV {cv2.__version__}")
    good = True
    if not videos:
        good = compare_constructed(arguments[0], quick, part)
        videos = sorted(video for video in DATA.iterdir()
                        if video.suffix in VIDEO_SUFFIXES and video.stat().st_size > 0)
        if quick:
            videos = [video for video in videos if video.name in ("bbb_A.mp4", "film_excerpt.webm")]
        videos = list(part(videos))
    for video in videos:
        good = compare_video(arguments[0], video, video, [0, 1, 5] if quick else [0, 1, 2, 5, 30]) and good
        good = compare_together(arguments[0], video) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
