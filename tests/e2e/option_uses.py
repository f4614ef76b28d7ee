#!/usr/bin/env python3
"""Somebody sets every option of every component, every slot of every job and every key of a run file: a page, a run
file of configs/, a test, or a fixture that a test reads. What nobody sets has no user and no test; it gets a test that
shows its effect, or it goes.

The search is by text. A file sets an option if it has the option's name as a key, and names the component or lies in
its plugin's folder.
Options of several components with the same name and help are one option, described once in their source; so is an
option of the stages that find shots with the detector's option that its help names. usage: option_uses.py ROOT"""
import collections, json, pathlib, re, struct, subprocess, sys, tomllib

ROOT = pathlib.Path(sys.argv[1])
PAGES = re.compile(r"README\.md|docs/(?!reference\.md)[\w/-]+\.md|(plugins/stages|sdk)/README\.md")
TESTS = re.compile(r"tests/.*\.(py|cpp|hpp|toml)|.*_(test|testing|bench)\.(cpp|hpp)|.*/testing\.hpp")
# key = 1, "key": 1, {"key", 1}, ["key"], `key`, options.key = 1, [key.x]; `\n` of a string begins a line.
SETS = re.compile(
    r"""(?<![\w.])(\w+)["']?\s*[=:](?![=:])|["'](\w+)["']\s*[\],]|`(\w+)[`\s]|\.(\w+)\s*=(?!=)|^\s*\[+(\w+)[\].]""",
    re.M)
WORDS = re.compile(r"[\w.-]*\w")
# Options that the metadata of a fixture sets; the test of the plugin reads it.
FIXTURES = {"model/clip-text": "text_encoders", "model/clip-vision": "text_encoders", "loss/rectified-flow": "losses",
            "sampler/res": "samplers", "tokenizer/wan": "wan_vae"}
failures = []
MOST_UNREAD = 216  # never more: a new option is on a page


def header(name):
    with open(ROOT / f"tests/data/oracle/{name}.safetensors", "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))["__metadata__"]


def users():
    """[(path, words, keys that it sets)] of the files that may set an option."""
    out = []
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True)
    names = listed.stdout.split() if listed.returncode == 0 else [
        str(p.relative_to(ROOT))
        for top in ("configs", "docs", "plugins", "sdk", "tests", "core", "host", "apps", "kernels")
        for p in (ROOT / top).rglob("*.*")]
    for name in names:
        if PAGES.fullmatch(name) or TESTS.fullmatch(name) or (name.startswith("configs/") and name.endswith(".toml")):
            text = (ROOT / name).read_text(errors="replace").replace("\\n", "\n")
            out.append((name, set(WORDS.findall(text.replace("/", " "))),
                        {key for found in SETS.findall(text) for key in found if key}))
    return out


def components():
    """{id: (its plugin's folder, its lines)}"""
    return {c["id"]: (str(file.parent.relative_to(ROOT)) + "/", c)
            for file in sorted((ROOT / "plugins").rglob("plugin.toml"))
            for c in tomllib.loads(file.read_text())["component"]}


def options(known):
    """{(name, help): [(component's id, name of the option there)]}"""
    out = collections.defaultdict(list)
    for id, (_, lines) in known.items():
        for name, line in lines.get("option", {}).items():
            of = re.fullmatch(r"(\w+) of (shots\.\w+)", line["help"])
            one = (of[1], known[f"stage/{of[2]}"][1]["option"][of[1]]["help"]) if of else (name, line["help"])
            out[one].append((id, name))
        for name, line in lines.get("slot", {}).items():
            out[name, json.dumps(line)].append((id, name))
    return out


def set_by_a_fixture(id, name):
    return id in FIXTURES and any(f'"{name}":' in text for text in header(FIXTURES[id]).values())


def check_options(files):
    known = components()
    every = options(known)
    assert len(every) > 600, len(every)
    unread = []
    for (name, help), members in every.items():
        users = [path for id, spelling in members for path, words, keys in files
                 if spelling in keys and (path.startswith(known[id][0]) or id.split("/", 1)[1] in words)]
        used = bool(users)
        if not any(PAGES.fullmatch(path) or path.startswith("configs/") for path in users):
            unread.append(f"{name} of {members[0][0]}")
        if not used and not any(set_by_a_fixture(id, spelling) for id, spelling in members):
            failures.append(f"option {name} of {', '.join(id for id, _ in members)} ({help})")
    print(f"{len(every)} options, {len(unread)} on no page but the reference and in no run file of configs/")
    if len(unread) > MOST_UNREAD:
        failures.append(f"more than {MOST_UNREAD} options without a page or a run file of configs/: put a new one on "
                        f"the page of its task ({', '.join(unread)})")


def check_keys(files):
    """The keys of a run file besides options."""
    source = "".join((ROOT / "core/run" / name).read_text()
                     for name in ("run_file.cpp", "data_input.cpp", "data_reading.cpp"))
    lists = re.findall(
        r"(?:known_keys\([^{;]*|refuse_unknown\([^{;]*|known|known\.insert\([^{;]*|return )\{((?:\s*\"\w+\",?)+)\s*\}",
        source)
    keys = {key for one in lists
            for key in re.findall(r'"(\w+)"', one)} | set(re.findall(r'add\("(\w+)", OptionType', source))
    assert {"run", "job", "storage", "seed", "log", "input", "kind", "blend", "join", "epochs", "fields",
            "cache"} <= keys, keys
    for key in sorted(keys):
        if not any(key in keys_of_it for _, _, keys_of_it in files):
            failures.append(f"key {key} of run files")


files = users()
check_options(files)
check_keys(files)
print("\n".join(f"no file sets {one}: test what it does, or remove it"
                for one in failures) or "every option and every key is set by a page, a run file, a test or a fixture")
sys.exit(bool(failures))
