#!/usr/bin/env python3
"""A run with a select job: what it left out, its facts and its bounds; actions after a condition has hidden the
selected clip; a studio that is killed during an action. usage: chosen.py KINORA ROOT SCRATCH"""
import json, shutil, subprocess

from browser import KINORA, SCRATCH, Studio, copy_of_run, eventually, page_of, run_alone
from clips import SCORES, curate_folder, lines
from edits import said, select, total
from keys import HOLD

CLIPS, BOUND, FIRST_SEA = 20, 5.5, 10  # clip n has sharpness n, from 0
KEYS = [f"film-{n:04}" for n in range(CLIPS)]
STAYS = [n for n in range(CLIPS) if n >= BOUND]
VAL = STAYS[-3:]
CONTAINERS = ["mov,mp4,m4a,3gp,3g2,mj2", "mp4"]  # two names of one


def folder_of():
    items = [{"key": key, "parent": "film", "consumed": False, "end": "kept",
              "facts": {"film": "film", "container": CONTAINERS[n % 2], "bin": {"duration": ["10_30", "5_10"][n % 2]},
                        "scores": {"filter.blur": n, "filter.flow": 1, "glow": n / 10}}}
             for n, key in enumerate(KEYS)]
    folder = curate_folder(SCRATCH / "chosen/clips", items)
    scores = SCORES | {"glow": {"title": "Glow at night", "unit": "cd"}}
    (folder / "job.json").write_text(json.dumps({"kind": "curate", "scores": scores}))
    (folder / "summary.json").write_text("{}")
    decisions = []
    for n, key in enumerate(KEYS):
        stays = ({"end": "kept", "set": "val" if n in VAL else "train"} if n in STAYS
                 else {"end": "filtered", "final": True, "rule": f"blur > {BOUND}"})
        decisions.append({"key": key, "user": {"label": "sea" if n >= FIRST_SEA else "sky"}, **stays})
    write_selection(folder.parent, decisions)
    return folder.parent


def write_selection(run, decisions, where=f"blur > {BOUND}"):
    """The folder that a select job `good` leaves."""
    (run / "good").mkdir()
    (run / "good/job.json").write_text(json.dumps({"kind": "select", "options": {"where": where}}))
    (run / "good/summary.json").write_text(json.dumps({"curated": "clips", "left_out_before": 0}))
    (run / "good/decisions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in decisions))


def look_for(page, where):
    page.locator("#where").fill(where)
    page.keyboard.press("Enter")


def check_left_out(page):
    """Clips that the select job removed are left out by it, with the condition; what it has added can be named in
    conditions."""
    button = page.locator('[data-choice="rule good"]')
    assert button.inner_text().startswith("Left out by good") and str(
        CLIPS - len(STAYS)) in button.inner_text(), button.inner_text()
    button.click()
    eventually(lambda: total(page) == CLIPS - len(STAYS))
    select(page, KEYS[2])
    cell = page.locator(".cell[aria-selected=true]")
    assert (cell.locator(".mark").inner_text(),
            cell.locator(".scores").inner_text()) == ("left out", f"good: blur > {BOUND}"), cell.inner_text()
    assert cell.locator(".line").nth(1).evaluate("(line) => getComputedStyle(line).whiteSpace") == "normal", "not cut"
    eventually(lambda: page.locator("#detail .note").all_inner_texts()
               == [f"Left out by good: blur > {BOUND} does not hold."])
    page.locator("#all").click()
    look_for(page, "set == 'train' and label == 'sky'")
    eventually(lambda: total(page) == sum(n < FIRST_SEA for n in STAYS))
    page.locator("#all").click()
    eventually(lambda: total(page) == CLIPS)


def check_facets(page):
    """A fact that is a text of few values has their counts, `set` first. A click on one selects its clips by a
    condition that can be typed, and a typed one presses its button."""
    choice = lambda name: page.locator(f'[data-choice="{name}"]')
    groups = page.locator("#conditions .group:has([data-choice^=set], [data-choice^='user.label'])")
    assert groups.locator("h2 code").all_inner_texts() == ["set", "user.label"], "a film of one value is no facet"
    texts = [" ".join(text.split()) for text in groups.locator("button").all_inner_texts()]
    assert texts == [f"train {len(STAYS) - len(VAL)} clips", f"val {len(VAL)} clips", f"sea {CLIPS - FIRST_SEA} clips",
                     f"sky {FIRST_SEA} clips"], texts
    steps = (("set val", "set == 'val'", len(VAL)), ("set train", "set in ['val', 'train']", len(STAYS)),
             ("user.label sky", "set in ['val', 'train'] and user.label == 'sky'", sum(n < FIRST_SEA for n in STAYS)),
             ("set val", "set == 'train' and user.label == 'sky'", sum(n < FIRST_SEA for n in STAYS)),
             ("set train", "user.label == 'sky'", FIRST_SEA))
    page.evaluate(HOLD, "/api/clips?from=0&count=100&where=set+%3D%3D+%27val%27")
    choice("set val").click()
    page.wait_for_function("() => window.release && document.getElementById('summary').textContent === 'Searching…'")
    assert choice("set val").get_attribute("aria-pressed") == "true", "the button shows the click before the answer"
    page.evaluate("() => window.release()")
    choice("set val").click()
    eventually(lambda: total(page) == CLIPS)
    for name, where, clips in steps:
        choice(name).click()
        eventually(lambda: total(page) == clips and page.locator("#where").input_value() == where, (name, where, clips))
        assert choice("user.label sky").get_attribute("aria-pressed") == str("sky" in where).lower(), where
    look_for(page, "blur > 7 or set == 'val'")
    eventually(lambda: total(page) == CLIPS - 8)
    choice("user.label sky").click()
    eventually(lambda: total(page) == 2, "clips 8 and 9")
    assert page.locator("#where").input_value() == "(blur > 7 or set == 'val') and user.label == 'sky'"
    look_for(page, "set ==")
    page.locator("#where[aria-invalid]").wait_for()
    look_for(page, "set == 'val'")
    eventually(lambda: choice("set val").get_attribute("aria-pressed") == "true")
    page.locator("#all").click()
    eventually(lambda: total(page) == CLIPS)


def check_names(page):
    """Values of one name are one choice; ranges are in the order of their numbers."""
    texts = lambda field: [" ".join(text.split()) for text in
                           page.locator(f'[data-choice^="{field} "]').all_inner_texts()]
    assert texts("bin.duration") == [f"5 to 10 s {CLIPS // 2} clips", f"10 to 30 s {CLIPS // 2} clips"], texts(
        "bin.duration")
    assert texts("container") == [f"MP4 or MOV {CLIPS} clips"], texts("container")
    button, where = page.locator('[data-choice^="container "]'), page.locator("#where")
    button.click()
    eventually(lambda: where.input_value() == f"container in ['{CONTAINERS[0]}', '{CONTAINERS[1]}']"
               and total(page) == CLIPS, "both names")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    eventually(lambda: not where.input_value() and total(page) == CLIPS, "neither")


def check_bound(page):
    """The condition is a line on the histogram, labelled with the job."""
    line = page.get_by_role("slider", name="Bound of Sharpness in good")
    assert line.get_attribute("aria-valuetext") == f"more than {BOUND} in good"
    assert page.locator(".group",
                        has=page.get_by_role("toolbar", name="Sharpness")).locator("h2 code").inner_text() == "blur"
    line.focus()
    page.keyboard.press("Shift+ArrowRight")  # a tenth of the width of 20
    about = page.locator("p.bound")
    eventually(lambda: "2 more clips would go" in about.inner_text()
               and "write blur > 7.5 in the where of good" in about.inner_text(), about.inner_text())
    about.get_by_role("button", name="Back").click()
    page.keyboard.press("Escape")


def check_titles(page):
    """A score has the title and the unit that its stage states: over its histogram, on cards and in the order."""
    shown = page.locator(".group", has=page.get_by_role("toolbar", name="Glow at night"))
    assert shown.locator("h2 code").inner_text() == "glow" and shown.locator(".ends span").all_inner_texts() == [
        "0\u00a0cd", "1.9\u00a0cd"], shown.inner_text()
    assert page.locator("#sort option[value='scores.glow']").inner_text() == "Glow at night"
    page.locator("#sort").select_option("scores.glow")
    eventually(lambda: "Glow at night 0.6\u00a0cd" in page.locator(".cell .scores").all_inner_texts())
    page.locator("#sort").select_option("")
    eventually(lambda: not any("Glow" in text for text in page.locator(".cell .scores").all_inner_texts()))


def check_hidden(page, folder):
    """After a condition has hidden the selected clip, keys act on the first clip of the view, at once and later; in an
    empty view they say that there is none."""
    edited = lambda: [line["key"] for line in lines(folder / "edits.jsonl")]
    select(page, KEYS[0])
    look_for(page, "label == 'sea'")
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    said(page, f"Accepted: {KEYS[FIRST_SEA]}")
    assert edited() == [KEYS[FIRST_SEA]], edited()
    eventually(lambda: page.locator("#detail h2").first.inner_text() == KEYS[FIRST_SEA + 1], "the next clip")
    look_for(page, f"blur >= {FIRST_SEA + 1} and label == 'sea'")
    eventually(lambda: total(page) == CLIPS - FIRST_SEA - 1)
    assert page.locator("#detail h2").first.inner_text() == KEYS[
        FIRST_SEA + 1], "a clip that the view has stays selected"
    look_for(page, "blur > 99")
    eventually(lambda: page.locator("#nothing").is_visible()
               and "No clip is selected" in page.locator("#detail").inner_text())
    page.keyboard.press("Escape")
    page.keyboard.press("x")
    said(page, "No clip is selected: the view is empty")
    assert not page.locator("#reject-dialog[open]").count() and len(edited()) == 1
    look_for(page, "blur >")
    eventually(lambda: page.locator("#where-error").inner_text())
    page.locator("#all").click()
    eventually(lambda: total(page) == CLIPS and page.locator(".cell[aria-selected=true] .key").inner_text() == KEYS[0])
    page.locator("#where").fill("")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")


def check_rejected(page):
    """The reason is on the card, and the outcome says how many of the kept clips are rejected."""
    select(page, KEYS[12])
    page.keyboard.press("x")
    page.wait_for_selector("#reject-dialog[open]")
    page.keyboard.type("logo")
    page.keyboard.press("Enter")
    said(page, f"Rejected: {KEYS[12]}")
    page.keyboard.press("k")
    eventually(lambda: page.locator(".cell[aria-selected=true] .scores").inner_text() == "“logo”")
    eventually(
        lambda: page.locator('[data-choice="end kept"]').inner_text().endswith(f"{len(STAYS)} clips, 1 rejected"))


def check_cut_off(page):
    """An answer that ends early is not taken for a clip."""
    page.route("**/api/edit",
               lambda route: route.fulfill(status=200, content_type="application/json", body='{"changed": 1, "cl'))
    select(page, KEYS[3])
    eventually(lambda: page.locator("#detail").get_attribute("aria-busy") == "false"
               and page.locator("#detail h2").first.inner_text() == KEYS[3])
    page.keyboard.press("a")
    said(page, "the studio does not answer; restart it with kinora studio")
    page.unroute("**/api/edit")


def check_anew(page, clips):
    """A job that begins anew is named, also where its clips are missing; when the results of before come back, so do
    they."""
    before = clips.parent / ".clips.before"
    clips.rename(before)
    clips.mkdir()
    (clips / "job.json").write_text('{"kind": "curate"}')
    shutil.copy(before / "edits.jsonl", clips)
    eventually(
        lambda: "clips is making its clips anew; the results of before are kept" in page.locator("#live").inner_text())
    page.keyboard.press("u")
    said(page, f"Undone: {KEYS[12]}, which is not made again yet")
    eventually(lambda: page.locator("#nothing").inner_text()
               == "clips is making its clips anew. They appear here as the job stores them.")
    shutil.move(clips / "edits.jsonl", before / "edits.jsonl")
    shutil.rmtree(clips)
    before.rename(clips)
    eventually(lambda: total(page) == CLIPS and "anew" not in page.locator("#live").inner_text())


def check_search():
    """`kinora search` knows the facts of the run's select jobs, and takes the folder of one."""
    run = copy_of_run("searched")
    keys = [item["key"] for item in lines(run / "clips/items.jsonl") if item["end"] == "kept" and not item["consumed"]]
    write_selection(run, [{"key": key, "end": "kept", "set": "train" if n % 2 else "val",
                           "user": {"label": "sea" if n < 4 else "sky"}} for n, key in enumerate(keys)])
    for folder in (run, run / "good"):
        done = subprocess.run([KINORA, "search", str(folder), "--like", keys[0], "--where",
                               "set == 'train' and label == 'sea'", "--json"], capture_output=True, text=True)
        found = {json.loads(line)["key"] for line in done.stdout.splitlines()}
        assert len(keys) > 4 and found == {keys[1], keys[3]}, (done, keys)


def main(chromium):
    check_search()
    run = folder_of()
    with Studio(run / "good") as studio, page_of(chromium, studio, refused=(400,)) as page:
        check_left_out(page)
        check_facets(page)
        check_names(page)
        check_bound(page)
        check_titles(page)
        check_hidden(page, run / "clips")
        check_rejected(page)
        check_cut_off(page)
        check_anew(page, run / "clips")
        page.screenshot(path=str(SCRATCH / "chosen.png"))
    print("chosen: all checks passed")


if __name__ == "__main__":
    run_alone(main)
