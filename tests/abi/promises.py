"""What the host demands of the kinds and of the manifests that ABI 1.0 froze: it never demands more, and reads what it
read. By the sources of core/plugin, so that no build is needed; abi_test reads the manifests themselves."""
import hashlib, pathlib, re

V1 = pathlib.Path(__file__).resolve().parent / "v1"
# The files that say what is demanded.
SOURCES = ("kinds", "manifest", "manifest_reader", "manifest_reader.hpp", "manifest.hpp", "option_value",
           "tensor_rules")
# Of plugins of tier host, which are built for one Kinora.
OF_HOST = {"kinora", "reads", "needs_input", "slot", "kind", "list", "weights", "tensors"}
KIND = re.compile(
    r'\{"(\w+)", KINORA_INTERFACE_\w+, (\d+),\s*"([^"]*)"(?:, "(\w+)",\s*(\w+))?(?:, "([^"]*)")?\}')


def sources(root):
    """{name: text} of SOURCES."""
    return {name: (root / "core/plugin" / (name if "." in name else f"{name}.cpp")).read_text() for name in SOURCES}


def kinds(text):
    """{kind: [table size, slots, word, last known value]} of core/plugin/kinds.cpp."""
    return {name: [int(size), slots.split(), word or "reserved", last or "0"]
            for name, size, slots, word, last, _ in KIND.findall(text)}


def of_kinds(text):
    """Lines that say which kind of 1.0 no longer serves its plugins."""
    said, ours = [], kinds(text)
    for line in (V1 / "KINDS").read_text().splitlines():
        name, size, word, last, *slots = line.split()
        if name not in ours:
            said.append(f"the kind {name} is gone")
            continue
        size_now, slots_now, word_now, last_now = ours[name]
        if size_now > int(size):
            said.append(f"the table of {name} must have {size_now} bytes, in 1.0 {size}")
        if [slot.rstrip("?") for slot in slots_now[:len(slots)]] != [slot.rstrip("?") for slot in slots]:
            said.append(f"the first slots of {name} are {' '.join(slots_now[:len(slots)])}")
        optional = {slot for slot in slots if slot.endswith("?")}
        said += [f"{slot} of {name} is required" for i, slot in enumerate(slots_now)
                 if not slot.endswith("?") and (i >= len(slots) or slot + "?" in optional)]
        if word_now != word or (last_now == "0") != (last == "0"):  # it may know more, never less
            said.append(f"the number at byte 4 of {name} is {word_now} up to {last_now}, in 1.0 {word} up to {last}")
    return said


def grammar(of):
    """{what: words} of plugin.toml, as the reader reads it."""
    reader = of["manifest"] + of["manifest_reader"]
    keys = set(re.findall(r'\b(?:text|texts|truth|node|table)\("(\w+)"', reader))
    keys |= set(re.findall(r'\b(?:number|exact|tensors)\(t, "(\w+)"', reader))
    required = set(re.findall(r'\btext\("(\w+)", true\)|\bmissing\("(\w+)"\)', reader))
    types = re.search(r"type_names = \{(.*?)\};", of["option_value"], re.S)[1]
    dtypes = re.search(r"tensor_dtypes\(\) \{.*?\{(.*?)\};", of["tensor_rules"], re.S)[1]
    return {"keys": keys - OF_HOST, "required": {a or b for a, b in required} - OF_HOST,
            "types": set(re.findall(r'"(\w+)"', types)), "dtypes": set(re.findall(r'"(\w+)"', dtypes)),
            "tiers": set(re.findall(r'tier [!=]= "(\w+)"', of["manifest"])),
            "format": set(re.findall(r"kManifestFormat = (\d+);", of["manifest.hpp"])),
            "letters": set(re.search(r'letters = "(.*?)"', of["manifest_reader"])[1]),
            "length": set(re.findall(r"s\.size\(\) <= (\d+)", of["manifest_reader"]))}


def listed():
    return {what: set(words) for what, *words in map(str.split, (V1 / "manifests/GRAMMAR").read_text().splitlines())
            if not what.startswith("#")}


def corpus():
    """{file: digest} of the manifests of 1.0."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:12] for file in (V1 / "manifests").glob("*.toml")}


def of_manifests(of):
    """Lines that say what a manifest of 1.0 may no longer have, or must have besides."""
    now, then = grammar(of), listed()
    said = [f"{words} of plugin.toml: {sorted(gone)} of 1.0 are no longer read" for words in then
            if words in now and words not in ("required", "length") and (gone := then[words] - now[words])]
    if more := now["required"] - then["required"]:
        said.append(f"{sorted(more)} of plugin.toml must be there, in 1.0 they need not")
    if max(map(int, now["length"])) < max(map(int, then["length"])):
        said.append(f"names of plugin.toml have at most {now['length']} characters, in 1.0 {then['length']}")
    files = {f"{name}={digest}" for name, digest in corpus().items()}
    if then["files"] != files:
        said.append(f"a manifest of 1.0 (v1/manifests) has changed: {sorted(then['files'] ^ files)}")
    text = "".join((V1 / "manifests" / name).read_text() for name in corpus())
    said += [f"no manifest of v1/manifests has the key {key}" for key in sorted(then["keys"])
             if not re.search(rf"\b{key}\b", re.sub(r"#.*|\"[^\"]*\"", "", text))]
    return said


def broken(of):
    return of_kinds(of["kinds"]) + of_manifests(of)


# What the host may not do: file, text, its replacement, and what must be said.
MUTATIONS = {
    "a slot of stages becomes required": ("kinds", r"finish\? ", "finish ", "finish of stage is required"),
    "the start of a stage becomes required": ("kinds", r"start\?", "start", "start of stage is required"),
    "a stage's table must be longer": ("kinds", r"STAGE, 64", "STAGE, 72", "the table of stage must have 72 bytes"),
    "a slot of storages becomes required": ("kinds", r"interrupt\?", "interrupt", "interrupt of storage is required"),
    "a storage's table must be longer": ("kinds", r"STORAGE, 104", "STORAGE, 112",
                                         "the table of storage must have 112 bytes"),
    "a slot of losses becomes required": ("kinds", r"level\?", "level", "level of loss is required"),
    "a loss's table must be longer": ("kinds", r"LOSS, 64", "LOSS, 72", "the table of loss must have 72 bytes"),
    "a sampler's table must be longer": ("kinds", r"SAMPLER, 40", "SAMPLER, 48",
                                         "the table of sampler must have 48 bytes"),
    "a new slot of samplers is required": ("kinds", r"levels sample\"", 'levels sample more"',
                                           "more of sampler is required"),
    "two slots of samplers change places": ("kinds", r"levels sample\"", 'sample levels"',
                                            "the first slots of sampler are"),
    "a sampler's mixture is refused": ("kinds", r"(levels sample\"), \"mix\",\s*\w+", r"\1",
                                       "the number at byte 4 of sampler"),
    "a kind is gone": ("kinds", r'\{"loss", ', '{"objective", ', "the kind loss is gone"),
    "a key is renamed": ("manifest_reader", r'text\("per"\)', 'text("each")', "keys of plugin.toml: ['per']"),
    "a key of a list is gone": ("manifest_reader", r'texts\("formerly"\)', "{}", "keys of plugin.toml: ['formerly']"),
    "inputs have another name": ("manifest_reader", r'tensors\(t, "input"', 'tensors(t, "takes"',
                                 "keys of plugin.toml: ['input']"),
    "a bound is gone": ("manifest_reader", r'number\(t, "above"\)', "{}", "keys of plugin.toml: ['above']"),
    "a key becomes required": ("manifest_reader", r'text\("help"\)', 'text("help", true)',
                               "['help'] of plugin.toml must be there"),
    "the format becomes required": ("manifest", r't\.node\("manifest"\)', 't.missing("manifest"), t.node("manifest")',
                                    "['manifest'] of plugin.toml must be there"),
    "another format": ("manifest.hpp", r"kManifestFormat = 1", "kManifestFormat = 2", "format of plugin.toml: ['1']"),
    "a tier is gone": ("manifest", r'"pinned"', '"torch"', "tiers of plugin.toml: ['pinned']"),
    "a type of options is gone": ("option_value", r'"paths"\}', '"path_list"}', "types of plugin.toml: ['paths']"),
    "a dtype is gone": ("tensor_rules", r'"bfloat16"', '"bf16"', "dtypes of plugin.toml: ['bfloat16']"),
    "names have fewer letters": ("manifest_reader", r"0123456789-_\.", "0123456789-_", "letters of plugin.toml: ['.']"),
    "names are shorter": ("manifest_reader", r"s\.size\(\) <= 64", "s.size() <= 32", "names of plugin.toml"),
}


def check(root):
    """Requires that all is kept, and that each mutation is found. Returns their number."""
    of = sources(root)
    assert not (said := broken(of)), "\n".join(["the host breaks the promise of ABI 1.0:", *said])
    for name, (file, old, new, words) in MUTATIONS.items():
        text, n = re.subn(old, new, of[file])
        assert n, f"'{old}' is not in {file}: choose another mutation"
        said = broken({**of, file: text})
        assert any(words in line for line in said), f"{name}: not found; said: {said}"
    return len(MUTATIONS)
