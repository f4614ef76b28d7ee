#!/usr/bin/env python3
"""The pages of docs/formats/ say what is in real files: their tables have the columns, members and tensors of a small
run's files, no more and no fewer, their examples are what the commands next to them make, and what they say of digests,
scales and codes holds in NumPy. usage: formats.py KINORA ROOT SCRATCH"""
import hashlib, json, math, os, pathlib, re, shlex, shutil, sqlite3, struct, subprocess, sys, tomllib, types

import numpy as np

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve()
sys.path.append(str(ROOT / "tests/support"))
import hdf5, quick
from pages import blocks, commands_of

QUICK = SCRATCH.parent / "quick"  # the fixture "quick"; only read here


def text_of(page):
    return (ROOT / "docs/formats" / page).read_text()


def tables(text, head):
    """The tables whose first heads are these: [(heading before it, rows of cells)]."""
    out, heading = [], ""
    for part in re.split(r"(?m)^(?=#+ )", text):
        heading = part.split("\n")[0].strip("# `")
        for found in re.findall(rf"(?m)^\| {re.escape(head)} .*\n\|[-|]+\n((?:\|.*\n)+)", part):
            out.append((heading,
                        [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found.splitlines()]))
    assert out, head
    return out


def named(rows):
    """The names in backquotes of the first cells, in order."""
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])]


def code_of(text, language):
    return [code for _, found, code in blocks(text) if found == language]


def command_of(text, start):
    found = [command for _, command in commands_of(text) if command.startswith(start)]
    assert len(found) == 1, found
    return found[0]


def kinora(*arguments):
    done = subprocess.run([KINORA, *map(str, arguments)], cwd=SCRATCH, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def check_record():
    text, db = text_of("record.md"), sqlite3.connect(f"file:{QUICK}/clips/record.db?mode=ro", uri=True)
    said = {heading: [(named([row])[0], row[1]) for row in rows] for heading, rows in tables(text, "column | type")}
    found = {name: [(column[1], column[2]) for column in db.execute(f"PRAGMA table_info({name})")]
             for name, in db.execute(
                 "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")}
    assert said == found, (said, found)
    version, = db.execute("SELECT version FROM job").fetchone()
    assert f"version of this format, now {version} |" in text, version
    metadata, size, time = db.execute("SELECT identity FROM input").fetchone()[0].split("-")
    assert re.fullmatch("[0-9a-f]{32}",
                        metadata) and int(size) == (ROOT / "tests/data/film.mp4").stat().st_size and int(
                            time) > 10**18, metadata
    query = shlex.split(command_of(text, "sqlite3 "))[2]
    rows = ["|".join("" if value is None else str(value) for value in row) for row in db.execute(query)]
    assert rows == code_of(text, "text")[0].splitlines(), rows
    lines = [json.loads(line) for line, in db.execute("SELECT line FROM outcome")]
    of_file = [json.loads(line) for line in (QUICK / "clips/items.jsonl").read_text().splitlines()]
    assert sorted(lines, key=str) == sorted(of_file, key=str), "items.jsonl is not the record's lines"


def curated(text):
    """The lines of the page's small run."""
    folder = SCRATCH / "curated"
    (folder / "tests").mkdir(parents=True)
    (folder / "tests/data").symlink_to(ROOT / "tests/data")
    (folder / "small.toml").write_text(code_of(text, "toml")[0])
    *prepare, run = [command for _, command in commands_of(text)][2:]
    subprocess.run(["bash", "-ec", "\n".join(prepare)], cwd=folder, check=True)
    assert run == "kinora run small.toml", run
    subprocess.run([KINORA, "run", "small.toml", "--out", "out"], cwd=folder, capture_output=True, timeout=120)
    return [json.loads(line) for line in (folder / "out/clips/items.jsonl").read_text().splitlines()]


def check_items():
    text = text_of("items.md")
    rows = tables(text, "member | type | present")[0][1]
    said = {named([row])[0]: row[2] for row in rows}
    lines = [json.loads(line) for line in (QUICK / "clips/items.jsonl").read_text().splitlines()]
    assert [line["key"] for line in lines[:2]] == ["film", "film-0000"] and len(lines) == 13, lines
    others = curated(text)
    assert sorted(line["end"] for line in others) == ["failed", "filtered", "filtered"], others
    sources = [(ROOT / "plugins/jobs" / name).read_text() for name in ("curation/items.cpp", "curate/ingest.cpp")]
    unread = re.search(r"json unread_line\(.*?^}", sources[0], re.S | re.M)[0]
    written = {name for source in sources
               for name in re.findall(r'\bline\["(\w+)"\]', source)} | set(re.findall(r'\{"(\w+)", ', unread))
    assert set(said) == written, set(said) ^ written
    for line in lines + others:
        assert list(line) == sorted(line) and set(line) <= set(said), line
        for name, when in said.items():
            expected = {"always": True, "filtered": line["end"] == "filtered",
                        "filtered, failed": line["end"] != "kept", "an input": "parent" not in line,
                        "made of one input": line["key"].startswith("film-"),
                        "rule `ingest.duplicate`": line.get("reason") == "ingest.duplicate"}.get(when)
            expected = line["end"] == "failed" if name == "status" else expected
            assert expected is None or expected == (name in line), (name, when, line)
    assert {line.get("status")
            for line in others
            if line["end"] == "failed"} <= set(re.findall(r"`([\w ]+)`",
                                                          dict((named([r])[0], r[3]) for r in rows)["status"])), others
    shown = json.loads(code_of(text, "json")[0])
    for example, real in zip(shown, others, strict=True):
        facts = {name: real["facts"][name] for name in example["facts"]}
        assert {**real, "facts": facts,
                "url": example["url"]} == example and pathlib.Path(real["url"]).name == pathlib.Path(
                    example["url"]).name, real


def check_latents():
    text, file = text_of("items.md"), hdf5.File(QUICK / "latents/latents.h5")
    assert file.attributes() == sorted(named(tables(text, "attribute")[0][1])), file.attributes()
    assert json.loads(file.text("kinora.latents")) == {"job": "latents"}
    raw, _, filters = file.read("keys", np.uint8)
    keys = json.loads(raw.tobytes())
    assert filters == [hdf5.FLETCHER32] and sorted(keys) == file.names("samples"), keys
    assert all(re.fullmatch(r"film-\d{4}@\d+", key) for key in keys), keys
    said, digest, latents = named(tables(text, "dataset")[0][1]), "", []
    encoder = (ROOT / "plugins/jobs/windows/window_encoder.cpp").read_text()
    assert set(said) == {"latent", "codes", "text"} | set(re.findall(r'\bout\["(\w+)"\]', encoder)), said
    for key in keys:
        names = file.names(f"samples/{key}")
        assert names == ["latent", "text"] and set(names) <= set(said), names
        sample = [digest, key]
        for name in names:
            data, chunk, filters = file.read(f"samples/{key}/{name}", np.float32)
            assert filters == [hdf5.FLETCHER32] and chunk[1:] == list(data.shape[1:]) and np.prod(chunk) * 4 <= 2**20, (
                name, chunk, filters)
            sample.append([name, "Float", list(data.shape), sha256(data.tobytes())])
            if name == "latent":
                latents.append(data.astype(np.float64))
        digest = sha256(json.dumps(sample, separators=(",", ":")).encode())
    assert digest == file.text("kinora.digest"), digest
    facts = json.loads((QUICK / "latents/latents.json").read_text())
    assert sorted(facts) == sorted(named(tables(text, "member")[-1][1])), sorted(facts)
    check_snippet(text, facts)
    x = np.stack(latents, 1).reshape(len(latents[0]), -1)
    assert facts["latent_shape"] == list(latents[0].shape) and np.allclose(
        facts["mean"], x.mean(1), rtol=1e-9, atol=1e-12), facts["mean"]


class Datasets:
    """What the page's snippet uses of h5py, which the tests' Python lacks, by the tests' own reader."""

    def __init__(self, file, at=""):
        self.file, self.at = file, at

    def __getitem__(self, name):
        at = f"{self.at}/{name}"
        if name in ("keys", "latent"):
            return self.file.read(at, np.uint8 if name == "keys" else np.float32)[0]
        return Datasets(self.file, at)


def check_snippet(text, facts):
    """The snippet runs on the fixture's file, and the shape in its comment is that of the quickstart's settings."""
    lines = [line for line in code_of(text, "python")[0].splitlines() if line]
    *begin, last = [line.replace("runs/quickstart", str(QUICK)) for line in lines]
    opened = types.ModuleType("h5py")
    opened.File = lambda path: Datasets(hdf5.File(path))
    sys.modules["h5py"] = opened
    exec("\n".join(begin), names := {})
    shape, comment = eval(last, names), eval(last.split("#")[1])
    assert list(shape) == facts["latent_shape"], (shape, facts)
    job = next(job for job in tomllib.loads((ROOT / "configs/quickstart.toml").read_text())["job"]
               if job["name"] == "latents")
    small = dict(line.removeprefix("latents.").split("=") for line in quick.FEW if line.startswith("latents."))
    time = (int(small["frames"]) - 1) // (shape[1] - 1)
    rows, columns = int(small["height"]) // shape[2], int(small["width"]) // shape[3]
    assert comment == (shape[0], 1 + (job["frames"] - 1) // time, job["height"] // rows,
                       job["width"] // columns), comment
    assert (f"a window has {job['frames']} frames of {job['height']} x {job['width']} pixels, and its latent "
            f"{comment[0]} channels of {' x '.join(map(str, comment[1:]))}." in text)


def trained():
    """The page's example: the folder of the checkpoint of a short training on the fixture's latents."""
    out = quick.begun(KINORA, ROOT, SCRATCH / "trained")
    sets = [*quick.FEW, "dit.model.layers=1", "dit.steps=2", "dit.batch=1"]
    kinora("run", ROOT / "configs/quickstart.toml", "--out", out, "--only", "dit",
           *[word for line in sets for word in ("--set", line)])
    return out / "dit/checkpoints/step-000002"


def expect_alike(real, example, at="state.json"):
    """Equal, but for digests and for the last digits of what was computed."""
    assert type(real) is type(example), (at, real, example)
    if isinstance(real, dict):
        assert real.keys() == example.keys(), (at, real, example)
        for name in real:
            expect_alike(real[name], example[name], f"{at}: {name}")
    elif isinstance(real, list):
        assert len(real) == len(example), (at, real, example)
        for n, (one, other) in enumerate(zip(real, example)):
            expect_alike(one, other, f"{at} {n}")
    elif isinstance(real, float):
        assert math.isclose(real, example, rel_tol=1e-3), (at, real, example)
    else:
        assert real == example or at.endswith(": sha256"), (at, real, example)


def check_checkpoint():
    text = text_of("checkpoint.md")
    folder = trained()
    state, example = json.loads((folder / "state.json").read_text()), json.loads(code_of(text, "json")[0])
    expect_alike(state, example)
    (_, rows), = tables(text, "member")
    assert sorted(named(rows)) == sorted(state), sorted(state)
    kinds = {"int": int, "float": float, "text": str, "object": dict, "object or null": (dict, type(None))}
    for row in rows:
        name = named([row])[0]
        assert isinstance(state[name], kinds[row[1]]), (name, row[1], state[name])
    assert f"version of this format, now {state['format']} |" in text
    assert {name: {"bytes": len(data), "sha256": sha256(data)}
            for file in folder.iterdir() if (name := file.name) != "state.json"
            for data in [file.read_bytes()]} == state["files"]
    said = [name.replace("DECAY", "0.98") for name in named(tables(text, "file")[0][1]) if name.endswith("tensors")]
    assert set(state["files"]) == set(said) - {"more.safetensors"}, said
    source = (ROOT / "plugins/jobs/training/sharded_files.hpp").read_text()
    shard_size = re.search(r"kShardSize = ([0-9]+(?:.[0-9]{3})*);", source)[1].replace("'", "")
    assert f"{int(shard_size):,} bytes" in text
    headers = {name: header_of(folder / name) for name in state["files"]}
    weights, moments, average = (headers[name]
                                 for name in ("weights.safetensors", "optimizer.safetensors", "ema-0.98.safetensors"))
    assert weights["__metadata__"] == average["__metadata__"] == {"format": "pt"} and weights.keys() == average.keys()
    assert moments.keys() == {f"{moment}.{name}" for moment in ("first", "second")
                              for name in weights if name != "__metadata__"}
    assert all(moments[name]["dtype"] == "F32" for name in moments)
    check_sigma_example(text, example)
    check_more_networks(text)


CRITIC = """[run]
[[job]]
name = "tokenizer"
kind = "train-tokenizer"
input = "SHARDS"
tokenizer = { use = "cosmos", encoder_block_out_channels = [4, 8, 8], decode_block_out_channels = [4, 8, 8] }
critic = { use = "patch-discriminator", channels = 4, layers = 2 }
critic_start = 1
frames = 5
every = 2
height = 32
width = 48
steps = 3
batch = 1
"""


def check_more_networks(text):
    """more.safetensors of a tokenizer's training with a critic: the tensors of the page's table, no more and no
    fewer, for each of the critic's parameters."""
    (SCRATCH / "critic.toml").write_text(CRITIC.replace("SHARDS", str(QUICK / "shards")))
    kinora("run", SCRATCH / "critic.toml", "--out", SCRATCH / "critic")
    folder = SCRATCH / "critic/tokenizer/checkpoints/step-000003"
    state, more = json.loads((folder / "state.json").read_text()), header_of(folder / "more.safetensors")
    assert "more.safetensors" in state["files"] and state["optimizer_steps"] == 3, state
    parameters = {f"layers.{layer}.conv.{part}" for layer in range(4) for part in ("weight", "bias")}
    (_, rows), = tables(text[text.index("## More networks"):], "tensor | dtype")
    said = {}
    for row in rows:
        for state_name in ("first", "second") if "STATE" in row[0] else ("",):
            name = named([row])[0].replace("STATE", state_name)
            said |= {name.replace("NAME", p): row[1] for p in (parameters if "NAME" in name else {""})}
    assert said.keys() == more.keys(), said.keys() ^ more.keys()
    for name, kind in said.items():
        expected = ("I64", [1]) if kind == "int64 [1]" else ("F32", more[name.replace("first", "weight").replace(
            "second", "weight")]["shape"])
        assert (more[name]["dtype"], more[name]["shape"]) == expected, (name, kind, more[name])
    steps, = bytes_of(folder / "more.safetensors", "critic.steps").view(np.int64)
    assert steps == 2, (steps, "the first step is before critic_start")
    grammar = code_of(text, "text")[1]
    for part in re.findall(r"N\.([\w-]+)", grammar):  # in the table, or in the sentence about averages
        assert f"critic.{part}" in text or f"N.{part}" in text.replace(grammar, ""), part


def check_sigma_example(text, example):
    """The intervals of loss_by_sigma as the text names them: half a decade each from 0.01."""
    first, second = (n for n, count in enumerate(example["loss_by_sigma"]["count"]) if count)
    assert len(example["loss_by_sigma"]["sum"]) == 8 and first + 1 == second
    edges = [f"{10 ** (n / 2 - 2):.2g}" for n in (first, first + 1, first + 2)]
    said = f"ratio of {edges[1]} to {edges[2]}, where it weighs 0.99 now; the second at {edges[0]} to {edges[1]}."
    assert said in text.replace("\n", " "), edges


def header_of(path):
    data = path.read_bytes()
    return json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])


def bytes_of(path, name):
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    begin, end = json.loads(data[8:8 + size])[name]["data_offsets"]
    return np.frombuffer(data[8 + size + begin:8 + size + end], np.uint8)


def e4m3(byte):
    exponent, mantissa = byte >> 3 & 15, byte & 7
    return (-1.0 if byte & 128 else 1.0) * (math.ldexp(1 + mantissa / 8,
                                                       exponent - 7) if exponent else math.ldexp(mantissa / 8, -6))


def check_packed():
    text = text_of("packed.md")
    e2m1 = [float(number) for number in re.search(r"\| E2M1, codes 0 to 7 \| ([^|]+) \|", text)[1].split(", ")]
    code, = code_of(text, "python")
    os.chdir(SCRATCH)
    exec(code, found := {})
    row = found["row"]
    convert = shlex.split(command_of(text, "kinora convert two"))[1:]
    kinora(*convert)
    kinora(*[word.replace("four.", "long.") for word in convert], "--format", "longlive")
    shown = [re.split(r" {2,}", line) for line in code_of(text, "text")[0].splitlines()]
    header = header_of(SCRATCH / "four.safetensors")
    assert [(name, header[name]["dtype"], str(header[name]["shape"]),
             bytes_of(SCRATCH / "four.safetensors", name).tobytes().hex(" "))
            for name in header if name != "__metadata__"] == [
        tuple(line) for line in shown], header
    codes, scales = (bytes_of(SCRATCH / "four.safetensors", f"layer.weight_{part}") for part in ("packed", "scale"))
    q = np.array([-e2m1[code - 8] if code > 7 else e2m1[code] for byte in codes
                  for code in (byte & 15, byte >> 4)]).reshape(2, 16)
    g = bytes_of(SCRATCH / "four.safetensors", "layer.weight_global_scale").view(np.float32)[0]
    assert np.array_equal(q * np.array([e4m3(int(s)) for s in scales])[:, None] / g,
                          np.stack([row, row / 2])) and g == 448, q
    said = [row for _, rows in tables(text, "tensor | dtype") for row in rows]
    long = header_of(SCRATCH / "long.safetensors")
    of_files = {name.replace("layer.", "X."): value["dtype"] for header in (header, long)
                for name, value in header.items() if name != "__metadata__"}
    assert {named([row])[0]: row[1] for row in said} == of_files, of_files
    assert sorted(header["__metadata__"]) == sorted(long["__metadata__"]) == sorted(
        named(tables(text, "key")[0][1])), header["__metadata__"]
    eight = named(tables(text, "scale of the codes")[0][1])
    joined = (ROOT / "host/weights/scaled_weight.cpp").read_text()
    endings = re.findall(r'\{"([._\w]+)", "[.\w]*"\}', joined) + ["_weight_tensor"]
    assert len(endings) == 6 and all(any(name.endswith(ending) for ending in endings + ["._data"])
                                     for name in eight), (eight, endings)
    assert all(any(name.endswith(ending) for name in eight) for ending in endings), (eight, endings)
    # LongLive's: value = q * s * A / m, of padded rows, with scales in tiles.
    values, tiles = (bytes_of(SCRATCH / "long.safetensors", f"layer.quantized_weight_{part}")
                     for part in ("values", "scale_factors"))
    amax = bytes_of(SCRATCH / "long.safetensors", "layer.quantized_weight_amax").view(np.float32)[0]
    assert bytes_of(SCRATCH / "long.safetensors",
                    "layer.quantized_weight_metadata").view(np.int32).tolist() == [2, 16, 128, 64]
    for at in range(2):
        codes = values.reshape(128, 32)[at, :8]
        q = np.array([-e2m1[code - 8] if code > 7 else e2m1[code] for byte in codes for code in (byte & 15, byte >> 4)])
        assert np.array_equal(q * e4m3(int(tiles[at % 32 * 16 + at % 128 // 32 * 4])) * amax / 2688, row / (at + 1)), at


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
if not (QUICK / "latents/summary.json").exists():
    quick.make(KINORA, ROOT, QUICK)
check_record()
check_items()
check_latents()
check_checkpoint()
check_packed()
print("formats: all checks passed")
