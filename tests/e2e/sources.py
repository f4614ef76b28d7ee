#!/usr/bin/env python3
"""`kinora apply source/webdataset` gives the samples that Python's webdataset reads from the same shards: those of the
shard job, and those that webdataset writes. Parts have every sample once, a state continues exactly, and what is
damaged is named and costs nothing else. usage: sources.py KINORA ROOT SCRATCH"""
import io, json, pathlib, random, shutil, subprocess, sys, tarfile

import webdataset

KINORA, ROOT, SCRATCH = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
sys.path.append(str(ROOT / "tests/support"))
import quick

SHARDS, COUNT = SCRATCH / "shards", 20


def apply(path, *more, code=0):
    done = subprocess.run([KINORA, "apply", "source/webdataset", str(path), "--json", *map(str, more)],
                          capture_output=True, text=True, cwd=SCRATCH, timeout=60)
    assert done.returncode == code, (path, more, done)
    return (json.loads(done.stdout), done.stderr) if done.stdout else ({}, done.stderr)


def keys(*arguments):
    return [s["key"] for s in apply(*arguments)[0]["samples"]]


def by_webdataset(shards):
    """[(key, {field: bytes})] as webdataset reads them."""
    dataset = webdataset.WebDataset([str(s) for s in shards], shardshuffle=False, empty_check=False)
    return [(s["__key__"], {k: v for k, v in s.items() if not k.startswith("__")}) for s in dataset]


def write_shards():
    """Three shards by webdataset's own writer, which the last one makes uneven."""
    draw = random.Random(20)
    SHARDS.mkdir(parents=True)
    with webdataset.ShardWriter(str(SHARDS / "s-%06d.tar"), maxcount=8, verbose=0) as sink:
        for i in range(COUNT):
            sink.write({"__key__": f"in.a/folder/{i:04d}", "txt": f"sample {i}", "json": {"n": i},
                        "a.bin": draw.randbytes(draw.randrange(3000))})


def check_equal_to_webdataset(folder, name):
    expected, out = by_webdataset(sorted(folder.glob("*.tar"))), SCRATCH / f"out-{name}"
    found, _ = apply(folder, "--out", out)
    assert expected and found["ended"] and not found["failed"], (name, found)
    assert [s["key"] for s in found["samples"]] == [key for key, _ in expected], name
    for sample, (key, fields) in zip(found["samples"], expected):
        assert sample["fields"] == {field: len(data) for field, data in fields.items()}, (name, key)
        for field, data in fields.items():
            assert (out / f"{key}.{field}").read_bytes() == data, (name, key, field)
    print(f"{name}: {len(expected)} samples are those of webdataset")
    return found


def check_parts(whole):
    for n in (2, 3, 5):
        parts = [keys(SHARDS, "--part", f"{i}/{n}") for i in range(n)]
        assert sorted(sum(parts, [])) == sorted(whole) and all(parts), (n, parts)


def check_state(whole):
    for part, k in (("0/1", 3), ("1/2", 1), ("4/5", 2)):
        state, found = SCRATCH / f"state-{part.replace('/', '-')}", []
        while True:
            given, _ = apply(SHARDS, "--part", part, "--limit", k, "--state", state)
            found += [s["key"] for s in given["samples"]]
            if given["ended"]:
                break
            assert len(given["samples"]) == k, given
        assert found == keys(SHARDS, "--part", part), (part, found)
    _, said = apply(SHARDS, "--state", state, code=2)
    assert "the state is of part 4 of 5, and this is part 0 of 1" in said, said
    before = state.read_bytes()
    for garbage in (b"", b"\0" * 99, before[:-1], before + b"x", random.Random(1).randbytes(70000)):
        state.write_bytes(garbage)
        _, said = apply(SHARDS, "--part", "4/5", "--state", state, code=2 if len(garbage) < 65536 else 1)
        assert state.read_bytes() == garbage and "kinora: " in said, said


def check_patterns(whole):
    assert keys(f"{SHARDS}/s-{{000000..000002}}.tar") == whole
    assert keys(f"{SHARDS}/s-{{000002,000000}}.tar") == whole[16:] + whole[:8]
    assert keys(SHARDS / "s-000001.tar") == whole[8:16]
    for path, word in ((SCRATCH / "nowhere", "cannot be listed"),
                       (f"{SHARDS}/s-{{2..1}}.tar", "is not a range of numbers")):
        done = subprocess.run([KINORA, "apply", "source/webdataset", str(path)], capture_output=True, text=True)
        assert done.returncode in (1, 2) and word in done.stderr, done


def check_damage(whole):
    folder = SCRATCH / "damaged"
    shutil.copytree(SHARDS, folder)
    with tarfile.open(folder / "a-hostile.tar", "w") as tar:
        for name in ("../out.txt", "/etc/x.txt", "a/./b.txt", "k.txt", "k.txt", "good.txt", "bad.", "c\nd.txt"):
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, io.BytesIO(b"abc"))
    cut = folder / "s-000001.tar"
    cut.write_bytes(cut.read_bytes()[:9000])
    (folder / "t-no-tar.tar").write_bytes(b"no archive" * 100)
    found, said = apply(folder, "--out", SCRATCH / "hostile", code=1)
    got = [s["key"] for s in found["samples"]]
    rest = got[1 + 8:-4]
    assert got[0] == "good" and got[1:9] == whole[:8] and got[-4:] == whole[16:] and rest == whole[
        8:8 + len(rest)] and 0 < len(rest) < 8, got
    for word in ("a-hostile.tar: sample key '../out'", "a-hostile.tar: entry 5 is a second 'k.txt'",
                 "s-000001.tar: entry", "t-no-tar.tar: not a tar archive"):
        assert sum(word in line for line in found["failed"]) == 1, (word, found["failed"])
    assert len(found["failed"]) == 8 and "(and 7 more)" in said, found["failed"]
    assert not (SCRATCH / "out.txt").exists() and {p.name for p in (SCRATCH / "hostile").iterdir()} == {
        "good.txt", "in.a"}


def check_flags():
    for more, word in ((["--part", "2/2"], "--part 2/2"), (["--part", "x"], "--part x"),
                       (["--inputs", "x.safetensors"], "leave out --inputs"), (["--method", "m"], "no methods")):
        assert word in apply(SHARDS, *more, code=2)[1], more
    done = subprocess.run([KINORA, "apply", "stage/video.probe", "x.mp4", "--limit", "3"], capture_output=True,
                          text=True)
    assert done.returncode == 2 and "--limit is for sources" in done.stderr, done
    assert len(apply(SHARDS, "--set", "max_sample=8", code=1)[0]["failed"]) == COUNT


shutil.rmtree(SCRATCH, ignore_errors=True)
write_shards()
made = check_equal_to_webdataset(quick.begun(KINORA, ROOT, SCRATCH / "run") / "shards", "the shard job")
assert made["count"] == len(made["samples"]), made
whole = [s["key"] for s in check_equal_to_webdataset(SHARDS, "ShardWriter")["samples"]]
assert len(whole) == COUNT
for check in (check_parts, check_state, check_patterns, check_damage):
    check(whole)
check_flags()
