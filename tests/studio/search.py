#!/usr/bin/env python3
"""Search by meaning and by pictures in a real browser over a real curate run: every order equals numpy's, with the
question encoded by the test's own MiniLM. usage: search.py KINORA ROOT SCRATCH"""
import json, os, pathlib, subprocess, threading, time

import numpy as np

from browser import KINORA, SCRATCH, Studio, copy_of_run, curated, eventually, page_of, run_alone
from clips import EMBED_TEXT, caption_rows, lines, nearest, pictures
from edits import ask, caption, said, select, shows, total
from keys import HOLD
from minilm import MiniLM


def shown(page):
    """(key, similarity) of the cells in the page's order."""
    cells = page.evaluate("""() => [...document.querySelectorAll(".cell:not([hidden])")].map((cell) =>
      [+cell.getAttribute("aria-posinset"), cell.querySelector(".key").textContent,
       cell.querySelector(".near").textContent])""")
    return [(key, near) for _, key, near in sorted(cells)]


def check_order(page, wanted, what):
    """The page shows these first, each with its similarity; clips without one follow. Values equal to 1e-5 may be in
    either order."""
    def fits():
        cells = shown(page)
        got = [(key, float(near)) for key, near in cells if near]
        rank = {key: score for score, key in wanted}
        return (len(got) == min(len(wanted),
                                len(cells)) and all(key in rank and abs(rank[key] - near) < 6e-4 for key, near in got)
                and all(rank[a] > rank[b] - 1e-5 for (a, _), (b, _) in zip(got, got[1:])))
    try:
        eventually(fits, what)
    except AssertionError:
        raise AssertionError(f"{what}: {shown(page)}, not {wanted}")


def look_for(page, text):
    page.keyboard.press("/")
    page.locator("#text").fill(text)
    page.keyboard.press("Enter")


def check_words(page):
    """Without an embed-text job the search is by words, and the page says why."""
    eventually(lambda: page.locator("#how").is_hidden()
               and "captions" in page.locator("#text").get_attribute("placeholder"))
    look_for(page, "bbb_A")
    eventually(lambda: "by words: " in page.locator("#summary").inner_text()
               and "embed-text" in page.locator("#summary").inner_text(), "why not by meaning")
    eventually(lambda: shown(page) and all(key.startswith("bbb_A") and not near for key, near in shown(page)))
    page.locator("#all").click()


def check_signs(page):
    """While an answer is awaited, the page says so: a search at once, before its request."""
    first = "/api/clips?from=0&count=100"

    def held(address, act, sign, text):
        page.evaluate(HOLD, address)
        act()
        page.wait_for_function(
            "([sign, text]) => window.release && document.querySelector(sign).textContent === text", arg=[sign, text])
        page.evaluate("async () => { await window.release(); delete window.release; }")
        eventually(lambda: page.locator(sign).inner_text() != text, f"the answer of {address}")

    def write():
        said_at_once = page.locator("#text").evaluate("""(text) => {
            text.value = "bbb";
            text.dispatchEvent(new Event("input"));
            return document.getElementById("summary").textContent; }""")
        assert said_at_once == "Searching…", said_at_once

    held(f"{first}&q=bbb", write, "#summary", "Searching…")
    held(first, lambda: page.locator("#all").click(), "#summary", "Searching…")
    select(page, "film-0001")
    eventually(lambda: page.locator("#detail").get_attribute("aria-busy") == "false", "the clip is there")
    like = f"{first}&like=clips%2Ffilm-0001&embedding=classic"
    held(like, lambda: page.keyboard.press("m"), "#summary", "Searching…")
    page.locator("#all").click()
    good = page.locator("#funnel button", has_text="good").first
    held(f"{first}&end=kept&end=unchosen&end=copy", good.click, "#summary", "Searching…")
    held("/api/map?of=&colour=&end=kept&end=unchosen&end=copy", page.locator("#show-map").click, "#map .row .muted",
         "Reading the embeddings…")
    page.locator("#show-map").click()
    page.locator("#all").click()
    eventually(lambda: page.locator("#all").is_hidden(), "everything")


def check_responsive(studio):
    """While the first question loads the encoder, all other requests are answered."""
    cookie, answers = studio.cookie, []
    first = threading.Thread(target=lambda: answers.append(ask(studio, "/api/clips?q=a+dark+night", Cookie=cookie)))
    start, slowest, asked = time.monotonic(), 0.0, 0
    first.start()
    while first.is_alive():
        before = time.monotonic()
        assert ask(studio, "/api/state", Cookie=cookie)[0] == 200
        asked, slowest = asked + 1, max(slowest, time.monotonic() - before)
        time.sleep(0.01)
    took = time.monotonic() - start
    assert json.loads(answers[0][2])["by"] == "meaning", answers
    print(
        f"the first search took {took:.2f} s; meanwhile {asked} other questions were answered, the slowest in "
        f"{slowest:.3f} s")
    assert took < 0.2 or (asked >= 2 and slowest < took), (took, asked, slowest)


def check_meaning(page, out, encode):
    eventually(lambda: page.locator("#how").is_visible(), "the run has a search by meaning now")
    for text in ("a dim green video", "colourful pictures that move a lot"):
        wanted = nearest(caption_rows(out), encode(text))
        look_for(page, text)
        check_order(page, wanted, text)
        eventually(lambda: "nearest in meaning first" in page.locator("#summary").inner_text())
        eventually(lambda: page.locator(".cell[aria-selected=true]:visible .key").inner_text() == shown(page)[0][0],
                   "the best is selected")
    dimmed = lambda: [(float(near), is_dimmed) for near, is_dimmed in page.evaluate(
        "() => [...document.querySelectorAll('.cell')].map((cell) => [cell.querySelector('.near').textContent || "
        "'nan', cell.classList.contains('unmatched')])")]
    eventually(lambda: dimmed() and all(abs(near - 0.3) <= 0.001 or is_dimmed == (near < 0.3)
                                        for near, is_dimmed in dimmed()), f"what does not match is dimmed: {dimmed()}")
    nothing = "tax returns of a software company"
    best = nearest(caption_rows(out), encode(nothing))[0][0]
    assert best < 0.25, best
    look_for(page, nothing)
    eventually(
        lambda: f"no caption matches this text: the highest score is {best:.2f}, " in page.locator(
            "#summary").inner_text(), "it says so")
    eventually(lambda: page.locator(".beyond:not(:empty)").all_inner_texts() == ["from here on, nothing matches"]
               and all(is_dimmed for near, is_dimmed in dimmed() if near == near), "and where")
    look_for(page, text)
    eventually(lambda: "no caption matches" not in page.locator("#summary").inner_text())
    filtered = {item["key"]: item["facts"].get("duration_s") for item in lines(out / "clips/items.jsonl")}
    page.locator("#sort").select_option("duration_s")
    eventually(lambda: [filtered[key] for key, _ in shown(page)] == sorted(filtered[key] for key, _ in shown(page)),
               "another order of the same clips")
    page.locator("#sort").select_option("")
    bars = page.locator('.bars[aria-label="Similarity"] button')
    bars.last.click()
    eventually(lambda: shown(page) and shown(page)[0][0] == wanted[0][1] and total(page) < len(wanted),
               "only the nearest")
    page.get_by_role("button", name="Clear Similarity").click()
    check_order(page, wanted, "all again")
    page.keyboard.press("Escape")
    page.keyboard.press("w")
    eventually(lambda: "meaning" not in page.locator("#summary").inner_text(), "by words")
    eventually(lambda: all(not near for _, near in shown(page)))
    page.keyboard.press("w")
    check_order(page, wanted, "by meaning again")
    page.screenshot(path=str(SCRATCH / "meaning.png"))


def check_like(page, out):
    """By the key m, and by mouse; the clip itself comes first."""
    embedded = pictures(out)
    assert len(embedded) > 5
    page.locator("#all").click()
    eventually(lambda: page.locator("#all").is_hidden(), "everything")
    select(page, "film-0001")
    page.keyboard.press("m")
    check_order(page, nearest(embedded, embedded["film-0001"]), "like film-0001")
    eventually(lambda: shown(page)[0] == ("film-0001",
                                          "1.000") and "most like film-0001" in page.locator("#summary").inner_text())
    page.screenshot(path=str(SCRATCH / "like.png"))
    second = shown(page)[1][0]
    page.locator(".cell:visible", has=page.get_by_text(second, exact=True)).click()
    shows(page, second)
    page.get_by_role("button", name="More like this").click()
    check_order(page, nearest(embedded, embedded[second]), f"like {second}")
    page.get_by_role("button", name="Kept").click()
    check_order(page, nearest(embedded, embedded[second]), "kept ones are those with pictures")
    page.locator("#all").click()
    eventually(lambda: page.locator("#all").is_hidden(), "everything")
    select(page, "broken")
    page.keyboard.press("m")
    said(page, "broken has no image embedding")


def check_edited(page, out, run, encode):
    """A new caption is found by its meaning at once; the next run embeds it, and nothing else."""
    select(page, "film-0000")
    caption(page, "A boat at sea.")
    said(page, "Caption saved")
    text = "a ship on the ocean"
    wanted = nearest({**caption_rows(out), "film-0000": encode("A boat at sea.")}, encode(text))
    assert wanted[0][1] == "film-0000" and wanted[0][0] > wanted[1][0] + 0.2, wanted[:2]
    look_for(page, text)
    check_order(page, wanted, "the edited caption")
    before, videos = (out / "captions/text.npy").stat(), (out / "clips/items.jsonl").stat()
    run()
    after = caption_rows(out)
    assert np.abs(after["film-0000"]
                  - encode("A boat at sea.")).max() < 1e-5, "what embed-text embeds is the edited caption"
    assert (out / "clips/items.jsonl").stat().st_mtime_ns == videos.st_mtime_ns and (
        out / "captions/text.npy").stat().st_mtime_ns != before.st_mtime_ns
    found = json.loads(subprocess.run([KINORA, "search", str(out), text, "--top", "1", "--json"], capture_output=True,
                                      text=True, check=True).stdout)
    assert found["key"] == "film-0000" and found["caption"] == "A boat at sea.", found
    page.locator("#all").click()
    eventually(lambda: page.locator("#all").is_hidden(), "everything")
    embedded = (out / "captions/text.npy").stat().st_mtime_ns
    select(page, "film-0001")
    page.keyboard.press("a")
    said(page, "Accepted")
    run()
    assert (out / "captions/text.npy").stat().st_mtime_ns == embedded, "a decision is nothing that embed-text follows"
    page.keyboard.press("u")
    said(page, "Undone")
    page.keyboard.press("u")
    said(page, "Undone: film-0000")
    run()
    own = (out / "clips/data/film-0000.txt").read_text()
    assert np.abs(caption_rows(out)["film-0000"] - encode(own)).max() < 1e-5, "the clip's own caption again"


def main(chromium):
    encode = MiniLM(pathlib.Path(os.environ["KINORA_ASSETS"]) / "minilm")
    run = lambda: curated("search", embedded=True, jobs=EMBED_TEXT)
    out = copy_of_run("search")
    with Studio(out) as studio, page_of(chromium, studio) as page:
        check_words(page)
        check_signs(page)
        run()
        eventually(lambda: page.locator("#how").is_visible(), "the studio sees that captions are embedded now")
        check_responsive(studio)
        check_meaning(page, out, encode)
        check_like(page, out)
        check_edited(page, out, run, encode)
    with Studio(out / "clips") as studio, page_of(chromium, studio) as page:  # only the job's folder
        eventually(lambda: page.locator("#how").is_visible(), "the job next to it is found")
        look_for(page, "a dark night")
        check_order(page, nearest(caption_rows(out), encode("a dark night")), "from the job's folder")
    print("search: all checks passed")


if __name__ == "__main__":
    run_alone(main)
