#!/usr/bin/env python3
"""What a person sees of a run: the live view on terminals of two widths, Ctrl-C, plain lines elsewhere, the last line,
and the studio beside a run. usage: terminal.py KINORA ROOT SCRATCH"""
import http.client, json, os, pathlib, re, shutil, signal, subprocess, sys, time

KINORA, ROOT, SCRATCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
sys.path.append(str(ROOT / "tests/support"))
from screen import Screen, Terminal

VIDEOS = 8
INPUTS = VIDEOS + 1  # and an empty file, which fails before any stage
RUN = """[run]
[[job]]
name = "clips"
kind = "curate"
input = "{videos}"
duplicates = "keep"
threads = 1
stages = ["video.probe",
  {{ use = "video.clips", min_length = 0.5, min_frames = 1, preset = "veryfast", sample_fps = 4.0, \
    sample_height = 64 }},
  "filter.black", {{ use = "filter.blur", mode = "score" }}, "embed.classic"]
"""


def run_file():
    videos = SCRATCH / "videos"
    videos.mkdir()
    for i in range(VIDEOS):
        shutil.copy(ROOT / "tests/data/bbb_A.mp4", videos / f"bunny-{i}.mp4")
    (videos / "a-empty.mp4").write_bytes(b"")
    file = SCRATCH / "run.toml"
    file.write_text(RUN.format(videos=videos))
    return file


def command(file, out, *more):
    return [KINORA, "run", file, "--out", SCRATCH / out, *more]


def is_at_work(lines):
    return any(line.startswith("  at work: bunny-") for line in lines)


def check_screen():
    """The emulator itself."""
    screen = Screen(10)
    for piece in ("bar 1\r\n  row\x1b[", "1A\rlog\x1b[J\r\n", "\r\x1b[Jbar 2", "\r\n  row 2\x1b[1A\r"):
        screen.feed(piece)
    assert screen.lines() == ["log", "bar 2", "  row 2"], screen.lines()


def shows_all(columns):
    """For a screen: whether it has shown every part of the live view, each on a row of its own."""
    seen = {}

    def note(lines):
        assert max(map(len, lines), default=0) <= columns, lines
        for name, what in {"bar": r"^clips +\[[#.]+\] \d/9 inputs, [\d:]+ (s|min) left, [\d.]+x real time$",
                           "outcomes": r"^  \d clips? kept; of the inputs: 1 failed$",
                           "work": r"^  at work: bunny-\d.*", "slowest": r"^> \S+ +busy +\d+% of the time .* slowest$",
                           "idle": "^  idle: .*filter.black"}.items():
            seen.update({name: line for line in lines if re.search(what, line)})
        return len(seen) == 5
    return note


def flat(lines):
    """Their text without spaces, some of which are lost where a long line goes on in the next row."""
    return "".join("".join(lines).split())


def is_gone(lines):
    """Nothing of the live view is left but its last bar."""
    return not [line for line in lines if line.startswith(("> ", "  "))]


def check_live(file):
    """Bar, outcomes, the video at work, the slowest stage in colour, idle ones in one row; then the next command."""
    terminal = Terminal(command(file, "live"), 80)
    terminal.wait_for(shows_all(80))
    assert terminal.end() == 0, "\n".join(terminal.screen.lines())
    assert b"\x1b[33m> " in terminal.bytes and b"\x1b[32m#" in terminal.bytes, "colours"
    assert b"kept; of the inputs: \x1b[31m1 failed\x1b[0m" in terminal.bytes, "only what failed is red"
    shown = terminal.screen.lines()
    assert is_gone(shown), shown
    whole = flat(shown)
    assert whole.endswith(f"lookattheclips:kinorastudio{SCRATCH}/live"), shown
    assert f"{INPUTS}/{INPUTS}inputs" in whole and f"{VIDEOS}clipskept" in whole, shown


def check_interrupt(file):
    """Ctrl-C leaves whole lines. NO_COLOR has no colours. The next run counts what was done before, and TERM=dumb gets
    lines without control."""
    terminal = Terminal(command(file, "stopped"), 120, NO_COLOR="1")
    terminal.wait_for(shows_all(120))
    os.write(terminal.file, b"\x03")
    assert terminal.end() == 130, terminal.screen.lines()
    shown = terminal.screen.lines()
    assert not re.search(rb"\x1b\[[\d;]*m", terminal.bytes), "colours"
    assert shown.count("stopping; press Ctrl-C again to end at once") == 1, shown
    assert b"^C" in terminal.bytes and not [line for line in shown if "^C" in line], shown
    assert is_gone(shown), shown
    assert shown[-1] == "kinora: interrupted; run the same command again to continue", shown
    before = len(list((SCRATCH / "stopped/clips/data").glob("*.json")))
    again = Terminal(command(file, "stopped"), 120, TERM="dumb")
    assert again.end() == 0 and before > 0, again.screen.lines()
    assert b"\x1b" not in again.bytes and not re.search(rb"\r(?!\r|\n)", again.bytes), again.bytes
    said = flat(again.screen.lines())
    assert re.search(r"resuming:\dof9inputs?ha\w+ended,and\dclip", said) and f"{VIDEOS}clipskept" in said, said


class Beside:
    """The studio of a run with --studio."""

    def __init__(self, file, out):
        self.process = subprocess.Popen(command(file, out, "--studio"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        address = self.process.stdout.readline().strip()
        self.host, token = re.fullmatch(r"http://([\d.:]+)/\?t=(\w+)", address).groups()
        answer = self.answer(f"/?t={token}", {})  # waits until the first job has begun
        assert answer.status < 400, answer.status
        self.cookie = answer.getheader("Set-Cookie").split(";")[0]

    def answer(self, path, headers):
        connection = http.client.HTTPConnection(self.host, timeout=300)
        connection.request("GET", path, headers=headers)
        return connection.getresponse()

    def state(self):
        return json.loads(self.answer("/api/state", {"Cookie": self.cookie}).read())

    def kept(self):
        return self.state()["counts"]["ends"].get("kept", 0)

    def wait_for(self, holds):
        end = time.monotonic() + 300
        while not holds():
            assert time.monotonic() < end, self.state()
            time.sleep(0.1)


def check_studio(file):
    """The address comes first; the studio shows clips while the run makes them, and stays until Ctrl-C."""
    beside = Beside(file, "beside")
    assert beside.state()["jobs"], "those of the run"
    assert not (SCRATCH / "beside/clips/summary.json").exists(), "the studio answers while the job runs"
    beside.wait_for(lambda: beside.kept() > 0)
    line = beside.process.stdout.readline()
    while line and not line.startswith("the studio stays at http://"):
        line = beside.process.stdout.readline()
    assert line, beside.process.communicate()
    beside.wait_for(lambda: beside.kept() >= VIDEOS)
    beside.process.send_signal(signal.SIGINT)
    _, said = beside.process.communicate(timeout=60)
    assert beside.process.returncode == 0 and "\x1b" not in said, said  # the run's code; lines without control
    early = Beside(file, "early")
    early.process.send_signal(signal.SIGINT)
    _, said = early.process.communicate(timeout=60)
    assert early.process.returncode == 130 and "interrupted; run the same command again" in said, said


def check_refusals(file):
    for more, why in ((["--dry-run"], "--studio is not for --dry-run"),
                      (["--set", "clips.threads=x"], "clips.threads=x")):
        done = subprocess.run(command(file, "none", "--studio", *more), capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and why in done.stderr and "http://" not in done.stdout, done
    page = SCRATCH / "page.toml"
    page.write_text('[run]\n[[job]]\nname = "page"\nkind = "report"\n')
    done = subprocess.run(command(page, "none", "--studio"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "has no curate job" in done.stderr, done


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    file = run_file()
    check_screen()
    for check in (check_live, check_interrupt, check_studio, check_refusals):
        check(file)
        print("ok   ", check.__name__, flush=True)


main()
