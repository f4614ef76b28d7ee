#!/usr/bin/env python3
"""How `kinora serve` is operated and what it survives: its own end, that of a model's process or of a rank, ones that
stand still, a full disk; refused settings, `drain`, packaging. usage: serve_operation.py KINORA ROOT SCRATCH"""
import configparser, contextlib, os, pathlib, re, resource, shutil, signal, socket, subprocess, time

from serving import KINORA, PIPELINE, ROOT, SCRATCH, SETS, TOKEN, Server, frames, made, refused, settings


def model_of(server):
    """The number of its only model's process."""
    return int(subprocess.run(["pgrep", "-P", str(server.process.pid)], capture_output=True, text=True, check=True)
               .stdout.split()[0])


def check_restarts():
    """What was accepted is there after kill -9 and after a clean end, and is made once."""
    server = Server("restarted")
    ids = [server.create(prompt=f"number {i}", num_frames=81, steps=20)["id"] for i in range(4)]
    server.wait(ids[0])
    server.end(signal.SIGKILL)
    server = Server("restarted")
    assert server.json("GET", f"/v1/videos/{ids[0]}")["status"] == "completed"
    server.wait(ids[1])
    assert server.end() == 130
    server = Server("restarted")
    assert [v["id"] for v in server.json("GET", "/v1/videos?order=asc")["data"]] == ids
    assert all(server.wait(id)["status"] == "completed" for id in ids)
    what = {"prompt": "its process is killed", "num_frames": 81, "steps": 30, "seed": 3}
    killed = server.create(**what)["id"]
    chunks, until = SCRATCH / "restarted/videos" / killed / "chunks", time.monotonic() + 30
    while len(list(chunks.glob("*.safetensors"))) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(model_of(server), signal.SIGKILL)
    whole = server.create(**what)["id"]
    assert all(server.wait(id)["status"] == "completed" for id in (killed, whole))
    same = [frames(server.ask("GET", f"/v1/videos/{id}/content")[2]) for id in (killed, whole)]
    assert same[0] == same[1] and len(same[0]) == 81 and not chunks.exists()
    log = next((SCRATCH / "restarted/models").glob("*/process.log")).read_text()
    assert "chunk 1 was finished before this process began" in log, log
    twice = subprocess.run([KINORA, "serve", "--pipeline", PIPELINE, "--port", "0", "--folder", SCRATCH / "restarted"],
                           capture_output=True, text=True, timeout=60)
    assert twice.returncode == 1 and "--folder" in twice.stderr, twice
    server.end()


def check_hang():
    """A model's process that hangs is ended, and its video made by the next one; the server answers all the time."""
    server = Server("hung", [settings("hung.toml", silence=2)])
    video = server.create(prompt="it hangs", num_frames=161, steps=30)["id"]
    while server.json("GET", f"/v1/videos/{video}")["status"] == "queued":
        time.sleep(0.01)
    os.kill(model_of(server), signal.SIGSTOP)
    until, slowest = time.monotonic() + 60, 0.0
    while (state := server.json("GET", f"/v1/videos/{video}"))["status"] != "completed":
        assert time.monotonic() < until and state["status"] != "failed", state
        start = time.monotonic()
        server.ask("GET", "/health", token="")
        slowest = max(slowest, time.monotonic() - start)
        time.sleep(0.05)
    assert slowest < 1, f"/health took {slowest:.3f} s"
    assert b'kinora_serve_restarts_total{model="wan_t2v"} 1\n' in server.ask("GET", "/metrics")[2]
    code = server.end()
    assert code == 130, code
    log = (SCRATCH / "hung.log").read_text()
    assert "no sign of life for 2 s" in log and f"video is completed: id={video}" in log, log
    assert "it hangs" not in log, log


def rank_of(folder, rank):
    """The process of this rank that writes to the server's folder."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile, or is another user's
            is_here = str(SCRATCH / folder).encode() in (process / "cmdline").read_bytes()
            if is_here and f"RANK={rank}".encode() in (process / "environ").read_bytes().split(b"\0"):
                return int(process.name)
    raise AssertionError(f"rank {rank} of {folder} does not run")


def check_ranks():
    """Two ranks make each video together; one is cancelled on both, and the next is made. So is one whose rank dies,
    and one whose rank stands still."""
    server = Server("ranks", [settings("ranks.toml", ", ranks = 2", [*SETS[:-1], "guidance=2.0", 'parallel=["cfg"]'],
                                       silence=4)])
    try:
        fields = {"prompt": "a red sea", "seed": 7, "num_frames": 9}
        first = made(server, **fields)
        running = server.create(prompt="long", num_frames=801, steps=60)["id"]
        while server.json("GET", f"/v1/videos/{running}")["status"] == "queued":
            time.sleep(0.01)
        server.json("DELETE", f"/v1/videos/{running}")
        assert frames(made(server, **fields)) == frames(first) and len(frames(first)) == 9
        for times, how in enumerate((signal.SIGKILL, signal.SIGSTOP), 1):
            lost = server.create(prompt="lost", num_frames=81, steps=6)["id"]
            while server.json("GET", f"/v1/videos/{lost}")["status"] == "queued":
                time.sleep(0.01)
            os.kill(rank_of("ranks", 1), how)
            while (video := server.json("GET", f"/v1/videos/{lost}"))["status"] in ("queued", "in_progress"):
                time.sleep(0.05)
            assert video["status"] == "completed", video
            restarts = b'restarts_total{model="wan_t2v"} %d\n' % times
            assert restarts in server.ask("GET", "/metrics")[2], restarts
    finally:
        assert server.end() == 130


def check_full_disk():
    """A video that finds its disk full says so; so does an upload beyond the largest file of `ulimit -f`."""
    server = Server("full")
    limit = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (8 << 20, limit[1]))
    code = server.ask("POST", "/v1/videos", bytes(9 << 20), {"Content-Type": "multipart/form-data; boundary=b"})[0]
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limit)
    assert code == 507, code
    server.create(prompt="the one before", num_frames=81, steps=20)
    video = server.create(prompt="finds no room", num_frames=5)
    (SCRATCH / "full/videos" / video["id"] / "live.mp4").symlink_to("/dev/full")
    until = time.monotonic() + 60
    while (error := server.json("GET", f"/v1/videos/{video['id']}")["error"]) is None:
        assert time.monotonic() < until, "it does not end"
        time.sleep(0.05)
    assert error["code"] == "disk_full" and "is full" in error["message"] and video["id"] in error["message"], error
    server.end()


def check_refusals():
    what = ["--pipeline", PIPELINE, "--folder", SCRATCH / "refused"]
    refused(what, "KINORA_SERVE_TOKEN: expected a token of at least 16 letters", KINORA_SERVE_TOKEN="short")
    refused(what, "KINORA_SERVE_READ_TOKEN: expected a token of at least 16", KINORA_SERVE_READ_TOKEN="short")
    refused(what, "the token that only reads is the server's token", KINORA_SERVE_READ_TOKEN=TOKEN)
    # An address for documentation (RFC 5737), which no machine has.
    refused([*what, "--host", "192.0.2.1"], "opens 192.0.2.1:8000 to the network", "TLS", "8000 of 192.0.2.1", code=1)
    refused([*what, "--host", "localhost"], "'localhost' is not an IPv4 address", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused([*what, "--port", port], f"port {port} of 127.0.0.1 is in use", "--port", code=1)
    refused([*what, "--port", "0", "--set", "no_such_option=1"], "model 'wan_t2v' cannot be loaded", "process.log",
            code=1)
    done = subprocess.Popen([KINORA, "serve", *what, "--port", "0"], stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.DEVNULL, env={k: v for k, v in os.environ.items()
                                                            if k != "KINORA_SERVE_TOKEN"})
    lines = [done.stdout.readline() for _ in range(2)]
    done.terminate()
    done.wait(60)
    assert lines[0].startswith("serving http") and re.fullmatch("token [0-9a-f]{32}\n", lines[1]), lines


def check_drain():
    """SIGTERM lets the video in work end, and keeps the next one for the next start."""
    server = Server("drained", [settings("drained.toml", drain=60)])
    runs, waits = server.create(prompt="a", num_frames=81, steps=6), server.create(prompt="b", num_frames=5)
    while server.json("GET", f"/v1/videos/{runs['id']}")["status"] == "queued":
        time.sleep(0.01)
    server.process.send_signal(signal.SIGTERM)
    until = time.monotonic() + 10
    while (code := server.ask("POST", "/v1/videos", {"prompt": "c"})[0]) != 503:
        assert code == 200 and time.monotonic() < until, code
    assert server.process.wait(60) == 130
    server = Server("drained")
    made = server.json("GET", f"/v1/videos/{runs['id']}")
    assert made["status"] == "completed", made
    assert server.wait(waits["id"])["status"] == "completed"
    server.end()


def check_packaging():
    """The unit for systemd calls what exists; nginx does not hold answers back, and takes what the server takes."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    file = ROOT / "packaging/kinora-serve.service"
    unit.read(file)
    program, command, *words = unit["Service"]["ExecStart"].split()
    help = subprocess.run([KINORA, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    assert program == "/usr/bin/kinora" and command == "serve", unit["Service"]["ExecStart"]
    assert all(f"{word} " in help for word in words if word.startswith("--")), words
    assert unit["Service"]["RestartPreventExitStatus"] == "2"  # which wrong settings end with
    assert "AF_NETLINK" in unit["Service"]["RestrictAddressFamilies"].split()  # gloo, for models of several ranks
    # The models, in the same group of the system, must not be ended before the server.
    assert unit["Service"]["KillMode"] == "mixed" and unit["Service"]["SuccessExitStatus"] == "130"
    if shutil.which("systemd-analyze"):
        copy = SCRATCH / file.name
        copy.write_text(file.read_text().replace(program, KINORA))
        done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
        assert done.returncode == 0 and file.name not in done.stderr, done.stderr
    page = (ROOT / "docs/serve.md").read_text()
    lines = dict(re.findall(r"(?m)^    (\w+) (.+);$", re.search(r"```nginx\n(.*?)```", page, re.S)[1]))
    upload = int(re.search(r"\| `upload` \| (\d+) \|", page)[1])
    assert lines["client_max_body_size"] == f"{upload >> 20}m" and lines["proxy_buffering"] == "off", lines
    if shutil.which("nginx"):
        conf = SCRATCH / "nginx.conf"
        body = re.search(r"```nginx\n(.*?)```", page, re.S)[1]
        conf.write_text(f"pid {SCRATCH}/nginx.pid; error_log stderr; events {{}}\nhttp {{ access_log off; "
                        f"server {{ listen 127.0.0.1:1; {body} }} }}\n")
        subprocess.run(["nginx", "-t", "-c", conf], check=True, capture_output=True)


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    for check in (check_restarts, check_hang, check_ranks, check_full_disk, check_refusals, check_drain,
                  check_packaging):
        check()


if __name__ == "__main__":
    main()
