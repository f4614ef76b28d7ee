#!/usr/bin/env python3
"""A copy next to its original: both are zoomed and moved as one, one wipes over the other, and their scores are next
to them. usage: pairs.py KINORA ROOT SCRATCH"""
import json, os

from browser import SCRATCH, Studio, eventually, page_of, run_alone
from access import check_axe
from clips import curate_folder, make_video
from edits import select

CLIPS = {"film-0000": "red", "film-0001": "blue"}  # the second is a copy of the first
SCORES = {"filter.blur": 30.5, "filter.flow": 0.2, "filter.black": 0, "filter.letterbox": 0.1, "filter.exposure": 0.4}


def folder_of():
    facts = lambda n: {"duration_s": 1.0, "fps": 12.0, "frames": 12, "width": 160, "height": 90, "codec": "h264",
                       "scores": {name: value + n for name, value in SCORES.items()}}
    folder = curate_folder(SCRATCH / "pairs/clips", [
        {"key": key, "end": "kept", "parent": "film", "consumed": False, "facts": facts(n), "caption": f"{colour} sky"}
        for n, (key, colour) in enumerate(CLIPS.items())])
    for key, colour in CLIPS.items():
        make_video(folder / "data" / f"{key}.mp4", "160x90", seconds=1, picture=f"color=c={colour}")
    original, copy = CLIPS
    dedup = folder.parent / "copies"
    os.mkdir(dedup)
    (dedup / "summary.json").write_text('{"curated": "clips"}')
    (dedup / "decisions.jsonl").write_text(
        json.dumps({"key": copy, "end": "filtered", "rule": "dedup.semantic", "of": original, "score": 0.999,
                    "reason": f"copy of {original}: cosine 0.9990"}) + "\n")
    return folder.parent


def transforms(page):
    return page.evaluate("() => [...document.querySelectorAll('#compared video')].map((video) => "
                         "video.style.transform)")


def open_pair(page):
    select(page, "film-0000")
    page.keyboard.press("b")
    eventually(lambda: page.locator("#compared video").count() == 2, "both clips")
    page.wait_for_function(
        "() => [...document.querySelectorAll('#compared video')].every((video) => video.readyState >= 2)")


def check_zoom(page):
    """Keys, wheel and pointer move both alike; a whole picture does not move."""
    whole = "translate(0%, 0%) scale(1)"
    assert transforms(page) == [whole] * 2, transforms(page)
    box = page.locator(".frame").first.bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    drag = lambda: (page.mouse.move(*middle), page.mouse.down(), page.mouse.move(middle[0] + 30, middle[1], steps=3),
                    page.mouse.up())
    drag()
    assert transforms(page) == [whole] * 2, "nothing to move"
    page.keyboard.press("+")
    assert transforms(page) == ["translate(0%, 0%) scale(1.25)"] * 2, transforms(page)
    page.mouse.move(box["x"] + 1, box["y"] + 1)
    page.mouse.wheel(0, -100)
    eventually(lambda: all(text.endswith("scale(1.5625)") and not text.startswith("translate(0%")
                           for text in transforms(page)), "the wheel zooms where the pointer is")
    before = transforms(page)
    drag()
    after = transforms(page)
    assert after[0] == after[1] != before[0], (before, after)
    page.keyboard.press("Shift+ArrowDown")
    assert transforms(page)[0] == transforms(page)[1] != after[0]
    page.keyboard.press("0")
    assert transforms(page) == [whole] * 2


def check_wipe(page):
    """One lies on the other, and the edge moves by pointer and by keys."""
    boxes = lambda: [page.locator(".frame").nth(n).bounding_box() for n in (0, 1)]
    shown = lambda: page.locator(".frame").nth(1).evaluate("(frame) => getComputedStyle(frame).clipPath")
    assert boxes()[0]["x"] < boxes()[1]["x"] and shown() == "none"
    page.keyboard.press("w")
    assert boxes()[0] == boxes()[1] and shown() == "inset(0px 0px 0px 50%)", shown()
    edge = page.get_by_role("slider", name="Edge between the two pictures")
    edge.focus()
    page.keyboard.press("ArrowRight")
    assert shown() == "inset(0px 0px 0px 51%)" and "film-0001" in page.locator("#compare-title").inner_text()
    box = boxes()[0]
    page.mouse.click(box["x"] + box["width"] / 4, box["y"] + 20)
    eventually(lambda: shown() == "inset(0px 0px 0px 25%)", shown())
    page.screenshot(path=str(SCRATCH / "wipe.png"))
    page.keyboard.press("w")
    assert shown() == "none"


def check_room(page, width):
    """Scores are next to the pictures where there is room, else below; nothing is wider than the page."""
    pictures, facts = (page.locator(name).bounding_box() for name in ("#compared", "#compare-facts"))
    if width > 1100:
        assert facts["x"] >= pictures["x"] + pictures["width"] and facts["y"] <= pictures["y"] + 20
        assert facts["height"] > 0.5 * pictures["height"], "the dialog is not half empty"
    else:
        assert facts["y"] >= pictures["y"] + pictures["height"]
    assert page.evaluate("() => document.getElementById('compare-dialog').scrollWidth <= innerWidth")


def main(chromium):
    with Studio(folder_of()) as studio:
        for width, height in ((1440, 900), (390, 800)):
            with page_of(chromium, studio, viewport={"width": width, "height": height}) as page:
                open_pair(page)
                check_room(page, width)
                check_axe(page, f"the comparison at {width}")
                page.screenshot(path=str(SCRATCH / f"pair-{width}.png"))
                if width > 1100:
                    check_zoom(page)
                    check_wipe(page)
    print("pairs: all checks passed; screenshots are in", SCRATCH)


if __name__ == "__main__":
    run_alone(main)
