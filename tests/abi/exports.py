#!/usr/bin/env python3
"""Kinora's own libraries export what the program, the jobs and the installed headers need, and nothing that they merely
contain: a plugin could otherwise be bound to a host's copy of the SDK's or the standard library's code. usage:
exports.py KINORA ROOT

The exports, as core/exports.map and CMAKE_VISIBILITY_INLINES_HIDDEN leave them:
 - in C: libkinora kinora_core_host, libkinora_embed the functions of embed.h and data.h and nothing else, another
 library its NAME_open
 - in C++: functions, variables and types of namespace kinora::core that a header declares. Inline functions, their
 static variables and instances
   of templates are weak symbols, and are not exported: each user has a copy
Plugins of the tiers stable and pinned need none of them."""
import pathlib, re, subprocess, sys, tempfile, tomllib

KINORA, ROOT = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
LIBRARIES = KINORA.parents[1] / "lib"
EMBED = "libkinora_embed.so"
HEADERS = [h for top in ("core", "host", "plugins/jobs") for h in (ROOT / top).rglob("*.hpp")]
# also types, static variables of inline functions, thunks
CORE = re.compile(r"_Z(T[ISVT]|GVZ|Z|Thn\d+_)?NK?6kinora4core")
OURS = re.compile(rf"{CORE.pattern}|kinora_\w+$")


def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, **more).stdout


def demangled(names):
    """{mangled: the name without its arguments}."""
    return dict(zip(names, run("c++filt", "-p", input="\n".join(names)).splitlines()))


def symbols(file, *which):
    """{name: nm's letter} of the dynamic symbols."""
    return {words[-1].split("@")[0]: words[-2] for words in map(str.split, run("nm", "-D", *which, file).splitlines())}


def strange(exported, in_c, words):
    """{name: what is wrong} of a library's exports. words: those of all headers."""
    out = {}
    for name, plain in demangled(list(exported)).items():
        if not CORE.match(name):
            if name not in in_c:
                out[plain] = "not of namespace kinora::core, nor an entry point"
        elif exported[name] in "Wwu" or re.match("_Z(GVZ|Z)", name):
            out[plain] = "an inline function, its static variable or a template: each user has its own copy"
        elif not set(re.findall(r"\w+", plain.split("kinora::core::", 1)[1])[:1]) <= words:
            out[plain] = "no header declares it"
    return out


def entry_points(library):
    """The functions in C of a library."""
    if library.name == "libkinora.so":
        return {"kinora_core_host"}
    if library.name == EMBED:
        headers = "".join((ROOT / "sdk/include/kinora" / name).read_text() for name in ("embed.h", "data.h"))
        return set(re.findall(r"\b(kinora_(?:embed|data)_\w+)\(", headers)) - {"kinora_embed_draft"}
    return {library.name[3:-3] + "_open"}


def check_variables():
    """An inline variable of a header is one object for all libraries that include it, but each of them destroys it: one
    of a class with a destructor is destroyed twice. Its guard, which is in the table of all symbols, shows it. Such
    constants belong into a function."""
    guards = {library.name: {line.split()[-1] for line in run("nm", library).splitlines() if "_ZGVN6kinora" in line}
              for library in LIBRARIES.glob("libkinora*.so")}
    twice = sorted(f"{a} and {b}: {name[4:]}" for a in guards for b in guards if a < b
                   for name in guards[a] & guards[b])
    assert not twice, "both libraries destroy one object:\n" + "\n".join(twice)


def check_libraries(words):
    wrong, found = {}, {}
    for library in sorted(LIBRARIES.glob("libkinora*.so")):
        found[library] = symbols(library, "--defined-only")
        wrong |= {f"{library.name}: {name}": why
                  for name, why in strange(found[library], entry_points(library), words).items()}
    lost = {name for of in ("libkinora.so", EMBED)
            for name in entry_points(LIBRARIES / of) - set(found[LIBRARIES / of])}
    return found, wrong | {name: "embed.h or data.h declares it, and no library exports it" for name in lost}


def tier_of(manifest):
    return tomllib.loads(manifest.read_text())["plugin"]["tier"]


def check_users(exports):
    """What is shipped finds what it needs; plugins of the tiers stable and pinned need nothing of it."""
    wrong, used = {}, set()
    plugins = {next(m.parent.glob("*.so")): tier_of(m) for m in LIBRARIES.glob("kinora/plugins/*/plugin.toml")}
    assert len(plugins) > 40, f"only {len(plugins)} plugins are built"
    for file in [KINORA, *exports, *plugins]:
        needs = {name for name in symbols(file, "--undefined-only") if OURS.match(name)}
        used |= needs
        wrong |= {f"{file.name}: {name}": "needed, and no library exports it"
                  for name in needs - exports.keys() - set().union(*exports.values())}
        if plugins.get(file, "host") != "host" and needs:
            why = f"a plugin of the tier {plugins[file]} must do without Kinora's libraries"
            wrong[f"{file.name}: {sorted(needs)[0]}"] = why
    return used, wrong


PROBE = """
#include <vector>
namespace kinora {
struct Error { virtual ~Error(); };
Error::~Error() {}
int check(int) { return 1; }
namespace core {
struct Spec { std::vector<long> x; virtual ~Spec() {} };
inline int twice(int x) { return 2 * x; }
inline int& once() { static int kept = twice(3); return kept; }
template <class T> T thrice(T x) { return x * 3; }
struct Undeclared { int f(); };
int Undeclared::f() { return 1; }
std::vector<Spec> registry(int x) {
  std::vector<Spec> all;
  all.emplace_back();
  all.push_back(all[0]);
  return check(x) + once() + twice(x) + thrice(x) > 3 ? all : std::vector<Spec>();
}
}
}
extern "C" int kinora_core_host() { return 1; }
extern "C" int kinora_secret() { return 1; }
extern "C" int sqlite3_open() { return 1; }
"""


def check_the_rules():
    """They find what a library without core/exports.map exports. With it and hidden inline functions, what is left for
    the rules are names in C, templates that are not inline, and functions that no header declares."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "probe.cpp"
        source.write_text(PROBE)
        library = source.with_suffix(".so")

        def found(*flags):
            run("g++", "-std=c++20", "-O0", "-fPIC", "-shared", "-fno-gnu-unique", *flags, source, "-o", library)
            return strange(symbols(library, "--defined-only"), {"kinora_core_host"},
                           {"registry", "Spec", "twice", "thrice", "once"})

        bare = found()
        mapped = found("-fvisibility-inlines-hidden", f"-Wl,--version-script={ROOT / 'core/exports.map'}")
    for name in ("kinora::check", "vtable for kinora::Error", "sqlite3_open", "kinora_secret", "kinora::core::twice",
                 "kinora::core::once()::kept", "kinora::core::thrice<int>", "kinora::core::Undeclared::f"):
        assert name in bare, name
    assert any("std::vector" in name for name in bare), bare
    assert "kinora::core::registry" not in bare and "vtable for kinora::core::Spec" not in bare, bare
    assert set(mapped) == {"kinora_secret", "kinora::core::thrice<int>", "kinora::core::Undeclared::f"}, mapped


check_the_rules()
check_variables()
exports, wrong = check_libraries(set(re.findall(r"\w+", "\n".join(h.read_text() for h in HEADERS))))
used, lacking = check_users(exports)
for library, names in exports.items():
    print(
        f"{library.name}: {len(names)} symbols, {len(used & set(names))} of them used by the program, plugins and "
        f"other libraries of Kinora")
    assert names, library
print(*(f"{name}: {why}" for name, why in sorted((wrong | lacking).items())), sep="\n")
sys.exit(bool(wrong | lacking))
