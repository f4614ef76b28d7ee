#!/usr/bin/env python3
"""`kinora serve` of a tiny pipeline, by plain HTTP and by OpenAI's own client: videos are made, shown while they grow,
cancelled, remixed and made again from their files. usage: serve.py KINORA ROOT SCRATCH"""
import base64, contextlib, http.client, json, re, shutil, subprocess, time

from serving import (KINORA, PIPELINE, READ_TOKEN, ROOT, SCRATCH, SETS, TOKEN, Server, Viewer, form, frames, made,
                     refused, settings, size)


def mean_difference(a, b):
    """Of the levels of two videos' pixels, 0 to 255."""
    one, other = (subprocess.run(["ffmpeg", "-v", "error", "-i", "-", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"],
                                 input=video, capture_output=True, check=True).stdout for video in (a, b))
    assert len(one) == len(other) > 0
    return sum(abs(x - y) for x, y in zip(one, other)) / len(one)


def check_access(server):
    assert server.json("GET", "/health", token="")["status"] == "ok"
    for token in ("", "wrong", TOKEN + "x"):
        error = server.json("GET", "/v1/videos", status=401, token=token)["error"]
        assert error["code"] == "invalid_api_key" and "Bearer" in error["message"], error
    error = server.json("GET", "/v1/videos", status=403, headers={"Origin": "http://elsewhere.example"})["error"]
    assert error["code"] == "foreign_origin", error
    code, headers, _ = server.ask("GET", "/v1/models")
    assert code == 200 and headers["x-request-id"].startswith("req_"), headers
    for method, path, status in (("GET", "/nothing", 404), ("PUT", "/v1/videos", 405), ("GET", "/v1/videos/none", 404),
                                 ("DELETE", "/v1/videos/none", 404), ("GET", "/v1/videos/none/content", 404)):
        assert "message" in server.json(method, path, status=status)["error"], path


def check_read_token(server):
    """The token of less right reads, and changes nothing."""
    for path in ("/v1/videos", "/v1/models"):
        server.json("GET", path, token=READ_TOKEN)
    code, headers, said = server.ask("GET", "/metrics", token=READ_TOKEN)
    assert code == 200 and headers["x-kinora-access"] == "read" and b"kinora_serve_jobs" in said, (code, headers)
    for method, path in (("POST", "/v1/videos"), ("POST", "/v1/images/generations"), ("DELETE", "/v1/videos/none")):
        error = server.json(method, path, {"prompt": "a"}, status=403, token=READ_TOKEN)["error"]
        assert error["code"] == "read_only" and error["type"] == "permission_error", error
    assert Viewer(server, READ_TOKEN).status == 403
    assert server.json("GET", "/v1/videos")["data"] == []


def check_wrong_requests(server):
    for fields, param in (({}, "prompt"), ({"prompt": 3}, "prompt"), ({"prompt": "a", "size": "16"}, "size"),
                          ({"prompt": "a", "seconds": "long"}, "seconds"), ({"prompt": "a", "stesp": 3}, "stesp"),
                          ({"prompt": "a", "model": "other"}, "model"), ({"prompt": "a", "seed": -1}, "seed")):
        code, _, said = server.ask("POST", "/v1/videos", fields)
        error = json.loads(said)["error"]
        assert code in (400, 404) and error["param"] == param, (fields, code, error)
    for fields, word, param in (({"prompt": "a", "size": "17x16"}, "17", "size"),
                                ({"prompt": "a", "size": "18x16"}, "18", "size"),
                                ({"prompt": "a", "seconds": 1, "num_frames": 9}, "seconds", "seconds")):
        error = server.json("POST", "/v1/videos", fields, status=400)["error"]
        assert word in error["message"] and error["param"] == param, error
    assert server.ask("POST", "/v1/videos", b"{", {"Content-Type": "application/json"})[0] == 400
    assert server.ask("POST", "/v1/videos", b"x", {"Content-Type": "text/plain"})[0] == 415
    assert server.json("GET", "/v1/videos")["data"] == []


def check_videos(server):
    fields = {"prompt": "a red sea", "seed": 7, "size": "16x16", "num_frames": 9}
    first = server.create(**fields)
    assert first["object"] == "video" and first["status"] in ("queued", "in_progress"), first
    assert first["size"] == "16x16" and first["prompt"] == "a red sea" and first["model"] == "wan_t2v", first
    body, headers = form(fields)
    second = server.json("POST", "/v1/videos", body, headers=headers)
    ids = [second["id"], first["id"]]
    assert [v["id"] for v in server.json("GET", "/v1/videos")["data"]] == ids
    made = [server.wait(id) for id in ids]
    assert all(v["status"] == "completed" and v["seconds"] == "1.125" and v["expires_at"] > v["completed_at"] >=
               v["created_at"] for v in made), made
    contents = [server.ask("GET", f"/v1/videos/{id}/content") for id in ids]
    assert all(code == 200 and headers["Content-Type"] == "video/mp4" for code, headers, _ in contents)
    assert frames(contents[0][2]) == frames(contents[1][2]) and len(frames(contents[0][2])) == 9
    code, headers, part = server.ask("GET", f"/v1/videos/{ids[0]}/content", headers={"Range": "bytes=4-7"})
    assert code == 206 and part == b"ftyp", (code, part)
    page = server.json("GET", "/v1/videos?limit=1&order=asc")
    assert page["has_more"] and page["data"][0]["id"] == ids[1] == page["last_id"], page
    page = server.json("GET", f"/v1/videos?limit=1&order=asc&after={ids[1]}")
    assert not page["has_more"] and page["data"][0]["id"] == ids[0], page
    return contents[0][2]


def check_repeats(server, video, name="again", *more):
    """The video's file makes the same video by `kinora generate --from`."""
    file = SCRATCH / "served.mp4"
    file.write_bytes(video)
    assert PIPELINE.name.encode() in video and not any(str(folder).encode() in video for folder in (ROOT, SCRATCH))
    done = subprocess.run([KINORA, "generate", "--pipeline", PIPELINE, "--from", file, "--out", SCRATCH / "again",
                           "--name", name, "--stream", SCRATCH / f"{name}.mp4", *more], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert frames((SCRATCH / f"{name}.mp4").read_bytes()) == frames(video)


def check_live(server):
    video = server.create(prompt="a walk", seed=3, num_frames=161, steps=30)
    status = server.json("GET", f"/v1/videos/{video['id']}/content", status=409)["error"]
    assert status["code"] == "not_ready", status
    headers = server.ask("GET", f"/v1/videos/{video['id']}/content")[1]
    assert headers["x-should-retry"] == "false", headers
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", f"/v1/videos/{video['id']}/content?live=1",
                           headers={"Authorization": "Bearer " + TOKEN})
        answer = connection.getresponse()
        begin = answer.read1()
        assert begin[4:8] == b"ftyp", begin[:16]
        until = time.monotonic() + 10
        while (still := server.ask("GET", f"/v1/videos/{video['id']}/content?variant=thumbnail"))[0] != 200:
            assert time.monotonic() < until, still
        assert still[1]["Content-Type"] == "image/webp" and size(still[2]) == (16, 16), still[1]
        state = server.json("GET", f"/v1/videos/{video['id']}")
        assert state["status"] == "in_progress", state  # it is shown before it is complete
        live = begin + answer.read()
    server.wait(video["id"])
    code, headers, sheet = server.ask("GET", f"/v1/videos/{video['id']}/content?variant=spritesheet")
    assert code == 200 and headers["Content-Type"] == "image/jpeg" and size(sheet) == (160, 16), (code, headers)
    whole = server.ask("GET", f"/v1/videos/{video['id']}/content")[2]
    assert frames(live) == frames(whole) and len(frames(live)) == 161


def check_shots(server):
    """A number of frames cuts the end of shots, within a chunk or before its last ones; so does `--from`."""
    shots = [{"prompt": "a red sea", "chunks": 2}, {"prompt": "a blue sea", "chunks": 3}]
    for count in (15, 7):  # of 17
        video = made(server, shots=shots, seed=3, num_frames=count)
        assert len(frames(video)) == count
        check_repeats(server, video, f"cut_{count}")


def check_sessions(server):
    """A live session shows its video while it is made, takes another prompt, and is the video of its shots."""
    error = Viewer(server, token="wrong").status
    assert error == 401, error
    viewer = Viewer(server)
    assert viewer.status == 101
    settings = {"seed": 11, "size": "16x16", "fps": 25, "steps": 2, "guidance_scale": 8}
    viewer.say("session.start", prompt="a red sea", num_frames=41, **settings)
    queued = viewer.next("session.queued")
    assert queued["ahead"] == 0, queued

    def change(chunk):
        if chunk["generation_chunk_index"] == 2:
            viewer.say("session.interaction", event_id="e1", event={
                "prompt": "a long walk at night through the city", "cut": True, "switch": "recache"})

    live, chunks, done = viewer.watch(change)
    assert done["reason"] == "completed" and done["num_frames"] == 41 and done["seed"] == 11, done
    assert [c["generation_chunk_index"] for c in chunks] == list(range(11)), chunks
    assert [c["first_frame"] for c in chunks] == [0, *range(1, 41, 4)], chunks
    begun = [c["generation_chunk_index"] for c in chunks if c["started_event_ids"] == ["e1"]]
    assert len(begun) == 1 and begun[0] >= 3, chunks
    assert [shot["chunks"] for shot in done["shots"]] == [begun[0], 11 - begun[0]], done
    same = server.create(shots=done["shots"], **settings)
    assert server.wait(same["id"])["status"] == "completed"
    video = server.ask("GET", f"/v1/videos/{same['id']}/content")[2]
    assert frames(live) == frames(video) and len(frames(live)) == 41
    other = server.create(prompt="a red sea", num_frames=41, **settings)
    server.wait(other["id"])
    unchanged = frames(server.ask("GET", f"/v1/videos/{other['id']}/content")[2])
    first = chunks[begun[0]]["first_frame"]
    assert unchanged[:first] == frames(live)[:first] and unchanged[first:] != frames(live)[first:]
    check_repeats(server, video, "live")


def check_session_ends(server):
    """It is rewound and stopped; one whose connection is lost is resumed, and another one continues it."""
    viewer = Viewer(server)
    viewer.say("session.start", prompt="long", size="16x16", fps=50, steps=2)  # as long as the server allows

    def steer(chunk):
        if chunk["generation_chunk_index"] == 4 and not rewound:
            viewer.say("session.rewind", chunk=1)
            rewound.append(True)
        elif rewound and chunk["generation_chunk_index"] == 2:
            viewer.say("session.stop")

    rewound = []
    viewer.next("session.queued")
    _, chunks, done = viewer.watch(steer)
    numbers = [c["generation_chunk_index"] for c in chunks]
    back = next(i for i in range(1, len(numbers)) if numbers[i] <= numbers[i - 1])
    assert numbers[:back] == list(range(back)) and numbers[back:back + 2] == [1, 2], numbers
    assert done["reason"] == "stopped", done
    lost = Viewer(server)
    lost.say("session.start", prompt="long", size="16x16", fps=8, steps=40)
    session = lost.next("session.queued")["session_id"]
    lost.next("video.start")
    video = server.create(prompt="next", num_frames=5)
    assert server.json("GET", f"/v1/videos/{video['id']}")["status"] == "queued"
    lost.socket.close()
    back = Viewer(server)
    back.say("session.resume", session_id=session, next_sequence=0)
    assert back.next("session.resumed")["next_sequence"] == 0
    _, chunks, done = back.watch(lambda chunk: back.say("session.stop"))
    assert chunks[0]["generation_chunk_index"] == 0 and done["reason"] == "stopped", (chunks, done)
    assert server.wait(video["id"], 20)["status"] == "completed"
    assert not list((SCRATCH / "served/live").iterdir())
    branch = Viewer(server)
    branch.say("session.start", branch={"session": session, "chunk": 1})
    branch.next("session.queued")
    _, chunks, done = branch.watch(lambda chunk: branch.say("session.stop"))
    assert not chunks or chunks[0]["generation_chunk_index"] == 1, chunks
    assert done["reason"] == "stopped" and sum(shot["chunks"] for shot in done["shots"]) == done["chunks"], done


def check_delete(server):
    running = server.create(prompt="long", num_frames=801, steps=60)
    waiting = server.create(prompt="next", num_frames=5)
    gone = server.create(prompt="gone", num_frames=5)
    until = time.monotonic() + 30
    while server.json("GET", f"/v1/videos/{running['id']}")["status"] == "queued" and time.monotonic() < until:
        time.sleep(0.02)
    for video in (gone, running):
        assert server.json("DELETE", f"/v1/videos/{video['id']}") == {"id": video["id"], "object": "video.deleted",
                                                                      "deleted": True}
        server.json("GET", f"/v1/videos/{video['id']}", status=404)
    assert server.wait(waiting["id"], 20)["status"] == "completed"  # the cancelled one ended within its step
    left = {p.name for p in (SCRATCH / "served/videos").iterdir()}
    assert running["id"] not in left and gone["id"] not in left, left


def check_remix_and_keys(server):
    base = server.create(prompt="a red sea", seed=5, num_frames=5)
    server.wait(base["id"])
    other = server.json("POST", f"/v1/videos/{base['id']}/remix", {"prompt": "a blue sea"})
    assert other["remixed_from_video_id"] == base["id"] and other["seed"] == 5, other
    assert server.wait(other["id"])["status"] == "completed"
    twice = [server.json("POST", "/v1/videos", {"prompt": "once", "num_frames": 5}, headers={"Idempotency-Key": "k1"})
             for _ in range(2)]
    assert twice[0]["id"] == twice[1]["id"], twice
    server.wait(twice[0]["id"])


def check_pictures(server):
    """A given video is continued from its end."""
    begin = SCRATCH / "begin.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc=s=16x16:r=8:d=1", begin], check=True)
    body, headers = form({"prompt": "go on", "num_frames": "9"}, [("input_reference", begin)])
    video = server.json("POST", "/v1/videos", body, headers=headers)
    assert server.wait(video["id"])["status"] == "completed", video
    content = server.ask("GET", f"/v1/videos/{video['id']}/content")[2]
    assert b"given_input_reference" in content and str(SCRATCH).encode() not in content
    file = SCRATCH / "continued.mp4"
    file.write_bytes(content)
    done = subprocess.run([KINORA, "generate", "--pipeline", PIPELINE, "--from", file, "--out", SCRATCH / "again",
                           "--name", "continued"], capture_output=True, text=True)
    assert done.returncode == 1 and "give it with --video FILE" in done.stderr, done


def check_edits(server):
    """An edit is as long as its video; an extension begins with its end."""
    base = server.create(prompt="a red sea", seed=5, num_frames=13, steps=4)
    assert server.wait(base["id"])["status"] == "completed"
    edit = server.json("POST", "/v1/videos/edits",
                       {"prompt": "a blue sea", "video": {"id": base["id"]}, "strength": 0.25, "steps": 4, "seed": 6})
    edit = server.wait(edit["id"])
    assert edit["status"] == "completed" and edit["seconds"] == "1.625", edit
    file = SCRATCH / "base.mp4"
    file.write_bytes(server.ask("GET", f"/v1/videos/{base['id']}/content")[2])
    body, headers = form({"prompt": "it goes on", "seconds": "1"}, [("video", file)])
    longer = server.json("POST", "/v1/videos/extensions", body, headers=headers)
    assert server.wait(longer["id"])["status"] == "completed", longer
    body, headers = form({"prompt": "x"}, [("input_reference", file)])
    assert server.json("POST", "/v1/videos/edits", body, headers=headers, status=400)["error"]["param"] == (
        "input_reference")


def check_images(server):
    made = server.json("POST", "/v1/images/generations", {"prompt": "a red sea", "seed": 3, "size": "16x16"})
    assert made["created"] > 0 and len(made["data"]) == 1, made
    picture = base64.b64decode(made["data"][0]["b64_json"])
    assert picture.startswith(b"\x89PNG") and size(picture) == (16, 16), picture[:16]


def check_metrics(server):
    text = server.ask("GET", "/metrics")[2].decode()
    found = {name: float(value) for name, value in re.findall(r"(?m)^kinora_serve_(\S+) (\S+)$", text)}
    assert found['jobs{state="queued"}'] == 0 and found["completed_total"] > 0, text
    for name in ("queue", "first_frame", "chunk", "step", "denoise", "decode", "cancel"):
        assert found[f"{name}_seconds_count"] > 0 and 0 <= found[f"{name}_seconds_sum"] < 600, (name, text)
    assert found["realtime_factor_count"] > 0, text
    assert found['requests_total{route="/v1/videos/{id}",status="200"}'] > 10, text
    assert "red sea" not in text and "video_" not in text.replace("/v1/videos", ""), text


def check_memory():
    """What never fits is refused: a video, and models."""
    server = Server("bounded", [settings("bounded.toml", memory="64 MiB")])
    try:
        error = server.json("POST", "/v1/videos", {"prompt": "large", "size": "1024x1024", "num_frames": 401},
                            status=400)["error"]
        # 2 channels of 101 x 128 x 128 at 16 bytes, and four frames of 1024 x 1024 at 15.
        assert error["code"] == "does_not_fit" and "110.50 MiB" in error["message"], error
        assert server.wait(server.create(prompt="small")["id"])["status"] == "completed"
    finally:
        server.end()
    refused(["--folder", SCRATCH / "none", "--port", "0", settings("none.toml", memory="1 KiB")],
            "memory is 1.00 KiB")


def check_batches():
    """Two videos alike that wait share the calls of the model, and each is nearly the one that it is alone."""
    server = Server("batches", [settings("batches.toml", ", batch = 2", [
        one for one in SETS if not one.startswith(("teacher_forcing", "chunk"))])])
    try:
        first = server.create(prompt="a", num_frames=81, steps=1000)  # seconds, in which the others wait
        two = [server.create(prompt=prompt, seed=seed, num_frames=9) for prompt, seed in (("a red sea", 3), ("b", 4))]
        assert all(server.wait(video["id"])["status"] == "completed" for video in (first, *two))
        log = (SCRATCH / "batches/models/wan_t2v/process.log").read_text()
        (videos, calls), = re.findall(r"(\d+) videos shared (\d+) model calls", log)
        assert videos == "2" and int(calls) >= 2, log
        together = server.ask("GET", f"/v1/videos/{two[0]['id']}/content")[2]
        again = server.create(prompt="a red sea", seed=3, num_frames=9)
        assert server.wait(again["id"])["status"] == "completed"
        alone, other = (server.ask("GET", f"/v1/videos/{id}/content")[2] for id in (again["id"], two[1]["id"]))
        assert 4 * mean_difference(together, alone) < mean_difference(together, other)
        picture = SCRATCH / "first.png"
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc=s=16x16", "-frames:v", "1",
                        picture], check=True)
        body, headers = form({"prompt": "x"}, [("input_reference", picture)])
        error = server.json("POST", "/v1/videos", body, headers=headers, status=400)["error"]
        assert error["param"] == "input_reference" and "begins with a text alone" in error["message"], error
    finally:
        server.end()


def check_loras():
    """A video has the LoRA that it asks for, says so, and leaves the model as it was."""
    toon = ROOT / "tests/data/oracle/adapters/diffusers.safetensors"
    server = Server("adapted", [settings("adapted.toml", f', loras = [{{ name = "toon", file = "{toon}" }}]')])
    try:
        assert server.json("GET", "/v1/models")["data"][0]["loras"] == ["toon"]
        fields = {"prompt": "a red sea", "seed": 7, "num_frames": 9}
        error = server.json("POST", "/v1/videos", fields | {"lora": "tune"}, status=400)["error"]
        assert error["param"] == "lora" and "toon" in error["message"], error
        plain = made(server, **fields)
        adapted = made(server, **fields, lora={"name": "toon", "scale": 4})
        assert server.json("GET", "/v1/videos?limit=1")["data"][0]["lora"] == {"name": "toon", "scale": 4}
        assert frames(made(server, **fields)) == frames(plain) != frames(adapted)
        check_repeats(server, adapted, "adapted", "--set", f'loras=[{{ name = "toon", file = "{toon}" }}]')
    finally:
        server.end()


def check_openai(server):
    """OpenAI's client, if it is installed."""
    try:
        from openai import OpenAI
    except ImportError:
        print("skipped: the package openai is not installed")
        return
    client = OpenAI(base_url=server.url + "v1", api_key=TOKEN)
    video = client.videos.create_and_poll(prompt="a red sea", model="wan_t2v", size="16x16", seconds="1")
    assert video.status == "completed" and video.seconds == "1" and video.progress == 100, video
    assert len(frames(client.videos.download_content(video.id).read())) == 8
    for variant, begin in (("video", b"\0\0"), ("thumbnail", b"RIFF"), ("spritesheet", b"\xff\xd8")):
        assert client.videos.download_content(video.id, variant=variant).read().startswith(begin), variant
    file = SCRATCH / "of_client.mp4"
    file.write_bytes(client.videos.download_content(video.id).read())
    edit = client.videos.poll(client.videos.edit(prompt="a blue sea", video=file).id)
    assert edit.status == "completed" and edit.seconds == "1", edit
    assert client.videos.poll(client.videos.extend(prompt="on", video=file, seconds="1").id).status == "completed"
    picture = client.images.generate(prompt="a red sea", model="wan_t2v", size="16x16", response_format="b64_json")
    assert base64.b64decode(picture.data[0].b64_json).startswith(b"\x89PNG"), picture
    other = client.videos.remix(video.id, prompt="a blue sea")
    assert client.videos.poll(other.id).status == "completed"
    assert {video.id, other.id} <= {v.id for v in client.videos.list(limit=3)}
    assert client.videos.delete(other.id).deleted
    check_lost_answer(client)


def check_lost_answer(client):
    """The client repeats a request whose answer is lost, and that is one video."""
    from openai import DefaultHttpxClient
    answers = []

    def lose_first(answer):
        answers.append(json.loads(answer.read())["id"])
        if len(answers) == 1:
            answer.status_code = 502  # of a proxy between them

    with DefaultHttpxClient(event_hooks={"response": [lose_first]}) as loses:
        video = client.with_options(http_client=loses).videos.create(prompt="once more", size="16x16", seconds="1")
    assert answers == [video.id] * 2, answers
    assert client.videos.poll(video.id).status == "completed"


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    server = Server("served")
    try:
        check_access(server)
        check_read_token(server)
        check_wrong_requests(server)
        check_repeats(server, check_videos(server))
        for check in (check_live, check_shots, check_sessions, check_session_ends, check_delete, check_remix_and_keys,
                      check_pictures, check_edits, check_images, check_metrics, check_openai):
            check(server)
    finally:
        code = server.end()
    assert code == 130, code
    check_memory()
    check_batches()
    check_loras()


if __name__ == "__main__":
    main()
