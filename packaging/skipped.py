"""Says which tests did not run, and why: one line for each label and reason.

usage: skipped.py JUNIT.xml [LABEL...]    the labels are those that the preset leaves out altogether

A CTest test is a GoogleTest program with many cases; CTest calls it passed when some of its cases were skipped, so the
cases are read from the program's output.
"""
import collections
import re
import sys
import xml.etree.ElementTree as xml

# [ RUN      ] Suite.Case / FILE:LINE: Skipped / the reason, any number of lines / [  SKIPPED ] Suite.Case (0 ms)
SKIPPED_CASE = re.compile(r"^\[ RUN      \] (\S+)\n(?:(?!\[ ).*\n)*?\S+: Skipped\n((?:(?!\[ ).*\n)*)\[  SKIPPED \] \1", re.M)


def skipped(test):
    """The (case, reason) pairs of one CTest test."""
    out = test.findtext("system-out") or ""
    cases = [(f"{test.get('name')}/{name}", " ".join(why.split())) for name, why in SKIPPED_CASE.findall(out)]
    mark = test.find("skipped")
    if mark is not None and not cases:
        cases = [(test.get("name"), (out.strip().splitlines() or [mark.get("message")])[-1])]
    return [(name, why or "no reason given") for name, why in cases]


def main(junit, left_out):
    tests = xml.parse(junit).getroot().findall("testcase")
    groups, ran = collections.defaultdict(list), 0
    for test in tests:
        label = test.find("properties/property[@name='cmake_labels']")
        label = "no label" if label is None else label.get("value").replace(";", ", ")
        out = test.findtext("system-out") or ""
        ran += len(re.findall(r"^\[       OK \]", out, re.M)) or test.find("skipped") is None
        for name, why in skipped(test):
            groups[label, why].append(name)
    print(f"\n{ran} test cases passed in {len(tests)} CTest tests, {sum(map(len, groups.values()))} were skipped", end="")
    print(":" if groups or left_out else ".")
    for (label, why), names in sorted(groups.items()):
        print(f"  {label}: {names[0] if len(names) == 1 else f'{len(names)} cases'}: {why}")
    for label in left_out:
        print(f"  {label}: left out by the test preset; ctest --test-dir BUILD -L {label} runs them")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
