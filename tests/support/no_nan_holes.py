"""No test may take the largest of several differences in a way that ignores NaN: C++ uses worse() of
tests/support/worst.hpp instead of std::max, Python uses numpy.max instead of max.

usage: no_nan_holes.py SOURCE
"""
import pathlib
import re
import sys

CPP = re.compile(
    r"(?<![\w.])([\w.]+)\s*=\s*std::f?max(?!<u?int(?:\d+_t)?>|<size_t>)(?:<\w+>)?\("
    r"(?=[^;=]*(?<![\w.])\1(?![\w.(]))[^;]*;")
PYTHON = re.compile(r"(?<![.\w])max\((?=.*\b(?:abs|gap|off|apart)\b).*|\b(?:any\(|if )[^:]*?\babs\([^:]*?\) > .*")


def holes(name, text):
    found = (CPP if name.endswith("pp") else PYTHON).finditer(text)
    return [f"{name}:{text.count(chr(10), 0, m.start()) + 1}: {m.group().splitlines()[0]}" for m in found]


for name, text, many in (("a.cpp", "worst = std::max(worst, off);", 1),
                         ("a.cpp", "worst = std::max(off(a, b),\n    worst);", 1),
                         ("a.cpp", "x.worst = std::fmax(x.worst, off);", 1),
                         ("a.cpp", "worst = std::max({worst, a, b});", 1),
                         ("a.cpp", "worst = std::max<double>(worst, off);", 1),
                         ("a.cpp", "most = std::max<int64_t>(most, live);", 0),
                         ("a.cpp", "most = std::max(own, 1e-12);", 0), ("a.hpp", "worst = test::worse(worst, off);", 0),
                         ("a.py", "worst = max(abs(a - b) for a, b in pairs)", 1),
                         ("a.py", "numpy.max([abs(a - b)])", 0),
                         ("a.py", "numpy.abs(a - b).max()", 0),
                         ("a.py", "assert not any(abs(a / b - 1) > bound for a in x)", 1)):
    assert len(holes(name, text)) == many, (name, text)

source = pathlib.Path(sys.argv[1])
is_test = re.compile(r"tests/.*\.[ch]pp|.*_(test|testing|trial)\.[ch]pp|tests/.*\.py").fullmatch
files = [p for folder in ("apps", "core", "host", "kernels", "plugins", "sdk", "tests")
         for p in sorted((source / folder).rglob("*.*"))
         if is_test(str(p.relative_to(source))) and p.name != "no_nan_holes.py" and not p.name.startswith("make_")]
found = [hole for p in files for hole in holes(str(p.relative_to(source)), p.read_text())]
print("\n".join(found))
assert len(files) > 300 and not found, f"{len(found)} comparisons of {len(files)} files let pass what is not a number"
