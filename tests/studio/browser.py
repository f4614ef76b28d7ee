"""What the studio's tests share: a curate run over real films, the studio as a process, and Debian's Chromium."""
import contextlib, functools, json, pathlib, shutil, signal, subprocess, sys, time

from playwright.sync_api import sync_playwright

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))  # for every script that imports this one

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
CHROMIUM = shutil.which("chromium") or "chromium"

# Clips that are kept, clips that are filtered (rule clip.too-short) and a film that cannot be read.
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
  {{ use = "clip.transcode", min_length = {min_length}, min_frames = 1, edge_crop = 0.0, preset = "ultrafast"{sampled} }},
  {{ use = "caption.describe" }},{more}
]
"""


def fresh():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)


def run_command(name, films=("film.mp4", "bbb_A.mp4"), min_length=3.2, embedded=False, stages="", jobs=""):
    """The command and the folder of a run; again with the same name, it is continued. embedded: by embed.classic."""
    broken = SCRATCH / "broken.mp4"
    if not broken.exists():  # a film that is newer is another film
        broken.write_bytes(b"no film at all")
    inputs = ", ".join(json.dumps(str(p)) for p in [*(ROOT / "tests/data" / film for film in films), broken])
    (SCRATCH / f"{name}.toml").write_text(RUN.format(inputs=inputs, min_length=min_length, sampled=", sample_fps = 2.0, sample_height = 96" if embedded else "", more=(' { use = "embed.classic" },' if embedded else "") + stages) + jobs)
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
    """The folder of a run that is the same for all tests; this one may be changed, and curated() with its name continues it."""
    return shutil.copytree(curated_once(), SCRATCH / name)


def edits(folder):
    """The lines, and the last value of each field of each key: what a reader that knows no undo sees."""
    path, last = folder / "clips/edits.jsonl", {}
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for line in lines:
        last.setdefault(line["key"], {}).update(line["set"])
    return lines, last


class Studio:
    """A process; `address` has its token."""

    @staticmethod
    def command(folder):
        return [KINORA, "studio", str(folder)]

    def __init__(self, folder, *arguments):
        author = () if "--author" in arguments else ("--author", "mia")
        self.process = subprocess.Popen([*self.command(folder), *author, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.process.communicate()
        self.origin, self.token = self.address.split("/?t=")
        self.host = self.origin.removeprefix("http://")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """By Ctrl-C."""
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
def page_of(chromium, studio, refused=(), is_lost=False, shows=".cell[aria-selected=true]", before=lambda page: None, **context):
    """The studio's page; whatever it asks of another place, and whatever goes wrong in it, fails the test.
    refused: statuses that the test asks for; is_lost: the test cuts the connection. shows: what is there when it is loaded. before: called with the page before it is loaded."""
    outside, errors = [], []
    with chromium.new_context(**{"viewport": {"width": 1440, "height": 900}, **context}) as tab:
        page = tab.new_page()
        page.set_default_timeout(60000)
        page.on("request", lambda request: outside.append(request.url) if not request.url.startswith(studio.origin + "/") else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" and not (is_lost and "net::ERR" in message.text) and not any(f"status of {code}" in message.text for code in (404, *refused)) else None)
        before(page)
        page.goto(studio.address)
        try:
            page.wait_for_selector(shows)
            yield page
        except BaseException:
            page.screenshot(path=str(SCRATCH / "failed.png"))
            print("the page's errors:", errors, file=sys.stderr)
            raise
    assert not outside, f"asked of other places: {outside}"
    assert not errors, errors


def still(page):
    """Waits until nothing fades in: it would have no contrast yet."""
    page.evaluate("() => Promise.all(document.getAnimations().map((animation) => animation.finished.catch(() => null)))")


def run_alone(main):
    fresh()
    with browser() as chromium:
        main(chromium)


def eventually(condition, what="this line", seconds=60):
    """Waits until the condition holds: after a click or a key the page is right in a while, not at once."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if value := condition():
                return value
        except (KeyError, IndexError):  # what it looks at is not there yet
            pass
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")
