#!/usr/bin/env python3
"""kinora plan: its shapes equal those of `kinora inspect`, its answer can be written, and errors are reported. Nothing is trained.
usage: plan.py KINORA ROOT SCRATCH"""
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


def check_shapes():
    """Parameters and operations equal inspect's, for every named size of the models."""
    sizes = {"dit": ["XS", "S", "B", "L", "XL", "1B", "5B", "7B", "7B-wide", "28B", "MovieGen-30B"],
             "cosmos": ["predict1-7B", "predict2-2B"], "wan": ["1.3B", "14B"]}
    for model, names in sizes.items():
        for name in names:
            wide, text = {"dit": ("text_size", 384), "cosmos": ("text_size", 1024), "wan": ("text_dim", 4096)}[model]
            latent = (8, 16, 24)
            options = {"size": name, "in_channels": 16, "out_channels": 16, wide: text}
            sets = [s for k, v in options.items() for s in ("--set", f"{k}={v}")]
            found = json.loads(kinora("inspect", f"model/{model}", *sets, "--input", "latent=1x16x8x16x24", "--input", "timestep=1", "--input",
                                      f"text=1x32x{text}", "--json"))
            run_file(f'{{ use = "{model}", size = "{name}", {wide} = {text} }}')
            ours = plan("--cluster", "64x8xB200", "--latent", "x".join(map(str, latent)), "--best", 1, "--set", "stdit.batch=512")
            exact = 0 if model == "dit" else 0.02
            assert abs(ours["parameters"] / found["parameters"] - 1) <= exact, (model, name, ours["parameters"], found["parameters"])
            ratio = ours["flops"] / found["flops"]["training_step"]
            assert abs(ratio - 1) < 0.02, (model, name, ratio)
            print(f"      {model} {name}: {found['parameters'] / 1e9:.2f} B parameters, operations {100 * (ratio - 1):+.2f} %")


def check_answer():
    """The 7B model on 8 nodes: the best layouts, their reasons, and a requested layout."""
    run_file('{ use = "dit", size = "7B-wide", in_channels = 16, out_channels = 16 }')
    cluster = ["--cluster", "8x8xH100", "--latent", "32x96x96"]
    found = plan(*cluster)
    best = found["plans"][0]
    assert found["tokens"] == 32 * 48 * 48 and found["gpus"] == 64 and len(found["plans"]) == 5, found
    assert best["cp"] == 8 and best["tp"] == 1 and best["fits"] and 0.3 < best["mfu"] < 0.5, best
    assert all(a["seconds"] <= 1.001 * b["seconds"] for a, b in zip(found["plans"], found["plans"][1:])), found["plans"]
    assert abs(sum(best["time"].values()) / best["seconds"] - 1) < 1e-6 and abs(sum(best["memory"].values()) / best["bytes"] - 1) < 1e-6, best
    text = kinora("plan", RUN, *cluster)
    for part in ("why the first of", "without cp: +", "fsdp alone: +", "in the train job", "accumulate = 8"):
        assert part in text, (part, text)
    one = plan(*cluster, "--explain", "tp=2,cp=4,pp=2,dp=4")
    assert one["layout"] == "pp=2,dp=4,cp=4,tp=2" and not one["fits"], one
    assert re.search(r"does not fit: .*; with recompute=1 .*, still too much", kinora("plan", RUN, *cluster, "--explain", "dp=64"))
    nearest = re.search(r"Nearest legal: (\S+); or", kinora("plan", RUN, *cluster, "--explain", "tp=16,dp=4", code=2)).group(1)
    assert plan(*cluster, "--explain", nearest)["layout"] == nearest
    for arguments, says in ((["--explain", "tp=16,dp=4"], "must share one. Nearest legal: "), (["--explain", "tq=2"], "did you mean 'tp'?"),
                            (["--cluster", "8x8xH1000"], "did you mean 'H100'?"), (["--cluster", "1x2xhere"], "kinora plan --calibrate"),
                            (["--latent", "32x96"], "as 21x90x160"), (["--job", "stdti"], "did you mean 'stdit'?"), (["--best", 0], "--best must be 1 or more"),
                            (["--cluster", "1x1xcpu"], "nothing fits")):
        rest = [x for flag, value in zip(cluster[::2], cluster[1::2]) if flag not in arguments for x in (flag, value)]
        message = kinora("plan", RUN, *rest, *arguments, code=2)
        assert says in message and len(message.splitlines()) == 1, (arguments, message)
    assert "a run file is missing" in kinora("plan", code=2)


def check_own():
    """No slower layout is ranked before the file's own; a layout that is not legal or does not fit is not a candidate."""
    def found(parallel, latent="36x96x84"):
        return json.loads(kinora("plan", ROOT / "configs/quickstart.toml", "--cluster", "1x8xH100", "--latent", latent, "--json", "--set", "dit.batch=64",
                                 "--set", "dit.model.max_size=[36, 96, 84]", "--set", f"dit.parallel={parallel}"))
    alone = found('["single"]')
    assert "file" not in alone or "error" in alone["file"], alone
    for parallel, layout in (('["ddp"]', "dp=8,micro=8"), ('[{ use = "cp-ring", size = 2 }, "ddp"]', "dp=4,cp=2,micro=16")):
        own = found(parallel)
        assert own["file"]["layout"] == own["plans"][0]["layout"] == layout, (own["file"], own["plans"][0])
        assert own["file"]["seconds"] < alone["plans"][0]["seconds"] and len(own["plans"]) == 5, own
    slower = found('[{ use = "tp", size = 2 }, "fsdp"]')
    assert slower["file"]["seconds"] > slower["plans"][0]["seconds"] and slower["plans"][0]["layout"] == alone["plans"][0]["layout"], slower


def check_bounds():
    """A latent that the model does not accept is refused; useless GPUs are reported."""
    quickstart = [ROOT / "configs/quickstart.toml", "--cluster", "1x8xH100"]
    message = kinora("plan", *quickstart, "--latent", "36x96x84", code=2)
    assert "36 x 96 x 84 is larger than the max_size of model/dit, 3 x 12 x 16; raise max_size" in message, message
    fewer = json.loads(kinora("plan", *quickstart, "--json"))["fewer"]
    assert fewer["gpus"] < 8 and f"fewer GPUs are as fast: --cluster {fewer['cluster']}" in kinora("plan", *quickstart), fewer
    run_file('{ use = "dit", size = "7B-wide", in_channels = 16, out_channels = 16 }')
    assert "fewer" not in plan("--cluster", "8x8xH100", "--latent", "32x96x96")


SMALL = '{ use = "stdit", in_channels = 8, out_channels = 8, text_size = 384, layers = 4, heads = 4, head_size = 32, full_attention = false }'


def check_written():
    """The planned file is a valid run file: check accepts it, and plan finds its own answer in it."""
    run_file(SMALL, batch=8, more="\naccumulate = 2")
    planned = SCRATCH / "planned.toml"
    kinora("plan", RUN, "--cluster", "1x1xcpu", "--write", planned)
    text = planned.read_text()
    assert text.count("parallel = ") == 1 and text.count("accumulate = ") == 1 and "# Attention within each frame" in text, text
    assert "no errors" in kinora("check", planned)
    assert "planned.toml exists already; give --write another name, or --force" in kinora("plan", RUN, "--write", planned, code=2)
    kinora("plan", RUN, "--cluster", "1x2xcpu", "--write", planned, "--force")
    assert planned.read_text() != text and "no errors" in kinora("check", planned), "a file for two ranks is valid on any machine"
    assert re.search(r"model/stdit: \d\.\d\d M parameters", kinora("plan", RUN, "--cluster", "1x2xcpu"))
    own = json.loads(kinora("plan", RUN, "--cluster", "1x2xcpu", "--set", 'stdit.parallel=["ddp", { use = "recompute", every = 2 }]', "--json"))["file"]
    assert own["layout"] == "dp=2,recompute=2,micro=2" and own["fits"], own


def check_calibrate():
    measured = json.loads(kinora("plan", "--calibrate", "--json"))
    assert measured["peak"] > 1e9 and measured["memory_bandwidth"] > 1e8 and measured["link"] > 1e7 and 0 < measured["latency"] < 0.1, measured
    assert json.loads((SCRATCH / "cache/kinora/machine.json").read_text()) == measured
    run_file(SMALL, batch=8)
    here = json.loads(kinora("plan", RUN, "--cluster", "1x2xhere", "--json"))
    assert here["plans"][0]["seconds"] > 0, here
    print("      a core:", measured)


for check in (check_answer, check_own, check_bounds, check_written, check_shapes, check_calibrate):
    check()
    print("ok   ", check.__name__)
