#!/usr/bin/env python3
"""The pictures of the documents (docs/pictures) are what the program shows: each is made from the run of
configs/curate.toml, or from a server of a tiny model, and looks like the one that is stored. So do the studio's
page and the report in three widths, light and dark, whose small grey pictures are in tests/e2e/pages.
usage: page_pictures.py KINORA ROOT SCRATCH [--write]    --write: stores them in docs/pictures and tests/e2e/pages"""
import base64, pathlib, re, shutil, subprocess, sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "studio"))

from browser import KINORA, ROOT, SCRATCH, Studio, browser, page_of, still  # which also finds tests/support
from edits import select
from serve_page import PageServer, field, on_page
from serving import PIPELINE

WIDTH, HEIGHT = 1280, 800
SIZES = ((1440, 900), (1024, 768), (390, 844))
SCHEMES = ("light", "dark")
LARGEST = 150_000  # bytes of a picture
LARGEST_GREY = 3_000
PICTURES, PAGES = ROOT / "docs/pictures", ROOT / "tests/e2e/pages"
WRITE = "tests/e2e/page_pictures.py KINORA ROOT SCRATCH --write stores the new one"
GREY = "scale=64:40:flags=area,format=gray"
# Largest mean difference of the grey levels (0 to 255) of 64 x 40 squares. Two runs of one machine differ by 0.4, an
# empty map by 3, a page that is moved by 6 pixels by 9.
LIKE = 2.5
# Rates and sizes that make a video of half a second in a second: its model has random weights, so it shows noise.
SETS = [word for one in ("teacher_forcing=true", "chunk=1", "height=96", "width=160", "fps=8.0", "frames=9", "steps=4")
        for word in ("--set", one)]
WISHES = ("A boat at sea, seen from a cliff.", "A dark street in the rain.")


def store(page, name, clip=None):
    """Writes NAME.webp of what the page shows."""
    still(page)
    page.wait_for_function("() => document.fonts.ready.then(() => true)")
    area = {"clip": {**clip, "scale": 1}} if clip else {}
    shot = page.context.new_cdp_session(page).send("Page.captureScreenshot", {"format": "webp", "quality": 75, **area})
    (SCRATCH / "out" / f"{name}.webp").write_bytes(base64.b64decode(shot["data"]))


def all_seen(page):
    """Waits until each card that is in view has its picture."""
    page.wait_for_function("""() => [...document.querySelectorAll('.cell:not([hidden]) canvas')].filter((canvas) =>
        canvas.getBoundingClientRect().top < innerHeight).every((canvas) => canvas.style.visibility === 'visible')""")


def curate():
    out = SCRATCH / "curate"
    done = subprocess.run([KINORA, "run", ROOT / "configs/curate.toml", "--out", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def store_grey(page, name, width):
    """Writes NAME-WIDTH-SCHEME.png of what the page shows, light and dark: 64 x 40 pixels of 8 bits."""
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        still(page)
        page.wait_for_function("() => document.fonts.ready.then(() => true)")
        subprocess.run(["ffmpeg", "-v", "error", "-f", "png_pipe", "-i", "-", "-vf", GREY, "-frames:v", "1",
                        SCRATCH / "pages" / f"{name}-{width}-{scheme}.png"], check=True, input=page.screenshot())


def to_video(page, name):
    heading = page.get_by_role("heading", name=name, exact=True).first
    heading.evaluate("heading => scrollTo(0, heading.getBoundingClientRect().top + scrollY - 32)")
    page.wait_for_function("() => [...document.images].every((image) => image.complete)")


def report(chromium, run):
    with chromium.new_context(viewport={"width": WIDTH, "height": HEIGHT}) as tab:
        page = tab.new_page()
        page.goto((run / "report.html").as_uri())
        to_video(page, "film")
        store(page, "report")
    for width, height in SIZES:
        with chromium.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce") as tab:
            page = tab.new_page()
            page.goto((run / "report.html").as_uri())
            to_video(page, "film" if width > 760 else "bbb_A")  # a narrow page has four videos before the fold
            store_grey(page, "report", width)


def studio_sizes(chromium, process):
    for width, height in SIZES:
        with page_of(chromium, process, viewport={"width": width, "height": height}) as page:
            select(page, "film-0003")
            if width > 760:  # on a narrow page the player is not shown until the clip is opened
                page.wait_for_function("() => document.querySelector('#detail video')?.readyState >= 2")
            all_seen(page)
            page.locator("#status").evaluate("message => { message.style.visibility = 'hidden'; }")
            store_grey(page, "studio", width)


def studio(chromium, run):
    with Studio(run) as process:
        studio_sizes(chromium, process)
        studio_pictures(chromium, process)


def studio_pictures(chromium, process):
    with page_of(chromium, process, viewport={"width": WIDTH, "height": HEIGHT}) as page:
        select(page, "film-0003")
        page.wait_for_function("() => document.querySelector('#detail video')?.readyState >= 2")
        all_seen(page)
        store(page, "studio")
        select(page, "bbb_A-0000")
        page.keyboard.press("x")
        page.locator("#reason").fill("too dark")
        page.keyboard.press("Enter")
        for key in ("bbb_B-0000", "bbb_D-0000", "film-0000"):
            select(page, key)
            page.keyboard.press("a")
        page.locator("#status").evaluate("message => { message.style.visibility = 'hidden'; }")
        all_seen(page)
        box = page.locator("#list").bounding_box()
        store(page, "sheet", {**box, "height": min(box["height"], HEIGHT - box["y"])})
        page.locator("#show-map").click()
        page.locator("#map canvas").wait_for()
        store(page, "map", page.locator("#map").bounding_box())


def server(chromium):
    process = PageServer("served", ["--pipeline", PIPELINE, *SETS])
    try:
        for wish in WISHES:
            process.wait(process.create(prompt=wish, seed=7)["id"])
        with on_page(chromium, process, viewport={"width": WIDTH, "height": 640}) as page:
            page.locator("#history .card .title").first.click()
            page.wait_for_function("() => document.querySelector('#video').readyState >= 2")
            field(page, "prompt").fill("The same boat at night.")
            page.locator("#video").evaluate("video => { video.pause(); video.currentTime = 0; }")
            store(page, "server")
    finally:
        process.end()


def squares(picture):
    """The grey levels of 64 x 40 squares."""
    return subprocess.run(["ffmpeg", "-v", "error", "-i", picture, "-vf", GREY, "-f", "rawvideo", "-"], check=True,
                          capture_output=True).stdout


def difference(one, other):
    """The mean difference of the grey levels of two pictures."""
    one, other = squares(one), squares(other)
    assert len(one) == len(other) == 64 * 40
    return sum(abs(a - b) for a, b in zip(one, other)) / len(one)


def compared(folder, made, largest):
    """What is wrong with the pictures that are stored in the folder: each is small, and looks like what the program
    shows now."""
    stored = {file.name: file for file in folder.iterdir()} if folder.exists() else {}
    assert stored.keys() == made.keys(), f"{folder}: {sorted(stored.keys() ^ made.keys())}: {WRITE}"
    wrong = []
    for name in sorted(made):
        differs = difference(stored[name], made[name])
        print(f"{name}: {made[name].stat().st_size} bytes, differs by {differs:.1f}")
        assert max(stored[name].stat().st_size, made[name].stat().st_size) <= largest, f"{name} is too large for git"
        assert len(set(squares(made[name]))) > 20, f"{name} shows nothing"
        if differs > LIKE:
            wrong.append(f"{folder / name} is not what the program shows (differs by {differs:.1f}): {WRITE}")
    return wrong


def check():
    """Each picture of the documents is shown by a page, each page has two schemes, and all look as they are stored."""
    made, grey = ({file.name: file for file in (SCRATCH / name).iterdir()} for name in ("out", "pages"))
    assert len(made) == 5 and len(grey) == 2 * len(SIZES) * len(SCHEMES), (made.keys(), grey.keys())
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"!\[[^\]]+\]\(\S*pictures/(\S+)\)", page.read_text())}
    assert shown == made.keys(), f"no page shows {made.keys() - shown}"
    for name in grey:
        if "light" in name:
            assert difference(grey[name], grey[name.replace("light", "dark")]) > LIKE, f"{name}: dark mode is the same"
    wrong = compared(PICTURES, made, LARGEST) + compared(PAGES, grey, LARGEST_GREY)
    assert not wrong, "\n".join(wrong)


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    for name in ("out", "pages"):
        (SCRATCH / name).mkdir(parents=True)
    run = curate()
    with browser() as chromium:
        report(chromium, run)
        studio(chromium, run)
        server(chromium)
    if sys.argv[4:] == ["--write"]:
        for name, folder in (("out", PICTURES), ("pages", PAGES)):
            shutil.copytree(SCRATCH / name, folder, dirs_exist_ok=True)
    check()


main()
