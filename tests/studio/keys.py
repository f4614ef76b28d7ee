#!/usr/bin/env python3
"""Keys pressed faster than the studio answers: each acts on the clip that was selected when it was pressed, and exactly
the typed text is saved; copies next to their originals, and the question about them. usage: keys.py KINORA ROOT
SCRATCH"""
import contextlib, json, os, time

from browser import SCRATCH, Studio, page_of, run_alone
from clips import curate_folder, make_video

CLIPS = 130  # more than one request returns
LOOK = 0.02  # seconds between looks at a condition
WHY = "cosine 0.9990, motion 0.98 alike"  # of copies, as a dedup job writes it
# Holds the page's next request to an address until release(), which resolves when the page has used the answer. In the
# page itself: routes of
# Playwright act only while Python asks it something.
HOLD = """(held) => {
    const { fetch } = window;
    window.fetch = (address, options) => {
        if (address !== held) return fetch(address, options);
        window.fetch = fetch;
        return new Promise((answers) => {
            window.release = async () => {
                const answer = await fetch(address, options), body = await answer.json();
                answers(Object.assign(answer, { json: async () => body }));
                await new Promise((done) => setTimeout(done));
            };
        });
    };
}"""
LATENCIES, PAUSES = (0, 60, 200), (0, 20, 50, 120)  # milliseconds


def synthetic(name):
    video = SCRATCH / "keys.mp4"
    if not video.exists():
        make_video(video, "64x36", seconds=1)
    items = [{"key": f"film-{n:04}", "parent": "film", "consumed": False, "end": "kept",
              "facts": {"film": "film", "duration_s": 1.0, "fps": 12.0, "frames": 12, "first_frame": 12 * n,
                        "end_frame": 12 * n + 12, "start_s": n, "end_s": n + 1,
                        "scores": {"filter.blur": 4, "filter.black": 0}}, "caption": f"caption {n}"}
             for n in range(CLIPS)]
    folder = curate_folder(SCRATCH / name / "clips", items)
    for item in items:
        os.link(video, folder / "data" / f"{item['key']}.mp4")
    return folder


def with_copies(folder):
    """A dedup job that leaves out copies of three clips; the list does not show them."""
    copies = {"copy-a": "film-0001", "copy-b": "film-0001", "copy-c": "film-0003"}
    with (folder / "items.jsonl").open("a") as out:
        for key in copies:
            out.write(json.dumps({"key": key, "parent": "film", "consumed": False, "end": "kept",
                                  "facts": {"film": "film", "duration_s": 1.0, "fps": 12.0, "frames": 12, "width": 32,
                                            "scores": {"filter.blur": 7, "filter.black": 0}},
                                  "caption": f"caption of {key}"}) + "\n")
            os.link(SCRATCH / "keys.mp4", folder / "data" / f"{key}.mp4")
    dedup = folder.parent / "copies"
    dedup.mkdir()
    (dedup / "summary.json").write_text('{"curated": "clips"}')
    (dedup / "decisions.jsonl").write_text(
        "".join(json.dumps({"key": key, "end": "filtered", "rule": "dedup.semantic", "of": of, "score": 0.999,
                            "reason": f"copy of {of}: {WHY}"}) + "\n" for key, of in copies.items()))
    return folder


class Typist:
    """Presses keys at a pace, and compares the saved edits. Its methods, like the checks, are generators that yield
    what they wait for: seconds, or (a condition, its name)."""

    def __init__(self, page, folder, latency):
        self.page, self.file, self.latency, self.captions = page, folder / "edits.jsonl", latency, {}
        network = page.context.new_cdp_session(page)
        network.send("Network.enable")
        network.send("Network.emulateNetworkConditions",
                     {"offline": False, "latency": latency, "downloadThroughput": -1, "uploadThroughput": -1})
        self.before = len(self.lines())

    def lines(self):
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def home(self):
        self.page.keyboard.press("Home")
        yield from self.shows("film-0000")
        self.before = len(self.lines())

    def shows(self, key):
        yield lambda: self.page.evaluate(
            "() => document.querySelector('#detail[aria-busy=false] h2')?.textContent") == key, f"{key} is in"

    def said(self, text):
        yield lambda: self.page.evaluate("() => document.getElementById('status').textContent").startswith(
            text), f"“{text}”"

    def type(self, pause, *keys):
        for key in keys:
            self.page.keyboard.press(key)
            if pause:
                yield pause / 1000

    def saved(self, *wanted):
        """Exactly these edits, in this order."""
        yield lambda: len(self.lines()) >= self.before + len(wanted), f"edits {wanted}"
        got = [(line["key"], line["set"]) for line in self.lines()[self.before :]]
        assert got == list(wanted), f"{got}, not {wanted}"
        self.captions.update({key: change["caption"] for key, change in wanted if "caption" in change})

    def rows(self):
        """{key: caption} of the rows of the sheet."""
        return dict(
            self.page.evaluate(
                """() => [...document.querySelectorAll(".cell:not([hidden])")].map((cell) => [".key",
                ".caption"].map((part) => cell.querySelector(part).textContent))"""))


def check_pace(typist, pause):
    text = str(PAUSES.index(pause))
    yield from typist.home()
    yield from typist.type(pause, "j", "j", "a", "u")
    yield from typist.saved(("film-0002", {"keep": True}), ("film-0002", {"keep": None}))
    yield from typist.home()
    yield from typist.type(pause, "j", "x", "r", text, "Enter", "u")
    yield from typist.saved(("film-0001", {"keep": False, "reason": f"r{text}"}),
                            ("film-0001", {"keep": None, "reason": ""}))
    yield from typist.home()
    appended = typist.captions.get("film-0003", "caption 3") + text
    yield from typist.type(pause, "j", "j", "e", "Control+A", "M", text, "Enter", "j", "e", text, "Enter", "j", "a",
                           "u")
    yield from typist.saved(("film-0002", {"caption": f"M{text}"}), ("film-0003", {"caption": appended}),
                            ("film-0004", {"keep": True}), ("film-0004", {"keep": None}))
    yield from typist.shows("film-0004")
    yield from typist.home()
    yield from typist.type(pause, "j", "}", "}", "a", "u")
    yield from typist.saved(("film-0003", {"keep": True}), ("film-0003", {"keep": None}))
    yield from typist.said("Undone: film-0003")
    yield from typist.type(pause, "End", "Home", "m")
    yield from typist.said("film-0000 has no image embedding")
    yield lambda: typist.rows().items() >= typist.captions.items(), f"rows with {typist.captions}"


def check_far(chromium, studio, folder, latency):
    """Rows that are not loaded yet: text typed meanwhile is saved for them."""
    last = f"film-{CLIPS - 1:04}"
    for keys, *wanted in (
        (("e", "Control+A", "F", "Enter", "a", "u"), {"caption": "F"}, {"keep": True}, {"keep": None}),
        (("x", "f", "r", "Enter", "u"), {"keep": False, "reason": "fr"}, {"keep": None, "reason": ""}),
    ):
        with page_of(chromium, studio) as page:
            typist = Typist(page, folder, latency)
            yield from typist.type(0, "End", *keys)
            yield from typist.saved(*((last, change) for change in wanted))


def check_begin(chromium, studio, folder):
    """Keys pressed before the clip and the histograms are loaded: the caption opens, and the end of loading does not
    take the focus away."""
    held = []

    def waits(page):
        page.route("**/api/histograms*", first_waits)
        page.route("**/api/clip?*", lambda route: None)

    def first_waits(route):
        held.append(route)
        if len(held) > 1:
            route.continue_()

    with page_of(chromium, studio, before=waits) as page:
        typist = Typist(page, folder, 0)
        yield from typist.type(0, "e", "Control+A", "B")
        yield lambda: page.evaluate("() => true") and held, "the histograms are asked for"
        held[0].continue_()
        yield lambda: page.evaluate("() => document.getElementById('summary').textContent").startswith(
            str(CLIPS)), "loading has ended"
        yield from typist.type(0, "Enter")
        yield from typist.saved(("film-0000", {"caption": "B"}))


def check_search(typist):
    """Keys pressed after a search act on its results."""
    yield from typist.home()
    yield from typist.type(0, "/", *"caption 77", "Enter", "a", "u")
    yield from typist.saved(("film-0077", {"keep": True}), ("film-0077", {"keep": None}))


def check_at_once(typist):
    """A key that the browser delivers before it says that the dialog is closed acts after the dialog's answer."""
    yield from typist.home()
    yield from typist.type(0, "x", "n", "o")
    yield lambda: typist.page.evaluate("() => document.getElementById('reason').value") == "no", "the reason is typed"
    typist.page.evaluate("""() => {
        document.querySelector("#reject-dialog form").requestSubmit();
        document.getElementById("list").dispatchEvent(new KeyboardEvent("keydown", { key: "u", bubbles: true }));
    }""")
    yield from typist.saved(("film-0000", {"keep": False, "reason": "no"}), ("film-0000", {"keep": None, "reason": ""}))


def check_copies(typist):
    """Rejecting many clips asks once about their copies and says what takes their places; the copies are rejected in
    the same step."""
    page, asked = typist.page, lambda: typist.page.evaluate(
        "() => document.getElementById('its-copies').hidden ? '' : document.getElementById('which-copies').textContent")
    range_of_five = ("s", *["Shift+ArrowRight"] * 4)
    reject = lambda keys: [(key, {"keep": False, "reason": "r"}) for key in keys]
    undo = lambda keys: [(key, {"keep": None, "reason": ""}) for key in keys]
    five, copies = [f"film-{n:04}" for n in range(5)], ["copy-a", "copy-b", "copy-c"]
    yield from typist.home()
    yield from typist.type(0, *range_of_five, "x", "r", "Enter", "u", "Escape")  # faster than the question about copies
    yield from typist.saved(*reject(five), *undo(five))
    yield from typist.home()
    yield from typist.type(0, *range_of_five, "x")
    of_both = ("Reject their 3 copies too: copy-a, copy-b, copy-c. "
               "Otherwise copies take the places of 2 of these clips in shards.")
    yield lambda: asked() == of_both, "the question"
    yield from typist.type(0, "r", "Tab", " ", "Enter", "u", "Escape")
    rejected = [five[0], five[1], "copy-a", "copy-b", five[2], five[3], "copy-c", five[4]]
    yield from typist.saved(*reject(rejected), *undo(rejected))
    steps = [line.get("more", False) for line in typist.lines()[-2 * len(rejected) :]]
    assert steps == [*[True] * 7, False] * 2, steps
    yield from typist.home()
    yield from typist.type(0, "j", "Shift+ArrowRight", "x")
    of_one = ("Reject their 2 copies too: copy-a, copy-b. "
              "Otherwise a copy takes the place of 1 of these clips in shards.")
    yield lambda: asked() == of_one, "the question about one of two"
    yield from typist.type(0, "Escape", "Escape")
    yield from typist.home()
    yield from typist.type(0, "s", "j", "j", "s", "x")  # clips without copies
    yield lambda: page.evaluate(
        "() => document.getElementById('reject-title').textContent") == "Reject 2 clips", "the question without copies"
    yield from typist.type(0, "r", "Enter", "u", "Escape")
    yield from typist.saved(*reject([five[0], five[2]]), *undo([five[0], five[2]]))
    assert asked() == ""


def check_compare(typist):
    """A copy next to its original: keys pressed before it is loaded are the dialog's, a late answer never shows another
    copy, and afterwards keys are the list's."""
    page = typist.page
    titles = lambda: page.evaluate(
        "() => [document.getElementById('compare-dialog').open, document.getElementById('compare-title').textContent, "
        "...[...document.querySelectorAll('#compared h3')].map((title) => title.textContent)]")
    pair = lambda place: [True, f"copy-{'ab'[place]}, a copy of film-0001 ({place + 1} of 2, arrows show others)",
                          "Kept: film-0001", f"Copy: copy-{'ab'[place]}"]
    playing = lambda: page.evaluate(
        "() => [...document.querySelectorAll('#compared video')].map((video) => !video.paused)")
    yield from typist.home()
    page.evaluate(HOLD, "/api/clip?id=clips%2Fcopy-a")
    yield from typist.type(0, "j", "b", "ArrowRight")
    yield lambda: titles() == pair(1), "the second copy"
    page.evaluate("() => window.release()")
    assert titles() == pair(1), titles()
    yield from typist.type(0, "ArrowLeft")
    yield lambda: titles() == pair(0), "the first copy"
    facts = {name: texts
             for name, *texts in page.evaluate(
                 "() => [...document.querySelectorAll('#compare-facts tbody tr')].map((row) => [row.dataset.fact, "
                 "...[...row.querySelectorAll('td')].map((cell) => cell.textContent)])")}
    assert facts["duration_s"] == ["1 s", "1 s",
                                   ""] and facts["width"] == ["–", "32",
                                                              "differs"] and facts["scores.filter.blur"] == [
                                                                  "4", "7", "differs"], facts
    assert facts["scores.filter.black"] == ["0 %", "0 %", ""], facts
    size = (SCRATCH / "keys.mp4").stat().st_size / 1000  # of a second
    assert facts["file size"] == [f"{size:.3g} kB"] * 2 + [""] and facts["bit rate"] == [
        f"{8 * size:.3g} kbit/s"] * 2 + [""], facts
    assert {name
            for name, texts in facts.items() if texts[2]} == {"start_s", "end_s", "width", "scores.filter.blur"}, facts
    assert page.evaluate("() => document.getElementById('compare-why').textContent") == f"copy of film-0001: {WHY}"
    yield from typist.type(0, " ")
    yield lambda: playing() == [True, True], "both play"
    yield from typist.type(0, " ")
    yield lambda: playing() == [False, False], "both stand"
    yield from typist.type(0, "Escape", "a", "u")
    yield from typist.saved(("film-0001", {"keep": True}), ("film-0001", {"keep": None}))
    assert titles()[0] is False and page.locator("#compared video").count() == 0
    yield from typist.said("Undone: film-0001")  # else it could come after the next message
    yield from typist.type(0, "j", "b")
    yield from typist.said("film-0002 is not a copy, and has none")


def check_decided(typist):
    """A copy that is rejected in the comparison leaves its original as it is, and the copy that is left replaces a
    rejected original. "Keep this one instead" is one step."""
    page = typist.page
    told = lambda text: (lambda: page.evaluate("() => document.getElementById('compare-said').textContent") == text,
                         f"“{text}”")
    button = lambda name: page.get_by_role("button", name=name, exact=True)
    rejected, open_again = {"keep": False, "reason": "r"}, {"keep": None, "reason": ""}
    yield from typist.home()
    yield from typist.type(0, "j", "b")
    yield lambda: button("Reject: copy-a").count() == 1, "the first copy"
    button("Reject: copy-a").click()
    yield from typist.type(0, "r", "Enter")
    yield told("copy-a is rejected; film-0001 stays.")
    yield lambda: page.evaluate(
        "() => document.activeElement.getAttribute('aria-label')") == "Reject: copy-a", "the focus stays"
    assert button("Reject: copy-a").get_attribute("aria-pressed") == "true" and not button(
        "Keep this one instead: copy-a").count()
    button("Reject: film-0001").click()
    yield from typist.type(0, "r", "Enter")
    yield told("film-0001 is rejected. 1 copy of a rejected clip takes its place: copy-b.")
    yield from typist.type(0, "Escape", "u", "u")
    yield from typist.saved(("copy-a", rejected), ("film-0001", rejected), ("film-0001", open_again),
                            ("copy-a", open_again))
    yield from typist.home()
    yield from typist.type(0, "j", "b", "ArrowRight")
    yield lambda: button("Keep this one instead: copy-b").count() == 1, "the second copy"
    assert button("Keep this one instead: copy-b").inner_text() == "Keep this one instead (k)"
    yield from typist.type(0, "k")
    yield told("film-0001 is rejected. 1 copy of a rejected clip takes its place: copy-b.")
    yield from typist.type(0, "Escape", "u")
    instead = {"keep": False, "reason": "a copy is kept instead"}
    yield from typist.saved(("film-0001", instead), ("copy-a", instead), ("film-0001", open_again),
                            ("copy-a", open_again))
    yield from check_decided_by_keys(typist, told)


def check_decided_by_keys(typist, told):
    """r rejects the copy without a reason, and with Shift the clip that was kept."""
    now, open_again = {"keep": False}, {"keep": None}
    yield from typist.home()
    yield from typist.type(0, "j", "b")
    yield lambda: typist.page.get_by_role("button", name="Reject: copy-a", exact=True).count() == 1, "the first copy"
    yield from typist.type(0, "r")
    yield told("copy-a is rejected; film-0001 stays.")
    yield from typist.type(0, "R")
    yield told("film-0001 is rejected. 1 copy of a rejected clip takes its place: copy-b.")
    yield from typist.type(0, "Escape", "u", "u")
    yield from typist.saved(("copy-a", now), ("film-0001", now), ("film-0001", open_again), ("copy-a", open_again))


def check_latency(chromium, latency):
    folder = with_copies(synthetic(f"keys-{latency}"))
    with Studio(folder.parent) as studio:
        if latency == LATENCIES[0]:
            yield from check_begin(chromium, studio, folder)
        yield from check_far(chromium, studio, folder, latency)
        with page_of(chromium, studio) as page:
            typist = Typist(page, folder, latency)
            for pause in PAUSES:
                yield from check_pace(typist, pause)
            yield from check_at_once(typist)
            yield from check_copies(typist)
            yield from check_compare(typist)
            if latency == LATENCIES[0]:
                yield from check_decided(typist)
            yield from check_search(typist)


def together(*checks, seconds=60):
    """Runs several generators in turns, since they mostly wait."""
    # condition, name, when it fails, when it is looked at
    waits = {check: (lambda: True, "", 0.0, 0.0) for check in checks}
    with contextlib.ExitStack() as ends:
        for check in checks:
            ends.enter_context(contextlib.closing(check))
        while waits:
            for check, (is_done, what, end, due) in list(waits.items()):
                if time.monotonic() < due:
                    continue
                if not is_done():
                    assert time.monotonic() < end, f"not within {seconds} s: {what}"
                    waits[check] = (is_done, what, end, time.monotonic() + LOOK)
                    continue
                now = time.monotonic()
                try:
                    wait = next(check)
                except StopIteration:
                    del waits[check]
                    continue
                waits[check] = (*wait, now + seconds,
                                now) if isinstance(wait, tuple) else (lambda: True, "", now + seconds, now + wait)
            time.sleep(max(0, min((due for *_, due in waits.values()), default=0) - time.monotonic()))


def main(chromium):
    together(*(check_latency(chromium, latency) for latency in LATENCIES))
    print("keys: all checks passed")


if __name__ == "__main__":
    run_alone(main)
