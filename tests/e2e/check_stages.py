"""What `kinora check` says of the stages and inputs of a curate job. Part of check.py."""
import os, shutil, subprocess

from checking import KINORA, OUT, ROOT, SCRATCH, curations

CUT, SAMPLED = '"clip.transcode"', '{ use = "clip.transcode", sample_fps = 2.0 }'
SHOTS, SAMPLING = '"shots.content"', '{ use = "shots.content", sample_every = 0.5 }'

# Stages of a curate job, and the expected line about them; empty: no error.
FLOWS = [
    (f'"video.probe", {CUT}, "filter.blur"',
     "filter.blur looks at frames of its samples, and no stage before it makes them; set sample_fps of clip.transcode, "
     "or put stage/video.read before it"),
    (f'"video.probe", {SAMPLED}, "filter.blur"', ""),
    (f'"video.probe", {CUT}, "video.read", "filter.blur", "embed.classic"', ""),
    (f'{SAMPLING}, {CUT}, "embed.classic"',
     "embed.classic looks at frames of its samples, and no stage before it makes them; "
     "set sample_fps of clip.transcode"),
    (f'{SAMPLING}, "filter.letterbox", {CUT}', ""),
    (f'{SHOTS}, "filter.letterbox", {SAMPLED}', "set sample_every of shots.content, or put stage/video.read before it"),
    ('"video.read", "shots.content", "filter.black"', ""),
    (f'{SHOTS}, "shots.transnetv2", {CUT}',
     "shots.transnetv2 looks at thumbnails and times_us of its samples, and no stage before it makes them; set "
     "thumbnails of shots.content"),
    ('"video.clips", "filter.text"', "set sample_fps of video.clips"),
    ('"filter.blur", "video.clips"',
     "no stage before it makes them; put it after video.clips, and set sample_fps there, or put stage/video.read "
     "before it"),
    (f'"filter.blur", {SAMPLED}',
     "no stage before it makes them; put it after clip.transcode, or put stage/video.read before it"),
    ('{ use = "video.probe", name = "look" }, { name = "a", from = "look", use = "clip.transcode", sample_fps = 2.0 }, '
     '{ name = "b", from = "look", use = "clip.transcode" }, { use = "filter.blur", from = ["a", "b"] }',
     "no stage before it makes them; set sample_fps of b, or put"),
]


def check_flows():
    """A stage that needs pictures must get them from an earlier one."""
    video = ROOT / "tests/data/bbb_A.mp4"
    for (stages, words), (code, said) in zip(FLOWS, curations([f'input = "{video}"\nstages = [{stages}]'
                                                               for stages, _ in FLOWS])):
        assert (code, len(said)) == ((2, 2) if words else (0, 0)), (stages, said)
        assert not words or (said[0].startswith("7:") and "job 'clips': " in said[0]
                             and words in said[0]), (words, said)


def check_copies():
    """The curate job must provide the facts that a dedup job compares and decides by; options must be written in the
    right job."""
    base = (
        f'input = "{ROOT}/tests/data/bbb_A.mp4"\nstages = ["video.probe", {SAMPLED}, "filter.blur", "filter.flow", '
        f'"embed.classic"]\n[[job]]\nkind = "dedup"\ninput = "clips"\n')
    cases = (("", ""),
             ('dedup = { use = "dedup.semantic", embedding = "clasic" }',
              "no stage makes the embedding 'clasic', did you mean 'classic'? in job 'clips'"),
             ('dedup = { use = "dedup.semantic", keep = "best", score = "filter.blr" }',
              "no stage makes the score 'filter.blr', did you mean 'filter.blur'? in job 'clips'"),
             ('dedup = { use = "dedup.semantic", keep = "best", score = "aesthetics" }',
              "no stage makes the score 'aesthetics'; there are: filter.blur, filter.flow in job"),
             ('dedup = { use = "dedup.semantic", keep = "best", score = "filter.flow.p10" }', ""),
             ('dedup = { use = "dedup.semantic", score = "unused" }', ""),
             ('dedup = { use = "dedup.semantic", embedding = "clip", semantic = false }', ""),
             # the former name
             ('dedup = { use = "dedup.semantic", name = "clasic" }',
              "no stage makes the embedding 'clasic', did you mean 'classic'?"),
             ("eps = 0.1",
              'unknown option \'eps\' of job/dedup; it is an option of stage/dedup.semantic: write dedup = { use '
              '= "dedup.semantic", eps = ... }'))
    (code, said), *found = curations([base.replace(', "embed.classic"', ""), *(base + line for line, _ in cases)])
    assert (code == 2
            and "no stage makes the embedding 'classic'; there is none; put embed.classic, with sample_fps of "
                "video.clips or clip.transcode, into the stages in job 'clips'" in said[0]), said
    for (line, words), (code, said) in zip(cases, found):
        assert (code, len(said)) == ((2, 2) if words else (0, 0)), (line, said)
        assert not words or (said[0].startswith("11:") and words in said[0]), (words, said)


def check_jobs_are_no_stages():
    """A component that works on a whole data set is a job of its own. Used as a stage, it is reported as that kind of
    job."""
    video = ROOT / "tests/data/bbb_A.mp4"
    cases = (('"dedup.semantic"',
              "stage 'dedup.semantic' works on all results of a job; "
              'make it a job of its own: [[job]] kind = "dedup"'),
             ('{ use = "stage/dedup.semantic", embedding = "x" }',
              "stage 'dedup.semantic' works on all results of a job; "
              'make it a job of its own: [[job]] kind = "dedup"'),
             ('{ use = "shard.webdataset" }',
              "stage 'shard.webdataset' works on all results of a job; "
              'make it a job of its own: [[job]] kind = "shard"'),
             ('"dedup"', "'dedup' is not a stage; make it a job of its own: [[job]] kind = \"dedup\""),
             ('{ use = "shard" }', "'shard' is not a stage; make it a job of its own: [[job]] kind = \"shard\""))
    for (stage, words), (code, said) in zip(
        cases, curations([f'input = "{video}"\nstages = ["video.clips", {stage}]' for stage, _ in cases])):
        assert code == 2 and len(said) == 2 and said[0].startswith("7:") and words in said[
            0] and "did you mean" not in said[0], (stage, said)


def check_isolate():
    """Words that exclude others, together with others."""
    video = ROOT / "tests/data/bbb_A.mp4"
    cases = (('["none", "video.clips"]', "isolate has 'none' together with other names"),
             ('["all", "auto"]', "isolate has 'all' together with other names"),
             ('["auto", "video.clips"]', ""), ('["video.clips"]', ""), ('["none"]', ""))
    for (names, words), (code, said) in zip(
        cases, curations([f'input = "{video}"\nstages = ["video.clips"]\n'
                          f'engine = {{ use = "local", isolate = {names} }}'
                          for names, _ in cases])):
        assert (code, len(said)) == ((2, 2) if words else (0, 0)), (names, said)
        assert not words or (said[0].startswith("8:") and words in said[0]), (names, said)


def check_beside_another_error():
    """Errors from the stages themselves are reported even if another option of the job, or another job, has a typing
    error."""
    video = ROOT / "tests/data/bbb_A.mp4"
    [(code, said)] = curations([f"""input = "{video}"
recursiv = true
stages = [{{ use = "shots", detectors = ["content", "treshold"] }},
  {{ use = "shots.content", name = "b", threshhold = 3.0 }},
  {{ use = "clip.transcode", min_length = 9.0, max_length = 3.0 }}, {{ use = "filter.blur", from = ["b"] }}]
engine = {{ use = "local", isolate = ["b", "clip.transcod"] }}
[[job]]
kind = "dedup"
name = "twice"
input = "clip"
dedup = {{ use = "dedup.semantic", eps = 3.0 }}
[[job]]
kind = "dedp"
name = "copies"
input = "clips"
[[job]]
kind = "shard"
input = "copies"
shard = {{ use = "shard.webdataset", prefix = "a.b" }}"""])
    for words in ("did you mean 'recursive'?", "there is no 'treshold'", "did you mean 'threshold'?",
                  "min_length = 9 is above", "isolate names 'clip.transcod'",
                  "no earlier job is called 'clip', did you mean 'clips'?", "eps", "did you mean 'dedup'?",
                  "prefix = 'a.b'", "9 errors"):
        assert sum(words in line for line in said) == 1, (words, said)
    assert code == 2 and not any("called 'copies'" in line or "called 'b'" in line for line in said), said


def check_words_left_out():
    """A component that no line names and that lacks something: the message says where to write it."""
    [(code, said)] = curations(
        [f'input = "{ROOT / "tests/data/bbb_A.mp4"}"\nstages = ["video.clips"]\n[[job]]\nkind = "embed-text"\ninput = '
         f'"clips"'])
    assert code == 2 and len(said) == 2 and said[0].startswith("8:"), said
    assert (
        'job \'embed-text\' leaves words out: stage that turns text into tokens, such as words = { use = '
        '"text.wordpiece", vocab = "asset:minilm/vocab.txt" }' in said[0]), said


def check_inputs():
    """An input that does not exist: its position in the list, and what to do."""
    (SCRATCH / "texts").mkdir()
    (SCRATCH / "texts/a.txt").write_text("x")
    video = ROOT / "tests/data/bbb_A.mp4"
    cases = ((f'["{video}",\n"none/*.mp4"]', "7:1",
              f"input: no file matches 'none/*.mp4' in {os.getcwd()} or in {SCRATCH}; fix the pattern, or give a "
              f"folder, a list or an s3:// prefix"),
             ('"none/*.mp4"', "6:9", "input: no file matches"),
             ('"none.mp4"', "6:9", "no such file, folder or earlier job: 'none.mp4'"),
             (f'"{SCRATCH}/texts"', "6:9",
              "but 1 whose endings are not those of videos (all_files = true takes them); name videos or a folder that "
              "contains some"),
             ('""', "6:", "'input' is empty; it takes a path"), (f'["{video}",\n""]', "", "'input' is empty"),
             ('"s3://"', "6:", "it names no bucket; write s3://BUCKET/FOLDER/"),
             ('"s3:///films/"', "6:", "it names no bucket"),
             ('"s3://my films/"', "6:", "'my films' is not a bucket name (3 to 63 letters"),
             ('"s3://ab/films/"', "6:", "'ab' is not a bucket name"),
             ('"../nope/"', "6:",
              f"no such file, folder or earlier job: '../nope/' in {os.getcwd()} or in {SCRATCH}; fix the path"),
             ('"~nobody/films/"', "6:", "are not expanded; write the path in full"),
             ('"~/nope/"', "6:", f"in {os.environ.get('HOME', '')}"))
    *found, (all_files,
             _) = curations([*(f'input = {given}\nstages = ["video.probe"]' for given, *_ in cases),
                             f'input = "{SCRATCH}/texts"\nall_files = true\nstages = ["video.probe"]'])
    assert all_files == 0
    for (given, place, words), (code, said) in zip(cases, found):
        assert code == 2 and len(said) == 2 and said[0].startswith(place) and words in said[0], (given, said)
    home = {**os.environ, "HOME": str(SCRATCH / "home")}
    (SCRATCH / "home/films").mkdir(parents=True)
    shutil.copy(video, SCRATCH / "home/films/a.mp4")
    (SCRATCH / "home.toml").write_text(
        f'[run]\nout = "{OUT}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = "~/films/*.mp4"\nstages = '
        f'["video.probe"]\n')
    assert subprocess.run([KINORA, "check", str(SCRATCH / "home.toml")], capture_output=True, env=home).returncode == 0


def check_leases():
    """Leases are in a bucket, of one job of the file, and there are some."""
    job = f'input = "{ROOT / "tests/data/bbb_A.mp4"}"\nstages = ["video.probe"]\nlease = 60.0\nlease_at = '
    other = (f'[[job]]\nname = "others"\nkind = "curate"\ninput = "{ROOT / "tests/data/bbb_B.mp4"}"\n'
             f'stages = ["video.probe"]\nlease = 60.0')
    (good, _), (folder, of_folder), (unknown, of_unknown), (two, of_two), (none, of_none) = curations(
        [f'{job}"s3://bucket/shared"', f'{job}"/shared"', f'{job}"gopher://shared"',
         f'{job}"s3://bucket/shared"\n{other}', f'{job}"s3://bucket/shared"'.replace("lease = 60.0\n", "")])
    assert (good, folder, unknown, two, none) == (0, 2, 2, 2, 2), (folder, of_folder, unknown, of_unknown, two, of_two)
    assert "lease_at does nothing without a lease; set lease = 60, or leave lease_at out" in of_none[0], of_none
    assert "lease_at must be a URI such as s3://bucket/shared" in of_folder[0], of_folder
    assert "gopher" in of_unknown[0], of_unknown
    assert "another job of this file has a lease too" in of_two[0], of_two


def check_order():
    """Stages at useless positions: an error if that fails for every video, else a warning."""
    video = ROOT / "tests/data/bbb_A.mp4"
    merged = '"embed.classic", "shots.merge"'
    cases = (
            (f'{SHOTS}, "shots.merge", {CUT}', 2,
             "shots.merge compares the embeddings 'classic' of shots, and no stage before it makes them; put "
             "embed.classic before it"),
            (f'{SAMPLING}, "embed.classic", {{ use = "shots.merge", name = "looks" }}, {CUT}', 2,
             'put embed.classic before it, with name = "looks"'),
            (f'{SAMPLING}, {merged}, {CUT}', 0, ""),
            ('"video.clips", "video.clips"', 0,
             "video.clips cuts the clips of video.clips once more; leave one of them out"),
            (f'{SHOTS}, {CUT}, {{ use = "shots.hash", name = "late" }}', 0,
             "late finds shots in the clips that clip.transcode has cut; put it before clip.transcode"),
            ('"caption.describe", "video.clips"', 0,
             "caption.describe describes whole videos, which video.clips cuts afterwards; put it behind video.clips"),
            ('{ use = "filter.facts", fact = "fps" }, "video.clips"', 0,
             'filter.facts has no bound and drops nothing; set at_least or at_most, or mode = "score"'),
            ('{ use = "filter.facts", fact = "fps", at_most = 60.0 }, { use = "filter.facts", name = "b", fact = '
             '"fps", mode = "score" }, "video.clips", "caption.describe"', 0, ""),
            (f'{{ use = "shots.content", thumbnails = true }}, {{ use = "shots.transnetv2", weights = '
             f'"none.safetensors" }}, {CUT}', 2, f"no such file or folder: {SCRATCH}/none.safetensors; fix the path"))
    for (stages, code_wanted,
         words), (code, said) in zip(cases, curations([f'input = "{video}"\nstages = [{stages}]'
                                                       for stages, *_ in cases])):
        assert code == code_wanted and (len(said) == (2 if code else 1) and words in said[0]
                                        and "job 'clips': " in said[0] if words else not said), (stages, said)


def check_former_names():
    """The error for a former name says the new name."""
    video = ROOT / "tests/data/bbb_A.mp4"
    cases = (("film.clips", "unknown stage 'film.clips'; it is called 'video.clips' now"),
             ("stage/film.remux", "unknown stage 'stage/film.remux'; it is called 'stage/video.remux' now"))
    for (_, words), (code, said) in zip(cases, curations([f'input = "{video}"\nstages = ["{stage}"]'
                                                          for stage, _ in cases])):
        assert code == 2 and words in said[0], said
