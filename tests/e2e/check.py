#!/usr/bin/env python3
"""kinora check: a recipe with one change, and the line that reports it. Nothing is run, nothing is written.
usage: check.py KINORA ROOT SCRATCH"""
import shutil, subprocess, sys

from check_cases import CASES, check_cases
from check_helps import check_other_helps
from check_ranks import (check_any_ranks, check_launch, check_layout_of_a_large_model, check_layouts,
                         check_precision_in_ranks, check_precision_without_effect, check_ranks)
from check_stages import (check_beside_another_error, check_copies, check_flows, check_former_names, check_inputs,
                          check_isolate, check_jobs_are_no_stages, check_leases, check_order, check_words_left_out)
from checking import CHECKED, KINORA, OUT, Q, ROOT, SCRATCH, WEIGHTS, after, changed, check, checked, written


def check_recipes():
    recipes = sorted((ROOT / "configs").glob("*.toml"))
    done = check(*recipes)
    assert done.returncode == 0 and not done.stderr, done
    assert [line.split(":")[0]
            for line in done.stdout.splitlines() if "no errors" in line] == list(map(str, recipes)), done.stdout
    CHECKED.update({file: (file.read_text(), 0, []) for file in recipes})
    probe = (
        f'[run]\nout = "{OUT}"\n[[job]]\nkind = "curate"\ninput = "{ROOT}/tests/data/bbb_A.mp4"\nstages = '
        f'["video.probe"]\n')
    alone, other = SCRATCH / "storage.toml", SCRATCH / "probe.toml"
    alone.write_text(probe + '[storage.s3]\nregion = "x"\n')
    other.write_text(probe)
    together = check(alone, other)
    refused = "configures storages, which would also apply to the other files; check this file alone"
    assert together.returncode == 2 and refused in together.stderr, together
    assert together.stdout == f"{other}: 1 job, no errors\n" and check(alone).returncode == 0, together
    assert not OUT.exists(), "a check must not create a folder"


def check_all_at_once():
    """Reads and checks in one pass, for several jobs; a job that reads a broken one is not checked."""
    file = written("several", Q, after("dit", 'device = "gpu"', 'lora = "rank=0"', WEIGHTS)[0],
                   changed("tokenizer", "height", "50")[0],
                   changed("tokenizer", "frames", "10")[0], after("report", "titel = 3")[0])
    [(_, said)] = checked([file])
    for words in ("device 'gpu'", "rank=0", "height = 50", "frames = 10", "did you mean 'title'?", "5 errors"):
        assert sum(words in line for line in said) == 1, (words, said)


def check_run():
    """run reports the same before it begins, and does not check finished jobs."""
    file = written("run", Q, after("film", 'format = ["gif"]')[0])
    done = subprocess.run([KINORA, "run", str(file)], capture_output=True, text=True)
    assert done.returncode == 2 and "job 'film': format 'gif'" in done.stderr and "run.toml:" in done.stderr, done
    assert not (OUT / "clips").exists(), "a job was started"
    done = subprocess.run([KINORA, "run", str(file), "--only", "clips", "--dry-run"], capture_output=True, text=True)
    assert done.returncode == 0, done
    shutil.rmtree(OUT)
    file = written("run", Q, changed("dit", "model", '"diet"')[0])  # video needs dit, clips does not
    for only, words in (("clips", None), ("film", "'diet'")):
        done = subprocess.run([KINORA, "run", str(file), "--only", only, "--dry-run"], capture_output=True, text=True)
        assert done.returncode == (2 if words else 0) and (words or "") in done.stderr, (only, done)
    shutil.rmtree(OUT, ignore_errors=True)


def check_kinds_of_jobs_are_no_commands():
    for kind in ("select", "dedup", "shard"):
        done = subprocess.run([KINORA, kind], capture_output=True, text=True)
        assert (done.returncode == 2 and f"'{kind}' is not a command but a kind of job" in done.stderr
                and f"kinora plugins inspect job/{kind}" in done.stderr), done
        assert subprocess.run([KINORA, "plugins", "inspect", f"job/{kind}"], capture_output=True).returncode == 0


def check_set():
    """--set with an unknown name lists the known ones."""
    generate = '\n[[job]]\nname = "{}"\nkind = "generate"\ninput = "dit"\nprompts = ["a boat"]\n'
    file = written("set", Q, lambda text: text + generate.format("second") + generate.format("third"))
    cases = (("flim.sampler.use=euler", "did you mean 'film'?"),
             ("zzz.use=euler",
              "there are: clips, shards, tokenizer, latents, dit, film, report, second, third; run.KEY sets"),
             ("film.smapler.use=euler", "did you mean 'sampler'?"),
             ("film.zzz.use=euler", "components are named by: sampler, model, loss"),
             ('film.sampler={use="zzz"}', '--set film.sampler={use="zzz"}: unknown sampler'),
             ("second.sampler.use=zzz", "there are: dpmpp-2m"), ("third.sampler.use=eulr", "did you mean 'euler'?"))
    done = check(file, *(word for given, _ in cases for word in ("--set", given)))
    said = done.stderr.splitlines()
    assert done.returncode == 2 and len(said) == len(cases) + 1, done
    for given, words in cases:
        [line] = [line for line in said if line.startswith(f"--set {given.split('=')[0]}")]
        assert words in line and line.count("--set") == 1, (given, line)
    file = SCRATCH / "list.toml"
    file.write_text(
        f'[run]\nout = "{OUT}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = '
        f'"{ROOT}/tests/data/bbb_A.mp4"\nstages = ["video.probe", {{ use = "filter.facts", fact = "fps", at_most = '
        f'60.0 }}]\n')
    said = lambda given: subprocess.run([KINORA, "check", str(file), "--set", given], capture_output=True, text=True)
    refused = said("clips.stages.1.mode=score")
    form = refused.stderr.splitlines()[0].split("is a list, which is set as a whole: --set ")[1].strip("'")
    assert refused.returncode == 2 and form.startswith(
        'clips.stages=["video.probe", {') and 'use = "filter.facts"' in form, refused
    assert said(form).returncode == 0, "the printed names must work"
    assert 'write for example "2 GiB"' in said("clips.memory=10 apples").stderr


def check_generate_by_hand():
    """The comment in a stranger's video and the name of a result are checked before anything is written."""
    generate = lambda *more: subprocess.run([KINORA, "generate", str(ROOT / "configs/quickstart.toml"), "--out",
                                             str(OUT), *more], capture_output=True, text=True, timeout=60)
    named = generate("--prompt", "a boat", "--name", "../x")
    assert (named.returncode == 2
            and "--name: a job's name is also its folder's name: only letters, digits" in named.stderr), named
    video = SCRATCH / "stranger.mp4"
    for comment, words in (('{"job":"film","options":{},"sampler":"engine/local","sampler_options":{}}',
                            "'engine/local' is of kind engine; kind sampler is required here"),
                           ('{"job":"film","options":{},"sampler":"tokenizer/cosmos","sampler_options":{}}',
                            "kind sampler is required here"),
                           ('{"job":"film","options":{},"sampler":"sampler/euler"}', "belong together"),
                           ('{"job":3,"options":{}}', '"job" must be a short text'),
                           ('{"job":"film","options":{"prompts_file":"/etc/passwd"}}',
                            'made with prompts_file "/etc/passwd"')):
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=5:duration=1",
                        "-metadata", f"comment={comment}", str(video)], check=True)
        done = generate("--from", str(video), "--name", "x")
        assert done.returncode == 1 and words in done.stderr and "json.exception" not in done.stderr, (comment, done)
    assert not OUT.exists()


shutil.rmtree(SCRATCH, ignore_errors=True)
(SCRATCH / "empty").mkdir(parents=True)
failures = check_cases()
for property in (check_recipes, check_all_at_once, check_ranks, check_any_ranks, check_launch, check_layouts,
                 check_precision_in_ranks, check_precision_without_effect, check_layout_of_a_large_model, check_run,
                 check_set, check_flows, check_copies, check_inputs, check_leases, check_order, check_former_names,
                 check_kinds_of_jobs_are_no_commands, check_jobs_are_no_stages, check_isolate,
                 check_beside_another_error, check_words_left_out, check_other_helps, check_generate_by_hand):
    try:
        property()
        print("ok   ", property.__name__, flush=True)
    except AssertionError as wrong:
        failures += 1
        print(f"WRONG {property.__name__}: {wrong}", flush=True)
print(f"{len(CASES)} cases, {failures} failed")
sys.exit(bool(failures))
