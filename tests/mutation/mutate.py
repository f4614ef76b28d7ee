"""Breaks the code on purpose, one line at a time, and demands that a named test turns red.

mutate.py [--part I/N] BUILD_FOLDER MUTATIONS.toml [NAME...]    a part is every N-th mutation, from the I-th on
mutate.py --names BUILD_FOLDER MUTATIONS.toml                   compiles nothing: the texts, libraries and tests that a
mutation names are there

A mutation is a table [[mutation]] of MUTATIONS.toml: name, file, old (a text that occurs once in the file), new,
library (the library, or the program itself, to rebuild), program and test (a GoogleTest program, and the test that must
fail). Only the objects that read the file are recompiled, into BUILD_FOLDER/tests/scratch/mutants, which the next call
empties; neither the sources nor what is built are touched. The first mutation of each library is made without its
change too: the test must stay green, or a library that does not load would look like a broken one. A program that
cannot be started, or skips its test, has tested nothing: that is an error, and not a mutant that lives or is seen.
"""
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tomllib


def read_commands(build):
    """The commands that ninja would run, and every source's compile command with the files that it reads."""
    compiles = json.loads(subprocess.run(["ninja", "-C", build, "-t", "compdb"], check=True, capture_output=True,
                                         text=True).stdout)
    # not the links to a library
    return {str(pathlib.Path(build, c["output"]).resolve()): c["command"] for c in compiles if " -o " in c["command"]}


def link_of(build, name, commands):
    """Output, command and objects of the link of a shared library, or of a test program."""
    for output, command in commands.items():
        if re.fullmatch(rf"lib{re.escape(name)}\.so(\.[\d.]+)?|{re.escape(name)}",
                        pathlib.Path(output).name) and " -o " in command and " -c " not in command:
            objects = [w for w in shlex.split(command) if w.endswith(".o")]
            return output, command, objects
    sys.exit(f"mutate: nothing that is called {name} is linked in {build}")


def source_of(root, mutation):
    """The text of the file, in which the old text occurs once."""
    text = (root / mutation["file"]).read_text()
    if (times := text.count(mutation["old"])) != 1:
        sys.exit(
            f"mutate: {mutation['name']}: its old text occurs {times} times in {mutation['file']}; fix the mutation")
    return text


def reads(build, obj, file):
    listed = subprocess.run(["ninja", "-C", build, "-t", "deps", obj], capture_output=True, text=True).stdout
    return any(os.path.realpath(os.path.join(build, line.strip())) == file for line in listed.splitlines())


def built_program(build, name):
    program = pathlib.Path(build, "tests", name)
    if not program.exists():
        sys.exit(f"mutate: {program} is not built; build it first")
    return program


def verdict(test, code, stdout):
    """What became of the one test: "red", "green", or why nothing was tested. code: the program's, negative for a
    signal."""
    if f"[ RUN      ] {test}" not in stdout:
        return f"the test did not begin (exit code {code})"
    if f"[       OK ] {test}" in stdout:
        return "green"
    # A program that dies within its test has failed it.
    is_red = f"[  FAILED  ] {test}" in stdout or code < 0
    return "red" if is_red else f"the test began and did not end (exit code {code})"


assert verdict("A.b", 0, "[ RUN      ] A.b\n[       OK ] A.b (1 ms)\n") == "green"
assert verdict("A.b", 1, "[ RUN      ] A.b\n[  FAILED  ] A.b (1 ms)\n") == "red"
assert verdict("A.b", -11, "[ RUN      ] A.b\n") == "red"
assert "did not begin" in verdict("A.b", 127, "")  # a library of the program is missing
assert "did not begin" in verdict("A.b", -6, "")
assert "did not end" in verdict("A.b", 0, "[ RUN      ] A.b\n[  SKIPPED ] A.b (0 ms)\n")


class Mutant:
    def __init__(self, root, build, commands, scratch, mutation):
        self.root, self.build, self.commands, self.scratch, self.m = root, build, commands, scratch, mutation

    def write(self):
        text = source_of(self.root, self.m)
        mutated = self.scratch / "source" / self.m["file"]
        mutated.parent.mkdir(parents=True)
        mutated.write_text(text.replace(self.m["old"], self.m["new"]))
        return mutated

    def shell(self, command):
        done = subprocess.run(command, shell=True, cwd=self.build, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"mutate: {self.m['name']} does not compile:\n{done.stdout}{done.stderr}")

    def compile(self):
        """The library with the mutated file in it."""
        mutated, original = self.write(), os.path.realpath(self.root / self.m["file"])
        output, link, objects = link_of(self.build, self.m["library"], self.commands)
        before = [self.scratch / "source", self.scratch / "source/sdk/include"]
        readers = [o for o in objects if reads(self.build, o, original)]
        if not readers:
            sys.exit(
                f"mutate: {self.m['name']}: no object of {self.m['library']} is known to read {self.m['file']}; build "
                f"it again")
        for number, obj in enumerate(readers):
            command = self.commands[str(pathlib.Path(self.build, obj).resolve())]
            made = self.scratch / f"{number}.o"
            # A separately compiled source is named here; a source inside a unit is found by its name below the first
            # folder.
            if original.endswith(".cpp"):
                command = command.replace(original, str(mutated))
            command = command.replace(" -O2 ", " -O1 ")  # a mutant runs only once
            command = re.sub(r" -MD -MT \S+ -MF \S+", "", command)  # these options would write into the build
            # A precompiled header may contain the unchanged file.
            header = re.search(r"-include (\S+cmake_pch\.hxx)", command)
            if header and reads(self.build, os.path.relpath(header[1] + ".gch", self.build), original):
                command = command.replace(header[0], "")
            first = " ".join(f"-I{p}" for p in before)
            command = re.sub(r" -I", f" {first} -I", command, count=1).replace(f"-o {obj}", f"-o {made}")
            self.shell(re.sub(r"\S*ccache ", "", command) + " -w")
            link = link.replace(obj + " ", f"{made} ")
        to = self.scratch / "lib" / pathlib.Path(output).name
        to.parent.mkdir()
        relative = os.path.relpath(output, self.build)
        link = link.split("&&")[1] if link.startswith(": &&") else link
        self.shell(link.replace(f"-o {relative}", f"-o {to}"))
        soname = re.search(r"-soname,(\S+)", link)
        if soname and soname[1] != to.name:
            (to.parent / soname[1]).symlink_to(to.name)
        return to, pathlib.Path(output)

    def environment(self, made, original):
        env = dict(os.environ)
        plugins = pathlib.Path(self.build, "lib/kinora/plugins")
        if self.m["library"] == self.m["program"]:
            pass  # the program is the mutant
        elif plugins in original.parents:
            beside = self.scratch / "plugins"
            beside.mkdir()
            for folder in plugins.iterdir():
                if folder.name != original.parent.name:
                    (beside / folder.name).symlink_to(folder)
            shutil.copytree(original.parent, beside / original.parent.name, symlinks=True)
            shutil.copy(made, beside / original.parent.name / original.name)
            plugins = beside
            env["LD_LIBRARY_PATH"] = str(pathlib.Path(self.build, "lib"))  # of a job: what it shares with others
        else:
            env["LD_LIBRARY_PATH"] = f"{made.parent}:{self.build}/lib"  # the mutant, then what it needs beside it
        env["KINORA_PLUGIN_PATH"] = str(plugins)
        return env

    def verdict(self):
        """The test's, and what it printed. Ends with a message if nothing was tested."""
        made, original = self.compile()
        env = self.environment(made, original)
        is_program = self.m["library"] == self.m["program"]
        program = made if is_program else built_program(self.build, self.m["program"])
        done = subprocess.run([program, f"--gtest_filter={self.m['test']}", "--gtest_color=no"], env=env,
                              capture_output=True, text=True, timeout=300)
        found = verdict(self.m["test"], done.returncode, done.stdout)
        if found not in ("red", "green"):
            sys.exit(f"mutate: {self.m['name']}: {program}: {found}; build what it needs, or fix the mutation\n"
                     f"{(done.stdout + done.stderr)[-2000:]}")
        return found, done.stdout + done.stderr


def check_names(root, build, commands, mutations):
    """Ends with a message at the first mutation whose text, library or test is not there."""
    @functools.cache
    def tests_of(program):
        suite, tests = "", set()
        for line in subprocess.run([built_program(build, program), "--gtest_list_tests"], check=True,
                                   capture_output=True, text=True).stdout.splitlines():
            name = line.split("#")[0].rstrip()
            suite = suite if line.startswith("  ") else name
            tests.add(suite + name.strip())
        return tests

    for m in mutations:
        source_of(root, m)
        link_of(build, m["library"], commands)
        if m["test"] not in tests_of(m["program"]):
            sys.exit(f"mutate: {m['name']}: {m['program']} has no test {m['test']}; fix the mutation")


def main():
    names_only = sys.argv[1] == "--names"
    arguments, index, parts = sys.argv[1 + names_only:], 1, 1
    if arguments[0] == "--part":
        index, parts = map(int, arguments[1].split("/"))
        arguments = arguments[2:]
    build, table, names = os.path.realpath(arguments[0]), pathlib.Path(arguments[1]), arguments[2:]
    root = pathlib.Path(__file__).resolve().parents[2]
    commands, lived, count = read_commands(build), [], 0

    scratch = pathlib.Path(build, "tests/scratch/mutants", f"{index}_of_{parts}")

    def tried(mutation):
        shutil.rmtree(scratch, ignore_errors=True)  # left by a killed run, too
        scratch.mkdir(parents=True)
        return Mutant(root, build, commands, scratch, mutation).verdict()

    mutations = tomllib.loads(table.read_text())["mutation"]
    if names_only:
        return check_names(root, build, commands, mutations)
    first = {m["library"]: m["name"] for m in reversed(mutations)}
    for mutation in mutations[index - 1::parts]:
        if names and mutation["name"] not in names:
            continue
        count += 1
        if names or first[mutation["library"]] == mutation["name"]:
            found, output = tried({**mutation, "new": mutation["old"]})
            if found != "green":
                sys.exit(
                    f"mutate: {mutation['test']} fails with {mutation['library']} as it is, built "
                    f"anew:\n{output[-2000:]}")
        found, output = tried(mutation)
        print(f"{'red  ' if found == 'red' else 'LIVES'} {mutation['name']}: {mutation['test']}", flush=True)
        if found != "red":
            lived.append(mutation["name"])
            print(output[-2000:])
    shutil.rmtree(scratch, ignore_errors=True)
    if lived:
        sys.exit(f"mutate: {len(lived)} of {count} mutants live: {', '.join(lived)}")
    print(f"{count} mutants, each seen by its test; the first test of each library passes without a mutant")


if __name__ == "__main__":
    main()
