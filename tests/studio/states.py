#!/usr/bin/env python3
"""Every state of the page, wide and narrow: nothing overflows, axe finds nothing, the expected text is there; a picture
of each stays in SCRATCH. usage: states.py KINORA ROOT SCRATCH"""
import json, shutil

import scroll
from access import check_axe, has_news
from browser import SCRATCH, Studio, curated_once, eventually, page_of, run_alone, still

SIZES = {"wide": {"width": 1280, "height": 800}, "narrow": {"width": 390, "height": 844}}


class State:
    """A wide page, and the same page narrow; `done` takes the pictures of a state."""

    def __init__(self, chromium, studio, **how):
        self.of = page_of(chromium, studio, viewport=SIZES["wide"], reduced_motion="no-preference", **how)

    def __enter__(self):
        self.page = self.of.__enter__()
        return self

    def __exit__(self, *error):
        return self.of.__exit__(*error)

    def done(self, name, check=lambda: None):
        """check: more that holds at each size."""
        for size in SIZES:
            self.page.set_viewport_size(SIZES[size])
            still(self.page)
            self.page.screenshot(path=str(SCRATCH / f"{name}-{size}.png"))
            check_axe(self.page, f"{name} {size}")
            eventually(lambda: self.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"),
                       f"{name} {size}: it hangs over")
            check()
        self.page.set_viewport_size(SIZES["wide"])


def empty():
    """A curate job that has just begun and has no results yet."""
    folder = SCRATCH / "empty/clips"
    (folder / "data").mkdir(parents=True)
    (folder / "job.json").write_text('{"kind": "curate"}')
    return folder.parent


def check_empty(chromium):
    with Studio(empty()) as studio, State(chromium, studio, shows="#nothing:visible") as state:
        page = state.page
        eventually(lambda: "no clips yet" in page.locator("#nothing").inner_text()
                   and page.locator("#summary").inner_text() == "0 clips")
        for key in ("j", "a", "x", "e", "m", " ", "u"):
            page.keyboard.press(key)
        assert not page.locator("dialog[open]").count(), "without clips no decision is possible"
        state.done("empty")
        clips = SCRATCH / "empty/clips/data"
        (clips / "film-0000.json").write_text('{"film": "film", "duration_s": 2}')
        eventually(lambda: page.locator(".cell:visible").count() == 1 and page.locator("#nothing").is_hidden(),
                   "the first clip", 30)


def check_running(chromium, folder):
    stage = lambda name, busy: {"name": name, "in": 12, "out": 9, "dropped": 1, "failed": 0, "rate": 0.00417,
                                "busy": busy, "workers": 2, "queue": 3}
    running = SCRATCH / "running-stages"
    shutil.copytree(folder, running)
    for name in ("items.jsonl", "summary.json"):
        (running / "clips" / name).unlink()
    live = running / "clips/live.json"
    live.write_text(json.dumps({"seconds": 75, "done": 2, "total": 9, "memory": {"used": 1353, "bound": 2**30},
                                "bound": "clip.transcode",
                                "stages": [stage(f"stage.{n}", n / 9)
                                           for n in range(8)] + [stage("clip.transcode", 1.9)]}))
    with Studio(running) as studio, State(chromium, studio) as state:
        assert "clip.transcode bounds the rate" in has_news(state.page, live)
        height = lambda: state.page.locator("#list").bounding_box()["height"]
        state.done("running-bar", lambda: eventually(lambda: height() > 500, "the bar takes little of the window"))
        state.page.locator("#live summary").click()
        told = has_news(state.page, live)
        assert "0 of 1024 MiB between stages" in told, told
        eventually(lambda: "0.0" in state.page.locator("#live tbody tr").first.locator("td").all_inner_texts()
                   and "0.00" not in told)
        state.done("running", lambda: eventually(lambda: height() > 200, "the table of stages leaves room for clips"))


def check_many(chromium, folder):
    with Studio(folder) as studio, State(chromium, studio) as state:
        state.page.keyboard.press("End")
        eventually(lambda: state.page.locator(".cell[aria-selected=true] .key").inner_text() == "film-09999",
                   "the last")
        state.done("many")


def check_work(chromium, studio):
    """Search results, an edit, the dialogs, nothing found."""
    with State(chromium, studio) as state:
        page = state.page
        page.keyboard.press("/")
        page.keyboard.type("film")
        eventually(lambda: page.locator("#all").is_visible(), "the search")
        state.done("search")
        page.locator("#text").fill("nothing of the kind")
        eventually(lambda: page.locator("#nothing").is_visible(), "nothing")
        state.done("none")
        page.locator("#all").click()
        eventually(lambda: page.locator("#all").is_hidden(), "all")
        page.keyboard.press("Home")
        page.keyboard.press("m")
        eventually(lambda: "most like" in page.locator("#summary").inner_text()
                   or "no embedding" in page.locator("#status").inner_text(), "an answer")
        state.done("like")
        page.keyboard.press("e")
        page.keyboard.type(" and so on")
        eventually(lambda: "not saved" in page.locator("#detail").inner_text(), "the draft")
        state.done("edit")
        page.keyboard.press("Escape")
        page.keyboard.press("x")
        page.wait_for_selector("#reject-dialog[open]")
        state.done("reject")
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        page.wait_for_selector("#keys-dialog[open]")
        keys = page.locator("#key-list kbd").all_inner_texts()
        assert {",", ".", "m", "w", "?", "Shift+U"} <= set(keys) and all(key.strip() for key in keys), keys
        state.done(
            "keys", lambda: eventually(lambda: page.evaluate("() => document.getElementById('keys-dialog').scrollTop")
                                       == 0, "it begins with the first key"))
        assert page.evaluate(
            "() => { const dialog = document.getElementById('keys-dialog'); return dialog.scrollHeight <= "
            "dialog.clientHeight; }"), "a wide window shows all keys"
        page.keyboard.press("Escape")


def check_lost(chromium, studio):
    """The page reports it and keeps its contents; a draft is not lost; when the studio answers again, the bar
    disappears."""
    with State(chromium, studio, is_lost=True) as state:
        page = state.page
        page.wait_for_selector("#caption", state="attached")
        page.route("**/api/**", lambda route: route.abort())
        eventually(lambda: page.locator("#lost").is_visible(), "that the studio is gone")
        eventually(lambda: "does not answer" in page.locator("#lost").inner_text()
                   and page.locator(".cell:visible").count())
        page.keyboard.press("e")
        page.keyboard.type(" kept as a draft")
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.getElementById('status').textContent.includes('does not answer')")
        eventually(lambda: page.locator("#caption").input_value().endswith(" kept as a draft"))
        at = lambda: page.locator("#lost").bounding_box()
        state.done(
            "lost", lambda: eventually(
                lambda: page.evaluate("at => document.elementFromPoint(at.x + 20, at.y + 10).id === 'lost'", at()),
                "nothing covers the bar"))
        page.unroute("**/api/**")
        eventually(lambda: page.locator("#lost").is_hidden(), "that it is back")
        eventually(lambda: page.locator("#caption").input_value().endswith(" kept as a draft"))


def main(chromium):
    folder, many = curated_once(), scroll.synthetic()
    check_empty(chromium)
    check_running(chromium, folder)
    check_many(chromium, many)
    with Studio(folder) as studio:
        check_work(chromium, studio)
        check_lost(chromium, studio)
    print("states: all checks passed; screenshots are in", SCRATCH)


if __name__ == "__main__":
    run_alone(main)
