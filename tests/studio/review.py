#!/usr/bin/env python3
"""A review by keys alone: one key a clip, which goes on to the next and plays it, with a counter and what to type
at its end. Marks that differ, actions on many clips that say what they overrule, cards in their order for screen
readers, logarithmic histograms, and a telephone. usage: review.py KINORA ROOT SCRATCH"""
import json, math, os

from access import check_axe
from browser import SCRATCH, Studio, edits, eventually, page_of, run_alone
from clips import SCORES, curate_folder, make_video
from edits import said, select, shows, total
from keys import HOLD

CLIPS, MOST_KEYS, BOUND = 40, 45, 40.0
KEYS = [f"compilation_reel-{n:04}" for n in range(CLIPS + 4)]
FILTERED = KEYS[7::10]  # four, between the kept ones
KEPT = [key for key in KEYS if key not in FILTERED]
BLUR = {key: 10 * 1.2**n for n, key in enumerate(KEYS)}  # two decades and a half


def folder_of():
    items = [{"key": "broken", "end": "failed", "stage": "video.probe", "reason": "not a video file",
              "consumed": False, "url": "broken.mp4", "facts": {}}]
    for n, key in enumerate(KEYS):
        facts = {"film": "reel", "duration_s": 1.0, "fps": 12.0, "frames": 12, "scores": {"filter.blur": BLUR[key]}}
        end = {"end": "kept"} if key in KEPT else {"end": "filtered", "stage": "filter.blur", "reason": "filter.blur",
                                                   "score": BLUR[key]}
        items.append({"key": key, "parent": "reel", "consumed": False, "facts": facts, "caption": f"clip {n}", **end})
    folder = curate_folder(SCRATCH / "review/clips", items)
    bound = {"slot": "stages", "id": "stage/filter.blur", "options": {"mode": "on", "at_least": BOUND}}
    (folder / "job.json").write_text(json.dumps({"kind": "curate", "scores": SCORES, "file": "/home/mia/my films.toml",
                                                 "components": [bound]}))
    make_video(SCRATCH / "review.mp4", "64x36", seconds=1)
    for key in KEPT:
        os.link(SCRATCH / "review.mp4", folder / "data" / f"{key}.mp4")
    return folder.parent


def text(page, name):
    return page.locator(f"#{name}").inner_text()


def title(page):
    return page.locator("#detail h2").first.inner_text()


def check_forty(page, run):
    """n, then a or r for each clip: the filtered ones between them are passed, and what is shown plays."""
    pressed, rejected = 0, KEPT[2::4]
    page.keyboard.press("Home")
    shows(page, "broken")
    assert text(page, "reviewed") == f"0 of {CLIPS} reviewed" and page.locator("#review-end").is_hidden()
    page.keyboard.press("n")
    shows(page, KEPT[0])
    page.wait_for_function("() => document.querySelector('#detail video').currentTime > 0")
    for key in KEPT:
        page.keyboard.press("r" if key in rejected else "a")
        pressed += 1
        if pressed == 5:
            shows(page, KEPT[5])
            page.wait_for_function("() => document.querySelector('#detail video').currentTime > 0")
            eventually(lambda: text(page, "reviewed") == f"5 of {CLIPS} reviewed", "the counter")
    assert pressed + 2 <= MOST_KEYS
    end = (f"All reviewed: {CLIPS - len(rejected)} accepted, {len(rejected)} rejected; pack now: "
           f"kinora run '/home/mia/my films.toml' --out {run} Copy")
    eventually(lambda: text(page, "reviewed") == f"{CLIPS} of {CLIPS} reviewed" and text(page, "review-end") == end,
               text(page, "review-end"))
    lines, last = edits(run)
    assert len(lines) == CLIPS and {key: values["keep"] for key, values in last.items()} == {
        key: key not in rejected for key in KEPT}, last
    for width in (1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        if width != 1024:
            check_axe(page, f"the end at {width}")
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), width
        page.screenshot(path=str(SCRATCH / f"review-{width}.png"))
    page.set_viewport_size({"width": 1440, "height": 900})


def check_next(page):
    """n says when nothing is left, and leads to what is undone, wherever it is."""
    page.keyboard.press("n")
    said(page, "All clips of this view are reviewed")
    page.keyboard.press("u")
    said(page, f"Undone: {KEPT[-1]}")
    eventually(lambda: text(page, "reviewed") == f"{CLIPS - 1} of {CLIPS} reviewed"
               and page.locator("#review-end").is_hidden(), "one is left")
    page.keyboard.press("Home")
    page.locator("#reviewed").click()
    shows(page, KEPT[-1])
    page.keyboard.press("Escape")


def check_marks(page):
    """Accepted, selected, focused and the main action have four colours; a tick is accepted, a cross rejected."""
    select(page, KEPT[3])
    page.keyboard.press("s")
    page.keyboard.press("j")
    cell = lambda key: page.locator(".cell", has=page.get_by_text(key, exact=True))
    mark = lambda key: cell(key).locator(".badge").evaluate(
        "badge => [getComputedStyle(badge, '::before').content, getComputedStyle(badge).backgroundColor]")
    # the bar of the selection lays the cards anew
    eventually(lambda: (mark(KEPT[1])[0], mark(KEPT[2])[0]) == ('"✓"', '"✕"'), "a tick and a cross")
    _, accepted = mark(KEPT[1])
    colours = [accepted,
               cell(KEPT[3]).locator(".check").evaluate("check => getComputedStyle(check).backgroundColor"),
               page.locator(".cell[aria-selected=true]").evaluate("cell => getComputedStyle(cell).borderTopColor"),
               page.locator("#reject-dialog .primary").evaluate("button => getComputedStyle(button).backgroundColor")]
    assert len(set(colours)) == 4, colours
    assert cell(KEPT[3]).locator(".key span").last.inner_text() == KEPT[3][-4:], "the part in which names differ"
    page.keyboard.press("Escape")


def check_many(page):
    """The question before, and the message after, count the decisions that are overruled."""
    select(page, KEPT[0])
    for key in ("s", *["Shift+ArrowRight"] * 4, "x"):
        page.keyboard.press(key)
    eventually(lambda: text(page, "reject-note") == "4 of these are accepted.", "the question")
    check_axe(page, "the question")
    page.keyboard.press("Enter")
    said(page, "Rejected: 4 clips (4 were accepted before)")  # one was rejected already
    page.keyboard.press("u")
    said(page, "Undone: ")
    page.keyboard.press("Escape")
    select(page, KEPT[2])
    page.keyboard.press("a")
    said(page, f"Accepted: {KEPT[2]} (rejected before)")
    page.keyboard.press("u")
    said(page, f"Undone: {KEPT[2]}")
    shows(page, KEPT[2])


def check_refused(page):
    """A decision that is not saved takes the focus back to its clip."""
    page.route("**/api/edit", lambda route: route.fulfill(status=500, content_type="application/json",
                                                          body='{"error": "no space left"}'))
    page.keyboard.press("a")
    said(page, "no space left")
    shows(page, KEPT[2])
    page.unroute("**/api/edit")
    select(page, "broken")
    page.keyboard.press("a")
    said(page, "broken cannot be accepted")
    shows(page, "broken")


def check_player(page):
    """While a clip is loaded, no picture of the clip before stands under its title."""
    select(page, KEPT[10])
    page.evaluate(HOLD, f"/api/clip?id=clips%2F{KEPT[11]}")
    page.keyboard.press("j")
    eventually(lambda: title(page) == KEPT[11] and page.evaluate("() => 'release' in window"), "the title")
    seen = lambda: page.locator("#detail video").evaluate("video => getComputedStyle(video).visibility")
    assert seen() == "hidden", seen()
    page.evaluate("() => window.release()")
    shows(page, KEPT[11])
    eventually(lambda: seen() == "visible" and KEPT[11] in (page.locator("#detail video").get_attribute("src") or ""),
               "its own picture")


def check_order(page):
    """The cards' elements are in the order of the list, whatever was scrolled to before."""
    for key in ("End", "Home", "PageDown", "PageDown", "PageUp"):
        page.keyboard.press(key)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        places = page.evaluate("() => [...document.querySelectorAll('.cell')].map((cell) => +cell.ariaPosInSet)")
        assert len(places) > 5 and places == list(range(places[0], places[0] + len(places))), (key, places)


def check_scale(page):
    """Sharpness from 10 to 25,000 has a logarithmic histogram: its bound is where the logarithm says, its ends say
    which is better, and a bar selects what it counts."""
    group = page.locator(".group", has=page.get_by_role("toolbar", name="Sharpness"))
    eventually(lambda: group.locator(".ends").count() == 1, "the histogram")
    ends = group.locator(".ends > span").all_inner_texts()
    assert [end.split("\n")[0] for end in ends] == ["blurred", "log", "sharp (better)"], ends
    at, box = group.get_by_role("slider").bounding_box(), group.locator(".bars").bounding_box()
    share = (at["x"] + at["width"] / 2 - box["x"]) / box["width"]
    low, high = min(BLUR.values()), max(BLUR.values())
    assert abs(share - math.log(BOUND / low) / math.log(high / low)) < 0.02, share
    bar = group.locator(".bars button").nth(12)
    count = int(bar.get_attribute("aria-label").split(" of ")[1])
    assert count > 0
    bar.click()
    eventually(lambda: total(page) == count and group.locator(".bars button[aria-pressed=true]").count() == 1,
               "what the bar counts")
    page.locator("#all").click()
    eventually(lambda: total(page) == len(KEYS) + 1, "all again")


def check_phone(chromium, studio):
    """Buttons lead to the next and the previous clip; no keys are named."""
    with page_of(chromium, studio, viewport={"width": 390, "height": 844}, has_touch=True) as page:
        page.keyboard.press("n")
        shows(page, KEPT[-1])
        page.keyboard.press("Home")
        page.keyboard.press("j")
        shows(page, KEPT[0])
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Next").click()
        shows(page, KEPT[1])
        page.get_by_role("button", name="Previous").click()
        shows(page, KEPT[0])
        assert page.get_by_role("button", name="Accept", exact=True).is_visible(), "no key in its name"
        assert "(x)" not in page.locator("#detail").inner_text()
        assert "/" not in page.locator("#text").get_attribute("placeholder")
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        page.screenshot(path=str(SCRATCH / "phone.png"))
        page.get_by_role("button", name="Accept", exact=True).click()
        said(page, f"Accepted: {KEPT[0]}")
        shows(page, KEPT[1])


def main(chromium):
    run = folder_of()
    with Studio(run) as studio:
        with page_of(chromium, studio, viewport={"width": 1440, "height": 900}, refused=(500,),
                     reduced_motion="no-preference") as page:
            check_forty(page, run)
            check_next(page)
            check_marks(page)
            check_many(page)
            check_refused(page)
            check_player(page)
            check_order(page)
            check_scale(page)
        check_phone(chromium, studio)
    print("review: all checks passed; screenshots are in", SCRATCH)


if __name__ == "__main__":
    run_alone(main)
