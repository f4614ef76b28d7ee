#!/usr/bin/env python3
"""Many clips at once: selection by keys and clicks, actions on all of it as one step of undo, tags, `where`, saved
views, and two people.
Then random keys against a model of the page, at several latencies. usage: many.py KINORA ROOT SCRATCH"""
import collections, json, random

from browser import Studio, eventually, page_of, run_alone
from axe_core import violations
from edits import said, total
from keys import CLIPS, LATENCIES, Typist, synthetic, together

KEYS = [f"film-{n:04}" for n in range(CLIPS)]
STEPS = 90  # random keys per latency


def state(file):
    """{key: {field: value}}: the last values, as a reader that ignores undo has them; no decision, no reason and no
    tags are left out."""
    out = collections.defaultdict(dict)
    for line in file.read_text().splitlines() if file.exists() else []:
        out[json.loads(line)["key"]].update(json.loads(line)["set"])
    return {key: kept
            for key, values in out.items()
            if (kept := {name: value for name, value in values.items() if value not in (None, "", [])})}


def steps(file):
    """The number of clips of each step of the file."""
    sizes = [0]
    for line in file.read_text().splitlines():
        sizes[-1] += 1
        if not json.loads(line).get("more"):
            sizes.append(0)
    return sizes[:-1]


def selected(page):
    return page.evaluate(
        "() => document.getElementById('selected').hidden ? 0 : "
        "parseInt(document.getElementById('how-many').textContent.replaceAll(',', ''))")


def checked(page):
    return {
        key for key in page.evaluate(
            "() => [...document.querySelectorAll('.cell[aria-checked=true]:not([hidden]) .key')].map((key) => "
            "key.textContent)")}


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def check_selection(page):
    """Ranges that grow and shrink, single clips, all, the others, none."""
    eventually(lambda: total(page) == CLIPS and page.locator(".cell:visible",
                                                             has=page.get_by_text(KEYS[0], exact=True)).count() == 1,
               "the clips")
    press(page, "Home", "j", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowLeft")
    eventually(lambda: checked(page) == set(KEYS[1:4]) and selected(page) == 3)
    cell = lambda key: page.locator(".cell:visible", has=page.get_by_text(key, exact=True))
    cell(KEYS[6]).click(modifiers=["Control"])
    cell(KEYS[8]).click(modifiers=["Shift"])
    eventually(lambda: checked(page) == {*KEYS[1:4], *KEYS[6:9]} and selected(page) == 6)
    cell(KEYS[7]).hover()
    cell(KEYS[7]).locator(".check").click()
    eventually(lambda: selected(page) == 5, "a mark takes a clip out")
    press(page, "i")
    eventually(lambda: selected(page) == CLIPS - 5)
    press(page, "Escape", "Escape")
    eventually(lambda: selected(page) == 0 and not checked(page))
    press(page, "Home", "Shift+End")
    eventually(lambda: selected(page) == CLIPS, "a range over rows that are not loaded")
    press(page, "Escape")
    page.locator("#select-all").click()
    eventually(lambda: selected(page) == CLIPS)
    press(page, "Escape", "Home", "s")
    eventually(lambda: checked(page) == {KEYS[0]})
    press(page, "/", *"caption 77", "Enter")
    eventually(lambda: selected(page) == 0 and total(page) == 1, "another view selects nothing")
    page.locator("#all").click()
    eventually(lambda: total(page) == CLIPS)


def check_actions(page, file):
    """Rejects, tags and accepts all that is selected; each is one step, and u takes it back."""
    press(page, "Home", "j", "Shift+End", "x")
    page.wait_for_selector("#reject-dialog[open]")
    eventually(lambda: page.locator("#reject-title").inner_text() == f"Reject {CLIPS - 1} clips")
    page.keyboard.type("blurred")
    press(page, "Enter")
    said(page, f"Rejected: {CLIPS - 1} clips")
    assert state(file) == {key: {"keep": False, "reason": "blurred"} for key in KEYS[1:]} and steps(file) == [CLIPS - 1]
    press(page, "u")
    said(page, f"Undone: {CLIPS - 1} clips")
    assert state(file) == {} and steps(file) == [CLIPS - 1] * 2
    press(page, "Escape", "Home", "s", "j", "j", "s", "t")
    page.wait_for_selector("#tag-dialog[open]")
    page.keyboard.type("sea, two words")
    press(page, "Enter")
    said(page, "Tagged: 2 clips")
    eventually(lambda: page.locator(".cell[aria-selected=true] .scores").inner_text().startswith("#sea #two words"),
               "the tags of the row")
    press(page, "2")
    said(page, "Removed two words: 2 clips")
    press(page, "a")
    said(page, "Accepted: 2 clips")
    assert state(file) == {KEYS[n]: {"keep": True, "tags": ["sea"]} for n in (0, 2)}
    press(page, "Escape", "k", "x")
    page.wait_for_selector("#reject-dialog[open]")
    press(page, "1")
    eventually(lambda: page.locator("#reason-list button[aria-pressed=true]").inner_text() == "1 blurred")
    press(page, "Enter")
    said(page, f"Rejected: {KEYS[1]}")
    assert state(file)[KEYS[1]] == {"keep": False, "reason": "blurred"}, "the reason with that number"
    press(page, "k", "x")
    page.wait_for_selector("#reject-dialog[open]")
    page.keyboard.type("1 logo")
    press(page, "Enter")
    said(page, f"Rejected: {KEYS[1]}")
    eventually(lambda: state(file)[KEYS[1]]["reason"] == "1 logo", "what is typed is not lost")


def check_where(page, file):
    """A condition narrows the view, a wrong one says where it is wrong; the view as text, and saved by name."""
    page.locator("#where").fill("start_s >= 5 an key != 'x'")
    press(page, "Enter")
    eventually(lambda: page.locator("#where-error").inner_text().startswith("column 14: expected 'and'"))
    assert total(page) == CLIPS and page.locator(
        "#where").input_value() == "start_s >= 5 an key != 'x'", "the text and the view stay"
    assert not violations(page)
    page.locator("#where").fill("start_s < 5 and film == 'film'")
    press(page, "Enter")
    eventually(lambda: total(page) == 5 and not page.locator("#where-error").inner_text())
    page.get_by_role("button", name="1 sea").click()
    eventually(lambda: total(page) == 2)
    page.locator("#view-name").fill("the sea")
    press(page, "Enter")
    said(page, "Saved: the sea")
    page.locator("#copy-where").click()
    page.wait_for_selector("#where-dialog[open]")
    assert page.locator(
        "#where-text").input_value() == "where = \"tags contains 'sea' and (start_s < 5 and film == 'film')\""
    press(page, "Escape")
    page.locator("#all").click()
    eventually(lambda: total(page) == CLIPS and page.locator("#where").input_value() == "")
    page.reload()
    page.get_by_role("button", name="the sea", exact=True).click()
    eventually(lambda: total(page) == 2 and page.locator("#where").input_value() == "start_s < 5 and film == 'film'",
               "the saved view")
    page.get_by_role("button", name="Remove the view the sea").click()
    said(page, "Removed: the sea")
    page.locator("#all").click()


def check_two(chromium, mine, folder):
    """An edit by one reaches the other's page; a decision that the other has not seen is a conflict, and pressing the
    key again is a decision."""
    file = folder / "edits.jsonl"
    with Studio(folder.parent, "--author",
                "tom") as other, page_of(chromium, mine) as page, page_of(chromium, other) as second:
        mark = lambda page: page.locator("#detail .title .mark").inner_text()
        press(page, "End")
        press(second, "End")
        for each in (page, second):
            eventually(lambda: mark(each) == "kept")
        before = second.evaluate("() => fetch('/api/state').then((answer) => answer.json())")
        asked = []
        # tom's page hears nothing
        second.route("**/api/state*", lambda route: (asked.append(route), route.fulfill(json=before)))
        eventually(lambda: second.evaluate("true") and asked, "no answer from before is still on its way")
        press(page, "s", "k", "s", "x", "n", "o", "Enter")
        said(page, "Rejected: 2 clips")
        press(second, "k", "Shift+ArrowRight", "a")
        said(second, "2 clips were changed meanwhile by mia")
        assert all(state(file)[key] == {"keep": False, "reason": "no"} for key in KEYS[-2:])
        second.unroute("**/api/state*")
        eventually(lambda: mark(second) == "rejected" == second.locator(".cell[aria-selected=true] .mark").inner_text(),
                   "tom sees it, in the list too")

        def again():  # the page may still have to hear how many edits there are
            press(second, "a")
            second.wait_for_timeout(200)
            return mark(second) == "accepted"

        eventually(again, "the same again is a decision")
        eventually(lambda: mark(page) == "accepted", "mia sees it")


class Model:
    """What the page should do: the focus, the selection, and the edits with their steps."""

    def __init__(self):
        self.focus, self.anchor, self.end, self.base, self.ids = 0, -1, -1, set(), set()
        self.clips, self.done, self.undone = {key: {"keep": None, "reason": "", "tags": []} for key in KEYS}, [], []

    def move(self, by):
        self.focus = min(max(self.focus + by, 0), CLIPS - 1)

    def extend(self, by):
        if self.anchor < 0 or self.end != self.focus:
            self.anchor, self.base = self.focus, set(self.ids)
        self.move(by)
        self.end = self.focus
        self.ids = self.base | set(KEYS[min(self.anchor, self.end) : max(self.anchor, self.end) + 1])

    def toggle(self):
        self.anchor = self.end = self.focus
        self.ids = self.base = self.ids ^ {KEYS[self.focus]}

    def select(self, ids):
        self.anchor, self.ids = -1, set(ids)

    def change(self, change):
        before = {}
        for key in self.ids or {KEYS[self.focus]}:
            now = change(self.clips[key])
            if now != self.clips[key]:
                before[key], self.clips[key] = self.clips[key], now
        if before:
            self.done.append((before, {key: self.clips[key] for key in before}))
            self.undone = []

    def decide(self, change):
        """Goes on to the next clip, unless several are selected."""
        self.change(change)
        if not self.ids:
            self.move(1)

    def tag_all(self, name):
        targets = self.ids or {KEYS[self.focus]}
        has_all = all(name in self.clips[key]["tags"] for key in targets)
        self.change(lambda clip: {**clip, "tags": [tag for tag in clip["tags"] if tag != name] if has_all
                                  else clip["tags"] + [name] * (name not in clip["tags"])})

    def back(self, of, to, which):
        if of:
            step = of.pop()
            to.append(step)
            self.clips.update(step[which])
            if len(step[0]) == 1:
                self.focus = KEYS.index(next(iter(step[0])))

    def edits(self):
        return {key: kept
                for key, clip in self.clips.items()
                if (kept := {name: value for name, value in clip.items() if value not in (None, "", [])})}


def random_action(dice, model):
    """Keys, and what they should do to the model. Few undos come when there is nothing to undo: the page would say so
    as an error."""
    reject = lambda reason: lambda: model.decide(lambda clip: {**clip, "keep": False, "reason": reason})
    tag = lambda name: lambda: model.change(
        lambda clip: {**clip, "tags": clip["tags"] + [name] * (name not in clip["tags"])})
    reason, name = dice.choice("pq"), dice.choice(("sea", "sky"))
    actions = [
        (8, ("j",), lambda: model.move(1)), (4, ("k",), lambda: model.move(-1)),
        (1, ("Home",), lambda: model.move(-CLIPS)), (1, ("End",), lambda: model.move(CLIPS)),
        (6, ("Shift+ArrowRight",), lambda: model.extend(1)), (4, ("K",), lambda: model.extend(-1)),
        (1, ("Shift+End",), lambda: model.extend(CLIPS)), (4, ("s",), model.toggle),
        (1, ("Control+a",), lambda: model.select(KEYS)), (1, ("i",), lambda: model.select(set(KEYS) - model.ids)),
        (4, ("Escape",), lambda: model.select([])),
        (4, ("a",), lambda: model.decide(lambda clip: {**clip, "keep": True, "reason": ""})),
        (3, ("x", reason, "Enter"), reject(reason)), (1, ("x", reason, "Escape"), lambda: None),
        (3, ("t", *name, "Enter"), tag(name)), (2, ("1",), lambda: model.tag_all("one")),
        (2, ("2",), lambda: model.tag_all("two")),
        *([(4, ("u",), lambda: model.back(model.done, model.undone, 0))] if model.done else []),
        *([(2, ("Shift+U",), lambda: model.back(model.undone, model.done, 1))] if model.undone else []),
    ]
    return dice.choices(actions, [weight for weight, *_ in actions])[0][1:]


def check_random(chromium, latency):
    """The page and its file equal the model after random keys, 20 ms apart."""
    folder = synthetic(f"random-{latency}")
    # Two tags whose numbers stay: a clip that no key reaches has them.
    items, file = folder / "items.jsonl", folder / "edits.jsonl"
    items.write_text(items.read_text() + json.dumps({"key": "tagged", "end": "filtered", "stage": "s", "reason": "r",
                                                     "facts": {}}) + "\n")
    file.write_text(json.dumps({"key": "tagged", "author": "tom", "set": {"tags": ["one", "two"]}}) + "\n")
    dice, model = random.Random(latency), Model()
    equals = lambda: {key: values for key, values in state(file).items() if key != "tagged"} == model.edits()
    with Studio(folder.parent) as studio, page_of(chromium, studio) as page:
        page.locator('[data-choice="end kept"]').click()
        yield lambda: page.evaluate("() => document.getElementById('summary').textContent").startswith(
            f"{CLIPS} of"), "the kept clips"
        typist = Typist(page, folder, latency)
        press(page, "Escape")
        yield from typist.home()
        for _ in range(STEPS):
            keys, act = random_action(dice, model)
            yield from typist.type(20, *keys)
            act()
            # takes the focus to its clip, unless the user has moved it before the answer
            if keys[0] in ("u", "Shift+U"):
                yield equals, "the step is undone"
                yield from typist.shows(KEYS[model.focus])
        yield lambda: equals() and selected(page) == len(
            model.ids), f"the model's edits and its {len(model.ids)} clips, not {selected(page)}"
        assert checked(page) <= model.ids
        yield from typist.shows(KEYS[model.focus])
        decisions = lambda: dict(
            page.evaluate(
                "() => [...document.querySelectorAll('.cell:not([hidden])')].map((cell) => "
                "[cell.querySelector('.key').textContent, cell.classList.contains('rejected')])"))
        yield lambda: all(is_rejected == (model.clips[key]["keep"] is False)
                          for key, is_rejected in decisions().items()), "the rows' decisions"


def main(chromium):
    folder = synthetic("selection")
    with Studio(folder.parent) as studio:
        with page_of(chromium, studio, refused=(400,)) as page:
            check_selection(page)
            check_actions(page, folder / "edits.jsonl")
            check_where(page, folder / "edits.jsonl")
        check_two(chromium, studio, folder)
    together(*(check_random(chromium, latency) for latency in LATENCIES))
    print("many: all checks passed")


if __name__ == "__main__":
    run_alone(main)
