"""No finding and no result depends on the words of a help. Part of check.py."""
import itertools, os, pathlib, re, shutil, subprocess

from check_cases import CASES
from checking import CHECKED, KINORA, ROOT, SCRATCH, answers, is_of_a_busy_machine


def program_with_other_helps():
    """A copy of the program whose manifests have an x for each byte of each help."""
    program, copy = pathlib.Path(KINORA).resolve(), SCRATCH / "other-helps"
    shutil.copytree(program.parent.parent / "lib", copy / "lib", copy_function=os.link, symlinks=True)
    (copy / "bin").mkdir()
    os.link(program, copy / "bin/kinora")
    manifests = list(copy.glob("lib/kinora/plugins/*/plugin.toml"))
    assert len(manifests) > 20, manifests
    for manifest in manifests:
        before = manifest.read_bytes()  # the library holds the same text; as long as it was, it fits into its place
        after, count = re.subn(rb'help = "((?:[^"\\]|\\.)*)"', lambda match: b'help = "' + b"x" * len(match[1]) + b'"',
                               before)
        library = manifest.parent / f"lib{manifest.parent.name}.so"
        binary = library.read_bytes()
        assert count and binary.count(before) == 1, manifest
        for file, bytes in ((manifest, after), (library, binary.replace(before, after))):
            file.unlink()  # it was a link
            file.write_bytes(bytes)
    return copy / "bin/kinora"


def differing_lines(own, others):
    """Lines that differ otherwise than by times and helps; a run of x stands for any help."""
    own, others = ([re.sub(r"^\d\d:\d\d:\d\d |\d[\d.,]* (s|ms|[KMG]i?B)\b", "", line)
                    for line in text.splitlines() if not is_of_a_busy_machine(line)] for text in (own, others))
    return [(one, other) for one, other in itertools.zip_longest(own, others, fillvalue="")
            if not re.fullmatch(".*".join(map(re.escape, re.split("x{3,}", other))), one)]


TINY = """stages = ["video.probe",
  { use = "video.clips", min_length = 0.5, min_frames = 1, edge_crop = 0.0, preset = "ultrafast", max_height = 64, \
    sample_fps = 4.0, sample_height = 64 },
  "filter.black", { use = "filter.blur", at_least = 0.0 }, { use = "filter.facts", fact = "fps", at_most = 60.0 },
  "embed.classic", "caption.describe"]
[[job]]
name = "copies"
kind = "dedup"
input = "clips"
[[job]]
name = "shards"
kind = "shard"
input = "copies"
"""


def tiny_run(program):
    """What the run of TINY says, and every file that it makes, without those that hold times."""
    out, file = SCRATCH / "tiny", SCRATCH / "tiny.toml"
    file.write_text(
        f'[run]\nout = "{out}"\n[[job]]\nname = "clips"\nkind = "curate"\n'
        f'input = "{ROOT}/tests/data/bbb_A.mp4"\n{TINY}')
    done = subprocess.run([program, "run", str(file)], capture_output=True, text=True, timeout=300)
    files = {str(f.relative_to(out)): f.read_bytes() for job in ("clips", "copies", "shards")
             for f in (out / job).rglob("*")
             if f.is_file() and f.name not in {"summary.json", "metrics.jsonl", "live.json", "metrics.prom",
                                               "record.db", ".lock"}}
    shutil.rmtree(out)
    assert done.returncode == 0 and "clips/items.jsonl" in files and len(files) > 5, done
    return done.stderr, files


def check_other_helps():
    """No finding and no result depends on the words of a help: a program whose manifests all have other helps says and
    makes the same of the recipes, of every wrong case, of every file that the other properties check, of a tiny run and
    of a plan."""
    other = program_with_other_helps()
    assert len(CHECKED) > len(CASES) + 50, len(CHECKED)
    assert "xxxxx" in subprocess.run([other, "plugins", "inspect", "stage/filter.blur"], capture_output=True,
                                     text=True).stdout
    for (file, (text, *own)), others in zip(CHECKED.items(), answers(CHECKED, program=other)):
        assert file.read_text() == text, f"{file} is another file now"
        assert own[0] == others[0] and not (
            wrong := differing_lines(*("\n".join(lines) for _, lines in (own, others)))), (file, own, others)
    own, others = (subprocess.run([program, "plan", ROOT / "configs/many-ranks.toml", "--cluster", "1x8xH100",
                                   "--json"], capture_output=True, text=True, timeout=300)
                   for program in (KINORA, other))
    assert (own.returncode, own.stdout) == (others.returncode, others.stdout), (own.stdout, others.stdout)
    assert not (wrong := differing_lines(own.stderr, others.stderr)), wrong
    (own, made), (others, made_by_other) = tiny_run(KINORA), tiny_run(other)
    assert not (wrong := differing_lines(own, others)), wrong
    assert made == made_by_other, [name for name in made.keys() | made_by_other.keys()
                                   if made.get(name) != made_by_other.get(name)]
