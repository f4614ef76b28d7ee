"""Times, copied streams and shots of a video, against what FFmpeg and the single stages make. Part of curate.py."""
import shutil, subprocess

from curate_runs import DATA, KINORA, SCRATCH, items, run, stored, summary


def check_variable_rate():
    """A video with a variable frame rate is as long as it plays: here 1 s of all frames, then 3 s of every third."""
    video = SCRATCH / "variable.mkv"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", str(DATA / "bbb_B.mp4"), "-t", "4", "-an", "-vf",
                    "select='lt(t,1)+not(mod(n,3))',scale=-2:90",
                    "-fps_mode", "vfr", "-c:v", "libx264", "-preset", "ultrafast", str(video)], check=True)
    run("variable", [video], '["shots.content"]')
    seconds = summary("variable")["film_seconds"]
    assert 3.9 < seconds < 4.1, (seconds, items("variable")["variable"]["shots"])


def frames_of(video):
    """For every picture: when it is shown, relative to the first one, and the hash of its pixels."""
    said = subprocess.run(["ffmpeg", "-v", "error", "-i", str(video), "-map", "0:v:0", "-f", "framehash", "-hash",
                           "md5",
                           "-fps_mode", "passthrough", "-"],
                          capture_output=True, text=True, check=True).stdout
    base = next(l.split("/") for l in said.splitlines() if l.startswith("#tb 0: "))
    tick = int(base[0].split(": ")[1]) / int(base[1])
    rows = [l.split(",") for l in said.splitlines() if not l.startswith("#")]
    return [(round((int(r[2]) - int(rows[0][2])) * tick, 2), r[5].strip()) for r in rows]


def check_remux():
    """Containers without an index: the same pictures at the same times and the same shots; the copy is deleted with the
    job."""
    videos = SCRATCH / "remux"
    videos.mkdir()
    make = lambda name, *how: subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", str(DATA / "film.mp4"), *how,
                                              str(videos / name)], check=True)
    make("a.ts", "-c:v", "copy", "-c:a", "aac", "-t", "8")
    make("b.flv", "-c:v", "copy", "-c:a", "aac", "-ar", "44100", "-t", "8")
    make("c.avi", "-c:v", "mpeg4", "-bf", "2", "-c:a", "mp3", "-t", "8")
    make("d.mpg", "-c:v", "mpeg2video", "-b:v", "2M", "-c:a", "mp2", "-t", "8")
    make("e.mkv", "-c", "copy", "-t", "8")
    for video, new in (("a.ts", "a.remux.mp4"), ("b.flv", "b.remux.mp4"), ("c.avi", "c.remux.mp4"),
                      ("d.mpg", "d.remux.mp4")):
        done = subprocess.run([KINORA, "apply", "stage/video.remux", str(videos / video), "--out",
                               str(SCRATCH / "remuxed"), "--json"], capture_output=True, text=True)
        assert done.returncode == 0, done
        ours, theirs = frames_of(SCRATCH / "remuxed/work" / new), frames_of(videos / video)
        assert [h for _, h in ours] == [h for _, h in theirs] and len(ours) > 150, (video, len(ours), len(theirs))
        late = [(a[0], b[0]) for a, b in zip(ours, theirs) if not abs(a[0] - b[0]) <= 0.011]
        assert not late, (video, late[:5])
    stages = (
        '["video.remux", "video.probe", "shots.content", { use = "clip.transcode", min_length = 0.5, min_frames = 1, '
        'edge_crop = 0.0, preset = "ultrafast", max_height = 120 }]')
    run("remux_job", [videos], stages)
    found = items("remux_job")
    assert not (SCRATCH / "remux_job/clips/work").exists()
    assert [found[k]["facts"].get("remuxed", {}).get("from")
            for k in "abcde"] == ["mpegts", "flv", "avi", "mpeg", None], found
    names = ("a.ts", "b.flv", "c.avi", "d.mpg", "e.mkv")
    assert all(found[key]["url"] == str(videos / name) for key, name in zip("abcde", names))
    cuts = [found[k]["shots"]["cuts"] for k in "abcde"]
    assert cuts.count(cuts[4]) == 5 and len(cuts[0]) > 1, cuts
    assert all(i["end"] == "kept" for i in found.values()), found


def check_remux_of_damaged():
    """A truncated video is not rewritten, because its copy would hide the damage: it ends as without video.remux."""
    videos = SCRATCH / "cut_off"
    videos.mkdir()
    for n, name in enumerate(("a.ts", "b.flv", "c.avi", "d.mpg")):
        data = (SCRATCH / "remux" / name).read_bytes()
        (videos / name).write_bytes(data[:int(len(data) * (0.55 + 0.07 * n))])
    rest = (
        '"video.probe", "shots.content", { use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0, '
        'preset = "ultrafast", max_height = 120 }]')
    run("cut_off_as_they_are", [videos], "[" + rest)
    run("cut_off_rewritten", [videos], '["video.remux", ' + rest)
    plain, rewritten = items("cut_off_as_they_are"), items("cut_off_rewritten")
    for key in "abcd":
        ends = [(i[key]["end"], "damaged" in i[key], sum(c.get("parent") == key for c in i.values()))
                for i in (plain, rewritten)]
        assert ends[0] == ends[1], (key, ends, plain[key].get("damaged"), rewritten[key].get("damaged"))
    assert "not rewritten, because it is cut off" in rewritten["c"]["facts"]["remux_failed"], rewritten["c"]
    for key in "cd":
        assert rewritten[key]["end"] == "failed" and rewritten[key]["damaged"], rewritten[key]


def check_one_decode():
    """video.clips equals shots followed by clip.transcode: the same files, and the same record of videos (shots,
    damage) and clips."""
    videos = SCRATCH / "once"
    videos.mkdir()
    for name in ("bbb_A.mp4", "calais_1906.ogv", "film_excerpt.webm"):
        shutil.copy(DATA / name, videos / name)
    (videos / "cut_off.mp4").write_bytes((DATA / "film.mp4").read_bytes()[:500_000])
    shots = 'detectors = ["content", "threshold"], tolerance = 2'
    clips = ('min_length = 0.5, min_frames = 1, edge_crop = 0.0, max_length = 1.5, preset = "ultrafast", '
             'max_height = 120')
    run("two_stages", [videos],
        f'["video.probe", {{ use = "shots", {shots} }}, {{ use = "clip.transcode", {clips} }}, "caption.describe"]')
    run("one_stage", [videos], f'["video.probe", {{ use = "video.clips", {shots}, {clips} }}, "caption.describe"]')
    read = lambda name: {n: p.read_bytes() for n, p in stored(name).items()}
    assert len(read("two_stages")) > 10 and read("one_stage") == read("two_stages")
    one, two = items("one_stage"), items("two_stages")
    assert list(one) == list(two) and len(one["bbb_A"]["shots"]["scores"]) == one["bbb_A"]["shots"]["frames"], list(one)
    assert one["cut_off"]["end"] == "failed" and "cut off" in one["cut_off"]["damaged"], one["cut_off"]
    for key, item in one.items():
        other = two[key]
        assert (item.pop("stage", ""),
                other.pop("stage", "")) in (("video.clips", "clip.transcode"), ("", "")), (item, other)
        assert item == other, (item, other)
