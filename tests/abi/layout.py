#!/usr/bin/env python3
"""What ABI 1.0 froze is still there: each member of tests/abi/v1 has the same offset, C type and name in today's
headers, which grow behind KINORA_ABI_TARGET_MINOR alone; macros, inline functions and comments, which are the contract,
change only with a line in v1/CHANGES; a draft changes only with its number; what the host demands stays too
(promises.py). Each way to break this that MUTATIONS names is found. usage: layout.py ROOT SCRATCH
layout.py --recopy   (before 1.0 is released) makes tests/abi/v1 a copy of today's headers
layout.py --drafts   writes drafts.txt: the digests of drafts with a new number"""
import hashlib, pathlib, re, shutil, sys

import promises
from headers import FROZEN, PINNED, STRUCT, includes, may_grow, run, texts, without_comments

V1 = pathlib.Path(__file__).resolve().parent / "v1"
ROOT = pathlib.Path(__file__).resolve().parents[2]


# The host writes these: a plugin that uses a member of one must have asked for the minor that brought it.
HOST_GIVEN = "host options_api samples_api io_api tensors_api emit run denoiser".split()
INLINE = re.compile(r"^static inline [^;{]*?(\w+)\([^;{]*\) \{\n.*?^\}\n", re.S | re.M)


def digest(text):
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:12]


def macros(include):
    """{name: value} of the macros, as the preprocessor reads them; those with parameters by "NAME(A, B)"."""
    lines = run("gcc", "-std=c11", "-E", "-dM", f"-I{include}", "-x", "c", "-",
                input=includes(FROZEN)).stdout.splitlines()
    found = dict(re.fullmatch(r"#define (\w+(?:\([^)]*\))?) ?(.*)", line).groups()
                 for line in lines if line.startswith("#define KINORA_"))
    return {name: " ".join(value.split()) for name, value in found.items()}


def inlined(include):
    """{function: text} of the functions that the headers define."""
    return {f[1]: f[0] for text in texts(include, FROZEN).values() for f in INLINE.finditer(text)}


def comments(include):
    """{header: its comments}."""
    return {name: "".join(re.findall(r"/\*.*?\*/", (include / f"kinora/abi/{name}.h").read_text(), re.S)).replace(
        "\n *", " ") for name in FROZEN}


def drafts(include, kinds):
    """{id: digest} of the drafts: their declarations, and what the host demands of their kind's table."""
    found = {}
    all = texts(include)
    all["context"] += all["link"]
    for name, text in all.items():
        id = re.search(r'KINORA_INTERFACE_(\w+) "(kinora\.[^"]*-draft\.\d+)"', text)
        if id and name not in FROZEN:
            entry = re.search(rf"\{{\"[\w-]+\", KINORA_INTERFACE_{id[1]},.*?\}}", kinds, re.S)
            found[id[2]] = digest(text.replace(id[2], "") + (entry[0] if entry else ""))
    return found


def listed_drafts():
    lines = (V1.parent / "drafts.txt").read_text().splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def changed_drafts(include, kinds):
    """Lines that say which drafts changed under their number."""
    ours, known, said = drafts(include, kinds), listed_drafts(), []
    for id, now in ours.items():
        if id not in known:
            said.append(f"{id} is new: run tests/abi/layout.py --drafts")
        elif known[id] != now:
            said.append(f"{id} has changed under the same number: raise it, then run tests/abi/layout.py --drafts")
    for id in known.keys() - ours.keys():
        stable = id.split("-draft.")[0]
        if any(f'"{stable}"' in text for text in texts(include).values()) and id not in kinds:
            said.append(f"{stable} no longer accepts {id}: add it to the kind's `was` (core/plugin/kinds.cpp)")
    return said


def comparison(grown=""):
    """C that compiles if today's headers keep what v1 has. The compiler compares the types: v1's declarations are
    repeated under another name. grown: how the size of a struct that the host writes may differ."""
    out = ["#include <stddef.h>\n" + includes(FROZEN)]
    for text in texts(V1, FROZEN).values():
        bodies = dict(STRUCT.findall(text))
        for name, body in bodies.items():
            out.append(f"struct v1_{name} {{{body}\n}};")
        for type, member, place in PINNED.findall(text):
            if not member:
                size = grown if type[7:] in HOST_GIVEN else ">=" if may_grow(bodies[type]) else "=="
                out.append(f'_Static_assert(sizeof({type}) {size} {place}, "{type} has another size than in 1.0");')
                continue
            out.append(f'_Static_assert(offsetof({type}, {member}) == {place}, "{type}.{member} has moved since 1.0");')
            out.append(
                f"_Static_assert(__builtin_types_compatible_p(__typeof__((({type}*)0)->{member}), __typeof__(((struct "
                f"v1_{type}*)0)->{member})), "
                       f'"{type}.{member} has another type than in 1.0");')
        for declaration in re.findall(r"^typedef ([^{};]+);", STRUCT.sub("", text), re.M):
            name = (re.search(r"\(\*(\w+)\)\s*\(", declaration) or re.search(r"(\w+)\s*$", declaration))[1]
            renamed = re.sub(rf"\b{name}\b(?=\)\s*\(|\s*$)", f"v1_{name}", declaration)
            out.append(
                f'typedef {renamed};\n_Static_assert(__builtin_types_compatible_p({name}*, v1_{name}*), "{name} has '
                f'another type than in 1.0");')
    return "\n".join(out) + "\n"


def broken(include, kinds=None):
    """Lines that say what today's headers, and the host's table of kinds, no longer keep."""
    kinds = kinds or (ROOT / "core/plugin/kinds.cpp").read_text()
    changes, said = (V1 / "CHANGES").read_text(), []
    grew = False
    for minor in (0, 1000000):  # a member that came with a minor is declared for the plugins that ask for it only
        done = run("gcc", "-std=c11", "-fsyntax-only", f"-DKINORA_ABI_TARGET_MINOR={minor}", f"-I{include}", "-x", "c",
                   "-", input=comparison(">=" if minor else "=="))
        said += [line for line in done.stderr.splitlines() if "error:" in line]
        grew = minor and run("gcc", "-std=c11", "-fsyntax-only", f"-DKINORA_ABI_TARGET_MINOR={minor}", f"-I{include}",
                             "-x", "c", "-", input=comparison("==")).returncode != done.returncode
    ours, theirs = macros(include), macros(V1)
    minor, last = ours.pop("KINORA_ABI_MINOR"), theirs.pop("KINORA_ABI_MINOR")
    listed = re.findall(r"^1\.(\d+)", changes, re.M)
    if minor != f"{max(map(int, listed), default=0)}u":
        said.append(f"KINORA_ABI_MINOR is {minor}, the last minor of v1/CHANGES is 1.{max(listed, default=0)}")
    if grew and minor == last:
        said.append("a struct that the host writes has grown: raise KINORA_ABI_MINOR")
    for name, value in (theirs | inlined(V1)).items():
        found = (ours | inlined(include)).get(name)
        if found != value and f"{name} {digest(str(found))}" not in changes:
            said.append(f"{name} is {found!r}, in 1.0 {value!r}")
    for name, text in comments(include).items():
        if digest(text) != digest(comments(V1)[name]) and f"{name}.h {digest(text)}" not in changes:
            said.append(f"the comments of {name}.h, which are the contract, have changed: list it in v1/CHANGES as "
                        f"'{name}.h {digest(text)} REASON'")
    return said + changed_drafts(include, kinds)


# What a header may not do: file, text, its replacement, and what must be said.
MUTATIONS = {
    "two members change places": ("stage", r"\bnv(dec|enc)\b", lambda m: "nvenc" if m[1] == "dec" else "nvdec",
                                  "kinora_resources.nvenc has moved"),
    "an argument is narrower": ("storage", r"void\* to, uint64_t size", "void* to, uint32_t size",
                                "kinora_storage.read has another type"),
    "a const is dropped": ("sample", r"kinora_str \(\*key\)\(const kinora_sample", "kinora_str (*key)(kinora_sample",
                           "kinora_samples_api.key has another type"),
    "a member is renamed": ("run", r"\bn_threads\b", "threads", "has no member named"),
    "a slot in the middle": ("sampler", r"int32_t \(\*levels\)", lambda m: "int32_t (*more)(void* self);\n  " + m[0],
                             "kinora_sampler.levels has moved"),
    "a slot of samples for everybody": ("sample", r"\} kinora_samples_api;", lambda m: "void (*more)(void);\n" + m[0],
                                        "kinora_samples_api has another size"),
    "a slot of emit for everybody": ("stage", r"\} kinora_emit;", lambda m: "void (*more)(void);\n" + m[0],
                                     "kinora_emit has another size"),
    "a slot in the same minor": ("stage", r"\} kinora_emit;", lambda m: "#if KINORA_ABI_TARGET_MINOR >= 1\n"
                                 "void (*more)(void);\n#endif\n" + m[0], "raise KINORA_ABI_MINOR"),
    "a status has another value": ("base", r"KINORA_ERROR_IO \(-5\)", "KINORA_ERROR_IO (-50)",
                                   "KINORA_ERROR_IO is '(-50)'"),
    "a minor that nobody needs": ("base", r"KINORA_ABI_MINOR 0u", "KINORA_ABI_MINOR 7u", "KINORA_ABI_MINOR is 7u"),
    "FILL without its bound": ("base", r"  if \(size > room\) size = room;\n", "", "kinora_fill is"),
    "HAS reads one too many": ("base", r"\)\) <= \(p\)->struct_size\)", ")) <= (p)->struct_size + 1)",
                               "KINORA_HAS(p,member) is"),
    "other threads": ("sample", r"\[any-thread\] A new sample", "[owner-thread] A new sample", "comments of sample.h"),
    "another memory": ("sample", r"in memory of the CPU", "on any device", "comments of sample.h"),
    "another owner": ("sample", r"On an error release is not called", "On an error release is called",
                      "comments of sample.h"),
    "what is unknown is ignored": ("base", r"What is not known is refused, never ignored",
                                   "What is not known is ignored",
                                   "comments of base.h"),
    "two slots of losses change places": ("loss", r"\(\*(level|noisy)\)",
                                          lambda m: "(*noisy)" if m[1] == "level" else "(*level)",
                                          "kinora_loss.level has moved"),
    "two functions of a layout change places": ("layout", r"\(\*(ours|theirs)\)",
                                                lambda m: "(*theirs)" if m[1] == "ours" else "(*ours)",
                                                "kinora_layout.ours has moved"),
    "an option is read narrower": ("options", r"int64_t index, double\* out", "int64_t index, float* out",
                                   "kinora_options_api.get_float has another type"),
    "an offset is narrower": ("io", r"uint64_t offset", "uint32_t offset", "kinora_io_api.read has another type"),
    "an id is another string": ("plugin", r"const char\* id;", "kinora_str id;",
                                "kinora_component.id has another type"),
    "the entry has another name": ("plugin", r'"kinora_plugin_entry"', '"kinora_entry"', "KINORA_PLUGIN_ENTRY is"),
    "an interface has another id": ("storage", r'"kinora\.storage/1"', '"kinora.storage/2"',
                                    "KINORA_INTERFACE_STORAGE is"),
    "a level of the log has another value": ("host", r"LOG_WARN 3", "LOG_WARN 4", "KINORA_LOG_WARN is '4'"),
    "a device has another value": ("dlpack", r"DL_CUDA 2", "DL_CUDA 3", "KINORA_DL_CUDA is '3'"),
    "a dtype has another value": ("tensor", r"DTYPE_FLOAT32 6", "DTYPE_FLOAT32 9", "KINORA_DTYPE_FLOAT32 is '9'"),
    "a mixture has another value": ("noise", r"FLOW 1u", "FLOW 2u", "KINORA_MIX_RECTIFIED_FLOW is '2u'"),
    **{f"a slot of {type} for everybody": (header, rf"\}} kinora_{type};",
                                           lambda m: "void (*more)(void);\n" + m[0], f"kinora_{type} has another size")
       for type, header in (("options_api", "options"), ("io_api", "io"), ("tensors_api", "tensor"), ("run", "run"),
                            ("denoiser", "sampler"), ("host", "host"))},
    "a draft changes under its number": ("model", r"\} kinora_model;", lambda m: "void (*more)(void);\n" + m[0],
                                         "has changed under the same number"),
}
# The same of core/plugin/kinds.cpp.
OF_KINDS = {
    "a slot of a draft becomes required": (r"forward blocks layout\?", "forward blocks layout",
                                           "has changed under the same number"),
    "a draft's table must be longer": (r"KINORA_INTERFACE_MODEL, 48", "KINORA_INTERFACE_MODEL, 56",
                                       "has changed under the same number"),
}


def mutated(include, to, header, old, new):
    """A copy of the headers with one change, and without the assertions that they have themselves."""
    shutil.copytree(include, to)
    file = to / "kinora/abi" / f"{header}.h"
    text, n = re.subn(old, new, PINNED.sub("", file.read_text()))
    assert n, f"'{old}' is not in {header}.h: choose another mutation"
    file.write_text(text)
    return to


def appended(include, to, readme):
    """Today's headers with the member that sdk/README.md shows, declared for plugins that target the next minor."""
    member, pinned = re.search(
        r"```c\n(#if KINORA_ABI_TARGET_MINOR >= 1\n.*?#endif\n)\} kinora_samples_api;\n\n(#if.*?#endif\n)```", readme,
        re.S).groups()
    shutil.copytree(include, to)
    file = to / "kinora/abi/sample.h"
    text = re.sub(r"^KINORA_SIZE\(kinora_samples_api, \d+\);\n", pinned, file.read_text(), flags=re.M)
    file.write_text(text.replace("} kinora_samples_api;", member + "} kinora_samples_api;"))
    uses = (
        '#include "kinora/abi/sample.h"\nint32_t f(const kinora_samples_api* s, uint64_t* out) { return s->count(0, '
        'out); }\n')
    return [run("gcc", "-std=c11", "-fsyntax-only", f"-DKINORA_ABI_TARGET_MINOR={minor}", f"-I{to}", "-x", "c", "-",
                input=uses).returncode for minor in (0, 1)]


def sizes_compared(root):
    """Lines that compare a struct's size with its own sizeof, which is wrong on the day that it grows: KINORA_HAS asks
    for one member."""
    wrong = re.compile(
        r"struct_size\s*(?:[<>]=?|[=!]=)\s*\(?sizeof|sizeof[ \w(*]+\)?\s*(?:[<>]=?|[=!]=)\s*[\w.>-]*struct_size")
    files = [f for top in ("core", "host", "plugins", "apps", "sdk", "kernels")
             for f in (root / top).rglob("*") if re.fullmatch(r"\.([ch]pp|[ch]|in|cu)", f.suffix)]
    assert len(files) > 300 and wrong.search("s->struct_size < sizeof *s") and wrong.search(
        "sizeof(kinora_run) <= run->struct_size")
    return [f"{file}:{line.strip()}" for file in files for line in file.read_text().splitlines() if wrong.search(line)]


def main(root, scratch):
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    include = root / "sdk/include"
    for name, place in (("v1", V1), ("today's headers", include)):
        alone = run("gcc", "-std=c11", "-fsyntax-only", f"-I{place}", "-x", "c", "-", input=includes(FROZEN))
        assert alone.returncode == 0, f"{name}: {alone.stderr}"
    narrow = run("gcc", "-std=c11", "-fsyntax-only", f"-I{include}", "-x", "c", "-",
                 input="#include <stdint.h>\n#undef UINTPTR_MAX\n#define UINTPTR_MAX 0xffffffff\n" + includes(FROZEN))
    errors = [line for line in narrow.stderr.splitlines() if "error" in line]
    assert narrow.returncode and "Kinora's ABI has 64-bit pointers: build this plugin" in errors[0], errors
    v1 = texts(V1, FROZEN)
    structs, members = sum(len(STRUCT.findall(t))
                           for t in v1.values()), sum(1 for t in v1.values()
                                                      for pinned in PINNED.findall(t) if pinned[1])
    assert structs >= 22 and members >= 153, f"only {structs} structs and {members} members of v1 are understood"
    said = broken(include)
    promise = 'these headers break the promise of ABI 1.0 (sdk/README.md, "What is appended after 1.0")'
    assert not said, "\n".join([promise, *said])
    said = sizes_compared(root)
    assert not said, "use KINORA_HAS:\n" + "\n".join(said)
    assert appended(include, scratch / "appended",
                    (root / "sdk/README.md").read_text()) == [1, 0], "README's example: hidden for 1.0, there for 1.1"
    said = broken(scratch / "appended")
    assert [line.split(":")[0] for line in said] == [
        "a struct that the host writes has grown",
        "the comments of sample.h, which are the contract, have changed"], said
    for i, (name, (header, old, new, words)) in enumerate(MUTATIONS.items()):
        said = broken(mutated(include, scratch / f"mutated{i}", header, old, new))
        assert any(words in line for line in said), f"{name}: not found; said: {said}"
    kinds = (root / "core/plugin/kinds.cpp").read_text()
    for name, (old, new, words) in OF_KINDS.items():
        changed, n = re.subn(old, new, kinds)
        said = broken(include, changed)
        assert n == 1 and any(words in line for line in said), f"{name}: not found; said: {said}"
    others = promises.check(root)
    print(
        f"{structs} structs, {members} members, {len(macros(V1))} macros are as in 1.0; "
        f"{len(MUTATIONS) + len(OF_KINDS) + others} broken ones are found")


if sys.argv[1:] == ["--recopy"]:
    for name in FROZEN:
        shutil.copy(ROOT / f"sdk/include/kinora/abi/{name}.h", V1 / "kinora/abi")
elif sys.argv[1:] == ["--drafts"]:
    known = listed_drafts()
    now = drafts(ROOT / "sdk/include", (ROOT / "core/plugin/kinds.cpp").read_text())
    if wrong := [id for id in now if known.get(id, now[id]) != now[id]]:
        sys.exit(f"changed under the same number, raise it: {', '.join(wrong)}")
    text = (V1.parent / "drafts.txt").read_text()
    (V1.parent / "drafts.txt").write_text("".join(line + "\n" for line in text.splitlines() if line.startswith("#")) +
                                          "".join(f"{id} {of}\n" for id, of in sorted(now.items())))
else:
    main(*(pathlib.Path(p).resolve() for p in sys.argv[1:3]))
