#!/usr/bin/env python3
"""A running job whose captions come from a server that pauses until the test resumes it: finished items are shown with
their reason and cost. Then the end of the job, the copies that a dedup job finds, and a failing job. Pictures of all
states stay in SCRATCH. usage: work.py KINORA ROOT SCRATCH"""
import collections, json, shutil, subprocess, sys, threading

from browser import (ROOT, SCRATCH, Studio, copy_of_run, curated, edits, eventually, page_of, run_alone, run_command,
                     small)
import record
from clips import lines, pictures
from edits import ask, said, select, shows
from states import State

sys.path.append(str(ROOT / "tests/faults"))
from model_server import ModelServer

ANSWERED = 2  # captions, before the server pauses
COST = 100 * 2.0e-6 + 20 * 10.0e-6  # per request: the server counts 100 and 20 tokens
COPIES = """
[[job]]
name = "copies"
kind = "dedup"
input = "clips"
dedup = {{ use = "dedup.semantic", eps = {eps} }}
"""


def counts(page):
    """{outcome: text} as shown by the filters."""
    return dict(
        page.evaluate(
            """() => [...document.querySelectorAll('[aria-label="Outcome"] button')].map((button) =>
            [...button.children].map((part) => part.textContent))"""))


def counted(items):
    """The same from items.jsonl, without input videos shown as their clips."""
    found = collections.Counter((item["end"], "url" in item) for item in items if not item["consumed"])
    plural = lambda n, word: f"{n} {word}" + "s" * (n != 1)
    kinds = lambda end: ", ".join(plural(found[end, video], word)
                                  for video, word in ((False, "clip"), (True, "video")) if found[end, video])
    return {end.capitalize(): kinds(end) for end in ("kept", "filtered", "failed") if kinds(end)}


def costs(page):
    return [text for text in page.locator("#live p").all_inner_texts() if text.startswith("caption.endpoint")]


def cost_of(requests):
    return [
        f"caption.endpoint: {requests} requests, {100 * requests} prompt tokens, {20 * requests} completion tokens, "
        f"cost {float(f'{COST * requests:.3g}')}"]


def check_at_work(page, job):
    """While the job pauses, the page shows every outcome in the record."""
    ends = lambda: record.outcomes(job)
    eventually(lambda: sum(end["end"] == "kept" and not end["consumed"]
                           for end in ends()) == ANSWERED and any(end["end"] == "filtered" for end in ends()),
               "the server stands still", 60)
    eventually(lambda: counts(page) == counted(ends()) and costs(page) == cost_of(ANSWERED), "all that has ended", 30)
    assert not (job / "items.jsonl").exists() and not (job / "summary.json").exists()
    eventually(lambda: "1 video" in counts(page)["Failed"] and "clip" in counts(page)["Filtered"]
               and "1 video" in page.locator("#summary").inner_text())
    short = next(end for end in ends() if end["end"] == "filtered")
    select(page, short["key"])
    eventually(lambda: page.locator("#detail .title .mark").inner_text() == "filtered by clip.too-short")
    eventually(
        lambda: f"Length of the shot (clip.too-short of clip.transcode): {round(short['score'], 1):g} s, at least 3.2 "
                f"s is kept." in page.locator("#detail .note").inner_text())
    select(page, "broken")
    eventually(lambda: "not a video file" in page.locator("#detail .note").inner_text())
    eventually(lambda: page.locator(".cell[aria-selected=true] .mark").inner_text() == "video failed")


def check_ended(page, job):
    eventually(lambda: "done in" in page.locator("#live").inner_text(), "the end of the job", 120)
    items, used = lines(job / "items.jsonl"), json.loads((job / "summary.json").read_text())["usage"][
        "caption.endpoint"]
    eventually(lambda: counts(page) == counted(items), "all items")
    assert used["requests"] > ANSWERED and abs(used["cost"] - COST * used["requests"]) < 1e-9, used
    assert costs(page) == cost_of(used["requests"]), costs(page)


def check_work(chromium):
    let_go, asked = threading.Event(), []

    def stand_still(request):
        asked.append(request)
        if len(asked) > ANSWERED:
            let_go.wait(600)

    with ModelServer(stand_still) as server:
        stage = (
            f' {{ use = "caption.endpoint", base_url = "{server.url}", model = "m", price_prompt = 2.0, '
            f'price_completion = 10.0, timeout = 600.0 }},')
        command, out = run_command("work", embedded=True, stages=stage)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            try:
                eventually(lambda: (out / "clips/job.json").exists(), "the job begins")
                with Studio(out) as studio, State(chromium, studio) as state:
                    check_at_work(state.page, out / "clips")
                    state.done("at-work")
                    let_go.set()
                    check_ended(state.page, out / "clips")
                    assert run.wait(60) == 0 and not server.problems, server.problems
            finally:
                let_go.set()
                run.kill()


def keys(page):
    """Keys of the visible cells."""
    return set(
        page.evaluate(
            """() => [...document.querySelectorAll(".cell:not([hidden]) .key")].map((key) => key.textContent)"""))


def copied():
    """A run with a dedup job, and with two videos of the same bytes: its folder, {key: decision} of the copies, keys of
    the others."""
    twin = SCRATCH / "twin.mp4"
    shutil.copy(small("bbb_A.mp4"), twin)
    copy_of_run("copies")
    out = curated("copies", videos=("film.mp4", "bbb_A.mp4", twin), embedded=True, jobs=COPIES.format(eps=0.15))
    copies = {line["key"]: line for line in lines(out / "copies/decisions.jsonl") if line["end"] == "filtered"}
    kept = set(pictures(out)) - set(copies)
    assert copies and kept, (copies, kept)
    return out, copies, kept


def check_copy(chromium, studio, copies):
    """A copy names its original and links to it."""
    key = min(copies)
    of = copies[key]["of"]
    with State(chromium, studio) as state:
        page = state.page
        eventually(lambda: page.locator("#copies").inner_text()
                   == f"Show {len(copies)} cop{'y' if len(copies) == 1 else 'ies'}")
        page.keyboard.press("c")
        eventually(lambda: page.locator("#copies").inner_text().startswith(f"Hide {len(copies)} cop"), "the copies too")
        select(page, key)
        cell = page.locator(".cell[aria-selected=true]")
        assert cell.locator(".mark").inner_text() == "copy" and cell.locator(".scores").inner_text().startswith(
            f"of {of} · "), cell.inner_text()
        assert f", copy of {of}, " in cell.get_attribute("aria-label")
        eventually(lambda: page.locator("#detail .note").first.text_content().startswith(f"A {copies[key]['reason']}. ")
                   and f"A copy of {of}: cosine " in page.locator("#detail .note").first.text_content())
        page.keyboard.press("Enter")
        state.done("copy")
        page.keyboard.press("b")
        eventually(lambda: page.locator("#compare-facts tbody tr.differs").count()
                   and page.locator("#compare-why").inner_text() == copies[key]["reason"])
        state.done("compare")
        page.keyboard.press("Escape")
        page.keyboard.press("o")
        shows(page, of)


def check_copies(chromium, studio, copies, kept):
    """Copies are hidden, from searches too, unless requested by c, by outcome or by rule; an accepted one is not
    hidden."""
    with page_of(chromium, studio, viewport={"width": 1440, "height": 900}) as page:  # all cells are visible
        shown = lambda: keys(page) & (kept | set(copies))
        eventually(lambda: shown() == kept and page.locator("#copies").is_visible())
        page.keyboard.press("c")
        eventually(lambda: shown() == kept | set(copies), "the copies too")
        page.keyboard.press("c")
        eventually(lambda: shown() == kept, "without them again")
        page.locator("#where").fill(f"key == '{min(copies)}'")
        page.keyboard.press("Enter")
        eventually(lambda: page.locator("#nothing").inner_text()
                   == "No clip meets these conditions. Show all clears them. 1 hidden copy; press c.")
        page.locator("#all").click()
        eventually(lambda: shown() == kept, "all again")
        select(page, min(kept))
        page.keyboard.press("m")
        eventually(lambda: "most like" in page.locator("#summary").inner_text() and shown() == kept,
                   "a search leaves them out")
        page.keyboard.press("c")
        eventually(lambda: shown() == kept | set(copies), "unless they are asked for")
        page.keyboard.press("c")
        page.locator("#all").click()
        eventually(lambda: shown() == kept, "all")
        key = check_asked(page, copies, shown)
        select(page, key)
        page.keyboard.press("a")
        said(page, "Accepted")
        page.locator("#all").click()
        eventually(lambda: shown() == kept | {key}, "the accepted one stays")
        page.keyboard.press("u")
        said(page, "Undone")
        for _ in range(2):  # an edit leaves the view unchanged until the next query
            page.keyboard.press("c")
        eventually(lambda: shown() == kept, "hidden again")
        select(page, "twin")
        notes = page.locator("#detail .note").all_inner_texts()
        assert notes == ["The file of bbb_A again: its bytes are the same."], notes
        assert page.locator(".cell[aria-selected=true] .scores").inner_text() == "the file of bbb_A again"
        assert page.locator('[data-choice="rule ingest.duplicate"]').inner_text().startswith(
            "The same file again (ingest.duplicate)")
        page.get_by_role("button", name="Show bbb_A (o)").click()
        shows(page, "bbb_A")


def check_asked(page, copies, shown):
    """Copies by their outcome and their rule; then a key of the clips with that rule."""
    outcome = page.locator('[data-choice="end copy"]')
    outcome.click()
    eventually(lambda: shown() == set(copies), "copies alone")
    outcome.click()
    key = min(copies)
    page.get_by_role("button", name=copies[key]["rule"]).click()
    eventually(lambda: shown() == {name for name in copies if copies[name]["rule"] == copies[key]["rule"]},
               "those of the rule")
    page.keyboard.press("Escape")
    return key


def check_rejected(chromium, studio, out, copies):
    """Rejecting a clip asks about its copies: one of them takes its place, or all are rejected with it."""
    of = copies[min(copies)]["of"]
    its = sorted(key for key, copy in copies.items() if copy["of"] == of)
    count = f"{len(its)} cop{'y' if len(its) == 1 else 'ies'}"
    with page_of(chromium, studio) as page:
        select(page, of)
        page.keyboard.press("x")
        eventually(lambda: f"Reject its {count} too: {', '.join(its)}." in page.locator("#its-copies").inner_text())
        page.keyboard.press("Enter")
        said(page, f"Rejected: {of}")
        rejected = lambda: {key for key, values in edits(out)[1].items() if values.get("keep") is False}
        assert rejected() == {of}
        select(page, of)  # the focus has gone on
        eventually(lambda: f"{count} of a rejected clip" in page.locator("#detail .note").nth(1).inner_text())
        page.keyboard.press("x")
        page.keyboard.type("not wanted")
        page.keyboard.press("Tab")
        page.keyboard.press(" ")
        page.keyboard.press("Enter")
        said(page, f"Rejected: {of} and its {count}")
        select(page, of)
        last = edits(out)[1]
        assert rejected() == {of, *its} and all(last[key]["reason"] == "not wanted" for key in rejected()), last
        eventually(lambda: page.locator("#detail .note").count() == 1, "no copy takes its place")
        page.keyboard.press("x")
        eventually(lambda: page.locator("#its-copies").is_hidden())


def check_failed(chromium):
    """No input could be used: the page reports it, with the reason of each."""
    command, out = run_command("failed", videos=())
    assert subprocess.run(command, capture_output=True).returncode == 1
    with Studio(out) as studio, State(chromium, studio) as state:
        said = state.page.locator("#live").inner_text()
        assert "clips: failed after" in said and "none of the 1 inputs could be used" in said, said
        eventually(lambda: counts(state.page) == {"Failed": "1 video"}
                   and state.page.locator("#summary").inner_text() == "1 video")
        state.done("failed")


def check_icon(studio):
    cookie = studio.cookie
    assert b'href="/icon.svg"' in ask(studio, "/", Cookie=cookie)[2]
    code, headers, body = ask(studio, "/icon.svg", Cookie=cookie)
    assert code == 200 and headers["Content-Type"] == "image/svg+xml" and body.startswith(b"<svg"), (code, headers)


def main(chromium):
    check_work(chromium)
    out, copies, kept = copied()
    with Studio(out) as studio:
        check_copies(chromium, studio, copies, kept)
        check_copy(chromium, studio, copies)
        check_rejected(chromium, studio, out, copies)
        check_icon(studio)
    check_failed(chromium)
    print("work: all checks passed; screenshots are in", SCRATCH)


if __name__ == "__main__":
    run_alone(main)
