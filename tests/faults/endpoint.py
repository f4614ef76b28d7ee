#!/usr/bin/env python3
"""The endpoint stages against a server that checks every request and misbehaves: nothing is lost, no answered request is repeated, limits
hold, the key is in no log and no file, and Ctrl-C ends a run at once.
usage: endpoint.py KINORA ROOT SCRATCH"""
import collections, json, os, pathlib, re, shutil, signal, socket, subprocess, sys, time

import numpy as np

from model_server import ModelServer, answer, chat, text_of, unit, vector_of

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
FILM = ROOT / "tests/data/bbb_D.mp4"
KEY = "sk-test-9f8e7d6c5b4a39-never-a-number"
CLIPS = [{"use": "clip.transcode", "min_length": 0.0, "min_frames": 1, "edge_crop": 0.0, "long_shots": "equal", "max_length": 0.25, "crf": 30, "preset": "ultrafast", "audio": False},
         {"use": "video.read", "stride": 1, "height": 90}]


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


def endpoint(server, use="caption.endpoint", **options):
    return {"use": use, "base_url": server.url, "model": "m", "api_key_env": "KINORA_TEST_KEY", "backoff": 0.05, **options}


class Result:
    def __init__(self, name, done, folder):
        self.name, self.code, self.said, self.folder = name, done.returncode, done.stdout + done.stderr, folder
        self.items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()] if (folder / "items.jsonl").exists() else []
        self.clips = {i["key"]: i for i in self.items if "-" in i["key"]}
        self.summary = json.loads((folder / "summary.json").read_text()) if (folder / "summary.json").exists() else {}

    def text(self, key):
        return (self.folder / "data" / f"{key}.txt").read_text()


def prepare(name, stages, more="", films=(FILM,)):
    out = SCRATCH / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    listed = ",\n  ".join(map(toml, stages))
    (out / "run.toml").write_text(f'[run]\nname = "{name}"\nout = "{out / "out"}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = {toml([str(f) for f in films])}\nstages = [\n  {listed}\n]\n{more}')
    return out


def environment(**more):
    clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    return {**clean, "KINORA_TEST_KEY": KEY, **more}


def run(name, stages, expect=0, more="", **env):
    prepare(name, stages, more)
    return again(name, expect=expect, **env)


def again(name, *options, expect=0, **env):
    out = SCRATCH / name
    done = subprocess.run([KINORA, "run", out / "run.toml", *options], capture_output=True, text=True, timeout=240, env=environment(**env))
    assert done.returncode == expect, f"{name}: exit {done.returncode}, expected {expect}\n{done.stdout}{done.stderr}"
    result = Result(name, done, out / "out/clips")
    no_secret(out, result.said)
    return result


def no_secret(folder, said):
    """Neither the key nor an identifying part of it occurs."""
    for piece in (KEY, KEY[:8], KEY[-6:]):
        assert piece not in said, (piece, said)
        for file in folder.rglob("*"):
            assert not file.is_file() or piece.encode() not in file.read_bytes(), (piece, file)


def files(result):
    return {p.name: p.read_bytes() for p in (result.folder / "data").iterdir()}


def sound(server):
    assert not server.problems, server.problems
    assert all(r.headers.get("Authorization") == "Bearer " + KEY for r in server.requests)


def check_captions():
    """Every clip gets the answer for its own pictures, once; facts and totals show the cost; two runs give the same bytes."""
    with ModelServer() as server:
        made = [run(name, CLIPS + [endpoint(server, fps=0, max_frames=4, max_side=64, price_prompt=2.0, price_completion=10.0, seed=3)]) for name in ("first", "second")]
        sound(server)
        captions = sorted("caption " + f[:12] for f in server.answered)
        assert len(captions) >= 8 and set(server.answered.values()) == {2}, server.answered  # once per run
        assert all(len(q.pictures) == 4 and all(p.shape == (36, 64, 3) for p in q.pictures) for q in server.requests)
        assert server.connections <= 2 * 8, server.connections  # connections are reused
    for r in made:
        assert sorted(r.text(k) for k in r.clips) == captions
        for item in r.clips.values():
            facts = item["facts"]
            assert facts["caption"]["by"] == "caption.endpoint" and facts["caption"]["model"] == "m" and len(facts["caption"]["windows"]) == 1
            assert facts["usage"]["caption.endpoint"] == {"requests": 1, "prompt_tokens": 100, "completion_tokens": 20, "cost": 0.0004}, facts["usage"]
        n = len(captions)
        assert f"this run: {n} requests answered, 0 retried; {100 * n} prompt and {20 * n} completion tokens, cost {0.0004 * n:.6g} in the currency of its prices" in r.said, r.said
    one, two = ({p.name: p.read_bytes() for p in (r.folder / "data").iterdir()} for r in made)
    assert one == two


def check_windows():
    """Windows of a clip are requested in parallel and joined in order."""
    with ModelServer(delay=0.6) as server:
        r = run("windows", CLIPS + [endpoint(server, window=4, remainder=2, join=" / ", concurrency=3)])
        sound(server)
        assert server.most_inside == 3, server.most_inside
        for key, item in r.clips.items():
            told = item["facts"]["caption"]["windows"]
            assert len(told) >= 1 and r.text(key) == " / ".join(w["text"] for w in told)
            bounds = [(w["first_frame"], w["end_frame"]) for w in told]
            frames = item["facts"]["frames"]
            # Expected windows, computed independently: whole windows of 4; a rest of 2 or 3 forms its own, a rest of 1 joins the last.
            whole, rest = divmod(frames, 4)
            expected = [(4 * i, 4 * i + 4) for i in range(whole)]
            if rest >= 2:
                expected.append((4 * whole, frames))
            elif rest:
                expected[-1] = (expected[-1][0], frames)
            assert bounds == expected, (frames, bounds)
        assert any(len(i["facts"]["caption"]["windows"]) > 1 for i in r.clips.values())
        assert sum(len(i["facts"]["caption"]["windows"]) for i in r.clips.values()) == sum(server.answered.values())


def check_faults():
    """Each request meets a fault first; all are answered in the end, once each, and a pause requested by the server applies to all requests."""
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
    for fault, words in (("bad_request", "status 400: {\"error\": {\"message\": \"This model's maximum context length is 8192 tokens. Header was"), ("no_money", "insufficient_quota"),
                         ("elsewhere", "status 302"), ("huge", "larger than 1048576 bytes"), ("long_wait", "longer than longest_wait")):
        with ModelServer(lambda _: fault) as server:
            r = run(fault, CLIPS + [endpoint(server, answer_size="1 MiB")], expect=1)
            sound(server)
            assert r.clips and all(i["end"] == "failed" for i in r.clips.values()) and len(server.requests) == len(r.clips), (fault, len(server.requests))
            for i in r.clips.values():
                assert words in i["reason"] and server.url in i["reason"] and len(i["reason"]) < 420, i["reason"]
            assert server.sent_of_huge < len(r.clips) * (8 << 20)
            assert r.summary["clips"]["failed"] == len(r.clips) and r.summary["clips"]["kept"] == 0, r.summary
    with ModelServer(lambda _: "broken") as server:
        r = run("always_broken", CLIPS + [endpoint(server, retries=2)], expect=1)
        assert len(server.requests) == 3 * len(r.clips) and all("(3 attempts)" in i["reason"] for i in r.clips.values())
    with ModelServer(lambda _: "endless_headers") as server:  # libcurl limits them
        r = run("endless_headers", CLIPS + [endpoint(server, retries=0)], expect=1)
        assert all(i["end"] == "failed" for i in r.clips.values()) and server.sent_of_huge < len(r.clips) * (8 << 20), r.items


def check_bad_key():
    """A refused key is refused for every request: the job ends with an error, no clip is reported as failed, and with the right key it resumes."""
    for fault, status in (("bad_key", 401), ("forbidden", 403)):
        with ModelServer() as server:
            whole = run("right_key", CLIPS + [endpoint(server, concurrency=1)])
            server.answered.clear(), server.requests.clear()
            server.plan = lambda _: fault if len(server.answered) >= 3 else None
            stages = CLIPS + [endpoint(server, concurrency=1)]
            r = run(fault, stages, expect=1)
            assert f"status {status}" in r.said and "caption.endpoint" in r.said and "[key]" in r.said and "failed" not in r.summary, r.said
            refused = [q for q in server.requests if q.fingerprint not in server.answered]
            assert len(refused) == 1, len(refused)
            server.plan = lambda _: None
            r = again(fault)
            assert set(server.answered.values()) == {1}, ("what was answered is not asked again", server.answered)
            assert all(i["end"] == "kept" for i in r.clips.values()) and r.summary["clips"]["failed"] == 0
            assert files(r) == files(whole)


def check_wrong_server():
    """A model or path that the server does not have ends the job after the first answer, and so does a missing key: the message says what to set."""
    for fault, words in (("no_model", "the server has no model 'm': set model of caption.endpoint"), ("invalid_model", "the server has no model 'm'"), ("no_page", "set base_url of caption.endpoint"),
                         ("bad_key", "no key was sent: name the environment variable that holds it in api_key_env")):
        with ModelServer(lambda _: fault) as server:
            r = run("wrong_" + fault, CLIPS + [endpoint(server, concurrency=1, api_key_env="")], expect=1)
            assert words in r.said and server.url in r.said and len(server.requests) == 1 and not r.items and not r.summary, (fault, len(server.requests), r.said)
    with ModelServer(lambda _: "no_choices") as server:
        r = run("no_choices", CLIPS + [endpoint(server, retries=1)], expect=1)
        assert len(server.requests) == 2 * len(r.clips), len(server.requests)
        assert all(server.url in i["reason"] and "has no choices" in i["reason"] and "base_url of caption.endpoint" in i["reason"] for i in r.clips.values()), r.items


def check_nobody():
    """An unreachable server ends the job after the first clips; once the server runs, the job resumes, and nothing is lost."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound without listening, so that no other process gets the port
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"
        stages = lambda url, **more: [{**CLIPS[0], "max_length": 0.2}, CLIPS[1], {"use": "caption.endpoint", "base_url": url, "model": "m", "api_key_env": "KINORA_TEST_KEY", "concurrency": 2, "retries": 1, "backoff": 0.01, **more}]
        for name, more in (("nobody", {}), ("nobody_kept", {"on_error": "keep"})):
            r = run(name, stages(url, **more), expect=1)
            assert "the first 8 samples, and no request was ever answered" in r.said and "start the server or set base_url of caption.endpoint" in r.said, r.said
            assert url in r.said and not r.summary and not r.items, r.said
    with ModelServer() as server:  # at the given address
        whole = run("somebody", stages(server.url))
        count = len(whole.clips)
        assert count > 8 and sum(server.answered.values()) == count, (count, server.answered)
    with ModelServer(port=int(url.split(":")[2].split("/")[0])) as server:
        assert server.url == url
        r = again("nobody", "--retry-failed")
        sound(server)
        assert all(i["end"] == "kept" for i in r.clips.values()) and set(server.answered.values()) == {1} and len(server.answered) == count
        assert {k: v for k, v in files(r).items() if k.endswith(".txt")} == {k: v for k, v in files(whole).items() if k.endswith(".txt")}


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
        process = subprocess.Popen([KINORA, "run", out / "run.toml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
        assert process.wait(timeout=120) == 130 and len(server.answered) >= 5
        answered = len(server.answered)
        changed(out, "at_least = 0.0", "at_least = 0.001")
        server.plan = lambda _: None
        r = again("changed")
        assert "starts from scratch" in r.said, r.said
        assert set(server.answered.values()) == {1} and len(server.answered) == len(r.clips) > answered, server.answered
        assert all(i["end"] == "kept" for i in r.clips.values()) and not (r.folder / "answers").exists()
        # The same for a finished job, however often it starts over; a changed prompt is requested.
        for n, (before, now) in enumerate((("at_least = 0.001", "at_least = 0.002"), ("at_least = 0.002", "at_least = 0.003"))):
            changed(out, before, now)
            r = again("changed")
            assert "starts from scratch" in r.said and f"0 requests answered, 0 retried" in r.said and f"{len(r.clips)} kept answers were reused" in r.said, r.said
            assert set(server.answered.values()) == {1} and all(r.text(k) for k in r.clips) and r.summary["usage"]["caption.endpoint"]["requests"] == len(r.clips)
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
    """Clips that failed while a server was away stay failed until a retry is requested; then they and the jobs that read them are done."""
    shards = '[[job]]\nname = "shards"\nkind = "shard"\ninput = "clips"\n'
    with ModelServer(lambda _: "broken" if len(server.answered) >= 3 else None) as server:
        r = run("outage", CLIPS + [endpoint(server, retries=0, concurrency=1)], more=shards)
        failed = [k for k, i in r.clips.items() if i["end"] == "failed"]
        n, kept = len(r.clips), len(r.clips) - len(failed)
        assert kept == 3 and failed and "--retry-failed" in r.said, r.said
        assert all(r.clips[k]["status"] == "data" for k in failed)
        # A retry that changes nothing leaves the jobs that read the clips as they are; one that changes something is reported as such.
        packed = (r.folder.parent / "shards/summary.json").read_bytes()
        r = again("outage", "--retry-failed")
        assert "shards: already done" in r.said and r.summary["clips"] == {"kept": 3, "filtered": 0, "failed": len(failed)}, r.said
        assert (r.folder.parent / "shards/summary.json").read_bytes() == packed
        server.plan = lambda _: None
        before = {p.name: p.stat().st_mtime_ns for p in (r.folder / "data").iterdir()}
        r = again("outage")
        assert "already done" in r.said and f"{len(failed)} failures are in it" in r.said and len(server.answered) == 3, r.said
        assert "would try again" in again("outage", "--retry-failed", "--dry-run").said and len(server.answered) == 3
        r = again("outage", "--retry-failed")
        assert "its inputs have changed since" in r.said and "seed" not in r.said, r.said
        assert all(i["end"] == "kept" for i in r.clips.values()) and r.summary["clips"] == {"kept": n, "filtered": 0, "failed": 0}, r.summary
        assert set(server.answered.values()) == {1} and len(server.answered) == n
        assert all((r.folder / "data" / name).stat().st_mtime_ns == at for name, at in before.items() if name.endswith(".mp4")), "what was kept is not made again"
        assert json.loads((r.folder.parent / "shards/summary.json").read_text())["samples"] == n
        r = again("outage", "--retry-failed")
        assert r.said.count("already done") == 2 and len(server.answered) == n, r.said
        whole = run("no_outage", CLIPS + [endpoint(server, retries=0, concurrency=1)], more=shards)
        assert files(r) == files(whole) and r.items == whole.items


def check_costs():
    """Paid answers are counted, even if the sample fails afterwards."""
    asked = collections.Counter()

    def plan(request):
        with server.lock:
            asked["all"] += 1
            return "bad_request" if asked["all"] % 3 == 0 else None

    with ModelServer(plan) as server:
        r = run("costs", CLIPS + [endpoint(server, window=4, remainder=2, price_prompt=2.0, price_completion=10.0)])
        failed = [i for i in r.clips.values() if i["end"] == "failed"]
        answered = sum(server.answered.values())
        assert failed and any("usage" in i["facts"] for i in failed), r.items
        used = [i["facts"]["usage"]["caption.endpoint"] for i in r.clips.values() if "usage" in i["facts"]]
        assert sum(u["requests"] for u in used) == answered
        sums = r.summary["usage"]["caption.endpoint"]
        assert sums["requests"] == answered and sums["prompt_tokens"] == 100 * answered and sums["completion_tokens"] == 20 * answered, sums
        assert abs(sums["cost"] - 0.0004 * answered) < 1e-12, sums
        metrics = dict(line.rsplit(" ", 1) for line in (r.folder / "metrics.prom").read_text().splitlines() if not line.startswith("#"))
        counted = lambda what: float(metrics[f'kinora_stage_{what}_total{{job="clips",stage="caption.endpoint"}}'])
        assert (counted("requests"), counted("prompt_tokens"), counted("completion_tokens")) == (answered, 100 * answered, 20 * answered), metrics
        assert abs(counted("cost") - sums["cost"]) < 1e-12 and json.loads((r.folder / "live.json").read_text())["usage"] == r.summary["usage"]
        assert abs(float(metrics['kinora_job_updated_seconds{job="clips"}']) - (r.folder / "metrics.prom").stat().st_mtime) < 2, metrics


def check_unusable():
    """Refusals, empty and truncated answers: failures with their reason, or kept by option."""
    replies = [("stop", None, {"refusal": "I will not."}, "refuses: I will not."), ("stop", "", {}, "empty"), ("length", "A boat on", {}, "max_tokens"),
               ("content_filter", "A", {}, "content filter")]
    for reason, text, more, words in replies:
        with ModelServer(reply=lambda _: chat(text, reason, **more)) as server:
            r = run("unusable_" + words[:5].strip(), CLIPS + [endpoint(server)], expect=1)  # every clip
            assert all(i["end"] == "failed" and words in i["reason"] for i in r.clips.values()), r.items
            assert len(server.requests) == len(r.clips) * (4 if text == "" else 1)  # only an empty answer may be another one when asked again
            assert r.summary["usage"]["caption.endpoint"]["requests"] == len(server.requests)
            kept = run("kept_" + words[:5].strip(), CLIPS + [endpoint(server, on_error="keep")])
            for key, i in kept.clips.items():
                assert i["end"] == "kept" and words in i["facts"]["errors"]["caption.endpoint"] and not (kept.folder / "data" / f"{key}.txt").exists()
    asked = collections.Counter()
    first = lambda request: asked.update([request.fingerprint]) or asked[request.fingerprint] == 1
    odd = lambda reply: json.dumps(reply).encode()
    overloaded = {"error": {"message": "the upstream is overloaded", "code": 502}}
    wrong = {"error": {"message": "too many pictures", "type": "invalid_request_error"}}
    thought = "Let me look. </think>A boat.<|im_end|>"
    with ModelServer(reply=lambda q: odd(chat("A boat on", "error")) if first(q) else chat(thought)) as server:
        r = run("half", CLIPS + [endpoint(server, retries=1)])
        assert all(r.text(k) == "A boat." and i["facts"]["usage"]["caption.endpoint"]["requests"] == 2 for k, i in r.clips.items()), r.items
    asked.clear()
    with ModelServer(reply=lambda q: odd(overloaded) if first(q) else chat("A boat.")) as server:
        r = run("reported", CLIPS + [endpoint(server, retries=1)])
        assert all(r.text(k) == "A boat." for k in r.clips) and "an error 502: the upstream is overloaded" in r.said, r.said
    for name, reply, words, tries in (("wrong", wrong, "too many pictures", 1), ("never", chat("A boat on", None), "finish_reason is missing", 2)):
        with ModelServer(reply=lambda _: odd(reply)) as server:
            r = run(name, CLIPS + [endpoint(server, retries=1)], expect=1)
            assert all(i["end"] == "failed" and words in i["reason"] for i in r.clips.values()) and len(server.requests) == tries * len(r.clips), r.items
            paid = r.summary["usage"]["caption.endpoint"]["requests"] if "usage" in r.summary else 0
            assert paid == (len(server.requests) if "choices" in reply else 0), r.summary
    with ModelServer(reply=lambda _: odd({**chat("A boat."), "logprob": float("nan")})) as server:
        r = run("nan", CLIPS + [endpoint(server)])
        assert all(r.text(k) == "A boat." for k in r.clips) and len(server.requests) == len(r.clips)
    asked.clear()
    blank = lambda request: chat("<think>A boat?</think> " if asked.update([request.fingerprint]) or asked[request.fingerprint] == 1 else "A boat")
    with ModelServer(reply=blank) as server:
        r = run("blank_once", CLIPS + [endpoint(server, retries=1)])
        assert all(r.text(k) == "A boat" and i["facts"]["usage"]["caption.endpoint"] == {"requests": 2, "prompt_tokens": 200, "completion_tokens": 40} for k, i in r.clips.items()), r.items
        assert set(asked.values()) == {2} and len(asked) == len(r.clips)
    with ModelServer(reply=lambda _: chat("A boat on", "length")) as server:
        r = run("cut_kept", CLIPS + [endpoint(server, cut="keep")])
        assert all(r.text(k) == "A boat on" and i["facts"]["caption"]["windows"][0]["cut"] for k, i in r.clips.items())


def check_rate():
    """Rates stay within the limits and reach them."""
    each_frame = dict(use="filter.ocr", mode="score", every=1, concurrency=8, max_side=64)
    for name, limit in (("requests", {"requests_per_minute": 1200}), ("tokens", {"tokens_per_minute": 1200 * 120, "max_tokens": 10**6})):
        with ModelServer(delay=0.02) as server:  # a request takes 120 tokens; the first is expected to take a million
            r = run("rate_" + name, CLIPS + [endpoint(server, **each_frame, **limit)])
            sound(server)
            at = sorted(q.at for q in server.requests)
            assert len(at) == sum(i["facts"]["frames"] for i in r.clips.values()) >= 40
            worst = min(at[j] - at[i] - 0.05 * (j - i) for i in range(len(at)) for j in range(i + 1, len(at)))
            assert worst > -0.05, worst
            print(f"   {name}: {(len(at) - 1) / (at[-1] - at[0]):.2f} of 20 a second")
    with ModelServer(delay=0.4) as server:
        run("at_once", CLIPS + [endpoint(server, concurrency=2)])
        assert server.most_inside == 2, server.most_inside


def check_cancel():
    """Ctrl-C during an answer that never comes ends the run."""
    with ModelServer(lambda _: "never") as server:
        out = prepare("cancel", CLIPS + [endpoint(server)])
        process = subprocess.Popen([KINORA, "run", out / "run.toml"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
        until = time.monotonic() + 60
        while not server.requests and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=100)[0]
        assert process.returncode == 130 and server.requests, (process.returncode, said)
        no_secret(out, said)


def check_killed():
    """kill -9 between two stages that send requests: answered requests are not repeated, except those in progress."""
    films, concurrency = [FILM.with_name(f"bbb_{letter}.mp4") for letter in "ABCD"], 2
    stages = lambda server: CLIPS + [endpoint(server, concurrency=concurrency, max_frames=4, max_side=64),
                                     {**endpoint(server, "caption.enhance", concurrency=1), "model": "slow"}]
    with ModelServer() as server:
        whole = prepare("undisturbed", stages(server), films=films)
        subprocess.run([KINORA, "run", whole / "run.toml"], check=True, capture_output=True, env=environment(), timeout=240)
        asked = len(server.answered)
        assert set(server.answered.values()) == {1} and asked >= 40, server.answered
    with ModelServer(lambda request: None if request.pictures else time.sleep(0.2)) as server:
        out = prepare("killed", stages(server), films=films)
        command = [KINORA, "run", out / "run.toml"]
        for enhanced, captioned in ((2, 5), (6, 15), (10, 25)):  # many captions wait for their rewriting, however slow the machine
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
            until = time.monotonic() + 120
            while (pictures := [bool(q.pictures) for q in list(server.requests)]).count(False) < enhanced or pictures.count(True) < captioned:
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


def check_passes():
    """Second pass, verdicts, text areas and vectors, one after the other, each from the server's answers."""
    with ModelServer() as server:
        common = dict(max_frames=2, max_side=64)
        r = run("passes", CLIPS + [endpoint(server, **common), endpoint(server, "caption.enhance", prompt="Rewrite, {duration_s} s:\n{caption}"),
                                   endpoint(server, "filter.ocr", mode="score", every=4, reduce="mean", **common),
                                   endpoint(server, "filter.endpoint", block=["slides"], **common), endpoint(server, "embed.endpoint", name="text")])
        sound(server)
        by_kind = collections.defaultdict(list)
        for q in server.requests:
            kind = "embed" if q.path.endswith("/embeddings") else q.body.get("response_format", {}).get("json_schema", {}).get("name", "caption" if q.pictures else "enhance")
            by_kind[kind].append(q)
        kept = {k: i for k, i in r.clips.items() if i["end"] == "kept"}
        dropped = {k: i for k, i in r.clips.items() if i["end"] == "filtered"}
        assert kept and dropped and len(kept) + len(dropped) == len(r.clips), r.summary
        assert r.summary["rules"] == {"filter.endpoint": len(dropped)}, r.summary
        assert len(by_kind["enhance"]) == len(by_kind["verdict"]) == len(r.clips) and len(by_kind["embed"]) == len(kept)
        enhanced = {text_of(q.body) for q in by_kind["enhance"]}
        reasons = {q.fingerprint[:6]: int(q.fingerprint[0], 16) % 2 == 0 for q in by_kind["verdict"]}
        for key, i in r.clips.items():
            facts = i["facts"]
            first = facts["caption"]["original"]
            assert first["by"] == "caption.endpoint" and first["text"].startswith("caption ") and facts["caption"]["by"] == "caption.enhance"
            assert f"Rewrite, {json.dumps(facts['duration_s'])} s:\n{first['text']}" in enhanced
            assert i["caption"] == "better " + first["text"]
            verdict = facts["filter.endpoint"]
            assert verdict["keep"] == (i["end"] == "kept") == reasons[verdict["reason"][-6:]] and verdict["labels"] == ["film"]
            assert facts["scores"]["filter.endpoint"] == verdict["keep"]
            shares = [f["share"] for f in facts["ocr"]["frames"]]
            assert abs(facts["scores"]["filter.ocr"] - sum(shares) / len(shares)) < 1e-12 and facts["ocr"]["frames"][0]["texts"] == ["TITLE"]
            assert all(0 <= s <= 0.255 for s in shares)
        assert {i["reason"] for i in dropped.values()} == {"filter.endpoint"} and all(i["score"] == 0 for i in dropped.values())
        vectors = {q.body["input"]: unit(vector_of(q.fingerprint)) for q in by_kind["embed"]}
        for key, i in kept.items():
            stored = np.load(r.folder / "data" / f"{key}.text.npy")
            assert stored.dtype == np.float32 and stored.shape == (8,) and np.abs(stored - vectors[i["caption"]]).max() < 1e-6
            assert i["facts"]["embeddings"]["text"] == {"model": "m", "size": 8}
            assert set(i["facts"]["usage"]) == {"caption.endpoint", "caption.enhance", "filter.ocr", "filter.endpoint", "embed.endpoint"}
    with ModelServer(reply=lambda q: chat("Keep it, I think.")) as server:
        r = run("no_verdict", CLIPS + [endpoint(server, "filter.endpoint")], expect=1)
        assert all(i["end"] == "failed" and "no JSON object" in i["reason"] for i in r.clips.values())
        r = run("no_verdict_kept", CLIPS + [endpoint(server, "filter.endpoint", on_error="keep")])
        assert all(i["end"] == "kept" for i in r.clips.values())
    with ModelServer(reply=lambda q: chat(json.dumps({"keep": True, "reason": "fine", "labels": ["Slides", "film"]}))) as server:
        for name, lists, end in (("blocked", {"block": ["slides"]}, "filtered"), ("not_allowed", {"allow": ["nature"]}, "filtered"), ("allowed", {"allow": ["FILM"]}, "kept"),
                                 ("scored", {"block": ["slides"], "mode": "score"}, "kept")):
            r = run(name, CLIPS + [endpoint(server, "filter.endpoint", **lists)])
            assert {i["end"] for i in r.clips.values()} == {end}, (name, r.items)


def check_options():
    """Each option changes the request, and its value is applied to the answer: scale, form and max_area of filter.ocr, form of
    filter.endpoint, quality of pictures, prefix and dimensions of embed.endpoint."""
    def reply(q):
        if q.path.endswith("/embeddings"):
            return answer(q)
        regions = {"regions": [{"text": "T", "box": [0, 0, 500, 250]}]}  # half of the picture, if its corner is (500, 500)
        return chat(json.dumps(regions if "response_format" in q.body else {"keep": True, "reason": "fine", "labels": ["film"]}))

    with ModelServer(reply=reply) as server:
        r = run("options", CLIPS + [{"use": "caption.describe"}, endpoint(server, "filter.ocr", scale=500, form="json_object", max_area=0.6, quality=10),
                                    endpoint(server, "filter.endpoint", form="none", quality=95), endpoint(server, "embed.endpoint", prefix="passage: ", dimensions=8)])
        sound(server)
        embed = [q for q in server.requests if q.path.endswith("/embeddings")]
        ocr = [q for q in server.requests if "response_format" in q.body]
        verdicts = [q for q in server.requests if q not in embed and q not in ocr]
        assert embed and ocr and verdicts and all(i["end"] == "kept" and i["facts"]["scores"]["filter.ocr"] == 0.5 for i in r.clips.values()), r.items
        assert {json.dumps(q.body["response_format"]) for q in ocr} == {'{"type": "json_object"}'} and all("500" in text_of(q.body) for q in ocr)
        size = lambda q: sum(len(part["image_url"]["url"]) for part in q.body["messages"][-1]["content"] if part["type"] == "image_url") / len(q.pictures)
        assert 2 * max(map(size, ocr)) < min(map(size, verdicts)), "a picture of quality 10 is as long as one of 95"
        assert all(q.body["input"].startswith("passage: ") and q.body["dimensions"] == 8 for q in embed)


def check_transport():
    """Certificates are verified; a private certificate can be trusted; proxies come from the environment."""
    certificate = SCRATCH / "certificate.pem", SCRATCH / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", certificate[1], "-out", certificate[0]], check=True, capture_output=True)
    with ModelServer(certificate=certificate) as server:
        r = run("unknown_certificate", CLIPS + [endpoint(server)], expect=1)
        assert not server.requests and all(i["end"] == "failed" and "certificate" in i["reason"].lower() for i in r.clips.values()), r.items
        r = run("own_certificate", CLIPS + [endpoint(server, ca_file=str(certificate[0]))])
        sound(server)
        assert all(i["end"] == "kept" for i in r.clips.values())
    with ModelServer() as proxy:
        stage = {**endpoint(proxy), "base_url": "http://models.invalid/v1"}
        r = run("proxy", CLIPS + [stage], http_proxy=f"http://127.0.0.1:{proxy.port}")
        assert all(i["end"] == "kept" for i in r.clips.values())
        assert {q.path for q in proxy.requests} == {"http://models.invalid/v1/chat/completions"}
        assert "unencrypted" in r.said


def check_configuration():
    """Unusable settings are reported before anything runs, at their place in the file."""
    with ModelServer() as server:
        for name, options, words in (("unset_key", {"api_key_env": "KINORA_TEST_NO_KEY"}, "KINORA_TEST_NO_KEY"), ("password", {"base_url": f"http://me:{KEY}@127.0.0.1/v1"}, "api_key_env"),
                                     ("extra", {"extra": "{\"messages\": []}"}, "'messages'")):
            out = prepare(name, CLIPS + [{**endpoint(server), **options}])
            done = subprocess.run([KINORA, "check", out / "run.toml"], capture_output=True, text=True, env=environment())
            assert done.returncode == 2 and words in done.stdout + done.stderr and KEY not in done.stdout + done.stderr, done
            assert f"{out / 'run.toml'}:" in done.stdout + done.stderr or "run.toml:" in done.stdout + done.stderr, done
        assert not server.requests


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    wanted = sys.argv[4:]
    for check in (check_captions, check_windows, check_faults, check_permanent, check_bad_key, check_wrong_server, check_nobody, check_changed, check_retry, check_costs, check_unusable, check_rate, check_cancel, check_killed, check_passes, check_options, check_transport,
                  check_configuration):
        if wanted and check.__name__ not in wanted:
            continue
        begin = time.monotonic()
        check()
        print(f"ok    {check.__name__[6:]}: {check.__doc__.splitlines()[0]} ({time.monotonic() - begin:.1f} s)", flush=True)


main()
