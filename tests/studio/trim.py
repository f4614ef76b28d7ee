#!/usr/bin/env python3
"""A clip is trimmed at the player's time; undo and redo; and the shard job writes those frames of it, to the frame,
with its length, while the stored clip stays as it is. usage: trim.py KINORA ROOT SCRATCH"""
import json, subprocess, tarfile

import numpy as np

from browser import SCRATCH, Studio, copy_of_run, curated, edits, eventually, page_of, run_alone
from access import check_axe
from edits import said, select

KEY = "film-0000"
SHARD = '\n[[job]]\nname = "shards"\nkind = "shard"\ninput = "clips"\nwhere = "duration_s < {below}"\n'


def grey(video):
    """[frames, pixels] of a video at 32 x 18."""
    done = subprocess.run(["ffmpeg", "-v", "error", "-i", str(video), "-vf", "scale=32:18,format=gray", "-vsync", "0",
                           "-f", "rawvideo", "-"], capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, 32 * 18).astype(np.float32)


def seek(page, frame, fps):
    page.wait_for_function("() => document.querySelector('#detail video')?.readyState >= 2")
    page.evaluate("""time => new Promise((done) => {
        const video = document.querySelector('#detail video');
        video.addEventListener('seeked', done, { once: true });
        video.currentTime = time; })""", (frame + 0.5) / fps)


def check_page(page, folder, fps, frames):
    """Returns the frames that are left, [first, end)."""
    last = lambda: edits(folder)[1][KEY]["trim"]
    select(page, KEY)
    seek(page, 10, fps)
    page.keyboard.press("[")
    said(page, "Trimmed to")
    assert last() == [10, frames], last()
    seek(page, 40, fps)
    page.keyboard.press("]")
    eventually(lambda: last() == [10, 41], "the other end")
    trim = page.get_by_role("group", name="Trim")
    eventually(lambda: "frames 10 to 40" in trim.inner_text(), trim.inner_text())
    check_axe(page, "a trimmed clip")
    page.keyboard.press(" ")  # from the last frame: plays what is left, and stops at its end
    page.wait_for_function("end => { const video = document.querySelector('#detail video'); "
                           "return video.paused && Math.abs(video.currentTime - end) < 0.25; }", arg=41 / fps)
    edits_told = page.locator("#detail .history li").first
    eventually(lambda: edits_told.inner_text().startswith("frames 10 to 40 ("), edits_told.inner_text())
    card = page.locator(".cell[aria-selected=true]")
    assert card.locator(".time").inner_text() == f"✂ {round(31 / fps, 1):g} s", card.inner_text()
    assert f"trimmed to {round(31 / fps, 1):g} s" in card.get_attribute("aria-label")
    page.keyboard.press("u")
    said(page, f"Undone: end of the trim; still frames 10 to {frames - 1}: {KEY}")
    eventually(lambda: last() == [10, frames], "undone")
    page.keyboard.press("u")
    said(page, "Undone: the trim; the whole clip again")
    eventually(lambda: last() is None, "the whole clip")
    eventually(lambda: "frames 10" not in trim.inner_text())
    page.keyboard.press("U")
    page.keyboard.press("U")
    eventually(lambda: last() == [10, 41], "done again")
    return 10, 41


def check_shard(folder, first, end, fps):
    """The shard has these frames and their length, by which its condition goes, too."""
    stored = (folder / f"clips/data/{KEY}.mp4").read_bytes()
    curated("trim", embedded=True, jobs=SHARD.format(below=(end - first) / fps + 0.01))
    assert (folder / f"clips/data/{KEY}.mp4").read_bytes() == stored, "the stored clip is the whole one"
    shards = folder / "shards"
    assert json.loads((shards / "summary.json").read_text())["trimmed"] == 1
    with tarfile.open(next(shards.rglob("*.tar"))) as tar:
        assert [name for name in tar.getnames() if name.endswith(".mp4")] == [f"{KEY}.mp4"], "others are longer"
        facts = json.load(tar.extractfile(f"{KEY}.json"))
        (SCRATCH / "trimmed.mp4").write_bytes(tar.extractfile(f"{KEY}.mp4").read())
    assert facts["trimmed"]["first"] == first and facts["frames"] == end - first, facts
    assert abs(facts["duration_s"] - (end - first) / fps) < 0.01 and abs(facts["end_s"] - facts["start_s"]
                                                                          - facts["duration_s"]) < 1e-9
    whole, cut = grey(folder / f"clips/data/{KEY}.mp4"), grey(SCRATCH / "trimmed.mp4")
    assert len(cut) == end - first, len(cut)
    error = lambda at: np.abs(whole[at : at + len(cut)] - cut).mean()
    assert error(first) < 1 and error(first) <= min(error(first - 1), error(first + 1)), "the frames themselves"


def main(chromium):
    folder = copy_of_run("trim")
    facts = json.loads((folder / f"clips/data/{KEY}.json").read_text())
    with Studio(folder) as studio, page_of(chromium, studio) as page:
        first, end = check_page(page, folder, facts["fps"], facts["frames"])
    check_shard(folder, first, end, facts["fps"])
    print("trim: all checks passed")


if __name__ == "__main__":
    run_alone(main)
