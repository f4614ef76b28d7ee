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
           "CSS and HTML": (0, 0), "templates": (0, 0)}
FUNCTIONS = {"C and C++": (60, 60), "Python": (60, 60)}  # lines of the longest function
KINDS = {"C and C++": (".c", ".cpp", ".hpp", ".h", ".cu", ".cuh", ".inc", ".ipp"), "Python": (".py",),
         "JavaScript": (".js",), "CMake and shell": (".cmake", ".sh", ".txt"), "CSS and HTML": (".css", ".html"),
         "templates": (".in",)}
LONGEST_LINE = 120
LEFT_OUT = re.compile("|".join((
    r"^tests/(abi/v1|data|fixtures)/",  # a frozen copy, and data
    r"/requirements.*\.txt$|html_entities\.inc$",  # data
    r"\.toml\.in$",  # TOML keeps an inline table on one line
    r"^\.ci/skips\.txt$",  # data: a line is the whole reason of a skip
    # Fixtures hold the hashes of these (tests/oracle/provenance.py): a change costs that they are all made again.
    r"^tests/oracle/(make_\w+|oracle_numbers)\.py$")))
LITERALS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
NO_FUNCTION = re.compile(
    r"\s*(?:if|else|for|while|do|switch|catch|try|namespace|extern|enum|union|return|using|typedef)\b")


def is_test(path):
    return path.startswith("tests/") or re.search(r"_(test|testing|fixture)\.\w+$", path) is not None


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


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


# The check itself finds what it must.
assert list(functions("namespace a {\nint f(int x) {\n  if (x) {\n  }\n  g([] { return '{'; });\n}\n}\n")) == [(2, 5)]
assert list(functions("struct S {\n  void f() const {\n  }\n};\nconst char* t = R\"(\n{ ( )\";\n")) == [(2, 2)]
assert list(python_functions("def f():\n    pass\n    return 1\n")) == [(1, 3)]

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
    if kind in FUNCTIONS:
        found = [(lines, f" at {path}:{line}")
                 for path, text in of_kind.items() if kind == "Python" or not is_test(path)
                 for line, lines in (python_functions if kind == "Python" else functions)(text)]
        assert len(found) > 500, kind
        longest, where = max(found)
        gauge(f"lines of the longest function of {kind}", longest, *FUNCTIONS[kind], where)
print("\n".join(failures))
sys.exit(bool(failures))
