"""A recipe with one change, and the line that reports it: the cases of check.py. In the recipes `tokenizer` is a job of
kind train-tokenizer, `latents` and `codes` encode, `dit` and `ar` train, `film` and `continued` generate."""
import re

from checking import A, OUT, Q, ROOT, SCRATCH, WEIGHTS, after, changed, checked, instead, written

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
    (Q, after("dit", 'condition_frames = [0, 1]', 'condition_noise = [-3]'), "dit",
     "condition_noise requires a mean and a deviation"),
    (Q, after("dit", 'condition_frames = [0, 3]'), "dit", "3 of 3 latent frames are given, so none is left to learn"),
    (Q, after("dit", 'condition_sigma = 0.3'), "dit", "condition_sigma applies to given frames"),
    (Q, after("dit", 'chunk = 2'), "dit",
     "chunk applies to causal frames; add causal = true or teacher_forcing = true"),
    (Q, after("dit", 'first_chunk = 1'), "dit", "first_chunk applies to causal frames; add causal = true"),
    (Q, after("dit", 'teacher_forcing = true', 'chunk = 3'), "dit", "3 latent frames are one chunk of 3; lower chunk"),
    (Q, after("dit", 'causal = true', 'sink = 1'), "dit", "sink keeps chunks visible that a window would hide"),
    (A, after("ar", 'teacher_forcing = true'), "ar", "teacher_forcing: loss/next-token draws no noise"),
    (Q, after("film", 'causal = true'), "film", "causal is the train job's; leave it out"),
    (Q, after("film", 'first_chunk = 1'), "film", "first_chunk is the train job's; leave it out"),
    (Q, after("dit", 'validation_sigmas = [3.0]'), "dit", "3 is not a noise level of this loss"),
    (Q, after("dit", 'sampler = { use = "edm-heun", sigma_min = 100.0 }', 'sample_every = 2'), "dit",
     "sigma_min = 100.0 must be below sigma_max"),
    (Q, after("dit", 'samples = 20', 'sample_every = 2'), "dit",
     "samples = 20 is more than validation_samples = 16, from which they are taken; raise that option"),
    (A, after("ar", 'condition_frames = [0, 1]'), "ar", "loss/next-token draws no noise"),
    (A, after("codes", 'first_frame = true'), "codes",
     "first_frame applies to latents, but tokenizer/cosmos makes codes"),
    (Q, after("latents", 'sizes = ["1x16x16"]'), "latents", "sizes applies to a table of data"),
    (Q, changed("latents", "input", CROPPED.format('sizes = ["9x64x48"]\n', 32)), "latents",
     "video.crop leaves 9x32x64 of windows of 9x48x64, and with `sizes` each window keeps its size", "transforms = "),
    (Q, changed("latents", "input", CROPPED.format("", 52)), "latents",
     "video.crop has height = 52, and windows of 9x48x64 have 48; lower it, or raise the job's height",
     "transforms = "),
    (Q, changed("latents", "input", CROPPED.format("", 30)), "latents", "height = 30 must be a multiple of 4",
     "transforms = "),
    (A, after("ar", 'sample_every = 5'), "ar", "loss/next-token is not the loss of a denoiser"),
    (Q, after("dit", 'weights = "asset:minilm/model.safetensors"'), "dit", "does not fit model/dit"),
    (Q, after("film", 'weights = "asset:minilm/model.safetensors"'), "film", "does not fit model/dit"),
    (Q, after("latents", 'weights = "none.safetensors"'), "", "of tokenizer are the option tokenizer_weights"),
    (Q, after("film", 'weights = "none.safetensors"'), "film", "weights: no such file or folder:"),
    (Q, after("film", 'tokenizer_weights = "asset:minilm/model.safetensors"'), "film", "does not fit tokenizer/cosmos"),
    (Q, after("film", 'text_weights = "asset:minilm/model.safetensors"'), "film",
     "text_weights is for an encoder of this job"),
    (Q, after("film", 'sigma_data = 9.0'), "film", "sigma_data is the encode job's; leave it out"),
    (Q, after("film", 'condition_frames = 5'), "film", "condition_frames applies to a video to continue"),
    (Q, after("film", 'condition_frames = 3', f'video = "{ROOT}/tests/data/bbb_A.mp4"'), "film",
     "condition_frames = 3 must be 1 + n * 4 for tokenizer/cosmos; 1 or 5 would do"),
    (Q, after("film", 'condition_frames = 9', f'video = "{ROOT}/tests/data/bbb_A.mp4"'), "film",
     "3 of 3 latent frames, so none is left to generate"),
    (Q, after("dit", 'lora = "rank=4 targets=linear_porj"', WEIGHTS), "dit", "did you mean"),
    (Q, after("dit", f'adapter = "{SCRATCH}/none"', WEIGHTS), "dit",
     f"adapter: no such file or folder: {SCRATCH}/none, and no earlier job"),
    (Q, after("dit", f'weights = "{SCRATCH}/none.safetensors"'), "dit", "weights: no such file or folder:"),
    (Q, after("dit", f'weights = "{OUT}/film/weights.safetensors"'), "dit", "no earlier job of the run makes it"),
    (Q, after("dit", f'weights = "{ROOT}/configs/flow.toml"'), "dit", "flow.toml"),
    (Q, changed("dit", "batch", "5\naccumulate = 2"), "dit",
     "batch = 5 must be a multiple of accumulate (2) times the ranks that hold different samples (1); 6 would do"),
    (Q, changed("dit", "parallel", '["single", { use = "recompute", every = 0 }]'), "", "every"),
    (Q, instead("in_channels = 32", "in_channels = 16"), "dit",
     "latent and condition_mask have 32 channels, in_channels is 16"),
    (Q, instead("out_channels = 32", "out_channels = 8"), "dit",
     "makes [1, 8, 3, 12, 16] of latents [1, 32, 3, 12, 16] of tokenizer/cosmos"),
    (Q, instead("text_size = 384", "text_size = 128"), "dit", "text has shape [1, 4, 384], needed is [1, L, 128]"),
    (Q, instead("patch_space = 1", "patch_space = 5"), "dit",
     "a latent of 3 x 12 x 16 does not divide into patches of 1 x 5 x 5"),
    (Q, instead("head_size = 32", "head_size = 31"), "dit", "head_size = 31 is odd"),
    (Q, instead("heads = 4", "heads = 4, kv_heads = 3"), "dit", "heads = 4 are not divided evenly over kv_heads = 3"),
    (Q, changed("dit", "precision", '{ use = "nvfp4", high = ["*.linear_qvk.weight"] }'), "dit",
     "high: no layer is called '*.linear_qvk.weight'; write embedding, head, first N, last N or the name of a layer"),
    (Q, changed("dit", "precision", '"fp4"'), "", "unknown precision 'fp4', did you mean 'nvfp4'?"),
    (Q, changed("dit", "precision", '"mxfp8"'), "",
     "unknown precision 'mxfp8'; write { use = \"fp8\", scaling = \"mx\" }"),
    (Q, after("film", 'precision = { use = "nvfp4", high = [], until = 3 }'), "film",
     "precision: until is a step of training, and a generate job has none; leave it out"),
    (Q, changed("dit", "loss", '"next-token"'), "dit",
     "loss/next-token reads no 'latent', but the data are latents; choose a loss for them, such as edm or flow"),
    (Q, changed("dit", "model", '{ use = "ar" }'), "dit",
     "model/ar works on codes and tokenizer/cosmos makes latents; choose the other kind"),
    (A, changed("ar", "loss", '"edm"'), "ar",
     "loss/edm adds noise to latents, but the data are codes; choose a loss for codes, such as next-token"),
    (A, changed("ar", "model", '{ use = "dit" }'), "ar",
     "model/dit works on latents and tokenizer/cosmos makes codes; choose the other kind", None, 3),
    (A, instead("vocab_size = 1000", "vocab_size = 500"), "ar",
     "vocab_size = 500, and tokenizer/cosmos makes 1000 codes; raise it"),
    (A, instead("context_dim = 384", "context_dim = 100"), "ar", "text has shape [1, 4, 384], needed is [1, L, 100]"),
    (Q, changed("tokenizer", "frames", "10"), "tokenizer",
     "frames = 10 must be 1 + n * 4 for tokenizer/cosmos; 9 or 13 would do"),
    (Q, changed("tokenizer", "height", "50"), "tokenizer",
     "height = 50 must be a multiple of 4 for tokenizer/cosmos; 48 or 52 would do"),
    (Q, changed("latents", "width", "62"), "latents",
     "width = 62 must be a multiple of 4 for tokenizer/cosmos; 60 or 64 would do"),
    (Q, after("film", "frames = 7"), "film", "frames = 7 must be 1 + n * 4 for tokenizer/cosmos; 5 or 9 would do"),
    (Q, after("tokenizer", f'weights = "{OUT}/shards/w.safetensors"'), "tokenizer",
     'start = "principal" and weights = ', 'start = "principal"'),
    (Q, changed("tokenizer", "tokenizer", '"wan"'), "tokenizer", "tokenizer/wan begins at random only",
     'start = "principal"', 1),
    (Q, after("tokenizer", 'perceptual = "edm"'), "tokenizer", "perceptual = 'loss/edm' does not compare two videos"),
    (Q, after("tokenizer", 'features = "clip-vision"'), "tokenizer", 'features_weights = "FILE or FOLDER"'),
    (Q, after("tokenizer", 'last_layer = "none"', 'critic = "patch-discriminator"'), "tokenizer",
     "last_layer 'none' is not a parameter"),
    (A, after("tokenizer", "kl = 0.1"), "tokenizer", "kl = 0.1: tokenizer/cosmos makes codes"),
    (Q, after("latents", 'tokenizer = "cosmos"'), "latents", 'tokenizer_weights = "FILE or FOLDER"'),
    (Q, after("latents", f'tokenizer_weights = "{SCRATCH}/none"', 'tokenizer = "cosmos"'), "latents",
     "tokenizer_weights: no such file or folder:", None, 1),
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
    (Q, after("film", "strength = 0.5"), "film",
     "strength is the share of steps that change a video; give one in video"),
    (Q, after("film", f'image = "{SCRATCH}/none.png"'), "film", "image: no such file or folder:"),
    (Q, after("film", f'prompts_file = "{SCRATCH}/none.txt"'), "film", "none.txt"),
    (Q, changed("film", "prompts", "[]"), "film", "no prompts; set prompts, one text per video"),
    (Q, after("film", 'signals = ["pose=1"]'), "film", "model/dit takes no 'pose'"),
    (Q, changed("film", "sampler", '{ use = "edm-heun", sigma_min = 90.0 }'), "film",
     "sigma_min = 90.0 must be below sigma_max = 80.0"),
    (Q, after("film", 'tokenizer = "cosmos"'), "film", 'tokenizer_weights = "FILE or FOLDER"'),
    (Q, changed("shards", "shard", '{ use = "shard.webdataset", prefix = "a.b" }'), "shards", "prefix = 'a.b'"),
    (Q, changed("clips", "input", f'"{SCRATCH}/empty"'), "clips", "there is no file in"),
]


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
