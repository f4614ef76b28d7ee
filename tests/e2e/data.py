#!/usr/bin/env python3
"""kinora data on shards of Python's tarfile and webdataset: the index against an own computation, a killed indexer,
verify, inspect and preview. With --time: how long an index takes against reading the files once, out of the page cache,
for a million small samples and for media; --time-short: for a tenth of the small ones and half of the media. usage:
data.py [--time | --time-short] KINORA ROOT SCRATCH"""
import io, json, os, pathlib, re, shutil, signal, sqlite3, struct, subprocess, sys, tarfile, time

KINORA, ROOT, SCRATCH = sys.argv[-3], pathlib.Path(sys.argv[-2]), pathlib.Path(sys.argv[-1]).resolve()
SHARDS = SCRATCH / "shards"
MEDIUM = (ROOT / "tests/data/bbb_D.mp4").read_bytes()
NAME, NOTE = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$"), re.compile(r"__[^/]*__($|/)")  # Energon's


def kinora(*arguments, code=0, **more):
    done = subprocess.run([KINORA, "data", *map(str, arguments)], capture_output=True, text=True, timeout=60, **more)
    assert done.returncode == code, done
    return done.stdout


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def add_all(path, files):
    with tarfile.open(path, "w") as tar:
        for name, data in files:
            add(tar, name, data)


def make():
    """Shards of three formats, one below another folder, with long and foreign names, notes, folders and links between
    the samples."""
    shutil.rmtree(SCRATCH, ignore_errors=True)
    (SHARDS / "deep").mkdir(parents=True)
    for name, form in (("000.tar", tarfile.PAX_FORMAT), ("001.tar", tarfile.GNU_FORMAT),
                       ("deep/a-0.tar", tarfile.USTAR_FORMAT)):
        with tarfile.open(SHARDS / name, "w", format=form) as tar:
            stem = name[:-4].replace("/", "-")
            folder = tarfile.TarInfo("folder")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
            add(tar, "__notes__/a.txt", b"not a sample")
            for i in range(40):
                key = f"folder.x/{stem}-{i}" if i % 2 else f"{stem}-{i}"
                if form != tarfile.USTAR_FORMAT and i % 7 == 0:
                    key = "d" * 120 + "/" + "k" * 110 + f"-café-{stem}-{i}"
                add(tar, key + ".json", json.dumps({"fps": 24 + i, "caption": f"sample {i}", "tags": ["a"]}).encode())
                if i == 3:
                    link = tarfile.TarInfo("link.txt")
                    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
                    tar.addfile(link)
                add(tar, key + ".mp4", MEDIUM if i < 1 else b"")
                add(tar, key + ".shots.json", b"[]")
    try:
        import webdataset
    except ImportError:
        print("webdataset is not installed: its shard is left out")
        return
    with webdataset.TarWriter(str(SHARDS / "web.tar")) as writer:
        for i in range(30):
            writer.write({"__key__": f"web-{i}", "json": {"n": i}, "mp4": b"x" * i, "shots.json": [i]})


def by_tarfile(path):
    """[key, offset, size, [(part, offset, size)]] of each sample and the end of the last, as Energon's prepare computes
    them."""
    samples = []
    with tarfile.open(path, "r:") as tar:
        for member in tar:
            found = NAME.match(member.name)
            if not member.isreg() or NOTE.match(member.name) or not found:
                continue
            if not samples or samples[-1][0] != found[1]:
                if samples:
                    samples[-1][2] = member.offset - samples[-1][1]
                samples.append([found[1], member.offset, None, []])
            samples[-1][3].append((found[2], member.offset_data, member.size))
        if samples:
            samples[-1][2] = tar.offset - samples[-1][1]
        return samples, tar.offset


def check_index(folder):
    """Compares .tar.idx, .info.json and index.sqlite (by Energon's queries) with tarfile."""
    shards = sorted(str(p.relative_to(folder)) for p in folder.rglob("*.tar"))
    info = json.loads((folder / ".nv-meta/.info.json").read_text())["shard_counts"]
    assert list(info) == shards, info
    database = sqlite3.connect(f"file:{folder}/.nv-meta/index.sqlite?mode=ro", uri=True)
    for number, name in enumerate(shards):
        samples, end = by_tarfile(folder / name)
        assert info[name] == len(samples)
        index = (folder / f"{name}.idx").read_bytes()
        assert list(struct.unpack(f"<{len(index) // 8}Q", index)) == [s[1] for s in samples] + [end], name
        rows = database.execute(
            "SELECT sample_key, byte_offset, byte_size FROM samples WHERE tar_file_id = ? ORDER BY sample_index",
            (number,)).fetchall()
        assert rows == [tuple(s[:3]) for s in samples], name
        for i, (key, _, _, parts) in enumerate(samples):
            found = database.execute(
                "SELECT part_name, content_byte_offset, content_byte_size FROM sample_parts WHERE tar_file_id = ? AND "
                "sample_index = ? "
                                     "ORDER BY content_byte_offset", (number, i)).fetchall()
            assert found == parts, (name, key)
            assert database.execute("SELECT tar_file_id, sample_index FROM samples WHERE sample_key = ?",
                                    (key,)).fetchall() == [(number, i)]
    indexes = {
        row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")}
    assert indexes == {"idx_samples_by_tar_and_idx", "idx_sample_parts_seq", "idx_sample_parts_full"}, indexes
    return sum(info.values())


def check_split(folder):
    import yaml, braceexpand
    split = yaml.safe_load((folder / ".nv-meta/split.yaml").read_text())
    named = [name for part in split["split_parts"].values() for text in part for name in braceexpand.braceexpand(text)]
    assert sorted(named) == sorted(str(p.relative_to(folder)) for p in folder.rglob("*.tar")), named
    assert split["exclude"] == []


def files(folder):
    """Contents by name, without the hidden temporary files of killed processes."""
    return {str(p.relative_to(folder)): p.read_bytes()
            for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".kinora-tmp-")}


def killed_and_resumed():
    """An indexer that is killed at any moment leaves files with which the next one ends as if nothing had happened."""
    folder = SCRATCH / "many"
    folder.mkdir()
    for n in range(60):
        with tarfile.open(folder / f"s-{n:03}.tar", "w") as tar:
            for i in range(30):
                add(tar, f"{n}-{i}.txt", b"x" * i)
    kinora("index", folder)
    wanted = files(folder)
    kills = 0
    for delay in (0.01, 0.02, 0.03, 0.04, 0.06, 0.08):
        shutil.rmtree(folder / ".nv-meta")
        for file in folder.glob("*.idx"):
            file.unlink()
        process = subprocess.Popen([KINORA, "data", "index", str(folder), "--threads", "2"], stdout=subprocess.DEVNULL)
        before = time.monotonic()  # from the first index on
        while not list(folder.glob("*.idx")) and process.poll() is None and time.monotonic() < before + 20:
            time.sleep(0.002)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        parts = len(list(folder.glob(".nv-meta/kinora.part-*")))
        said = kinora("index", folder, "--threads", 2)
        assert "60 shards, 1800 samples, 0 damaged" in said, said
        assert not parts or re.search("not read again|was current", said), (parts, said)
        assert files(folder) == wanted
    assert kills, "no kill came in time"
    assert "the index was current" in kinora("index", folder)
    print(f"{kills} killed indexers continued")


def damaged():
    folder = SCRATCH / "damaged"
    folder.mkdir()
    shutil.copy(SHARDS / "000.tar", folder / "good.tar")
    whole = (SHARDS / "001.tar").read_bytes()
    (folder / "cut.tar").write_bytes(whole[:-30100])
    said = kinora("index", folder, code=1)
    assert re.search(r"^cut\.tar: after '.*' at \d+: entry \d+ is (truncated|damaged)", said,
                     re.M) and "2 shards, " in said and "1 damaged" in said, said
    seen = kinora("inspect", folder, code=1)
    assert re.search(
        r"^cut\.tar: after '.*' at \d+: entry \d+ .*; .* "
        r"\(\d+ whole samples before it and '.*', which may lack fields; the file has \d+ bytes\)$", seen, re.M), seen
    said = kinora("verify", folder, "--optional", "mp4", code=1)
    assert re.search(r"^cut\.tar: after '.*' at \d+: ", said,
                     re.M) and re.search(r"^good\.tar: \S+ at \d+: the field mp4 is empty; ", said, re.M), said


def split_of_others():
    """A split.yaml that PyYAML wrote keeps its parts, loses shards that are gone and gets new ones."""
    import yaml
    folder = SCRATCH / "split"
    folder.mkdir()
    write = lambda n: add_all(folder / f"s-{n:03}.tar", [(f"{n}-{i}.txt", b"x") for i in range(2)])
    for n in range(5):
        write(n)
    kinora("index", folder)
    file = folder / ".nv-meta/split.yaml"
    file.write_text(yaml.dump({"exclude": ["s-001.tar/1-0", "s-003.tar/3-1"],
                               "split_parts": {"train": ["s-{000..002}.tar"], "test it's": ["s-003.tar"]}},
                              sort_keys=False))
    (folder / "s-001.tar").unlink()
    write(5)
    done = subprocess.run([KINORA, "data", "index", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0 and "2 names without a shard removed, 1 shard added to train" in done.stderr, done
    assert yaml.safe_load(file.read_text()) == {"split_parts": {"train": ["s-000.tar", "s-002.tar", "s-005.tar"],
                                                                "test it's": ["s-003.tar"]},
                                               "exclude": ["s-003.tar/3-1"]}, file.read_text()
    assert "the index was current" in kinora("index", folder)


def large(folder, samples, shards, size):
    """Shards of samples of three fields, the largest with `size` bytes."""
    folder.mkdir(parents=True)
    fields = [(".jpg", b"x" * size), (".json", b'{"fps": 24}'), (".txt", b"a caption")]
    for n in range(shards):
        with open(folder / f"s-{n:03}.tar", "wb") as out:
            for i in range(samples // shards):
                for ending, data in fields:
                    info = tarfile.TarInfo(f"{n:03}-{i:06}{ending}")
                    info.size = len(data)
                    out.write(info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512))
            out.write(bytes(10240))
            out.flush()
            os.fsync(out.fileno())
    print(f"{samples:,} samples, {sum(f.stat().st_size for f in folder.iterdir()) / 2**30:.2f} GiB", flush=True)


def timed(*command):
    """(seconds, seconds of processor time, MB of memory at most)"""
    begun = time.monotonic()
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return time.monotonic() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def time_index():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    parts = 10 if "--time-short" in sys.argv else 1
    for name, samples, shards, size, rounds, bound in (("small", 1_000_000 // parts, 100 // parts, 1500, 3, 6),
                                                       ("media", 2000 // min(parts, 2), 20 // min(parts, 2), 1_000_000,
                                                        5, 2)):
        folder = SCRATCH / name
        large(folder, samples, shards, size)
        of_cat = []
        for _ in range(rounds):
            results = []
            for command in (("cat", *sorted(folder.glob("*.tar"))), (KINORA, "data", "index", folder, "--again")):
                for file in folder.glob("*.tar"):  # out of the page cache
                    with open(file, "rb") as opened:
                        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                results.append(timed(*command))
            (cat, _, _), (index, spent, memory) = results
            of_cat.append(index / cat)
            assert memory < 250, memory
            print(
                f"cat {cat:.2f} s; index {index:.2f} s ({index / cat:.2f} times), {spent:.2f} s of processor time, "
                f"{memory:.0f} MB", flush=True)
        again = timed(KINORA, "data", "index", folder)
        print(f"again {again[0]:.2f} s, {again[2]:.0f} MB", flush=True)
        assert min(of_cat) < bound and again[0] < index, (name, of_cat, again)
        shutil.rmtree(folder)


def refused_shards():
    """Sparse files in archives, and broken JSON."""
    sparse = SCRATCH / "sparse"
    sparse.mkdir()
    with open(sparse / "b.bin", "wb") as file:
        file.truncate(1 << 20)
        file.seek(1 << 20)
        file.write(b"end")
    (sparse / "a.txt").write_bytes(b"1")
    subprocess.run(["tar", "-C", sparse, "--sparse", "-cf", sparse / "a.tar", "a.txt", "b.bin"], check=True)
    add_all(sparse / "b.tar", [("c.txt", b"1")])
    for part in ("index", "inspect", "verify"):
        said = kinora(part, sparse, code=1)
        assert re.search(r"^a\.tar: at 1024: entry 2 is a sparse file; pack it without --sparse \(0 whole", said,
                         re.M), said
    assert json.loads((sparse / ".nv-meta/.info.json").read_text())["shard_counts"] == {"a.tar": 0, "b.tar": 1}

    broken = SCRATCH / "broken"
    broken.mkdir()
    add_all(broken / "b.tar", [("x.txt", b"1"), ("x.json", b"{}"), ("y.txt", b"1"), ("y.json", b"{,}")])
    line = "b.tar: y at 2048: the field json is not JSON; write it again\n"
    assert kinora("inspect", broken, code=1).endswith(line)
    assert line in kinora("preview", broken, "--out", SCRATCH / "broken.html", code=1)


def main():
    make()
    said = kinora("index", SHARDS, "--val", "0.3")
    samples = check_index(SHARDS)
    assert f"{len(list(SHARDS.rglob('*.tar')))} shards, {samples} samples, 0 damaged" in said, said
    check_split(SHARDS)
    killed_and_resumed()
    damaged()
    split_of_others()

    good = SCRATCH / "good"
    good.mkdir()
    with tarfile.open(good / "g.tar", "w") as tar:
        for i in range(3):
            add(tar, f"clip-{i}.mp4", MEDIUM)
            add(tar, f"clip-{i}.txt", b"<b>a cockatoo</b>")
    assert ", 0 problems in 0 shards" in kinora("verify", good, "--media")
    assert list(json.loads((good / ".nv-meta/kinora.verified.json").read_text())["shards"]) == ["g.tar"]
    shown = SCRATCH / "shown"
    shown.mkdir()
    with tarfile.open(shown / "p.tar", "w") as tar:
        add(tar, "clip-0.mp4", MEDIUM)
        add(tar, "clip-0.thumb.webp", b"an animation")
    done = subprocess.run([KINORA, "data", "verify", str(shown), "--media"], capture_output=True, text=True)
    assert done.returncode == 0 and ", 0 problems in 0 shards" in done.stdout and done.stderr.count(
        "the fields thumb.webp") == 1, done
    with tarfile.open(good / "h.tar", "w") as tar:
        add(tar, "clip-3.mp4", MEDIUM[:5000])
        add(tar, "clip-3.txt", b"cut off")
    said = kinora("verify", good, "--media", code=1)
    assert re.search(r"^h\.tar: clip-3 at 0: the field mp4 cannot be decoded: ", said,
                     re.M) and "g.tar" not in said, said

    seen = json.loads(kinora("inspect", SHARDS, "--json"))
    assert (seen["samples"], seen["index"]) == (samples, "current") and seen["fields"]["json"]["count"] == samples, seen
    assert seen["facts"]["fps"] == {"integer": 120} and seen["captions"]["count"] == 120, seen
    assert re.search(r"^  mp4 +4 +", kinora("inspect", good), re.M)

    refused_shards()

    page = SCRATCH / "page.html"
    kinora("preview", good, "--out", page, "--limit", 6)
    text = page.read_text()
    assert text.count("data:image/jpeg;base64,") == 3 and "No picture: " in text, text[:3000]
    assert "&lt;b&gt;a cockatoo" in text and "<script" not in text, text[:3000]

    for wrong, words in ((("index", SCRATCH / "nothing"), "no such file or folder"),
                         (("index", good / "g.tar"), "give the folder"), (("index", good, "--media"), "has no effect"),
                         (("indx", good), "did you mean"), (("preview", good), "--out FILE.html is missing"),
                         (("index", ROOT / "docs"), "no .tar files")):
        done = subprocess.run([KINORA, "data", *map(str, wrong)], capture_output=True, text=True)
        assert done.returncode in (1, 2) and words in done.stderr, done


time_index() if {"--time", "--time-short"} & set(sys.argv) else main()
