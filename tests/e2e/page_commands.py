#!/usr/bin/env python3
"""The commands that README.md, docs/ and sdk/README.md show work as they are written, on small inputs of the names that
they use.
A command that is neither run here nor named below with a reason is an error. usage: page_commands.py KINORA ROOT
SCRATCH"""
import concurrent.futures, json, os, pathlib, re, resource, shlex, shutil, signal, subprocess, sys, time

import numpy as np
import safetensors
import safetensors.numpy

KINORA, ROOT, SCRATCH = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(
    sys.argv[3]).resolve()
sys.path.append(str(ROOT / "tests/support"))
import quick
from pages import commands_of

PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")), "sdk/README.md"]
DATA = ROOT / "tests/data"
COSMOS = DATA / "oracle/cosmos_dit.safetensors"  # a small model with its options


def sets(*values):
    return " ".join(f"--set {shlex.quote(value)}" for value in values)


# The video is named as it was for the test `quick`, whose run is continued.
FEW = sets(f"clips.input={DATA / 'film.mp4'}", *quick.FEW, "dit.batch=1", "dit.model.layers=1", "dit.steps=2",
           "film.sampler.steps=2")
SMALL = sets(*(f"{name}={json.dumps(value)}"
               for name, value in json.loads(safetensors.safe_open(COSMOS, "np").metadata()["a"]).items()))

# Words that are added to commands that would take more than three seconds, or that would need large weights: pattern,
# words. All others run as they are written.
ADDED = [
    (r"kinora run configs/curate\.toml$", "--dry-run"),
    (r"kinora run configs/curate\.toml --set clips\.lease=60( --set clips\.lease_at=\S+)?$", "--dry-run"),
    (r"kinora run configs/long-video\.toml( --only dit)?( --set \S+)?$", "--dry-run"),
    (r"kinora run configs/curate\.toml --only shards$", "--set clips.input=tests/data/bbb_A.mp4"),
    (r"kinora run configs/nvfp4\.toml$", "--dry-run"),
    (r"kinora run configs/quickstart\.toml$", FEW),
    (r"kinora generate configs/quickstart\.toml --prompt", FEW),
    (r"kinora generate configs/quickstart\.toml --from", FEW),
    (r"kinora launch -n 4 -- run configs/many-ranks\.toml$", "--only clips --dry-run"),
    (r"kinora generate --pipeline Wan2\.1-T2V", sets("steps=2", "frames=9", "height=32", "width=48")),
    (r"kinora convert IN OUT ", SMALL),
]
# Commands that are not run: pattern, reason.
NOT_RUN = [
    (r"(bash )?packaging/dev\.sh \w+", "sets up or builds; that dev.sh has the command is checked here"),
    (r"KINORA_PRESET=cuda packaging/dev\.sh build$", "needs CUDA"),
    (r"cmake --install build/dev --prefix DIR$", "the test `installed` installs"),
    (r"pip install --no-deps torch==|KINORA_ASSETS=FOLDER kinora run DIR/",
     "is of an installation: the test `installed`"),
    (r"apt install --no-install-recommends ca-certificates |KINORA_ASSETS=assets kinora-|tar -xzf kinora-|"
     r"python3 -m venv env|mkdir assets|python3 kinora-|pip install kinora-|pip install 'ray>=",
     "is of a release: the tests `installed` and `bare_root` use one"),
    (r"pip install py-rattler|python3 packaging/conda/local\.py",
     "makes conda packages: the test `conda_recipe` renders the recipe"),
    (r"kinora plugins lock |kinora run my/video|kinora --plugins-lock ", "plugins.lock: the test `command_line`"),
    (r"kinora plugins validate (build|mine/build|FILE)", "the checks of a plugin: the test `broken_plugins`"),
    (r"cmake --build colourful/build|kinora --plugins \S+/build/",
     "builds a plugin: the tests `sdk_template`, `sdk_parallel`"),
    (r"srun |sbatch ", "needs Slurm: the test `slurm` sets its variables, the test `slurm_daemons` has its daemons"),
    (r"kinora bench( parallel| block --device cuda --tokens 8192)?$", "takes minutes, or a GPU: the test `bench`"),
    (r"python3 tests/oracle/cuts_oracle\.py ", "takes minutes: the tests `cuts_oracle_all_1` to `_5`"),
    (r"export VIRTUAL_ENV=\$PWD/\.deps/ray |build/dev/bin/kinora run my\.toml --set 'run\.engine=\{ use = \"ray\"",
     "needs Ray: the test `ray` sets these variables"),
    (r"kinora (curate|init) ", "look at a folder: the test `first`"),
    (r"kinora studio runs/videos$", "of what `kinora curate` makes; as with runs/quickstart"),
    (r"python3 tests/e2e/serve_time\.py ", "measures for minutes: the test `serve_time`"),
    (r"kinora plan --calibrate$", "measures for a minute: the test `plan`"),
    (r"kinora plan my\.toml ", "the first command of docs/plan.md with other words: the test `plan`"),
    (r"kinora launch -n 4 -- run my\.toml", "as with configs/many-ranks.toml"),
    (r"kinora run my\.toml --set ", "options of a train job: the tests `configs`, `check`, `ddp`"),
    (r"kinora check my\.toml", "as with configs/quickstart.toml: the test `check`"),
    (r"kinora run configs/quickstart\.toml --(set|only) ", "as without these words: the tests `quickstart`, `running`"),
    (r"kinora generate configs/flow\.toml|kinora generate my\.toml", "trains first: the test `configs`"),
    (r"kinora generate configs/long-video\.toml", "trains first: the tests `configs`, `long_video_shots`"),
    (r"vllm serve ", "another program: the test `endpoint` has a server of its own"),
    (r"kinora generate --pipeline Wan2\.1-I2V", "as with T2V: the test `engine`"),
    (r"kinora apply tokenizer/cosmos ", "as with sampler/edm-heun: the test `networks`"),
    (r"kinora apply loss/dmd ", "as with other numbers: the test `networks`"),
    (r"kinora serve |curl ", "a server and its clients: the test `serve`"),
    (r"kinora data verify s3://", "needs a server: the test `data` verifies folders"),
    (r"kinora data order my\.toml", "the test `loading`"),
    (r"cut -c -300 runs/|sqlite3 runs/|mkdir videos$|cp tests/data/bbb_A|echo text > |kinora run small\.toml$|"
     r"\(cd runs/.* && sha256sum|kinora convert two\.safetensors ",
     "docs/formats: the test `formats` compares what they print"),
    (r"kinora inspect packed/", "the output of a command that is not run: the test `packed_oracle`"),
    (r"kinora convert runs/nvfp4/|kinora convert base\.safetensors small --precision nvfp4$",
     "matrices of at least 16 columns: the tests `configs`, `torch_test`"),
    (r'kinora search runs/curate "a boat at sea"', "needs the vectors of captions: the test `curate`"),
    (r"cmake -S |kinora --plugins build/|touch colourful/plugin\.toml$|cmake --build build --target colourful",
     "builds a plugin: the tests `sdk_template`, `sdk_parallel`"),
    (r'cp "<kinora|mkdir -p plugins/pure_c_stage$|gcc |kinora plugins manifest plugins/pure_c_stage|'
     r'kinora --plugins plugins ', "a stage in plain C: `check_stage_in_c` of the test `running`"),
]
# Lines of such blocks that are not commands.
NO_COMMANDS = [r"[narxu] {10}",  # keys of the studio
               r"The run is in runs/quickstart|runs/quickstart/\S+ {3}",
               r"(shard-000000\.tar|shard-000000\.tar\.idx|\.nv-meta/) "]


def weights_of(case, file):
    """Writes the weights of a case of the oracle's small Cosmos model."""
    with safetensors.safe_open(COSMOS, "np") as held:
        safetensors.numpy.save_file({k.split(".", 2)[2]: held.get_tensor(k)
                                     for k in held.keys() if k.startswith(f"{case}.weight.")}, file)


def prepare():
    """Makes a folder in which the names exist that the pages use: the quickstart's run, a published pipeline, weights,
    an adapter, tensors."""
    shutil.rmtree(SCRATCH, ignore_errors=True)
    (SCRATCH / "runs/my/dit").mkdir(parents=True)
    for name, target in (("configs", ROOT / "configs"), ("tests", ROOT / "tests"),
                         ("Wan2.1-T2V-1.3B-Diffusers", DATA / "oracle/wan_t2v"),
                         ("runs/my/dit/adapter", DATA / "oracle/peft_dit_a"),
                         ("transformer", DATA / "oracle/wan_t2v/transformer"),
                         ("lora.safetensors", DATA / "oracle/adapters/comfyui.safetensors")):
        (SCRATCH / name).symlink_to(target)
    quick.begun(KINORA, ROOT, SCRATCH / "begun").rename(SCRATCH / "runs/quickstart")
    shutil.copytree(SCRATCH / "runs/quickstart/shards", SCRATCH / "shards")
    weights_of("a", SCRATCH / "base.safetensors")
    shutil.copy(SCRATCH / "base.safetensors", SCRATCH / "IN")
    wan = json.loads((DATA / "oracle/wan_t2v/transformer/config.json").read_text())
    safetensors.numpy.save_file({"latent": np.zeros((1, wan["in_channels"], 2, 4, 4), np.float32),
                                 "timestep": np.zeros(1, np.float32),
                                 "text": np.zeros((1, 3, wan["text_dim"]), np.float32)}, SCRATCH / "in.safetensors")
    safetensors.numpy.save_file({"mean": np.zeros((1, 2)), "std": np.ones(1), "weight": np.ones(1),
                                 "noise": np.ones((1, 2))}, SCRATCH / "mixture.safetensors")
    safetensors.numpy.save_file({"x": np.eye(32, 64, dtype=np.float32)}, SCRATCH / "matrix.safetensors")
    safetensors.numpy.save_file({"x": np.eye(32, 64), "weight": np.eye(48, 64), "grad_output": np.eye(32, 48)},
                                SCRATCH / "layer.safetensors")


def shown():
    """{command: where}: each command of the pages once, in their order."""
    out = {}
    for page in PAGES:
        for line, command in commands_of((ROOT / page).read_text()):
            if not any(re.match(pattern, command) for pattern in NO_COMMANDS):
                out.setdefault(command, f"{page}:{line}")
    return out


def chain_of(command):
    """Commands of one run folder, or that make one name, follow each other; all others can run together."""
    for chain in ("quickstart", "curate", "kinora data", "plugins new"):
        if chain in command:
            return chain
    return command


def run(command):
    """Runs a command, with the words of ADDED. Returns an error, or an empty text."""
    words = command + "".join(f" {added}" for pattern, added in ADDED if re.match(pattern, command))
    if made := re.match(r"kinora plugins new \w+ (\S+)", command):
        shutil.rmtree(SCRATCH / made[1], ignore_errors=True)  # another page has made it
    environment = {**os.environ, "PATH": f"{KINORA.parent}:{os.environ['PATH']}",
                   "XDG_CACHE_HOME": str(SCRATCH / "cache")}
    if command.startswith("kinora studio "):
        return run_studio(words, environment)
    done = subprocess.run(["bash", "-c", words], cwd=SCRATCH, env=environment, capture_output=True, text=True,
                          timeout=300)
    return f"{words}: exit {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}" if done.returncode else ""


def run_studio(words, environment):
    """Ends the studio with Ctrl-C as soon as it prints its address."""
    process = subprocess.Popen(shlex.split(words), cwd=SCRATCH, env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    address = next((line for line in process.stdout if "http://127.0.0.1:" in line), "")
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[0]
    return "" if address and process.returncode in (
        0, 130) else f"{words}: exit {process.returncode}, {address!r}\n{rest[-1500:]}"


def run_chain(commands):
    """[(command, error)]. A command that needs an earlier one of its chain fails after it."""
    return [(command, error) for command in commands if (error := run(command))]


def stale_patterns(commands):
    """Patterns of the tables that no command of a page needs."""
    return [pattern for pattern, _ in ADDED + NOT_RUN if not any(re.match(pattern, command) for command in commands)]


def check_setup_commands(commands):
    """What the pages ask of packaging/dev.sh is in its usage."""
    script = (ROOT / "packaging/dev.sh").read_text()
    for command in commands:
        if word := re.match(r"(?:bash )?packaging/dev\.sh ([\w-]+)", command):
            if not re.search(rf"(?m)^ +([\w-]+ \| )*{word[1]}( \| [\w-]+)*\)", script):
                yield command, f"packaging/dev.sh has no command {word[1]}"


def main():
    commands = shown()
    is_named = lambda command: any(re.match(pattern, command) for pattern, _ in NOT_RUN)
    failures = list(check_setup_commands(commands)) + [(pattern, "no page shows such a command; remove the pattern")
                                                       for pattern in stale_patterns(commands)]
    chains = {}
    for command in commands:
        if is_named(command):
            continue
        if not command.startswith("kinora "):
            failures.append((command, "is neither run nor named with a reason in NOT_RUN"))
        else:
            chains.setdefault(chain_of(command), []).append(command)
    prepare()
    # The studio and the search read the run of configs/curate.toml, which page order makes later.
    chains["curate"].sort(key=lambda command: not command.startswith("kinora run"))
    chains["quickstart"].sort(key=lambda command: "--from" in command)
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for found in pool.map(run_chain, sorted(chains.values(), key=len, reverse=True)):
            failures += found
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    for command, error in failures:
        print(f"WRONG {commands.get(command, 'page_commands.py')}: {command}: {error}", flush=True)
    ran = sum(map(len, chains.values()))
    print(
        f"{ran} commands run, {sum(map(is_named, commands))} named; {len(failures)} failures; "
        f"{time.monotonic() - start:.1f} s, "
          f"{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.1f} s of a core")
    assert ran > 15, ran
    sys.exit(bool(failures))


main()
