"""What each endpoint stage makes of good and of unusable answers. Part of endpoint.py."""
import collections, json

import numpy as np

from endpoint_runs import CLIPS, endpoint, run, sound
from model_server import ModelServer, answer, chat, text_of, unit, vector_of


def check_captions():
    """Every clip gets the answer for its own pictures, once; facts and totals show the cost; two runs give the same
    bytes."""
    with ModelServer() as server:
        made = [
            run(name, CLIPS + [endpoint(server, fps=0, max_frames=4, max_side=64, price_prompt=2.0,
                                        price_completion=10.0, seed=3)]) for name in ("first", "second")]
        sound(server)
        captions = sorted("caption " + f[:12] for f in server.answered)
        assert len(captions) >= 8 and set(server.answered.values()) == {2}, server.answered  # once per run
        assert all(len(q.pictures) == 4 and all(p.shape == (36, 64, 3) for p in q.pictures) for q in server.requests)
        assert server.connections <= 2 * 8, server.connections  # connections are reused
    for r in made:
        assert sorted(r.text(k) for k in r.clips) == captions
        for item in r.clips.values():
            facts = item["facts"]
            assert facts["caption"]["by"] == "caption.endpoint" and facts["caption"]["model"] == "m" and len(
                facts["caption"]["windows"]) == 1
            assert facts["usage"]["caption.endpoint"] == {"requests": 1, "prompt_tokens": 100, "completion_tokens": 20,
                                                          "cost": 0.0004}, facts["usage"]
        n = len(captions)
        assert (
            f"this run: {n} requests answered, 0 retried; {100 * n} prompt and {20 * n} completion tokens, cost "
            f"{0.0004 * n:.6g} in the currency of its prices" in r.said), r.said
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
            # Expected windows, computed independently: whole windows of 4; a rest of 2 or 3 forms its own, a rest of 1
            # joins the last.
            whole, rest = divmod(frames, 4)
            expected = [(4 * i, 4 * i + 4) for i in range(whole)]
            if rest >= 2:
                expected.append((4 * whole, frames))
            elif rest:
                expected[-1] = (expected[-1][0], frames)
            assert bounds == expected, (frames, bounds)
        assert any(len(i["facts"]["caption"]["windows"]) > 1 for i in r.clips.values())
        assert sum(len(i["facts"]["caption"]["windows"]) for i in r.clips.values()) == sum(server.answered.values())


def check_unusable():
    """Refusals, empty and truncated answers: failures with their reason, or kept by option."""
    replies = [("stop", None, {"refusal": "I will not."}, "refuses: I will not."), ("stop", "", {}, "empty"),
               ("length", "A boat on", {}, "max_tokens"),
               ("content_filter", "A", {}, "content filter")]
    for reason, text, more, words in replies:
        with ModelServer(reply=lambda _: chat(text, reason, **more)) as server:
            r = run("unusable_" + words[:5].strip(), CLIPS + [endpoint(server)], expect=1)  # every clip
            assert all(i["end"] == "failed" and words in i["reason"] for i in r.clips.values()), r.items
            # only an empty answer may be another one when asked again
            assert len(server.requests) == len(r.clips) * (4 if text == "" else 1)
            assert r.summary["usage"]["caption.endpoint"]["requests"] == len(server.requests)
            kept = run("kept_" + words[:5].strip(), CLIPS + [endpoint(server, on_error="keep")])
            for key, i in kept.clips.items():
                assert i["end"] == "kept" and words in i["facts"]["errors"]["caption.endpoint"] and not (
                    kept.folder / "data" / f"{key}.txt").exists()
    asked = collections.Counter()
    first = lambda request: asked.update([request.fingerprint]) or asked[request.fingerprint] == 1
    odd = lambda reply: json.dumps(reply).encode()
    overloaded = {"error": {"message": "the upstream is overloaded", "code": 502}}
    wrong = {"error": {"message": "too many pictures", "type": "invalid_request_error"}}
    thought = "Let me look. </think>A boat.<|im_end|>"
    with ModelServer(reply=lambda q: odd(chat("A boat on", "error")) if first(q) else chat(thought)) as server:
        r = run("half", CLIPS + [endpoint(server, retries=1)])
        assert all(r.text(k) == "A boat." and i["facts"]["usage"]["caption.endpoint"]["requests"] == 2
                   for k, i in r.clips.items()), r.items
    asked.clear()
    with ModelServer(reply=lambda q: odd(overloaded) if first(q) else chat("A boat.")) as server:
        r = run("reported", CLIPS + [endpoint(server, retries=1)])
        assert all(r.text(k) == "A boat."
                   for k in r.clips) and "an error 502: the upstream is overloaded" in r.said, r.said
    for name, reply, words, tries in (("wrong", wrong, "too many pictures", 1),
                                      ("never", chat("A boat on", None), "finish_reason is missing", 2)):
        with ModelServer(reply=lambda _: odd(reply)) as server:
            r = run(name, CLIPS + [endpoint(server, retries=1)], expect=1)
            assert all(i["end"] == "failed" and words in i["reason"]
                       for i in r.clips.values()) and len(server.requests) == tries * len(r.clips), r.items
            paid = r.summary["usage"]["caption.endpoint"]["requests"] if "usage" in r.summary else 0
            assert paid == (len(server.requests) if "choices" in reply else 0), r.summary
    with ModelServer(reply=lambda _: odd({**chat("A boat."), "logprob": float("nan")})) as server:
        r = run("nan", CLIPS + [endpoint(server)])
        assert all(r.text(k) == "A boat." for k in r.clips) and len(server.requests) == len(r.clips)
    asked.clear()
    blank = lambda request: chat("<think>A boat?</think> "
                                 if asked.update([request.fingerprint]) or asked[request.fingerprint] == 1
                                 else "A boat")
    with ModelServer(reply=blank) as server:
        r = run("blank_once", CLIPS + [endpoint(server, retries=1)])
        assert all(r.text(k) == "A boat"
                   and i["facts"]["usage"]["caption.endpoint"]
                   == {"requests": 2, "prompt_tokens": 200, "completion_tokens": 40}
                   for k, i in r.clips.items()), r.items
        assert set(asked.values()) == {2} and len(asked) == len(r.clips)
    with ModelServer(reply=lambda _: chat("A boat on", "length")) as server:
        r = run("cut_kept", CLIPS + [endpoint(server, cut="keep")])
        assert all(r.text(k) == "A boat on" and i["facts"]["caption"]["windows"][0]["cut"] for k, i in r.clips.items())


def check_passes():
    """Second pass, verdicts, text areas and vectors, one after the other, each from the server's answers."""
    with ModelServer() as server:
        common = dict(max_frames=2, max_side=64)
        r = run("passes",
                CLIPS + [endpoint(server, **common),
                         endpoint(server, "caption.enhance", prompt="Rewrite, {duration_s} s:\n{caption}"),
                                   endpoint(server, "filter.ocr", mode="score", every=4, reduce="mean", **common),
                                   endpoint(server, "filter.endpoint", block=["slides"], **common),
                         endpoint(server, "embed.endpoint", name="text")])
        sound(server)
        by_kind = collections.defaultdict(list)
        for q in server.requests:
            kind = "embed" if q.path.endswith("/embeddings") else q.body.get("response_format", {}).get(
                "json_schema", {}).get("name", "caption" if q.pictures else "enhance")
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
            assert first["by"] == "caption.endpoint" and first["text"].startswith("caption ") and facts["caption"][
                "by"] == "caption.enhance"
            assert f"Rewrite, {json.dumps(facts['duration_s'])} s:\n{first['text']}" in enhanced
            assert i["caption"] == "better " + first["text"]
            verdict = facts["filter.endpoint"]
            assert verdict["keep"] == (i["end"]
                                       == "kept") == reasons[verdict["reason"][-6:]] and verdict["labels"] == ["film"]
            assert facts["scores"]["filter.endpoint"] == verdict["keep"]
            shares = [f["share"] for f in facts["ocr"]["frames"]]
            assert abs(facts["scores"]["filter.ocr"] - sum(shares)
                       / len(shares)) < 1e-12 and facts["ocr"]["frames"][0]["texts"] == ["TITLE"]
            assert all(0 <= s <= 0.255 for s in shares)
        assert {i["reason"]
                for i in dropped.values()} == {"filter.endpoint"} and all(i["score"] == 0 for i in dropped.values())
        vectors = {q.body["input"]: unit(vector_of(q.fingerprint)) for q in by_kind["embed"]}
        for key, i in kept.items():
            stored = np.load(r.folder / "data" / f"{key}.text.npy")
            assert stored.dtype == np.float32 and stored.shape == (8,) and np.abs(
                stored - vectors[i["caption"]]).max() < 1e-6
            assert i["facts"]["embeddings"]["text"] == {"model": "m", "size": 8}
            assert set(i["facts"]["usage"]) == {"caption.endpoint", "caption.enhance", "filter.ocr", "filter.endpoint",
                                                "embed.endpoint"}


def check_verdicts():
    """An answer without a verdict fails its clip or is kept by option; lists of labels overrule a verdict."""
    with ModelServer(reply=lambda q: chat("Keep it, I think.")) as server:
        r = run("no_verdict", CLIPS + [endpoint(server, "filter.endpoint")], expect=1)
        assert all(i["end"] == "failed" and "no JSON object" in i["reason"] for i in r.clips.values())
        r = run("no_verdict_kept", CLIPS + [endpoint(server, "filter.endpoint", on_error="keep")])
        assert all(i["end"] == "kept" for i in r.clips.values())
    verdict = json.dumps({"keep": True, "reason": "fine", "labels": ["Slides", "film"]})
    with ModelServer(reply=lambda q: chat(verdict)) as server:
        for name, lists, end in (("blocked", {"block": ["slides"]}, "filtered"),
                                 ("not_allowed", {"allow": ["nature"]}, "filtered"),
                                 ("allowed", {"allow": ["FILM"]}, "kept"),
                                 ("scored", {"block": ["slides"], "mode": "score"}, "kept")):
            r = run(name, CLIPS + [endpoint(server, "filter.endpoint", **lists)])
            assert {i["end"] for i in r.clips.values()} == {end}, (name, r.items)


def check_options():
    """Each option changes the request, and its value is applied to the answer: scale, form and max_area of filter.ocr,
    form of filter.endpoint, quality of pictures, prefix and dimensions of embed.endpoint."""
    def reply(q):
        if q.path.endswith("/embeddings"):
            return answer(q)
        # half of the picture, if its corner is (500, 500)
        regions = {"regions": [{"text": "T", "box": [0, 0, 500, 250]}]}
        return chat(json.dumps(regions if "response_format" in q.body
                               else {"keep": True, "reason": "fine", "labels": ["film"]}))

    with ModelServer(reply=reply) as server:
        r = run("options",
                CLIPS + [{"use": "caption.describe"},
                         endpoint(server, "filter.ocr", scale=500, form="json_object", max_area=0.6, quality=10),
                                    endpoint(server, "filter.endpoint", form="none", quality=95),
                         endpoint(server, "embed.endpoint", prefix="passage: ", dimensions=8)])
        sound(server)
        embed = [q for q in server.requests if q.path.endswith("/embeddings")]
        ocr = [q for q in server.requests if "response_format" in q.body]
        verdicts = [q for q in server.requests if q not in embed and q not in ocr]
        assert embed and ocr and verdicts and all(i["end"] == "kept" and i["facts"]["scores"]["filter.ocr"] == 0.5
                                                  for i in r.clips.values()), r.items
        assert {json.dumps(q.body["response_format"])
                for q in ocr} == {'{"type": "json_object"}'} and all("500" in text_of(q.body) for q in ocr)
        size = lambda q: sum(len(part["image_url"]["url"])
                             for part in q.body["messages"][-1]["content"]
                             if part["type"] == "image_url") / len(q.pictures)
        assert 2 * max(map(size, ocr)) < min(map(size, verdicts)), "a picture of quality 10 is as long as one of 95"
        assert all(q.body["input"].startswith("passage: ") and q.body["dimensions"] == 8 for q in embed)
