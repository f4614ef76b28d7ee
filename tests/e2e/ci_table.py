#!/usr/bin/env python3
"""CI's table counts skips of cases, checks and whole tests with their reasons, and failures; the shares of the slow
tests take turns. usage: ci_table.py ROOT PRESET SCRATCH"""
import os, pathlib, shutil, sys, unittest.mock
import xml.etree.ElementTree as xml

ROOT, PRESET, SCRATCH = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
NO_GPU = "libtorch's CUDA library finds no GPU; nvidia-smi lists those that the driver knows"
sys.path.insert(0, str(ROOT / "packaging"))
import suite


def test(name, inside, output=""):
    made = xml.fromstring(f'<testcase name="{name}" time="1">{inside}<system-out/></testcase>')
    made.find("system-out").text = output
    return made


def check_skips():
    cases = test("a", "",
                 "[ RUN      ] S.One\nx.cpp:3: Skipped\nlibtorch's CUDA library finds no GPU;\n  nvidia-smi lists "
                 "those that the driver knows\n[  SKIPPED ] S.One (0 ms)\n[ RUN      ] S.Two\n[       OK ] S.Two (0 "
                 "ms)\n")
    script = test("b", "", "ok    one\nSKIPPED: two: no ffprobe\nnothing SKIPPED: three: in a line\n")
    whole = test("c", '<skipped message="SKIP_RETURN_CODE=77"/>', "skipped: no numpy")
    assert [suite.skips(t) for t in (cases, script, whole)] == [[("a/S.One", NO_GPU)], [("b/two", "no ffprobe")],
                                                                [("c", "skipped: no numpy")]]
    refused = suite.print_skips([cases, script, whole])
    assert refused == 2, "of a machine without ffprobe or numpy, not of one without a GPU"
    # none is a whole reason of .ci/skips.txt
    for reason in ("the GPU's result is wrong, skipped", "CUDA", f"{NO_GPU}, and more", "no permission"):
        assert suite.print_skips([test("d", "", f"SKIPPED: one: {reason}\n")]) == 1, reason


def check_failures():
    tests = [test("good", ""), test("bad", '<failure message=""/>'),
             test("gone", '<skipped message="Unable to find executable"/>'),
             test("skipped", '<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>')]
    assert suite.failed(tests) == ["bad", "gone"] and suite.print_skips(tests[1:3]) == 0


def check_shares():
    """Every slow test of this build is in one share that fits into the eleven minutes, and any eleven turns run all of
    them."""
    slow = suite.slow_tests(suite.listed_tests(PRESET))
    parts = suite.shares(slow)
    assert sorted(sum(parts, [])) == sorted(slow) and all(parts), parts
    for wrong in ({"a": {"COST": 40.0, "LABELS": ["slow"]}}, {"a": {"COST": 590.0, "LABELS": ["share-1"]}},
                  {f"t{n}": {"COST": 400.0, "LABELS": ["share-2"]} for n in range(3)},
                  {f"t{n}": {"COST": 300.0, "PROCESSORS": 2, "LABELS": ["share-2"]} for n in range(2)}):
        try:
            suite.shares(wrong)
            raise AssertionError(wrong)
        except ValueError as error:
            assert "times.cmake" in str(error), error


def check_turns():
    """A machine that keeps the record of its turns runs the share that it has run the longest ago, whatever .ci/turn
    says; another one follows .ci/turn."""
    turn, record = SCRATCH / "turn", SCRATCH / "cache/turns"
    with unittest.mock.patch.dict(os.environ), unittest.mock.patch.multiple(suite, TURN=turn):
        os.environ.pop("KINORA_TURNS", None)
        fresh = []
        for number in range(40, 52):
            turn.write_text(f"{number}\n")
            fresh.append(suite.next_share())
            suite.record_share(fresh[-1])  # without a place for it: nothing
        assert fresh == [4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3], fresh
        os.environ["KINORA_TURNS"] = str(record)
        kept = []
        for number in range(250):  # of landings that forget to add one, and others
            turn.write_text(f"{number // 7}\n")
            kept.append(suite.next_share())
            suite.record_share(kept[-1])
        assert all(len(set(kept[n:n + suite.SHARES])) == suite.SHARES
                   for n in range(len(kept) - suite.SHARES + 1)), kept


def check_main():
    """A share of the slow tests runs and is recorded, and a skip that is not allowed is an error under CI alone."""
    reason, recorded = "no ffprobe", []

    class Run:
        def __init__(self, preset, results, arguments, at_once=3):
            self.code, self.seconds = 0, 1.0
            self.tests = [test("t1", "", "")] if results == "slow.xml" else [test("b", "", f"SKIPPED: two: {reason}\n")]

    def code(ci, free=9, build=1):
        usage = unittest.mock.Mock(return_value=unittest.mock.Mock(free=free * 1e9))
        with unittest.mock.patch.dict(os.environ), unittest.mock.patch.object(
            suite.shutil, "disk_usage", usage), unittest.mock.patch.multiple(
            suite, Run=Run, next_share=lambda: 4, record_share=recorded.append,
            listed_tests=lambda preset: {"t1": {"COST": 1.0, "LABELS": ["slow", "share-5"]}, "b": {"COST": 2}}):
            os.environ.pop("CI", None)
            os.environ.update({"CI": "1"} if ci else {})
            return suite.main("dev", str(build), ["--some"])

    assert [code(False), code(True)] == [0, 1], "a skip for which .ci/skips.txt has no line"
    reason = NO_GPU
    assert code(True) == 0, "a skip that .ci/skips.txt allows"
    assert recorded == [4] * 3, recorded
    assert code(True, free=5) == 0 and recorded == [4] * 3, "on a full disk a share waits for its next turn"
    assert code(True, build=4499) == 0 and recorded == [4] * 3, "it would end too late"
    assert code(True, build=4490) == 0 and recorded == [4] * 4
    assert suite.slowness({"a": 30.0, "b": 70.0, "c": 9.0}, {"a": {"COST": 20}, "b": {"COST": 20}, "c": {}}) == 2.5
    assert suite.slowness({"a": 3.0}, {"a": {"COST": 20}}) == 1, "a fast machine tells nothing of compilers"


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
for check in (check_skips, check_failures, check_shares, check_turns, check_main):
    check()
    print("ok   ", check.__name__)
