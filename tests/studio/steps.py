#!/usr/bin/env python3
"""The funnel above the sheet: its numbers are those of the summaries, and each step, and what fell before it, shows the
clips that it counts. usage: steps.py KINORA ROOT SCRATCH"""
import json

from access import check_axe
from browser import SCRATCH, Studio, eventually, page_of, run_alone
from clips import curate_folder
from edits import total

KEPT, FILTERED, FAILED, STAYS, PACKED = 9, 3, 1, 5, 4


def write(folder, kind, summary, **job):
    folder.mkdir(exist_ok=True)
    (folder / "job.json").write_text(json.dumps({"kind": kind, **job}))
    (folder / "summary.json").write_text(json.dumps({"job": folder.name, "kind": kind, **summary}))


def folder_of():
    """A video cut into clips, of which a select job chooses; one more that failed."""
    ends = ["kept"] * KEPT + ["filtered"] * FILTERED + ["failed"] * FAILED
    items = [{"key": f"film-{n:04}", "parent": "film", "consumed": False, "end": end, "reason": "black",
              "facts": {"film": "film", "scores": {"filter.blur": n}}} for n, end in enumerate(ends)]
    url = lambda key: str(SCRATCH / f"{key}.mp4")
    items.append({"key": "film", "end": "kept", "consumed": True, "url": url("film")})
    items.append({"key": "broken", "end": "failed", "consumed": False, "stage": "video.probe", "reason": "cut off",
                  "url": url("broken")})
    folder = curate_folder(SCRATCH / "steps/clips", items)
    counts = {"kept": KEPT, "filtered": FILTERED, "failed": FAILED}
    write(folder, "curate", {"kept": 1, "filtered": 0, "failed": 1, "clips": counts})
    good = folder.parent / "good"
    write(good, "select", {"curated": "clips", "left_out_before": 0,
                           "clips": {"kept": STAYS, "filtered": KEPT - STAYS, "failed": 0}},
          options={"where": "blur < 5"})
    (good / "decisions.jsonl").write_text("".join(
        json.dumps({"key": f"film-{n:04}", "end": "kept"} if n < STAYS
                   else {"key": f"film-{n:04}", "end": "filtered", "final": True, "rule": "blur < 5"}) + "\n"
        for n in range(KEPT)))
    write(folder.parent / "shards", "shard", {"samples": PACKED, "given": STAYS, "given_by": "good",
                                              "not_asked_for": {"where": "blur < 4", "clips": STAYS - PACKED}})
    return folder.parent


def main(chromium):
    with Studio(folder_of()) as studio, page_of(chromium, studio) as page:
        texts = [" ".join(text.split()) for text in page.locator("#funnel li").all_inner_texts()]
        assert texts == ["2 videos", "13 clips 1 video failed", "9 good 3 filtered 1 failed",
                         "5 chosen 4 left out by good", "4 in shards 1 not asked for by where"], texts
        every = KEPT + FILTERED + FAILED
        for step, clips in (("2 videos", 2), ("9 good", KEPT), ("1 failed", FAILED), ("3 filtered", FILTERED),
                            ("1 video failed", 1), ("5 chosen", STAYS), ("4 left out by good", KEPT - STAYS),
                            ("4 in shards", PACKED), ("1 not asked for by where", STAYS - PACKED), ("13 clips", every)):
            page.locator("#funnel button", has_text=step).first.click()
            eventually(lambda: total(page) == clips, (step, clips))
        kind = page.locator("[data-choice='kind clip']")
        eventually(lambda: kind.get_attribute("aria-pressed") == "true", "what the funnel asks for is seen")
        kind.click()
        eventually(lambda: total(page) == every + 1 and kind.count() == 0, "and taken back: the broken video, too")
        page.locator("#funnel button", has_text="2 videos").click()
        eventually(lambda: page.locator("#summary").inner_text() == "2 videos", "clips are not counted")
        check_axe(page, "funnel")
        for width in (1440, 1024, 390):
            page.set_viewport_size({"width": width, "height": 800})
            eventually(lambda: page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), width)
            assert page.locator("#funnel").bounding_box()["height"] < 110, width


if __name__ == "__main__":
    run_alone(main)
