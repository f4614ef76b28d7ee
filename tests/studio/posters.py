#!/usr/bin/env python3
"""The map of a small folder: pictures that do not cover each other, enlarged under the pointer, and names of groups
that select them. usage: posters.py KINORA ROOT SCRATCH"""
import os

import numpy as np

from browser import SCRATCH, Studio, eventually, page_of, run_alone
from access import check_axe
from clips import curate_folder, make_video

# Two groups by their pictures and captions; the last two clips of each have no caption, and a file name that says it.
GROUPS = {"boat": ("red", "A small boat at sea"), "street": ("blue", "Cars in a street")}
EACH = 8
KEY = "{}-{:04}".format
# pixels of the map that are red, as the first group's pictures are
RED = """() => {
    const canvas = document.querySelector("#map canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let n = 0;
    for (let i = 0; i < data.length; i += 4) n += data[i] > 200 && data[i + 1] < 60 && data[i + 2] < 60;
    return n; }"""


def folder_of():
    facts = lambda n: {"duration_s": 1.0, "fps": 12.0, "frames": 12, "width": 160, "height": 90, "n": n,
                       "codec": "h264" if n < EACH / 2 else "av1"}
    folder = curate_folder(SCRATCH / "posters", [
        {"key": KEY(name, n), "end": "kept", "parent": "film", "consumed": False, "facts": facts(n),
         "caption": f"{caption}, {n}" if n < EACH - 2 else ""}
        for name, (_, caption) in GROUPS.items() for n in range(EACH)])
    for side, (name, (colour, _)) in enumerate(GROUPS.items()):
        make_video(SCRATCH / f"{name}.mp4", "160x90", seconds=1, picture=f"color=c={colour}")
        for n in range(EACH):
            os.link(SCRATCH / f"{name}.mp4", folder / "data" / f"{KEY(name, n)}.mp4")
            place = np.array([2 * side - 1, 0.02 * n, 0.1, 0], np.float32)
            np.save(folder / "data" / f"{KEY(name, n)}.classic.npy", place)
    return folder


def pictures(page):
    """Waits for all pictures of the first group, and returns how many pixels of the map they have."""
    last = []

    def is_still():
        last.append(page.evaluate(RED))
        return len(last) > 3 and last[-1] == last[-4] > 0

    eventually(is_still, "the pictures")
    return last[-1]


def check_groups(page):
    names = page.locator("#map .names button")
    eventually(lambda: sorted(names.all_inner_texts()) == [f"boat {EACH}", f"street {EACH}"], "the groups")
    boats = names.filter(has_text="boat")
    assert boats.get_attribute("aria-label").startswith(f"Select {EACH} clips: boat"), "its name says what it does"
    boats.press("Enter")
    eventually(lambda: page.locator("#how-many").inner_text() == f"{EACH} selected")
    toast = page.locator("#status").bounding_box()
    for other in ("#map-help", "#how-many"):
        box = page.locator(other).bounding_box()
        assert toast["y"] >= box["y"] + box["height"] or toast["y"] + toast["height"] <= box["y"], other


def check_pointer(page):
    """A picture is whole, and larger under the pointer; a click opens its clip."""
    before = pictures(page)
    box = page.locator("#map canvas").bounding_box()
    read = page.locator("#map .reading")
    for step in range(1, 40):  # goes up the left edge's group until it is over a picture
        page.mouse.move(box["x"] + 60, box["y"] + box["height"] * step / 40)
        if read.is_visible():
            break
    eventually(lambda: read.inner_text().startswith("boat-00"))
    eventually(lambda: page.evaluate(RED) > before + 5000, "the picture under the pointer is larger")
    key = read.inner_text().split(":")[0]
    page.mouse.down()
    page.mouse.up()
    eventually(lambda: page.locator("#detail h2").first.inner_text() == key)
    page.locator("#text").hover()
    eventually(lambda: not read.is_visible())


def check_counts(page):
    """The map says how many clips it shows, and its legend what these are."""
    about, where = page.locator("#map .row .muted"), page.locator("#where")
    legend = lambda: [text.strip() for text in page.locator("#map .legend li").all_inner_texts()]
    eventually(lambda: about.inner_text() == f"{2 * EACH} clips", "all clips")
    page.locator("#map select").first.select_option("codec")
    eventually(lambda: legend() == ["AV1", "H.264"], "both codecs")
    where.fill(f"n < {EACH // 2}")
    where.press("Enter")
    eventually(lambda: about.inner_text() == f"{EACH} of {2 * EACH} clips; the others are not in this view")
    assert legend() == ["H.264"], legend()
    page.locator("#all").click()
    eventually(lambda: about.inner_text() == f"{2 * EACH} clips")
    page.locator("#map select").first.select_option("")


def check_places(page):
    """No picture covers another if there is room, equal places included; too many clips are squares."""
    overlaps = page.evaluate("""async () => {
        const { spread } = await import("/map_places.js"), at = Array.from({ length: 40 }, () => [300, 200]);
        const out = spread(at, [50, 30], [800, 600], 20);
        return out.some(([x, y], i) => x < 25 || x > 775 || y < 35 || y > 585
            || out.some(([a, b], j) => j < i && Math.abs(a - x) < 50 && Math.abs(b - y) < 30)); }""")
    assert not overlaps
    boxes = page.evaluate("""async () => {
        const { boxOf } = await import("/map_drawing.js");
        return [boxOf(300, [1000, 800]) !== null, boxOf(301, [1000, 800]), boxOf(300, [360, 400])]; }""")
    assert boxes == [True, None, None], boxes


def main(chromium):
    with Studio(folder_of()) as studio:
        for width, height, scheme in ((1440, 900, "dark"), (390, 800, "light")):
            with page_of(chromium, studio, viewport={"width": width, "height": height}, color_scheme=scheme) as page:
                page.keyboard.press("v")
                pictures(page)
                check_groups(page)
                check_axe(page, f"the map at {width}")
                page.screenshot(path=str(SCRATCH / f"map-{width}.png"))
                assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), "no sideways scroll"
                if width > 1000:
                    check_pointer(page)
                    check_counts(page)
                    check_places(page)
    print("posters: all checks passed; screenshots are in", SCRATCH)


if __name__ == "__main__":
    run_alone(main)
