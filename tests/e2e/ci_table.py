#!/usr/bin/env python3
"""CI's table counts skips of cases, checks and whole tests with their reasons, failures, and the slow tests drawn for a commit.
usage: ci_table.py ROOT"""
import os, pathlib, subprocess, sys, unittest.mock
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "packaging"))
import suite


def test(name, inside, output=""):
    made = xml.fromstring(f'<testcase name="{name}" time="1">{inside}<system-out/></testcase>')
    made.find("system-out").text = output
    return made


def check_skips():
    cases = test("a", "", "[ RUN      ] S.One\nx.cpp:3: Skipped\nno GPU\n  here\n[  SKIPPED ] S.One (0 ms)\n[ RUN      ] S.Two\n[       OK ] S.Two (0 ms)\n")
    script = test("b", "", "ok    one\nSKIPPED: two: no ffprobe\nnothing SKIPPED: three: in a line\n")
    whole = test("c", '<skipped message="SKIP_RETURN_CODE=77"/>', "skipped: no numpy")
    assert [suite.skips(t) for t in (cases, script, whole)] == [[("a/S.One", "no GPU here")], [("b/two", "no ffprobe")], [("c", "skipped: no numpy")]]
    refused = suite.print_skips([cases, script, whole])
    assert refused == 2, "of a machine without ffprobe or numpy, not of one without a GPU"


def check_failures():
    tests = [test("good", ""), test("bad", '<failure message=""/>'), test("gone", '<skipped message="Unable to find executable"/>'),
             test("skipped", '<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>')]
    assert suite.failed(tests) == ["bad", "gone"] and suite.print_skips(tests[1:3]) == 0


def check_drawn():
    slow = {f"t{n}": {"COST": 40.0 * n} for n in range(1, 20)}
    drawn = [suite.draw(slow, seed) for seed in ("one commit", "one commit", "another")]
    assert drawn[0] == drawn[1] != drawn[2]
    for names in drawn:
        assert 0 < sum(slow[n]["COST"] for n in names) <= 2 * suite.SLOW_SECONDS and all(slow[n]["COST"] <= suite.SLOW_SECONDS for n in names), names


def check_cut():
    """A test cut off after the ten minutes does not count as a failure; a test cut off by its own time limit does."""
    slow, timeout = {"a": {"TIMEOUT": 60.0}, "b": {}}, '<failure message="Timeout"/>'
    cut, own, unbounded, wrong = test("a", timeout), test("a", timeout), test("b", timeout), test("a", '<failure message=""/>')
    own.set("time", "60.02")
    assert [suite.was_cut(t, {"a", "b"}, slow) for t in (cut, own, unbounded)] == [True, False, True] and not suite.was_cut(wrong, set(), slow)


def check_main():
    """The commit draws the slow tests, and a skip that is not allowed is an error under CI alone."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    reason, seeds = "no ffprobe", []

    class Run:
        def __init__(self, preset, results, arguments, at_once=3):
            self.code, self.seconds, self.timed_out = 0, 1.0, set()
            self.tests = [test("t1", "", "")] if results == "slow.xml" else [test("b", "", f"SKIPPED: two: {reason}\n")]

    def draw(slow, seed):
        seeds.append(seed)
        return list(slow)

    def code(ci):
        with unittest.mock.patch.dict(os.environ), unittest.mock.patch.multiple(suite, Run=Run, draw=draw, slow_tests=lambda preset: {"t1": {"COST": 1.0}}):
            os.environ.pop("CI", None)
            os.environ.update({"CI": "1"} if ci else {})
            return suite.main("dev", "1", ["--some"])

    assert [code(False), code(True)] == [0, 1], "a skip for which .ci/skips.txt has no line"
    reason = "no GPU"
    assert code(True) == 0, "a skip that .ci/skips.txt allows"
    assert seeds == [head] * 3, (seeds, head)


for check in (check_skips, check_failures, check_drawn, check_cut, check_main):
    check()
    print("ok   ", check.__name__)
