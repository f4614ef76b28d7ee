#!/usr/bin/env python3
"""How clips look: names cut in their middle, one score on a card, bounds on the histograms and what moving them would
change, the map of embeddings, sizes, clips that play under the pointer, and facts in words. usage: looks.py KINORA ROOT
SCRATCH"""
import json, os

import numpy as np

from browser import SCRATCH, Studio, eventually, page_of, run_alone
from clips import SCORES, curate_folder, make_video
from edits import select
from states import State

CLIPS, BOUND = 60, 20.5  # clip n has sharpness n, from 1
KEY = "holiday-at-the-seaside-part-{:02}-of-the-camera-roll".format
KEPT = [n for n in range(1, CLIPS + 1) if n >= BOUND]
# The title that the job notes is shown, also for a score of Kinora's own stages.
FLOW = {"filter.flow": {"title": "Flow as stated", "unit": "diagonals/s"}}
DARK = [n for n in KEPT if n % 3 == 0]  # one of two groups of embeddings


def folder_of():
    items = []
    for n in range(1, CLIPS + 1):
        facts = {"duration_s": 2.0, "fps": 12.0, "frames": 24, "width": 320, "height": 180, "codec": "h264",
                 "container": "mov,mp4,m4a,3gp,3g2,mj2", "bin": {"aspect": "16_9"},
                 "scores": {"filter.blur": n, "filter.flow": 6.2e-41}}
        end = {"end": "kept"} if n in KEPT else {"end": "filtered", "stage": "filter.blur", "reason": "filter.blur",
                                                 "score": n}
        if n not in KEPT:
            facts["bounds"] = {"filter.blur": {"at_least": BOUND}}
        items.append({"key": KEY(n), "parent": "film", "consumed": False, "facts": facts, **end})
    folder = curate_folder(SCRATCH / "looks", items)
    stage = lambda name, **options: {"slot": "stages", "id": f"stage/{name}", "options": options}
    (folder / "job.json").write_text(json.dumps({"kind": "curate", "scores": SCORES | FLOW,
                                                 "components": [
                                                     stage("filter.blur", mode="on", at_least=BOUND, at_most=1e300),
                                                     stage("filter.flow", mode="score", at_least=0.002)]}))
    make_video(SCRATCH / "looks.mp4", "320x180", seconds=2)
    for n in KEPT:
        os.link(SCRATCH / "looks.mp4", folder / "data" / f"{KEY(n)}.mp4")
        group = -1 if n in DARK else 1
        np.save(folder / "data" / f"{KEY(n)}.classic.npy", np.array([group, 0.01 * n, 0.1, 0], np.float32))
    return folder


def card(page, n):
    select(page, KEY(n))
    return page.locator(".cell[aria-selected=true]")


def check_cards(page):
    """The part of a long name that differs from its neighbours can be seen, and its beginning; a card has the score
    that its outcome or the order is about, and no other."""
    cell = card(page, 7)
    ends = cell.locator(".key").evaluate("""key => {
        const [head, tail] = key.children, box = key.getBoundingClientRect();
        return [head.scrollWidth > head.clientWidth, tail.getBoundingClientRect().left < box.right - 40,
                head.clientWidth > 30, tail.textContent]; }""")
    assert ends == [True, True, True, "07-of-the-camera-roll"], ends
    assert cell.locator(".scores").inner_text() == "Sharpness 7, at least 20.5", cell.inner_text()
    assert cell.locator("canvas").evaluate(
        "canvas => getComputedStyle(canvas).opacity") == "1", "what was filtered is as visible as the rest"
    assert card(page, 25).locator(".scores").inner_text() == ""
    page.locator("#sort").select_option("scores.filter.blur")
    eventually(lambda: card(page, 25).locator(".scores").inner_text() == "Sharpness 25")
    assert page.locator("#order").inner_text() == "↑ low first"
    page.locator("#sort").select_option("")


def check_bound(page):
    """The bound in force is drawn; moved, it says which clips would go and come back, and how to make it so."""
    line = page.get_by_role("slider")
    # figures come after the clips
    eventually(lambda: line.count() == 1, "a stage that only records a score has no bound")
    assert (line.get_attribute("aria-label"),
            line.get_attribute("aria-valuetext")) == ("Bound of Sharpness", "at least 20.5")

    def is_in_place():  # neither has a box while the page draws its figures again
        at, box = line.bounding_box(), page.get_by_role("toolbar", name="Sharpness").bounding_box()
        return at and box and abs((at["x"] + at["width"] / 2 - box["x"]) / box["width"] - (BOUND - 1)
                                  / (CLIPS - 1)) < 0.02

    eventually(is_in_place, "the bound is where its value is")
    about, step = page.locator("p.bound"), 0.1 * (CLIPS - 1)
    line.focus()
    page.keyboard.press("Shift+ArrowRight")
    gone = sum(n < BOUND + step for n in KEPT)
    eventually(lambda: about.inner_text().startswith(f"at least 26.4 instead of 20.5: {gone} more clips would go"),
               "what would go")
    page.get_by_role("button", name="Copy as a condition").first.wait_for()
    about.get_by_role("button", name="Copy as a condition").click()
    eventually(lambda: 'where = "scores.filter.blur >= 26.4"' in page.locator("#status").inner_text())
    line.focus()
    for _ in range(2):
        page.keyboard.press("Shift+ArrowLeft")
    back = sum(BOUND - step <= n < BOUND for n in range(1, CLIPS + 1))
    eventually(lambda: f"{back} clips would come back" in about.inner_text()
               and "set at_least = 14.6 of filter.blur" in about.inner_text(), "what would come back")
    about.get_by_role("button", name="Back").click()
    eventually(lambda: about.inner_text() == "at least 20.5 is kept")


def check_map(state):
    """The two groups lie apart; a loop around one of them selects it; colours by a fact have a legend."""
    page = state.page
    page.locator("#show-map").click()
    eventually(lambda: page.locator("#map .row").inner_text().endswith(f"{len(KEPT)} clips"), "the map")
    plane = page.locator("#map canvas")
    box = plane.bounding_box()
    corner = lambda x, y: page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=3)
    corner(0.01, 0.01)
    page.mouse.down()
    for at in ((0.5, 0.01), (0.5, 0.99), (0.01, 0.99)):
        corner(*at)
    page.mouse.up()
    eventually(lambda: page.locator("#how-many").inner_text() == f"{len(DARK)} selected", "the left group")
    page.locator("#map select").first.select_option("scores.filter.blur")
    legend = lambda: page.locator("#map .legend li").all_inner_texts()
    eventually(lambda: len(legend()) == 5 and legend()[0].strip() == str(KEPT[0])
               and legend()[-1].strip() == str(CLIPS), "the colours' numbers")
    state.done("map")
    page.locator("#map select").first.select_option("codec")
    eventually(lambda: [text.strip() for text in legend()] == ["H.264"], "a fact that is text")
    plane.focus()
    before = page.locator("#detail h2").first.inner_text()
    page.keyboard.press("ArrowLeft")  # the focused clip is of the right group
    eventually(lambda: page.locator("#detail h2").first.inner_text() != before, "the next clip of the map")
    page.locator("#show-map").click()
    eventually(lambda: page.evaluate("() => document.activeElement.id") == "list")
    shown = page.locator('.cell[aria-checked="true"]:visible .key').all_inner_texts()
    assert set(shown) <= {KEY(n) for n in DARK}, shown
    page.keyboard.press("Escape")


def columns(page):
    return page.evaluate(
        "() => { const tops = [...document.querySelectorAll('.cell:not([hidden])')].map((cell) => "
        "cell.getBoundingClientRect().top); return tops.filter((top) => top === tops[0]).length; }")


def check_sizes(page):
    found = []
    for size in ("large", "medium", "small"):
        page.locator("#size").select_option(size)
        page.keyboard.press("Home")
        found.append(columns(page))
    assert found[0] < found[1] < found[2], found
    page.keyboard.press("Escape")
    page.keyboard.press("+")
    eventually(lambda: page.locator("#size").input_value() == "medium" and columns(page) == found[1])


def check_hover(page):
    card(page, 30).locator(".still").hover()
    page.wait_for_function("() => document.querySelector('.cell[aria-selected=true] video.plays')?.currentTime > 0")
    page.locator("#text").hover()
    eventually(lambda: page.locator(".cell video").count() == 0, "it stops")


def check_facts(page):
    card(page, 7)
    facts = lambda: page.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('#detail dl.facts')].filter((list) => "
        "!list.closest('details')).flatMap((list) => [...list.querySelectorAll('dt')].map((dt) => [dt.textContent, "
        "dt.nextSibling.textContent])))")
    eventually(lambda: facts() == {"Length": "2 s", "Frames": "24", "Frame rate": "12 frames/s", "Width": "320",
                                   "Height": "180", "Shape": "16:9", "Codec": "H.264", "Container": "MP4 or MOV",
                                   "Sharpness": "7, at least 20.5 is kept",
                                   "Flow as stated": "≈ 0\u00a0diagonals/s"}, "facts in words")
    assert "mov,mp4,m4a" in page.locator("#detail details").text_content(), "and as they are stored"


def main(chromium):
    with Studio(folder_of()) as studio:
        with State(chromium, studio) as state:
            check_cards(state.page)
            check_bound(state.page)
            state.done("cards")
            check_map(state)
            check_facts(state.page)
            check_sizes(state.page)
            check_hover(state.page)
        with page_of(chromium, studio, viewport={"width": 2560, "height": 1300}, color_scheme="dark") as page:
            page.wait_for_function(
                "() => [...document.querySelectorAll('.cell.kept:not([hidden]) canvas')].every((canvas) => "
                "canvas.style.visibility === 'visible')")
            page.screenshot(path=str(SCRATCH / "dark-2560.png"))
    print("looks: all checks passed; screenshots are in", SCRATCH)


if __name__ == "__main__":
    run_alone(main)
