#!/usr/bin/env python3
"""Kinora's own libraries export the C++ interface of core and entry points in C, as core/exports.map says, and nothing that they merely contain: a plugin
could otherwise be bound to a host's copy of the SDK's or the standard library's code. usage: exports.py LIBRARY..."""
import re, subprocess, sys

# A name that begins with kinora::core:: may also be the type that a function of the standard library returns, for a type of core: of no use to a plugin.
OURS = re.compile(r"((typeinfo|typeinfo name|vtable|VTT|guard variable|non-virtual thunk) (for|to) )?kinora::core::|kinora_\w+$")


def strange(mangled):
    """The names, demangled, that are not ours."""
    names = subprocess.run(["c++filt"], input="\n".join(mangled), check=True, capture_output=True, text=True).stdout.splitlines()
    return [name for name in names if not OURS.match(name)]


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout.splitlines()
    return [line.split()[2].split("@")[0] for line in lines]


# Names that a library without the version script exports: the SDK's, the standard library's (also of a type of core), another library's.
for name in ("_ZN6kinora5checkEi", "_ZTVN6kinora5ErrorE", "_ZNSt6vectorIiSaIiEED1Ev", "_ZN8nlohmann4jsonC1Ev", "_ZNSt6vectorIN6kinora4core4SpecESaIS2_EED1Ev", "sqlite3_open"):
    assert strange([name]), name
assert not strange(["_ZN6kinora4core4openEv", "_ZTIN6kinora4core4SpecE", "kinora_core_host"])
wrong = False
for library in sys.argv[1:]:
    names = exported(library)
    found = strange(names)
    wrong = wrong or not names or bool(found)
    print(f"{library}: {len(names)} symbols, {len(found)} that core/exports.map does not mean", *found[:20], sep="\n  ")
sys.exit(wrong)
