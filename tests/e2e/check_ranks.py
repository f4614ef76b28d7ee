"""What `kinora check` says of ranks, layouts and precisions, and what `kinora launch` refuses. Part of check.py."""
import math, os, re, resource, shutil, subprocess

from checking import A, KINORA, OUT, Q, ROOT, SCRATCH, after, answers, changed, check, checked, written


def check_ranks():
    """Requirements of a launch with a given number of ranks."""
    file = written("ranks", Q, changed("dit", "parallel", '["ddp"]')[0], after("tokenizer", 'parallel = ["ddp"]')[0])
    (code, said), (of_ddp, _) = answers([ROOT / "configs/quickstart.toml", file], WORLD_SIZE="2")
    alone = "none of its strategies shares work among ranks, and this launch has 2; add one, such as ddp, or start 1"
    assert code == 2 and any(alone in line for line in said), said
    assert of_ddp == 0, of_ddp
    done = check(file, WORLD_SIZE="3")
    assert (done.returncode == 2
            and "batch = 4 must be a multiple of accumulate (1) times the ranks that hold different samples (3); 6 "
                "would do" in done.stderr), done.stderr


DDP = '["ddp"]'
FP8 = '\nprecision = { use = "fp8", attention = "fp8" }'
PP = '[{ use = "pp", schedule = "interleaved" }]'

# Recipe, job, ranks, refused and legal values of its parallel, expected message. Only the layout is wrong: batches
# divide, and ddp takes the remaining ranks.
LAYOUTS = [
    (Q, "dit", 3, '["tp"]', '["ddp"]',
     "tp: size = 3 must divide the heads (of keys too) and the MLP's channels; parameter"),
    (Q, "dit", 8, '["pp"]', '[{ use = "pp", size = 4 }, "ddp"]',
     "pp: the model has 6 blocks (embedding and head among them), which cannot be 8 stages"),
    (Q, "dit", 4, '[{ use = "cp-2d", ulysses = 3 }]', '[{ use = "cp-2d", ulysses = 2 }]',
     "ulysses = 3 does not divide the 4 ranks of a sequence; use ulysses = 2"),
    (Q, "dit", 2, PP, PP + "\naccumulate = 2",
     "pp: the interleaved schedule takes a multiple of its 2 ranks as microbatches (accumulate), not 1; 2 would do"),
    (Q, "dit", 2, '["recompute", "ddp", "recompute"]', '["recompute", "ddp"]',
     "parallel/recompute is listed twice; a strategy composes only with other strategies"),
    (Q, "tokenizer", 2, '["cp-ulysses"]', '["fsdp"]',
     "tokenizer/cosmos has no sequence that ranks along cp could share; use ddp or fsdp, which give them different "
     "videos"),
    (Q, "film", 3, '["tp"]', '["cp-ulysses"]', "tp: size = 3 must divide the heads"),
    (Q, "dit", 2, '["cp-ring"]' + FP8, '["cp-ulysses"]' + FP8,
     'attention = "fp8": cp-ring attends by itself and does not round; use cp-ulysses'),
    (A, "film", 2, '["cp-ring"]', '["ddp"]', "model/ar draws codes one after the other on one rank; give ddp"),
]


def spread(name, recipe, job, parallel):
    def change(text):
        for name in re.findall(r'(?m)^name = "(.*)"$', text)[1:]:
            head, rest = text.split(f'[[job]]\nname = "{name}"\n', 1)
            block, *others = rest.split("[[job]]", 1)
            kind = re.search(r'(?m)^kind = "(.*)"$', block).group(1)
            if kind in ("train", "train-tokenizer", "generate"):
                block = re.sub(rf"(?m)^(parallel|batch{'|precision' if name == job else ''}) = .*\n", "", block)
                block = f"parallel = {parallel if name == job else DDP}\n" + (
                    "" if kind == "generate" else "batch = 24\n") + block
            text = f'{head}[[job]]\nname = "{name}"\n' + "[[job]]".join([block, *others])
        return text
    return written(name, recipe, change)


def check_layouts():
    """What the strategies would refuse about the ranks, the step or the model when the job begins is reported at the
    job's parallel."""
    for ranks in sorted({ranks for _, _, ranks, *_ in LAYOUTS}):
        layouts = [layout for layout in LAYOUTS if layout[2] == ranks]
        files = [spread(f"layout{ranks}-{n}-{which}", recipe, job, parallel)
                 for n, (recipe, job, _, *both, _) in enumerate(layouts)
                 for which, parallel in zip(("refused", "legal"), both)]
        found = iter(zip(files, answers(files, WORLD_SIZE=str(ranks))))
        for (recipe, job, _, refused, legal, words), (file, (code, said)), (_, of_legal) in zip(layouts, found, found):
            text = file.read_text()
            line = text[:text.index(f"parallel = {refused}")].count("\n") + 1
            assert code == 2 and len(said) == 2 and words in said[0], (job, refused, said)
            assert re.match(rf"{re.escape(str(file))}:{line}:\d+: job '{job}': ", said[0]), (line, said[0])
            assert of_legal[0] == 0, (job, legal, of_legal)
    for recipe, job, ranks, refused, _, words in {job: layout for layout in LAYOUTS for job in [layout[:2]]}.values():
        # A launch reports it before doing anything: by the same check, so one layout of each job is enough.
        run = subprocess.run([KINORA, "run", str(spread("launched", recipe, job, refused)), "--dry-run"],
                             capture_output=True, text=True,
                             env={**os.environ, "WORLD_SIZE": str(ranks), "RANK": "0",
                                  "KINORA_RENDEZVOUS": f"file://{SCRATCH}/none"})
        assert run.returncode == 2 and words in run.stderr and not (OUT / "clips").exists(), (job, run)
        shutil.rmtree(OUT, ignore_errors=True)


def check_precision_in_ranks():
    """A tensor rank's piece that would cut a block of four-bit numbers is refused, with a number of ranks that is legal
    for the heads too."""
    asked = lambda parallel, head_size: check(spread("few-bits", "nvfp4", "nvfp4",
                                                     parallel + '\nprecision = { use = "nvfp4", high = ["embedding", '
                                                                '"head"] }'),
                                              "--ranks", "4", "--set", f"nvfp4.model.head_size={head_size}")
    for head_size, words in ((12, "into 4 goes through one; only 1 tensor rank would do; use another strategy"),
                             (24, "into 4 goes through one; 2 tensor ranks would do")):
        done = asked('["tp"]', head_size)
        assert (done.returncode == 2 and "job 'nvfp4': parameter 'decoder.layers." in done.stderr
                and words in done.stderr), done
    done = asked('[{ use = "tp", size = 2 }, "ddp"]', 24)
    assert done.returncode == 0 and not done.stderr, done


def check_precision_without_effect():
    """A precision whose layers are all high, and an `until` that no step reaches, are warnings at the line of the
    precision."""
    cases = (('"nvfp4"', None),
             ('{ use = "nvfp4", high = ["embedding", "head", "first 99"] }',
              "precision: no layer of model/dit is low in precision/nvfp4, so all are in bfloat16"),
             ('{ use = "fp8", until = 99999 }', "precision: until = 99999 is not below the "),
             ('{ use = "fp8", until = 1 }', None))
    files = [written(f"idle{n}", Q, changed("dit", "precision", value)[0]) for n, (value, _) in enumerate(cases)]
    for file, (value, words), (code, lines) in zip(files, cases, checked(files)):
        line = 1 + file.read_text().splitlines().index(f"precision = {value}")
        assert code == 0 and len(lines) == (1 if words else 0), (value, lines)
        assert not words or f"{file}:{line}:" in lines[0] and f"job 'dit': {words}" in lines[0], lines


def check_layout_of_a_large_model():
    """Declares 14 billion parameters without memory and quickly."""
    model = 'model = { use = "wan", size = "14B", in_channels = 32, out_channels = 32, text_dim = 384 }'
    for parallel, words in (
        ('[{ use = "pp", size = 4 }, { use = "fsdp", size = 4 }, { use = "tp", size = 4 }, "recompute"]', ""),
                            ('[{ use = "tp", size = 64 }]',
                             "parameter 'blocks.0.attn1.to_q.weight' can be cut into 40 at most; use size = 8")):
        file = spread("large", Q, "dit", parallel)
        file.write_text(re.sub(r"(?m)^model = .*$", model, file.read_text()).replace("batch = 24", "batch = 64"))
        quickest = math.inf  # of three tries: a busy machine makes the same work slower
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = check(file, WORLD_SIZE="64")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            quickest = min(quickest, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            if quickest < 2:
                break
        assert (words in done.stderr and done.returncode == 2) if words else done.returncode == 0, done.stderr
        assert quickest < 2 and after.ru_maxrss < 2_000_000, (quickest, after.ru_maxrss)  # memory of the whole command
        print(f"      64 ranks of 14B are checked in {quickest:.1f} s of a core")


def check_any_ranks():
    """A file for several ranks is valid on a machine with one; --ranks and a launcher's variables check a given
    number."""
    file = written("two", Q, changed("dit", "parallel", '[{ use = "tp", size = 2 }, "recompute"]')[0])
    two = written("sizes", Q, changed("dit", "parallel", '["tp", "ddp"]')[0])
    nccl = written("nccl", Q, after("dit", 'collective = "nccl"')[0])
    (code, _), (_, of_two), (_, of_nccl) = checked([file, two, nccl])
    assert code == 0 and any("tp and ddp both would; give tp a size" in line for line in of_two), of_two
    assert any("unknown collective 'nccl'; there are: gloo; nccl requires a CUDA build" in line
               for line in of_nccl), of_nccl
    several = "job 'dit': parallel: the sizes of its axes multiply to 2, and this launch has {}; start 2"
    for given, ranks in (([], "1"), (["--ranks", "1"], "2")):
        done = check(file, *given, WORLD_SIZE=ranks)
        assert done.returncode == 0, done  # one process computes the result of any layout
    assert several.format("6 ranks") in check(file, "--ranks", "6").stderr
    done = check(file, "--ranks", "2")
    assert (done.returncode == 2 and "dit" not in done.stderr
            and "job 'tokenizer': parallel: none of its strategies" in done.stderr), done
    done = check(file, "--ranks", "0")
    assert done.returncode == 2 and "--ranks must be 1 or more" in done.stderr, done
    done = subprocess.run([KINORA, "run", str(file), "--dry-run"], capture_output=True, text=True)
    assert done.returncode == 0, done


def launched(*arguments):
    return subprocess.run([KINORA, "launch", *arguments], capture_output=True, text=True, timeout=300)


def check_launch():
    """launch itself refuses impossible arguments before it writes a file."""
    file = written("launched", Q, after("film", 'format = ["gif"]')[0], changed("dit", "parallel", '["ddp"]')[0])
    run = ["--", "run", str(file)]
    for arguments, words in ((["-n", "0", *run], "-n 0: must be 1 to 512 ranks on one machine"),
                             (["-n", "100000", *run], "-n 100000: must be"),
                             (run, "the number of ranks is missing"),
                             (["-n", "2", "--timeout", "0", *run], "--timeout 0: must be 0.001 to 1000000 seconds"),
                             (["-n", "2", "--timeout=-5", *run], "--timeout -5: must be"),
                             (["-n", "2", "--timeout", "nan", *run], "--timeout nan: must be"),
                             (["-n", "2", "--grace", "-5", *run], "--grace -5: must be 0 to"),
                             (["-n", "2", "--restarts", "-1", *run], "--restarts -1: must be 0 or more"),
                             (["-n", "2", "--", "rnu", str(file)], "unknown command 'rnu', did you mean 'run'?"),
                             (["-n", "2"], "the command of the ranks is missing"),
                             (["-n", "2", *run, "--only", "flim"], "did you mean 'film'?")):
        done = launched(*arguments)
        assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1, (arguments, done)
    done = launched("-n", "2", *run)
    for words in ("job 'film': format 'gif'",
                  "job 'tokenizer': parallel: none of its strategies shares work among ranks, and this launch has 2"):
        assert done.returncode == 2 and words in done.stderr, done
    assert "rank 0" not in done.stderr and "dit" not in done.stderr, done
    assert not OUT.exists(), "a folder was created"
