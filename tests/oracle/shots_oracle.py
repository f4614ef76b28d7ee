#!/usr/bin/env python3
"""Compares stage/shots.content with PySceneDetect's ContentDetector, frame by frame.

    shots_oracle.py KINORA [FILM...]      run `KINORA apply stage/shots.content FILM --json` on each film
                                          (default: the films of tests/data)
    shots_oracle.py --compare A B [FILM]  compare two results already on disk
    shots_oracle.py --expect FILM         print PySceneDetect's result in the same form

A result is {"fps", "frames", "cuts", "scores"}; a cut is the index of a new shot's first frame. Frames and cuts
must be equal, scores equal to 1e-9, the rate to 1e-9 of itself. Exit status: 0 equal, 1 not, 2 usage, 77 when
PySceneDetect is not installed (pip install scenedetect==0.7.1 opencv-python-headless).

OpenCV 5 cannot convert frames marked as interlaced, so films must be progressive. It honours a film's colour tags
only with FFmpeg 8 inside; OpenCV 4 with an older one takes every film for BT.601.
"""

import json
import pathlib
import subprocess
import sys

SCORE_TOLERANCE = 1e-9
RATE_TOLERANCE = 1e-9
SKIPPED = 77
FILM_SUFFIXES = {".mp4", ".webm", ".mov", ".mkv", ".ogv"}
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"


def expected(film):
    """PySceneDetect with its defaults, every frame's score recorded."""
    import scenedetect
    from scenedetect.detectors import ContentDetector

    class Recorder(ContentDetector):
        def __init__(self):
            super().__init__()
            self.times, self.scores, self.cuts = [], [], []

        def process_frame(self, timecode, frame_img):
            self.times.append(timecode)
            cuts = super().process_frame(timecode, frame_img)
            self.scores.append(float(self._frame_score))
            # By identity: two frames of a film may share a time.
            self.cuts += [i for cut in cuts for i, time in enumerate(self.times) if time is cut]
            return cuts

    video = scenedetect.open_video(str(film))
    detector = Recorder()
    manager = scenedetect.SceneManager()
    manager.add_detector(detector)
    manager.detect_scenes(video)
    return {
        "fps": float(video.frame_rate),
        "frames": len(detector.scores),
        "cuts": detector.cuts,
        "scores": detector.scores,
    }


def found(kinora, film):
    command = [kinora, "apply", "stage/shots.content", str(film), "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def compare(film, ours, theirs):
    """One row of the closing table: what was compared, and everything that differs."""
    differences = []
    for key in ("frames", "cuts"):
        if ours[key] != theirs[key]:
            differences.append(f"{key} {ours[key]} instead of {theirs[key]}")
    if not abs(ours["fps"] - theirs["fps"]) <= RATE_TOLERANCE * theirs["fps"]:
        differences.append(f"fps {ours['fps']} instead of {theirs['fps']}")
    if len(ours["scores"]) != len(theirs["scores"]):
        differences.append(f"{len(ours['scores'])} scores instead of {len(theirs['scores'])}")
    gaps = [abs(a - b) for a, b in zip(ours["scores"], theirs["scores"])]
    wrong = [i for i, gap in enumerate(gaps) if not gap <= SCORE_TOLERANCE]
    if wrong:
        i = wrong[0]
        pair = f"{ours['scores'][i]!r} instead of {theirs['scores'][i]!r}"
        differences.append(f"{len(wrong)} scores, first at frame {i}: {pair}")
    return {
        "film": film,
        "frames": theirs["frames"],
        "cuts": len(theirs["cuts"]),
        "same bits": f"{sum(gap == 0 for gap in gaps)}/{len(gaps)}",
        "largest gap": f"{max(gaps, default=0.0):.3g}",
        "result": "; ".join(differences) or "equal",
    }


def compare_film(kinora, film):
    try:
        ours = found(kinora, film)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        nothing = dict.fromkeys(("frames", "cuts", "same bits", "largest gap"), "-")
        return {"film": film.name, **nothing, "result": str(error)}
    return compare(film.name, ours, expected(film))


def print_table(rows):
    columns = list(rows[0])
    widths = {c: max(len(c), *(len(str(row[c])) for row in rows)) for c in columns}
    for row in [{c: c for c in columns}, *rows]:
        print("  ".join(f"{row[c]!s:<{widths[c]}}" for c in columns).rstrip())


def main(arguments):
    if len(arguments) in (3, 4) and arguments[0] == "--compare":
        ours, theirs = (json.loads(pathlib.Path(path).read_text()) for path in arguments[1:3])
        rows = [compare(arguments[-1], ours, theirs)]
    elif not arguments or (arguments[0].startswith("-") and arguments[0] != "--expect"):
        print(__doc__, file=sys.stderr)
        return 2
    else:
        try:
            import cv2
            import scenedetect
        except ImportError as error:
            print(f"skipped: {error}; pip install scenedetect==0.7.1 opencv-python-headless", file=sys.stderr)
            return SKIPPED
        if arguments[0] == "--expect":
            print(json.dumps(expected(arguments[1])))
            return 0
        films = [pathlib.Path(film) for film in arguments[1:]]
        films = films or sorted(film for film in DATA.iterdir() if film.suffix in FILM_SUFFIXES)
        print(f"scenedetect {scenedetect.__version__}, OpenCV {cv2.__version__}")
        rows = [compare_film(arguments[0], film) for film in films]
    if not rows:
        print("no films to compare", file=sys.stderr)
        return 1
    print_table(rows)
    return 0 if all(row["result"] == "equal" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
