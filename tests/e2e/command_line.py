#!/usr/bin/env python3
"""The plugins as the program shows them: list, inspect, validate, manifests, plugins that cannot be used; and
completion. usage: command_line.py KINORA ROOT SCRATCH"""
import fcntl, json, os, pathlib, pty, re, shutil, struct, subprocess, sys, termios, tomllib

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
DATA = ROOT / "tests/data"
# Options of models and tokenizers that are small enough for every check of `plugins validate`.
SMALL = (
    "layers=2 heads=2 head_size=12 channels=8 text_size=16 num_attention_heads=2 attention_head_dim=12 num_layers=1 "
    "ffn_dim=32 text_dim=16 hidden_size=32 "
         "intermediate_size=64 num_hidden_layers=1 projection_dim=16 vocab_size=50 eos_token_id=1 image_size=28 "
         "d_model=32 d_ff=48 d_kv=8 num_heads=4 n_layers=2 "
         "dim=32 n_heads=4 n_kv_heads=2 head_dim=12 ffn_hidden_size=48 base_dim=8")


def kinora(*arguments, code=0):
    done = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{arguments}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done.stdout


def check_plugins():
    version = kinora("--version")
    head = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True,
                          text=True).stdout.strip() if (ROOT / ".git").exists() else ""
    for line in (r"kinora \d+\.\d+\.\d+", rf"commit +{head}(\+changes)?\n" if head else "", r"build +\S+", r"abi +1\.0",
                 r"libtorch 2\.11", r"ffmpeg +\d"):
        assert re.search(line, version), (line, version)
    listed = json.loads(kinora("plugins", "list", "--json"))
    for c in listed:
        assert {"id", "kind", "plugin", "version", "abi", "tier", "state"} <= c.keys(), c
        assert c["state"] == "ready" and c["id"] == f"{c['kind']}/{c['name']}", c
    ids = {c["id"] for c in listed}
    assert {"storage/file", "engine/local", "stage/video.read", "stage/video.probe", "stage/shots.content",
            "stage/clip.transcode",
            "stage/caption.describe", "stage/shard.webdataset", "source/webdataset", "tokenizer/cosmos", "model/cosmos",
            "model/dit", "model/stdit", "loss/edm", "sampler/edm-heun",
            "sampler/euler", "parallel/single", "parallel/ddp", "parallel/recompute", "collective/gloo",
            "precision/fp32",
            "precision/bf16"} <= ids, ids
    for id in sorted(ids):
        one = json.loads(kinora("plugins", "inspect", id, "--json"))
        assert one["id"] == id and all(o["help"] for o in one["options"]), one
        if one["kind"] in ("tokenizer", "model", "loss", "sampler", "score", "precision"):
            assert one["methods"] and one["inputs"] and one["outputs"], one
            assert all(t["name"] and (t["shape"] or t["dtype"] == "none") and t["dtype"]
                       for t in one["inputs"] + one["outputs"]), one
    for id in {c["kind"]: c["id"] for c in listed}.values():  # the text output, one component of each kind
        assert id in kinora("plugins", "inspect", id)
    for kind, word in (("curate", "stages"), ("shard", "memory"), ("train-tokenizer", "ema"), ("encode", "words"),
                       ("train", "warmup"),
                       ("generate", "negative"), ("report", "report.html")):
        assert word in kinora("plugins", "inspect", f"job/{kind}"), kind
    assert kinora("plugins", "inspect", "dedup.semantic") == kinora("plugins", "inspect", "stage/dedup.semantic")
    assert kinora("plugins", "inspect", "dedup") == kinora("plugins", "inspect",
                                                           "job/dedup") and "endpoint" in kinora(
                                                               "plugins", "inspect", "storage/s3")
    for word, said in (("storage-s3", "'storage-s3' is a plugin; give one of its components: storage/s3"),
                       ("wordpiece", "unknown component 'wordpiece'")):
        wrong = subprocess.run([KINORA, "plugins", "inspect", word], capture_output=True, text=True)
        assert wrong.returncode == 2 and said in wrong.stderr, wrong
    wrong = subprocess.run([KINORA, "plugins", "inspect", "model/dti"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "did you mean 'model/dit'?" in wrong.stderr, wrong
    check_validate(listed)


def check_validate(listed):
    """Every plugin passes every check. A plugin that needs libtorch is validated in one process with all that do, as a
    link to it in one folder; the others in a process of their own, without libtorch."""
    libraries = {pathlib.Path(c["library"]) for c in listed}
    tensors = {pathlib.Path(c["library"]) for c in listed
               if c["tier"] != "stable" or c["kind"] in ("sampler", "loss", "optimizer", "model", "tokenizer",
                                                         "precision", "score", "cache", "collective")}
    folder = SCRATCH / "with libtorch/lib/kinora/plugins"
    for library in tensors:
        shutil.copytree(library.parent, folder / library.parent.name, copy_function=os.link)
    # plugins find them three folders up
    for shared in pathlib.Path(KINORA).resolve().parents[1].glob("lib/libkinora*.so*"):
        (folder.parents[1] / shared.name).symlink_to(shared)
    validated = []
    for path in [folder, *sorted(libraries - tensors)]:
        # jobs_ranks_test compares the strategies with one process
        told = json.loads(subprocess.run([KINORA, "plugins", "validate", path, "--json", "--exclude", "strategy",
                                          *(word for option in SMALL.split() for word in ("--set", option))],
                                         capture_output=True, text=True, timeout=600).stdout)
        for one in told if path == folder else [told]:
            wrong = [c for c in one["checks"] if not c["ok"] and c["component"] != "engine/ray"]  # which needs Ray
            assert one["checks"] and not wrong, wrong
            validated.append(pathlib.Path(one["library"]).name)
    assert sorted(validated) == sorted(library.name for library in libraries) and len(tensors) > 30, validated


def check_markdown():
    """The page of a component has a row for each input, output and option of its manifest, with four cells each."""
    for id in ("model/dit", "stage/shots.content"):
        folder = pathlib.Path(json.loads(kinora("plugins", "inspect", id, "--json"))["library"]).parent
        one = next(c for c in tomllib.loads((folder / "plugin.toml").read_text())["component"] if c["id"] == id)
        page = kinora("plugins", "inspect", id, "--markdown")
        assert page.startswith(f"### `{id}`\n\n{one['help']}\n\n| "), page
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in page.splitlines() if line.startswith("|")]
        assert all(len(row) == 4 for row in rows), rows
        first = [row[0].strip() for row in rows if set(row[0]) != {"-"}]
        wanted = [name for part in ("input", "output", "option") if part in one for name in (part, *one[part])]
        assert first == wanted and len(one["option"]) > 10, (first, wanted)
        help_of = {row[0].strip(): row[3].strip() for row in rows[-len(one["option"]):]}
        assert all(help_of[name] == option["help"].replace("|", "\\|")
                   for name, option in one["option"].items()), help_of


def check_missing_library():
    """A plugin that lacks a library is disabled before any run; list, inspect and check all report why."""
    folder = SCRATCH / "plugins/missing_library"
    folder.mkdir(parents=True)
    shutil.copy(pathlib.Path(KINORA).parents[1] / "tests/abi/libmissing_library.so", folder)
    (folder / "plugin.toml").write_text(
        '[plugin]\nname = "missing_library"\nversion = "0.1.0"\nabi = "1.0"\ntier = "stable"\n'
                                        '[[component]]\nid = "stage/minimal"\nhelp = "of a test"\n')
    why = "requires libkinora_absent.so.3, which is not installed; install"
    listed = {c["id"]: c for c in json.loads(kinora("--plugins", folder.parent, "plugins", "list", "--json"))}
    assert listed["stage/minimal"]["state"] == "disabled" and why in listed["stage/minimal"]["reason"], listed[
        "stage/minimal"]
    assert all(c["state"] == "ready" for id, c in listed.items() if id != "stage/minimal")
    assert why in kinora("--plugins", folder.parent, "plugins", "inspect", "stage/minimal")
    run = SCRATCH / "minimal.toml"
    run.write_text(
        '[run]\nname = "minimal"\nout = "out"\n[[job]]\nname = "a"\nkind = "curate"\ninput = "."\nstages = [{ use = '
        '"minimal" }]\n')
    checked = subprocess.run([KINORA, "--plugins", str(folder.parent), "check", str(run)], capture_output=True,
                             text=True)
    assert checked.returncode == 2 and why in checked.stdout + checked.stderr, checked


def check_plugins_lock():
    """A plugin that differs from the plugins.lock next to a run file, or from that of --plugins-lock, is not opened, in
    a worker process neither."""
    folder, video = SCRATCH / "locked", DATA / "film.mp4"
    folder.mkdir()
    lock, run = folder / "plugins.lock", folder / "run.toml"
    assert re.fullmatch(r".*/plugins\.lock: \d\d plugins\n", kinora("plugins", "lock", lock))
    run.write_text(f'[run]\nname = "locked"\n[[job]]\nkind = "curate"\ninput = "{video}"\nstages = ["video.probe"]\n')
    commands = (["check", run], ["--plugins-lock", lock, "apply", "stage/video.probe", video])
    for command in commands:
        kinora(*command)
    digest = re.search(r'\[plugin\."video"\]\nversion = .*\nlibrary = "(\w+)"', lock.read_text())[1]
    lock.write_text(lock.read_text().replace(digest, "0" * 64))
    for command in commands:
        wrong = subprocess.run([KINORA, *map(str, command)], capture_output=True, text=True)
        said = f"libvideo.so has SHA-256 {digest}, expected {'0' * 64} as in {lock.resolve()}"
        assert wrong.returncode and said in wrong.stderr, wrong
    told = json.loads(kinora("--plugins-lock", lock, "plugins", "list", "--json"))
    assert {c["state"] for c in told if c["plugin"] == "video"} == {"disabled"}, told
    assert all(said in c["reason"] for c in told if c["plugin"] == "video")
    assert all(c["state"] == "ready" for c in told if c["plugin"] != "video"), told
    # as it stands, this makes the lock right
    renew = re.search(r"renew the lock: kinora (--plugins \S+ plugins lock \S+)", wrong.stderr)[1]
    kinora(*renew.split())
    kinora(*commands[0])


def check_broken_twin():
    """A folder whose library is missing hides nothing from another one with the same plugin name."""
    library = pathlib.Path(next(c["library"]
                                for c in json.loads(kinora("plugins", "list", "--json"))
                                if c["id"] == "sampler/edm-heun"))
    folder = SCRATCH / "twin/broken"
    folder.mkdir(parents=True)
    shutil.copy(library.with_name("plugin.toml"), folder)
    for word in ("sampler/edm-heun", "edm-heun"):
        said = kinora("--plugins", folder.parent, "plugins", "inspect", word)
        assert f"library  {library}" in said and "state    ready" in said, said
    assert f"{folder}/{library.name}" in kinora("--plugins", folder.parent, "plugins", "list")
    copy = SCRATCH / "twin/none/plugin.toml"  # without another plugin of its name, the broken one is shown
    copy.parent.mkdir()
    copy.write_text(
        '[plugin]\nname = "lonely"\nversion = "0.1.0"\nabi = "1.0"\ntier = "stable"\n[[component]]\nid = '
        '"stage/lonely"\nhelp = "of a test"\n')
    assert "state    disabled" in kinora("--plugins", copy.parent, "plugins", "inspect", "stage/lonely")


def check_taken_over():
    """A plugin that takes over one of Kinora's own is named in one warning, with both folders, by check and run."""
    library = pathlib.Path(next(c["library"]
                                for c in json.loads(kinora("plugins", "list", "--json")) if c["id"] == "engine/local"))
    taken = SCRATCH.resolve() / "taken" / library.parent.name
    shutil.copytree(library.parent, taken)
    run = SCRATCH / "taken.toml"
    run.write_text(
        f'[run]\nout = "{SCRATCH / "taken-out"}"\n[[job]]\nname = "clips"\nkind = "curate"\ninput = '
        f'"{DATA / "film.mp4"}"\nstages = ["video.probe"]\n')
    for words, code in ((["check", run], 0), (["run", run, "--dry-run"], 0)):
        done = subprocess.run([KINORA, "--plugins", str(taken.parent), *map(str, words)], capture_output=True,
                              text=True)
        assert done.returncode == code, done
        lines = [line for line in done.stderr.splitlines() if "engine/local: the plugin in " in line]
        assert len(lines) == 1 and str(taken) in lines[0] and str(library.parent) in lines[0], done
    assert "the plugin in" not in subprocess.run([KINORA, "check", str(run)], capture_output=True, text=True).stderr


def check_drafts():
    """Components of kinds that may still change are marked; one of another draft is disabled, and says so."""
    listed = {c["id"]: c for c in json.loads(kinora("plugins", "list", "--json"))}
    for id, draft in (("engine/local", True), ("model/dit", True), ("stage/video.probe", False),
                      ("sampler/edm-heun", False)):
        assert listed[id]["draft"] == draft, listed[id]
    line = next(line for line in kinora("plugins", "list", "engine").splitlines() if line.startswith("engine/local"))
    assert " draft " in line, line
    assert "draft    kinora.model/1-draft." in kinora("plugins", "inspect",
                                                      "model/dit") and "draft  " not in kinora(
                                                          "plugins", "inspect", "stage/video.probe")
    folder = SCRATCH / "drafts/other"
    folder.mkdir(parents=True)
    shutil.copy(pathlib.Path(KINORA).parents[1] / "tests/abi/libminimal.so", folder / "libother.so")
    (folder / "plugin.toml").write_text(
        '[plugin]\nname = "other"\nversion = "0.1.0"\nabi = "1.0"\ntier = "stable"\nlicence = "MIT"\n'
                                        '[[component]]\nid = "model/other"\nhelp = "of a test"\ninterface = '
                                        '"kinora.model/1-draft.0"\n')
    done = subprocess.run([KINORA, "--plugins", str(folder.parent), "plugins", "list", "model"], capture_output=True,
                          text=True)
    assert ("model/other is disabled:" in done.stdout
            and "is built for kinora.model/1-draft.0, this Kinora has " in done.stdout), done
    assert done.stderr.count("unknown key 'licence' in [plugin]") == 1, done
    said = kinora("plugins", "validate", folder / "libother.so", code=1)
    assert "unknown key 'licence' in [plugin]" in said and "is built for kinora.model/1-draft.0" in said, said


def check_use_lines():
    """The line for a run file that inspect prints is valid in one, for every kind."""
    recipe = pathlib.Path(ROOT) / "configs/quickstart.toml"
    places = {"stage": "clips", "engine": "clips", "tokenizer": "tokenizer", "score": "tokenizer"}
    # The defaults of a model and of a tokenizer do not match the other components. All others fit together.
    together = ("storage/s3", "storage/file", "engine/local", "stage/video.probe", "loss/edm", "sampler/edm-heun",
                "parallel/ddp", "precision/bf16", "collective/gloo",
                "score/psnr", "optimizer/adamw")
    for ids in (together, ("tokenizer/cosmos",), ("model/dit",)):
        text, sets = recipe.read_text().replace("../", f"{ROOT}/"), []
        for id in ids:
            kind, use = id.split("/")[0], [line.strip()
                                           for line in kinora("plugins", "inspect",
                                                              id).split("in a run file\n")[1].splitlines()]
            if kind == "storage":
                assert use[0] == f"[{id.replace('/', '.')}]", use
                text += "\n".join(["", *use, ""])
            else:
                assert len(use) == 1 and use[0].startswith(kind), use
                sets += ["--set", f"{places.get(kind, 'dit')}.{use[0].replace(' = ', '=', 1)}"]
        file = SCRATCH / "use.toml"
        file.write_text(text)
        said = subprocess.run([KINORA, "check", str(file), *sets], capture_output=True, text=True, cwd=ROOT)
        # it was parsed
        unfit = ids != together and "in_channels is" in said.stderr and (
            ": 1 error" in said.stderr
            or (": 2 errors" in said.stderr and "the start by principal components" in said.stderr))
        assert said.returncode == 0 or unfit, (ids, sets, said)


def check_manifest_is_written_whole():
    """A manifest is replaced in one step: a hard link to the old one keeps the old text. If it cannot be written,
    nothing changes."""
    library = next(c["library"]
                   for c in json.loads(kinora("plugins", "list", "--json")) if c["id"] == "sampler/edm-heun")
    out, older = SCRATCH / "manifest/plugin.toml", SCRATCH / "older.toml"
    out.parent.mkdir()
    out.write_text("older")
    older.hardlink_to(out)
    kinora("plugins", "manifest", library, "--out", out)
    assert out.read_text() == pathlib.Path(library).with_name(
        "plugin.toml").read_text() and older.read_text() == "older"
    assert [p.name for p in out.parent.iterdir()] == ["plugin.toml"]
    kinora("plugins", "manifest", library, "--out", SCRATCH / "nowhere/plugin.toml", code=1)
    wrong = subprocess.run([KINORA, "plugins", "manifest",
                            pathlib.Path(KINORA).parents[1] / "tests/abi/libwrong_describe.so", "--out", out],
                           capture_output=True, text=True)
    assert wrong.returncode == 1 and "describe() functions write is wrong: plugin.toml:" in wrong.stderr, wrong
    assert "edm-heun" in out.read_text(), "an invalid manifest was written"


def check_a_plugin_that_cannot_be_read():
    """The message about an unknown component gives the reason why another plugin cannot be read; validate finds a
    library with a wrong file name."""
    broken = SCRATCH / "broken plugins/mine"
    broken.mkdir(parents=True)
    (broken / "plugin.toml").write_text("name = 5\n")
    said = subprocess.run([KINORA, "--plugins", broken.parent, "plugins", "inspect", "stage/mine"], capture_output=True,
                          text=True).stderr
    assert "1 plugin cannot be read: " in said and "plugin.toml:1" in said, said
    file = SCRATCH / "kinds.toml"
    for text, unknown in (('kind = "mine"', "unknown kind of job 'mine'"),
                          ('kind = "curate"\ninput = "x.mp4"\nstages = ["qqqqqqqqqq"]', "unknown stage 'qqqqqqqqqq'")):
        file.write_text(f"[[job]]\n{text}\n")
        said = subprocess.run([KINORA, "--plugins", broken.parent, "check", file], capture_output=True,
                              text=True).stderr
        [line] = [line for line in said.splitlines() if unknown in line]
        assert "(1 plugin cannot be read: " in line and "plugin.toml:1" in line, said
    assert "`kinora plugins list stage` shows the " in line and "--plugins FOLDER" in line, line
    assert "video.probe" not in line, line
    library = pathlib.Path(next(c["library"]
                                for c in json.loads(kinora("plugins", "list", "--json"))
                                if c["id"] == "sampler/edm-heun"))
    shutil.copytree(library.parent, SCRATCH / "renamed")
    (SCRATCH / "renamed" / library.name).rename(SCRATCH / "renamed/libother.so")
    said = kinora("plugins", "validate", SCRATCH / "renamed/libother.so", code=1)
    assert f"its file must be called {library.name}, found libother.so" in said, said


def check_a_file_that_is_no_library():
    """Files that are called libraries and are none are listed with the reason, next to plugin folders and below."""
    folder = SCRATCH / "no_libraries"
    (folder / "two").mkdir(parents=True)
    library = pathlib.Path(next(c["library"]
                                for c in json.loads(kinora("plugins", "list", "--json"))
                                if c["id"] == "sampler/edm-heun"))
    files = {"libpage.so": b"<html>not found</html>", "libempty.so": b"", "libcut.so": library.read_bytes()[:1000],
             "two/liba.so": b"a", "two/libb.so": b"b"}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    done = subprocess.run([KINORA, "--plugins", folder, "plugins", "list"], capture_output=True, text=True, check=True)
    shown = json.loads(subprocess.run([KINORA, "--plugins", folder, "plugins", "list", "--json"], capture_output=True,
                                      text=True, check=True).stdout)
    for name in files:
        row = [p for p in shown if p.get("plugin") == pathlib.Path(name).name]
        assert len(row) == 1 and row[0]["state"] == "disabled" and str(folder / name) in row[0]["reason"], (name, row)
        assert str(folder / name) in done.stdout + done.stderr, done


def check_a_new_component():
    """In a folder of Kinora's build that has no plugin.toml yet, the target NAME.manifest writes it; the build has the
    targets kinora and kinora_core."""
    folder = SCRATCH / "component"
    folder.mkdir()
    shutil.copy(ROOT / "tests/abi/pure_c_stage.c", folder)
    (folder / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.24)
project(component VERSION 0.1.0 LANGUAGES C CXX ASM)
add_library(kinora_core INTERFACE)
add_executable(kinora IMPORTED)
set_target_properties(kinora PROPERTIES IMPORTED_LOCATION "{pathlib.Path(KINORA).resolve()}")
include("{ROOT}/sdk/cmake/KinoraPlugin.cmake")
kinora_add_plugin(NAME stages-mine SOURCES pure_c_stage.c)
""")
    for command in (["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build"],
                    ["cmake", "--build", folder / "build", "--target", "stages-mine.manifest"]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    written = tomllib.loads((folder / "plugin.toml").read_text())
    assert written["component"][0]["id"] == "stage/count.bytes", written


def help_at(columns, *words):
    """The help as a terminal of that width gets it."""
    shown, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen([KINORA, *words, "--help"], stdout=terminal, stderr=terminal, stdin=subprocess.DEVNULL)
    os.close(terminal)
    text = b""
    try:
        while piece := os.read(shown, 65536):
            text += piece
    except OSError:  # the program has ended
        pass
    os.close(shown)
    assert process.wait() == 0, text
    return text.decode().replace("\r\n", "\n")


def check_help():
    """Each help is as wide as the terminal, at most 100 columns, but for commands, which are to be copied. It speaks no
    dialect of the option library. That of `data` says which part takes an option."""
    groups = re.findall(r"^([a-z].*):$", kinora("--help"), re.M)
    assert groups == ["curate, shard, train", "look at clips and shards", "make videos",
                      "components, weights, this machine", "first steps", "flags"], groups
    commands = re.findall(r"^  ([a-z]+) ", kinora("--help").split("\nfirst steps:\n")[0], re.M)
    assert len(commands) > 12, commands
    for words in ([], *([command] for command in sorted({*commands, "bench"})), ["data", "order"],
                  ["plugins", "validate"]):
        text = kinora(*words, "--help")
        assert len(text.splitlines()) > 5, (words, text)
        assert not re.search(r"\(=|\[ --| arg\b", text), (words, text)
        for columns, said in ((100, text), (80, help_at(80, *words)), (100, help_at(160, *words))):
            wide = [line for line in said.splitlines() if len(line) > columns
                    and not re.match(r" +(kinora|curl|source) |usage: ", line)]
            assert not wide, (words, columns, wide)
    assert max(map(len, help_at(80, "run").splitlines())) > 70, "the width is used"
    assert re.search(r"^  -k, --top N +.*\(default 10\)", kinora("search", "--help"), re.M | re.S)
    sections = re.split(r"^options of (\w+):$", kinora("data", "--help"), flags=re.M)[1:]
    options = {part: set(re.findall(r"^  (--[a-z]+)", text, re.M))
               for part, text in zip(sections[::2], sections[1::2])}
    assert options == {"index": {"--threads", "--val", "--again"}, "verify": {"--threads", "--media", "--optional"},
                       "inspect": {"--threads", "--json"}, "preview": {"--out", "--limit"}}, options
    for part, names in options.items():
        usage = kinora("data", "--help").split(f"data {part} PATH ")[1].split("kinora")[0]
        assert set(re.findall(r"\[(--[a-z]+)", usage)) == names == set(complete("kinora", "data", part, "--")), part
    for part in ("list", "inspect", "validate", "manifest", "new", "lock", "check-parallel"):
        assert re.search(rf"^  plugins .*\n?.*\b{part}\b", kinora("--help"), re.M), part


def check_examples():
    """What examples of helps set are options: of the job that its name stands for, or of the component."""
    kinds, tried = {"dit": "train", "video": "generate", "bounds": "select"}, 0
    for command in sorted({word for word in complete("kinora", "") if word[0] != "-"}):
        shown = kinora(command, "--help").split("\noptions")[0].split("\nexamples:")[1:]
        for example in " ".join(" ".join(shown).split()).split("kinora ")[1:]:
            for name in re.findall(r"--set '?([\w.]+)=", example):
                job, _, option = name.rpartition(".")
                owner = (f"job/{kinds[job]}" if job in kinds else "job/generate" if command == "generate"
                         else example.split()[1])
                known = {"name", "out", "seed", "log"} if job == "run" else {
                    o["name"] for o in json.loads(kinora("plugins", "inspect", owner, "--json"))["options"]}
                assert option in known or command == "apply" and option == "weights", (command, name, sorted(known))
                tried += 1
    assert tried >= 10, tried


def check_wrong_values():
    for words, wrong in ((("curate", "x", "--nope"), "unrecognised option '--nope'; see kinora curate --help"),
                         (("studio", "x", "--port", "80a"), "--port: '80a' is not a number; see kinora studio --help"),
                         (("studio", "x", "--port", "80.5"), "--port: '80.5' is not a whole number"),
                         (("search", "x", "y", "--top", "9" * 30), "is too large"),
                         (("launch", "-n", "two"), "'two' is not a number")):
        done = subprocess.run([KINORA, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and wrong in done.stderr, done


def check_bench_without_its_program():
    """`bench --help` says what it is and how to build it. An installation, which lacks it, does not offer it."""
    build, alone = pathlib.Path(KINORA).resolve().parents[1], SCRATCH / "alone"
    (alone / "bin").mkdir(parents=True)
    shutil.copy(KINORA, alone / "bin/kinora")
    (alone / "lib").symlink_to(build / "lib")

    def run(*words, code=0):
        done = subprocess.run([alone / "bin/kinora", *words], capture_output=True, text=True)
        assert done.returncode == code, done
        return done.stdout + done.stderr
    remedy = "bash packaging/dev.sh build kinora-bench"
    assert remedy in " ".join(run("bench", "--help").split()), run("bench", "--help")
    assert remedy in run("bench", "nope", code=1) and "\n  bench " in run("--help")
    quickstart = alone / "share/kinora/configs/quickstart.toml"
    quickstart.parent.mkdir(parents=True)
    quickstart.touch()
    assert "\n  bench " not in run("--help") and remedy in " ".join(run("bench", "--help").split())
    offered = run("completion", "words", "").split()
    assert "run" in offered and "bench" not in offered, offered
    (alone / "bin/kinora-bench").symlink_to(build / "bin/kinora-bench")  # installed by someone
    if (build / "bin/kinora-bench").exists():
        assert "bench" in run("completion", "words", "").split()


def complete(*words, cwd=ROOT):
    line = " ".join(f"'{w}'" for w in words)
    script = (
        f"PATH={pathlib.Path(KINORA).parent}:$PATH; source <(kinora completion bash); COMP_WORDS=({line}); "
        f"COMP_CWORD={len(words) - 1}; "
              "_kinora; printf '%s\\n' \"${COMPREPLY[@]}\"")
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=cwd, check=True).stdout.split()


def check_values():
    """Completion offers for each value what it can be: of files a video, a folder, nothing for a number."""
    folder = SCRATCH / "values"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.mp4", "b.safetensors", "c.toml"):
        (folder / name).touch()
    (folder / "c.toml").write_text('[run]\nname = "whole"\n[[job]]\nname = "clips"\nkind = "curate"\n'
                                   '[[job]]\nkind = "report"\n')
    everything, runs = {"a.mp4", "b.safetensors", "c.toml", "sub"}, {"c.toml", "sub"}
    manifests = {pathlib.Path(c["library"]).with_name("plugin.toml")
                 for c in json.loads(kinora("plugins", "list", "--json"))}
    schemes = {name for file in manifests for one in tomllib.loads(file.read_text())["component"]
               for name in one.get("layout", {})}
    assert len(schemes) > 3, schemes

    def offered(line):
        return set(complete("kinora", *line.split(" "), cwd=folder))
    for line, wanted in {
        "run ": runs, "check c.toml ": runs, "plan ": runs, "generate ": runs, "run --set ": set(),
        "run --set a.b=c --out ": {"sub"}, "plan --cluster ": set(), "plan c.toml --write ": runs,
        "run c.toml --only ": {"clips", "report"},
        "run c.toml --dry-run --only c": {"clips"}, "run --out sub c.toml --only ": {"clips", "report"},
        "run c.toml --only = ": {"clips", "report"}, "plan c.toml --job ": {"clips", "report"},
        "launch -n 2 -- run c.toml --only ": {"clips", "report"}, "launch -n 2 --logs ": {"sub"},
        "data order c.toml ": {"clips", "report"}, "data order ": runs, "data preview sub --out ": everything,
        "data verify ": everything, "data index --threads ": set(), "data index --v": {"--val"},
        "generate --from ": everything, "generate --pipeline ": {"sub"}, "generate c.toml --image ": everything,
        "convert ": everything, "convert a b --dtype ": {"bf16", "fp16", "fp32"}, "convert --expert h": {"high"},
        "convert --format ": {"compressed-tensors", "longlive"}, "convert --precision ": {"nvfp4"},
        "convert --block ": {"1x16", "16x16"}, "convert --max-shard ": set(), "convert --merge ": everything,
        "convert --scale-rule m": {"mse", "mae"}, "convert --from ": schemes | {"kinora"},
        "convert --to ": schemes | {"kinora", "diffusers", "comfyui", "peft"},
        "convert --component model/dit --from ": {"kinora"},
        "plugins manifest --tier ": {"stable", "pinned", "host"}, "plugins new stage x --tier ": {"stable", "pinned"},
        "plugins manifest x.so --out ": everything, "plugins manifest ": everything, "plugins lock ": everything,
        "plugins validate x.so --include outco": {"outcomes"}, "plugins new stage x ": {"sub"},
        "apply model/dit --out ": everything, "apply model/dit --set ": set(), "apply stage/video.probe ": everything,
        "search ": {"sub"}, "search --like ": everything, "studio ": {"sub"}, "search sub --top ": set(),
        "inspect sub/": set(), "inspect b": {"b.safetensors"}, "inspect --json model/di": {"model/dit"},
        "--plugins-lock ": everything, "--plugins ": {"sub"}, "--log e": {"error"}, "--plugins sub insp": {"inspect"},
        "completion ": {"bash", "zsh", "fish"}, "launch -n 2 -- ru": {"run"}, "nonsense ": set(),
    }.items():
        assert offered(line) == wanted, (line, offered(line), wanted)
    for level in offered("--log "):
        kinora("--log", level, "plugins", "list", "engine")
    assert {"a.mp4", "model/dit"} <= offered("inspect ")
    assert offered("apply tokenizer/cosmos --method ") == {
        "encode", "decode", "encode_decode"}, offered("apply tokenizer/cosmos --method ")
    assert offered("run c.toml ") == offered("run --") > {"--only", "--out"}, "no more files"


def check_completion():
    shown = kinora("completion", "--help")
    assert shown.startswith("usage: kinora completion SHELL") and shown == kinora("completion", "-h"), shown
    assert "give a shell" in subprocess.run([KINORA, "completion"], capture_output=True, text=True).stderr
    assert complete("kinora", "plu") == ["plugins"]
    assert complete("kinora", "plan", "my.toml", "--cl") == ["--cluster"]
    assert {"list", "inspect", "validate"} <= set(complete("kinora", "plugins", ""))
    assert complete("kinora", "apply", "model/d") == ["model/dit"]
    assert complete("kinora", "run", "configs/quick") == ["configs/quickstart.toml"]
    assert complete("kinora", "run", "configs/quickstart.toml", "--dr") == ["--dry-run"]
    bench = ["bench"] if pathlib.Path(KINORA).with_name("kinora-bench").exists() else []
    for command in ("run", "launch", "check", "generate", "search", "apply", "inspect", "convert", "plan", "studio",
                    *bench):
        documented = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", kinora(command, "--help"), re.M))
        assert documented and documented <= set(complete("kinora", command, "--")), (command, documented)
    usage = kinora("plugins", "--help").split("\n\n")[0].split("kinora plugins ")[1:]
    assert len(usage) == 7, usage
    for text in usage:
        command = re.search(r"[a-z-]+", text)[0]
        documented = set(re.findall(r"--[a-z-]+", text))
        assert documented <= set(complete("kinora", "plugins", command, "x", "--")), (command, documented)
    kinds = {c["kind"] for c in json.loads(kinora("plugins", "list", "--json"))}
    assert len(kinds) > 10 and kinds <= set(complete("kinora", "plugins", "list",
                                                     "")) and kinds - {"service"} <= set(
                                                         complete("kinora", "plugins", "new", "")) and complete(
                                                             "kinora", "plugins", "new", "tok") == ["tokenizer"]
    assert complete("kinora", "plugins", "new", "stage", "mine", "--lang", "") == ["c++", "c"]


def check_without_libtorch():
    """A component that needs libtorch has one exit code without it, whether its plugin is disabled (pinned) or opens
    (stable)."""
    for id in ("model/dit", "sampler/euler", "precision/bf16", "score/psnr"):
        done = subprocess.run([KINORA, "apply", id, "--inputs", "x.safetensors"], capture_output=True, text=True,
                              env={**os.environ, "KINORA_TORCH": "/nowhere"})
        assert done.returncode == 2 and "was not found in KINORA_TORCH=/nowhere" in done.stderr, (id, done)


def check_ffmpeg_without_x264():
    """An FFmpeg without libx264, as one under the LGPL is: the message names the encoder to take."""
    library = SCRATCH / "without_x264.so"
    source = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <string.h>
    const void* avcodec_find_encoder_by_name(const char* name) {
      const void* (*next)(const char*) = (const void* (*)(const char*))dlsym(RTLD_NEXT, "avcodec_find_encoder_by_name");
      return strcmp(name, "libx264") ? next(name) : 0;
    }"""
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library, "-ldl"], input=source, text=True,
                   check=True)
    done = subprocess.run([KINORA, "apply", "stage/clip.transcode", DATA / "bbb_A.mp4"], capture_output=True, text=True,
                          timeout=120, env={**os.environ, "LD_PRELOAD": str(library)})
    assert (done.returncode == 1 and "this FFmpeg has no libx264" in done.stderr
            and "set encoder to libopenh264" in done.stderr), done


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    for check in (check_plugins, check_markdown, check_missing_library, check_plugins_lock, check_broken_twin,
                  check_taken_over, check_drafts, check_use_lines, check_manifest_is_written_whole,
                  check_a_plugin_that_cannot_be_read, check_a_file_that_is_no_library, check_completion, check_values,
                  check_help, check_examples, check_wrong_values, check_bench_without_its_program,
                  check_a_new_component, check_without_libtorch, check_ffmpeg_without_x264):
        check()
        print("ok   ", check.__name__, flush=True)


main()
