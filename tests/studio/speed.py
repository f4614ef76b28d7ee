#!/usr/bin/env python3
"""Measures the studio with many clips, and prints one JSON line for each number of clips: seconds until the studio is
ready, until the page shows its first clips and their pictures, what scrolling, rejecting all clips and undoing that
cost, and the memory of the page's process. Fails where the most clips take longer than the fewest by more than many
clips may cost: thrice until the first names, a cell without a name, 400 MB. usage: speed.py KINORA ROOT SCRATCH
[CLIPS...], by default 10000 100000"""
import json, pathlib, statistics, sys, time

COUNTS = [int(text) for text in sys.argv[4:]] or [10_000, 100_000]
from browser import SCRATCH, Studio, browser, eventually, fresh
from edits import total
import scroll

# At every frame: its length, visible cells that do not show their clip yet, and those of them without a picture.
WATCH = """() => {
  const seen = (window.seen = { frames: [], gaps: [] });
  let last = performance.now();
  const frame = (now) => {
    const cells = [...document.querySelectorAll(".cell:not([hidden])")];
    const list = document.getElementById("list").getBoundingClientRect();
    const inSight = cells.filter((cell) => {
      const box = cell.getBoundingClientRect();
      return box.bottom > list.top && box.top < list.bottom;
    });
    const empty = inSight.filter((cell) => !cell.querySelector(".key").textContent);
    seen.frames.push(now - last);
    seen.gaps.push(inSight.length ? empty.length / inSight.length : 1);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""
# Names of all visible cells are there; then their pictures too.
NAMED = (
    "() => { const cells = [...document.querySelectorAll('.cell:not([hidden])')]; return cells.length > 5 && "
    "cells.every((cell) => cell.querySelector('.key').textContent); }")
DRAWN = (
    "() => [...document.querySelectorAll('.cell.kept:not([hidden])')].every((cell) => "
    "cell.querySelector('canvas').style.visibility === 'visible')")

# When the page, from the start of its navigation, first shows them.
FIRST = """{ const first = (window.first = {}), named = %s, drawn = %s;
  const frame = () => {
    if (named()) first.named ??= performance.now();
    if (first.named && drawn()) first.drawn ??= performance.now();
    if (!first.drawn) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame); }"""


def megabytes(chromium):
    """Proportional set size of the browser's processes that draw pages."""
    processes = chromium.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    pss = lambda pid: int(next(line for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                               if line.startswith("Pss:")).split()[1]) / 1024
    return round(max(pss(process["id"]) for process in processes if process["type"] == "renderer"))


def jump(page, part):
    """Seconds until a place far away shows its clips."""
    start = time.monotonic()
    page.evaluate(
        "part => { const list = document.getElementById('list'); list.scrollTop = part * list.scrollHeight; }", part)
    page.wait_for_function(
        f"() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(({NAMED})()))))")
    return time.monotonic() - start


def all_at_once(page):
    """Seconds from the last key until the page says that all clips are rejected, and that this is undone."""
    said = lambda text: page.wait_for_function("text => document.getElementById('status').textContent.startsWith(text)",
                                               arg=text, polling=10)
    page.keyboard.press("Control+a")
    said(f"{total(page):,} clips selected")
    page.keyboard.press("x")
    page.wait_for_function("() => document.getElementById('reject-title').textContent.endsWith('clips')")
    page.keyboard.type("logo")
    start = time.monotonic()
    page.keyboard.press("Enter")
    said(f"Rejected: {total(page):,} clips")
    rejected = time.monotonic()
    page.keyboard.press("u")
    said(f"Undone: {total(page):,} clips")
    return round(rejected - start, 2), round(time.monotonic() - rejected, 2)


def measure(clips):
    folder = scroll.synthetic(clips)
    start = time.monotonic()
    with Studio(folder) as studio, browser() as chromium:
        ready = time.monotonic() - start
        with chromium.new_context(viewport={"width": 1440, "height": 900}) as context:
            page = context.new_page()
            page.add_init_script(FIRST % (NAMED, DRAWN))
            page.goto(studio.address, wait_until="commit")
            page.wait_for_function("() => window.first.drawn")
            named, drawn = page.evaluate("() => [first.named / 1000, first.drawn / 1000]")
            page.evaluate(WATCH)
            chromium.start_tracing(page=page, categories=["toplevel", "disabled-by-default-devtools.timeline"])
            scroll.wheel(page)
            seen = page.evaluate("() => window.seen")
            jumps = [jump(page, part) for part in (0.5, 0.1, 0.9, 0.3, 1.0, 0.0)]
            longest = max(tasks for tasks, _ in scroll.tasks_of(chromium.stop_tracing()))
            eventually(lambda: page.evaluate(DRAWN), "the pictures")
            rejected, undone = all_at_once(page)
            figures = {"clips": clips, "studio_ready_s": round(ready, 2), "first_names_s": round(named, 2),
                       "first_pictures_s": round(drawn, 2),
                              "longest_task_ms": round(longest),
                       "frame_ms_median": round(statistics.median(seen["frames"]), 1),
                       "cells_without_name": round(statistics.fmean(seen["gaps"]), 4), "jump_s": round(max(jumps), 2),
                       "reject_all_s": rejected, "undo_all_s": undone, "page_mb": megabytes(chromium)}
            print(json.dumps(figures), flush=True)
            return figures


fresh()
measured = [measure(count) for count in sorted(COUNTS)]
few, many = measured[0], measured[-1]
assert many["first_names_s"] < 3 * few["first_names_s"] and many["cells_without_name"] < 0.02 and many[
    "page_mb"] < 400, (few, many)
