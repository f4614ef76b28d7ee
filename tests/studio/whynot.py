#!/usr/bin/env python3
"""Next to a clip that was left out, the bounds that would keep it, of a stage or of a select job, with how many clips
they would keep in all, to copy. usage: whynot.py KINORA ROOT SCRATCH"""
import json

from browser import SCRATCH, Studio, eventually, page_of, run_alone
from access import check_axe
from chosen import write_selection
from clips import SCORES, curate_folder
from edits import said, select

BOUND = 10  # of the stage: clip n has sharpness n + 0.1234
SELECT = 14.5  # of the select job, which leaves out some of the rest
KEY = "film-{:04}".format


def folder_of():
    items = []
    for n in range(20):
        blur = n + 0.1234
        facts = {"frames": 24, "fps": 12.0, "duration_s": 2.0, "scores": {"filter.blur": blur, "filter.flow": n % 2}}
        end = {"end": "kept"}
        if blur < BOUND:
            facts["bounds"] = {"filter.blur": {"at_least": BOUND}}
            end = {"end": "filtered", "stage": "filter.blur", "reason": "filter.blur", "score": blur}
        items.append({"key": KEY(n), "parent": "film", "consumed": False, "facts": facts, **end})
    short = {"frames": 6, "fps": 12.0, "duration_s": 0.5, "bounds": {"clip.too-short": {"at_least": 2.0}}}
    items.append({"key": "short", "parent": "film", "consumed": False, "end": "filtered", "stage": "video.clips",
                  "reason": "clip.too-short", "score": 0.5, "facts": short})
    folder = curate_folder(SCRATCH / "whynot/clips", items)
    stage = {"slot": "stages", "id": "stage/filter.blur", "options": {"mode": "on", "at_least": BOUND}}
    (folder / "job.json").write_text(json.dumps({"kind": "curate", "scores": SCORES, "components": [stage]}))
    (folder / "summary.json").write_text("{}")
    write_selection(folder.parent, [decision(n) for n in range(BOUND, 20)],
                    where=f"blur > {SELECT} and filter.flow >= 1")
    return folder.parent


def decision(n):
    if n + 0.1234 > SELECT and n % 2:
        return {"key": KEY(n), "end": "kept"}
    rule = f"blur > {SELECT}" if n + 0.1234 <= SELECT else "filter.flow >= 1"
    return {"key": KEY(n), "end": "filtered", "final": True, "rule": rule}


def told(page, key):
    select(page, key)
    eventually(lambda: page.locator("#detail h2").first.inner_text() == key
               and page.locator("#detail").get_attribute("aria-busy") == "false")
    why = page.locator("#detail .why span")
    eventually(lambda: why.count() == 1, f"what would keep {key}")
    return why.inner_text()


def check_stage(page):
    """The smallest bound of three digits that keeps the clip keeps those above it, too."""
    assert told(page, KEY(7)) == "at_least = 7.12 of filter.blur would keep it; 3 clips in all."
    assert told(page, KEY(9)) == "at_least = 9.12 of filter.blur would keep it; 1 clip in all."
    check_axe(page, "a clip that was left out")
    page.keyboard.press("r")
    said(page, f"Rejected: {KEY(9)}")
    assert told(page, KEY(7)) == "at_least = 7.12 of filter.blur would keep it; 2 clips in all.", "one is rejected"
    page.keyboard.press("u")
    said(page, f"Undone: {KEY(9)}")
    assert told(page, KEY(9)) == "at_least = 9.12 of filter.blur would keep it; 1 clip in all."
    page.get_by_role("button", name="Copy at_least = 9.12").click()
    said(page, "Copied: at_least = 9.12")
    assert page.evaluate("() => navigator.clipboard.readText()") == "at_least = 9.12"
    assert told(page, "short") == "min_length = 0.5 of video.clips would keep it; 1 clip in all."


def check_select(page):
    """One condition of two, or both; a kept clip has none."""
    assert told(page, KEY(13)) == "blur > 13.1 in the where of good would keep it; 1 clip in all."
    assert told(page, KEY(16)) == "filter.flow >= 0 in the where of good would keep it; 2 clips in all."
    both = "blur > 12.1 and filter.flow >= 0 in the where of good would keep it; 5 clips in all."
    assert told(page, KEY(12)) == both, "it breaks both"
    select(page, KEY(15))
    eventually(lambda: page.locator("#detail h2").first.inner_text() == KEY(15)
               and page.locator("#detail").get_attribute("aria-busy") == "false")
    assert page.locator("#detail .why").count() == 0, "a kept clip"


def check_numbers(page):
    """Bounds keep the number that they are for, whatever its size, sign and side."""
    wrong = page.evaluate("""async () => {
        const { keeping } = await import("/whynot.js"), wrong = [];
        for (const its of [0, 1, 0.12345, -0.98765, 123456.7, -4.0049e-7, 999.9])
          for (const is_most of [false, true])
            for (const is_strict of [false, true]) {
              const value = keeping(its, { is_most, is_strict });
              const isKept = is_strict ? (is_most ? its < value : its > value)
                  : is_most ? its <= value : its >= value;
              if (!(isKept && Math.abs(value - its) <= 0.011 * Math.max(Math.abs(its), 1)))
                wrong.push([its, is_most, is_strict, value]);
            }
        return wrong; }""")
    assert not wrong, wrong


def main(chromium):
    with Studio(folder_of()) as studio, page_of(chromium, studio,
                                                permissions=["clipboard-read", "clipboard-write"]) as page:
        check_stage(page)
        check_select(page)
        check_numbers(page)
    print("whynot: all checks passed")


if __name__ == "__main__":
    run_alone(main)
