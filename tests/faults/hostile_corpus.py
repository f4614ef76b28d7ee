#!/usr/bin/env python3
"""Curates a folder of hostile files: every file is accounted for, the process survives, time and memory stay bounded.
usage: hostile_corpus.py [--quick] KINORA ROOT SCRATCH [SEED]

504 files (104 with --quick) from a fixed seed: real media of tests/data and small videos in other containers,
truncated, with flipped bits, with holes, empty, under a wrong ending, with absurd numbers in their headers; noise after
magic numbers."""
import hashlib, json, pathlib, random, resource, shutil, subprocess, sys, threading, time

QUICK = sys.argv[1] == "--quick"
KINORA, ROOT, SCRATCH, *REST = sys.argv[1 + QUICK:]
ROOT, SCRATCH = pathlib.Path(ROOT), pathlib.Path(SCRATCH).resolve()
sys.path.insert(0, str(ROOT / "tests/support"))
from processes import family

SEED = int(REST[0]) if REST else 20_251
EACH_WAY, RENAMED, NOISE, EMPTY = (20, 10, 12, 2) if QUICK else (110, 30, 24, 10)  # at least two of a video in each way
FILES = 4 * EACH_WAY + RENAMED + NOISE + EMPTY
SECONDS, MEMORY = 900, 1 << 30  # of the whole run; resident memory at any time
STAGES = (
    '"video.probe", "shots.content", { use = "clip.transcode", min_length = 0.1, min_frames = 1, edge_crop = 0.0, '
    'preset = "ultrafast", max_height = 96 }, '
          '{ use = "video.read", height = 64, memory = "64 MiB" }, "filter.brightness", "filter.letterbox", { use = '
          '"filter.text", mode = "score" }')
# Other readers of such files: the rewriting of containers, the copying of whole groups of pictures, motion vectors,
# sampled frames of videos and clips, previews.
OTHER_STAGES = (
    '"video.remux", { use = "shots", detectors = ["content", "hash", "threshold"], sample_every = 0.5, sample_height = '
    '48, thumbnails = true }, '
                '{ use = "clip.transcode", min_length = 0.1, min_frames = 1, edge_crop = 0.0, preset = "ultrafast", '
                'copy = "auto", sample_fps = 4.0, sample_height = 48 }, '
                '{ use = "filter.motion", mode = "score" }, { use = "clip.preview", height = 32 }')
MAGICS = (b"\0\0\0\x18ftypisom", b"\x1aE\xdf\xa3", b"OggS\0\2", b"RIFF\xff\xff\xff\x7fAVI LIST",
          b"FLV\x01\x05\0\0\0\x09", b"GIF89a\xff\xff\xff\xff",
          b"\x89PNG\r\n\x1a\n", b"\x47\x40\0\x10", b"\0\0\1\xba", b"#EXTM3U\nhttp://127.0.0.1:9/x\n",
          b"ffconcat version 1.0\nfile /etc/hostname\n", b"<?xml version='1.0'?>")
failures = []


def holds(name, true, said=""):
    print(("ok    " if true else "WRONG ") + name, "" if true else said, flush=True)
    if not true:
        failures.append(name)


def sources(folder):
    """Small videos: two of the project's own, and one generated per container."""
    folder.mkdir(parents=True)
    made = [ROOT / "tests/data/bbb_D.mp4", ROOT / "tests/data/calais_1906.ogv"]
    for ending, codec in {"mp4": "libx264", "mkv": "libx264", "avi": "mpeg4", "mov": "mjpeg", "ts": "mpeg2video",
                          "webm": "libvpx", "gif": "gif", "flv": "flv"}.items():
        video = folder / f"made.{ending}"
        pixels = [] if ending == "gif" else ["-pix_fmt", "yuvj420p" if codec == "mjpeg" else "yuv420p"]
        subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-f", "lavfi", "-i",
                        "testsrc2=size=96x64:rate=12:duration=2", "-threads", "1", "-c:v", codec, *pixels, video],
                       check=True)
        made.append(video)
    return [(f.suffix, f.read_bytes()) for f in made]


def absurd(data, rng):
    """Writes large or negative numbers over four aligned bytes of the headers: sizes, counts, rates, offsets."""
    data = bytearray(data)
    ends = [len(data)] if rng.random() < 0.5 else []  # an mp4's index is at the end
    for _ in range(rng.randint(1, 6)):
        base = max(0, ends[0] - 1500) if ends else 0
        at = base + rng.randrange(0, 1500) // 2 * 2
        data[at:at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\x7f",
                                      b"\0\0\0\0", b"\0\0\xff\xff"))
    return bytes(data)


def flipped(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice((1, 4, 40, 400))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def holed(data, rng):
    at, size = rng.randrange(len(data)), rng.randrange(1, len(data) // 2)
    return data[:at] + (b"" if rng.random() < 0.5 else bytes(size)) + data[at + size:]


def make_corpus(folder, videos, rng):
    """Writes the files; returns the number of each kind."""
    folder.mkdir()
    endings = [e for e, _ in videos] + [".txt", ".jpg", ".json", ""]
    ways = {"truncated": lambda d: d[:int(len(d) * rng.random() ** 2)], "flipped": lambda d: flipped(d, rng),
            "holed": lambda d: holed(d, rng), "absurd": lambda d: absurd(d, rng)}
    for kind, spoil in ways.items():
        for n in range(EACH_WAY):
            ending, data = videos[n % len(videos)]
            (folder / f"{kind}_{n:03}{ending}").write_bytes(spoil(data))
    for n in range(RENAMED):
        _, data = videos[n % len(videos)]
        (folder / f"renamed_{n:03}{rng.choice(endings)}").write_bytes(data)
    for n in range(NOISE):
        (folder / f"noise_{n:03}{rng.choice(endings)}").write_bytes(
            MAGICS[n % len(MAGICS)] + rng.randbytes(rng.randrange(1, 60_000)))
    for n in range(EMPTY):
        (folder / f"empty_{n:03}{endings[n % len(endings)]}").write_bytes(b"")
    return sorted(folder.iterdir())


def most_memory(pid, seen):
    """Records the largest sum of resident bytes of a process and its descendants."""
    while True:
        total = 0
        for one in family(pid):
            try:
                total += int(pathlib.Path(f"/proc/{one}/statm").read_text().split()[1]) * resource.getpagesize()
            except (OSError, IndexError):  # it has ended
                if one == pid:
                    return
        seen[0] = max(seen[0], total)
        time.sleep(0.05)


def curate(name, stages, files):
    """Curates the corpus and checks the outcomes. Returns the job's folder, or None if the run did not end well."""
    run, out = SCRATCH / f"{name}.toml", SCRATCH / name
    run.write_text(
        f'[run]\nname = "{name}"\nout = "{out}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = '
        f'["{SCRATCH / "corpus"}"]\nstages = [{stages}]\nduplicates = "keep"\nall_files = true\n')
    began, seen = time.time(), [0]
    with open(SCRATCH / f"{name}.txt", "w") as log:
        process = subprocess.Popen([KINORA, "run", run], stderr=log, stdout=log)
        threading.Thread(target=most_memory, args=(process.pid, seen), daemon=True).start()
        try:
            code = process.wait(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = f"still running after {SECONDS} s"
    print(f"{name}: {len(files)} files, {time.time() - began:.0f} s, {seen[0] >> 20} MiB")
    holds("the process ends well", code == 0, (code, (SCRATCH / f"{name}.txt").read_text()[-1500:]))
    holds(f"within {MEMORY >> 20} MiB", seen[0] < MEMORY, seen[0])
    if code != 0:
        return None
    accounted(files, out / "clips")
    return out / "clips"


def met(folder, files):
    """The second way was really taken: videos rewritten, groups copied, vectors measured, frames and previews made,
    bytes hashed."""
    items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    facts = [i.get("facts", {}) for i in items]
    for what, count in (("rewritten", sum("remuxed" in f for f in facts)),
                        ("copied in part", sum(f.get("copied", 0) > 0 for f in facts)),
                        ("measured", sum("filter.motion" in f.get("scores", {}) for f in facts)),
                        ("with frames", sum(len(f.get("frames_at", [])) > 0 for f in facts)),
                        ("with previews", len(list((folder / "data").glob("*.preview.webp"))))):
        holds(f"some are {what}", count >= EACH_WAY // 11, count)
    hashed = [(i["url"], i["facts"]["sha256"]) for i in items if "parent" not in i and "sha256" in i.get("facts", {})]
    holds("their hashes are those of their bytes",
          len(hashed) >= 400 * FILES // 504 and all(hashlib.sha256(pathlib.Path(u).read_bytes()).hexdigest() == h
                                                    for u, h in hashed), len(hashed))


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    files = make_corpus(SCRATCH / "corpus", sources(SCRATCH / "sources"), random.Random(SEED))
    holds("as many files as were to be made", len(files) == FILES, len(files))
    curate("out", STAGES, files)
    other = curate("other", OTHER_STAGES, files)
    if other:
        met(other, files)
    print(f"{len(failures)} wrong" if failures else "every file is accounted for")
    return 1 if failures else 0


def accounted(files, folder):
    summary = json.loads((folder / "summary.json").read_text())
    items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    inputs = [i for i in items if "parent" not in i]
    clips = [i for i in items if "parent" in i]
    ends = lambda of: {e: sum(i["end"] == e for i in of) for e in ("kept", "filtered", "failed")}
    print("inputs", ends(inputs), "clips", ends(clips))
    holds("each file has one line", sorted(i.get("url", "") for i in inputs) == sorted(map(str, files)), len(inputs))
    holds("summary counts the inputs",
          {k: summary[k] for k in ends(inputs)} == ends(inputs) and summary["inputs"] == len(files), summary)
    holds("summary counts the clips", summary["clips"] == ends(clips), (summary["clips"], ends(clips)))
    holds("every failure has its reason", all(i.get("reason") for i in items if i["end"] != "kept"))
    kept = {i["key"] for i in items if i["end"] == "kept" and not i["consumed"]}
    stored = {f.name.split(".")[0] for f in (folder / "data").iterdir()}
    holds("what is kept is there, and nothing else", stored == kept, sorted(stored ^ kept)[:5])
    whole = [i for i in inputs if "/renamed_" in i["url"]]
    lost = [i for i in whole if i["end"] == "failed"]
    holds("a wrong ending does no harm", not lost, [(i["url"].rsplit("/", 1)[1], i["reason"]) for i in lost][:5])
    holds("empty files fail", all(i["end"] == "failed" for i in inputs if "/empty_" in i["url"]))


if __name__ == "__main__":
    sys.exit(main())
