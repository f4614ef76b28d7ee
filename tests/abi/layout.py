#!/usr/bin/env python3
"""What ABI 1.0 froze is still there: each member of tests/abi/v1 has the same offset, C type and name in today's headers, which may only be
longer; macros have the same values. Headers that break this in one of four ways are found. usage: layout.py ROOT SCRATCH
layout.py --recopy   (before 1.0 is released) makes tests/abi/v1 a copy of today's headers"""
import pathlib, re, shutil, sys

from headers import FROZEN, PINNED, STRUCT, grow, includes, may_grow, run, texts, without_comments

V1 = pathlib.Path(__file__).resolve().parent / "v1"
ROOT = pathlib.Path(__file__).resolve().parents[2]


def macros(include):
    """{name: value} of the macros without parameters, as the preprocessor reads them."""
    lines = run("gcc", "-std=c11", "-E", "-dM", f"-I{include}", "-x", "c", "-", input=includes(FROZEN)).stdout.splitlines()
    found = dict(re.fullmatch(r"#define (\w+) ?(.*)", line).groups() for line in lines if re.match(r"#define KINORA_\w+( |$)", line))
    found.pop("KINORA_ABI_MINOR")  # it grows
    return found


def comparison():
    """C that compiles if today's headers keep what v1 has. The compiler compares the types: v1's declarations are repeated under another name."""
    out = ["#include <stddef.h>\n" + includes(FROZEN)]
    for text in texts(V1, FROZEN).values():
        bodies = dict(STRUCT.findall(text))
        for name, body in bodies.items():
            out.append(f"struct v1_{name} {{{body}\n}};")
        for type, member, place in PINNED.findall(text):
            if not member:
                size = ">=" if may_grow(bodies[type]) else "=="
                out.append(f'_Static_assert(sizeof({type}) {size} {place}, "{type} has another size than in 1.0");')
                continue
            out.append(f'_Static_assert(offsetof({type}, {member}) == {place}, "{type}.{member} has moved since 1.0");')
            out.append(f"_Static_assert(__builtin_types_compatible_p(__typeof__((({type}*)0)->{member}), __typeof__(((struct v1_{type}*)0)->{member})), "
                       f'"{type}.{member} has another type than in 1.0");')
        for declaration in re.findall(r"^typedef ([^{};]+);", STRUCT.sub("", text), re.M):
            name = (re.search(r"\(\*(\w+)\)\s*\(", declaration) or re.search(r"(\w+)\s*$", declaration))[1]
            renamed = re.sub(rf"\b{name}\b(?=\)\s*\(|\s*$)", f"v1_{name}", declaration)
            out.append(f'typedef {renamed};\n_Static_assert(__builtin_types_compatible_p({name}*, v1_{name}*), "{name} has another type than in 1.0");')
    return "\n".join(out) + "\n"


def broken(include):
    """Lines that say what today's headers no longer keep."""
    said = []
    for minor in (0, 1000000):  # a member that came with a minor may be declared for the plugins that ask for it only
        done = run("gcc", "-std=c11", "-fsyntax-only", f"-DKINORA_ABI_TARGET_MINOR={minor}", f"-I{include}", "-x", "c", "-", input=comparison())
        said += [line for line in done.stderr.splitlines() if "error:" in line]
    ours = macros(include)
    said += [f"{name} is {ours.get(name)!r}, in 1.0 {value!r}" for name, value in macros(V1).items() if ours.get(name) != value]
    return said


# What a header may not do: file, text, its replacement, and what must be said.
MUTATIONS = {
    "two members change places": ("stage", r"\bnv(dec|enc)\b", lambda m: "nvenc" if m[1] == "dec" else "nvdec", "kinora_resources.nvenc has moved"),
    "an argument is narrower": ("storage", r"void\* to, uint64_t size", lambda m: "void* to, uint32_t size", "kinora_storage.read has another type"),
    "a slot in the middle": ("sampler", r"int32_t \(\*levels\)", lambda m: "int32_t (*more)(void* self);\n  " + m[0], "kinora_sampler.levels has moved"),
    "a status has another value": ("base", r"KINORA_ERROR_IO \(-5\)", lambda m: "KINORA_ERROR_IO (-50)", "KINORA_ERROR_IO is '(-50)'"),
}


def mutated(include, to, header, old, new):
    """A copy of the headers with one change, and without the assertions that they have themselves."""
    shutil.copytree(include, to)
    file = to / "kinora/abi" / f"{header}.h"
    text, n = re.subn(old, new, PINNED.sub("", without_comments(file.read_text())))
    assert n, f"'{old}' is not in {header}.h: choose another mutation"
    file.write_text(text)
    return to


def appended(include, to, readme):
    """Today's headers with the member that sdk/README.md shows, declared for plugins that target the next minor."""
    member, pinned = re.search(r"```c\n(#if KINORA_ABI_TARGET_MINOR >= 1\n.*?#endif\n)\} kinora_samples_api;\n\n(#if.*?#endif\n)```", readme, re.S).groups()
    shutil.copytree(include, to)
    file = to / "kinora/abi/sample.h"
    text = re.sub(r"^KINORA_SIZE\(kinora_samples_api, \d+\);\n", pinned, file.read_text(), flags=re.M)
    file.write_text(text.replace("} kinora_samples_api;", member + "} kinora_samples_api;"))
    uses = '#include "kinora/abi/sample.h"\nint32_t f(const kinora_samples_api* s, uint64_t* out) { return s->count(0, out); }\n'
    return [run("gcc", "-std=c11", "-fsyntax-only", f"-DKINORA_ABI_TARGET_MINOR={minor}", f"-I{to}", "-x", "c", "-", input=uses).returncode for minor in (0, 1)]


def sizes_compared(root):
    """Lines that compare a struct's size with its own sizeof, which is wrong on the day that it grows: KINORA_HAS asks for one member."""
    wrong = re.compile(r"struct_size\s*(?:[<>]=?|[=!]=)\s*\(?sizeof|sizeof[ \w(*]+\)?\s*(?:[<>]=?|[=!]=)\s*[\w.>-]*struct_size")
    files = [f for top in ("core", "plugins", "apps", "sdk", "kernels") for f in (root / top).rglob("*") if re.fullmatch(r"\.([ch]pp|[ch]|in|cu)", f.suffix)]
    assert len(files) > 300 and wrong.search("s->struct_size < sizeof *s") and wrong.search("sizeof(kinora_run) <= run->struct_size")
    return [f"{file}:{line.strip()}" for file in files for line in file.read_text().splitlines() if wrong.search(line)]


def main(root, scratch):
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    include = root / "sdk/include"
    for name, place in (("v1", V1), ("today's headers", include)):
        alone = run("gcc", "-std=c11", "-fsyntax-only", f"-I{place}", "-x", "c", "-", input=includes(FROZEN))
        assert alone.returncode == 0, f"{name}: {alone.stderr}"
    v1 = texts(V1, FROZEN)
    structs, members = sum(len(STRUCT.findall(t)) for t in v1.values()), sum(1 for t in v1.values() for pinned in PINNED.findall(t) if pinned[1])
    assert structs >= 22 and members >= 153, f"only {structs} structs and {members} members of v1 are understood"
    said = broken(include)
    assert not said, "these headers break the promise of ABI 1.0 (sdk/README.md, \"What is appended after 1.0\"):\n" + "\n".join(said)
    said = sizes_compared(root)
    assert not said, "use KINORA_HAS:\n" + "\n".join(said)
    grow(include, scratch / "grown")
    assert not broken(scratch / "grown"), broken(scratch / "grown")
    assert appended(include, scratch / "appended", (root / "sdk/README.md").read_text()) == [1, 0], "README's example: hidden for 1.0, there for 1.1"
    assert not broken(scratch / "appended"), broken(scratch / "appended")
    for i, (name, (header, old, new, words)) in enumerate(MUTATIONS.items()):
        said = broken(mutated(include, scratch / f"mutated{i}", header, old, new))
        assert any(words in line for line in said), f"{name}: not found; said: {said}"
    print(f"{structs} structs, {members} members, {len(macros(V1))} macros are as in 1.0; {len(MUTATIONS)} broken headers are found")


if sys.argv[1:] == ["--recopy"]:
    for name in FROZEN:
        shutil.copy(ROOT / f"sdk/include/kinora/abi/{name}.h", V1 / "kinora/abi")
else:
    main(*(pathlib.Path(p).resolve() for p in sys.argv[1:3]))
