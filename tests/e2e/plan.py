#!/usr/bin/env python3
"""kinora plan: its shapes equal closed formulas, a third party's model is planned, its answer can be written, and
errors are reported. Nothing is trained. usage: plan.py KINORA ROOT SCRATCH"""
import json, os, pathlib, re, shutil, subprocess, sys

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
RUN = SCRATCH / "run.toml"
os.environ["XDG_CACHE_HOME"] = str(SCRATCH / "cache")


def kinora(*arguments, code=0):
    done = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{arguments}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def run_file(model, batch=64, more=""):
    text = (ROOT / "configs/flow.toml").read_text().replace("../tests", str(ROOT / "tests"))
    text = re.sub(r"(?m)^model = .*$", f"model = {model}", text)
    head, job = text.split('name = "stdit"\n', 1)
    job = re.sub(r"(?m)^batch = .*$", f"batch = {batch}{more}", job, count=1)
    RUN.write_text(f'{head}name = "stdit"\n{job}')


def plan(*arguments):
    return json.loads(kinora("plan", RUN, *arguments, "--json"))


def low_rank(D, rank, parts):
    """Weights of AdaLN's layers from D to parts D channels, by way of rank channels (arXiv 2503.12964, section 4.5.1);
    0: directly."""
    return D * rank * (1 + parts) if rank else D * D * parts


def dit(layers, heads, head_size, rank, kv_heads=0, ratio=4.0, signals=9, selves=1, patch=64, text=384):
    """NeMo's DiT, and with selves = 2 or 3 its ST-DiT: matrices of a token, of a text token and of a sample; other
    parameters."""
    D, K, F = heads * head_size, (kv_heads or heads) * head_size, round(heads * head_size * ratio)
    token, words, sample = selves * (2 * D * D + 2 * D
                                     * K) + 2 * D * D + 2 * D * F, 2 * K * text, low_rank(D, rank, signals)
    return D, layers, token, words, sample, 2 * patch * D, 2 * D * D + low_rank(D, rank, 2), layers * (
        selves + 1) * 2 * head_size + 3 * D + patch


def cosmos(layers, heads, places=0, rank=256, patch=64, text=1024):
    """Cosmos-Predict's DiT (arXiv 2501.03575, section 5.1): heads of 128 channels, AdaLN-LoRA for each of three parts
    of a layer, and a padding mask of 4 values a token. Cosmos 1 learns positions of 128 frames and 120 rows and
    columns."""
    D = heads * 128
    return D, layers, 4 * D * D + 2 * D * D + 8 * D * D, 2 * D * text, 3 * low_rank(D, rank, 3), (
        2 * patch + 4) * D, 4 * D * D + low_rank(D, rank, 2), layers * 4 * 128 + D + places * D


# Sizes as published: layers, heads, head size, rank, heads of keys, MLP ratio (Peebles and Xie 2023, table 1; arXiv
# 2503.12964, table 1; NeMo). One of each form: the parameters of all sizes are in dit_test and cosmos_test.
DIT = {"XS": (6, 6, 32, 64), "B": (12, 12, 64, 256), "7B": (32, 24, 128, 0), "28B": (48, 48, 128, 256),
       "MovieGen-30B": (48, 48, 128, 256, 8, 16384 / 6144)}
COSMOS = {"predict1-7B": (28, 32, 368), "predict2-14B": (36, 40)}
# Parameters of Wan-AI's published weights; layers, width and hidden channels of their config.json.
WAN = {"1.3B": (1_418_996_800, 30, 1536, 8960, 16), "14B": (14_288_491_584, 40, 5120, 13824, 16),
       "5B": (4_999_787_712, 30, 3072, 14336, 48)}


def check_shapes():
    """Parameters and operations of named sizes are those of closed formulas, and of the published weights."""
    n, words, extent = 8 * 8 * 12, 32, (8, 16, 24)

    def planned(model, options):
        run_file(f'{{ use = "{model}", {options} }}')
        return plan("--cluster", "64x8xB200", "--latent", "x".join(map(str, extent)), "--best", 1, "--set",
                    "stdit.batch=512")

    def equal(name, ours, parameters, flops, bound=1e-12):
        assert ours["parameters"] == parameters, (name, ours["parameters"], parameters)
        assert abs(ours["flops"] / 3 / flops - 1) <= bound, (name, ours["flops"] / 3, flops)
        print(f"      {name}: {parameters / 1e9:.2f} B parameters, {flops / 1e12:.3f} TFLOP a forward")

    def of(name, ours, shape, seen):
        D, layers, token, text, sample, ends, conditioning, rest = shape
        pairs = seen + n * words
        equal(name, ours, layers * (token + text + sample) + ends + conditioning + rest,
              layers * (2 * (n * token + words * text + sample) + 4 * D * pairs) + 2 * n * ends + 2 * conditioning)

    for size, values in DIT.items():
        of(f"dit {size}", planned("dit", f'size = "{size}", text_size = 384'), dit(*values), n * n)
    for full, selves in ((True, 3), (False, 2)):
        seen = n * (8 * 12) + n * 8 + (n * n if full else 0)
        of(f"stdit B, {selves} self-attentions",
           planned("stdit", f'size = "B", text_size = 384, full_attention = {str(full).lower()}'),
           dit(*DIT["B"], signals=3, selves=selves), seen)
    for size, values in COSMOS.items():
        of(f"cosmos {size}", planned("cosmos", f'size = "{size}", text_size = 1024'), cosmos(*values), n * n)
    for size, (parameters, layers, D, F, channels) in WAN.items():
        # Text is projected once. The patch embedding is a convolution, which `inspect` does not count either.
        token, text, conditioning = 6 * D * D + 2 * D * F, 2 * D * D, 256 * D + D * D + 6 * D * D
        flops = layers * (2 * (n * token + words * text) + 4 * D
                          * (n * n + n * words)) + 2 * n * 4 * channels * D + 2 * conditioning + 2 * words * (
                              4096 * D + D * D)
        equal(f"wan {size}", planned("wan", f'size = "{size}", text_dim = 4096, in_channels = {channels}'), parameters,
              flops)


def theirs():
    """A third party's model, from the SDK's template, that reads a value of a tensor if CURIOUS is set."""
    folder = SCRATCH / "theirs"
    kinora("plugins", "new", "model", "theirs", folder)
    source = folder / "theirs.cpp"
    text = source.read_text()
    place = "    Tensor h = ctx.sequence("
    assert place in text, "the template is another one"
    source.write_text("#include <cstdlib>\n"
                      + text.replace(place, '    if (std::getenv("CURIOUS")) (void)x.sum().item();\n' + place))
    for command in (["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build",
                     f"-DCMAKE_PREFIX_PATH={ROOT / 'sdk'}", f"-DKINORA_PROGRAM={KINORA}"],
                    ["cmake", "--build", folder / "build"]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    return ["--plugins", folder / "build/lib/kinora/plugins"]


def check_theirs():
    """A model that the planner has never seen is planned from its calls; one that reads values is refused with the
    reason."""
    plugins = theirs()
    cluster = ["plan", RUN, "--cluster", "1x2xH100", "--latent", "4x6x10"]
    run_file('{ use = "theirs", channels = 8, width = 96, heads = 6, layers = 5 }')
    ours = json.loads(kinora(*plugins, *cluster, "--json"))
    D, n, layers = 96, 4 * 6 * 10, 5
    assert ours["tokens"] == n and ours["plans"][0]["fits"], ours
    assert ours["parameters"] == layers * 12 * D * D + D * (8 + 3 + 8) + D * (1 + 384), ours["parameters"]
    flops = layers * (2 * n * 12 * D * D + 4 * n * n * D) + 2 * n * D * (8 + 3 + 8) + 2 * D * (1 + 384)
    assert abs(ours["flops"] / 3 / flops - 1) < 1e-12, (ours["flops"] / 3, flops)
    layout = json.loads(kinora(*plugins, *cluster, "--explain", "tp=2", "--json"))
    assert layout["layout"] == "tp=2,micro=8" or layout["tp"] == 2, layout
    assert "heads = 6" in kinora(*plugins, "plan", RUN, "--cluster", "1x4xH100", "--latent", "4x6x10", "--explain",
                                 "tp=4", code=2)
    run_file('{ use = "theirs", channels = 8 }')
    os.environ["CURIOUS"] = "1"
    message = kinora(*plugins, *cluster, code=1)
    del os.environ["CURIOUS"]
    assert "model/theirs does not run on the meta device" in message and "depend on shapes alone" in message and len(
        message.splitlines()) == 1, message


def check_answer():
    """The 7B model on 8 nodes: the best layouts, their reasons, and a requested layout."""
    run_file('{ use = "dit", size = "7B-wide", in_channels = 16, out_channels = 16 }')
    cluster = ["--cluster", "8x8xH100", "--latent", "32x96x96"]
    found = plan(*cluster)
    best = found["plans"][0]
    assert found["tokens"] == 32 * 48 * 48 and found["gpus"] == 64 and len(found["plans"]) == 5, found
    assert best["cp"] == 8 and best["tp"] == 1 and best["fits"] and 0.3 < best["mfu"] < 0.5, best
    assert all(a["seconds"] <= 1.001 * b["seconds"] for a, b in zip(found["plans"], found["plans"][1:])), found["plans"]
    assert abs(sum(best["time"].values()) / best["seconds"]
               - 1) < 1e-6 and abs(sum(best["memory"].values()) / best["bytes"] - 1) < 1e-6, best
    text = kinora("plan", RUN, *cluster)
    for part in ("why the first of", "without cp: +", "fsdp alone: +", "in the train job", "accumulate = 8"):
        assert part in text, (part, text)
    one = plan(*cluster, "--explain", "tp=2,cp=4,pp=2,dp=4")
    assert one["layout"] == "pp=2,dp=4,cp=4,tp=2" and not one["fits"], one
    assert re.search(r"does not fit: .*; with recompute=1 .*, still too much",
                     kinora("plan", RUN, *cluster, "--explain", "dp=64"))
    nearest = re.search(r"Nearest legal: (\S+); or",
                        kinora("plan", RUN, *cluster, "--explain", "tp=16,dp=4", code=2)).group(1)
    assert plan(*cluster, "--explain", nearest)["layout"] == nearest
    for arguments, says in ((["--explain", "tp=16,dp=4"], "must share one. Nearest legal: "),
                            (["--explain", "tq=2"], "did you mean 'tp'?"),
                            (["--cluster", "8x8xH1000"], "did you mean 'H100'?"),
                            (["--cluster", "1x2xhere"], "kinora plan --calibrate"),
                            (["--latent", "32x96"], "as 21x90x160"), (["--job", "stdti"], "did you mean 'stdit'?"),
                            (["--best", 0], "--best must be 1 or more"),
                            (["--cluster", "1x1xcpu"], "nothing fits")):
        rest = [x for flag, value in zip(cluster[::2], cluster[1::2]) if flag not in arguments for x in (flag, value)]
        message = kinora("plan", RUN, *rest, *arguments, code=2)
        assert says in message and len(message.splitlines()) == 1, (arguments, message)
    assert "a run file is missing" in kinora("plan", code=2)


def check_own():
    """No slower layout is ranked before the file's own; a layout that is not legal or does not fit is not a
    candidate."""
    def found(parallel, latent="36x96x84"):
        return json.loads(kinora("plan", ROOT / "configs/quickstart.toml", "--cluster", "1x8xH100", "--latent", latent,
                                 "--json", "--set", "dit.batch=64",
                                 "--set", "dit.model.max_size=[36, 96, 84]", "--set", f"dit.parallel={parallel}"))
    alone = found('["single"]')
    assert "file" not in alone or "error" in alone["file"], alone
    for parallel, layout in (('["ddp"]', "dp=8,micro=8"),
                             ('[{ use = "cp-ring", size = 2 }, "ddp"]', "dp=4,cp=2,micro=16")):
        own = found(parallel)
        assert own["file"]["layout"] == own["plans"][0]["layout"] == layout, (own["file"], own["plans"][0])
        assert own["file"]["seconds"] < alone["plans"][0]["seconds"] and len(own["plans"]) == 5, own
    slower = found('[{ use = "tp", size = 2 }, "fsdp"]')
    assert slower["file"]["seconds"] > slower["plans"][0]["seconds"] and slower["plans"][0]["layout"] == alone["plans"][
        0]["layout"], slower


def check_bounds():
    """A latent that the model does not accept is refused; useless GPUs are reported."""
    quickstart = [ROOT / "configs/quickstart.toml", "--cluster", "1x8xH100"]
    message = kinora("plan", *quickstart, "--latent", "36x96x84", code=2)
    assert (
        "model/dit: a latent of 36 x 96 x 84 is larger than max_size, 3 x 12 x 16; raise max_size" in message), message
    fewer = json.loads(kinora("plan", *quickstart, "--json"))["fewer"]
    assert fewer["gpus"] < 8 and f"fewer GPUs are as fast: --cluster {fewer['cluster']}" in kinora(
        "plan", *quickstart), fewer
    run_file('{ use = "dit", size = "7B-wide", in_channels = 16, out_channels = 16 }')
    assert "fewer" not in plan("--cluster", "8x8xH100", "--latent", "32x96x96")


SMALL = (
    '{ use = "stdit", in_channels = 8, out_channels = 8, text_size = 384, layers = 4, heads = 4, head_size = 32, '
    'full_attention = false }')


def check_written():
    """The planned file is a valid run file: check accepts it, and plan finds its own answer in it."""
    run_file(SMALL, batch=8, more="\naccumulate = 2")
    planned = SCRATCH / "planned.toml"
    kinora("plan", RUN, "--cluster", "1x1xcpu", "--write", planned)
    text = planned.read_text()
    assert text.count("parallel = ") == 1 and text.count(
        "accumulate = ") == 1 and "# Attention within each frame" in text, text
    first = planned.rename(SCRATCH / "first.toml")
    shutil.copy(first, planned)
    assert "planned.toml exists already; give --write another name, or --force" in kinora(
        "plan", RUN, "--write", planned, code=2)
    kinora("plan", RUN, "--cluster", "1x2xcpu", "--write", planned, "--force")
    assert planned.read_text() != text and kinora("check", first,
                                                  planned).count(
                                                      "no errors") == 2, "a file for two ranks is valid on any machine"
    assert re.search(r"model/stdit: \d\.\d\d M parameters", kinora("plan", RUN, "--cluster", "1x2xcpu"))
    own = json.loads(kinora("plan", RUN, "--cluster", "1x2xcpu", "--set",
                            'stdit.parallel=["ddp", { use = "recompute", every = 2 }]', "--json"))["file"]
    assert own["layout"] == "dp=2,recompute=2,micro=2" and own["fits"], own


def check_precision():
    """Times of another precision are said to be bf16's. A layout that cuts a group of numbers, or that attends by
    itself where attention is FP8, is not legal."""
    run_file(
        '{ use = "dit", in_channels = 8, out_channels = 8, text_size = 384, layers = 4, heads = 4, head_size = 32 }',
        batch=8)
    cluster = ["--cluster", "1x2xH100", "--latent", "4x16x16"]
    few = ["--set",
           'stdit.precision={ use = "fp8", scaling = "block", attention = "fp8", high = ["embedding", "head"] }']
    def layouts(*more):
        found = plan(*cluster, "--best", 50, *more)
        return {"tp" if p["tp"] > 1 else "ulysses" if "cp-ulysses" in p["layout"] else "ring" if p["cp"] > 1
                else "other" for p in found["plans"]}, found
    (of_all, all_legal), (of_few, fewer) = layouts("--set", 'stdit.precision="bf16"'), layouts(*few)
    assert of_all == {"tp", "ulysses", "ring",
                      "other"} and of_few == {"ulysses",
                                              "other"} and fewer["legal"] < all_legal["legal"], (of_all, of_few)
    assert (all_legal["precision"], fewer["precision"]) == ("bf16", "fp8")
    for layout, words in (("tp=2", "only 1 tensor rank would do"),
                          ("cp=2", "cp-ring attends by itself and does not round")):
        message = kinora("plan", RUN, *cluster, *few, "--explain", layout, code=2)
        assert words in message and "Nearest legal: " in message and len(message.splitlines()) == 1, message
    line = "times and memory are those of bf16, and the job's precision is "
    assert line + "fp8" in kinora("plan", RUN, *cluster, *few, "--explain",
                                  "dp=2") and line not in kinora(
                                      "plan", RUN, *cluster, "--explain", "dp=2", "--set", 'stdit.precision="bf16"')
    assert "give one of them" in kinora("plan", RUN, *cluster, "--explain", "dp=2", "--write", SCRATCH / "none.toml",
                                        code=2)


def check_curation():
    """A small run's costs make the plan of a cluster. Its numbers are tested by planner_test and simulated_test."""
    RUN.write_text(f'[run]\nout = "{SCRATCH / "small"}"\n[[job]]\nname = "clips"\nkind = "curate"\n'
                   f'input = "{ROOT}/tests/data/bbb_*.mp4"\nstages = ["video.probe"]\n')
    cluster = ["--curate", "--cluster", "100x{cpus=8,memory=64GiB}"]
    assert "has no finished run of 'clips'" in kinora("plan", RUN, *cluster, code=1)
    kinora("run", RUN)
    found = plan(*cluster, "--inputs", 10**10, "--failures", 1, "--price", 2.5)
    assert 0.5 < found["of_bound"] <= 1 and found["limit"] == "cpus" and found["limit_stage"] == "video.probe", found
    mean = found["stages"][0]["seconds"]
    assert abs(found["bound_hours"] / (1e10 * mean / 800 / 3600) - 1) < 1e-3, found
    assert abs(found["cost"] / (2.5 * 100 * found["hours"]) - 1) < 1e-9 and found["failed_nodes"] > 0, found
    for arguments, says in ((cluster[:1], "--curate needs a cluster"), ([*cluster[:2], "8x8xH100"], "expected NODESx{"),
                            ([*cluster, "--failures", 2], "--failures is a share of the nodes a day, from 0 to 1"),
                            (["--cluster", "8x8xH100"], "has no train job; for a curate job: --curate"),
                            ([*cluster, "--latent", "1x2x3"], "--latent is for train jobs"),
                            ([*cluster, "--job", "clip"], "did you mean 'clips'?")):
        message = kinora("plan", RUN, *arguments, code=2)
        assert says in message and len(message.splitlines()) == 1, (arguments, message)


def check_page():
    """docs/train.md has the planner's seconds of a step and memory of a GPU, as it rounds them."""
    rows = re.findall(r"(?m)^\|.* (\d+) H100, (\d+) GiB each \|.*, ([\d.]+) s a step",
                      (ROOT / "docs/train.md").read_text())
    for size, latent, batch, nodes, row in (("1.3B", "21x60x104", 8, 1, rows[0]), ("14B", "21x90x160", 64, 8, rows[1])):
        run_file(f'{{ use = "wan", size = "{size}", text_dim = 384 }}', batch)
        best = plan("--cluster", f"{nodes}x8xH100", "--latent", latent, "--best", 1)["plans"][0]
        said = [float(number) for number in row]
        assert said[0] == 8 * nodes and abs(said[1] - sum(best["memory"].values()) / 2**30) < 1, (row, best)
        assert abs(said[2] / best["seconds"] - 1) < 0.03, (row, best)


def check_calibrate():
    measured = json.loads(kinora("plan", "--calibrate", "--json"))
    assert measured["peak"] > 1e9 and measured["memory_bandwidth"] > 1e8 and measured["link"] > 1e7 and 0 < measured[
        "latency"] < 0.1, measured
    assert json.loads((SCRATCH / "cache/kinora/machine.json").read_text()) == measured
    run_file(SMALL, batch=8)
    here = json.loads(kinora("plan", RUN, "--cluster", "1x2xhere", "--json"))
    assert here["plans"][0]["seconds"] > 0, here
    print("      a core:", measured)


for check in (check_answer, check_own, check_bounds, check_written, check_precision, check_shapes, check_theirs,
              check_page, check_curation, check_calibrate):
    check()
    print("ok   ", check.__name__)
