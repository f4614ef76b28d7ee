#!/usr/bin/env python3
"""The documents and the manifests agree: every component that an example uses is there, with its options, their types,
ranges and choices; every curating stage is documented, and the defaults that tables state are the manifests'. Every
command that a text of the program or a document names is one; every link and every path leads somewhere, and what
ARCHITECTURE.md says to be in a file is in it; docs/reference.md is what the manifests say.
With KINORA, `kinora check` accepts every run file that README.md and docs/ show, and their tables of options state the
defaults. usage: documents.py ROOT [KINORA SCRATCH]"""
import json, os, pathlib, re, shutil, subprocess, sys, tomllib

ROOT = pathlib.Path(sys.argv[1]).resolve()
sys.path.append(str(ROOT / "tests/support"))
from pages import blocks, toml_of

PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]
DOCUMENTS = [*PAGES, "plugins/stages/README.md", "sdk/README.md"]
LINKED = [*DOCUMENTS, "ARCHITECTURE.md", "BENCHMARKS.md", "CHANGELOG.md", "CONTRIBUTING.md"]
OF_EVERY_STAGE = {"use", "name", "from"}
THEIR_OWN = {"colourful", "brightness", "mine"}  # that sdk/README.md makes
SOURCES = ("apps", "core", "host", "kernels", "packaging", "plugins", "sdk", "tests")
TYPES = {"int": int, "size": (int, str), "float": (int, float), "bool": bool, "string": str, "path": str,
         "strings": list, "floats": list, "ints": list, "paths": list}
failures = []


def components():
    """{id: {option: its line}} of every manifest."""
    out = {}
    for file in (ROOT / "plugins").rglob("plugin.toml"):
        for component in tomllib.loads(file.read_text())["component"]:
            out[component["id"]] = component.get("option", {})
    return out


def examples(text):
    """Every inline table with a `use`, braces within it balanced."""
    for start in re.finditer(r"\{ ?use ?= ?\"", text):
        depth = 0
        for end in range(start.start(), len(text)):
            depth += (text[end] == "{") - (text[end] == "}")
            if not depth:
                break
        table = re.sub(r"#[^\n\"]*\n", " ", text[start.start():end + 1]).replace("\n", " ")
        if "..." not in table:
            yield tomllib.loads("x = " + table)["x"]


# Published folders that the pages name, and the small ones of the same classes that stand for them.
PUBLISHED = {"Wan2.1-T2V-1.3B-Diffusers": ["wan_t2v"], "Wan2.2-T2V-A14B-Diffusers": ["wan_t2v", "wan_a14b_t2v"]}


def check_snippets():
    """All that is written as TOML is TOML 1.0, whose inline tables stand on one line."""
    seen = 0
    for document in DOCUMENTS:
        for line, language, code in blocks((ROOT / document).read_text()):
            text = toml_of(language, code)
            if text is None:
                continue
            seen += 1
            try:
                tomllib.loads(text)
            except tomllib.TOMLDecodeError as e:
                failures.append(f"{document}:{line}: {e}:\n{code}")
    assert seen > 15, seen


def anchors(page):
    """What a link into a Markdown page may name: GitHub's names of its headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"(?ms)^ *```.*?```$", "", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links():
    """Every link inside the repository leads to a file, and to a heading where it names one."""
    seen = 0
    for document in LINKED:
        for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / document).read_text()):
            if re.match(r"[a-z]+:", link):
                continue
            seen += 1
            name, _, heading = link.partition("#")
            page = (ROOT / document).parent / name if name else ROOT / document
            if not page.exists():
                failures.append(f"{document}: link to {link}: there is no such file")
            elif heading and heading not in anchors(page):
                failures.append(f"{document}: link to {link}: there is no such heading")
    assert seen > 40, seen


def files_of(name):
    """The files that a text means by a path or by a bare file name; of a folder, those below it."""
    found = list(ROOT.glob(name.rstrip("/")) if "/" in name
                 else (file for top in SOURCES for file in (ROOT / top).rglob(name)))
    return [file for at in found for file in (at.rglob("*.[ch]*") if at.is_dir() else [at])]


def check_paths():
    """Every path and file name that ARCHITECTURE.md names is there, and each `Name` that it says to be in a file occurs
    in it, a class with its definition or a member's: `Name` in `file`, `Name` ... (`file`), `file` (`Name`)."""
    text = re.sub(r"\n +", " ", (ROOT / "ARCHITECTURE.md").read_text())
    named = re.findall(r"`([\w.*/-]+/[\w.*/-]*|[\w-]+\.(?:cpp|hpp|h|py|toml|txt))`", text)
    assert len(named) > 40, named
    failures.extend(f"ARCHITECTURE.md: there is no {name}"
                    for name in named if not (any(ROOT.glob(name.rstrip("/"))) or files_of(name)))
    name, file = r"`([A-Za-z_]\w*(?:::\w+)*)`", r"`([\w./-]+(?:/|\.[ch]pp|\.h))`"
    pairs = re.findall(rf"{name} in {file}|{name}[^`.;:|()]*\({file}\)", text)
    said = [(one or two, of_one or of_two) for one, of_one, two, of_two in pairs]
    said += [(inside, place) for place, inside in re.findall(rf"{file} \({name}\)", text)]
    assert len(said) > 10, said
    for name, place in said:
        texts = [file.read_text() for file in files_of(place)]
        wanted = [rf"(?:class|struct) {word}\b|\b{word}::" if word[0].isupper() else rf"\b{word}\b"
                  for word in name.split("::")]
        if not any(all(re.search(word, text) for word in wanted) for text in texts):
            failures.append(f"ARCHITECTURE.md: {place} does not contain {name}")


def check_malformed():
    """Each text in docs/malformed-plugins.md is in the test next to it; strings of C++ may be cut into pieces."""
    rows = re.findall(r"^\| [^|]+ \| (.+) \| `(\S+)` \|$", (ROOT / "docs/malformed-plugins.md").read_text(), re.M)
    assert len(rows) > 50, len(rows)
    for said, test in rows:
        text = re.sub(r'"\s*\n\s*f?"', "", (ROOT / test).read_text())
        pieces = [piece for quote in re.findall(r"`([^`]+)`", said) for piece in quote.split("...") if " " in piece]
        if not pieces or any(piece not in text for piece in pieces):
            failures.append(f"docs/malformed-plugins.md: {test} does not say {pieces}")


def check_changelog():
    """CHANGELOG.md: a part "Unreleased" with one line of at most 25 words a change, and a page for each release, by
    area, with links and without history."""
    text = (ROOT / "CHANGELOG.md").read_text()
    lines = text.splitlines()
    failures.extend(f"CHANGELOG.md:{n}: {len(line)} characters, of at most 240"
                    for n, line in enumerate(lines, 1) if len(line) > 240)
    failures.extend(f"CHANGELOG.md:{n}: what was before is for a change of a release"
                    for n, line in enumerate(lines, 1) if re.search(r"\(before[:,]", line))
    parts = dict(re.findall(r"(?ms)^## (.+?)$(.*?)(?=^## |\Z)", text))
    assert list(parts)[0] == "Unreleased" and "0.1.0" in parts, list(parts)
    if len(parts["0.1.0"].splitlines()) > 300:
        failures.append(f"CHANGELOG.md: 0.1.0 has {len(parts['0.1.0'].splitlines())} lines, of at most 300")
    for area, body in re.findall(r"(?ms)^### (.+?)$(.*?)(?=^### |\Z)", parts["0.1.0"]):
        if not re.search(r"\]\([^)]+\)", body) or "\n- " not in body:
            failures.append(f"CHANGELOG.md: {area}: links no page, or has no line")
    assert re.findall(r"(?m)^### (.+)$", parts["Unreleased"]) == ["Added", "Changed", "Fixed"], parts["Unreleased"]
    changes = parts["Unreleased"].split("### Added")[1].splitlines()
    for line in filter(None, changes):
        if not line.startswith(("- ", "### ")) or len(line.split()) - 1 > 25:
            failures.append(f"CHANGELOG.md: a change is one line of at most 25 words: {line}")


def check_benchmarks():
    """BENCHMARKS.md is short: rows of a benchmark, its value, its bound and a link to the section of its machine; each
    section of a machine has a row."""
    lines = (ROOT / "BENCHMARKS.md").read_text().splitlines()
    failures.extend(f"BENCHMARKS.md:{n}: {len(line)} characters, of at most 240"
                    for n, line in enumerate(lines, 1) if len(line) > 240)
    rows = [re.split(r" \| ", line.strip("| ")) for line in lines if line.startswith("| ")][1:]
    linked = {re.fullmatch(r"\[\w+\]\(docs/benchmarks/([\w-]+\.md#[\w-]+)\)", row[3])[1]
              for row in rows if len(row) == 4}
    assert len(rows) > 50 and len(linked) == len(rows), [row for row in rows if len(row) != 4]
    machines = {link.split("#")[0] for link in linked}
    sections = {f"{name}#{anchor}" for name in machines for anchor in anchors(ROOT / "docs/benchmarks" / name)} - linked
    rest = {section for section in sections
            if "#measured-on-" not in section and not section.endswith(("#notes", "#if-it-goes-wrong"))}
    failures.extend(f"docs/benchmarks/{section} has no row in BENCHMARKS.md" for section in sorted(rest))


def check_option_links(known):
    """docs/train.md: each option of a train job that it names is in its table of the job's options, or the first
    mention in the text is a link to the reference."""
    text = (ROOT / "docs/train.md").read_text()
    table = re.search(r"(?s)<!-- options of job/train: .*?<!-- end -->", text)[0]
    prose = re.sub(r"(?ms)^```.*?^```$|^(    |\|).*?$", "", text)
    own = known["job/train"].keys() - set(re.findall(r"(?m)^\| `(\w+)` \|", table))
    seen = {}
    for found in re.finditer(r"(\[?)`(\w+)(?: = [^`]*)?`(\]\(reference\.md#\w+\))?", prose):
        seen.setdefault(found[2], bool(found[1] and found[3]))
    named = own & (seen.keys() | set(re.findall(r"--set '?dit\.(\w+)=", text)))
    assert len(named) > 8, named
    failures.extend(f"docs/train.md: the option {name} is named without its meaning; link it to reference.md#jobtrain"
                    for name in sorted(named) if not seen.get(name))


def check_pages():
    """Each page of docs/ but the reference is of one task: it begins with a command, and has at most 20,000 bytes."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name, text = page.relative_to(ROOT), page.read_text()
        if not re.match(r"# [^\n]+\n\n(    |```toml\n)", text) and name.name != "reference.md":
            failures.append(f"{name} does not begin with a command or a run file")
        if len(text.encode()) > 20_000 and name.name != "reference.md":
            failures.append(f"{name} has {len(text.encode())} bytes, of at most 20,000; cut it by task")


def check_reference():
    done = subprocess.run([sys.executable, str(ROOT / "packaging/reference.py"), "--check"], capture_output=True,
                          text=True)
    if done.returncode:
        failures.append(done.stdout + done.stderr)


def jobs_of(text):
    """{name: text} of a run file's jobs, in its order."""
    parts = re.split(r"(?m)^(?=\[\[job\]\])", text)[1:]
    tables = [tomllib.loads(part)["job"][0] for part in parts]
    return {table.get("name", table["kind"]): part for table, part in zip(tables, parts)}


def run_file_of(code):
    """A run file with what a page shows: jobs, after those of the quickstart that they read; or stages or strategies of
    a job. None: neither."""
    quickstart = jobs_of((ROOT / "configs/quickstart.toml").read_text())
    shown = tomllib.loads(code)
    if set(shown) == {"stages"}:
        code = f'[[job]]\nname = "clips"\nkind = "curate"\ninput = "videos/*.mp4"\n{code}'
    elif set(shown) == {"parallel"}:
        code = quickstart["dit"].replace('parallel = ["single"]', code)
    elif "job" not in shown:
        return None
    own = jobs_of(code)
    wanted, needed = [own[name] for name in own], set()
    while wanted:
        inputs = tomllib.loads(wanted.pop())["job"][0].get("input", [])
        for name in inputs if isinstance(inputs, list) else [inputs]:
            if isinstance(name, str) and name in quickstart and name not in own and name not in needed:
                needed.add(name)
                wanted.append(quickstart[name])
    return "".join(text for name, text in quickstart.items() if name in needed) + code


def job_options(kinora, kind):
    """{option: default} of a kind of job, and its components' slots, as `kinora plugins inspect` prints them."""
    done = subprocess.run([kinora, "plugins", "inspect", f"job/{kind}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    components, options = done.stdout.split("\nin a run file\n")[0].split("\noptions\n")
    return dict(re.findall(r"^  (\w+) .* default (\S+)", components,
                           re.M) + re.findall(r"^  (\w+) +(\S.*?)  ", options, re.M))


def check_list_of_commands(kinora):
    """docs/operate.md lists the commands as `kinora --help` does, which prints the table in
    apps/kinora/commands.cpp."""
    commands = []
    help = subprocess.run([kinora, "--help"], capture_output=True, text=True, check=True).stdout
    for line in help.split("\nfirst steps:\n")[0].splitlines():
        if not line.startswith("  "):
            continue  # the name of a task
        call, what = line[2:24].strip(), line[25:]
        if call:
            commands.append([call, what])
        else:
            commands[-1][1] += " " + what
    assert len(commands) > 10, help
    table = "".join("| `{}` | {} |\n".format(call.replace("|", "\\|"), what) for call, what in commands)
    if f"| kinora | |\n|---|---|\n{table}\n" not in (ROOT / "docs/operate.md").read_text():
        failures.append(f"docs/operate.md: its list of commands is not that of kinora --help:\n{table}")


def plain(value):
    """A default without Markdown's marks and its unit; 1.00 GiB is 1 GiB, 3e-04 is 0.0003."""
    value = re.sub(r"^(\d+)\.00 ", r"\1 ", re.sub(r"^`(.*?)`.*", r"\1", value))
    return str(float(value)) if re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", value) else value


def check_option_tables(known, kinora):
    """Tables `| option of `NAME` | default | meaning |`: each option is one of the kind of job or component, with this
    default, as the program prints it; packaging/reference.py writes the tables, between marks."""
    seen = 0
    for page in PAGES:
        text = (ROOT / page).read_text()
        by_hand = re.findall(r"(?m)^(?!<!-- options of ).*\n\| option of `([\w.-]+)` \| default ", text)
        failures.extend(
            f"{page}: the table of options of {owner} is written by hand; let packaging/reference.py write it"
            for owner in by_hand)
        for owner, table in re.findall(r"^\| option of `([\w.-]+)` \| default \| meaning \|\n\|[-|]+\n((?:\|.*\n)+)",
                                       text, re.M):
            ids = [id for id in known if id.split("/", 1)[1] == owner and not id.startswith("job/")]
            options = {name: json.dumps(option["default"])
                       for name, option in known[ids[0]].items()} if ids else job_options(kinora, owner)
            for name, default in re.findall(r"^\| `(\w+)` \| ([^|]*) \|", table, re.M):
                seen += 1
                if name not in options:
                    failures.append(f"{page}: {owner} has no option {name}")
                elif plain(default) != plain(options[name]):
                    failures.append(f"{page}: {owner} {name}: the default is {options[name]}, not {default}")
    assert seen > 40, seen


def check_run_files(kinora, scratch):
    """`kinora check` finds nothing wrong in the run files that the pages show."""
    shutil.rmtree(scratch, ignore_errors=True)
    folder = scratch / "configs"
    (folder / "videos").mkdir(parents=True)
    (folder / "shards").mkdir()
    (folder / "pictures").mkdir()
    finished = folder / "runs/curate/clips"
    finished.mkdir(parents=True)
    (finished / "job.json").write_text('{"kind": "curate"}')
    (finished / "summary.json").write_text('{"status": "done"}')
    (scratch / "tests").symlink_to(ROOT / "tests")
    for name, layers in PUBLISHED.items():
        for layer in layers:
            shutil.copytree(ROOT / "tests/data/oracle" / layer, folder / name, dirs_exist_ok=True)
    shutil.copy(ROOT / "tests/data/bbb_A.mp4", folder / "videos")
    (folder / "videos.csv").write_text("path,caption\nvideos/bbb_A.mp4,a rabbit\n")
    for model in ("clip.pt", "aesthetic.pt"):
        (folder / model).touch()
    seen = 0
    for page in PAGES:
        for line, language, code in blocks((ROOT / page).read_text()):
            text = toml_of(language, code)
            whole = text and run_file_of(text)
            if not whole:
                continue
            seen += 1
            file = folder / f"{pathlib.Path(page).stem}-{line}.toml"
            file.write_text(whole)
            done = subprocess.run([kinora, "check", str(file)], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "OPENAI_API_KEY": "none"})
            lacks_ray = "' has no kinora-ray; install" in done.stderr and "1 error" in done.stderr
            if done.returncode and not lacks_ray:
                failures.append(f"{page}:{line}: kinora check: {done.stdout}{done.stderr}")
    assert seen > 5, seen


def check_value(where, option, value):
    if not isinstance(value, TYPES[option["type"]]) or (isinstance(value, bool) and option["type"] != "bool"):
        failures.append(f"{where}: {value!r} is no {option['type']}")
    elif "choices" in option and value not in option["choices"]:
        failures.append(f"{where}: {value!r} is none of {option['choices']}")
    elif isinstance(value, (int, float)) and not (option.get("min", value) <= value <= option.get("max", value)
                                                  and ("above" not in option or value > option["above"])):
        failures.append(f"{where}: {value!r} is out of range")


def check_examples(known):
    seen = 0
    for document in DOCUMENTS:
        for table in examples((ROOT / document).read_text()):
            uses = [id for id in known if id.split("/", 1)[1] == table["use"]]
            if table["use"] in THEIR_OWN:
                continue
            if not uses:
                failures.append(f"{document}: there is no component {table['use']}")
            # of components of one name, the one that knows most of the table
            for id in sorted(uses, key=lambda id: len(known[id].keys() & table.keys()))[-1:]:
                seen += 1
                for name, value in table.items():
                    if name in known[id]:
                        check_value(f"{document}: {id} {name}", known[id][name], value)
                    elif name not in OF_EVERY_STAGE:
                        failures.append(f"{document}: {id} has no option {name}")
    assert seen > 30, seen


def check_stages(known):
    """Stages that curate; those of text and shards have documents of their own."""
    text = "".join(page.read_text() for page in [ROOT / "docs/curate.md", *sorted((ROOT / "docs/curate").glob("*.md"))])
    for folder in ("video", "filters", "embed", "embed-model", "dedup", "endpoint"):
        for component in tomllib.loads((ROOT / "plugins/stages" / folder / "plugin.toml").read_text())["component"]:
            name = component["id"].split("/")[1]
            if f"`{name}`" not in text and f"/{name}`" not in text:
                failures.append(f"docs/curate/ does not name {name}")


def check_defaults(known):
    """Rows `| `shots.x` | ... | `option` value, ... |`: values that stand behind an option are its default."""
    text = (ROOT / "docs/curate/shots.md").read_text()
    rows = re.findall(r"^\| `(shots\.\w+)` \|[^|]*\| ([^|]*) \|$", text, re.M)
    assert len(rows) >= 7, rows
    for stage, options in rows:
        for name, value in re.findall(r"`(\w+)` (-?[\d.]+|true|false)", options):
            option = known[f"stage/{stage}"].get(name)
            if option is None or option["default"] != tomllib.loads(f"x = {value.rstrip('.')}")["x"]:
                failures.append(
                    f"docs/curate/shots.md: {stage} {name} {value}, the manifest has {option and option['default']}")


def texts_of(path):
    """What a source file can show: its string literals, adjacent ones joined, without comments."""
    code = re.sub(r"(?m)^\s*//.*|\s//\s.*$", "", path.read_text())
    raw = re.findall(r'R"\((.*?)\)"', code, re.S)
    rest = re.sub(r'R"\(.*?\)"', "", code, flags=re.S)
    for run in re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', rest):
        raw.append("".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', run)))
    return raw


def check_commands():
    """`kinora WORD` in messages, help texts and documents: WORD is in the table of commands, `kinora plugins WORD` in
    that of its own."""
    table = (ROOT / "apps/kinora/commands.cpp").read_text()
    commands = set(re.findall(r'\{"([a-z]+)",', table[table.index("constexpr Command k"):]))
    assert len(commands) > 10 and "run" in commands, commands
    own = set(re.findall(r'"([a-z-]+)"', (ROOT / "apps/kinora/plugins_command.cpp").read_text()))
    seen = 0
    sources = [f for top in ("apps", "core", "host", "plugins", "sdk")
               for f in (ROOT / top).rglob("*") if f.suffix in (".cpp", ".hpp", ".h",
                                                                ".c") and not f.name.endswith("_test.cpp")]
    texts = [(f, text) for f in sources
             for text in texts_of(f)] + [(ROOT / d, re.sub(r"(?m)(^|\s)#\s.*$", "", code)) for d in DOCUMENTS
                                         for _, _, code in blocks((ROOT / d).read_text())]
    for file, text in texts:
        for word, after in re.findall(r"(?<![\w./-])kinora ([a-z][a-z-]*)(?: ([a-z-]+))?", text):
            seen += 1
            if word not in commands:
                failures.append(f"{file.relative_to(ROOT)}: kinora {word}: there is no such command")
            elif word == "plugins" and after and after not in own:
                failures.append(f"{file.relative_to(ROOT)}: kinora plugins {after}: there is no such command")
    assert seen > 80, seen


def check_demo():
    """README.md shows what `packaging/dev.sh demo` prints at its end."""
    script = (ROOT / "packaging/dev.sh").read_text()
    demo = script[script.index("\ndemo() {"):].split("\n}\n")[0]
    out = re.search(r"out=(\S+)", demo)[1]
    lines = [line.replace("$out", out) for line in re.findall(r'echo "(.+)"', demo)]
    assert len(lines) == 3, lines
    if "\n".join(lines) not in [code for _, _, code in blocks((ROOT / "README.md").read_text())]:
        failures.append(f"README.md does not show what packaging/dev.sh demo prints: {lines}")


known = components()
check_commands()
check_demo()
check_examples(known)
check_snippets()
check_stages(known)
check_defaults(known)
check_links()
check_changelog()
check_benchmarks()
check_pages()
check_option_links(known)
check_paths()
check_reference()
check_malformed()
if len(sys.argv) > 2:
    check_option_tables(known, sys.argv[2])
    check_list_of_commands(sys.argv[2])
    check_run_files(sys.argv[2], pathlib.Path(sys.argv[3]))
print("\n".join(failures) or "documents: all checks passed")
sys.exit(bool(failures))
