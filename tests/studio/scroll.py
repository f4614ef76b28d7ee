#!/usr/bin/env python3
"""10,000 clips: only visible cells exist, scrolling never blocks the browser for long, and an action on all of them is
saved whole or not at all. usage: scroll.py KINORA ROOT SCRATCH"""
import contextlib, functools, http.client, json, os, random, shutil, threading, time

from browser import SCRATCH, Studio, eventually, page_of, run_alone
from clips import curate_folder, lines, make_video
from edits import ask

CLIPS, LONGEST_TASK = 10_000, 100  # milliseconds
LINKS = 20_000  # of one file
WATCH = """() => {
  const seen = (window.seen = { frames: [], cells: 0 });
  let last = performance.now();
  const frame = (now) => {
    seen.frames.push(now - last);
    seen.cells = Math.max(seen.cells, document.querySelectorAll(".cell").length);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""


@functools.cache
def synthetic(clips=CLIPS):
    """A curate job's folder with that many clips of one small video, each stored under its own name."""
    video = SCRATCH / "many.mp4"
    if not video.exists():
        make_video(video, "160x90", seconds=1)
    chance, items = random.Random(7), []
    for n in range(clips):
        facts = {"film": "film", "duration_s": round(chance.uniform(1, 20), 3), "fps": 12.0, "frames": 12,
                 "scores": {"filter.blur": chance.gauss(100, 30), "filter.motion": chance.expovariate(1)}}
        end = {"end": "kept"} if n % 4 else {"end": "filtered", "stage": "filter.blur", "reason": "filter.blur",
                                             "score": facts["scores"]["filter.blur"]}
        items.append({"key": f"film-{n:05}", "parent": "film", "consumed": False, "facts": facts,
                      "caption": f"clip number {n} of a long video with a caption of some length", **end})
    folder = curate_folder(SCRATCH / ("many" if clips == CLIPS else f"many-{clips}"), items)
    for n, item in enumerate(items):
        if item["end"] != "kept":
            continue
        if n % LINKS == 1:  # a file system may limit the links of a file
            video = SCRATCH / f"many-{n}.mp4"
            shutil.copy(SCRATCH / "many.mp4", video)
        os.link(video, folder / "data" / f"{item['key']}.mp4")
    return folder


def wheel(page):
    """Three seconds of the mouse wheel."""
    page.locator("#list").hover()
    end = time.monotonic() + 3
    while time.monotonic() < end:
        page.mouse.wheel(0, 600)
        page.wait_for_timeout(15)


def scroll(page):
    """The mouse wheel, and jumps through the whole list."""
    wheel(page)
    for part in (0.5, 0.1, 0.9, 0.3, 1.0, 0.0):
        page.evaluate(
            "part => { const list = document.getElementById('list'); list.scrollTop = part * list.scrollHeight; }",
            part)
        page.wait_for_timeout(150)


def tasks_of(trace):
    """(milliseconds of processor, milliseconds of clock) of each task in the page's main thread."""
    events = json.loads(trace)["traceEvents"]
    renderers = {(e["pid"], e["tid"])
                 for e in events if e.get("name") == "thread_name" and e["args"]["name"] == "CrRendererMain"}
    return [(e.get("tdur", 0) / 1000, e["dur"] / 1000)
            for e in events
            if e.get("ph") == "X" and e["name"].endswith("RunTask") and (e["pid"], e["tid"]) in renderers]


def check_smooth(chromium, page):
    """Measures processor time: other load on this machine may stop the browser, which the page cannot prevent."""
    page.evaluate(WATCH)
    chromium.start_tracing(page=page, categories=["toplevel", "disabled-by-default-devtools.timeline"])
    scroll(page)
    tasks = tasks_of(chromium.stop_tracing())
    seen = page.evaluate("() => window.seen")
    frames, longest = sorted(seen["frames"]), max(tasks)[0]
    assert len(tasks) > 100, f"{len(tasks)} tasks were seen"
    print(
        f"longest of {len(tasks)} tasks {longest:.0f} ms of processor, {max(clock for _, clock in tasks):.0f} ms of "
        f"clock; {len(frames)} frames, median {frames[len(frames) // 2]:.1f} ms; at most {seen['cells']} cells")
    assert longest <= LONGEST_TASK and seen["cells"] < 100, (longest, seen["cells"])


def first_of(page):
    """The key of the list's first clip, alone in a list, if it is visible. Presses Home each time: the page keeps the
    selected clip visible when the order changes."""
    page.keyboard.press("Home")
    return page.locator('.cell[aria-posinset="1"]:visible .key').all_inner_texts()  # does not wait


def check_places(page):
    """The right clips are at the end, in the middle, and in place after a sort by a number."""
    page.locator("#list").focus()
    page.keyboard.press("End")
    eventually(lambda: page.locator(".cell[aria-selected=true] .key").inner_text() == f"film-{CLIPS - 1:05}",
               "the last clip")
    eventually(lambda: page.locator("#list").get_attribute("aria-activedescendant") == f"clip-{CLIPS - 1}")
    eventually(
        lambda: page.evaluate("() => document.querySelector('.cell[aria-selected=true] canvas').style.visibility")
        == "visible", "its picture")
    rows = lines(SCRATCH / "many/items.jsonl")
    page.locator("#sort").select_option("scores.filter.blur")
    page.keyboard.press("Escape")
    least = min(rows, key=lambda row: row["facts"]["scores"]["filter.blur"])
    eventually(lambda: first_of(page) == [least["key"]], "the least blur score first")
    start = time.monotonic()
    page.keyboard.press("/")
    page.keyboard.type("number 4321")
    eventually(lambda: page.locator("#summary").inner_text().startswith("1 of"), "the one clip of this number")
    print(f"found in {time.monotonic() - start:.2f} s")


def check_killed(items):
    """kill -9 while actions on all clips are saved: each confirmed one is there for all clips, the one that was
    interrupted for all or for none."""
    folder, answered = curate_folder(SCRATCH / "killed", items), []
    ids = [f"killed/{item['key']}" for item in items]
    cookie = lambda studio: studio.cookie

    def write():
        with contextlib.suppress(OSError, http.client.HTTPException):
            for n in range(1000):
                body = json.dumps({"ids": ids, "set": {"keep": False, "reason": f"number {n}"}}).encode()
                if ask(studio, "/api/edit", "POST", body, Cookie=cookie(studio), Content_Type="application/json",
                       Origin=studio.origin)[0] == 200:
                    answered.append(n)

    with Studio(folder) as studio:
        writer = threading.Thread(target=write)
        writer.start()
        eventually(lambda: len(answered) > 1, "actions on all clips")
        time.sleep(random.uniform(0, 0.3))
        studio.kill()
        writer.join()
    with Studio(folder) as later:
        state = json.loads(ask(later, "/api/state", Cookie=cookie(later))[2])
    steps = len(state["reasons"])
    assert state["seen"] == [steps * CLIPS] and state["counts"]["decisions"] == {"rejected": CLIPS}, state
    assert len(answered) <= steps <= len(answered) + 1 and set(state["reasons"]) == {
        f"number {n}" for n in range(steps)}, (answered, state["reasons"])


def main(chromium):
    folder = synthetic()
    start = time.monotonic()
    with Studio(folder) as studio:
        print(f"{CLIPS} clips read in {time.monotonic() - start:.2f} s")
        with page_of(chromium, studio, viewport={"width": 1440, "height": 900}, reduced_motion="no-preference") as page:
            page.screenshot(path=str(SCRATCH / "many.png"))
            check_smooth(chromium, page)
            check_places(page)
    check_killed(lines(folder / "items.jsonl"))
    print("scroll: all checks passed")


if __name__ == "__main__":
    run_alone(main)
