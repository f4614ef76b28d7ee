#!/usr/bin/env python3
"""Precision and recall of the shot detectors on videos whose cuts are known (cut_videos.py).

    cuts_oracle.py [--part I/N] KINORA [FOLDER]
                                       prints the table of docs/benchmarks/shots.md, or a part of its rows, and compares
                                       it with the least that it must be;
                                       FOLDER keeps the videos
    cuts_oracle.py --quick KINORA      one short video: the least precision and recall of every detector, what
    transnetv2 must find, and that
                                       no clip shows a transition

A cut counts as found if it is within 2 frames of a transition that no other cut has found. Exit status: 0 as it must
be,
1 not, 77 if numpy, ffmpeg or the weights of TransNet V2 are missing.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
TOLERANCE = 2
SEED = 18  # of the quick video
SHORT = {"min_length": 6, "tolerance": 2}
# Options, and the least precision and recall on the videos of the table.
RECIPES = {
    'content': ({"detectors": ["content"]}, 0.65, 0.50),
    'adaptive': ({"detectors": ["adaptive"]}, 0.66, 0.40),
    'histogram': ({"detectors": ["histogram"]}, 0.59, 0.50),
    'hash': ({"detectors": ["hash"]}, 0.97, 0.49),
    'threshold': ({"detectors": ["threshold"]}, 0.97, 0.10),
    'content, adaptive (the default)': ({"detectors": ["content", "adaptive"]}, 0.61, 0.54),
    'content, threshold': ({"detectors": ["content", "threshold"]}, 0.56, 0.50),
    'content, threshold; min_length 6, tolerance 2': ({"detectors": ["content", "threshold"], **SHORT}, 0.67, 0.60),
    'adaptive, threshold; min_length 6, tolerance 2': ({"detectors": ["adaptive", "threshold"], **SHORT}, 0.73, 0.61),
    'transnetv2': ({"detectors": ["transnetv2"]}, 0.98, 0.84),
}  # fmt: skip
# Least precision and recall on the quick video.
QUICK_FLOORS = {"content": (0.9, 0.6), "adaptive": (0.8, 0.6), "histogram": (0.7, 0.6), "hash": (0.8, 0.5),
                "threshold": (1.0, 0.1), "transnetv2": (1.0, 0.9)}


def shots(kinora, video, options):
    sets = [f"--set={name}={json.dumps(value)}" for name, value in options.items()]
    done = subprocess.run([kinora, "apply", "stage/shots", str(video), "--json", *sets], check=True,
                          stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def matched(cuts, transitions):
    """The transitions that were found, and the cuts that found none."""
    left, found = list(cuts), []
    for transition in sorted(transitions, key=lambda t: t[1]):
        _, first, end = transition
        hit = next((c for c in left if first - TOLERANCE <= c <= end + TOLERANCE), None)
        if hit is not None:
            left.remove(hit)
            found.append(transition)
    return found, left


def by_kind(found, transitions):
    kinds = sorted({kind for kind, _, _ in transitions})
    count = lambda all, kind: sum(k == kind for k, _, _ in all)  # noqa: E731
    return ", ".join(f"{kind} {count(found, kind)}/{count(transitions, kind)}" for kind in kinds)


def table(kinora, folder, part, parts):
    """The rows part - 1, part - 1 + parts, ...; what is beyond the table comes with the first one."""
    import cut_videos

    videos = [cut_videos.make(folder / f"{name}.mp4", seed, 5, grain)
             for name, seed, grain in (("clean", 1, 0), ("grain", 2, 8), ("more grain", 3, 16))]
    true = [t for video in videos for t in video.transitions]
    problems = beyond(kinora, folder) if part == 1 else []
    print(
        f"{len(true)} transitions, {sum(len(f.flashes) for f in videos)} flashes, "
        f"{sum(f.frames for f in videos)} frames")
    for name, (options, *floors) in list(RECIPES.items())[part - 1::parts]:
        hits, wrong = [], []
        for video in videos:
            found, left = matched(shots(kinora, video.path, options)["cuts"], video.transitions)
            hits += found
            wrong += left
        cuts = len(hits) + len(wrong)
        figures = len(hits) / max(cuts, 1), len(hits) / len(true)
        print(f"| {name} | {figures[0]:.2f} | {figures[1]:.2f} | {by_kind(hits, true)} |", flush=True)
        problems += too_low(name, figures, floors)
    print(*problems, sep="\n")
    return 1 if problems else 0


def too_low(name, figures, floors):
    return [f"{name}: {what} {figure:.3f}, at least {floor} is expected"
            for what, figure, floor in zip(("precision", "recall"), figures, floors) if figure < floor]


def beyond(kinora, folder):
    """Prints what transnetv2 finds of cuts in flashes and of dissolves of two and three seconds. Returns what is less
    than nine of ten of the published figures."""
    import cut_videos

    problems = []
    for least, most_wrong, video in ((23, 3, cut_videos.make(folder / "flashes.mp4", 4, 5,
                                                           kinds=[("hard", 0), *cut_videos.FLASHING])),
                                    (20, 3, cut_videos.long_dissolves(folder / "long.mp4"))):
        answer = shots(kinora, video.path, {"detectors": ["transnetv2"]})
        found, wrong = matched(answer["cuts"], video.transitions)
        left_out = {f for first, end in answer["transitions"] for f in range(first, end)}
        mixed = [f for kind, first, end in video.transitions if "dissolve" in kind for f in range(first, end)]
        print(
            f"{video.path.name}: {by_kind(found, video.transitions)}; {len(wrong)} wrong; {len(video.flashes)} flashes "
            f"within shots; {len(left_out & set(mixed))} of {len(mixed)} frames of dissolves are left out")
        if len(found) < least or len(wrong) > most_wrong:
            problems.append(
                f"{video.path.name}: {len(found)} found, at least {least} are expected; {len(wrong)} wrong, at most "
                f"{most_wrong}")
    return problems


def clips_of(kinora, folder, video):
    """The shots.json of a video after video.clips, and (first, end) of its clips."""
    run, out = folder / "run.toml", folder / "out"
    stage = (
        '{ use = "video.clips", detectors = ["transnetv2"], min_length = 0.0, min_frames = 1, edge_crop = 0.0, preset '
        '= "ultrafast" }')
    run.write_text(
        f'[run]\nname = "cuts"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = "{video}"\nstages = [{stage}]\n')
    subprocess.run([kinora, "run", str(run), "--out", str(out)], check=True, capture_output=True)
    items = [json.loads(line) for line in (out / "clips" / "items.jsonl").read_text().splitlines()]
    clips = [i["facts"] for i in items if "start_s" in i.get("facts", {})]
    return next(i["shots"]
                for i in items if "shots" in i), sorted((round(c["start_s"] * 25), round(c["end_s"] * 25))
                                                        for c in clips)


def quick(kinora, folder):
    import cut_videos

    video = cut_videos.make(folder / "film.mp4", SEED, 1, 4, width=160, height=90, longest=40,
                          kinds=[*cut_videos.KINDS, *cut_videos.FLASHING[::3]])
    found, clips = clips_of(kinora, folder, video.path)
    detectors = shots(kinora, video.path,
                      {"detectors": [name for name in QUICK_FLOORS if name != "transnetv2"]})["detectors"] | {
                          "transnetv2": found}
    must = [t for t in video.transitions if t[0] != "wipe"]  # the network knows no wipes
    hits, wrong = matched(found["cuts"], must)
    print(
        f"{by_kind(hits, must)}; wrong {wrong}; transitions {found['transitions']}; flashes {video.flashes}; clips "
        f"{clips}")
    dissolves = [(first, end) for kind, first, end in must if "dissolve" in kind]
    problems = [f"not found: {t}" for t in must if t not in hits] + [f"no cut is at {c}" for c in wrong]
    for name, floors in QUICK_FLOORS.items():
        of_all, false = matched(detectors[name]["cuts"], video.transitions)
        problems += too_low(name, (len(of_all) / max(len(of_all) + len(false), 1),
                                   len(of_all) / len(video.transitions)),
                            floors)
    if not video.flashes:
        problems.append("no flash is in the video")
    problems += [f"clip {c} shows the middle of dissolve {d}" for d in dissolves
                 for c in clips if c[0] <= sum(d) // 2 < c[1]]
    ends = [0, *found["cuts"], video.frames]
    expected = [r for r in (trimmed(pair, found["transitions"]) for pair in zip(ends, ends[1:])) if r[0] < r[1]]
    if clips != expected:
        problems.append(f"the clips are not the shots without their transitions: {expected}")
    print(*problems, sep="\n")
    return 1 if problems else 0


def trimmed(shot, transitions):
    """A shot without the transitions that hold its first frame or its end."""
    first, end = shot
    for t in transitions:
        first, end = (t[1] if t[0] <= shot[0] <= t[1] else first), (t[0] if t[0] <= shot[1] <= t[1] else end)
    return first, end


def main(arguments):
    quickly = arguments[:1] == ["--quick"]
    part, parts = map(int, arguments[1].split("/")) if arguments[:1] == ["--part"] else (1, 1)
    kinora, *rest = arguments[quickly + 2 * (arguments[:1] == ["--part"]):]
    weights = pathlib.Path(os.environ.get("KINORA_ASSETS", "")) / "transnetv2" / "transnetv2.safetensors"
    try:
        import numpy  # noqa: F401
    except ImportError:
        return SKIPPED
    if not shutil.which("ffmpeg") or not weights.is_file():
        print("ffmpeg or the weights of TransNet V2 are missing; run packaging/dev.sh setup")
        return SKIPPED
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(rest[0] if rest else scratch)
        folder.mkdir(parents=True, exist_ok=True)
        return quick(kinora, folder) if quickly else table(kinora, folder, part, parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
