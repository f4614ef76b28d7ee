"""How long a changed threshold takes over a record of 100,000 clips: select_job.py --time."""
import json, os, random, time

from select_runs import OUT, install, job, run, summary


def large():
    """Items of 100,000 clips of 10,000 videos with what the stages of configs/curate.toml leave: 1.3 KB a clip, and
    scores of 1,200 frames a video."""
    draw = random.Random(1)
    frames = [draw.random() * 100 for _ in range(1200)]
    facts = {"bin": {"aspect": "16_9", "duration": "5_10", "resolution": "720"}, "caption": {"by": "caption.describe"},
             "codec": "h264", "container": "mov,mp4,m4a,3gp,3g2,mj2", "copied": 0,
             "embeddings": {"classic": {"model": "embed.classic", "size": 488}}, "end_frame": 125, "end_s": 5.2,
             "field_order": "progressive", "first_frame": 0, "fps": 24.0, "frames": 125,
             "frames_at": [i / 4 for i in range(21)], "height": 720, "matrix": "bt709",
             "measured": {"brightness": 0.36272515950829687, "colours": ["green", "black"],
                          "contrast": 0.19115898557959674},
             "pixel_format": "yuv420p", "rotation": 0,
             "sha256": "0666d6d50414bf1c40e852d3f631bb3ba93d49aa95307b2b5a89c53b4e792c3a", "start_s": 0.0,
             "width": 1280}
    scores = {f"filter.{name}": 0.006585426624466277
              for name in ("black", "brightness", "flow", "flow.p10", "frozen", "letterbox", "motion",
                           "motion.patch_min", "text")}
    for i in range(100_000):
        film = f"film-{i // 10:05d}"
        if i % 10 == 0:
            yield {"consumed": True, "end": "kept", "facts": {"sha256": facts["sha256"]}, "key": film,
                   "shots": {"fps": 24, "frames": 1200, "scores": frames}}
        of_clip = {"duration_s": draw.random() * 10, "film": film,
                   "scores": scores | {"filter.blur": draw.random() * 100}}
        yield {"caption": "A dim video of 5.2 seconds, mostly green and black, with slow motion and medium contrast.",
               "consumed": False, "end": "kept", "facts": facts | of_clip, "key": f"{film}-{i % 10:04d}",
               "parent": film}


def time_threshold():
    run()
    install(large(), {})
    size = (OUT / "clips/items.jsonl").stat().st_size
    of_python = []
    for threshold in (20, 21, 22, 23, 24):
        before, begun = os.times(), time.monotonic()
        run(job("sharp", where=f"blur >= {threshold} and duration_s > 2"))
        spent, took = os.times(), time.monotonic() - begun
        with open(OUT / "clips/items.jsonl") as lines_of_clips:
            beside = time.monotonic()
            assert sum(not json.loads(line)["consumed"] for line in lines_of_clips) == 100_000
            of_python.append(took / (time.monotonic() - beside))
        told = summary("sharp")
        print(
            f"blur >= {threshold}: {told['clips']['kept']:,} of {told['inputs']:,} clips, {size / 1e6:.0f} MB: "
            f"{took:.2f} s from start to end, {of_python[-1]:.2f} of Python's time, "
              f"{spent.children_user - before.children_user + spent.children_system - before.children_system:.2f} s of "
              f"processor time")
    assert sorted(of_python)[2] < 1.5, of_python
