#!/usr/bin/env python3
"""Videos by their endings: one in capitals plays; one that the browser cannot play, or of an unknown kind, is reported;
videos with equal names in several folders are told apart. A read-only folder is reported at the start, and Ctrl-C
during decoding prints nothing. usage: videos.py KINORA ROOT SCRATCH"""
import functools, os, subprocess, threading, time

from browser import SCRATCH, Studio, eventually, page_of, run_alone
from clips import curate_folder, make_video
from edits import select
import pictures

UNSTORED = 40  # clips whose pictures come from their source videos
picture = functools.partial(pictures.picture, job="videos")


def videos():
    """{key: file}: videos of two days, with the endings that cameras use."""
    out = {"tape": "monday/tape.MP4", "tape-2": "tuesday/tape.mp4", "avchd": "monday/AVCHD.MTS", "scan": "scan.xyz"}
    for name in out.values():
        (SCRATCH / name).parent.mkdir(exist_ok=True)
    make_video(SCRATCH / "film.mp4", "320x180", seconds=2)
    for name in out.values():
        if name.endswith(".MTS"):
            subprocess.run(["ffmpeg", "-v", "error", "-i", str(SCRATCH / "film.mp4"), "-c", "copy", "-f", "mpegts",
                            str(SCRATCH / name)], check=True)
        else:
            (SCRATCH / name).write_bytes((SCRATCH / "film.mp4").read_bytes())
    return {key: SCRATCH / name for key, name in out.items()}


def folder_of(videos):
    items = [{"key": key, "end": "kept", "consumed": True, "url": str(path), "facts": {"frames": 24, "fps": 12.0}}
             for key, path in videos.items()]
    clip = lambda key, video, first: {"key": key, "end": "filtered", "consumed": False, "parent": video,
                                     "stage": "filter.blur", "reason": "filter.blur", "score": 1.0,
                                     "facts": {"frames": 12, "fps": 12.0, "first_frame": first, "end_frame": first + 12,
                                               "start_s": first / 12, "end_s": first / 12 + 1}}
    return curate_folder(SCRATCH / "videos",
                         items + [clip(f"{key}-0000", key, 0)
                                  for key in videos] + [clip(f"tape-2-1{n:03}", "tape-2", n % 12)
                                                       for n in range(UNSTORED)])


def check_playing(page, studio):
    select(page, "tape-0000")
    page.wait_for_function("() => document.querySelector('video')?.readyState >= 2")
    nothing = page.locator("#detail .nothing")
    for key, ending in (("avchd-0000", ".mts"), ("scan-0000", ".xyz")):
        select(page, key)
        eventually(lambda: nothing.count()
                   and nothing.inner_text()
                   == f"The clip was not stored, and this browser cannot play {ending} videos.",
                   f"{key}: {nothing.all_inner_texts()}")
    assert picture(studio, "avchd-0000")[0] == 200 and picture(studio, "scan-0000")[0] == 404


def check_places(page):
    place = lambda key: page.locator(".cell:visible",
                                     has=page.get_by_text(key, exact=True)).locator(".scores").inner_text()
    for key, where in (("tape-0000", "monday/tape.MP4"), ("tape-2-0000", "tuesday/tape.mp4")):
        select(page, key)
        assert place(key).startswith(where + " · "), place(key)
        eventually(lambda: page.locator("#detail").get_by_text(where + ", ").count() == 1)
        page.screenshot(path=str(SCRATCH / f"{key}.png"))
    select(page, "avchd-0000")
    assert place("avchd-0000") == "Sharpness 1", place("avchd-0000")  # no folder


def check_interrupted(folder):
    """Ctrl-C while pictures are made."""
    with Studio(folder) as studio:
        def look(n):
            try:
                picture(studio, f"tape-2-1{n:03}")
            except (OSError, AssertionError):
                pass

        asked = [threading.Thread(target=look, args=(n,)) for n in range(UNSTORED)]
        for thread in asked:
            thread.start()
        time.sleep(0.3)
        studio.end()
        for thread in asked:
            thread.join()
        assert "no picture" not in studio.process.stderr.read()


def check_read_only(folder):
    """Root may write anywhere except in a read-only mount."""
    os.chmod(folder, 0o555)
    mounted = os.getuid() == 0
    if mounted:
        for how in (["--bind", str(folder), str(folder)], ["-o", "remount,ro,bind", str(folder)]):
            subprocess.run(["mount", *how], check=True)
    try:
        with Studio(folder) as studio:
            studio.end()
            said = studio.process.stderr.read()
        assert "edits cannot be saved" in said and "videos" in said and "edits are by" not in said, said
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)
        os.chmod(folder, 0o755)
    with Studio(folder) as studio:
        studio.end()
        assert "edits are by mia" in studio.process.stderr.read()


def main(chromium):
    folder = folder_of(videos())
    with Studio(folder) as studio, page_of(chromium, studio) as page:
        check_playing(page, studio)
        check_places(page)
    check_interrupted(folder)
    check_read_only(folder)
    print("videos: all checks passed")


if __name__ == "__main__":
    run_alone(main)
