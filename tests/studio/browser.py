"""Shared by the studio's tests: a curate run over real videos, the studio as a process, and Debian's Chromium."""
import contextlib, functools, http.client, json, pathlib, shutil, signal, subprocess, sys, time

from playwright.sync_api import sync_playwright

# for every script that imports this one
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
# the first needs a third of the processor time
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or "chromium"

# Kept clips, filtered clips (rule clip.too-short) and a video that cannot be read.
RUN = """
[run]
name = "studio"
[[job]]
name = "clips"
kind = "curate"
input = [{inputs}]
stages = [
  {{ use = "video.probe" }},
  {{ use = "shots.content" }},
  {{ use = "clip.transcode", min_length = {min_length}, min_frames = 1, edge_crop = 0.0, \
     preset = "ultrafast"{sampled} }},
  {{ use = "caption.describe" }},{more}
]
"""


def fresh():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)


@functools.cache
def small(video):
    """A quarter of the pixels, for less to decode; a keyframe per second, for quick pictures."""
    out = SCRATCH / "small" / video
    out.parent.mkdir(exist_ok=True)
    subprocess.run(["ffmpeg", "-v", "error", "-i", str(ROOT / "tests/data" / video), "-vf", "scale=iw/2:-2", "-c:v",
                    "libx264", "-preset", "veryfast", "-g", "24", "-c:a", "copy", str(out)], check=True)
    return out


def run_command(name, videos=("film.mp4", "bbb_A.mp4"), min_length=3.2, embedded=False, stages="", jobs=""):
    """The command and the folder of a run; a second call with the same name continues it. embedded: by
    embed.classic."""
    broken = SCRATCH / "broken.mp4"
    if not broken.exists():  # a newer file would count as another video
        broken.write_bytes(b"no video at all")
    inputs = ", ".join(json.dumps(str(p))
                       for p in [*(small(video) if isinstance(video, str) else video for video in videos), broken])
    (SCRATCH / f"{name}.toml").write_text(RUN.format(inputs=inputs, min_length=min_length,
                                                     sampled=", sample_fps = 2.0, sample_height = 96" if embedded
                                                     else "", more=(' { use = "embed.classic" },' if embedded else "")
                                                     + stages) + jobs)
    return [KINORA, "run", str(SCRATCH / f"{name}.toml"), "--out", str(SCRATCH / name)], SCRATCH / name


def curated(*arguments, **options):
    """The folder of a finished run, with the arguments of run_command."""
    command, out = run_command(*arguments, **options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return out


@functools.cache
def curated_once():
    return curated("once", embedded=True)


def copy_of_run(name):
    """The folder of a run that all tests share; this copy may be changed, and curated() with its name continues it."""
    return shutil.copytree(curated_once(), SCRATCH / name)


def edits(folder):
    """The lines, and the last value of each field of each key, as seen by a reader that ignores undo."""
    path, last = folder / "clips/edits.jsonl", {}
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for line in lines:
        last.setdefault(line["key"], {}).update(line["set"])
    return lines, last


class Studio:
    """A studio process; `address` contains its token."""

    @staticmethod
    def command(folder):
        return [KINORA, "studio", str(folder)]

    def __init__(self, folder, *arguments):
        author = () if "--author" in arguments else ("--author", "mia")
        self.process = subprocess.Popen([*self.command(folder), *author, *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.process.communicate()
        self.origin, self.token = self.address.split("/?t=")
        self.host = self.origin.removeprefix("http://")

    @functools.cached_property
    def cookie(self):
        """What a browser receives that opens the address."""
        connection = http.client.HTTPConnection(self.host, timeout=120)
        connection.request("GET", f"/?t={self.token}")
        return connection.getresponse().getheader("Set-Cookie").split(";")[0]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """Ends it with Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=20)
        assert code == 130, (code, self.process.stderr.read())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.kill()


@contextlib.contextmanager
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield chromium
        finally:
            chromium.close()


@contextlib.contextmanager
def page_of(chromium, studio, refused=(), is_lost=False, shows=".cell[aria-selected=true]", before=lambda page: None,
            **context):
    """The studio's page, by default small and without fading, for fewer pixels to draw. A request to another host, or
    an error in the page, fails the test. refused: statuses that the test expects; is_lost: the test cuts the
    connection; shows: an element of the loaded page; before: called with the page before it is loaded."""
    outside, errors = [], []
    with chromium.new_context(**{"viewport": {"width": 1200, "height": 720}, "reduced_motion": "reduce",
                                 **context}) as tab:
        page = tab.new_page()
        page.set_default_timeout(60000)
        page.on("request",
                lambda request: outside.append(request.url)
                if not request.url.removeprefix("blob:").startswith(studio.origin + "/") else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console",
                lambda message: errors.append(message.text)
                if message.type == "error" and not (is_lost and "net::ERR" in message.text)
                and not any(f"status of {code}" in message.text for code in (404, *refused)) else None)
        before(page)
        page.goto(studio.address)
        try:
            page.wait_for_selector(shows)
            yield page
        except BaseException:
            page.screenshot(path=str(SCRATCH / "failed.png"))
            print("the page's errors:", errors, "; it shows:",
                  page.evaluate(
                      "() => [document.activeElement.id, ...['status', 'summary', 'caption'].map((id) => "
                      "document.getElementById(id)?.value ?? document.getElementById(id)?.textContent)]"),
                  file=sys.stderr)
            raise
    assert not outside, f"asked of other places: {outside}"
    assert not errors, errors


def still(page):
    """Waits until no element fades in: it would have no contrast yet. A card without its picture yet never ends."""
    page.evaluate("""() => Promise.all(document.getAnimations()
        .filter((animation) => animation.effect.getComputedTiming().iterations < Infinity)
        .map((animation) => animation.finished.catch(() => null)))""")


def run_alone(main):
    fresh()
    with browser() as chromium:
        main(chromium)


def eventually(condition, what="this line", seconds=60):
    """Waits until the condition holds: after a click or a key the page needs a moment."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if value := condition():
                return value
        except (KeyError, IndexError):  # the elements do not exist yet
            pass
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")
