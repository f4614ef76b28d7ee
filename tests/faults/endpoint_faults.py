"""Faults of the server, kills and Ctrl-C: nothing is lost and no answered request is repeated. Part of endpoint.py."""
import collections, json, re, signal, socket, subprocess, time

from endpoint_runs import (CLIPS, VIDEO, KINORA, SCRATCH, again, endpoint, environment, files, no_secret, prepare, run,
                           sound)
from model_server import ModelServer, answer, chat


def check_faults():
    """Each request meets a fault first; all are answered in the end, once each, and a pause requested by the server
    applies to all requests."""
    faults = ["too_many", "broken", "slow", "cut", "reset", "no_json", "unavailable", "half_json"]
    seen = collections.Counter()

    def plan(request):
        with server.lock:
            seen[request.fingerprint] += 1
            return faults[(len(seen) - 1) % len(faults)] if seen[request.fingerprint] == 1 else None

    with ModelServer(plan) as server:
        r = run("faults", CLIPS + [endpoint(server, timeout=1.0, concurrency=4)])
        sound(server)
    assert len(r.clips) >= len(faults) and all(i["end"] == "kept" for i in r.clips.values())
    assert set(server.answered.values()) == {1} and len(server.answered) == len(r.clips), server.answered
    assert set(seen.values()) == {2}, seen
    assert sorted(r.text(k) for k in r.clips) == sorted("caption " + f[:12] for f in server.answered)
    # If a reused connection breaks before the first byte, libcurl itself repeats the request.
    n, again = len(r.clips), int(re.search(r"(\d+) retried", r.said)[1])
    paid = n + n // len(faults)  # the broken JSON of half_json was an answer too
    assert f"{paid} requests answered" in r.said and n - -(-n // len(faults)) <= again <= n, r.said
    pauses = [q.paused for q in server.requests if hasattr(q, "paused")]
    assert pauses
    for at in pauses:
        early = [q.at - at for q in server.requests if at + 0.15 < q.at < at + 0.95]
        assert not early, early


def check_permanent():
    """A permanent error is requested once and fails with the server's message, without the key in it."""
    for fault, words in (("bad_request",
                          "status 400: {\"error\": {\"message\": \"This model's maximum context length is 8192 tokens. "
                          "Header was"), ("no_money", "insufficient_quota"),
                         ("elsewhere", "status 302"), ("huge", "larger than 1048576 bytes"),
                         ("long_wait", "longer than longest_wait")):
        with ModelServer(lambda _: fault) as server:
            r = run(fault, CLIPS + [endpoint(server, answer_size="1 MiB")], expect=1)
            sound(server)
            assert r.clips and all(i["end"] == "failed"
                                   for i in r.clips.values()) and len(server.requests) == len(r.clips), (
                                       fault, len(server.requests))
            for i in r.clips.values():
                assert words in i["reason"] and server.url in i["reason"] and len(i["reason"]) < 420, i["reason"]
            assert server.sent_of_huge < len(r.clips) * (8 << 20)
            assert r.summary["clips"]["failed"] == len(r.clips) and r.summary["clips"]["kept"] == 0, r.summary
    with ModelServer(lambda _: "too_many") as server:  # it asks for a wait of one second
        r = run("short_wait", CLIPS + [endpoint(server, longest_wait=0.5)], expect=1)
        assert r.clips and len(server.requests) == len(r.clips) and all(
            "wait of 1 s, longer than longest_wait" in i["reason"] for i in r.clips.values()), r.said
    with ModelServer(lambda _: "broken") as server:
        r = run("always_broken", CLIPS + [endpoint(server, retries=2)], expect=1)
        assert len(server.requests) == 3 * len(r.clips) and all("(3 attempts)" in i["reason"] for i in r.clips.values())
    with ModelServer(lambda _: "endless_headers") as server:  # libcurl limits them
        r = run("endless_headers", CLIPS + [endpoint(server, retries=0)], expect=1)
        assert all(i["end"] == "failed"
                   for i in r.clips.values()) and server.sent_of_huge < len(r.clips) * (8 << 20), r.items


def check_bad_key():
    """A refused key is refused for every request: the job ends with an error, no clip is reported as failed, and with
    the right key it resumes."""
    for fault, status in (("bad_key", 401), ("forbidden", 403)):
        with ModelServer() as server:
            whole = run("right_key", CLIPS + [endpoint(server, concurrency=1)])
            server.answered.clear(), server.requests.clear()
            server.plan = lambda _: fault if len(server.answered) >= 3 else None
            stages = CLIPS + [endpoint(server, concurrency=1)]
            r = run(fault, stages, expect=1)
            assert (f"status {status}" in r.said and "caption.endpoint" in r.said and "[key]" in r.said
                    and "failed" not in r.summary), r.said
            refused = [q for q in server.requests if q.fingerprint not in server.answered]
            assert len(refused) == 1, len(refused)
            server.plan = lambda _: None
            r = again(fault)
            assert set(server.answered.values()) == {1}, ("what was answered is not asked again", server.answered)
            assert all(i["end"] == "kept" for i in r.clips.values()) and r.summary["clips"]["failed"] == 0
            assert files(r) == files(whole)


def check_wrong_server():
    """A model or path that the server does not have ends the job after the first answer, and so does a missing key: the
    message says what to set."""
    for fault, words in (("no_model", "the server has no model 'm': set model of caption.endpoint"),
                         ("invalid_model", "the server has no model 'm'"),
                         ("no_page", "set base_url of caption.endpoint"),
                         ("bad_key", "no key was sent: name the environment variable that holds it in api_key_env")):
        with ModelServer(lambda _: fault) as server:
            r = run("wrong_" + fault, CLIPS + [endpoint(server, concurrency=1, api_key_env="")], expect=1)
            assert words in r.said and server.url in r.said and len(
                server.requests) == 1 and not r.items and not r.summary, (fault, len(server.requests), r.said)
    with ModelServer(lambda _: "no_choices") as server:
        r = run("no_choices", CLIPS + [endpoint(server, retries=1)], expect=1)
        assert len(server.requests) == 2 * len(r.clips), len(server.requests)
        assert all(server.url in i["reason"] and "has no choices" in i["reason"]
                   and "base_url of caption.endpoint" in i["reason"] for i in r.clips.values()), r.items


def check_nobody():
    """An unreachable server ends the job after the first clips; once the server runs, the job resumes, and nothing is
    lost."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound without listening, so that no other process gets the port
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"
        stages = lambda url, **more: [{**CLIPS[0], "max_length": 0.2}, CLIPS[1],
                                      {"use": "caption.endpoint", "base_url": url, "model": "m",
                                       "api_key_env": "KINORA_TEST_KEY", "concurrency": 2, "retries": 1,
                                       "backoff": 0.01, **more}]
        for name, more in (("nobody", {}), ("nobody_kept", {"on_error": "keep"})):
            r = run(name, stages(url, **more), expect=1)
            assert ("the first 8 samples, and no request was ever answered" in r.said
                    and "start the server or set base_url of caption.endpoint" in r.said), r.said
            assert url in r.said and not r.summary and not r.items, r.said
    with ModelServer() as server:  # at the given address
        whole = run("somebody", stages(server.url))
        count = len(whole.clips)
        assert count > 8 and sum(server.answered.values()) == count, (count, server.answered)
    with ModelServer(port=int(url.split(":")[2].split("/")[0])) as server:
        assert server.url == url
        r = again("nobody", "--retry-failed")
        sound(server)
        assert all(i["end"] == "kept"
                   for i in r.clips.values()) and set(server.answered.values()) == {1} and len(server.answered) == count
        assert {k: v
                for k, v in files(r).items()
                if k.endswith(".txt")} == {k: v for k, v in files(whole).items() if k.endswith(".txt")}


def check_changed():
    """Options change during a job: answers to the same requests are not paid for again."""
    def changed(out, before, now):
        text = (out / "run.toml").read_text()
        assert before in text
        (out / "run.toml").write_text(text.replace(before, now))

    bright = lambda at_least: [*CLIPS, {"use": "filter.brightness", "at_least": at_least}]
    def stop_after(request):
        if len(server.answered) >= 5:
            process.send_signal(signal.SIGINT)
            return "slow"
    with ModelServer(lambda request: stop_after(request), delay=0.01) as server:
        out = prepare("changed", bright(0.0) + [endpoint(server, concurrency=1)])
        process = subprocess.Popen([KINORA, "run", out / "run.toml"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=environment())
        assert process.wait(timeout=120) == 130 and len(server.answered) >= 5
        answered = len(server.answered)
        changed(out, "at_least = 0.0", "at_least = 0.001")
        server.plan = lambda _: None
        r = again("changed")
        assert "starts from scratch" in r.said, r.said
        assert set(server.answered.values()) == {1} and len(server.answered) == len(r.clips) > answered, server.answered
        assert all(i["end"] == "kept" for i in r.clips.values()) and not (r.folder / "answers").exists()
        # The same for a finished job, however often it starts over; a changed prompt is requested.
        for n, (before, now) in enumerate((("at_least = 0.001", "at_least = 0.002"),
                                           ("at_least = 0.002", "at_least = 0.003"))):
            changed(out, before, now)
            r = again("changed")
            assert ("starts from scratch" in r.said and f"0 requests answered, 0 retried" in r.said
                    and f"{len(r.clips)} kept answers were reused" in r.said), r.said
            assert set(server.answered.values()) == {1} and all(r.text(k)
                                                                for k in r.clips) and r.summary["usage"][
                                                                    "caption.endpoint"]["requests"] == len(r.clips)
        count = len(server.answered)
        changed(out, "concurrency = 1", 'concurrency = 1, prompt = "What is it?"')
        r = again("changed")
        assert len(server.answered) == 2 * count and set(server.answered.values()) == {1}, server.answered
    with ModelServer(reply=lambda _: chat("", "stop")) as server:  # an unusable answer is not reused
        stages = bright(0.0) + [endpoint(server)]
        r = run("unused", stages, expect=1)
        before, server.reply = len(server.requests), answer
        changed(SCRATCH / "unused", "at_least = 0.0", "at_least = 0.001")
        r = again("unused")
        assert all(i["end"] == "kept" for i in r.clips.values()) and len(server.requests) == before + len(r.clips)


def check_retry():
    """Clips that failed while a server was away stay failed until a retry is requested; then they and the jobs that
    read them are done."""
    shards = '[[job]]\nname = "shards"\nkind = "shard"\ninput = "clips"\n'
    with ModelServer(lambda _: "broken" if len(server.answered) >= 3 else None) as server:
        r = run("outage", CLIPS + [endpoint(server, retries=0, concurrency=1)], more=shards)
        failed = [k for k, i in r.clips.items() if i["end"] == "failed"]
        n, kept = len(r.clips), len(r.clips) - len(failed)
        assert kept == 3 and failed and "--retry-failed" in r.said, r.said
        assert all(r.clips[k]["status"] == "data" for k in failed)
        # A retry that changes nothing leaves the jobs that read the clips as they are; one that changes something is
        # reported as such.
        packed = (r.folder.parent / "shards/summary.json").read_bytes()
        r = again("outage", "--retry-failed")
        assert "shards: already done" in r.said and r.summary["clips"] == {
            "kept": 3, "filtered": 0, "failed": len(failed)}, r.said
        assert (r.folder.parent / "shards/summary.json").read_bytes() == packed
        server.plan = lambda _: None
        before = {p.name: p.stat().st_mtime_ns for p in (r.folder / "data").iterdir()}
        r = again("outage")
        assert "already done" in r.said and f"{len(failed)} failures are in it" in r.said and len(
            server.answered) == 3, r.said
        assert "would try again" in again("outage", "--retry-failed", "--dry-run").said and len(server.answered) == 3
        r = again("outage", "--retry-failed")
        assert "its inputs have changed since" in r.said and "seed" not in r.said, r.said
        assert all(i["end"] == "kept"
                   for i in r.clips.values()) and r.summary["clips"] == {
                       "kept": n, "filtered": 0, "failed": 0}, r.summary
        assert set(server.answered.values()) == {1} and len(server.answered) == n
        assert all((r.folder / "data" / name).stat().st_mtime_ns == at
                   for name, at in before.items() if name.endswith(".mp4")), "what was kept is not made again"
        assert json.loads((r.folder.parent / "shards/summary.json").read_text())["samples"] == n
        r = again("outage", "--retry-failed")
        assert r.said.count("already done") == 2 and len(server.answered) == n, r.said
        whole = run("no_outage", CLIPS + [endpoint(server, retries=0, concurrency=1)], more=shards)
        assert files(r) == files(whole) and r.items == whole.items


def check_cancel():
    """Ctrl-C during an answer that never comes ends the run."""
    with ModelServer(lambda _: "never") as server:
        out = prepare("cancel", CLIPS + [endpoint(server)])
        process = subprocess.Popen([KINORA, "run", out / "run.toml"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, env=environment())
        until = time.monotonic() + 60
        while not server.requests and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=100)[0]
        assert process.returncode == 130 and server.requests, (process.returncode, said)
        no_secret(out, said)


def check_killed():
    """kill -9 between two stages that send requests: answered requests are not repeated, except those in progress."""
    videos, concurrency = [VIDEO.with_name(f"bbb_{letter}.mp4") for letter in "ABCD"], 2
    stages = lambda server: CLIPS + [endpoint(server, concurrency=concurrency, max_frames=4, max_side=64),
                                     {**endpoint(server, "caption.enhance", concurrency=1), "model": "slow"}]
    with ModelServer() as server:
        whole = prepare("undisturbed", stages(server), videos=videos)
        subprocess.run([KINORA, "run", whole / "run.toml"], check=True, capture_output=True, env=environment(),
                       timeout=240)
        asked = len(server.answered)
        assert set(server.answered.values()) == {1} and asked >= 40, server.answered
    with ModelServer(lambda request: None if request.pictures else time.sleep(0.2)) as server:
        out = prepare("killed", stages(server), videos=videos)
        command = [KINORA, "run", out / "run.toml"]
        # many captions wait for their rewriting, however slow the machine
        for enhanced, captioned in ((2, 5), (6, 15), (10, 25)):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
            until = time.monotonic() + 120
            while (pictures := [bool(q.pictures)
                                for q in list(server.requests)]).count(False) < enhanced or pictures.count(
                                    True) < captioned:
                assert time.monotonic() < until, (pictures.count(False), pictures.count(True))
                time.sleep(0.005)
            process.kill()
            process.wait()
        captioned = sum(1 for q in server.requests if q.pictures)
        server.plan = lambda _: None  # no further answers are delayed
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=240)
        assert done.returncode == 0, done.stderr
        sound(server)
        twice = sum(n - 1 for n in server.answered.values())
        print(f"   {asked} requests, {captioned} captions before the last of 3 kills, {twice} answers asked for again")
        assert captioned > 20 and len(server.answered) == asked and twice <= 3 * (concurrency + 1), (captioned, twice)
    assert not (out / "out/clips/answers").exists()
    one, two = ({p.name: p.read_bytes() for p in (folder / "out/clips/data").iterdir()} for folder in (whole, out))
    assert one == two
    no_secret(out, done.stderr)
