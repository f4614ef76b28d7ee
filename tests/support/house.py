#!/usr/bin/env python3
"""The sizes of the house: lines of folders, columns, lines of functions. A gauge never rises; lower its bound when the
code allows it, until it is its goal. usage: house.py ROOT"""
import ast, pathlib, re, subprocess, sys

ROOT = pathlib.Path(sys.argv[1])
# Each gauge: (bound, goal). The bounds are of the day when they were written.
LINES = {"core without torch and cuda": (13000, 13000), "host": (5000, 5000), "core/torch": (10370, 11000),
         "a folder of plugins/jobs": (6000, 6000)}
# lines of more than 120
COLUMNS = {"C and C++": (0, 0), "Python": (0, 0), "JavaScript": (0, 0), "CMake and shell": (0, 0),
           "CSS and HTML": (0, 0), "templates": (0, 0), "TOML and YAML": (37, 0)}
FUNCTIONS = {"C and C++": (60, 60), "Python": (60, 60), "JavaScript": (60, 60),
             "tests in C and C++": (109, 60)}  # lines of the longest function
LONGEST_HELPER = (400, 400)  # lines of a *_testing or *_fixture file, which counts for no folder
FOLDERS = {".ci", "apps", "configs", "core", "docs", "host", "kernels", "packaging", "plugins", "sdk", "tests"}
KINDS = {"C and C++": (".c", ".cpp", ".hpp", ".h", ".cu", ".cuh", ".inc", ".ipp"), "Python": (".py",),
         "JavaScript": (".js",), "CMake and shell": (".cmake", ".sh", ".txt"), "CSS and HTML": (".css", ".html"),
         "templates": (".in",), "TOML and YAML": (".toml", ".yaml", ".yml")}
LONGEST_LINE = 120
LEFT_OUT = re.compile("|".join((
    r"^tests/(abi/v1|data|fixtures)/",  # a frozen copy, and data
    r"/requirements.*\.txt$",  # data
    r"\.toml\.in$",  # TOML keeps an inline table on one line
    r"(^|/)plugin\.toml$",  # generated: a help text is one line
    r"^\.ci/skips\.txt$",  # data: a line is the whole reason of a skip
    # Fixtures hold the hashes of these (tests/oracle/provenance.py): a change costs that they are all made again.
    r"^tests/oracle/(make_\w+|oracle_numbers)\.py$")))
LITERALS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
NO_FUNCTION = re.compile(
    r"\s*(?:if|else|for|while|do|switch|catch|try|namespace|extern|enum|union|return|using|typedef)\b")


def is_test(path):
    return path.startswith("tests/") or re.search(r"_(test|testing|fixture)\.\w+$", path) is not None


def is_helper(path):
    return re.search(r"_(testing|fixture)\.\w+$", path) is not None and path.endswith(KINDS["C and C++"])


def functions(text):
    """(line, lines) of each function of C++ that is in no other one."""
    text = LITERALS.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    text = re.sub(r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    depth, head, inside = 0, 0, None
    for at, char in enumerate(text):
        if char == "{":
            before = re.sub(r"^\s*KINORA_\w+\([^)]*\)", "", text[head:at])
            if inside is None and "(" in before and not NO_FUNCTION.match(before) and not re.match(
                r"\s*(?:class|struct)\b[^(]*$", before):
                inside = (depth, text.count("\n", 0, at) + 1)
            depth += 1
        elif char == "}":
            depth -= 1
            if inside and depth == inside[0]:
                yield inside[1], text.count("\n", 0, at) + 2 - inside[1]
                inside = None
        if char in "{};":
            head = at + 1


def javascript_functions(text):
    """(line, lines) of each function, by the indent of the line where it begins."""
    begun = []
    for number, line in enumerate(text.split("\n"), 1):
        indent = len(line) - len(line.lstrip())
        while begun and line.strip() and (indent, line[indent] in ")}]") <= (begun[-1][1], True):
            at, _ = begun.pop()
            yield at, number + 1 - at
        if re.search(r"(\bfunction\b.*|=>\s*|\)\s*)\{$", line) and not re.match(
            r"\s*(?:\}\s*)?(?:if|else|for|while|switch|catch|with)\b(?!.*=>\s*\{$)", line):
            begun.append((number, indent))


def top_folders(paths):
    return {path.split("/")[0] for path in paths if "/" in path}


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


# The check itself finds what it must.
assert list(functions("namespace a {\nint f(int x) {\n  if (x) {\n  }\n  g([] { return '{'; });\n}\n}\n")) == [(2, 5)]
assert list(functions("struct S {\n  void f() const {\n  }\n};\nconst char* t = R\"(\n{ ( )\";\n")) == [(2, 2)]
assert list(python_functions("def f():\n    pass\n    return 1\n")) == [(1, 3)]
assert list(javascript_functions("function f() {\n  if (x) {\n  }\n}\nlet y = 1;\n")) == [(1, 4)]
assert list(javascript_functions("class A {\n  f(x) {\n    a.map((y) => {\n    });\n  }\n}\n")) == [(3, 2), (2, 4)]
assert top_folders({"a/b.cpp", "README.md", "core/c/d.cpp"}) == {"a", "core"}
assert LEFT_OUT.search("plugins/a/plugin.toml") and not LEFT_OUT.search("configs/a.toml")
assert is_helper("core/a_testing.hpp") and is_test("core/a_testing.hpp") and not is_helper("core/a_test.cpp")

files = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
texts = {path: (ROOT / path).read_text(errors="replace") for path in files
         if path.endswith(sum(KINDS.values(), ())) and not LEFT_OUT.search(path) and (ROOT / path).exists()}
failures = []


def gauge(name, value, bound, goal, where="", places=""):
    print(f"{name}: {value} (at most {bound}, goal {goal}){where}")
    if value > bound:
        failures.append(f"{name}: {value} is more than {bound}{where}{places}: make something smaller")


def lines_in(choose):
    return sum(text.count("\n")
               for path, text in texts.items()
               if path.endswith(KINDS["C and C++"]) and not is_test(path) and choose(path))


gauge("core without torch and cuda",
      lines_in(lambda p: p.startswith("core/") and not p.startswith(("core/torch/", "core/cuda/"))),
      *LINES["core without torch and cuda"])
gauge("host", lines_in(lambda p: p.startswith("host/")), *LINES["host"])
gauge("core/torch", lines_in(lambda p: p.startswith("core/torch/")), *LINES["core/torch"])
for folder in sorted({"/".join(path.split("/")[:3]) for path in texts if re.match(r"plugins/jobs/[^/]+/", path)}):
    lines = lines_in(lambda p: p.startswith(folder + "/"))
    if lines > 3000:
        gauge(folder, lines, *LINES["a folder of plugins/jobs"])
for kind, endings in KINDS.items():
    of_kind = {path: text for path, text in texts.items() if path.endswith(endings)}
    # The places in files that were edited last come first: a new one is among them.
    places = [f"{path}:{number}" for path in sorted(of_kind, key=lambda p: -(ROOT / p).stat().st_mtime)
              for number, line in enumerate(of_kind[path].split("\n"), 1) if len(line) > LONGEST_LINE]
    gauge(f"lines of {kind} of more than {LONGEST_LINE} columns", len(places), *COLUMNS[kind],
          places=", of which the first are " + ", ".join(places[:8]))
for kind, bounds in FUNCTIONS.items():
    of_tests, language = kind.startswith("tests in "), kind.removeprefix("tests in ")
    found_in = {"Python": python_functions, "JavaScript": javascript_functions}.get(language, functions)
    found = [(lines, f" at {path}:{line}")
             for path, text in texts.items()
             if path.endswith(KINDS[language]) and (found_in is not functions or is_test(path) == of_tests)
             for line, lines in found_in(text)]
    assert len(found) > 500, kind
    longest, where = max(found)
    gauge(f"lines of the longest function of {kind}", longest, *bounds, where)
longest, where = max((text.count("\n"), f" at {path}") for path, text in texts.items() if is_helper(path))
gauge("lines of the longest helper of tests", longest, *LONGEST_HELPER, where)
failures += [f"{top}/: no folder of the house (FOLDERS); put it in one" for top in sorted(top_folders(files) - FOLDERS)]
print("\n".join(failures))
sys.exit(bool(failures))
