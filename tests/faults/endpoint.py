#!/usr/bin/env python3
"""The endpoint stages against a server that checks every request and misbehaves: nothing is lost, no answered request
is repeated, limits hold, the key is in no log and no file, and Ctrl-C ends a run at once.
usage: endpoint.py KINORA ROOT SCRATCH"""
import collections, json, shutil, subprocess, sys, time

from endpoint_answers import check_captions, check_options, check_passes, check_unusable, check_verdicts, check_windows
from endpoint_faults import (check_bad_key, check_cancel, check_changed, check_faults, check_killed, check_nobody,
                             check_permanent, check_retry, check_wrong_server)
from endpoint_runs import CLIPS, KEY, KINORA, SCRATCH, endpoint, environment, prepare, run, sound
from model_server import ModelServer


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
        assert sums["requests"] == answered and sums["prompt_tokens"] == 100 * answered and sums[
            "completion_tokens"] == 20 * answered, sums
        assert abs(sums["cost"] - 0.0004 * answered) < 1e-12, sums
        metrics = dict(line.rsplit(" ", 1)
                       for line in (r.folder / "metrics.prom").read_text().splitlines() if not line.startswith("#"))
        counted = lambda what: float(metrics[f'kinora_stage_{what}_total{{job="clips",stage="caption.endpoint"}}'])
        assert (counted("requests"), counted("prompt_tokens"),
                counted("completion_tokens")) == (answered, 100 * answered, 20 * answered), metrics
        assert abs(counted("cost")
                   - sums["cost"]) < 1e-12 and json.loads((r.folder / "live.json").read_text())["usage"] == r.summary[
                       "usage"]
        assert abs(float(metrics['kinora_job_updated_seconds{job="clips"}'])
                   - (r.folder / "metrics.prom").stat().st_mtime) < 2, metrics


def check_rate():
    """Rates stay within the limits and reach them."""
    each_frame = dict(use="filter.ocr", mode="score", every=1, concurrency=8, max_side=64)
    for name, limit in (("requests", {"requests_per_minute": 1200}),
                        ("tokens", {"tokens_per_minute": 1200 * 120, "max_tokens": 10**6})):
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


def check_transport():
    """Certificates are verified; a private certificate can be trusted; proxies come from the environment."""
    certificate = SCRATCH / "certificate.pem", SCRATCH / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", certificate[1], "-out", certificate[0]],
                   check=True, capture_output=True)
    with ModelServer(certificate=certificate) as server:
        r = run("unknown_certificate", CLIPS + [endpoint(server)], expect=1)
        assert not server.requests and all(i["end"] == "failed" and "certificate" in i["reason"].lower()
                                           for i in r.clips.values()), r.items
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
        for name, options, words in (("unset_key", {"api_key_env": "KINORA_TEST_NO_KEY"}, "KINORA_TEST_NO_KEY"),
                                     ("password", {"base_url": f"http://me:{KEY}@127.0.0.1/v1"}, "api_key_env"),
                                     ("extra", {"extra": "{\"messages\": []}"}, "'messages'")):
            out = prepare(name, CLIPS + [{**endpoint(server), **options}])
            done = subprocess.run([KINORA, "check", out / "run.toml"], capture_output=True, text=True,
                                  env=environment())
            assert (done.returncode == 2 and words in done.stdout + done.stderr
                    and KEY not in done.stdout + done.stderr), done
            assert f"{out / 'run.toml'}:" in done.stdout + done.stderr or "run.toml:" in done.stdout + done.stderr, done
        assert not server.requests


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    wanted = sys.argv[4:]
    for check in (check_captions, check_windows, check_faults, check_permanent, check_bad_key, check_wrong_server,
                  check_nobody, check_changed, check_retry, check_costs, check_unusable, check_rate, check_cancel,
                  check_killed, check_passes, check_verdicts, check_options, check_transport, check_configuration):
        if wanted and check.__name__ not in wanted:
            continue
        begin = time.monotonic()
        check()
        print(f"ok    {check.__name__[6:]}: {check.__doc__.splitlines()[0]} ({time.monotonic() - begin:.1f} s)",
              flush=True)


main()
