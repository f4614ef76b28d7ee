#!/usr/bin/env python3
"""kinora check: a recipe with one change, and the line that reports it. Nothing is run, nothing is written.
usage: check.py KINORA ROOT SCRATCH"""
import itertools, math, os, pathlib, re, resource, shutil, subprocess, sys

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
OUT = SCRATCH / "out"
os.environ.pop("KINORA_PLUGIN_PATH", None)  # another program, of check_other_helps(), shall have no plugins of this one
Q, A = "quickstart", "autoregressive"
WEIGHTS = f'weights = "{OUT}/latents/weights.safetensors"'  # as if an earlier job made it


def after(job, *lines):
    """Returns the recipe with these lines added to a job; the error is in the first one."""
    return lambda text: text.replace(f'name = "{job}"\n', f'name = "{job}"\n' + "\n".join(lines) + "\n"), lines[0]


def instead(old, new):
    assert "\n" not in new
    return lambda text: text.replace(old, new), new


def changed(job, key, value):
    """Changes the value of a key that the job has."""
    def change(text):
        head, rest = text.split(f'name = "{job}"\n', 1)
        return f'{head}name = "{job}"\n' + re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", rest, count=1)
    return change, f"{key} = {value}"


# A table of data in place of the shards, with a crop.
CROPPED = '[{{ path = "shards" }}, "tokenizer"]\n{}transforms = [{{ use = "video.crop", height = {} }}]'

# Recipe, change, job, expected message.
CASES = [
    (Q, after("dit", 'device = "gpu"'), "dit", "device 'gpu' is unknown; give auto, cpu, cuda or cuda:N"),
    (Q, after("dit", 'device = "cuda:99"'), "dit", "device 'cuda:99': "),
    (Q, after("tokenizer", 'device = "cude"'), "tokenizer", "device 'cude' is unknown; give auto"),
    (Q, after("latents", 'device = "gpu"'), "latents", "device 'gpu' is unknown"),
    (Q, after("film", 'device = "gpu"'), "film", "device 'gpu' is unknown"),
    (Q, after("dit", 'lora = "rnak=4"', WEIGHTS), "dit", "rnak"),
    (Q, after("dit", 'lora = "rank=0"', WEIGHTS), "dit", "lora: rank=0: expected a number above 0"),
    (Q, after("dit", 'lora = "rank=4 targets=linear_qkv"'), "dit", "set weights = "),
    (Q, after("dit", 'condition_noise = [-3.0, 2.0]'), "dit", "condition_noise applies to given frames"),
    (Q, after("dit", 'condition_frames = [0, 1]', 'condition_noise = [-3]'), "dit", "condition_noise requires a mean and a deviation"),
    (Q, after("dit", 'condition_frames = [0, 3]'), "dit", "3 of 3 latent frames are given, so none is left to learn"),
    (Q, after("dit", 'condition_sigma = 0.3'), "dit", "condition_sigma applies to given frames"),
    (Q, after("dit", 'chunk = 2'), "dit", "chunk applies to causal frames; add causal = true or teacher_forcing = true"),
    (Q, after("dit", 'teacher_forcing = true', 'chunk = 3'), "dit", "3 latent frames are one chunk of 3; lower chunk"),
    (Q, after("dit", 'causal = true', 'sink = 1'), "dit", "sink keeps chunks visible that a window would hide"),
    (A, after("ar", 'teacher_forcing = true'), "ar", "teacher_forcing: loss/next-token draws no noise"),
    (Q, after("film", 'causal = true'), "film", "causal is the train job's; leave it out"),
    (Q, after("dit", 'validation_sigmas = [3.0]'), "dit", "3 is not a noise level of this loss"),
    (Q, after("dit", 'sampler = { use = "edm-heun", sigma_min = 100.0 }', 'sample_every = 2'), "dit", "sigma_min = 100.0 must be below sigma_max"),
    (Q, after("dit", 'samples = 20', 'sample_every = 2'), "dit", "samples = 20 is more than validation_samples = 16, from which they are taken; raise that option"),
    (A, after("ar", 'condition_frames = [0, 1]'), "ar", "loss/next-token draws no noise"),
    (A, after("codes", 'first_frame = true'), "codes", "first_frame applies to latents, but tokenizer/cosmos makes codes"),
    (Q, after("latents", 'sizes = ["1x16x16"]'), "latents", "sizes applies to a table of data"),
    (Q, changed("latents", "input", CROPPED.format('sizes = ["9x64x48"]\n', 32)), "latents", "video.crop leaves 9x32x64 of windows of 9x48x64, and with `sizes` each window keeps its size", "transforms = "),
    (Q, changed("latents", "input", CROPPED.format("", 52)), "latents", "video.crop has height = 52, and windows of 9x48x64 have 48; lower it, or raise the job's height", "transforms = "),
    (Q, changed("latents", "input", CROPPED.format("", 30)), "latents", "height = 30 must be a multiple of 4", "transforms = "),
    (A, after("ar", 'sample_every = 5'), "ar", "loss/next-token is not the loss of a denoiser"),
    (Q, after("dit", 'weights = "asset:minilm/model.safetensors"'), "dit", "does not fit model/dit"),
    (Q, after("film", 'weights = "asset:minilm/model.safetensors"'), "film", "does not fit model/dit"),
    (Q, after("latents", 'weights = "none.safetensors"'), "", "of tokenizer are the option tokenizer_weights"),
    (Q, after("film", 'weights = "none.safetensors"'), "film", "weights: no such file or folder:"),
    (Q, after("film", 'tokenizer_weights = "asset:minilm/model.safetensors"'), "film", "does not fit tokenizer/cosmos"),
    (Q, after("film", 'text_weights = "asset:minilm/model.safetensors"'), "film", "text_weights is for an encoder of this job"),
    (Q, after("film", 'sigma_data = 9.0'), "film", "sigma_data is the encode job's; leave it out"),
    (Q, after("film", 'condition_frames = 5'), "film", "condition_frames applies to a video to continue"),
    (Q, after("film", 'condition_frames = 3', f'video = "{ROOT}/tests/data/bbb_A.mp4"'), "film", "condition_frames = 3 must be 1 + n * 4 for tokenizer/cosmos; 1 or 5 would do"),
    (Q, after("film", 'condition_frames = 9', f'video = "{ROOT}/tests/data/bbb_A.mp4"'), "film", "3 of 3 latent frames, so none is left to generate"),
    (Q, after("dit", 'lora = "rank=4 targets=linear_porj"', WEIGHTS), "dit", "did you mean"),
    (Q, after("dit", f'adapter = "{SCRATCH}/none"', WEIGHTS), "dit", f"adapter: no such file or folder: {SCRATCH}/none, and no earlier job"),
    (Q, after("dit", f'weights = "{SCRATCH}/none.safetensors"'), "dit", "weights: no such file or folder:"),
    (Q, after("dit", f'weights = "{OUT}/film/weights.safetensors"'), "dit", "no earlier job of the run makes it"),
    (Q, after("dit", f'weights = "{ROOT}/configs/flow.toml"'), "dit", "flow.toml"),
    (Q, changed("dit", "batch", "5\naccumulate = 2"), "dit", "batch = 5 must be a multiple of accumulate (2) times the ranks that hold different samples (1); 6 would do"),
    (Q, changed("dit", "parallel", '["single", { use = "recompute", every = 0 }]'), "", "every"),
    (Q, instead("in_channels = 32", "in_channels = 16"), "dit", "latent and condition_mask have 32 channels, in_channels is 16"),
    (Q, instead("out_channels = 32", "out_channels = 8"), "dit", "makes [1, 8, 3, 12, 16] of latents [1, 32, 3, 12, 16] of tokenizer/cosmos"),
    (Q, instead("text_size = 384", "text_size = 128"), "dit", "text has shape [1, 4, 384], needed is [1, L, 128]"),
    (Q, instead("patch_space = 1", "patch_space = 5"), "dit", "a latent of 3 x 12 x 16 does not divide into patches of 1 x 5 x 5"),
    (Q, instead("head_size = 32", "head_size = 31"), "dit", "head_size = 31 is odd"),
    (Q, instead("heads = 4", "heads = 4, kv_heads = 3"), "dit", "heads = 4 are not divided evenly over kv_heads = 3"),
    (Q, changed("dit", "precision", '{ use = "nvfp4", high = ["*.linear_qvk.weight"] }'), "dit", "high: no layer is called '*.linear_qvk.weight'; write embedding, head, first N, last N or the name of a layer"),
    (Q, changed("dit", "precision", '"fp4"'), "", "unknown precision 'fp4', did you mean 'nvfp4'?"),
    (Q, changed("dit", "precision", '"mxfp8"'), "", "unknown precision 'mxfp8'; write { use = \"fp8\", scaling = \"mx\" }"),
    (Q, after("film", 'precision = { use = "nvfp4", high = [], until = 3 }'), "film", "precision: until is a step of training, and a generate job has none; leave it out"),
    (Q, changed("dit", "loss", '"next-token"'), "dit", "loss/next-token reads no 'latent', but the data are latents; choose a loss for them, such as edm or flow"),
    (Q, changed("dit", "model", '{ use = "ar" }'), "dit", "model/ar works on codes and tokenizer/cosmos makes latents; choose the other kind"),
    (A, changed("ar", "loss", '"edm"'), "ar", "loss/edm adds noise to latents, but the data are codes; choose a loss for codes, such as next-token"),
    (A, changed("ar", "model", '{ use = "dit" }'), "ar", "model/dit works on latents and tokenizer/cosmos makes codes; choose the other kind", None, 3),
    (A, instead("vocab_size = 1000", "vocab_size = 500"), "ar", "vocab_size = 500, and tokenizer/cosmos makes 1000 codes; raise it"),
    (A, instead("context_dim = 384", "context_dim = 100"), "ar", "text has shape [1, 4, 384], needed is [1, L, 100]"),
    (Q, changed("tokenizer", "frames", "10"), "tokenizer", "frames = 10 must be 1 + n * 4 for tokenizer/cosmos; 9 or 13 would do"),
    (Q, changed("tokenizer", "height", "50"), "tokenizer", "height = 50 must be a multiple of 4 for tokenizer/cosmos; 48 or 52 would do"),
    (Q, changed("latents", "width", "62"), "latents", "width = 62 must be a multiple of 4 for tokenizer/cosmos; 60 or 64 would do"),
    (Q, after("film", "frames = 7"), "film", "frames = 7 must be 1 + n * 4 for tokenizer/cosmos; 5 or 9 would do"),
    (Q, after("tokenizer", f'weights = "{OUT}/shards/w.safetensors"'), "tokenizer", 'start = "principal" and weights = ', 'start = "principal"'),
    (Q, changed("tokenizer", "tokenizer", '"wan"'), "tokenizer", "tokenizer/wan begins at random only", 'start = "principal"', 1),
    (Q, after("tokenizer", 'perceptual = "edm"'), "tokenizer", "perceptual = 'loss/edm' does not compare two videos"),
    (Q, after("tokenizer", 'features = "clip-vision"'), "tokenizer", 'features_weights = "FILE or FOLDER"'),
    (Q, after("tokenizer", 'last_layer = "none"', 'critic = "patch-discriminator"'), "tokenizer", "last_layer 'none' is not a parameter"),
    (A, after("tokenizer", "kl = 0.1"), "tokenizer", "kl = 0.1: tokenizer/cosmos makes codes"),
    (Q, after("latents", 'tokenizer = "cosmos"'), "latents", 'tokenizer_weights = "FILE or FOLDER"'),
    (Q, after("latents", f'tokenizer_weights = "{SCRATCH}/none"', 'tokenizer = "cosmos"'), "latents", "tokenizer_weights: no such file or folder:", None, 1),
    (Q, after("latents", f'text_weights = "{SCRATCH}/none"'), "latents", "text_weights: no such file or folder:"),
    (Q, after("latents", 'signals = ["text"]'), "latents", "'text' is the name of something else"),
    (Q, after("latents", 'image_encoder = "clip-vision"'), "latents", 'image_encoder_weights = "FILE or FOLDER"'),
    (Q, instead('vocab = "asset:minilm/vocab.txt"', f'vocab = "{SCRATCH}/none.txt"'), "latents", "none.txt"),
    (Q, after("film", 'format = ["gif"]'), "film", "format 'gif' is unknown; give mp4, webp, png or latents"),
    (Q, after("film", "guidance_interval = [5.0, 1.0]"), "film", "guidance_interval = [5, 1] is empty"),
    (Q, after("film", "temperature = 0.5"), "film", "temperature is for models that draw codes one by one"),
    (Q, after("film", 'cache = { use = "kv", window = 4 }'), "film", "cache is for models that draw codes one by one"),
    (A, after("continued", 'cache = { use = "kv", window = -1 }'), None, "option 'window' of cache/kv takes an int"),
    (A, after("continued", "strength = 0.5"), "continued", "strength is for models that denoise"),
    (Q, after("film", "strength = 0.5"), "film", "strength is the share of steps that change a video; give one in video"),
    (Q, after("film", f'image = "{SCRATCH}/none.png"'), "film", "image: no such file or folder:"),
    (Q, after("film", f'prompts_file = "{SCRATCH}/none.txt"'), "film", "none.txt"),
    (Q, changed("film", "prompts", "[]"), "film", "no prompts; set prompts, one text per video"),
    (Q, after("film", 'signals = ["pose=1"]'), "film", "model/dit takes no 'pose'"),
    (Q, changed("film", "sampler", '{ use = "edm-heun", sigma_min = 90.0 }'), "film", "sigma_min = 90.0 must be below sigma_max = 80.0"),
    (Q, after("film", 'tokenizer = "cosmos"'), "film", 'tokenizer_weights = "FILE or FOLDER"'),
    (Q, changed("shards", "shard", '{ use = "shard.webdataset", prefix = "a.b" }'), "shards", "prefix = 'a.b'"),
    (Q, changed("clips", "input", f'"{SCRATCH}/empty"'), "clips", "there is no file in"),
]


def written(name, recipe, *changes):
    text = (ROOT / f"configs/{recipe}.toml").read_text().replace('"../tests', f'"{ROOT}/tests').replace("[run]\n", f'[run]\nout = "{OUT}"\n')
    for change in changes:
        new = change(text)
        assert new != text, f"{name}: nothing is changed"
        text = new
    file = SCRATCH / f"{name}.toml"
    file.write_text(text)
    return file


def check(*arguments, **environment):
    return subprocess.run([KINORA, "check", *map(str, arguments)], capture_output=True, text=True, timeout=300, env={**os.environ, **environment})


CHECKED = {}  # every file that is checked as it stands: its text, its exit code and what is said of it, see check_other_helps()


def answers(files, *arguments, program=None, **environment):
    """What `check` answers about each file: exit code and lines, as if it were checked alone. One process checks them all. After each file it
    is given one that does not exist, and the message about that one is where the answer ends."""
    absent = SCRATCH / "absent.toml"
    done = subprocess.run([program or KINORA, "check", *(str(name) for file in files for name in (file, absent)), *arguments], capture_output=True, text=True, timeout=600,
                          env={**os.environ, **environment})
    parts = done.stderr.split(f"{absent}: no such file, or it cannot be read\n")
    assert done.returncode == 2 and len(parts) == len(files) + 1 and not parts.pop(), done
    good, out = iter(done.stdout.splitlines()), []
    for file, part in zip(files, parts):
        lines = [line for line in part.splitlines() if not is_of_a_busy_machine(line)]
        code = 2 if lines and re.fullmatch(rf"{re.escape(str(file))}: \d+ errors?", lines[-1]) else 0
        jobs = pathlib.Path(file).read_text().count("\n[[job]]\n")
        assert code or next(good) == f"{file}: {jobs} job{'s' * (jobs != 1)}, no errors", done
        out.append((code, lines))
    assert not list(good), done
    return out


def checked(files):
    out = answers(files)
    for file, (code, lines) in zip(files, out):
        assert file not in CHECKED, file
        CHECKED[file] = pathlib.Path(file).read_text(), code, lines
    return out


def check_cases():
    """Checks all cases in one process. Returns the number of wrong cases."""
    files, wrong = [written(f"case{number}", recipe, change[0]) for number, (recipe, change, *_) in enumerate(CASES)], 0
    for number, (file, (code, lines), case) in enumerate(zip(files, checked(files), CASES)):
        try:
            assert code == 2, f"{case[1][1]}: no error\n{lines}"
            check_case(file, lines[:-1], *case)
        except AssertionError as error:
            wrong += 1
            print(f"WRONG case {number}: {error}", flush=True)
    return wrong


def check_case(file, lines, recipe, change, job, words, place=None, more=0):
    """place: the reported line, if it is not the changed one; more: further errors that follow."""
    place = place or change[1].splitlines()[0]
    line = 1 + next(i for i, text in enumerate(file.read_text().splitlines()) if place in text)
    said = [one for one in lines if words in one]
    assert len(said) == 1, f"{place} -> {words}\n{lines}"
    if job:
        assert said[0].count(f"job '{job}'") == 1, said
        assert re.match(rf"{re.escape(str(file))}:(\d+):\d+: job '{job}': ", said[0]), said
        assert int(said[0].removeprefix(f"{file}:").split(":")[0]) == line, f"{said[0]}\nexpected line {line}"
        assert len(lines) == 1 + more, lines


def check_recipes():
    recipes = sorted((ROOT / "configs").glob("*.toml"))
    done = check(*recipes)
    assert done.returncode == 0 and not done.stderr, done
    assert [line.split(":")[0] for line in done.stdout.splitlines() if "no errors" in line] == list(map(str, recipes)), done.stdout
    CHECKED.update({file: (file.read_text(), 0, []) for file in recipes})
    probe = f'[run]\nout = "{OUT}"\n[[job]]\nkind = "curate"\ninput = "{ROOT}/tests/data/bbb_A.mp4"\nstages = ["video.probe"]\n'
    alone, other = SCRATCH / "storage.toml", SCRATCH / "probe.toml"
    alone.write_text(probe + '[storage.s3]\nregion = "x"\n')
    other.write_text(probe)
    together = check(alone, other)
    assert together.returncode == 2 and "configures storages, which would also apply to the other files; check this file alone" in together.stderr, together
    assert together.stdout == f"{other}: 1 job, no errors\n" and check(alone).returncode == 0, together
    assert not OUT.exists(), "a check must not create a folder"


def check_all_at_once():
    """Reads and checks in one pass, for several jobs; a job that reads a broken one is not checked."""
    file = written("several", Q, after("dit", 'device = "gpu"', 'lora = "rank=0"', WEIGHTS)[0], changed("tokenizer", "height", "50")[0],
                   changed("tokenizer", "frames", "10")[0], after("report", "titel = 3")[0])
    [(_, said)] = checked([file])
    for words in ("device 'gpu'", "rank=0", "height = 50", "frames = 10", "did you mean 'title'?", "5 errors"):
        assert sum(words in line for line in said) == 1, (words, said)


def check_ranks():
    """Requirements of a launch with a given number of ranks."""
    file = written("ranks", Q, changed("dit", "parallel", '["ddp"]')[0], after("tokenizer", 'parallel = ["ddp"]')[0])
    (code, said), (of_ddp, _) = answers([ROOT / "configs/quickstart.toml", file], WORLD_SIZE="2")
    assert code == 2 and any("none of its strategies shares work among ranks, and this launch has 2; add one, such as ddp, or start 1" in line for line in said), said
    assert of_ddp == 0, of_ddp
    done = check(file, WORLD_SIZE="3")
    assert done.returncode == 2 and "batch = 4 must be a multiple of accumulate (1) times the ranks that hold different samples (3); 6 would do" in done.stderr, done.stderr


DDP = '["ddp"]'
FP8 = '\nprecision = { use = "fp8", attention = "fp8" }'
PP = '[{ use = "pp", schedule = "interleaved" }]'
# Recipe, job, ranks, refused and legal values of its parallel, expected message. Only the layout is wrong: batches divide, and
# ddp takes the remaining ranks.
LAYOUTS = [
    (Q, "dit", 3, '["tp"]', '["ddp"]', "tp: size = 3 must divide the heads (of keys too) and the MLP's channels; parameter"),
    (Q, "dit", 8, '["pp"]', '[{ use = "pp", size = 4 }, "ddp"]', "pp: the model has 6 blocks (embedding and head among them), which cannot be 8 stages"),
    (Q, "dit", 4, '[{ use = "cp-2d", ulysses = 3 }]', '[{ use = "cp-2d", ulysses = 2 }]', "ulysses = 3 does not divide the 4 ranks of a sequence; use ulysses = 2"),
    (Q, "dit", 2, PP, PP + "\naccumulate = 2", "pp: the interleaved schedule takes a multiple of its 2 ranks as microbatches (accumulate), not 1; 2 would do"),
    (Q, "dit", 2, '["recompute", "ddp", "recompute"]', '["recompute", "ddp"]', "parallel/recompute is listed twice; a strategy composes only with other strategies"),
    (Q, "tokenizer", 2, '["cp-ulysses"]', '["fsdp"]', "tokenizer/cosmos has no sequence that ranks along cp could share; use ddp or fsdp, which give them different videos"),
    (Q, "film", 3, '["tp"]', '["cp-ulysses"]', "tp: size = 3 must divide the heads"),
    (Q, "dit", 2, '["cp-ring"]' + FP8, '["cp-ulysses"]' + FP8, 'attention = "fp8": cp-ring attends by itself and does not round; use cp-ulysses'),
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
                block = f"parallel = {parallel if name == job else DDP}\n" + ("" if kind == "generate" else "batch = 24\n") + block
            text = f'{head}[[job]]\nname = "{name}"\n' + "[[job]]".join([block, *others])
        return text
    return written(name, recipe, change)


def check_layouts():
    """What the strategies would refuse about the ranks, the step or the model when the job begins is reported at the job's parallel."""
    for ranks in sorted({ranks for _, _, ranks, *_ in LAYOUTS}):
        layouts = [layout for layout in LAYOUTS if layout[2] == ranks]
        files = [spread(f"layout{ranks}-{n}-{which}", recipe, job, parallel) for n, (recipe, job, _, *both, _) in enumerate(layouts) for which, parallel in zip(("refused", "legal"), both)]
        found = iter(zip(files, answers(files, WORLD_SIZE=str(ranks))))
        for (recipe, job, _, refused, legal, words), (file, (code, said)), (_, of_legal) in zip(layouts, found, found):
            text = file.read_text()
            line = text[:text.index(f"parallel = {refused}")].count("\n") + 1
            assert code == 2 and len(said) == 2 and words in said[0], (job, refused, said)
            assert re.match(rf"{re.escape(str(file))}:{line}:\d+: job '{job}': ", said[0]), (line, said[0])
            assert of_legal[0] == 0, (job, legal, of_legal)
    for recipe, job, ranks, refused, _, words in {job: layout for layout in LAYOUTS for job in [layout[:2]]}.values():
        # A launch reports it before doing anything: by the same check, so one layout of each job is enough.
        run = subprocess.run([KINORA, "run", str(spread("launched", recipe, job, refused)), "--dry-run"], capture_output=True, text=True,
                             env={**os.environ, "WORLD_SIZE": str(ranks), "RANK": "0", "KINORA_RENDEZVOUS": f"file://{SCRATCH}/none"})
        assert run.returncode == 2 and words in run.stderr and not (OUT / "clips").exists(), (job, run)
        shutil.rmtree(OUT, ignore_errors=True)


def check_precision_in_ranks():
    """A tensor rank's piece that would cut a block of four-bit numbers is refused, with a number of ranks that is legal for the heads too."""
    asked = lambda parallel, head_size: check(spread("few-bits", "nvfp4", "nvfp4", parallel + '\nprecision = { use = "nvfp4", high = ["embedding", "head"] }'),
                                              "--ranks", "4", "--set", f"nvfp4.model.head_size={head_size}")
    for head_size, words in ((12, "into 4 goes through one; only 1 tensor rank would do; use another strategy"), (24, "into 4 goes through one; 2 tensor ranks would do")):
        done = asked('["tp"]', head_size)
        assert done.returncode == 2 and "job 'nvfp4': parameter 'decoder.layers." in done.stderr and words in done.stderr, done
    done = asked('[{ use = "tp", size = 2 }, "ddp"]', 24)
    assert done.returncode == 0 and not done.stderr, done


def check_precision_without_effect():
    """A precision whose layers are all high, and an `until` that no step reaches, are warnings at the line of the precision."""
    cases = (('"nvfp4"', None), ('{ use = "nvfp4", high = ["embedding", "head", "first 99"] }', "precision: no layer of model/dit is low in precision/nvfp4, so all are in bfloat16"),
             ('{ use = "fp8", until = 99999 }', "precision: until = 99999 is not below the "), ('{ use = "fp8", until = 1 }', None))
    files = [written(f"idle{n}", Q, changed("dit", "precision", value)[0]) for n, (value, _) in enumerate(cases)]
    for file, (value, words), (code, lines) in zip(files, cases, checked(files)):
        line = 1 + file.read_text().splitlines().index(f"precision = {value}")
        assert code == 0 and len(lines) == (1 if words else 0), (value, lines)
        assert not words or f"{file}:{line}:" in lines[0] and f"job 'dit': {words}" in lines[0], lines


def check_layout_of_a_large_model():
    """Declares 14 billion parameters without memory and quickly."""
    model = 'model = { use = "wan", size = "14B", in_channels = 32, out_channels = 32, text_dim = 384 }'
    for parallel, words in (('[{ use = "pp", size = 4 }, { use = "fsdp", size = 4 }, { use = "tp", size = 4 }, "recompute"]', ""),
                            ('[{ use = "tp", size = 64 }]', "parameter 'blocks.0.attn1.to_q.weight' can be cut into 40 at most; use size = 8")):
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
    """A file for several ranks is valid on a machine with one; --ranks and a launcher's variables check a given number."""
    file = written("two", Q, changed("dit", "parallel", '[{ use = "tp", size = 2 }, "recompute"]')[0])
    two = written("sizes", Q, changed("dit", "parallel", '["tp", "ddp"]')[0])
    nccl = written("nccl", Q, after("dit", 'collective = "nccl"')[0])
    (code, _), (_, of_two), (_, of_nccl) = checked([file, two, nccl])
    assert code == 0 and any("tp and ddp both would; give tp a size" in line for line in of_two), of_two
    assert any("unknown collective 'nccl'; there are: gloo; nccl requires a CUDA build" in line for line in of_nccl), of_nccl
    several = "job 'dit': parallel: the sizes of its axes multiply to 2, and this launch has {}; start 2"
    for given, ranks in (([], "1"), (["--ranks", "1"], "2")):
        done = check(file, *given, WORLD_SIZE=ranks)
        assert done.returncode == 0, done  # one process computes the result of any layout
    assert several.format("6 ranks") in check(file, "--ranks", "6").stderr
    done = check(file, "--ranks", "2")
    assert done.returncode == 2 and "dit" not in done.stderr and "job 'tokenizer': parallel: none of its strategies" in done.stderr, done
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
    for arguments, words in ((["-n", "0", *run], "-n 0: must be 1 to 512 ranks on one machine"), (["-n", "100000", *run], "-n 100000: must be"),
                             (run, "the number of ranks is missing"), (["-n", "2", "--timeout", "0", *run], "--timeout 0: must be 0.001 to 1000000 seconds"),
                             (["-n", "2", "--timeout=-5", *run], "--timeout -5: must be"), (["-n", "2", "--timeout", "nan", *run], "--timeout nan: must be"),
                             (["-n", "2", "--grace", "-5", *run], "--grace -5: must be 0 to"), (["-n", "2", "--restarts", "-1", *run], "--restarts -1: must be 0 or more"),
                             (["-n", "2", "--", "rnu", str(file)], "unknown command 'rnu', did you mean 'run'?"), (["-n", "2"], "the command of the ranks is missing"),
                             (["-n", "2", *run, "--only", "flim"], "did you mean 'film'?")):
        done = launched(*arguments)
        assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1, (arguments, done)
    done = launched("-n", "2", *run)
    for words in ("job 'film': format 'gif'", "job 'tokenizer': parallel: none of its strategies shares work among ranks, and this launch has 2"):
        assert done.returncode == 2 and words in done.stderr, done
    assert "rank 0" not in done.stderr and "dit" not in done.stderr, done
    assert not OUT.exists(), "a folder was created"


def check_run():
    """run reports the same before it begins, and does not check finished jobs."""
    file = written("run", Q, after("film", 'format = ["gif"]')[0])
    done = subprocess.run([KINORA, "run", str(file)], capture_output=True, text=True)
    assert done.returncode == 2 and "job 'film': format 'gif'" in done.stderr and "run.toml:" in done.stderr, done
    assert not (OUT / "clips").exists(), "a job was started"
    done = subprocess.run([KINORA, "run", str(file), "--only", "clips", "--dry-run"], capture_output=True, text=True)
    assert done.returncode == 0, done
    shutil.rmtree(OUT)
    file = written("run", Q, changed("dit", "model", '"diet"')[0])  # film needs dit, clips does not
    for only, words in (("clips", None), ("film", "'diet'")):
        done = subprocess.run([KINORA, "run", str(file), "--only", only, "--dry-run"], capture_output=True, text=True)
        assert done.returncode == (2 if words else 0) and (words or "") in done.stderr, (only, done)
    shutil.rmtree(OUT, ignore_errors=True)


CUT, SAMPLED = '"clip.transcode"', '{ use = "clip.transcode", sample_fps = 2.0 }'
SHOTS, SAMPLING = '"shots.content"', '{ use = "shots.content", sample_every = 0.5 }'
# Stages of a curate job, and the expected line about them; empty: no error.
FLOWS = [
    (f'"video.probe", {CUT}, "filter.blur"', "filter.blur looks at frames of its samples, and no stage before it makes them; set sample_fps of clip.transcode, or put stage/video.read before it"),
    (f'"video.probe", {SAMPLED}, "filter.blur"', ""),
    (f'"video.probe", {CUT}, "video.read", "filter.blur", "embed.classic"', ""),
    (f'{SAMPLING}, {CUT}, "embed.classic"', "embed.classic looks at frames of its samples, and no stage before it makes them; set sample_fps of clip.transcode"),
    (f'{SAMPLING}, "filter.letterbox", {CUT}', ""),
    (f'{SHOTS}, "filter.letterbox", {SAMPLED}', "set sample_every of shots.content, or put stage/video.read before it"),
    ('"video.read", "shots.content", "filter.black"', ""),
    (f'{SHOTS}, "shots.transnetv2", {CUT}', "shots.transnetv2 looks at thumbnails and times_us of its samples, and no stage before it makes them; set thumbnails of shots.content"),
    ('"video.clips", "filter.text"', "set sample_fps of video.clips"),
    ('"filter.blur", "video.clips"', "no stage before it makes them; put it after video.clips, and set sample_fps there, or put stage/video.read before it"),
    (f'"filter.blur", {SAMPLED}', "no stage before it makes them; put it after clip.transcode, or put stage/video.read before it"),
    ('{ use = "video.probe", name = "look" }, { name = "a", from = "look", use = "clip.transcode", sample_fps = 2.0 }, '
     '{ name = "b", from = "look", use = "clip.transcode" }, { use = "filter.blur", from = ["a", "b"] }',
     "no stage before it makes them; set sample_fps of b, or put"),
]


def curations(texts):
    """What `check` answers about files of one curate job and what follows it: exit code and lines, without the file's name."""
    files = [SCRATCH / f"curation{len(CHECKED) + n}.toml" for n in range(len(texts))]
    for file, text in zip(files, texts):
        file.write_text(f'[run]\nout = "{OUT}"\n[[job]]\nname = "clips"\nkind = "curate"\n{text}\n')
    return [(code, [line.removeprefix(f"{file}:") for line in lines]) for file, (code, lines) in zip(files, checked(files))]


def check_flows():
    """A stage that needs pictures must get them from an earlier one."""
    film = ROOT / "tests/data/bbb_A.mp4"
    for (stages, words), (code, said) in zip(FLOWS, curations([f'input = "{film}"\nstages = [{stages}]' for stages, _ in FLOWS])):
        assert (code, len(said)) == ((2, 2) if words else (0, 0)), (stages, said)
        assert not words or (said[0].startswith("7:") and "job 'clips': " in said[0] and words in said[0]), (words, said)


def check_copies():
    """The curate job must provide the facts that a dedup job compares and decides by; options must be written in the right job."""
    base = f'input = "{ROOT}/tests/data/bbb_A.mp4"\nstages = ["video.probe", {SAMPLED}, "filter.blur", "filter.flow", "embed.classic"]\n[[job]]\nkind = "dedup"\ninput = "clips"\n'
    cases = (("", ""), ('dedup = { use = "dedup.semantic", embedding = "clasic" }', "no stage makes the embedding 'clasic', did you mean 'classic'? in job 'clips'"),
             ('dedup = { use = "dedup.semantic", keep = "best", score = "filter.blr" }', "no stage makes the score 'filter.blr', did you mean 'filter.blur'? in job 'clips'"),
             ('dedup = { use = "dedup.semantic", keep = "best", score = "aesthetics" }', "no stage makes the score 'aesthetics'; there are: filter.blur, filter.flow in job"),
             ('dedup = { use = "dedup.semantic", keep = "best", score = "filter.flow.p10" }', ""), ('dedup = { use = "dedup.semantic", score = "unused" }', ""),
             ('dedup = { use = "dedup.semantic", embedding = "clip", semantic = false }', ""),
             ('dedup = { use = "dedup.semantic", name = "clasic" }', "no stage makes the embedding 'clasic', did you mean 'classic'?"),  # the former name
             ("eps = 0.1", 'unknown option \'eps\' of job kind dedup; it is an option of stage/dedup.semantic: write dedup = { use = "dedup.semantic", eps = ... }'))
    (code, said), *found = curations([base.replace(', "embed.classic"', ""), *(base + line for line, _ in cases)])
    assert code == 2 and "no stage makes the embedding 'classic'; there is none; put embed.classic, with sample_fps of video.clips or clip.transcode, into the stages in job 'clips'" in said[0], said
    for (line, words), (code, said) in zip(cases, found):
        assert (code, len(said)) == ((2, 2) if words else (0, 0)), (line, said)
        assert not words or (said[0].startswith("11:") and words in said[0]), (words, said)


def check_jobs_are_no_stages():
    """A component that works on a whole data set is a job of its own. Used as a stage, it is reported as that kind of job."""
    film = ROOT / "tests/data/bbb_A.mp4"
    cases = (('"dedup.semantic"', "stage 'dedup.semantic' works on all results of a job; make it a job of its own: [[job]] kind = \"dedup\""),
             ('{ use = "stage/dedup.semantic", embedding = "x" }', "stage 'dedup.semantic' works on all results of a job; make it a job of its own: [[job]] kind = \"dedup\""),
             ('{ use = "shard.webdataset" }', "stage 'shard.webdataset' works on all results of a job; make it a job of its own: [[job]] kind = \"shard\""),
             ('"dedup"', "'dedup' is not a stage; make it a job of its own: [[job]] kind = \"dedup\""),
             ('{ use = "shard" }', "'shard' is not a stage; make it a job of its own: [[job]] kind = \"shard\""))
    for (stage, words), (code, said) in zip(cases, curations([f'input = "{film}"\nstages = ["video.clips", {stage}]' for stage, _ in cases])):
        assert code == 2 and len(said) == 2 and said[0].startswith("7:") and words in said[0] and "did you mean" not in said[0], (stage, said)


def check_isolate():
    """Words that exclude others, together with others."""
    film = ROOT / "tests/data/bbb_A.mp4"
    cases = (('["none", "video.clips"]', "isolate has 'none' together with other names"), ('["all", "auto"]', "isolate has 'all' together with other names"),
             ('["auto", "video.clips"]', ""), ('["video.clips"]', ""), ('["none"]', ""))
    for (names, words), (code, said) in zip(cases, curations([f'input = "{film}"\nstages = ["video.clips"]\nengine = {{ use = "local", isolate = {names} }}' for names, _ in cases])):
        assert (code, len(said)) == ((2, 2) if words else (0, 0)), (names, said)
        assert not words or (said[0].startswith("8:") and words in said[0]), (names, said)


def check_beside_another_error():
    """Errors from the stages themselves are reported even if another option of the job, or another job, has a typing error."""
    film = ROOT / "tests/data/bbb_A.mp4"
    [(code, said)] = curations([f"""input = "{film}"
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
    for words in ("did you mean 'recursive'?", "there is no 'treshold'", "did you mean 'threshold'?", "min_length = 9 is above", "isolate names 'clip.transcod'",
                  "no earlier job is called 'clip', did you mean 'clips'?", "eps", "did you mean 'dedup'?", "prefix = 'a.b'", "9 errors"):
        assert sum(words in line for line in said) == 1, (words, said)
    assert code == 2 and not any("called 'copies'" in line or "called 'b'" in line for line in said), said


def check_words_left_out():
    """A component that no line names and that lacks something: the message says where to write it."""
    [(code, said)] = curations([f'input = "{ROOT / "tests/data/bbb_A.mp4"}"\nstages = ["video.clips"]\n[[job]]\nkind = "embed-text"\ninput = "clips"'])
    assert code == 2 and len(said) == 2 and said[0].startswith("8:"), said
    assert 'job \'embed-text\' leaves words out: stage that turns text into tokens, such as words = { use = "text.wordpiece", vocab = "asset:minilm/vocab.txt" }' in said[0], said


def check_inputs():
    """An input that does not exist: its position in the list, and what to do."""
    (SCRATCH / "texts").mkdir()
    (SCRATCH / "texts/a.txt").write_text("x")
    film = ROOT / "tests/data/bbb_A.mp4"
    cases = ((f'["{film}",\n"none/*.mp4"]', "7:1", f"input: no file matches 'none/*.mp4' in {os.getcwd()} or in {SCRATCH}; fix the pattern, or give a folder, a list or an s3:// prefix"),
             ('"none/*.mp4"', "6:9", "input: no file matches"), ('"none.mp4"', "6:9", "no such file, folder or earlier job: 'none.mp4'"),
             (f'"{SCRATCH}/texts"', "6:9", "but 1 whose endings are not those of videos (all_files = true takes them); name videos or a folder that contains some"),
             ('""', "6:", "'input' is empty; it takes a path"), (f'["{film}",\n""]', "", "'input' is empty"), ('"s3://"', "6:", "it names no bucket; write s3://BUCKET/FOLDER/"),
             ('"s3:///films/"', "6:", "it names no bucket"), ('"s3://my films/"', "6:", "'my films' is not a bucket name (3 to 63 letters"), ('"s3://ab/films/"', "6:", "'ab' is not a bucket name"),
             ('"../nope/"', "6:", f"no such file, folder or earlier job: '../nope/' in {os.getcwd()} or in {SCRATCH}; fix the path"),
             ('"~nobody/films/"', "6:", "are not expanded; write the path in full"), ('"~/nope/"', "6:", f"in {os.environ.get('HOME', '')}"))
    *found, (all_files, _) = curations([*(f'input = {given}\nstages = ["video.probe"]' for given, *_ in cases), f'input = "{SCRATCH}/texts"\nall_files = true\nstages = ["video.probe"]'])
    assert all_files == 0
    for (given, place, words), (code, said) in zip(cases, found):
        assert code == 2 and len(said) == 2 and said[0].startswith(place) and words in said[0], (given, said)
    home = {**os.environ, "HOME": str(SCRATCH / "home")}
    (SCRATCH / "home/films").mkdir(parents=True)
    shutil.copy(film, SCRATCH / "home/films/a.mp4")
    (SCRATCH / "home.toml").write_text(f'[run]\nout = "{OUT}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = "~/films/*.mp4"\nstages = ["video.probe"]\n')
    assert subprocess.run([KINORA, "check", str(SCRATCH / "home.toml")], capture_output=True, env=home).returncode == 0


def check_order():
    """Stages at useless positions: an error if that fails for every video, else a warning."""
    film = ROOT / "tests/data/bbb_A.mp4"
    merged = '"embed.classic", "shots.merge"'
    cases = (
            (f'{SHOTS}, "shots.merge", {CUT}', 2, "shots.merge compares the embeddings 'classic' of shots, and no stage before it makes them; put embed.classic before it"),
            (f'{SAMPLING}, "embed.classic", {{ use = "shots.merge", name = "looks" }}, {CUT}', 2, 'put embed.classic before it, with name = "looks"'),
            (f'{SAMPLING}, {merged}, {CUT}', 0, ""), ('"video.clips", "video.clips"', 0, "video.clips cuts the clips of video.clips once more; leave one of them out"),
            (f'{SHOTS}, {CUT}, {{ use = "shots.hash", name = "late" }}', 0, "late finds shots in the clips that clip.transcode has cut; put it before clip.transcode"),
            ('"caption.describe", "video.clips"', 0, "caption.describe describes whole films, which video.clips cuts afterwards; put it behind video.clips"),
            ('{ use = "filter.facts", fact = "fps" }, "video.clips"', 0, 'filter.facts has no bound and drops nothing; set at_least or at_most, or mode = "score"'),
            ('{ use = "filter.facts", fact = "fps", at_most = 60.0 }, { use = "filter.facts", name = "b", fact = "fps", mode = "score" }, "video.clips", "caption.describe"', 0, ""),
            (f'{{ use = "shots.content", thumbnails = true }}, {{ use = "shots.transnetv2", weights = "none.safetensors" }}, {CUT}', 2, f"no such file or folder: {SCRATCH}/none.safetensors; fix the path"))
    for (stages, code_wanted, words), (code, said) in zip(cases, curations([f'input = "{film}"\nstages = [{stages}]' for stages, *_ in cases])):
        assert code == code_wanted and (len(said) == (2 if code else 1) and words in said[0] and "job 'clips': " in said[0] if words else not said), (stages, said)


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
        after, count = re.subn(rb'help = "((?:[^"\\]|\\.)*)"', lambda match: b'help = "' + b"x" * len(match[1]) + b'"', before)
        library = manifest.parent / f"lib{manifest.parent.name}.so"
        binary = library.read_bytes()
        assert count and binary.count(before) == 1, manifest
        for file, bytes in ((manifest, after), (library, binary.replace(before, after))):
            file.unlink()  # it was a link
            file.write_bytes(bytes)
    return copy / "bin/kinora"


def is_of_a_busy_machine(line):
    return "still making its instance" in line or "waiting for plugin" in line


def differing_lines(own, others):
    """Lines that differ otherwise than by times and helps; a run of x stands for any help."""
    own, others = ([re.sub(r"^\d\d:\d\d:\d\d |\d[\d.,]* (s|ms|[KMG]i?B)\b", "", line) for line in text.splitlines() if not is_of_a_busy_machine(line)] for text in (own, others))
    return [(one, other) for one, other in itertools.zip_longest(own, others, fillvalue="")
            if not re.fullmatch(".*".join(map(re.escape, re.split("x{3,}", other))), one)]


TINY = """stages = ["video.probe", { use = "video.clips", min_length = 0.5, min_frames = 1, edge_crop = 0.0, preset = "ultrafast", max_height = 64, sample_fps = 4.0, sample_height = 64 },
  "filter.black", { use = "filter.blur", at_least = 0.0 }, { use = "filter.facts", fact = "fps", at_most = 60.0 }, "embed.classic", "caption.describe"]
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
    file.write_text(f'[run]\nout = "{out}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = "{ROOT}/tests/data/bbb_A.mp4"\n{TINY}')
    done = subprocess.run([program, "run", str(file)], capture_output=True, text=True, timeout=300)
    files = {str(f.relative_to(out)): f.read_bytes() for job in ("clips", "copies", "shards") for f in (out / job).rglob("*")
             if f.is_file() and f.name not in {"summary.json", "metrics.jsonl", "live.json", "metrics.prom", "record.db", ".lock"}}
    shutil.rmtree(out)
    assert done.returncode == 0 and "clips/items.jsonl" in files and len(files) > 5, done
    return done.stderr, files


def check_other_helps():
    """No finding and no result depends on the words of a help: a program whose manifests all have other helps says and makes the same of the
    recipes, of every wrong case, of every file that the other properties check, of a tiny run and of a plan."""
    other = program_with_other_helps()
    assert len(CHECKED) > len(CASES) + 50, len(CHECKED)
    assert "xxxxx" in subprocess.run([other, "plugins", "inspect", "stage/filter.blur"], capture_output=True, text=True).stdout
    for (file, (text, *own)), others in zip(CHECKED.items(), answers(CHECKED, program=other)):
        assert file.read_text() == text, f"{file} is another file now"
        assert own[0] == others[0] and not (wrong := differing_lines(*("\n".join(lines) for _, lines in (own, others)))), (file, own, others)
    own, others = (subprocess.run([program, "plan", ROOT / "configs/many-ranks.toml", "--cluster", "1x8xH100", "--json"], capture_output=True, text=True, timeout=300) for program in (KINORA, other))
    assert (own.returncode, own.stdout) == (others.returncode, others.stdout), (own.stdout, others.stdout)
    assert not (wrong := differing_lines(own.stderr, others.stderr)), wrong
    (own, made), (others, made_by_other) = tiny_run(KINORA), tiny_run(other)
    assert not (wrong := differing_lines(own, others)), wrong
    assert made == made_by_other, [name for name in made.keys() | made_by_other.keys() if made.get(name) != made_by_other.get(name)]


def check_former_names():
    """A run file with a name from before is told the new one."""
    film = ROOT / "tests/data/bbb_A.mp4"
    cases = (("film.clips", "unknown stage 'film.clips'; it is called 'video.clips' now"), ("stage/film.remux", "unknown stage 'stage/film.remux'; it is called 'stage/video.remux' now"))
    for (_, words), (code, said) in zip(cases, curations([f'input = "{film}"\nstages = ["{stage}"]' for stage, _ in cases])):
        assert code == 2 and words in said[0], said


def check_kinds_of_jobs_are_no_commands():
    for kind in ("curate", "dedup", "shard"):
        done = subprocess.run([KINORA, kind], capture_output=True, text=True)
        assert done.returncode == 2 and f"'{kind}' is not a command but a kind of job" in done.stderr and f"kinora plugins inspect job/{kind}" in done.stderr, done
        assert subprocess.run([KINORA, "plugins", "inspect", f"job/{kind}"], capture_output=True).returncode == 0


def check_set():
    """--set with an unknown name lists the known ones."""
    generate = '\n[[job]]\nname = "{}"\nkind = "generate"\ninput = "dit"\nprompts = ["a boat"]\n'
    file = written("set", Q, lambda text: text + generate.format("second") + generate.format("third"))
    cases = (("flim.sampler.use=euler", "did you mean 'film'?"), ("zzz.use=euler", "there are: clips, shards, tokenizer, latents, dit, film, report, second, third, run"),
             ("film.smapler.use=euler", "did you mean 'sampler'?"), ("film.zzz.use=euler", "components are named by: sampler, model, loss"),
             ('film.sampler={use="zzz"}', '--set film.sampler={use="zzz"}: unknown sampler'), ("second.sampler.use=zzz", "there are: dpmpp-2m"), ("third.sampler.use=eulr", "did you mean 'euler'?"))
    done = check(file, *(word for given, _ in cases for word in ("--set", given)))
    said = done.stderr.splitlines()
    assert done.returncode == 2 and len(said) == len(cases) + 1, done
    for given, words in cases:
        [line] = [line for line in said if line.startswith(f"--set {given.split('=')[0]}")]
        assert words in line and line.count("--set") == 1, (given, line)
    file = SCRATCH / "list.toml"
    file.write_text(f'[run]\nout = "{OUT}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = "{ROOT}/tests/data/bbb_A.mp4"\nstages = ["video.probe", {{ use = "filter.facts", fact = "fps", at_most = 60.0 }}]\n')
    said = lambda given: subprocess.run([KINORA, "check", str(file), "--set", given], capture_output=True, text=True)
    refused = said("clips.stages.1.mode=score")
    form = refused.stderr.splitlines()[0].split("is a list, which is set as a whole: --set ")[1].strip("'")
    assert refused.returncode == 2 and form.startswith('clips.stages=["video.probe", {') and 'use = "filter.facts"' in form, refused
    assert said(form).returncode == 0, "the printed names must work"
    assert 'write for example "2 GiB"' in said("clips.memory=10 apples").stderr


def check_generate_by_hand():
    """The comment in a stranger's video and the name of a result are checked before anything is written."""
    generate = lambda *more: subprocess.run([KINORA, "generate", str(ROOT / "configs/quickstart.toml"), "--out", str(OUT), *more], capture_output=True, text=True, timeout=60)
    named = generate("--prompt", "a boat", "--name", "../x")
    assert named.returncode == 2 and "--name: a job's name is also its folder's name: only letters, digits" in named.stderr, named
    video = SCRATCH / "stranger.mp4"
    for comment, words in (('{"job":"film","options":{},"sampler":"engine/local","sampler_options":{}}', "'engine/local' is of kind engine; kind sampler is required here"),
                           ('{"job":"film","options":{},"sampler":"tokenizer/cosmos","sampler_options":{}}', "kind sampler is required here"),
                           ('{"job":"film","options":{},"sampler":"sampler/euler"}', "belong together"),
                           ('{"job":3,"options":{}}', '"job" must be a short text'),
                           ('{"job":"film","options":{"prompts_file":"/etc/passwd"}}', 'made with prompts_file "/etc/passwd"')):
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=5:duration=1", "-metadata", f"comment={comment}", str(video)], check=True)
        done = generate("--from", str(video), "--name", "x")
        assert done.returncode == 1 and words in done.stderr and "json.exception" not in done.stderr, (comment, done)
    assert not OUT.exists()


shutil.rmtree(SCRATCH, ignore_errors=True)
(SCRATCH / "empty").mkdir(parents=True)
failures = check_cases()
for property in (check_recipes, check_all_at_once, check_ranks, check_any_ranks, check_launch, check_layouts, check_precision_in_ranks, check_precision_without_effect, check_layout_of_a_large_model, check_run, check_set, check_flows, check_copies, check_inputs, check_order, check_former_names, check_kinds_of_jobs_are_no_commands, check_jobs_are_no_stages, check_isolate, check_beside_another_error, check_words_left_out, check_other_helps, check_generate_by_hand):
    try:
        property()
        print("ok   ", property.__name__, flush=True)
    except AssertionError as wrong:
        failures += 1
        print(f"WRONG {property.__name__}: {wrong}", flush=True)
print(f"{len(CASES)} cases, {failures} failed")
sys.exit(bool(failures))
