#!/usr/bin/env python3
"""What `kinora serve` costs: its videos against those of `kinora generate`, in turns; the first bytes of a live video;
states of 10,000 videos asked for while one is made. usage: serve_time.py KINORA ROOT SCRATCH [ROUNDS]"""
import contextlib, http.client, re, shutil, sqlite3, statistics, subprocess, sys, time

from serving import KINORA, PIPELINE, SCRATCH, SETS, TOKEN, Server

ROUNDS = int(sys.argv[4]) if len(sys.argv) > 4 else 3
VIDEOS, STORED = 4, 10_000
FRAMES, STEPS = 161, 20


def generated(name, count):
    """Seconds of a process that makes so many videos."""
    sets = [word for one in (*SETS, f"frames={FRAMES}", f"steps={STEPS}", f"count={count}") for word in ("--set", one)]
    start = time.monotonic()
    subprocess.run([KINORA, "generate", "--pipeline", PIPELINE, "--prompt", "a red sea", "--out", SCRATCH, "--name",
                    name, *sets], check=True, capture_output=True, timeout=600)
    return time.monotonic() - start


def served(server):
    """Seconds of as many videos, asked for at once."""
    start = time.monotonic()
    ids = [server.create(prompt="a red sea", num_frames=FRAMES, steps=STEPS)["id"] for _ in range(VIDEOS)]
    for id in ids:
        assert server.wait(id, 600)["status"] == "completed"
    return time.monotonic() - start


def overhead(server):
    """Loading is in neither: the time of one video is taken off that of VIDEOS + 1."""
    ratios = []
    for i in range(ROUNDS):
        one = generated(f"one-{i}", 1)
        more = generated(f"more-{i}", 1 + VIDEOS) - one
        ratios.append(served(server) / more)
    print(f"a served video takes {statistics.median(ratios):.3f} times as long as a generated one "
          f"({min(ratios):.3f} to {max(ratios):.3f})")
    assert statistics.median(ratios) < 1.25, ratios  # 1.03 on a machine that does nothing else


def first_bytes(server):
    """From the start of a video's work to its first fragment at a viewer, against the server's own measure of the
    decoded frames."""
    late = []
    for _ in range(ROUNDS):
        id = server.create(prompt="a walk", num_frames=FRAMES, steps=STEPS)["id"]
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", f"/v1/videos/{id}/content?live=1", headers={"Authorization": "Bearer " + TOKEN})
            answer, start, bytes = connection.getresponse(), time.monotonic(), b""
            while b"moof" not in bytes:
                bytes += answer.read1()
            late.append(time.monotonic() - start)
            answer.read()
        server.wait(id)
    text = server.ask("GET", "/metrics")[2].decode()
    found = dict(re.findall(r"(?m)^kinora_serve_first_frame_seconds_(sum|count) (\S+)$", text))
    print(f"first fragment {statistics.median(late) * 1e3:.0f} ms after the request; the first frames of all videos "
          f"{float(found['sum']) / float(found['count']) * 1e3:.0f} ms after their begin, in the mean")


def with_history(folder):
    """A store of 10,000 finished videos, made of one."""
    server = Server(folder)
    id = server.create(prompt="a red sea", num_frames=5)["id"]
    server.wait(id)
    server.end()
    with contextlib.closing(sqlite3.connect(SCRATCH / folder / "videos.sqlite")) as base, base:
        columns = [row[1] for row in base.execute("PRAGMA table_info(videos)") if row[1] not in ("number", "id", "key")]
        names = ", ".join(columns)
        base.executemany(f"INSERT INTO videos (id, {names}) SELECT ?, {names} FROM videos WHERE id = ?",
                         [(f"video_{i:032x}", id) for i in range(STORED)])
    return Server(folder), id


def requests(threads, server, path):
    """Requests a second and their 99th hundredth in ms, by wrk."""
    said = subprocess.run(["wrk", "-t", "1", "-c", str(threads), "-d", "5s", "--latency", "-H",
                           f"Authorization: Bearer {TOKEN}", server.url.rstrip("/") + path], capture_output=True,
                          text=True, check=True).stdout
    unit = {"us": 1e-3, "ms": 1, "s": 1e3}
    number, name = re.search(r"99%\s+([\d.]+)(us|ms|s)", said).groups()
    assert "Non-2xx" not in said, said
    return float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1]), float(number) * unit[name]


def history():
    if not shutil.which("wrk"):
        print("skipped: wrk is not installed")
        return
    server, id = with_history("history")
    for path in (f"/v1/videos/{id}", "/v1/videos?limit=20"):
        rate, late = requests(8, server, path)
        print(f"GET {path.split('/video_')[0]}: {rate:.0f} a second, 99 % within {late:.1f} ms, idle")
        work = server.create(prompt="meanwhile", num_frames=801, steps=100)["id"]
        while server.json("GET", f"/v1/videos/{work}")["status"] == "queued":
            time.sleep(0.02)
        rate, late = requests(8, server, path)
        assert server.json("GET", f"/v1/videos/{work}")["status"] == "in_progress"
        assert rate > 500 and late < 200, (rate, late)
        print(f"GET {path.split('/video_')[0]}: {rate:.0f} a second, 99 % within {late:.1f} ms, while a video is made")
        server.json("DELETE", f"/v1/videos/{work}")
    server.end()


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    server = Server("timed")
    overhead(server)
    first_bytes(server)
    server.end()
    history()


main()
