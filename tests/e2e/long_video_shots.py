#!/usr/bin/env python3
"""A video of several shots, made chunk by chunk on a cache, and shown while it is made: as a file, on standard output
and after kill -9; made again from what the file says; other bounds of the cache; and what is refused. configs/
long-video.toml with few steps. usage: long_video_shots.py KINORA ROOT SCRATCH"""
import json, pathlib, shutil, signal, struct, subprocess, sys, time

import av
import numpy as np
import safetensors.numpy

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
sys.path.append(str(ROOT / "tests/support"))
import quick

OUT = SCRATCH / "run"
BRIGHT, DARK, BLUE = "A bright video.", "A dark video of 2 seconds.", "A video, mostly blue."


def shots(last=2):
    """The second has as many chunks as one second of 12 frames a second has, 3."""
    return (f'film.shots=[{{prompt="{BRIGHT}", chunks=3}}, {{prompt="{DARK}", seconds=1.0, switch="recache"}}, '
            f'{{prompt="{BLUE}", chunks={last}, cut=false, switch="blend", blend=2}}]')


FRAMES = 1 + 4 * 7  # of 8 latent frames, each a chunk
# Enough training for attention to count: its gates begin at zero.
FEW = [*quick.FEW, "dit.steps=20", "dit.learning_rate=1e-2", "dit.ema=0.5", "dit.batch=2", "dit.model.layers=1",
       "few.steps=1", "few.every=1", "few.batch=2", "few.sampler.timesteps=[1000, 500]", 'film.stream=""',
       'film.format=["mp4", "latents"]']
TOKENS = 4 * 6  # of a latent frame


def command(verb, *more, sets=(shots(),)):
    return [KINORA, verb, str(ROOT / "configs/long-video.toml"), *(["--out", str(OUT)] if verb != "check" else []),
            *(word for one in (*FEW, *sets) for word in ("--set", one)), *map(str, more)]


def kinora(verb, *more, code=0, sets=(shots(),), **how):
    done = subprocess.run(command(verb, *more, sets=sets), stderr=subprocess.PIPE, timeout=120,
                          **{"stdout": subprocess.PIPE, **how})
    assert done.returncode == code, (more, sets, done.returncode, done.stdout, done.stderr.decode())
    return done.stderr.decode()


def made(name, *more, sets=(shots(),), **how):
    """The JSON of the video of this name, and its latent."""
    kinora("generate", "--name", name, *more, sets=sets, **how)
    videos = OUT / name / "videos"
    assert len(list(videos.glob("*.json"))) == 1, list(videos.iterdir())
    latent = safetensors.numpy.load_file(videos / "000.latents.safetensors")["latent"]
    return json.loads((videos / "000.json").read_text()), latent


def boxes(file):
    """[(type, bytes)] of the boxes of an MP4; those of a cut file end with an incomplete one, which is left out."""
    data, at, out = file.read_bytes(), 0, []
    while at + 8 <= len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if size < 8 or at + size > len(data):
            break
        out.append((kind.decode("latin-1"), size))
        at += size
    return out


def frames_of(file):
    """Decoded pictures, as far as a file is whole."""
    out = []
    with av.open(str(file)) as video:
        try:
            out.extend(frame.to_ndarray(format="rgb24") for frame in video.decode(video=0))
        except av.error.FFmpegError:
            assert out, file
    return out


def comment_of(file):
    with av.open(str(file)) as video:
        return json.loads(video.metadata["comment"])


def equal_frames(some, others):
    return len(some) == len(others) and all(np.array_equal(a, b) for a, b in zip(some, others))


def check_file(file):
    """A streamed file is a plain MP4 at its end, with the frames and the settings of the video."""
    about, latent = made("whole", "--stream", file)
    kinds = [kind for kind, _ in boxes(file)]
    assert kinds.index("moov") < kinds.index("mdat") and "moof" not in kinds, kinds
    frames = frames_of(file)
    assert len(frames) == len(frames_of(OUT / "whole/videos/000.mp4")) == about["frames"] == FRAMES, len(frames)
    comment = comment_of(file)
    prompts = [{"frame": 0, "prompt": BRIGHT}, {"frame": 9, "prompt": DARK}, {"frame": 21, "prompt": BLUE}]
    assert comment["shots"] == about["shots"] == prompts, comment
    assert comment["job"] == "whole" and comment["options"]["stream"] == "", comment
    assert latent.shape == (1, 16, 8, 8, 12) and about["nfe"] == 16, (latent.shape, about)
    assert set(about["frames_per_second"]) == {"denoise", "decode", "end_to_end"}
    assert 0 < about["frames_per_second"]["end_to_end"] < about["frames_per_second"]["denoise"], about
    finished, copy = (OUT / "whole/videos/000.mp4").read_bytes(), SCRATCH / "copy.mp4"
    for _ in range(2):  # a new file, and one in place of it
        said = kinora("generate", "--name", "whole", "--stream", copy)
        assert copy.read_bytes() == finished and "was complete before" in said, said
    with copy.open("wb") as out:
        kinora("generate", "--name", "whole", "--stream", "-", stdout=out)
    assert copy.read_bytes() == finished
    copy.write_bytes(b"no video")
    for wrong in (copy, OUT / "whole/videos/000.mp4"):
        kinora("generate", "--name", "whole", "--stream", wrong, code=2)
    assert copy.read_bytes() == b"no video" and (OUT / "whole/videos/000.mp4").read_bytes() == finished
    said = kinora("generate", "--from", file, "--stream", file, code=2)
    assert "is the file of --from, which would be overwritten" in said and file.exists(), said
    return frames, latent


def check_standard_output(frames):
    """Standard output has a fragment a chunk, and nothing else."""
    file = SCRATCH / "piped.mp4"
    with file.open("wb") as out:
        said = kinora("generate", "--name", "piped", "--stream", "-", stdout=out)
    assert "warning stream" not in said, said
    found = boxes(file)
    assert sum(size for _, size in found) == file.stat().st_size, found
    assert [kind for kind, _ in found][:2] == ["ftyp", "moov"], found
    assert [kind for kind, _ in found].count("moof") == 8, found
    assert equal_frames(frames_of(file), frames), "the same packets as in a file"


def check_served():
    """A server reads the finished jobs of the run file's own folder, and runs none."""
    def serve(out):
        sets = (word for one in (*FEW, f'run.out="{out}"') for word in ("--set", one))
        return [KINORA, "serve", "--pipeline", str(ROOT / "configs/long-video.toml"), "--folder",
                str(SCRATCH / "served"), "--port", "0", "--json", *sets]
    done = subprocess.run(serve(SCRATCH / "unmade"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "is not finished; run it first: kinora run" in done.stderr, done
    trained = (OUT / "few/summary.json").stat().st_mtime_ns
    process = subprocess.Popen(serve(OUT), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
    finally:
        process.terminate()
        said = process.communicate(timeout=60)[1]
    assert line and "url" in json.loads(line), said
    assert (OUT / "few/summary.json").stat().st_mtime_ns == trained


def check_killed(frames):
    """A killed run leaves its finished fragments: the frames of the video that was not killed."""
    file = SCRATCH / "killed.mp4"
    process = subprocess.Popen(command("generate", "--name", "killed", "--stream", file, sets=(shots(5000),)),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    whole, end = 0, time.monotonic() + 60
    while whole < 10 and time.monotonic() < end and process.poll() is None:
        time.sleep(0.05)
        whole = [kind for kind, _ in boxes(file)].count("mdat") if file.exists() else 0
    process.send_signal(signal.SIGKILL)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == -signal.SIGKILL and whole >= 10, (process.returncode, whole, said)
    left = frames_of(file)
    assert len(left) >= 1 + 4 * 9, len(left)
    assert equal_frames(left[:FRAMES], frames)
    known = comment_of(file)
    assert known["job"] == "killed" and len(known["options"]["shots"]) == 3 and "nfe" not in known, known
    again = SCRATCH / "revived.mp4"
    about, _ = made("revived", "--from", file, "--stream", again)  # with fewer chunks
    assert about["sampler_options"] == known["sampler_options"] and about["seed"] == known["seed"], (about, known)
    assert equal_frames(frames_of(again), frames)
    headless = SCRATCH / "headless.mp4"
    headless.write_bytes(file.read_bytes()[:100])
    said = kinora("generate", "--name", "none", "--from", headless, code=1)
    assert "headless.mp4" in said, said


def check_from(file, latent):
    """A streamed file makes the same latents again, whatever shots the run file has: of shots, and of a prompt with a
    number of frames of its own."""
    about, again = made("again", "--from", file, sets=())
    assert again.tobytes() == latent.tobytes() and len(about["shots"]) == 3, about
    some = SCRATCH / "prompt.mp4"
    about, latent = made("prompt", "--prompt", DARK, "--stream", some, sets=("film.frames=18",))
    assert len(frames_of(some)) == about["frames"] == 18 and latent.shape[2] == 6, (about, latent.shape)
    about, again = made("prompted", "--from", some, sets=())
    assert again.tobytes() == latent.tobytes() and about["frames"] == 18, about


def check_cache(latent):
    """Without options the cache has what the training's window and sink let a chunk see; a smaller one changes later
    chunks, and not those before it is full."""
    about, same = made("unbounded", sets=(shots(), 'film.cache={use="kv"}'))
    assert about["cache_tokens"] == 4 * TOKENS and same.tobytes() == latent.tobytes(), about
    about, other = made("smaller", sets=(shots(), 'film.cache={use="kv", capacity=3, sink=1}'))
    assert about["cache_tokens"] == 3 * TOKENS and about["cache_bytes"] > 0, about
    assert np.array_equal(other[:, :, :3], latent[:, :, :3]) and np.abs(other - latent).max() > 1e-4, other


def check_refusals():
    at_once = [f"dit.{one}" for one in ("teacher_forcing=false", "chunk=1", "window=0", "sink=0")]
    for sets, words in (
        ((shots(), 'film.cache={use="kv"}', *at_once), "shots need a cache of keys and values: cache is for models"),
        ((f'film.prompts=["{DARK}", "{BLUE}"]', "film.shots=[]", "film.stream=a.mp4"),
         "stream is for one video, and this job makes 2"),
        ((shots(), 'film.parallel=["cp-ring"]'), "cache needs whole sequences, and parallel/cp-ring divides them"),
        ((shots(), 'film.cache={use="kv", capacity=2, sink=2}'), "capacity = 2 includes it; give a larger capacity"),
        ((shots(), 'film.cache={use="kv", capacity=1}'), "capacity = 1 leaves a chunk nothing before it"),
        ((shots(), f'film.prompts=["{DARK}"]'), "shots and prompts are both given"),
        (('film.shots=[{prompt="a", chunks=2, seconds=1.0}]',),
         "shot 1: give its length in seconds or in chunks, not in both"),
        ((shots(), f'run.out="{OUT}"', f"film.stream={OUT}/dit/a.mp4"), "whose files are its jobs'"),
        ((shots(), f"film.stream={SCRATCH}/none/a.mp4"), "/none is missing"),
        ((shots(), f"film.stream={ROOT}/tests/data/film.mp4"), "exists and was not made by a stream"),
        (('film.shots=[{prompt="a", chunks=2, pin=1}]',), "shot 1: 'pin' is unknown")):
        said = subprocess.run(command("check", sets=sets), capture_output=True, text=True)
        assert said.returncode == 2 and words in said.stdout + said.stderr, (words, said)
    said = kinora("generate", "--prompt", DARK, "--prompt", BLUE, "--stream", SCRATCH / "two.mp4", code=2, sets=())
    assert "stream is for one video, and this job makes 2" in said and not (SCRATCH / "two.mp4").exists(), said
    assert "film: --prompt takes the place of its 4 shots" in said, said
    said = kinora("generate", "--prompt", DARK, code=2)
    assert "--prompt and --set film.shots both say what to show" in said, said


def check_training():
    """The keys of a video's clips say which follow one another: two of them are a sample of four chunks."""
    kinora("run", "--only", "dit", sets=(shots(), "dit.shots=2", "dit.steps=3", "dit.error_recycling={start=1}"))
    summary = json.loads((OUT / "dit/summary.json").read_text())
    assert summary["samples"] > 0 and summary["windows_left_out"] >= 0, summary
    stored = [json.loads(line)["stored_errors"] for line in (OUT / "dit/metrics.jsonl").read_text().splitlines()]
    assert len(stored) == 3 and stored[0] == 2 * 4 and stored == sorted(stored), stored


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    quick.begun(KINORA, ROOT, OUT, ["clips", "shards"])
    start = time.monotonic()
    file = SCRATCH / "whole.mp4"
    kinora("run", "--only", "few")
    print(f"trained: {time.monotonic() - start:.0f} s", flush=True)
    frames, latent = check_file(file)
    for check, arguments in ((check_standard_output, [frames]), (check_served, []), (check_killed, [frames]),
                             (check_cache, [latent]), (check_refusals, []), (check_from, [file, latent]),
                             (check_training, [])):
        check(*arguments)
        print(f"ok    {check.__name__}: {time.monotonic() - start:.0f} s", flush=True)


main()
