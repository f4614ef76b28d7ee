"""Runs the tests of a build and prints one table at the end.

usage: suite.py PRESET BUILD_SECONDS [--all | --some] [CTEST ARGUMENT...]

Skips tests with the label "slow"; --all runs them too. --some first runs the others, then a share of the slow tests
that takes at most eleven minutes. The shares take turns (next_share), so that any SHARES runs have run every slow test.
A share waits for the next run where the disk has less than SLOW_ROOM gigabytes of free space, or where it would end
later than RUN_SECONDS after the begin of the build: the times of the other tests tell how fast the machine is.
If CI is set, `packaging/dev.sh X` first installs what a slow test with the label "needs-X" needs, and a skip that
.ci/skips.txt does not allow is an error.

A CTest test is a GoogleTest program with many cases, or a script with many checks. CTest counts it as passed even if
some of them were skipped, so skips are read from its output.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[1]
# How many tests run at once, on two cores: half of the suite's time is spent in waiting, that of the slow tests in
# computing.
AT_ONCE, SLOW_AT_ONCE, SLOW_SECONDS, SHARES = 3, 2, 660, 12
SLOW_ROOM = 6  # two builds with sanitizers, or a second libtorch and its build
RUN_SECONDS = 4500  # five sixths of the 90 minutes that a checking machine waits
TURN = ROOT / ".ci/turn"
# [ RUN      ] Suite.Case / FILE:LINE: Skipped / the reason, any number of lines / [  SKIPPED ] Suite.Case (0 ms)
SKIPPED_CASE = re.compile(r"^\[ RUN      \] (\S+)\n(?:(?!\[ ).*\n)*?\S+: Skipped\n((?:(?!\[ ).*\n)*)\[  SKIPPED \] \1",
                          re.M)
SKIPPED_CHECK = re.compile(r"^SKIPPED: (.+?): (.+)$", re.M)


class Run:
    """The results of one call of ctest."""

    def __init__(self, preset, results, arguments, at_once=AT_ONCE):
        started, folder = time.monotonic(), ROOT / "build" / preset
        (folder / results).unlink(missing_ok=True)
        # Each test has threads for all cores: waiting threads must not take processor time from other tests.
        ctest = subprocess.Popen(
            ["ctest", "--preset", preset, "--output-on-failure", "--no-tests=error", "--parallel", str(at_once),
             "--output-junit", str(folder / results),
             "--test-output-size-passed", "4000000", "--test-output-size-failed", "4000000", *arguments],
            env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}, stdout=subprocess.PIPE, text=True, errors="replace")
        for line in ctest.stdout:
            print(line, end="", flush=True)
        self.code = ctest.wait()
        self.seconds = time.monotonic() - started
        self.tests = xml.parse(folder / results).getroot().findall("testcase") if (folder / results).exists() else []


def failed(tests):
    """Names of the tests that did not pass, including those whose program is missing."""
    return sorted(t.get("name")
                  for t in tests
                  if t.find("failure") is not None
                  or (t.find("skipped") is not None and not t.find("skipped").get("message").startswith("SKIP_")))


def skips(test):
    """The (name, reason) pairs of the cases that one CTest test skipped."""
    out, name = test.findtext("system-out") or "", test.get("name")
    found = [(f"{name}/{case}", " ".join(why.split())) for case, why in SKIPPED_CASE.findall(out)]
    found += [(f"{name}/{check}", why.strip()) for check, why in SKIPPED_CHECK.findall(out)]
    mark = test.find("skipped")
    if mark is not None and not found:
        found = [(name, (out.strip().splitlines() or [mark.get("message")])[-1])]
    return [(name, why or "no reason given") for name, why in found]


def allowed():
    """The reasons of the skips that CI allows, as patterns of the whole reason."""
    lines = (ROOT / ".ci/skips.txt").read_text().splitlines()
    return [re.compile(line.split(" -- ")[0]) for line in lines if line and not line.startswith("#")]


def listed_tests(preset):
    """{name: its properties} of all tests; COST is the usual seconds of a long one, from tests/times.cmake."""
    listed = json.loads(subprocess.run(["ctest", "--preset", preset, "--show-only=json-v1"],
                                       cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    return {test["name"]: {p["name"]: p["value"] for p in test["properties"]} for test in listed["tests"]}


def slow_tests(listed):
    return {name: properties for name, properties in listed.items() if "slow" in properties.get("LABELS", [])}


def slowness(ran, listed):
    """How many times their usual seconds the long ones of these tests took, {name: seconds}; at least 1."""
    long = [name for name in ran if listed.get(name, {}).get("COST")]
    return max(1, sum(ran[n] for n in long) / max(1, sum(listed[n]["COST"] for n in long)))


def seconds_of(properties):
    """What a test takes of the time that two at once have: a test with both processors takes it twice. Without a COST,
    all of a test's time is assumed."""
    return properties.get("COST", SLOW_SECONDS) * min(int(properties.get("PROCESSORS", 1)), SLOW_AT_ONCE)


def shares(slow):
    """The slow tests as lists, one a share: those of the label "share-N", which tests/times.cmake gives. Raises
    ValueError for tests that would never run."""
    # the rest covers the uneven split between two tests
    lists, room = [[] for _ in range(SHARES)], 0.9 * SLOW_AT_ONCE * SLOW_SECONDS
    for name, properties in sorted(slow.items(), key=lambda test: -seconds_of(test[1])):
        of = [int(label[6:]) for label in properties.get("LABELS", []) if label.startswith("share-")]
        if len(of) != 1 or properties.get("COST", SLOW_SECONDS) > 0.8 * SLOW_SECONDS:
            raise ValueError(
                f"{name} is in the shares {of} and takes {properties.get('COST')} s: add it to one share of "
                f"tests/times.cmake, and cut it if it takes longer than {0.8 * SLOW_SECONDS:.0f} s")
        lists[of[0] - 1].append(name)
    for number, names in enumerate(lists, 1):
        if (seconds := sum(seconds_of(slow[name]) for name in names)) > room:
            raise ValueError(
                f"share {number} of the slow tests takes {seconds:.0f} s, and has {room:.0f}: move a test to another "
                f"share of tests/times.cmake")
    return lists


def next_share():
    """The share whose turn it is: the one that this machine has run the longest ago, by the file KINORA_TURNS of
    .ci/run; of shares that it has not run, as on a machine without that file, the one after as many turns as .ci/turn
    says, to which each landing adds one."""
    turns = pathlib.Path(os.environ.get("KINORA_TURNS", "/nonexistent"))
    ran = turns.read_text().split() if turns.exists() else []
    first = int(TURN.read_text().split()[0])
    last = {int(share): at for at, share in enumerate(ran)}
    return min(range(SHARES), key=lambda share: (last.get(share, -1), (share - first) % SHARES))


def no_turn(seconds, spent, times, free):
    """Why a share waits for the next run, or "". seconds: its usual ones; spent: those since the begin of the build;
    times: how slow the machine is; free: bytes of the disk."""
    if free < SLOW_ROOM * 1e9:
        return f"the disk has {free / 1e9:.1f} GB of free space, a share needs {SLOW_ROOM}"
    if spent + seconds * times > RUN_SECONDS:
        return (f"{spent:.0f} s are over, the share takes {seconds:.0f} s, here {times:.1f} times that, and a run ends "
                f"within {RUN_SECONDS}")
    return ""


def record_share(share):
    if turns := os.environ.get("KINORA_TURNS"):
        path = pathlib.Path(turns)
        path.parent.mkdir(parents=True, exist_ok=True)
        ran = path.read_text().split() if path.exists() else []
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text("\n".join([*ran[-9 * SHARES:], str(share)]) + "\n")
        new.replace(path)


def provide(preset, tests, slow):
    """Installs what these tests need, named by their labels."""
    for need in sorted({label[6:] for name in tests
                        for label in slow[name].get("LABELS", []) if label.startswith("needs-")}):
        subprocess.run(["bash", str(ROOT / "packaging/dev.sh"), need], check=True)


def run_share(preset, drawn, slow):
    if os.environ.get("CI"):
        provide(preset, drawn, slow)
    return Run(preset, "slow.xml", ["-R", "^(" + "|".join(map(re.escape, drawn)) + ")$"], SLOW_AT_ONCE)


def print_skips(tests):
    """Prints one line per label and reason; returns the number of skips that CI does not allow."""
    groups, known_reasons, refused = collections.defaultdict(list), allowed(), 0
    for test in tests:
        label = test.find("properties/property[@name='cmake_labels']")
        label = "no label" if label is None else ", ".join(one for one in label.get("value").split(";")
                                                           if not one.startswith(("share-", "needs-")))
        for name, why in [] if failed([test]) else skips(test):
            groups[label, why].append(name)
    for (label, why), names in sorted(groups.items()):
        known = any(pattern.fullmatch(why) for pattern in known_reasons)
        refused += not known
        print(
            f"  {'' if known else 'NOT ALLOWED '}{label}: {names[0] if len(names) == 1 else f'{len(names)} cases'}: "
            f"{why}")
    if not groups:
        print("  none")
    return refused


def main(preset, build_seconds, arguments):
    some, whole = "--some" in arguments, "--all" in arguments
    arguments = [a for a in arguments if a not in ("--all", "--some")]
    if not whole and "-LE" in arguments:  # with two -LE, ctest would leave out only tests with both labels
        arguments[arguments.index("-LE") + 1] += "|^slow$"
    elif not whole:
        arguments += ["-LE", "^slow$"]
    suite = Run(preset, "test.xml", arguments)
    tests, code, listed = list(suite.tests), suite.code, listed_tests(preset)
    slow = slow_tests(listed)
    cases = sum(len(re.findall(r"^\[       OK \]", t.findtext("system-out") or "", re.M)) or t.find("skipped") is None
                for t in tests)
    rows = [("build", float(build_seconds), ""),
            ("suite", suite.seconds, f"{len(tests)} CTest tests, {cases} cases passed")]
    number = next_share()
    drawn = shares(slow)[number] if some and slow else []
    why = no_turn(sum(seconds_of(slow[name]) for name in drawn) / SLOW_AT_ONCE,
                  float(build_seconds) + suite.seconds,
                  slowness({t.get("name"): float(t.get("time")) for t in tests}, listed),
                  shutil.disk_usage(ROOT).free)
    if drawn and why:
        rows.append(("slow", 0, f"share {number + 1} of {SHARES} did not run: {why}"))
    elif drawn:
        run = run_share(preset, drawn, slow)
        ran = {t.get("name"): float(t.get("time")) for t in run.tests}
        tests += run.tests
        if failed(run.tests) or len(ran) < len(drawn):
            code = code or 1
        else:
            record_share(number)
        rows.append(("slow", run.seconds,
                     f"ran {', '.join(f'{n} ({s:.0f} s)' for n, s in ran.items()) or 'none'}; share {number + 1} of "
                     f"{SHARES}"))
    elif slow and not whole:
        rows.append(("slow", 0, f"{len(slow)} tests skipped; packaging/dev.sh test --all runs them too"))
    print("\nseconds")
    for what, seconds, said in rows:
        print(f"{seconds:7.0f}  {what:<6} {said}".rstrip())
    print("the ten slowest tests")
    for test in sorted(tests, key=lambda t: -float(t.get("time")))[:10]:
        print(f"{float(test.get('time')):7.0f}  {test.get('name')}")
    print("skipped")
    refused = print_skips(tests)
    if refused and os.environ.get("CI"):
        print(
            f"error: {refused} of these skips are not allowed if CI is set: provide what they need, or list them in "
            f".ci/skips.txt with the reason")
        code = code or 1
    bad = failed(tests)
    if bad:
        print("failed: " + ", ".join(bad))
    # The last line of ctest, for both of its calls together.
    print(f"\n{100 * (len(tests) - len(bad)) // len(tests)}% tests passed, {len(bad)} tests failed out of {len(tests)}"
          if tests else "No tests were found!!!")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
