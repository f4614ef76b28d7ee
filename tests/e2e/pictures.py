#!/usr/bin/env python3
"""Pictures and videos in one curate job: what each stage does with a picture, copies, shards with the files' own bytes,
and training from them; and hostile pictures, each of which costs itself.
usage: pictures.py KINORA ROOT SCRATCH"""
import itertools, json, math, os, pathlib, resource, shutil, struct, subprocess, sys, tarfile, zlib

import cv2
import numpy as np

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path += [str(ROOT / "packaging/wheel"), str(ROOT / "tests/faults")]
os.environ["KINORA_PREFIX"] = str(pathlib.Path(KINORA).resolve().parents[1])
os.environ.setdefault("KINORA_TORCH", str(ROOT / ".deps/torch/torch"))
import kinora
from model_server import ModelServer, text_of

SCORE = ", ".join(f'{{ use = "filter.{name}", mode = "score" }}'
                  for name in ("blur", "brightness", "motion", "frozen", "flow"))
STAGES = (
    f'"video.remux", "video.probe", {{ use = "video.clips", detectors = ["content"], min_length = 0.5, min_frames = 1, '
    f'edge_crop = 0.0, preset = "ultrafast", max_height = 120, sample_fps = 2.0, sample_height = 64 }}, {SCORE}, '
    f'"embed.classic", "clip.signature", "caption.describe"')


def run(*command, code=0):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{command}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def curate(name, inputs, stages, more="", jobs="", code=0, command="run"):
    file = SCRATCH / f"{name}.toml"
    file.write_text(
        f'[run]\nout = "{SCRATCH / name}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = '
        f'{json.dumps([str(i) for i in inputs])}\nstages = [{stages}]\n{more}\n{jobs}')
    return run(KINORA, command, file, code=code)


def items(name):
    lines = (SCRATCH / name / "clips/items.jsonl").read_text().splitlines()
    return {item["key"]: item for item in map(json.loads, lines)}


def scene(seed, height, width):
    """A picture of coloured spots unlike those of other seeds."""
    spots = np.random.default_rng(seed).integers(0, 256, (5, 7, 3), np.uint8)
    return cv2.resize(spots, (width, height), interpolation=cv2.INTER_CUBIC)


def encoded(ending, pixels, *options):
    return cv2.imencode(ending, pixels, options)[1].tobytes()


def write_pictures():
    """Returns the files by key: (field, bytes)."""
    folder = SCRATCH / "pictures"
    folder.mkdir()
    alpha = np.dstack([scene(4, 57, 101), np.full((57, 101), 255, np.uint8)])
    files = {"wide.jpg": encoded(".jpg", scene(1, 90, 160)), "tall.JPEG": encoded(".jpg", scene(2, 1600, 1200)),
             "plain.png": encoded(".png", scene(3, 720, 1280)),
             "alpha.png": encoded(".png", alpha), "grey.jpg": encoded(".jpg", scene(5, 60, 60)[..., 0]),
             "lossy.webp": encoded(".webp", scene(6, 70, 70), cv2.IMWRITE_WEBP_QUALITY, 80),
             "lossless.webp": encoded(".webp", scene(7, 50, 333), cv2.IMWRITE_WEBP_QUALITY, 101),
             "wrong_name.jpg": encoded(".png", scene(8, 40, 60)),
             "wide_again.jpg": encoded(".jpg", scene(1, 72, 128), cv2.IMWRITE_JPEG_QUALITY, 60)}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "notes.txt").write_text("not a picture")
    shutil.copy(folder / "plain.png", folder / "same_bytes.png")
    fields = {b"\xff\xd8": "jpg", b"\x89P": "png", b"RI": "webp"}
    return {name.split(".")[0]: (fields[data[:2]], data) for name, data in files.items()}


def bin_of(height, width):
    """Cosmos' resolution and aspect."""
    resolution = "1080" if min(height, width) >= 1080 else "720" if min(height, width) >= 720 else "lt_720"
    ratio = width / height
    most = {"9_16": 0.65, "3_4": 0.88, "1_1": 1.16, "4_3": 1.55, "16_9": math.inf}
    return resolution, next(name for name, bound in most.items() if ratio <= bound)


def check_mixed(files):
    (SCRATCH / "videos").mkdir()
    shutil.copy(ROOT / "tests/data/bbb_A.mp4", SCRATCH / "videos/rabbit.mp4")
    jobs = (
        '[[job]]\nname = "copies"\nkind = "dedup"\ninput = "clips"\n[[job]]\nname = "shards"\nkind = "shard"\ninput = '
        '"copies"\nlayout = "cosmos"\n'
            '[[job]]\nname = "blurred"\nkind = "select"\ninput = "copies"\nwhere = "has(picture) and width > 100 and '
            'not has(duration_s)"\n')
    said = curate("mixed", [SCRATCH / "videos", SCRATCH / "pictures"], f'"picture.read", {STAGES}', "pictures = true",
                  jobs)
    assert "(1 .txt)" in said and " 0 failed" in said, said
    found = items("mixed")
    assert found["same_bytes"]["reason"] == "ingest.duplicate", found["same_bytes"]
    for key, (field, data) in files.items():
        height, width = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED).shape[:2]
        item, facts = found[key], found[key]["facts"]
        assert item["end"] == "kept" and not item["consumed"] and "shots" not in item, item
        assert (facts["picture"], facts["height"], facts["width"], facts["frames"]) == (field, height, width, 1), facts
        assert not {"duration_s", "fps",
                    "filter.motion"} & facts.keys() and facts["scores"].keys() == {
                        "filter.blur", "filter.brightness"}, facts
        assert (facts["bin"]["resolution"], facts["bin"]["aspect"]) == bin_of(height, width), facts
        assert " picture, mostly " in item["caption"] and "video" not in item["caption"], item
        assert (SCRATCH / f"mixed/clips/data/{key}.{field}").read_bytes() == data and not (
            SCRATCH / f"mixed/clips/data/{key}.signature").exists(), key
    clips = [item for item in found.values() if item.get("parent") == "rabbit"]
    assert clips and all({"filter.motion", "filter.flow",
                          "filter.frozen"} <= clip["facts"]["scores"].keys() and "picture" not in clip["facts"]
                         for clip in clips), clips
    check_shards(files, len(clips))
    chosen = json.loads((SCRATCH / "mixed/blurred/summary.json").read_text())
    wide = [key for key in files if key != "wide_again" and found[key]["facts"]["width"] > 100]
    assert chosen["clips"]["kept"] == len(wide), (chosen, wide)
    assert run(KINORA, "run", SCRATCH / "mixed.toml").count("already done") == 4


def check_shards(files, clips):
    """Every picture but the smaller copy is in the folder of its shape, with the file's own bytes."""
    packed = {}
    for shard in (SCRATCH / "mixed/shards").rglob("*.tar"):
        with tarfile.open(shard) as tar:
            for member in tar:
                key, field = member.name.split("/")[-1].split(".", 1)
                packed.setdefault(key, {"folder": str(shard.parent.relative_to(SCRATCH / "mixed/shards"))})[
                    field] = tar.extractfile(member).read()
    pictures = {key: fields for key, fields in packed.items() if "mp4" not in fields}
    assert pictures.keys() == files.keys() - {"wide_again"} and len(packed) == len(pictures) + clips, packed.keys()
    for key, fields in pictures.items():
        field, data = files[key]
        assert fields[field] == data and fields.keys() == {"folder", field, "json", "txt",
                                                           "classic.npy"}, (key, fields.keys())
        facts = json.loads(fields["json"])
        assert fields["folder"] == "resolution_{}/aspect_ratio_{}/picture".format(
            *bin_of(facts["height"], facts["width"])), (key, fields["folder"])
    why = {line["key"]: line.get("reason", "")
           for line in map(json.loads, (SCRATCH / "mixed/copies/decisions.jsonl").read_text().splitlines())}
    assert why["wide_again"].startswith("copy of wide: "), why


def check_loading(files):
    """What a training decodes from the shards equals OpenCV's pixels, and `kinora data verify` finds nothing wrong."""
    optional = [word for field in ("mp4", "jpg", "png", "webp", "signature") for word in ("--optional", field)]
    run(KINORA, "data", "verify", SCRATCH / "mixed/shards", "--media", *optional)
    expected = {key: cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
                for key, (field, data) in files.items() if key not in ("wide_again", "lossy")}
    with kinora.load({"path": SCRATCH / "mixed/shards", "where": "has(picture)"}, 1,
                     stages=[{"use": "video.read"}]) as loader:
        taken = {batch[0].key.split("/")[-1]: np.from_dlpack(batch[0].tensor("frames")).copy()
                 for batch in itertools.islice(loader, len(files) - 1)}
    assert taken.keys() == files.keys() - {"wide_again"}, taken.keys()
    for key, pixels in expected.items():
        assert np.array_equal(taken[key][0], pixels), (key, taken[key].shape, pixels.shape)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, *chunks):
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + chunk(b"IEND", b"")


def zeros(count):
    """That many MiB of zeros, deflated to about a kilobyte each."""
    deflate = zlib.compressobj(9)
    return b"".join(deflate.compress(bytes(1 << 20)) for _ in range(count)) + deflate.flush()


def check_hostile():
    folder = SCRATCH / "hostile"
    folder.mkdir()
    jpg, whole, webp = encoded(".jpg", scene(1, 90, 160)), encoded(".png", scene(3, 120, 90)), encoded(
        ".webp", scene(6, 70, 70), cv2.IMWRITE_WEBP_QUALITY, 80)
    frame_header = jpg.index(b"\xff\xc0")
    line = chunk(b"IDAT", zlib.compress((b"\0" + b"\x50\x60\x70" * 4) * 4))
    extended = b"VP8X" + struct.pack("<I", 10) + bytes([2, 0, 0,
                                                        0]) + struct.pack("<I", 69)[:3] + struct.pack("<I", 69)[:3]
    bomb = zeros(300)
    broken = bytearray(whole)
    broken[whole.index(b"IDAT") + 40] ^= 0xFF
    cases = {"empty.png": (b"", "empty"), "cut.jpg": (jpg[:len(jpg) // 2], "Premature end"),
             "head.jpg": (jpg[:frame_header], "ends before its picture"),
             "cut.png": (whole[:len(whole) // 2], "cut off"), "cut.webp": (webp[:len(webp) // 2], "cut off"),
             "flipped.png": (bytes(broken), "flipped.png"),
             "huge.jpg": (jpg[:frame_header + 5] + b"\xff\xdc\xff\xdc" + jpg[frame_header + 9:], "65500 x 65500"),
             "huge.png": (png(100000, 100000, line), "100000 x 100000"),
             "many.png": (png(16000, 16000, line), "67108864 in total"),
             "text.png": (png(4, 4, chunk(b"zTXt", b"Comment\0\0" + bomb), line), "256 KiB"),
             "profile.png": (png(4, 4, chunk(b"iCCP", b"x\0\0" + bomb), line), "256 KiB"),
             "moving.webp": (b"RIFF" + struct.pack("<I", 4 + len(extended)) + b"WEBP" + extended, "animation"),
             "moving.png": (png(4, 4, chunk(b"acTL", struct.pack(">II", 2, 0)), line), "animation"),
             "words.jpg": (b"no picture", "not a JPEG, PNG or WebP"),
             "renamed.webp": ((ROOT / "tests/data/bbb_A.mp4").read_bytes()[:5000], "not a JPEG, PNG or WebP"),
             "bare.webp": (b"RIFF\x04\0\0\0WEBP", "ends before its picture")}
    for name, (data, _) in cases.items():
        (folder / name).write_bytes(data)
    black = zlib.compressobj(9)
    rows = b"".join(black.compress(bytes(1 + 3 * 6000)) for _ in range(6000)) + black.flush()
    # 108 MB of pixels in 100 kB: large, and a picture
    (folder / "black.png").write_bytes(png(6000, 6000, chunk(b"IDAT", rows)))
    (folder / "fine.jpg").write_bytes(jpg)
    curate("hostile", [folder], '"picture.read"', "pictures = true")
    found = {item["url"].split("/")[-1]: item for item in items("hostile").values()}
    for name, (_, reason) in cases.items():
        assert found[name]["end"] == "failed" and name in found[name]["reason"] and reason in found[name][
            "reason"], found[name]
    assert {name for name, item in found.items() if item["end"] == "kept"} == {"fine.jpg", "black.png"}, found
    assert found["black.png"]["facts"]["bin"] == {"resolution": "1080", "aspect": "1_1"}
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    assert most < 500, f"a process held {most} MiB"


def asked(name, filtering="", captioning=""):
    """What a model server is asked about two pictures: the shapes of the pictures and the text, by the name of the
    answer's form."""
    with ModelServer() as server:
        asking = ", ".join(f'{{ use = "{use}", base_url = "{server.url}", model = "m", {more} }}'
                           for use, more in (("filter.endpoint", f'mode = "score"{filtering}'),
                                             ("caption.endpoint", f"fps = 2.0{captioning}")))
        curate(name, [SCRATCH / "pictures/wide.jpg", SCRATCH / "pictures/grey.jpg"], f'"picture.read", {asking}')
        assert not server.problems, server.problems
        return [(request.body.get("response_format", {}).get("json_schema", {}).get("name", "caption"),
                 [p.shape for p in request.pictures], text_of(request.body)) for request in server.requests]


def check_asked():
    """Each question to a model server shows one picture, whole, and speaks of no video; or it is the question of
    `picture_prompt`."""
    questions = asked("asked")
    assert sorted(shapes for _, shapes, _ in questions) == [[(60, 60, 3)]] * 2 + [[(90, 160, 3)]] * 2, questions
    assert all("picture" in text and "one video" not in text for _, _, text in questions), questions
    for item in items("asked").values():
        assert item["caption"].startswith("caption ") and item["facts"]["caption"]["windows"] == [
            {"first_frame": 0, "end_frame": 1, "text": item["caption"]}], item
    own = asked("asked_otherwise", ', picture_prompt = "Is it a map?"', ', picture_prompt = "Which colours has it?"')
    begins = {"verdict": "Is it a map?", "caption": "Which colours has it?"}
    assert len(own) == 4 and {kind
                              for kind, _, _ in own} == begins.keys() and all(
                                  text.startswith(begins[kind]) for kind, _, text in own), own


def check_said():
    """Pictures of a folder are skipped unless they are asked for, and the messages say how."""
    only = SCRATCH / "only"
    only.mkdir()
    shutil.copy(SCRATCH / "pictures/wide.jpg", only)
    assert "pictures = true" in curate("none", [only], '"picture.read"', code=2, command="check")
    assert 'put "picture.read" first in stages' in curate("unread", [only], '"video.probe"', "pictures = true", code=2,
                                                          command="check")
    shutil.copy(ROOT / "tests/data/bbb_A.mp4", only)
    said = curate("skipped", [only], '"video.probe"')
    assert "(1 .jpg)" in said and "pictures = true and stage picture.read" in said and items("skipped").keys() == {
        "bbb_A"}, said


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
check_hostile()  # first, so that the memory measured is its own
FILES = write_pictures()
check_mixed(FILES)
check_loading(FILES)
check_asked()
check_said()
print(f"{len(FILES)} pictures and a video in shards; hostile pictures cost themselves")
