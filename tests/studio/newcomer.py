#!/usr/bin/env python3
"""What a new user meets: counts that change together, how many selected clips are accepted, f twice, ? twice, Escape
until the search ends, an input that cannot be read, long names, names of the map's groups, a histogram with a zero, and
a bound beyond its numbers. usage: newcomer.py KINORA ROOT SCRATCH"""
import json

from browser import SCRATCH, Studio, eventually, page_of, run_alone
from chosen import write_selection
from clips import curate_folder
from edits import said, select, total
from keys import HOLD

CLIPS = 12
KEY = "film-{:04}".format
WHY = "corrupt.mp4: not a video file or picture; no known container is inside; fetch it again"


def item(n, end="kept"):
    facts = {"duration_s": 2.0, "fps": 12.0, "frames": 24, "scores": {"filter.blur": 10.5 * n}}
    return {"key": KEY(n), "parent": "film", "consumed": False, "end": end, "facts": facts, "caption": f"clip {n}",
            **({} if end == "kept" else {"stage": "filter.blur", "reason": "filter.blur", "score": 10.5 * n})}


def folder_of():
    (SCRATCH / "corrupt.mp4").write_bytes(b"none")
    broken = {"key": "corrupt", "end": "failed", "stage": "video.probe", "reason": WHY, "consumed": False,
              "url": str(SCRATCH / "corrupt.mp4"), "facts": {}}
    folder = curate_folder(SCRATCH / "newcomer/clips", [broken, *(item(n) for n in range(1, CLIPS + 1))])
    (folder / "summary.json").write_text("{}")
    write_selection(folder.parent, [{"key": KEY(n), "end": "kept"} for n in range(1, CLIPS + 1)], where="blur >= 1")
    return folder


def counts(page):
    """The kept clips on the left, and all items above the clips."""
    return page.evaluate("""() => [document.querySelector('[data-choice="end kept"]').textContent,
                                   document.getElementById('summary').textContent]""")


def check_counts(page, folder):
    """While the clips of a new version are awaited, no count is newer than the others."""
    before = [f"Kept{CLIPS} clips", f"{CLIPS + 1} items: {CLIPS} clips, 1 video"]
    eventually(lambda: counts(page) == before, counts(page))
    page.evaluate(HOLD, "/api/clips?from=0&count=100")
    with page.expect_response("**/api/histograms*"):  # asked for together with the clips
        with (folder / "items.jsonl").open("a") as out:
            out.write(json.dumps(item(CLIPS + 1)) + "\n")
    eventually(lambda: page.evaluate("() => Boolean(window.release)"), "the clips are asked for")
    assert counts(page) == before, counts(page)
    page.evaluate("() => window.release()")
    eventually(lambda: counts(page) == [f"Kept{CLIPS + 1} clips", f"{CLIPS + 2} items: {CLIPS + 1} clips, 1 video"],
               counts(page))


def check_selected(page):
    select(page, KEY(2))
    page.keyboard.press("a")
    said(page, f"Accepted: {KEY(2)}")
    page.keyboard.press("Control+a")
    eventually(lambda: page.locator("#how-many").inner_text() == f"{CLIPS + 2} selected, 1 accepted")
    page.keyboard.press("Escape")


def check_keys(page):
    focus = lambda: page.evaluate("() => document.activeElement.dataset.bar ?? document.activeElement.dataset.choice")
    page.keyboard.press("f")
    assert focus().startswith("end "), focus()
    page.keyboard.press("f")
    first = page.locator("#numbers .bars button").first.get_attribute("data-bar")
    assert focus() == first, (focus(), first)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.locator("#keys-dialog[open]").count() == 1
    page.keyboard.press("?")
    eventually(lambda: not page.locator("#keys-dialog[open]").count(), "the list of keys is closed")
    page.keyboard.press("/")
    page.keyboard.type("clip 3")
    eventually(lambda: total(page) == 1, "the clip that is looked for")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    eventually(lambda: total(page) == CLIPS + 2, "no search")
    assert page.locator("#text").input_value() == ""


def check_first(page):
    """The first n begins at the selected clip."""
    select(page, KEY(1))
    page.keyboard.press("n")
    page.keyboard.press("r")
    said(page, f"Rejected: {KEY(1)}")
    page.keyboard.press("u")
    said(page, f"Undone: {KEY(1)}")


def check_broken(page):
    """Neither a player nor a caption nor a decision for what could not be read; its reason is whole."""
    select(page, "corrupt")
    eventually(lambda: page.locator("#detail .note").all_inner_texts() == [f"video.probe failed: {WHY}"])
    assert page.locator("#detail .nothing").inner_text() == "The file could not be read, so there is nothing to play."
    assert page.locator("#detail :is(video, textarea, .reject, [aria-label=Tags]):visible").count() == 0
    none = page.locator(".cell[aria-selected=true] .none")
    assert none.inner_text() == WHY.removeprefix("corrupt.mp4: ") == none.get_attribute("title"), none.inner_text()
    whole = none.evaluate("(none) => none.scrollHeight <= none.clientHeight && none.clientHeight <= "
                          "none.parentElement.clientHeight - 6")
    assert whole, "no line of it is cut"
    select(page, KEY(1))
    eventually(lambda: page.locator("#detail :is(textarea, [aria-label=Tags]):visible").count() == 2)


NAMES = [  # name, neighbours, letters of the line -> the part that is shown, how many of its letters are
    ("session_camera-B_take-017-0000", ["session_camera-B_take-018-0001"], 19, ("take-017-0000", 13)),
    ("session_camera-B_take-017-0001", ["session_camera-B_take-017-0000"], 19, ("take-017-0001", 13)),
    ("Büro Übung – Tür öffnen-0000", ["concert-0001"], 19, ("öffnen-0000", 11)),
    ("concert copy for the web-0003", ["concert big-0001", "harbour-0002"], 19, ("web-0003", 8)),
    ("concert copy for the web-0005", ["harbour-0002", "concert big-0001"], 19, ("web-0005", 8)),
    ("concert copy for the web-0005", ["concert copy for the web-0003"], 19, ("0005", 4)),
    ("holiday-part-07-of-the-camera-roll", ["holiday-part-08-of-the-camera-roll"], 19, ("07-of-the-camera-roll", 11)),
    ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", [""], 19, ("a" * 11, 11)),
]


def check_names(page):
    for name, neighbours, room, expected in NAMES:
        part = page.evaluate("""async ([name, room, neighbours]) => {
            const { cut } = await import("/name_cut.js"), [from, letters] = cut(name, room, neighbours);
            return [name.slice(from), letters]; }""", [name, room, neighbours])
        assert tuple(part) == expected, (name, part)


def check_groups(page):
    """Words of caption.describe's sentences are no names; where captions have no other, files have."""
    described = "A short evenly lit video of 2.1 seconds, mostly {}, with slow motion and medium contrast."
    told = page.evaluate("""async ([described]) => {
        const { groupsOf, inside } = await import("/map_groups.js");
        const at = [0, 1, 2, 300, 301, 302].flatMap((x) => [[x, x], [x, x + 1], [x, x + 2]]);
        const of = (name) => described.replace("{}", name);
        const near = (at, i) => at[i][0] < 100;
        const names = (captions, files) => groupsOf(at, captions, files).map(({ name }) => name).sort();
        const high = inside([[0, 50], [1, 52], [2, 51], [3, 54], [500, 0]]);
        return [names(at.map((_, i) => of(near(at, i) ? "blue" : "orange")), at.map(() => "")),
                names(at.map(() => of("grey")).map((text) => text.replace("grey", "")),
                      at.map((_, i) => (near(at, i) ? "harbour-0001" : "concert-0001"))), high[0]]; }""", [described])
    assert told[:2] == [["blue", "orange"], ["concert", "harbour"]] and told[2][0] < 5, told


def check_pictures(page):
    """A picture that could not be made is asked for again while its clip is in sight."""
    told = page.evaluate("""() => new Promise(async (done) => {
        const { Pictures } = await import("/pictures.js"), { fetch } = window, told = [];
        const picture = await new Promise((made) => document.createElement("canvas").toBlob(made));
        let asked = 0;
        window.fetch = async (address, options) => (address.startsWith("/picture?id=none")
            ? new Response(...(++asked < 2 ? ["", { status: 404 }] : [picture])) : fetch(address, options));
        new Pictures((id, bitmap) => {
          told.push(bitmap === null);
          if (bitmap) done(told, window.fetch = fetch);
        }, 10).want(["none"]); })""")
    assert told == [True, False], told


def check_lengths(page):
    """A card has the length that a trim leaves; the whole clip is not trimmed."""
    told = page.evaluate("""async () => {
        const { lengthOf } = await import("/card.js");
        return [{}, { trimmed_s: 1.25 }, { trimmed_s: 2 }, { trimmed_s: null }].map((row) =>
            lengthOf({ duration_s: 2, ...row })); }""")
    assert told == ["2 s", "✂ 1.3 s", "2 s", "2 s"], told


def check_found(page):
    """How many match is said where it tells clips apart."""
    said = page.evaluate("""async () => {
        const { foundBy } = await import("/found.js"), found = { by: "meaning", why: "" };
        return [3, 24].map((matching) => foundBy({ found, unmatched: 0.2, matching, total: 26 }, {})); }""")
    assert said == [", nearest in meaning first; 3 match, the dimmed ones do not",
                    ", nearest in meaning first; so many match that it tells little: look at the first ones"], said


def check_bound(page):
    """A bound below the smallest number has a handle at the edge, which keys take back."""
    line = page.get_by_role("slider", name="Bound of Sharpness in good")
    assert line.is_visible() and line.bounding_box()["width"] > 5
    line.focus()
    page.keyboard.press("Shift+ArrowRight")
    eventually(lambda: "more clip" in page.locator("p.bound").inner_text(), page.locator("p.bound").inner_text())
    page.get_by_role("button", name="Back", exact=True).click()
    page.keyboard.press("Escape")


def check_scale(page):
    """A logarithmic scale with a first bar for zero: values and places fit each other."""
    wrong = page.evaluate("""async () => {
        const { scaleOf } = await import("/scale.js");
        const h = { low: 0, high: 1000, all: Array(4).fill(1), edges: [0, 1, 10, 100, 1000] }, scale = scaleOf(h);
        const places = [[0, 0], [1, 0.25], [10, 0.5], [100, 0.75], [1000, 1], [0.5, 0.125]];
        return places.filter(([value, share]) => Math.abs(scale.at(value) - share) > 1e-9
            || Math.abs(scale.value(share) - value) > 1e-6); }""")
    assert not wrong, wrong


def main(chromium):
    folder = folder_of()
    with Studio(folder.parent) as studio, page_of(chromium, studio) as page:
        check_names(page)
        check_groups(page)
        check_scale(page)
        check_found(page)
        check_lengths(page)
        check_pictures(page)
        check_bound(page)
        check_first(page)
        check_broken(page)
        check_counts(page, folder)
        check_selected(page)
        check_keys(page)
    print("newcomer: all checks passed")


if __name__ == "__main__":
    run_alone(main)
