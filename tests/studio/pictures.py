#!/usr/bin/env python3
"""Pictures of clips are decoded by worker processes: damaged clips, killed workers and hanging workers cost one picture
each, and the studio keeps answering. usage: pictures.py KINORA ROOT SCRATCH"""
import concurrent.futures, os, pathlib, random, signal, subprocess, threading, time, urllib.parse

from browser import SCRATCH, Studio, eventually, page_of, run_alone
from clips import curate_folder, make_video
from edits import ask

GOOD, HANG = 24, 10  # clips; time limit of a picture in seconds


def damaged(good, n):
    """Real video bytes, damaged in typical ways."""
    chance, data = random.Random(n), bytearray(good)
    if n % 5 == 0:
        return bytes(data[: len(data) * (1 + n) // 40])
    if n % 5 == 1:
        for _ in range(60):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        return bytes(data)
    if n % 5 == 2:  # absurd sizes in the headers
        at = data.find(b"moov") + chance.randrange(40, 400)
        data[at : at + 8] = b"\xff" * 8
        return bytes(data)
    return bytes(chance.randbytes(5000)) if n % 5 == 3 else b""


def synthetic():
    video = SCRATCH / "picture.mp4"
    make_video(video, "320x180", seconds=2)
    good = video.read_bytes()
    files = {**{f"good-{n:02}": good for n in range(GOOD)}, **{f"bad-{n:02}": damaged(good, n) for n in range(20)}}
    folder = curate_folder(SCRATCH / "pictures",
                           [{"key": name, "end": "kept", "consumed": False, "parent": "film",
                             "facts": {"frames": 24, "fps": 12.0}} for name in files])
    for name, contents in files.items():
        (folder / "data" / f"{name}.mp4").write_bytes(contents)
    return folder


def picture(studio, key, job="pictures"):
    """(status, body) of the clip's picture."""
    cookie = studio.cookie
    status, _, body = ask(studio, "/picture?" + urllib.parse.urlencode({"id": f"{job}/{key}"}), Cookie=cookie)
    assert status in (200, 404) and (status == 404 or body[:2] == b"\xff\xd8"), (key, status, body[:80])
    return status, body


def answers(studio):
    cookie = studio.cookie
    return studio.process.poll() is None and ask(studio, "/api/state", Cookie=cookie)[0] == 200


def workers(studio):
    """Process ids of the studio's workers."""
    out = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words, status = (process / "cmdline").read_bytes().split(b"\0"), (process / "stat").read_text()
        except OSError:
            continue
        parent, state = status.rpartition(")")[2].split()[1], status.rpartition(")")[2].split()[0]
        if int(parent) == studio.process.pid and b"worker" in words and state != "Z":
            out.append(int(process.name))
    return out


def check_damaged(studio):
    statuses = [picture(studio, f"bad-{n:02}")[0] for n in range(20)]
    assert 404 in statuses and answers(studio), statuses
    assert picture(studio, "good-00")[0] == 200
    print(f"of 20 damaged clips {statuses.count(200)} had a picture all the same")


def check_right(studio):
    """The frame in the middle, as decoded by ffmpeg; the counter in the corner of the test picture identifies
    frames."""
    small = lambda source, *how: subprocess.run(["ffmpeg", "-v", "error", "-i", source, *how, "-frames:v", "1", "-f",
                                                 "rawvideo", "-pix_fmt", "gray", "-"], input=None, capture_output=True,
                                                check=True).stdout
    (SCRATCH / "picture.jpg").write_bytes(picture(studio, "good-01")[1])
    got = small(str(SCRATCH / "picture.jpg"))
    assert len(got) == 320 * 180
    away = {n: sum(abs(a - b)
                   for a, b in zip(got, small(str(SCRATCH / "picture.mp4"), "-vf", f"select=eq(n\\,{n})"))) / len(got)
            for n in (10, 11, 12, 13, 14)}
    assert min(away, key=away.get) == 12 and away[12] < 3, away


def check_killed(studio):
    """Killed between pictures: nothing is lost. Killed repeatedly at work: at most pictures are lost, and the studio
    lives."""
    before = workers(studio)
    assert 1 <= len(before) <= 2, before
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert picture(studio, "good-02")[0] == 200, "a worker that was killed is replaced"
    assert not set(before) & set(workers(studio))
    stop = threading.Event()

    def killer():
        while not stop.is_set():
            for pid in workers(studio):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)

    thread = threading.Thread(target=killer)
    thread.start()
    statuses = [picture(studio, f"good-{n:02}")[0] for n in range(3, 9)]
    stop.set()
    thread.join()
    assert answers(studio)
    assert [picture(studio, f"good-{n:02}")[0] for n in range(9, 12)] == [200] * 3, "the studio continues"
    print(f"while workers were killed all the time, {statuses.count(404)} of 6 pictures were lost")


def check_hanging(studio):
    """A worker that shows no progress is killed at its time limit, and costs that picture. The studio itself keeps
    answering."""
    pool = [threading.Thread(target=picture, args=(studio, f"good-{n}")) for n in (12, 13)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    stopped = workers(studio)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    found = {}
    start = time.monotonic()
    threads = [threading.Thread(target=lambda n=n: found.update({n: picture(studio, f"good-{n}")[0]}))
               for n in (14, 15)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    assert answers(studio) and any(thread.is_alive()
                                   for thread in threads), "the studio answers while the pictures hang"
    for thread in threads:
        thread.join()
    took = time.monotonic() - start
    assert list(found.values()).count(404) == len(stopped) and HANG * 0.9 < took, (found, took, stopped)
    eventually(lambda: not set(stopped) & set(workers(studio)), "the workers that hung are gone")
    assert [picture(studio, f"good-{n}")[0] for n in (16, 17)] == [200, 200]


def check_changed(chromium, studio, folder):
    """A key with new footage gets a new picture, also in an open page; unchanged footage is not sent again."""
    cookie = studio.cookie
    path = "/picture?" + urllib.parse.urlencode({"id": "pictures/good-00"})
    tag = lambda: ask(studio, path, Cookie=cookie)[1]["ETag"]
    first = tag()
    assert ask(studio, path, Cookie=cookie, If_None_Match=first)[::2] == (304, b"")
    middle = """() => {
        const keyOf = (cell) => cell.querySelector('.key').textContent;
        const cells = [...document.querySelectorAll('.cell:not([hidden])')];
        const canvas = cells.find((cell) => keyOf(cell) === 'good-00')?.querySelector('canvas');
        if (canvas?.style.visibility !== 'visible') return null;
        return [...canvas.getContext('2d').getImageData(160, 90, 1, 1).data]; }"""
    is_red = lambda pixel: bool(pixel) and pixel[0] > 180 and max(pixel[1:3]) < 90
    # the clip is among the first that it shows
    with page_of(chromium, studio, viewport={"width": 1440, "height": 900}) as page:
        eventually(lambda: page.evaluate(middle), "its picture", 30)
        assert not is_red(page.evaluate(middle))
        red = SCRATCH / "red.mp4"
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "color=red:s=320x180:r=12:d=2", "-pix_fmt",
                        "yuv420p", str(red)], check=True)
        red.replace(folder / "data/good-00.mp4")
        items = folder / "items.jsonl"
        items.write_text(items.read_text() + "\n")  # as after a run
        eventually(lambda: is_red(page.evaluate(middle)), "the picture of what it is now", 30)
    assert tag() != first


def main(chromium):
    folder = synthetic()
    with Studio(folder) as other, Studio(folder) as studio, concurrent.futures.ThreadPoolExecutor() as pool:
        hanging = pool.submit(check_hanging, other)  # mostly waits
        check_damaged(studio)
        check_right(studio)
        check_killed(studio)
        check_changed(chromium, studio, folder)
        hanging.result()
        left = workers(studio)
        assert left
        studio.kill()
        eventually(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in left),
                   "workers end with the studio")
    print("pictures: all checks passed")


if __name__ == "__main__":
    run_alone(main)
