#!/usr/bin/env python3
"""The page of `kinora serve` in Chromium: videos are asked for, shown while they grow in bounded memory, listed,
compared, used again, continued and deleted, by mouse and by keys. usage: serve_page.py KINORA ROOT SCRATCH"""
import http.client, pathlib, shutil, subprocess, sys, types

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "studio"))

from browser import browser, eventually, page_of, still  # which also finds tests/support
from axe_core import violations
from serving import READ_TOKEN, SCRATCH, TOKEN, WHAT, Server

BOUND = 60  # seconds of a growing video that the page keeps
CHUNK = 4  # seconds of a chunk at one frame per second
WIDTHS = (390, 768, 1280, 2560)

# Measures what is in memory after each part that the page adds, without the page's help.
MEASURE = """
window.grown = { most: 0, end: 0, parts: 0 };
const append = SourceBuffer.prototype.appendBuffer;
SourceBuffer.prototype.appendBuffer = function (bytes) {
  this.addEventListener("updateend", () => {
    const { buffered } = this;
    if (!buffered.length) return;
    grown.end = buffered.end(buffered.length - 1);
    grown.most = Math.max(grown.most, grown.end - buffered.start(0));
    grown.parts += 1;
  }, { once: true });
  return append.call(this, bytes);
};
"""
# A growing video in place of the server's: a part comes when the page has asked for it and the test gives it, and the
# viewer's clock is the test's, so that a quarter of an hour takes seconds.
PACED = MEASURE + """
const video = { id: "video_paced", status: "in_progress", progress: 50, prompt: "a quarter of an hour", model: "m",
  size: "32x32", seconds: "900" };
const said = (body) => Promise.resolve(new Response(JSON.stringify(body)));
const ask = window.fetch.bind(window);
const pull = (to) => new Promise((given) => {
  window.give = (bytes) => {
    window.give = null;
    to.enqueue(bytes);
    given();
  };
});
window.fetch = (path, options) => {
  if (path.endsWith("live=1")) return Promise.resolve(new Response(new ReadableStream({ pull }, { highWaterMark: 0 })));
  if (path.startsWith("/v1/videos?")) return said({ data: [video], has_more: false });
  return path === "/v1/videos/video_paced" ? said(video) : ask(path, options);
};
HTMLMediaElement.prototype.play = () => Promise.resolve();
Object.defineProperty(HTMLMediaElement.prototype, "paused", { get: () => false });
"""
# Gives a chunk each time that the viewer has seen all before it. wait: the longest for a picture, in milliseconds;
# moved: the farthest that the page moved the viewer, in seconds; lost: whether it removed what the viewer was at.
WATCH = """
async (address) => {
  const { parts } = await import("/mp4.js");
  const element = document.querySelector("#video");
  const until = async (ready) => {
    while (!ready()) await new Promise((done) => setTimeout(done));
  };
  const out = { wait: 0, moved: 0, lost: false, chunks: -1 }; // without the header
  for await (const part of parts((await fetch(address)).body)) {
    const before = element.currentTime;
    await until(() => window.give);
    give(part);
    await until(() => window.give); // the part is added, and older ones are removed
    if (++out.chunks === 0) continue;
    const { buffered } = element, begin = performance.now();
    out.moved = Math.max(out.moved, Math.abs(element.currentTime - before));
    out.lost ||= before < buffered.start(0);
    element.currentTime = buffered.end(buffered.length - 1) - 0.08;
    await until(() => !element.seeking && element.readyState >= 2);
    out.wait = Math.max(out.wait, performance.now() - begin);
  }
  return { ...out, at: element.currentTime };
}
"""
WITHOUT = "delete window.MediaSource; delete window.ManagedMediaSource;"


class PageServer(Server):
    """With what page_of() reads: the address that the server printed, with its token."""

    def __init__(self, folder, what=WHAT):
        super().__init__(folder, what)
        self.origin = self.url.rstrip("/")
        said = lambda: [line.split()[-1] for line in (SCRATCH / f"{folder}.log").read_text().splitlines()
                        if line.startswith("the page for browsers is ")]
        self.address = eventually(said, "the page's address")[-1]
        assert self.address == self.url + "?t=TOKEN", self.address  # it was given
        self.address = self.address.replace("TOKEN", TOKEN)

    def newest(self):
        return self.json("GET", "/v1/videos?limit=1")["data"][0]


def on_page(chromium, server, script="", **context):
    return page_of(chromium, server, shows="#wish", before=lambda page: script and page.add_init_script(script),
                   **context)


def field(page, name):
    return page.locator(f'#wish [name="{name}"]')


def ask_for(page, server, prompt, **fields):
    """Fills in the form and sends it; the video."""
    before = {video["id"] for video in server.json("GET", "/v1/videos")["data"]}
    for name, value in {"prompt": prompt, **fields}.items():
        field(page, name).fill(str(value))
    page.get_by_role("button", name="Make the video").click()
    return eventually(lambda: (video := server.newest())["id"] not in before and video, "a new video")


def card(page, video):
    return page.locator(f'.card[data-id="{video["id"]}"]')


def check_access(server):
    """Without the token there is no page; the cookie that it gives is for this page alone."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", server.address.removeprefix(server.origin))
    answer = connection.getresponse()
    page, cookie = answer.read().decode(), answer.getheader("Set-Cookie")
    connection.close()
    assert answer.status == 200 and "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    assert TOKEN not in page and "<script" in page
    cookie = {"Cookie": cookie.split(";")[0]}
    assert server.ask("GET", "/", token="")[0] == 401
    assert server.ask("GET", "/v1/videos", token="", headers=cookie)[0] == 200
    body = {"prompt": "from elsewhere"}
    assert server.ask("POST", "/v1/videos", body, cookie, token="")[0] == 403
    assert server.ask("POST", "/v1/videos", body, cookie | {"Origin": "http://127.0.0.1:1"}, token="")[0] == 403
    assert server.json("GET", "/v1/videos")["data"] == []


def check_grows(chromium, server):
    """A video of 101 seconds is seen while it is made. It is made faster than it plays, so the page goes on to the
    newest chunk, and keeps a minute of it; then the file is shown, from where the viewer was."""
    with on_page(chromium, server, MEASURE) as page:
        assert "t=" not in page.url, "the token stays in the address"
        video = ask_for(page, server, "a walk", size="16x16", seconds=101, fps=1, steps=100, seed=5)
        eventually(lambda: page.evaluate("() => grown.parts") > 0, "parts of the video")
        state = server.json("GET", f"/v1/videos/{video['id']}")
        assert state["status"] == "in_progress", state
        eventually(lambda: page.locator("#said").inner_text().startswith("Live: "), "how far it is")
        assert 0 < card(page, video).locator("progress").evaluate("bar => bar.value") < 100
        server.wait(video["id"], 120)
        player = page.locator("#video")
        eventually(lambda: player.get_attribute("src").endswith("/content"), "the finished file")
        grown = page.evaluate("() => grown")
        assert 100 < grown["end"] <= 102 and 20 < grown["parts"], grown
        assert BOUND < grown["most"] <= BOUND + CHUNK + 1, grown
        eventually(lambda: player.evaluate("video => video.duration") > 100, "its length")
        at = player.evaluate("video => video.currentTime")
        assert at >= 101 - 2 * CHUNK - 2, f"the viewer was left behind, at {at}"
        assert card(page, video).locator(".state").inner_text().startswith("Kept until ")


def check_quarter_of_an_hour(chromium, server):
    """A viewer who watches 15 minutes as they are made sees all of them: the page keeps a minute and what is shown,
    never moves the viewer, and has a picture for each moment."""
    file = SCRATCH / "paced.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc=s=32x32:r=2:d=900", "-c:v", "libx264",
                    "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", str(2 * CHUNK), "-movflags",
                    "empty_moov+default_base_moof+frag_keyframe", file], check=True)
    with on_page(chromium, server, PACED) as page:
        page.route("**/paced.mp4", lambda route: route.fulfill(path=file, content_type="video/mp4"))
        seen = page.evaluate(WATCH, "/paced.mp4")
        assert seen["chunks"] == 900 / CHUNK and seen["at"] > 899, seen
        assert seen["moved"] < 0.04 and not seen["lost"] and seen["wait"] < 1000, seen
        assert BOUND < page.evaluate("() => grown.most") <= BOUND + CHUNK + 1


def check_waits_for_the_end(chromium, server):
    """A browser that cannot show a growing video shows the finished one."""
    with on_page(chromium, server, WITHOUT) as page:
        video = ask_for(page, server, "a later look", size="16x16", seconds=101, fps=1, steps=12)
        eventually(lambda: "when it is finished" in page.locator("#said").inner_text(), "what the page waits for")
        server.wait(video["id"], 120)
        page.wait_for_function("() => document.querySelector('#video').currentTime > 0")
        assert page.locator("#video").get_attribute("src") == f"/v1/videos/{video['id']}/content"


def check_again(page, server):
    """Settings are used again, and make the same video; two are compared; one is continued."""
    first = ask_for(page, server, "a red sea", size="16x16", seconds=1, fps=8, steps=2, seed=7, guidance_scale=1)
    server.wait(first["id"])
    for name in ("prompt", "seed", "steps"):
        field(page, name).fill("")
    card(page, first).get_by_role("button", name="Reuse").click()
    page.get_by_role("button", name="Make the video").click()
    second = eventually(lambda: (video := server.newest())["id"] != first["id"] and video, "the second")
    done = [server.wait(video["id"]) for video in (first, second)]
    for name in ("prompt", "seed", "steps", "num_frames", "fps", "size", "guidance_scale"):
        assert done[0][name] == done[1][name], (name, done)
    other = ask_for(page, server, "a red sea", seed=8)
    server.wait(other["id"])
    for video in (first, other):
        card(page, video).get_by_role("button", name="Compare").click()
    page.locator("#compare video").nth(1).wait_for()
    differs = page.locator("#compare tr.differs").all_inner_texts()
    assert [line.split() for line in differs] == [["Seed", "7", "8"]], differs
    page.keyboard.press("Escape")
    card(page, other).get_by_role("button", name="Continue").click()
    eventually(lambda: field(page, "input_reference").evaluate("input => input.files.length") == 1, "the given video")
    longer = ask_for(page, server, "it goes on", seconds=2)
    made = server.wait(longer["id"])
    assert made["status"] == "completed" and made["input_reference"] == "video", made
    page.get_by_role("button", name="Begin with nothing").click()
    return other


def check_drift(page, server):
    """The page draws how a video of four seconds leaves its first one; the server measured it."""
    video = server.wait(server.create(prompt="a long sea", num_frames=33, fps=8, seed=7)["id"])
    drift = server.json("GET", f"/v1/videos/{video['id']}/content?variant=drift")
    decode = ["ffmpeg", "-v", "error", "-i", "-", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    pixels = subprocess.run(decode, input=server.ask("GET", f"/v1/videos/{video['id']}/content")[2], check=True,
                            capture_output=True).stdout
    size = 8 * 16 * 16 * 3  # bytes of a second
    mean = lambda second, channel: sum(pixels[second * size + channel:second * size + size:3]) / (size / 3) / 255
    for second in range(4):
        wanted = sum(abs(mean(second, channel) - mean(0, channel)) for channel in range(3)) / 3
        assert abs(drift["mean"][second] - wanted) < 0.003, (second, wanted, drift)  # the file's pixels are rounded
    assert drift["mean"][0] == 0 < 0.005 < min(drift["mean"][1:]), drift
    card(page, video).locator(".title").click()
    charts = page.locator("#drift figure")
    eventually(lambda: charts.count() == len(drift) == 8, "a chart of each number")
    label = charts.first.locator("[role=img]").get_attribute("aria-label")
    assert label.startswith("Mean of the channels by second: 0 at second 1, ") and label.endswith("at second 4"), label
    assert charts.first.is_visible() and charts.first.bounding_box()["width"] > 200
    page.locator("#drift summary").focus()
    for is_open in (False, True):
        page.keyboard.press("Enter")
        assert charts.first.is_visible() == is_open
    return video


def check_lora(chromium, server):
    """A model's LoRAs can be chosen, and the choice is sent."""
    def with_loras(route):
        models = route.fetch().json()
        models["data"][0]["loras"] = ["toon"]
        route.fulfill(json=models)

    def sent(page):
        with page.expect_request(lambda request: request.method == "POST") as request:
            page.get_by_role("button", name="Make the video").click()
        return request.value.post_data_json

    with page_of(chromium, server, refused=(400,), shows="#wish [name=lora]",
                 before=lambda page: page.route("**/v1/models", with_loras)) as page:
        field(page, "prompt").fill("a toon")
        field(page, "lora").select_option("toon")
        assert sent(page) == {"prompt": "a toon", "model": field(page, "model").input_value(), "lora": "toon"}
        eventually(lambda: page.evaluate("() => document.activeElement.name") == "lora", "that there is no such one")
        field(page, "lora").select_option("")
        assert "lora" not in sent(page)


def check_upload(page, server):
    begin = SCRATCH / "begin.png"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc=s=16x16:r=8:d=1", "-frames:v", "1",
                    begin], check=True)
    field(page, "input_reference").set_input_files(begin)
    video = ask_for(page, server, "from a picture", seconds=1)
    made = server.wait(video["id"])
    assert made["status"] == "completed" and made["input_reference"] == "image", made
    page.get_by_role("button", name="Begin with nothing").click()


def check_shots(page, server):
    """A border that is dragged, or moved by keys, makes one shot longer and the other shorter."""
    page.get_by_role("radio", name="Shots").check()
    page.get_by_label("Prompt of shot 1").fill("a red sea")
    page.get_by_role("button", name="Add a shot").click()
    page.get_by_label("Prompt of shot 2").fill("a blue sea")
    lengths = lambda: [float(page.get_by_label(f"Length of shot {n} in seconds").input_value()) for n in (1, 2)]
    assert lengths() == [4, 4], lengths()
    border = page.get_by_role("slider")
    border.scroll_into_view_if_needed()
    box, bar = border.bounding_box(), page.locator("#bar").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(bar["x"] + bar["width"] / 4, box["y"], steps=4)
    page.mouse.up()
    assert lengths() == [2, 6], lengths()
    border.focus()
    page.keyboard.press("Shift+ArrowLeft")
    assert lengths() == [1, 7] and border.get_attribute("aria-valuenow") == "1", lengths()
    page.get_by_label("Length of shot 2 in seconds").fill("2")
    page.get_by_role("checkbox", name="Cut").uncheck()
    page.get_by_label("Switch to shot 2").select_option("flush")
    page.get_by_role("button", name="Add a shot").click()
    page.get_by_role("button", name="Remove shot 3").click()
    before = server.newest()["id"]
    page.get_by_role("button", name="Make the video").click()
    video = eventually(lambda: (video := server.newest())["id"] != before and video, "the video of shots")
    shot = lambda prompt, seconds, **more: {"prompt": prompt, "seconds": seconds, "cut": True, "switch": "none"} | more
    assert video["shots"] == [shot("a red sea", 1), shot("a blue sea", 2, cut=False, switch="flush")], video
    assert server.wait(video["id"])["status"] == "completed"
    page.get_by_role("radio", name="One prompt").check()


def check_errors(page, server):
    """What the server refuses is said in its words, at the field."""
    field(page, "size").fill("20000x16")
    page.get_by_role("button", name="Make the video").click()
    problem = page.locator("#problem")
    eventually(lambda: problem.inner_text().startswith("size: expected WIDTHxHEIGHT"), "what is wrong")
    assert page.evaluate("() => document.activeElement.name") == "size"
    assert field(page, "size").get_attribute("aria-invalid") == "true"
    field(page, "size").fill("17x16")
    page.keyboard.press("Enter")
    eventually(lambda: "17" in problem.inner_text(), "what the model says")
    field(page, "size").fill("16x16")


def check_deletes(page, server, finished):
    """One that is made is cancelled, one that waits says how many are before it, a finished one is deleted."""
    running = server.create(prompt="a long one", num_frames=401, steps=40)
    waiting = server.create(prompt="the next", num_frames=5)
    eventually(lambda: card(page, waiting).locator(".state").inner_text() == "Waits, 1 before it", "who waits")
    card(page, running).get_by_role("button", name="Cancel").click()
    server.wait(waiting["id"])
    page.once("dialog", lambda dialog: dialog.accept())
    card(page, finished).get_by_role("button", name="Delete").click()
    for video in (running, finished):
        card(page, video).wait_for(state="detached")
        server.json("GET", f"/v1/videos/{video['id']}", status=404)


def check_keys(page, server):
    before = server.newest()["id"]
    page.locator("h1").click()
    page.keyboard.press("n")
    page.keyboard.press("Control+A")
    page.keyboard.type("by keys alone")
    page.keyboard.press("Control+Enter")
    video = eventually(lambda: (video := server.newest())["id"] != before and video, "a video by keys")
    assert video["prompt"] == "by keys alone", video
    server.wait(video["id"])
    title = card(page, video).locator(".title")
    eventually(lambda: card(page, video).locator(".state").inner_text().startswith("Kept"), "its end")
    title.focus()
    page.keyboard.press("ArrowDown")
    other = page.evaluate("() => document.activeElement.closest('.card').dataset.id")
    assert other != video["id"], other
    page.keyboard.press("Enter")
    eventually(lambda: other in (page.locator("#video").get_attribute("src") or ""), "the other video")
    page.locator("h1").click()
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible() and not violations(page)
    page.keyboard.press("Escape")
    check_tabs(page)


def check_tabs(page):
    """The key Tab reaches all that the page offers."""
    reached = set()
    page.locator("h1").click()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.name || document.activeElement.textContent.trim()"))
    fields = {"prompt", "size", "seconds", "fps", "steps", "seed", "guidance_scale", "negative_prompt",
              "input_reference"}
    buttons = {"Make the video", "Reuse", "Continue", "Compare", "Save", "Delete"}
    missing = (fields | buttons) - reached
    assert not missing, missing


def look_at(page, name, widths=WIDTHS):
    """At each width nothing hangs over, and axe finds nothing."""
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        still(page)
        page.screenshot(path=str(SCRATCH / f"{name}-{width}.png"), full_page=True)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), f"{name} {width} hangs over"
        found = violations(page)
        assert not found, (name, width, found)


def check_read_only(chromium, server, video):
    """The address with the token of less right opens the same page without what makes, changes or deletes."""
    address = f"{server.url}?t={READ_TOKEN}"
    assert f"the page that only shows is {server.url}?t=READ_TOKEN" in (SCRATCH / "served.log").read_text()
    reader = types.SimpleNamespace(origin=server.origin, address=address)
    with page_of(chromium, reader, shows=".card", color_scheme="dark") as page:
        card(page, video).locator(".title").click()
        page.wait_for_function("() => document.querySelector('#video').currentTime > 0")
        page.locator("#drift summary").wait_for()
        assert page.locator(".reader").is_visible() and not page.locator("#wish").is_visible()
        buttons = set(page.locator("#videos .card :is(button, a):not(.title)").all_inner_texts())
        assert buttons == {"Compare", "Save"}, buttons
        page.keyboard.press("n")
        page.keyboard.press("?")
        assert "write the next video" not in page.locator("#keys").inner_text()
        page.keyboard.press("Escape")
        for which in (0, 1):
            page.get_by_role("button", name="Compare").nth(which).click()
        page.locator("#compare video").nth(1).wait_for()
        look_at(page, "reader-compare", (390,))
        page.keyboard.press("Escape")
        look_at(page, "reader", (390, 1280))


def check_looks(chromium, server, video):
    for scheme in ("light", "dark"):
        with on_page(chromium, server, color_scheme=scheme) as page:
            page.locator("#history .card").first.wait_for()
            page.get_by_role("radio", name="Shots").check()
            page.get_by_role("button", name="Add a shot").click()
            card(page, video).locator(".title").click()
            page.locator("#drift summary").wait_for()
            look_at(page, scheme)


def check_lost(chromium, server):
    """The end of the server is said."""
    with on_page(chromium, server, is_lost=True) as page:
        server.end()
        eventually(lambda: "does not answer" in page.locator("#lost").inner_text(), "that the server is gone")


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    server = PageServer("served")
    try:
        with browser() as chromium:
            check_access(server)
            check_grows(chromium, server)
            check_quarter_of_an_hour(chromium, server)
            check_waits_for_the_end(chromium, server)
            with on_page(chromium, server, refused=(400,), is_lost=True) as page:
                finished = check_again(page, server)
                video = check_drift(page, server)
                check_upload(page, server)
                check_shots(page, server)
                check_errors(page, server)
                check_deletes(page, server, finished)
                check_keys(page, server)
            check_lora(chromium, server)
            check_looks(chromium, server, video)
            check_read_only(chromium, server, video)
            check_lost(chromium, server)
    finally:
        if server.process.poll() is None:
            server.end()


if __name__ == "__main__":
    main()
