#!/usr/bin/env python3
"""Writes docs/reference.md: every component with its tensors and options, as the manifests (plugins/**/plugin.toml)
state them; and the tables of options in the other pages, between `<!-- options of ID: NAME NAME -->` and `<!-- end
-->`.

usage: reference.py [--check]

--check writes nothing and fails when a page is not what the manifests say.
"""
import difflib
import json
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference.md"
# The order of the page: kind, title, what such a component does.
KINDS = [
    ("job", "Kinds of jobs",
     "A job of a run file reads paths and the results of other jobs. Its components are written under the names of its "
     "slots."),
    ("stage", "Stages", "A stage receives one sample at a time and emits samples, drops them or fails."),
    ("tokenizer", "Tokenizers", "A tokenizer encodes videos to latents or codes, and decodes them."),
    ("model", "Models", "Models that are trained, text and image encoders, and discriminators."),
    ("loss", "Losses", "A loss draws noise levels, states the target and weighs the error."),
    ("sampler", "Samplers", "A sampler turns noise into a sample by calls of a denoiser."),
    ("optimizer", "Optimizers", "An optimizer changes the weights by their gradients."),
    ("score", "Scores",
     "A score measures how good samples are, as a few numbers; the states of several ranks are merged."),
    ("parallel", "Parallel strategies",
     "A strategy divides the work of one model among ranks; the result is that of one process."),
    ("precision", "Precisions", "The number format of linear layers and attention."),
    ("cache", "Caches", "A cache keeps keys and values of earlier forwards while a video is generated."),
    ("engine", "Engines", "An engine runs the stages of a job."),
    ("source", "Sources",
     "A source gives the samples of a data set one after the other, whole or in parts, and continues where it was. "
     "`kinora apply` shows them."),
    ("storage", "Storage", "A storage reads and writes URIs of its scheme."),
    ("collective", "Collectives", "A collective moves tensors between ranks."),
]
HEAD = """# Reference: components and their options

This page is generated from the plugins' manifests by `packaging/reference.py`; a test fails when the two differ.
`kinora plugins inspect ID` prints the same for one component. A type says what a \
run file may hold: a `size` is a number of bytes or a text such as `"2 GiB"`, a `path` may be a URI.
"""


def text(words):
    """Words as Markdown shows them: outside of code, what Markdown or HTML would read as markup is escaped."""
    parts = words.replace("\n", " ").split("`")
    parts[::2] = [re.sub(r"([*<>\[\]\\])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts).replace("|", "\\|")


def code(value):
    return f"`{value}`".replace("|", "\\|")


def size(count):
    """Bytes as the program prints them when they are a whole number of a unit."""
    for unit, bytes_each in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count and count % bytes_each == 0:
            return f"{count // bytes_each} {unit}"
    return str(count)


def value(option, given):
    """A value as TOML has it."""
    return size(given) if option["type"] == "size" and isinstance(given, int) else json.dumps(given, ensure_ascii=False)


def allowed(option):
    """The values that an option takes."""
    if "choices" in option:
        return ", ".join(code(value(option, choice)) for choice in option["choices"])
    words = []
    if "min" in option and "max" in option:
        words.append(f"{value(option, option['min'])} to {value(option, option['max'])}")
    elif "min" in option:
        words.append(f"at least {value(option, option['min'])}")
    elif "max" in option:
        words.append(f"at most {value(option, option['max'])}")
    words += [f"{word} {value(option, option[word])}" for word in ("above", "below") if word in option]
    return ", ".join(words)


def tensors(title, named):
    def notes(t):
        words = [t.get("help", ""), f"one per {t['per']}" if "per" in t else "",
                 f"only with `{t['when']}`" if "when" in t else "", "optional" if t.get("optional") else ""]
        return "; ".join(filter(None, words))

    rows = [f"| {code(name)} | {text(' '.join(filter(None, (t['dtype'], t['shape']))))} | {text(notes(t))} |"
            for name, t in named.items()]
    return [f"| {title} | type | |", "|---|---|---|", *rows, ""] if rows else []


def options(named):
    rows = []
    for name, option in named.items():
        kind = option["type"] + (f" ({option['unit']})" if "unit" in option else "")
        default = "required" if option.get("required") else "no bound" if option["default"] in (
            1e300, -1e300) else code(value(option, option["default"]))
        rows.append(f"| {code(name)} | {kind} | {default} | {allowed(option)} | {text(option['help'])} |")
    return ["| option | type | default | values | |", "|---|---|---|---|---|", *rows,
            ""] if rows else ["It has no options.", ""]


def slots(named):
    """The components that a job is made of."""
    rows = []
    for name, slot in named.items():
        default = code(slot["default"]) if "default" in slot else "required" if slot.get("required") else "none"
        rows.append(
            f"| {code(name)} | {'list of ' if slot.get('list') else ''}{slot['kind']} | {default} | "
            f"{text(slot.get('help', ''))} |")
    return ["| slot | kind | default | |", "|---|---|---|---|", *rows, ""] if rows else []


def section(component):
    out = [f"### {component['id']}", "", text(component["help"].removesuffix(".")) + ".", ""]
    out += tensors("input", component.get("input", {})) + tensors("output", component.get("output", {}))
    if "layout" in component:
        layouts = "; ".join(f"{code(name)} ({text(layout['help'])})" for name, layout in component["layout"].items())
        out += [f"Names of weights that it reads: {layouts}.", ""]
    if component.get("reads"):
        out += ["Reads: " + ", ".join(map(code, component["reads"])) + ".", ""]
    out += slots(component.get("slot", {}))
    return out + options(component.get("option", {}))


def chosen_row(name, component):
    """A row of a table of chosen options; a slot of a job is one, too."""
    slot, option = component.get("slot", {}).get(name), component.get("option", {}).get(name)
    if slot:
        default, meaning = (code(slot["default"]) if "default" in slot else "none"), slot.get("help", "")
    else:
        default, meaning = "required" if option.get("required") else code(value(option, option["default"])), option[
            "help"]
        default += f" {option['unit']}" if "unit" in option else ""
        if "choices" in option:
            meaning += f" ({', '.join(code(value(option, choice)) for choice in option['choices'])})"
    return f"| {code(name)} | {default} | {text(meaning)} |"


def with_tables(page, words, components):
    """The page with its tables of chosen options as the manifests state them. Ends the program for an id or a name that
    is in no manifest."""

    def table(found):
        id, names = found[1], found[2].split()
        known = components.get(id, {})
        lacking = [name for name in names if name not in known.get("option", {}) and name not in known.get("slot", {})]
        if not known or not names or lacking:
            sys.exit(f"{page.relative_to(ROOT)}: {id}: no manifest has {lacking or 'this component'}")
        head = [f"| option of `{id.split('/', 1)[1]}` | default | meaning |", "|---|---|---|"]
        return "\n".join([found[0].split("\n")[0], *head, *(chosen_row(name, known) for name in names), "<!-- end -->"])

    return re.sub(r"<!-- options of (\S+): ([\w ]+) -->\n(?:\|.*\n)*<!-- end -->", table, words)


def manifests():
    """{kind: [(component, plugin)]} of every manifest."""
    found = {}
    for file in sorted((ROOT / "plugins").rglob("plugin.toml")):
        manifest = tomllib.loads(file.read_text())
        for component in manifest["component"]:
            if component["id"].startswith("service/"):  # for other parts of Kinora: no run file names one
                continue
            found.setdefault(component["id"].split("/")[0], []).append((component, manifest["plugin"]))
    return found


def reference(found):
    unknown = found.keys() - {kind for kind, _, _ in KINDS}
    assert not unknown, f"packaging/reference.py does not list the kinds {sorted(unknown)}"
    lines = HEAD.split("\n")
    for kind, title, what in KINDS:
        components = sorted(found.get(kind, []), key=lambda each: each[0]["id"])
        lines += [f"## {title}", "", what, "", "| id | plugin | tier | |", "|---|---|---|---|"]
        lines += [f"| {code(c['id'])} | {plugin['name']} | {plugin['tier']} | {text(c['help'])} |"
                  for c, plugin in components] + [""]
        for component, _ in components:
            lines += section(component)
    return "\n".join(lines).rstrip("\n") + "\n"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    found = manifests()
    components = {component["id"]: component for of_kind in found.values() for component, _ in of_kind}
    pages = {page: with_tables(page, page.read_text(), components)
             for page in sorted((ROOT / "docs").rglob("*.md")) if page != PAGE}
    pages[PAGE] = reference(found)
    for page, new in pages.items():
        old = page.read_text() if page.exists() else ""
        if old == new:
            continue
        if not sys.argv[1:]:
            page.parent.mkdir(exist_ok=True)
            page.write_text(new)
            continue
        name = page.relative_to(ROOT)
        first = [line for line in difflib.unified_diff(old.splitlines(), new.splitlines(), str(name), "the manifests",
                                                       lineterm="", n=0)][:12]
        sys.exit(
            "\n".join(
                [*first, f"{name} is not what the manifests say; run packaging/reference.py and commit the page"]))


main()
