"""Videos whose shots are known because they were assembled from pieces, in every form that counts frames or time in its
own way: variable rate, edit lists, rotation, interlaced fields, odd sizes, B-frames, missing timestamps, fades.

ffmpeg makes them. A piece is a moving bar over a colour and grain of its own, so that a cut is far above the content
detector's threshold and changes inside a piece are far below it. The grain is for the hash: for a flat picture,
rounding decides whether a frequency is above the median.
"""

import dataclasses
import fractions
import pathlib
import subprocess

RATE = 24
PIECES = [("red", 40), ("blue", 33), ("green", 51), ("white", 30), ("purple", 44)]


@dataclasses.dataclass
class Video:
    path: pathlib.Path
    frames: int
    cuts: list | None  # None: only PySceneDetect gives the cuts
    cut_times_us: list
    peer: pathlib.Path | None  # the file that PySceneDetect reads for the same frames; None: it cannot


def ffmpeg(*arguments):
    command = ["ffmpeg", "-v", "error", "-y", *map(str, arguments)]
    subprocess.run(command, check=True)


def pieces(width, height, pieces=PIECES, rate=RATE):
    """The source filter: coloured pieces with a moving bar, one after another."""
    parts = [
        f"color={colour}:size={width}x{height}:rate={rate}:duration={float((frames + 1) / rate):.6f},"
        f"trim=end_frame={frames},drawbox=x={width // 4}:w={width // 16}:color=gray:t=fill,scroll=horizontal=0.01,"
        f"format=yuv420p,noise=c0s=24:c0_seed={i + 1},setpts=PTS-STARTPTS[p{i}]"
        for i, (colour, frames) in enumerate(pieces)
    ]
    joined = "".join(f"[p{i}]" for i in range(len(pieces)))
    return ";".join(parts) + f";{joined}concat=n={len(pieces)}[v]"


def cuts_of(pieces):
    out, at = [], 0
    for _, frames in pieces[:-1]:
        at += frames
        out.append(at)
    return out


def microseconds(seconds):
    return [round(s * 1e6) for s in seconds]


def encoded(path, source, *options, codec=("-c:v", "libx264", "-preset", "veryfast", "-crf", "18")):
    ffmpeg("-filter_complex", source, "-map", "[v]", "-pix_fmt", "yuv420p", *codec, *options, path)
    return path


def plain(folder, name, width, height, *options, rate=RATE, tick=0, **more):
    """tick: seconds of the container's time unit, if it rounds."""
    path = encoded(folder / name, pieces(width, height, rate=rate), *options, **more)
    frames = sum(n for _, n in PIECES)
    cuts = cuts_of(PIECES)
    times = [c / fractions.Fraction(rate) for c in cuts]
    if tick:
        times = [round(time / tick) * tick for time in times]
    return Video(path, frames, cuts, microseconds(times), path)


def variable_rate(folder):
    """Ten frames at 24 per second, ten at 12, and so on."""
    source = pieces(320, 180).replace("[v]", "[c]")
    source += ";[c]settb=1/12288,setpts='if(eq(N,0),0,PREV_OUTPTS+512*if(mod(floor(N/10),2),2,1))'[v]"
    path = encoded(folder / "variable.mp4", source, "-fps_mode", "passthrough", "-enc_time_base", "1/12288")
    cuts = cuts_of(PIECES)
    ticks, clock = [], 0
    for n in range(sum(frames for _, frames in PIECES)):
        ticks.append(clock)
        clock += 2 if (n + 1) // 10 % 2 else 1
    return Video(path, len(ticks), cuts, microseconds(ticks[c] / RATE for c in cuts), path)


def standing(folder):
    """A picture of the second piece stands for two minutes, so that the average rate is below two frames a second."""
    source = pieces(320, 180).replace("[v]", "[c]")
    source += ";[c]settb=1/12288,setpts='N*512+if(gt(N,50),120*12288,0)'[v]"
    path = encoded(folder / "standing.mp4", source, "-fps_mode", "passthrough", "-enc_time_base", "1/12288")
    cuts = cuts_of(PIECES)
    return Video(path, sum(n for _, n in PIECES), cuts, microseconds(c / RATE + (120 if c > 50 else 0) for c in cuts),
                path)


def edit_list(folder, whole):
    """A copy that begins inside a group of pictures: the earlier packets are present, an edit list hides their
    frames."""
    start = 20  # frames
    path = folder / "edited.mp4"
    ffmpeg("-ss", f"{(start + 0.5) / RATE:.6f}", "-i", whole.path, "-c", "copy", path)
    shown = probe_frames(path)
    hidden = whole.frames - shown
    cuts = [c - hidden for c in whole.cuts if c > hidden]
    return Video(path, shown, cuts, microseconds(c / RATE for c in cuts), None)


def probe_frames(path):
    """Frames as a player shows them: ffmpeg's own count after its edit list."""
    done = subprocess.run(
        ["ffmpeg", "-v", "error", "-i", path, "-map", "0:v:0", "-fps_mode", "passthrough", "-f", "framemd5", "-"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return sum(not line.startswith("#") for line in done.stdout.splitlines() if line)


def rotated(folder, whole, degrees):
    path = folder / f"rotated_{degrees}.mp4"
    ffmpeg("-i", whole.path, "-c", "copy", "-metadata:s:v:0", f"rotate={degrees}", path)
    return dataclasses.replace(whole, path=path, peer=path)


def interlaced(folder):
    made = plain(folder, "interlaced.mp4", 320, 192, "-flags", "+ilme+ildct", "-x264-params", "tff=1:fake-interlaced=0")
    copy = folder / "interlaced_copy.mp4"
    ffmpeg("-i", made.path, "-vf", "setfield=prog", "-c:v", "libx264", "-preset", "veryfast", "-qp", "0", copy)
    return dataclasses.replace(made, peer=copy)


def untimed(folder):
    """Raw H.264: packets have no timestamps, the reader counts them."""
    made = plain(folder, "untimed.h264", 320, 180, "-bf", "0", "-f", "h264")
    return dataclasses.replace(made, peer=None)


def faded(folder):
    """Two pieces that fade to black and back, for the threshold detector."""
    made = [("white", 60), ("white", 70), ("white", 50)]
    source = pieces(320, 180, made).replace("[v]", "[c]")
    fades = "".join(
        f",fade=out:start_frame={cut - 12}:nb_frames=12:enable='lt(n,{cut})'"
        f",fade=in:start_frame={cut}:nb_frames=12:enable='gte(n,{cut})'"
        for cut in cuts_of(made)
    )
    path = encoded(folder / "faded.mp4", source + f";[c]null{fades}[v]")
    return Video(path, 180, None, None, path)


def make_all(folder, quick):
    whole = plain(folder, "b_frames.mp4", 320, 180, "-bf", "3", "-g", "60")
    yield whole
    yield variable_rate(folder)
    yield standing(folder)
    yield edit_list(folder, whole)
    yield interlaced(folder)
    yield untimed(folder)
    yield rotated(folder, whole, 90)
    if quick:
        return
    yield rotated(folder, whole, 180)
    yield rotated(folder, whole, 270)
    yield plain(folder, "odd.mp4", 321, 181, codec=("-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv444p"))
    yield plain(folder, "small.mkv", 98, 54, tick=fractions.Fraction(1, 1000))
    ntsc = fractions.Fraction(24000, 1001)
    yield plain(folder, "milliseconds.mkv", 640, 360, rate=ntsc, tick=fractions.Fraction(1, 1000))
    yield plain(folder, "ntsc.mp4", 640, 360, rate=ntsc)
    yield plain(folder, "wide.avi", 512, 128, codec=("-c:v", "mpeg4", "-q:v", "3", "-bf", "2"))
    yield faded(folder)
