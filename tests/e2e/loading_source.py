#!/usr/bin/env python3
"""Training data that a plugin's source gives instead of shards: the order, at any number of ranks and after a resume,
the bytes, subsets and blends.
The source is the one of the SDK's template, the lines of a text file.
usage: loading_source.py KINORA ROOT SCRATCH PLUGINS"""
import hashlib, io, itertools, json, os, pathlib, random, shutil, subprocess, sys, tarfile

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.append(str(ROOT / "packaging/wheel"))
os.environ["KINORA_PLUGIN_PATH"] = sys.argv[4]
os.environ["KINORA_PREFIX"] = str(pathlib.Path(KINORA).resolve().parents[1])
os.environ.setdefault("KINORA_TORCH", str(ROOT / ".deps/torch/torch"))
import kinora

# three shards of 1,024 and less; some are empty
LINES = [hashlib.sha256(str(i).encode()).hexdigest()[:i % 40] for i in range(2500)]
SHUFFLED = '{ source = "lines", path = "lines.txt", shuffle = 100 }'


def run(*command, code=0):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{command}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def order(table, ranks, steps, *more, code=0):
    """The keys that `kinora data order` prints, slot after slot; of an error what it says."""
    file = SCRATCH / "order.toml"
    file.write_text(
        f'[run]\nseed = 3\n[[job]]\nname = "latents"\nkind = "encode"\ninput = {table}\ntokenizer = {{ use = "cosmos" '
        f'}}\n'
                    'tokenizer_weights = "vocab.txt"\ntext_weights = "vocab.txt"\nwords = { use = "text.wordpiece", '
                    'vocab = "vocab.txt" }\ntext = { use = "minilm" }\n')
    said = run(KINORA, "data", "order", file, "latents", "--ranks", ranks, "--steps", steps, "--batch", 20, "--json",
               *more, code=code)
    return [key for line in said.splitlines() if line.startswith("{")
            for key in json.loads(line)["keys"]] if code == 0 else said


def check_order():
    every = [f"line-{i}" for i in range(len(LINES))]
    assert order('{ source = { use = "lines" }, path = "lines.txt" }', 1, 125) == every
    two = order(SHUFFLED, 1, 250)
    assert sorted(two[:2500]) == sorted(two[2500:]) == sorted(every) and two[:2500] != two[2500:]
    assert all(order(SHUFFLED, ranks, 250) == two for ranks in (2, 4))
    draw, state, taken = random.Random(1), SCRATCH / "at.json", []
    while len(taken) < 3000:
        taken += order(SHUFFLED, draw.choice((1, 2, 4, 5)), draw.randint(10, 60), "--save-state", state,
                       *(("--state", state) if taken else ()))
    assert taken == (two + order(SHUFFLED, 1, 500)[5000:])[:len(taken)]
    (SCRATCH / "lines.txt").write_text("\n".join(LINES[:-1]) + "\n")
    assert "the position is of other data" in order(SHUFFLED, 1, 1, "--state", state, code=2)


def check_bytes():
    """kinora.load gives the lines, also those of a part, and of a blend with shards."""
    text = {f"line-{i}": line.encode() for i, line in enumerate(LINES[:-1])}
    table = {"source": "lines", "path": SCRATCH / "lines.txt", "shuffle": 64}
    with kinora.load(table, 7) as loader:
        assert len(loader) * 7 >= len(text)
        taken = [sample for batch in itertools.islice(loader, len(text) // 7) for sample in batch]
    assert len({sample.key for sample in taken}) == len(taken) == len(text) // 7 * 7
    assert all(sample["txt"] == text[sample.key] for sample in taken)
    share = lambda key: int(hashlib.sha256(key.encode()).hexdigest()[:13], 16) / 2**52
    expected = {key for key in text if share(key) < 0.1}
    with kinora.load({**table, "part": [0.0, 0.1]}, 1) as loader:
        assert {batch[0].key for batch in itertools.islice(loader, len(expected))} == expected
    with tarfile.open(SCRATCH / "s-0.tar", "w") as tar:
        for i in range(10):
            member = tarfile.TarInfo(f"tar-{i}.txt")
            tar.addfile(member, io.BytesIO())
    with kinora.load({"blend": [{**table, "weight": 3}, {"path": SCRATCH / "s-0.tar", "weight": 1}]}, 1) as loader:
        keys = [batch[0].key for batch in itertools.islice(loader, 400)]
    assert 60 < sum(key.startswith("tar-") for key in keys) < 140, keys  # a quarter; the blend shuffles its slots


def check_errors():
    said = order('{ source = "webdataset", path = "s-0.tar" }', 1, 1, code=1)
    assert ("source/webdataset gives its samples only one after the other" in said
            and "the source needs at()" in said), said
    said = order('{ source = "linse", path = "lines.txt" }', 1, 1, code=2)
    assert "order.toml:6:20" in said and "lines" in said, said
    said = order('{ source = { use = "lines", colour = 1 }, path = "lines.txt" }', 1, 1, code=2)
    assert "colour" in said, said
    said = order('{ source = "lines", path = "nolines.txt" }', 1, 1, code=2)
    assert "nolines.txt" in said, said
    said = order('{ source = "lines", blend = [{ path = "s-0.tar" }] }', 1, 1, code=2)
    assert "'source' belongs to a set" in said, said


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    (SCRATCH / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nsea\n")
    (SCRATCH / "lines.txt").write_text("\n".join(LINES))
    check_order()
    check_bytes()
    check_errors()
    print("ok    order, bytes, errors")


main()
