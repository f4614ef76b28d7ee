#!/usr/bin/env python3
"""The studio in a real browser over a real curate run: everything by keyboard, saved, undone, and still there after a
restart. usage: edits.py KINORA ROOT SCRATCH"""
import contextlib, http.client, json, re, socket, subprocess, threading, time, urllib.parse

from browser import ROOT, Studio, copy_of_run, edits, eventually, page_of, run_alone


def select(page, key):
    """Uses only j, from the first clip on; starts again from there while the sheet may still be loading. Clips on the
    way are passed as fast as keys are pressed."""
    # The row of a clip may still be loading; the selected clip is known once its key is visible.
    selected = lambda: page.wait_for_function("""wanted => {
        const cells = [...document.querySelectorAll('.cell:not([hidden])')];
        const keyOf = (cell) => cell.querySelector('.key').textContent;
        const cell = cells.find((cell) => cell.ariaSelected === 'true'), key = cell && keyOf(cell);
        const place = cells.find((cell) => keyOf(cell) === wanted)?.ariaPosInSet ?? +cell?.ariaPosInSet + 1;
        const ahead = key && place - cell.ariaPosInSet;
        return key && [key, cell.id === `clip-${cell.ariaSetSize - 1}` ? 0 : ahead];
    }""", arg=key).json_value()
    end = time.monotonic() + 90  # on a busy machine a key takes seconds
    page.keyboard.press("Home")
    while (now := selected())[0] != key:
        assert time.monotonic() < end, f"j does not lead to {key}"
        for press in ["j"] * now[1] or ["Home"]:
            page.keyboard.press(press)
    shows(page, key)


def shows(page, key):
    """The clip is selected, and all of it is loaded."""
    page.wait_for_function("key => document.querySelector('#detail[aria-busy=false] h2')?.textContent === key", arg=key)


def said(page, text):
    page.wait_for_function("text => document.getElementById('status').textContent.startsWith(text)", arg=text)


def caption(page, text):
    page.keyboard.press("e")
    page.keyboard.press("Control+A")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def by_line(page):
    """The text next to the caption."""
    return page.locator(".title:has(label[for=caption]) .muted").inner_text()


def check_captions(page, folder):
    """Typed, saved by Enter, left by Escape, undone and redone."""
    select(page, "film-0001")
    own = page.locator("#caption").input_value()
    assert own.startswith("A "), own
    caption(page, 'a "white" rabbit — en forêt')
    said(page, "Caption saved")
    lines, last = edits(folder)
    assert len(lines) == 1 and last == {"film-0001": {"caption": 'a "white" rabbit — en forêt'}}, lines
    eventually(lambda: by_line(page) == "by mia")
    assert lines[0]["author"] == "mia" and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
                                                        lines[0]["time"]), lines
    eventually(lambda: page.evaluate("document.activeElement.id") == "list", "the keys are the sheet's again")
    page.keyboard.press("e")
    page.keyboard.type(" never saved")
    page.keyboard.press("Escape")
    eventually(lambda: page.locator("#caption").input_value() == 'a "white" rabbit — en forêt')
    page.keyboard.press("u")
    said(page, "Undone: film-0001")
    lines, last = edits(folder)
    assert lines[-1]["undo"] is True and last["film-0001"][
        "caption"] == own, "a reader of last values has the clip's own"
    eventually(lambda: page.locator("#caption").input_value() == own)
    page.keyboard.press("Shift+U")
    said(page, "Redone")
    assert edits(folder)[1]["film-0001"]["caption"] == 'a "white" rabbit — en forêt'


def check_decisions(page, folder):
    """Rejects with a reason, accepts a filtered clip; the sheet and the filters show both."""
    select(page, "film-0003")
    page.keyboard.press("x")
    page.wait_for_selector("#reject-dialog[open]")
    page.keyboard.type("shaky")
    page.keyboard.press("Enter")
    said(page, "Rejected")
    assert edits(folder)[1]["film-0003"] == {"keep": False, "reason": "shaky"}, edits(folder)
    select(page, "film-0004")
    eventually(lambda: page.locator("#detail .title .mark").inner_text() == "filtered by clip.too-short")
    eventually(
        lambda: "(clip.too-short of clip.transcode): 3 s, at least 3.2 s is kept" in page.locator(
            "#detail .note").inner_text())
    page.keyboard.press("a")
    said(page, "Accepted")
    assert edits(folder)[1]["film-0004"]["keep"] is True
    select(page, "film-0004")  # the focus has gone on
    eventually(lambda: page.locator("#detail .title .mark").inner_text()
               == page.locator(".cell[aria-selected=true] .mark").inner_text() == "accepted, not stored")
    eventually(lambda: "lower min_length of clip.transcode" in page.locator("#detail .note").nth(1).inner_text())
    page.keyboard.press("u")
    said(page, "Undone: film-0004")
    assert edits(folder)[1]["film-0004"]["keep"] is None, "no decision existed before"
    eventually(lambda: page.locator(".history li").first.inner_text().startswith("undo: no decision"))
    eventually(lambda: page.locator("#detail .title .mark").inner_text() == "filtered by clip.too-short")
    page.keyboard.press("Shift+U")
    said(page, "Redone")
    assert edits(folder)[1]["film-0004"]["keep"] is True
    eventually(lambda: "only stored clips" in page.locator("#detail .note").nth(1).inner_text())
    page.keyboard.press("x")
    page.wait_for_selector("#reject-dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#reject-dialog[open]", state="detached")
    assert edits(folder)[1]["film-0004"]["keep"] is True, "Escape changes nothing"
    select(page, "broken")
    eventually(lambda: "not a video file" in page.locator("#detail .note").inner_text())
    decisions = [page.get_by_role("button", name=name).count() for name in ("Accept (a)", "Reject (x)")]
    assert decisions == [0, 0], "nothing of it can be packed"
    page.keyboard.press("a")
    said(page, "broken cannot be accepted: nothing of it is stored")
    assert "broken" not in edits(folder)[1], edits(folder)


def total(page):
    """Returns the number of clips found, once the page has stopped searching."""
    return int(
        page.wait_for_function(
            "() => /^[0-9,]+/.exec(document.getElementById('summary').textContent)?.[0]").json_value().replace(",", ""))


def check_filters(page, folder):
    """Outcomes, a histogram's bar, and search, by keyboard; the numbers equal those of items.jsonl."""
    items = [json.loads(line) for line in (folder / "clips/items.jsonl").read_text().splitlines()]
    shown = [item for item in items if not item["consumed"]]
    eventually(lambda: total(page) == len(shown))
    page.keyboard.press("f")
    page.keyboard.press("Enter")  # Kept
    kept = [item for item in shown if item["end"] == "kept"]
    eventually(lambda: total(page) == len(kept), "only what was kept")
    bars = page.locator('.bars[aria-label="Length"] button')
    bars.first.focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    durations = [item["facts"]["duration_s"] for item in shown if "duration_s" in (item["facts"] or {})]
    low, high = min(durations), max(durations)
    in_bar = [d for d in (item["facts"]["duration_s"] for item in kept) if d >= high - (high - low) / 24]
    eventually(lambda: total(page) == len(in_bar), f"{len(in_bar)} clips in the last bar")
    assert len(in_bar) < len(kept)
    label = page.locator('.bars[aria-label="Length"] button[aria-pressed=true]').get_attribute("aria-label")
    assert label.endswith(f": {len(in_bar)} of {len(in_bar)}"), label
    page.get_by_role("button", name="Show all").click()
    eventually(lambda: total(page) == len(shown), "all again")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("RABBIT whi")
    eventually(lambda: total(page) == 1, "the clip with the new caption")
    page.keyboard.press("Escape")
    eventually(lambda: page.locator(".cell[aria-label*=rabbit]:visible").count() == 1, "its cell")
    page.locator("#text").fill("")
    eventually(lambda: total(page) == len(shown), "all again")
    page.keyboard.press("Escape")


def check_player(page, folder):
    """Plays, seeks, steps by frames; a clip that is not stored plays as a part of its source video."""
    select(page, "film-0000")
    page.wait_for_function("() => document.querySelector('video').readyState >= 2")
    page.keyboard.press(" ")
    page.wait_for_function("() => document.querySelector('video').currentTime > 0.3")
    page.keyboard.press(" ")
    page.wait_for_function("() => document.querySelector('video').paused")
    page.evaluate("document.querySelector('video').currentTime = 2")
    page.wait_for_function("() => !document.querySelector('video').seeking")
    frame = lambda: page.evaluate("Math.floor(document.querySelector('video').currentTime * 24 + 1e-3)")
    assert frame() == 48, "a seek is to where it was asked"
    page.keyboard.press(".")
    assert frame() == 49
    page.keyboard.press(",")
    page.keyboard.press(",")
    assert frame() == 47
    page.locator("video").focus()
    page.keyboard.press("ArrowRight")
    assert frame() == 48
    shows(page, "film-0000")
    page.keyboard.press("Escape")
    select(page, "film-0004")
    facts = next(i for i in map(json.loads,
                                (folder / "clips/items.jsonl").read_text().splitlines())
                 if i["key"] == "film-0004")["facts"]
    start = facts["start_s"]
    page.wait_for_function("start => Math.abs(document.querySelector('video').currentTime - start) < 0.1", arg=start)
    page.keyboard.press("}")
    shows(page, "film-0005")
    page.locator(".shot").nth(1).click()
    shows(page, "film-0001")


def ask(studio, path, method="GET", body=None, **headers):
    connection = http.client.HTTPConnection(studio.host, timeout=120)
    connection.putrequest(method, path, skip_host=True)
    for name, value in {"Host": studio.host, **{k.replace("_", "-"): v for k, v in headers.items()}}.items():
        connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    response = connection.getresponse()
    return response.status, dict(response.getheaders()), response.read()


def check_guard(studio, folder):
    """Refuses unknown tokens, another host, another origin, and paths out of the folder."""
    port = studio.host.split(":")[1]
    cookie = studio.cookie
    status = lambda *a, **k: ask(studio, *a, **k)[0]
    for path in ("/", "/api/state", "/video?id=clips%2Ffilm-0000", "/nonesuch"):
        assert status(path) == 403, path
        assert status(path, Cookie=f"kinora_studio_{port}={'0' * 32}") == 403, path
        assert status(path, Cookie=cookie, Host=f"attacker.example:{port}") == 403, path
    code, headers, _ = ask(studio, f"/?t={studio.token}")
    assert code == 200 and "HttpOnly" in headers["Set-Cookie"] and "SameSite=Strict" in headers["Set-Cookie"], headers
    assert headers["Content-Security-Policy"].startswith(
        "default-src 'self'") and "Access-Control-Allow-Origin" not in headers, headers
    assert status("/api/state", Cookie=cookie) == 200
    assert studio.token not in cookie and status("/api/state", Cookie=f"kinora_studio_{port}={studio.token}") == 403
    edit = json.dumps({"id": "clips/film-0000", "set": {"keep": False}}).encode()
    before = edits(folder)
    assert status("/api/edit", "POST", edit, Cookie=cookie, Content_Type="application/json",
                  Origin="http://attacker.example") == 403
    assert status("/api/edit", "POST", edit, Cookie=cookie, Content_Type="application/json") == 403
    assert status("/api/edit", "POST", edit, Cookie=cookie, Content_Type="text/plain", Origin=studio.origin) == 403
    assert edits(folder) == before
    secret = folder / "clips/secret.mp4"
    secret.write_bytes(b"secret")
    for name in ("clips/../secret", "clips/data/../../secret", "../secret", "/etc/passwd", "clips/secret",
                 "clips/film-0000/../../secret", ""):
        assert status("/video?" + urllib.parse.urlencode({"id": name}), Cookie=cookie) == 404, name
    for path in ("/../job.json", "/clips/items.jsonl", "/%2e%2e/job.json", "//etc/passwd"):
        assert status(path, Cookie=cookie) in (400, 404), path
    secret.unlink()


def check_idle(studio):
    """Programs that hold connections open do not keep the page waiting: it is answered before one of these ends."""
    with contextlib.ExitStack() as ends:
        idle = [ends.enter_context(socket.create_connection(studio.host.split(":"), timeout=60)) for _ in range(300)]
        for connection in idle[::2]:
            connection.sendall(f"GET / HTTP/1.1\r\nHost: {studio.host}\r\n\r\n".encode())
        for connection in idle[::2]:
            assert connection.recv(1000).startswith(b"HTTP/1.1 403")
        assert ask(studio, "/api/state", Cookie=studio.cookie)[0] == 200

        def is_open(connection):
            connection.setblocking(False)
            try:
                return connection.recv(1000) != b""
            except BlockingIOError:
                return True

        assert all(map(is_open, idle[1::2]))
        for connection in idle[::2]:  # whoever is refused keeps no connection
            while connection.recv(1000):
                pass


def check_requests(studio, folder):
    """Ranges as browsers and other clients request them; invalid requests get an answer and are not fatal."""
    cookie = studio.cookie
    whole = (folder / "clips/data/film-0000.mp4").read_bytes()
    video = "/video?id=clips%2Ffilm-0000"
    for asked, expected in (("bytes=0-", whole), ("bytes=100-199", whole[100:200]), ("bytes=-50", whole[-50:]),
                            (f"bytes=10-{len(whole) + 999}", whole[10:])):
        code, headers, body = ask(studio, video, Cookie=cookie, Range=asked)
        assert code == 206 and body == expected, (asked, code, len(body))
    code, headers, body = ask(studio, video, Cookie=cookie, Range="bytes=0-1,5-6")
    assert code == 200 and body == whole, "several parts are answered with the whole"
    for asked in (f"bytes={len(whole)}-", "bytes=99999999999999999999-"):
        assert ask(studio, video, Cookie=cookie, Range=asked)[0] == 416, asked
    post = lambda body: ask(studio, "/api/edit", "POST", body, Cookie=cookie, Content_Type="application/json",
                            Origin=studio.origin)
    for body in (b"", b"{", b"[]", b'{"id":1}', b'{"id":"clips/film-0000","set":{"caption":7}}',
                 b'{"id":"clips/film-0000","set":{"url":"x"}}', b'{"id":"clips/film-0000","set":{"caption":"\xff"}}'):
        assert post(body)[0] == 400, body
    assert post(b'{"id":"none","set":{}}')[0] == 404
    assert post(b" " * (17 << 20))[0] == 413
    for query in ("range=x", "sort=nonesuch", "from=-1", "range=a%3Ab%3Ac"):
        assert ask(studio, f"/api/clips?{query}", Cookie=cookie)[0] == 400, query
    code, headers, picture = ask(studio, "/picture?id=clips%2Ffilm-0000", Cookie=cookie)
    assert code == 200 and picture[:2] == b"\xff\xd8", "a JPEG"
    assert ask(studio, "/picture?id=clips%2Fbroken", Cookie=cookie)[0] == 404


def check_kill(chromium, folder):
    """kill -9 while captions are saved one after another: all confirmed ones are stored, and intact."""
    answered = []
    with Studio(folder) as studio:
        cookie = studio.cookie

        def write():
            try:
                for n in range(100000):
                    text = f"caption number {n}"
                    body = json.dumps({"id": "clips/film-0000", "set": {"caption": text}}).encode()
                    if ask(studio, "/api/edit", "POST", body, Cookie=cookie, Content_Type="application/json",
                           Origin=studio.origin)[0] == 200:
                        answered.append(text)
            except OSError:
                pass

        writer = threading.Thread(target=write)
        writer.start()
        eventually(lambda: len(answered) > 10, "edits")
        studio.kill()
        writer.join()
    written = [json.loads(line)["set"]["caption"]
               for line in (folder / "clips/edits.jsonl").read_text().splitlines() if "caption number" in line]
    assert written[: len(answered)] == answered and len(written) <= len(answered) + 1, (answered[-2:], written[-2:])
    with Studio(folder) as studio, page_of(chromium, studio) as page:
        select(page, "film-0000")
        eventually(lambda: page.locator("#caption").input_value() == written[-1])


def check_two(chromium, folder):
    """Decisions survive a restart. An edit by one author appears in the other author's page, who cannot undo it."""
    with Studio(folder) as mine, Studio(folder, "--author", "tom") as other:
        with page_of(chromium, mine, refused=(400,)) as page, page_of(chromium, other) as second:
            select(page, "film-0001")
            eventually(lambda: page.locator("#caption").input_value() == 'a "white" rabbit — en forêt')
            select(page, "film-0003")
            eventually(lambda: page.locator("#detail .title .mark").inner_text() == "rejected")
            select(page, "film-0006")
            select(second, "film-0006")
            caption(page, "written by mia")
            said(page, "Caption saved")
            second.wait_for_function("() => document.getElementById('caption').value === 'written by mia'")
            assert second.locator("#undo").is_disabled(), "tom has nothing to undo"
            caption(second, "written by tom")
            said(second, "Caption saved")
            page.wait_for_function("() => document.getElementById('caption').value === 'written by tom'")
            page.keyboard.press("u")
            page.wait_for_function("() => document.getElementById('status').textContent.includes('another author')")
            assert edits(folder)[1]["film-0006"]["caption"] == "written by tom"


def main(chromium):
    folder = copy_of_run("edits")
    with Studio(folder) as studio:
        with page_of(chromium, studio) as page:
            assert studio.token not in page.url
            check_captions(page, folder)
            check_decisions(page, folder)
            check_filters(page, folder)
            check_player(page, folder)
        check_guard(studio, folder)
        check_idle(studio)
        check_requests(studio, folder)
        studio.end()
    check_two(chromium, folder)
    check_kill(chromium, folder)
    none = subprocess.run([*Studio.command(ROOT / "tests"), "--port", "1"], capture_output=True, text=True)
    assert none.returncode == 2 and "contains no curate job" in none.stderr, none
    print("edits: all checks passed")


if __name__ == "__main__":
    run_alone(main)
