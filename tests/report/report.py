#!/usr/bin/env python3
"""Reports of made-up runs in a browser: texts, sums, charts, hostile names, broken files, 10,000 items; nothing
overflows, axe finds nothing. usage: report.py REPORT_PAGES ROOT SCRATCH"""
import functools, itertools, math, pathlib, random, re, shutil, subprocess, sys, time

from playwright.sync_api import sync_playwright

PAGES, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
FOLDER = ROOT / "plugins/jobs/report/page"
sys.path.append(str(ROOT / "tests/support"))
from axe_core import violations


class Report:
    """A report in a browser. A request for anything else, or an error in the page, fails the test. Reports follow each
    other in one page for each set of context options: a new page takes longer than a report, and the next report
    replaces everything of the last."""

    pages = {}

    def __init__(self, chromium, name, width=1280, scheme="light", **context):
        options, self.wrong, address = tuple(context.items()), [], (SCRATCH / f"{name}.html").as_uri()
        if options not in self.pages:
            self.pages[options] = chromium.new_context(**context).new_page()
        self.name, self.page = name, self.pages[options]
        self.heard = {
            "request": lambda request: self.wrong.append(request.url[:200])
            if request.url != address and not request.url.startswith("data:") else None,
            "pageerror": lambda error: self.wrong.append(str(error)),
            "console": lambda message: self.wrong.append(message.text) if message.type == "error" else None,
            "dialog": lambda dialog: (self.wrong.append(f"dialog {dialog.message}"), dialog.dismiss()),
        }
        for event, hear in self.heard.items():
            self.page.on(event, hear)
        self.look(width, scheme)
        self.page.goto(address)
        self.text = self.page.locator("body").inner_text()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for event, hear in self.heard.items():
            self.page.remove_listener(event, hear)
        assert error[0] or not self.wrong, (self.name, self.wrong)

    def look(self, width, scheme="light"):
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=scheme)

    def check_width(self, what):
        assert self.page.evaluate(
            "() => document.documentElement.scrollWidth <= innerWidth"), f"{self.name} {what} is too wide"

    def tags(self):
        return self.page.evaluate("() => [...document.querySelectorAll('*')].map((element) => element.localName)")

    def says(self, *texts):
        assert not (missing := [text for text in texts if text not in self.text]), (self.name, missing)


def check_losses(page):
    """The loss above the chart is where the chart's line ends, and the questions come in their order."""
    for section in ("tokenizer", "training"):
        part = page.locator(f"#{section}")
        told = part.locator(".group div",
                            has=page.locator("dt", has_text=re.compile("^loss at the end$"))).locator(
                                "dd").first.inner_text()
        caption = part.locator(".plot figcaption").first.inner_text()
        assert re.search(rf"→ {re.escape(told)}( ·|$)", caption), (section, told, caption)
        questions = part.locator(".question").all_inner_texts()
        assert questions == ["What went in", "What came out", "Is it good?",
                             "What it cost"][section == "tokenizer":], (section, questions)


def check_player(chromium):
    """A short video repeats with a button, since players show its time as 0:00; where the prompt names another length,
    the page says so."""
    with Report(chromium, "seconds") as report:
        report.says("The prompt says 3 seconds, the video has 0.75", "0.75\u00a0s, repeats", "9 at 12\u00a0fps")
        assert report.page.locator("video[loop]:not([controls])").count() == 1 and report.page.locator(
            ".playing button").count() == 1


def check_shots(chromium):
    """Each shot has its prompt and its seconds. Their lengths are their own, whatever the prompts say."""
    with Report(chromium, "shots") as report:
        said = [" ".join(text.split()) for text in report.page.locator("#videos .prompts li").all_inner_texts()]
        assert said == ["0 s to 1 s A video of 9 seconds.", "1 s to 2.75 s A dark video."], said
        facts = report.page.locator("#videos .facts").inner_text().split("\n")
        assert [facts[facts.index(name) + 1] for name in ("denoiser calls", "model calls")] == ["8", "21"], facts
        assert "The prompt says" not in report.text
    with Report(chromium, "plain") as report:
        assert report.page.locator("#videos .prompt").count() == 1


def check_words(chromium):
    with Report(chromium, "plain") as report:
        report.says("61.5", "threshold 27", "1,234,567", "31.4\u00a0dB", "2\u00a0min\u00a016\u00a0s", "96 × 64",
                    "Filtered by plain: 1.5, at least 2 is kept", "4\u00a0KiB", "Failed in plain: plain", "44.3%",
                    "stage/shots.content",
                    "✓ Adds up, and items.jsonl has a line for each of the 3.", "for each of the 2.",
                    "No picture: plain", "Chosen clips", "plain >= 20\t1,000\t250\t750", "count\t750\t700\t50",
                    "plain\t42\t84\u00a0%\t75\u00a0%", "val\t8\t16\u00a0%\t25\u00a0%", "Chosen clips by value",
                    "sky\t20",
                    "details are lost, shapes are right", "still falls: more steps would help",
                    "16\u00a0×\u00a03\u00a0×\u00a016\u00a0×\u00a024",
                    "Rough on purpose: 96\u00a0×\u00a064 pixels by a model of 1,234,567 parameters, trained for "
                    "1\u00a0min\u00a000\u00a0s.", "Squares of 4\u00a0×\u00a04 pixels")
        assert ("✗" not in report.text and "Work of each rank" not in report.text
                and "The prompt says" not in report.text and "too short" not in report.text)
        check_losses(report.page)
        report.page.locator("#training summary").click()
        assert report.page.locator("#training details .facts").inner_text().split("\n") == [
            "loss of the last step alone", "0.5", "PSNR", "31.4\u00a0dB"]
        assert report.page.title() == "plain – Kinora" and report.page.locator(
            "dd", has_text=re.compile("^77$")).count() == 1
        assert report.page.locator(
            "video[src^='data:video/mp4;base64,'][muted], video[src^='data:video/mp4;base64,']").count() == 1
        assert report.page.locator("img[src^='data:image/png;base64,']").count() == 3
    with Report(chromium, "wrong") as report:
        report.says("✗ Does not add up: the outcomes sum to 2.", "lines that cannot be read", "1\u00a0input damaged",
                    "2\u00a0inputs ended in stage mine without a result",
                    "The video is damaged: rot", "kept, damaged", "Work of each rank", "4,321", "8\u00a0KiB",
                    "1\u00a0min\u00a030\u00a0s")
    with Report(chromium, "missing") as report:
        report.says("✗ items.jsonl has 0 kept, 1 filtered, 1 failed.")
    with Report(chromium, "nothing") as report:
        report.says("7\u00a0jobs have not finished", "The results of job “dit” are missing",
                    "no loss in the metrics.jsonl")


def check_hostile(chromium):
    """The elements are those of harmless texts, nothing runs, and the texts are read as they are."""
    with Report(chromium, "plain") as plain:
        tags = plain.tags()
    with Report(chromium, "hostile") as hostile:
        assert hostile.tags() == tags
        hostile.says("<script>document.title = 1</script><img src=http://a/b", "]]>--><!--<script>", "@data@", "\ufffd")
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]",
                             hostile.page.content()), "an unwanted character"
        assert hostile.page.title().startswith("\"'>"), hostile.page.title()
        refused = hostile.page.evaluate(
            "() => { try { document.body.innerHTML = '<b>'; return '' } catch (error) { return error.name } }")
        assert refused == "TypeError", "the page's security policy allows markup from text"
        hostile.wrong.clear()  # the refusal


def check_looks(chromium):
    """Both colour schemes, wide and narrow; axe-core's rules, contrast included. Made-up videos never load, so axe must
    not wait for them."""
    for name, *looks in (("plain", (1280, "light"), (1280, "dark"), (390, "dark"), (320, "light")),
                         ("hostile", (1280, "dark"), (390, "light")), ("wrong", (390, "light"), (1280, "dark")),
                         ("wall", (1280, "light"), (390, "dark"))):
        with Report(chromium, name, *looks[0], bypass_csp=True) as report:
            for width, scheme in looks:
                report.look(width, scheme)
                report.check_width(f"{width} {scheme}")
                report.page.screenshot(path=str(SCRATCH / f"{name}-{width}-{scheme}.png"), full_page=True)
                found = violations(report.page, preload=False)
                assert not found, (name, width, scheme, found)


def check_curves(chromium):
    for points, widths in zip((1, 2, 3, 12, 50, 5000), itertools.cycle(((1280, 390), (390, 1280)))):
        with Report(chromium, f"curve-{points}", widths[0]) as report:
            drawn = report.page.evaluate(
                "() => [...document.querySelectorAll('.plot path')].map((path) => path.getAttribute('d'))")
            assert points > 1 or report.page.locator("#training path.dots.alone").first.get_attribute("d").endswith(
                "h0"), "one point is a dot"
            assert len(drawn) >= 9 and not re.search("nan|inf|undefined|null", "".join(drawn), re.I), report.name
            ends = report.page.evaluate("() => [...document.querySelectorAll('#training .plot')].map((plot) => "
                                        "[...plot.querySelectorAll('.x')].map((one) => one.style.left).pop())")
            assert points == 1 or all(float(end.removesuffix("%")) > 85 for end in ends), (report.name, ends)
            area = report.page.locator("#training .area").first
            for width in widths:
                report.look(width)
                report.check_width(width)
                area.hover()
                assert re.fullmatch(r"step [\d,]+: \S+", area.locator(".reading").inner_text()), (report.name, width)
                report.page.mouse.move(0, 0)
                assert not area.locator(".reading").count(), (report.name, width)
    with Report(chromium, "plain") as report:
        report.page.locator(".timeline .area").first.hover()
        assert report.page.locator(".reading").inner_text() == "Shot 2 from 0:01.0: filtered, cut at score 61.5"


def check_scores(chromium):
    """A histogram of each measured score, with the bounds that used it, also of many and extreme ones."""
    with Report(chromium, "plain") as report:
        part = report.page.locator("#scores")
        assert part.locator("figure").count() == 2
        named, sharp = part.locator("figure").nth(0), part.locator("figure").nth(1)
        assert named.inner_text().split("\n")[:2] == ["plain plain",
                                                      "median 1.5\u00a0plain · 1\u00a0clip"], named.inner_text()
        assert "at least 2\u00a0plain is kept: 1 filtered" in named.inner_text() and named.locator(
            "rect.filtered").count() == 1
        text = sharp.inner_text()
        assert text.startswith("sharp\nmedian 24 · 3\u00a0clips"), text
        assert "more than 20 in choose: 17 left out" in text, text
        assert sharp.locator("path.threshold").get_attribute("d") == f"M{1000 * 20 / 60:.1f} 0V1000" and sharp.locator(
            "rect.all").count() == 3
        sharp.locator(".area").scroll_into_view_if_needed()
        box = sharp.locator(".area").bounding_box()
        report.page.mouse.move(box["x"] + 1, box["y"] + 5)
        assert sharp.locator(".reading").inner_text() == f"0 to {60 / 32:.2f}: 1"
    with Report(chromium, "scores", 1280, bypass_csp=True) as report:
        assert report.page.locator("#scores figure").count() == 60
        drawn = report.page.evaluate(
            "() => [...document.querySelectorAll('#scores rect')].map((one) => ['x', 'y', 'width', "
            "'height'].map((name) => Number(one.getAttribute(name))))")
        assert drawn and all(all(math.isfinite(v)
                                 for v in one) and 0 <= one[0] < 1000 and 0 <= one[1] < 1000 and one[3] > 0
                             for one in drawn), drawn[:5]
        whole = report.page.locator("#scores figure", has_text="b.whole")
        assert whole.locator("rect.all").count() == 7 and whole.locator(".x").all_inner_texts() == ["0", "6"]
        widths = {one[2] for one in drawn}
        assert widths == {28}, widths
        rare = report.page.locator("#scores figure", has_text="d.rare")
        assert rare.locator(".x").all_inner_texts() == ["0", "log", "1,000"]
        place = 1000 / 32 * (1 + 31 * 2 / 3)  # of 100 from 1 to 1,000, behind the bar of 0
        assert rare.locator("path.threshold").get_attribute("d") == f"M{place:.1f} 0V1000"
        short = report.page.locator("#scores figure", has_text="clip.too-short")
        told = short.inner_text().replace("\u00a0", " ").split("\n")
        assert told[:2] == ["Length of the shot clip.too-short", "median 1.0 s · 300 clips"], told
        assert short.locator(".x").all_inner_texts() == ["0.042\u00a0s", "1.96\u00a0s"] and told[
            -1] == "at least 2.0 s is kept: 1 filtered", told
        columns = lambda: report.page.evaluate(
            "() => getComputedStyle(document.querySelector('.scores')).gridTemplateColumns.split(' ').length")
        assert columns() == 4
        for width, scheme in ((1280, "light"), (390, "dark")):
            report.look(width, scheme)
            report.check_width(f"{width} {scheme}")
            assert not (found := violations(report.page, preload=False)), (width, found)
        assert columns() == 1


def check_drift(chromium):
    """A chart of each number of a long video's drift: its ends as text, two ticks or more on each axis, and what the
    pointer reads."""
    with Report(chromium, "plain") as report:
        charts = report.page.locator("#videos .multiples figure")
        texts = [(charts.nth(i).locator("figcaption").inner_text(),
                  charts.nth(i).locator("[role=img]").get_attribute("aria-label")) for i in range(charts.count())]
        assert texts == [
            ("Mean of the channels 0 → 0.25", "Mean of the channels by second: 0 at second 1, 0.25 at second 4"),
            ("Sharpness 0 → -1", "Sharpness by second: 0 at second 1, -1 at second 4"),
            ("Saturation at most 0.5", "Saturation by second: 0.5 at second 1, 0.0625 at second 4")], texts
        for i in range(3):
            for axis in ("x", "y"):
                assert charts.nth(i).locator(f".{axis}").count() >= 2, (i, axis)
            assert charts.nth(i).locator(".x").last.inner_text() == "second 4", i
        assert charts.nth(0).bounding_box()["width"] > 200, "a chart has the place of a chart"
        area = charts.nth(0).locator(".area")
        area.hover()
        assert re.fullmatch(r"second [23]: 0\.(05|125)", area.locator(".reading").inner_text()), "the middle"


def check_funnel(chromium):
    """The funnel's numbers, and links from each step to the part of the page that tells of it, and from what fell to
    the part that tells why."""
    with Report(chromium, "wall") as report:
        steps = report.page.locator(".funnel li")
        texts = [" ".join(text.split()) for text in steps.all_inner_texts()]
        assert texts == ["22 videos", "20 clips 2 videos failed", "20 good",
                         "12 chosen 7 left out by choose 1 rejected",
                         "9 in shards 1 left out 2 not asked for by where"], texts
        links = report.page.locator(".funnel a").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
        assert links == ["#source-videos", "#outcomes", "#failed-inputs", "#outcomes", "#chosen", "#chosen", "#chosen",
                         "#shards", "#shards", "#shards"], links
        files = report.page.locator("a[href$=json]").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
        assert files == [f"{job}/summary.json" for job in ("choose", "tokenizer", "dit")], files
        contents = report.page.locator("nav a").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
        assert len(contents) > 5 and contents[:4] == ["#source-videos", "#outcomes", "#chosen", "#shards"], contents
        for link in {*links, *contents}:
            assert report.page.locator(link).count() == 1, link
        report.page.locator(".funnel a", has_text="failed").click()
        assert report.page.locator("#failed-inputs").bounding_box()["y"] < 900, "the link leads there"
        assert "video-30 Failed in video.probe: cut off" in report.text
        report.says("2\u00a0inputs failed", "clip of 1.0\u00a0s from 0:00.5")
        assert report.page.locator(".source-video:visible").count() == 12
        files = report.page.locator(".source-video > .muted").all_inner_texts()[:2]
        assert [file.split(" · ")[0] for file in files] == ["trip/IMG_0001.mp4", "day2/IMG_0001.mp4"], files
        report.page.locator(".more-videos summary", has_text="8\u00a0more videos").click()
        assert report.page.locator(".source-video:visible").count() == 20, "each video can be reached"
    with Report(chromium, "nothing") as report:
        assert not report.page.locator(".funnel, .wall").count()


def check_left_out(chromium):
    """Each condition lists the clips that it left out, with what it compares and a picture; what helps is said; on
    telephones an input's outcome is under its name."""
    with Report(chromium, "wall") as report:
        clips = report.page.locator(".left-out li")
        assert clips.count() == 8 and " ".join(clips.first.inner_text().split()) == "video-10-0 0.25", clips.count()
        assert clips.first.locator("img").count() == 1
        report.says("letterbox <= 0.1", "crop = true", "12\u00a0chosen clips, 8 left out later")
        assert report.page.locator(".wall img").nth(11).get_attribute("class") is None
        assert report.page.locator(".wall img.later").count() == 8
        shots = report.page.locator("#source-videos")
        assert shots.locator("li.later").count() == shots.locator("rect.later").count() == 8
        report.says("1\u00a0shot left out later", "1\u00a0shot kept", "Left out later")
        rows = report.page.locator(".at-inputs .outcome")
        assert rows.all_text_contents()[:3] == ["failed", "failed", "kept: cut into clips"], rows.all_text_contents()
        names = report.page.locator(".at-inputs th[scope=row]").all_text_contents()
        assert [name.removesuffix("kept: cut into clips") for name in names[2:5]] == [
            "video-10 trip/IMG_0001.mp4", "video-11 day2/IMG_0001.mp4", "video-12"], names
        outcome = rows.nth(2)
        assert not outcome.is_visible()
        report.look(390)
        assert outcome.is_visible() and outcome.inner_text() == "kept: cut into clips"
        assert not report.page.locator(".at-inputs td:nth-child(2):visible").count()
        report.check_width("on a telephone")
    with Report(chromium, "wall", 390) as report:
        assert report.page.locator(".source-video:visible").count() == 4, "a telephone's page is short"


def check_tiles(chromium):
    """The tile of a portrait video is whole, and no higher than 12 rem, with a picture and without."""
    with Report(chromium, "plain") as report:
        tile = report.page.locator(".shots figure > :first-child").first
        tile.evaluate("(one) => { one.style.aspectRatio = '9 / 16'; }")
        assert tile.bounding_box()["height"] == 192, tile.bounding_box()
        tile.evaluate("async (one) => { const picture = new Image(240, 426); picture.src = 'data:image/svg+xml,' + "
                      "encodeURIComponent('<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"240\" height=\"426\"/>');"
                      " await picture.decode(); one.replaceWith(picture); }")
        assert tile.bounding_box()["height"] == 192, tile.bounding_box()
        assert tile.evaluate("(one) => getComputedStyle(one).objectFit") == "contain"


def check_wall(chromium):
    """The previews of kept clips are whole, in their shape, and move unless the reader wants no motion; a button stops
    them."""
    moving = "(all) => all.map((one) => [one.src.length, one.naturalWidth, one.naturalHeight])"
    for wish, moves in (("no-preference", True), ("reduce", False)):
        with Report(chromium, "wall", reduced_motion=wish) as report:
            previews, button = report.page.locator(".wall img"), report.page.locator(".playing button").first
            before = previews.evaluate_all(moving)
            assert len(before) == 20 and all(one[1:] == [16, 8] for one in before), before[:3]
            box = previews.first.bounding_box()
            assert abs(box["width"] / box["height"] - 2) < 0.02, "its own shape"
            assert button.inner_text() == ("Pause" if moves else "Play")
            button.click()
            after = previews.evaluate_all(moving)
            assert all((a[0] > b[0]) == moves for a, b in zip(before, after)), "a still is the smaller file"
            for width, scheme in ((1440, "light"), (1024, "dark"), (390, "light")):
                report.look(width, scheme)
                report.check_width(f"{width} {scheme}")


def check_paper(chromium):
    """On A4 (190 mm of 96 dots an inch between its margins) nothing is wider than the paper, nothing scrolls, all
    videos are there, and buttons are not."""
    for name in ("wall", "plain", "wrong"):
        with Report(chromium, name) as report:
            report.page.set_viewport_size({"width": 718, "height": 1000})
            report.page.emulate_media(media="print")
            report.page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
            report.check_width("on paper")
            cut = report.page.evaluate("() => [...document.querySelectorAll('.scroll, pre')].filter((one) => "
                                       "one.scrollWidth > one.clientWidth + 1).map((one) => one.ariaLabel)")
            assert not cut, (name, cut)
            assert not report.page.locator("nav:visible, .playing button:visible").count()
            assert name != "wall" or report.page.locator(".source-video:visible").count() == 20
            assert report.page.pdf(format="A4").startswith(b"%PDF")
            report.page.emulate_media(media="screen")


def check_toml(page):
    """Keys are names, those of inline tables too; what is in a string or a comment is not."""
    text = ('[run]  # "a"\nname = "a = 1 # 2"\n  { use = "x", steps = 3 },  # b = 2\n'
            'many = [\n  "k = 4",\n]\n[[job]]\n')
    source = (FOLDER / "toml.js").read_text().replace("export ", "")
    source = re.sub(r"^import .*$", "const make = (tag, properties, text) => `<${properties.class ?? tag}>${text}`;",
                    source, flags=re.M)
    out = page.evaluate("async ([source, text]) => (await import('data:text/javascript;charset=utf-8,' + "
                        "encodeURIComponent(source + '\\nexport { coloured };'))).coloured(text)", [source, text])
    assert [piece for piece in out if piece.startswith("<")] == [
        '<b>[run]  # "a"\n', "<name>name", "<name>use", "<name>steps", "<muted># b = 2", "<name>many",
        "<b>[[job]]\n"], out
    assert re.sub("<(b|name|muted)>", "", "".join(out)) == text


def check_broken(chromium):
    for i in range(16):
        with Report(chromium, f"broken-{i}") as report:
            report.says("Time per job", "Run file and versions")
            assert not re.search("undefined|NaN|null|object Object",
                                 report.page.locator(
                                     "main section:not(#settings)").all_inner_texts().__str__()), report.name


def check_many(chromium):
    """10,000 videos, and 10,000 shots and clips of one of them: the page shows the first, says how many more there are,
    and opens soon."""
    start = time.monotonic()
    with Report(chromium, "many") as report:
        seconds = time.monotonic() - start
        report.says("9,975\u00a0more failed inputs", "9,904\u00a0more shots", "9,800\u00a0more inputs",
                    "9,799\u00a0more failures", "✓ Adds up, and items.jsonl has a line for each of the 10,000.")
        assert report.page.locator(".source-video").count() == 1 and report.page.locator(".shots li").count() == 96
    assert seconds < 60, f"it took {seconds:.1f} s to open"


def check_without_scripts(chromium):
    with Report(chromium, "plain", java_script_enabled=False) as report:
        report.says("2\u00a0source videos (1\u00a0failed)", "allow them, or read summary.json")


def call(page, expression, *arguments):
    """The value of an expression over the functions of words.js and axis.js."""
    source = "\n".join((FOLDER / name).read_text() for name in ("words.js", "axis.js"))
    source = re.sub(r"^import .*$", "", source, flags=re.M) + f"\nexport const call = (arguments_) => {expression};"
    return page.evaluate(
        "async ([source, given]) => (await import('data:text/javascript;charset=utf-8,' + "
        "encodeURIComponent(source))).call(given)", [source, list(arguments)])


def check_numbers(page):
    each = lambda name, *values: call(page, f"arguments_.map((values) => {name}(...values))",
                                      *[v if isinstance(v, tuple) else (v,) for v in values])
    assert each("number", 0.01234, 1234.6, -3e-7, 0, 61.75, 2.5e17,
                (12.5, 15)) == ["0.0123", "1,235", "-3×10⁻⁷", "0", "61.8", "2.5×10¹⁷", "12.5"]
    assert each("count", 1234567, -12) == ["1,234,567", "-12"]
    assert each("counted", (1, "clip"), (2, "clip")) == ["1\u00a0clip", "2\u00a0clips"]
    assert each("duration", 0.0812, 4, 59.97, 200.4, 3841,
                -1) == ["0.081\u00a0s", "4.0\u00a0s", "1\u00a0min\u00a000\u00a0s", "3\u00a0min\u00a020\u00a0s",
                        "1\u00a0h\u00a004\u00a0min", "unknown"]
    assert each("duration", 1.25, 2.75, 1.45, 0.96) == ["1.3\u00a0s", "2.8\u00a0s", "1.5\u00a0s", "1.0\u00a0s"], \
        "as plugins/jobs/data/words.hpp, whose test has these too"
    at_least = [["at least", 2]]
    assert each("scoreText", ("clip.too-short", 0.458, at_least), ("clip.too-short", 1.79, at_least),
                ("clip.too-short", 1.97, at_least), ("clip.too-short", 1.958, at_least),
                ("clip.too-short", 1.9996, at_least),
                ("filter.black", 1.79, at_least)) == ["0.46\u00a0s", "1.8\u00a0s", "1.97\u00a0s",
                                                             "1.96\u00a0s", "1.9996\u00a0s", "1.79"]
    assert each("ruleBound", ("clip.too-short", at_least[0]),
                ("filter.black", at_least[0])) == ["at least 2.0\u00a0s", "at least 2"]
    assert each("withUnit", (2, "s"), (2, "dB"), (2, ""), (-2, "s")) == ["2.0\u00a0s", "2\u00a0dB", "2", "-2\u00a0s"]
    assert each("timecode", 3.46, 59.96, 3723.5) == ["0:03.5", "1:00.0", "1:02:03.5"]
    assert each("byteSize", 12, 4096, 1.5 * 2**20) == ["12\u00a0bytes", "4\u00a0KiB", "1.5\u00a0MiB"]


def check_axis(page):
    axes = functools.partial(call, page,
                             "arguments_.map((values) => { const axis = makeAxis(...values); return { ticks: "
                             "axis.ticks, low: axis.at(values[0]), high: axis.at(values[1]) }; })")
    named = axes((1, 1000, "linear", 6, False), (0.3, 0.41, "linear", 5, True), (1e-5, 3e-4, "from zero", 3, True),
                 (0.03, 0.9, "logarithmic", 5, True), (1e-7, 50, "logarithmic", 5, True), (5, 5, "linear", 2, True),
                 (1, 800, "linear", 3, False))
    assert [[tick["label"] for tick in axis["ticks"]]
            for axis in named] == [["200", "400", "600", "800", "1,000"], ["0.3", "0.35", "0.4", "0.45"],
                                   ["0", "0.0001", "0.0002", "0.0003"],
                                                                            ["0.05", "0.1", "0.2", "0.5", "1"],
                                   ["10⁻⁶", "10⁻⁴", "10⁻²", "1", "10²"], ["0", "5", "10"],
                                   ["200", "400", "600", "800"]]
    # Over random ranges of any size: two ticks or more but not too many, in order, all different, and every value is on
    # the axis.
    draw, cases = random.Random(3), []
    while len(cases) < 2000:
        a = 10 ** draw.uniform(-30, 30) * draw.choice((1, -1))
        low, high = sorted((a, a * (1 + draw.random()) if draw.random() < 0.67 else 10 ** draw.uniform(-30, 30)))
        scale = draw.choice(("linear", "from zero", "logarithmic" if low > 0 and high >= 10 * low else "automatic"))
        cases.append((low, high, scale, draw.choice((3, 5)), draw.random() < 0.5))
    for case, axis in zip(cases, axes(*cases)):
        at, labels = [tick["at"] for tick in axis["ticks"]], [tick["label"] for tick in axis["ticks"]]
        assert 2 <= len(at) <= 13 and len(set(labels)) == len(labels), (case, labels)
        assert all(a < b for a, b in zip(at, at[1:])) and not any(map(math.isnan, at)), (case, at)
        assert axis["low"] <= axis["high"], (case, axis)


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    subprocess.run([PAGES, str(SCRATCH)], check=True)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium-headless-shell")
                                              or shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        for check in (check_words, check_player, check_shots, check_hostile, check_curves, check_scores, check_drift,
                      check_funnel, check_left_out, check_tiles, check_wall, check_paper, check_broken, check_many,
                      check_without_scripts, check_looks):
            check(chromium)
        page = chromium.new_page()
        check_numbers(page)
        check_axis(page)
        check_toml(page)
        chromium.close()
    print("report: all checks passed; screenshots are in", SCRATCH)


main()
