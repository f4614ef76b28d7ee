#!/usr/bin/env python3
"""The page with screen readers, by keyboard only, in dark mode and on a narrow screen, and with a running job.
Screenshots stay in SCRATCH. usage: access.py KINORA ROOT SCRATCH"""
import json, os, re, shutil

from browser import SCRATCH, Studio, copy_of_run, edits, eventually, page_of, run_alone, still
from axe_core import violations
import record
from edits import said, select, total


def check_axe(page, what):
    """axe-core's rules, contrast included; waits for elements that fade in, since they have no contrast yet. A message
    may begin to fade while axe looks, so only what it finds three times counts."""
    for _ in range(3):
        still(page)
        found = violations(page)
        if not found:
            return
    raise AssertionError(f"{what}: {found}")


def check_tree(page):
    """The tree that a screen reader gets."""
    page.get_by_role("toolbar", name="Length", exact=True).wait_for()  # figures come after the clips
    tree = page.locator("body").aria_snapshot()
    for part in ('listbox "Clips"', 'option "film-0000, kept, 3.5 s. A short', 'toolbar "Length"',
                 'toolbar "View and edits"', 'listbox "Shots of the video"', 'option "Shot 1, 0 s to 3.5 s: kept"',
                 'textbox "Caption"', 'button "Reject (x)"', 'button "Kept', 'region "Selected clip"',
                 'complementary "Filters"', "search:", "status", "contentinfo"):
        assert part in tree, f"{part} is not in\n{tree}"
    eventually(lambda: page.locator("#status").get_attribute("aria-live") == "polite")
    selected = page.locator(".cell[aria-selected=true]")
    eventually(lambda: selected.get_attribute("aria-setsize") == page.locator("#summary").inner_text().split()[0])
    eventually(lambda: page.locator("#list").get_attribute("aria-activedescendant") == selected.get_attribute("id"))


def check_names(page, what):
    """Every usable element has a name in the accessibility tree."""
    tree = page.locator("body").aria_snapshot()
    used = re.findall(
        r"- (button|textbox|searchbox|combobox|listbox|option|toolbar|group|slider|dialog|checkbox|link|region|"
        r"complementary)\b(.*)", tree)
    nameless = [role + rest for role, rest in used if not rest.startswith(' "')]
    assert len(used) > 20 and not nameless, f"{what}: {nameless}"


def check_keyboard(chromium, studio, folder, size):
    """Without a mouse: a clip is opened, played, its caption edited, saved and undone, and it is rejected with a
    reason; filters and search."""
    with page_of(chromium, studio, viewport=size) as page:
        keys, focus = page.keyboard, lambda: page.evaluate("() => document.activeElement.id")
        every = total(page)
        check_names(page, f"the sheet at {size}")
        select(page, "film-0000")
        own = page.locator("#caption").input_value()
        keys.press("Enter")
        eventually(lambda: focus() == "detail" and page.locator("#detail").is_visible())
        check_names(page, f"the clip at {size}")
        keys.press(" ")
        page.wait_for_function("() => document.querySelector('video').currentTime > 0.2")
        keys.press(" ")
        page.wait_for_function("() => document.querySelector('video').paused")
        keys.press("e")
        eventually(lambda: focus() == "caption")
        keys.type(" By keys alone.")
        keys.press("Enter")
        said(page, "Caption saved")
        assert edits(folder)[1]["film-0000"]["caption"] == own + " By keys alone."
        keys.press("u")
        said(page, "Undone")
        keys.press("x")
        eventually(lambda: page.locator("#reject-dialog").is_visible() and focus() == "reason")
        check_names(page, "the dialog")
        keys.type("too dark")
        keys.press("Enter")
        said(page, "Rejected")
        assert edits(folder)[1]["film-0000"]["keep"] is False and edits(folder)[1]["film-0000"]["reason"] == "too dark"
        keys.press("u")
        said(page, "Undone")
        keys.press("Escape")
        eventually(lambda: focus() == "list")
        check_keys_of_filters(page, every)
        keys.press("/")
        keys.type("mostly")
        eventually(lambda: 0 < total(page) < every, "what is found")
        keys.press("Control+A")
        keys.press("Delete")
        eventually(lambda: total(page) == every, "all again")
        keys.press("Enter")
        eventually(lambda: focus() == "list")


def check_keys_of_filters(page, every):
    """f, Enter: the first outcome. Then to a histogram, its last bar; Escape, and back to the button Show all."""
    keys = page.keyboard
    keys.press("f")
    keys.press("Enter")
    eventually(lambda: total(page) < every, "the first outcome")
    kept = total(page)
    for _ in range(30):
        keys.press("Tab")
        if page.evaluate("() => document.activeElement.closest('.bars')?.getAttribute('aria-label')") == "Length":
            break
    check_names(page, "the filters")
    keys.press("End")
    keys.press("Enter")
    eventually(lambda: total(page) < kept, "a bar")
    keys.press("Escape")
    keys.press("Shift+Tab")
    eventually(lambda: page.evaluate("() => document.activeElement.id") == "all")
    keys.press("Enter")
    eventually(lambda: total(page) == every, "all again")


def check_tab(page):
    """Tab reaches every part, each stop is visible, and a histogram is one stop."""
    stops, bars = [], 0
    page.keyboard.press("Escape")
    for _ in range(60):
        page.keyboard.press("Tab")
        stop = page.evaluate("""() => { const at = document.activeElement, style = getComputedStyle(at);
          return { id: at.id || at.tagName + " " + (at.getAttribute("aria-label") || at.textContent),
                   bar: Boolean(at.closest(".bars")),
                   outline: parseFloat(style.outlineWidth) * (style.outlineStyle !== "none"),
                   body: at === document.body }; }""")
        assert stop["body"] or stop["outline"] >= 1, f"the focus cannot be seen on {stop}"
        stops.append(stop["id"])
        bars += stop["bar"]
    for wanted in ("text", "sort", "list", "caption"):
        assert wanted in stops, stops
    assert any("Player" in stop for stop in stops) and any("Shots" in stop
                                                           for stop in stops) and any(
                                                               "Reject" in stop for stop in stops), stops
    assert 0 < bars <= 2 * page.locator(".bars").count(), (bars, stops)


def check_dialogs(page):
    """The focus enters the dialog, stays inside, and returns."""
    page.keyboard.press("Escape")
    for key, dialog in (("?", "keys-dialog"), ("x", "reject-dialog")):
        page.keyboard.press(key)
        page.wait_for_selector(f"#{dialog}[open]")
        check_axe(page, dialog)
        page.screenshot(path=str(SCRATCH / f"{dialog}.png"))
        for _ in range(6):
            page.keyboard.press("Tab")
            at = page.evaluate("() => document.activeElement.closest('dialog')?.id ?? document.activeElement.tagName")
            assert at in (dialog, "BODY"), f"the focus left {dialog} to {at}"  # BODY: the browser's own controls
        page.keyboard.press("Escape")
        page.wait_for_selector(f"#{dialog}[open]", state="detached")
        eventually(lambda: page.evaluate("() => document.activeElement.id") == "list")


def check_looks(chromium, studio):
    """Both colour schemes, wide and narrow: nothing overflows, contrast is sufficient; a picture of each."""
    for width, height, *schemes in ((1440, 900, "light"), (1024, 768, "dark"), (390, 844, "light", "dark")):
        with page_of(chromium, studio, viewport={"width": width, "height": height},
                     reduced_motion="no-preference") as page:
            for scheme in schemes:
                page.emulate_media(color_scheme=scheme)
                eventually(lambda: page.locator("video").evaluate("v => v.readyState") >= 1 if width > 760 else True,
                           "the video")
                check_look(page, scheme, width)


def check_look(page, scheme, width):
    shown = lambda name: page.screenshot(path=str(SCRATCH / f"{scheme}-{width}{name}.png"))
    still(page)
    shown("")
    check_axe(page, f"{scheme} {width}")
    eventually(lambda: page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), "it hangs over")
    if width < 760:
        page.keyboard.press("Enter")
        page.locator("#detail").wait_for(state="visible")
        still(page)
        shown("-detail")
        check_axe(page, f"{scheme} detail")
        page.locator("#close").click()
        page.locator("#toggle-filters").click()
        page.locator("#filters").wait_for(state="visible")
        shown("-filters")
        check_axe(page, f"{scheme} filters")
        page.locator("#close-filters").click()
        assert not page.locator("#filters").is_visible()
        page.keyboard.press("s")
        page.locator("#selected").wait_for(state="visible")
        box = lambda name: page.locator(name).bounding_box()
        assert box("#status")["y"] + box("#status")["height"] <= box("#selected")[
            "y"], "a message does not hide the buttons"
        assert box("#tools")["height"] < 40, "one row of buttons"
        shown("-selected")
        page.keyboard.press("Escape")
        page.locator("#selected").wait_for(state="hidden")


def has_news(page, live):
    """What the page says about a running job; without news for ten seconds, as on a busy machine, it would say nothing
    else."""
    def told():
        os.utime(live)
        text = page.locator("#live").inner_text()
        return "no news" not in text and text
    return eventually(told, "news")


def check_live(chromium, folder):
    """A running job: its stages, the one that bounds it, and the items that have ended so far."""
    running = SCRATCH / "running"
    shutil.copytree(folder, running)
    job = running / "clips"
    (job / "items.jsonl").rename(SCRATCH / "items.jsonl")
    shutil.copy(job / "summary.json", SCRATCH / "summary.json")
    ends = record.outcomes(job)
    record.remove(job, [end["id"] for end in ends[len(ends) // 2 :]])
    stage = lambda name, busy, out: {"name": name, "in": out + 3, "out": out, "dropped": 1, "failed": 0, "rate": 2.5,
                                     "busy": busy, "workers": 2, "queue": 3, "anything": {"new": 1}}
    (job / "live.json").write_text(json.dumps({"seconds": 75, "done": 2, "total": 9,
                                               "memory": {"used": 2**26, "bound": 2**28}, "bound": "clip.transcode",
                                               "stages": [stage("shots.content", 0.4, 9),
                                                          stage("clip.transcode", 1.9, 7)]}))
    with Studio(running) as studio, page_of(chromium, studio) as page:
        live = page.locator("#live")
        told = has_news(page, job / "live.json")
        assert "clip.transcode bounds the rate" in told and "2 of 9 inputs" in told, told
        eventually(lambda: page.locator("#live tr.bound td").first.is_hidden(), "the table, on demand only")
        bar = page.get_by_role("progressbar", name="Progress of clips")
        # 75 s for 2 of 9 inputs
        assert (bar.get_attribute("value"), bar.get_attribute("max")) == ("2", "9") and "about 4:23 left" in told, told
        figures = json.loads((job / "live.json").read_text())
        (job / "live.json").write_text(json.dumps({**figures, "left": 100}))
        eventually(lambda: "about 1:40 left" in page.locator("#live").inner_text(), "as the job reckons it")
        page.locator("#live summary").click()
        eventually(lambda: page.locator("#live tr.bound td").first.inner_text() == "clip.transcode")
        kept = page.locator("#summary").inner_text()
        page.screenshot(path=str(SCRATCH / "running.png"))
        check_axe(page, "live")
        for name in ("items.jsonl", "summary.json"):
            shutil.move(SCRATCH / name, job / name)
        eventually(lambda: page.locator("#summary").inner_text() != kept and "done in" in live.inner_text(),
                   "the end of the job")


def main(chromium):
    folder = copy_of_run("access")
    with Studio(folder) as studio:
        with page_of(chromium, studio) as page:
            select(page, "film-0000")
            page.wait_for_function("() => document.querySelectorAll('.shot').length > 1")
            check_tree(page)
            check_dialogs(page)
            check_tab(page)
        for size in ({"width": 1280, "height": 800}, {"width": 390, "height": 844}):
            check_keyboard(chromium, studio, folder, size)
        check_looks(chromium, studio)
    check_live(chromium, folder)
    print("access: all checks passed; screenshots are in", SCRATCH)


if __name__ == "__main__":
    run_alone(main)
