#!/usr/bin/env python3
"""`kinora plugins validate` finds each defect by exactly one check: components of broken_plugins/*.c have one each,
called after their mode, and the libraries below one each too. Nothing but a C compiler and the ABI's headers builds
them. usage: broken_plugins.py KINORA ROOT SCRATCH"""
import io, json, os, pathlib, shlex, shutil, subprocess, sys, tarfile

KINORA, ROOT, SCRATCH = sys.argv[1], *(pathlib.Path(p).resolve() for p in sys.argv[2:4])
SOURCES = ROOT / "tests/faults/broken_plugins"
HEAD = '[plugin]\nmanifest = 1\nname = "{}"\nversion = "0.1.0"\nabi = "1.0"\ntier = "stable"\n'


def tensors(*lines):
    """Lines of plugin.toml, of "input NAME SHAPE"."""
    return "".join('{0}.{1} = {{ shape = "{2}", dtype = "float", help = "{1}" }}\n'.format(*line.split(" ", 2))
                   for line in lines)


BITS = {"stages": 'option.level = { type = "float", default = 0.5, min = 0.0, max = 1.0, help = "a level" }\n',
        "storages": "",
        "samplers": 'option.steps = { type = "int", default = 20, min = 2, max = 1000, help = "number of steps" }\n',
        "losses": tensors("input prediction [B, N]", "input target [B, N]", "output loss [B]",
                          "output grad [B, N]"),
        "optimizers": 'interface = "kinora.optimizer/1-draft.1"\noutput.velocity = { shape = "[n]", dtype = "float", '
                      'help = "momentum" }\n',
        "models": 'interface = "kinora.model/1-draft.1"\noption.scale = { type = "float", default = 0.5, min = 0.0, '
                  'max = 1.0, help = "factor of the output" }\n'
                  + tensors("input latent [B, N, 4]", "output output [B, N, 4]"),
        "tokenizers": 'interface = "kinora.tokenizer/1-draft.2"\n'
        + tensors("input video [B, 3, T, H, W]", "output latent [B, 3, T, H, W]"),
        "precisions": 'interface = "kinora.precision/1-draft.2"\n'
        + tensors("input x [M, N]", "output dequantized [M, N]"),
        "scores": 'interface = "kinora.score/1-draft.1"\n' + tensors("input x [B, D]", "output mean []"),
        "sources": 'interface = "kinora.source/1-draft.1"\n', "caches": 'interface = "kinora.cache/1-draft.2"\n',
        "parallels": 'interface = "kinora.parallel/1-draft.1"\n',
        "engines": 'interface = "kinora.engine/1-draft.2"\n',
        "collectives": 'interface = "kinora.collective/1-draft.1"\n'}
# plugin: {mode: (the checks that fail, one for all but components that never work; words of their messages)}; the mode
# `none` fails no check
DEFECTS = {
    "stages": {"options": ("options", "never reads option 'level'"),
               "ids": ("unknown-ids", 'get_interface("nobody.unknown/1") returned a table'),
               "newer": ("newer-host", "it writes to the host's table kinora_host"), "bare": ("bare-host", "SIGSEGV"),
               "room": ("resources", "KINORA_FILL(out, &one)"),
               "order": ("resources", "ordered of its resources() is 77"),
               "samples": ("samples", "SIGABRT"), "silent": ("samples", "returned -7 without a message"),
               "twice": ("outcomes", "two outcomes of sample 'clip-0000'"),
               "lost": ("outcomes", "sample 'clip-0000' was held and is lost"),
               "uneven": ("same-outcomes", "differ in 'clip-0000'"),
               "leak": ("sample-leaks", "24 references to samples"),
               "shared": ("threads", "four instances on four threads differ"),
               "gives": ("sample-leaks", "24 samples were released once too often"),
               "careless": ("unknown-needs", "process() of a run with an unknown bit of `needs` returned 0"),
               "writes": ("read-only", "process() changed bytes of a sample in place"),
               "dies": ("surroundings samples read-only outcomes same-outcomes sample-leaks threads",
                        "(SIGSEGV); it was in process()")},
    "storages": {"curt": ("read-back", "read(0, 200003) gave 200002 bytes"),
                 "missing": ("missing", "open() of a missing object returned -1"),
                 "shared": ("reads-at-once", "one reader on four threads"),
                 "blind": ("conditions", "put_if() of an object that exists returned 0")},
    "samplers": {"rising": ("levels", "level 1 is 30 after 20"), "half": ("order", "mean error"),
                 "memory": ("same-samples", "by the same instance again"),
                 "deaf": ("stops", "sample() returned -1"), "leak": ("sampler-leaks", "handles to tensors were taken"),
                 "crash": ("noise-tensors", "noise of no dimension"), "ancestral": ("", ""),
                 "careless": ("sampler-needs", "sample() with an unknown bit of `needs` of the denoiser returned 0"),
                 "repeats": ("order", "draw by another key at each step"),
                 "values": ("noise-tensors", "it was in sample() of noise of the meta device")},
    "losses": {"detached": ("gradients", "the gradient of `loss` by prediction[0]"),
               "deaf": ("values", "prediction is NaN"), "mixed": ("values", "`loss` of sample 1 changes"),
               "memory": ("same-loss", "by another instance"), "leak": ("loss-leaks", "handles to tensors were taken"),
               "crash": ("loss-tensors", "prediction of no dimension"),
               "values": ("loss-tensors", "it was in evaluate() of prediction of the meta device"),
               "lies": ("gradients", "by the output `grad`")},
    "optimizers": {"position": ("cuts", "in ranges of 7, 12 and 5 numbers differs"),
                   "unclipped": ("factor", "the gradient times 4"),
                   "still": ("averages", "by its definition"), "uphill": ("descends", "check the sign"),
                   "leak": ("optimizer-leaks", "handles to tensors were taken")},
    "models": {"options": ("options", "never reads option 'scale'"), "bare": ("bare-host", "SIGSEGV"),
               "memory": ("same-output", "other bits the second time"),
               "detached": ("model-gradients", "the gradient of its output by latent["),
               "forgets": ("recompute", "the gradient by latent differs by 1 of its size"),
               "reads": ("meta", "read no number of a tensor on the host"),
               "leak": ("model-leaks", "handles to tensors were taken"),
               "crash": ("model-inputs", "latent of no dimension")},
    "tokenizers": {"shape": ("round-trip", "[2, 4, 5, 2, 2] by info()"), "later": ("streams", "encoding in pieces"),
                   "memory": ("same-latent", "the second time"),
                   "crash": ("video-tensors", "a video of no dimension"),
                   "leak": ("tokenizer-leaks", "handles to tensors were taken"),
                   "careless": ("tokenizer-needs", "encode() of a run with an unknown bit of `needs` returned 0"),
                   "fails": ("round-trip streams same-latent tokenizer-needs tokenizer-leaks video-tensors",
                             "encode() of a video [2, 3, 5, 2, 2] returned -1: never works")},
    "precisions": {"detached": ("linear", "the gradient by the weight"),
                   "divides": ("linear", "linear() of zeros is not finite"),
                   "mixed": ("linear", "scales must be of one sample"), "zeros": ("quantize", "dequantized is"),
                   "crash": ("quantize", "x of no dimension"),
                   "leak": ("precision-leaks", "handles to tensors were taken"),
                   "keeps": ("precision-leaks", "1 handles to tensors were taken"),
                   "careless": ("precision-needs", "begin() of its link with an unknown bit of `needs` returned 0"),
                   "fails": ("quantize precision-leaks", "returned -1: never works")},
    "scores": {"uncounted": ("merged", "the merged states of two instances"),
               "final": ("same-score", "more samples may follow"),
               "half": ("score-inputs", "which leaves the statistics unchanged"),
               "crash": ("score-inputs", "x of no dimension"),
               "leak": ("score-leaks", "handles to tensors were taken"),
               "batch": ("each", "that of sample 0 without the others"),
               "careless": ("score-needs", "update() of a run with an unknown bit of `needs` returned 0"),
               "dies": ("merged same-score each score-inputs score-leaks", "(SIGABRT); it was in compute()"),
               "fails": ("merged same-score each score-needs score-inputs score-leaks", "returned -1: never works")},
    "sources": {"lost": ("parts", "'sample-9' of --input is lost"),
                "miscounted": ("parts", "count() of part 0 of 3 is 5"),
                "stale": ("restore", "after restore() of the state after 1 samples, next() gives 'sample-0'"),
                "gullible": ("foreign-states", "of another part returned 0"),
                "moved": ("foreign-states", "the position stays"),
                "careless": ("source-needs", "open() of a run with an unknown bit of `needs` returned 0"),
                "again": ("parts", "next() gives 'sample-0' after it returned KINORA_SIGNAL_END"),
                "stuck": ("open-again", "open() after one that failed returned -2: there is no such part")},
    "caches": {"nameless": ("keys", "store keys and values by the attention's name"),
               "hoarder": ("storage", "reset() frees its storage"),
               "forgetful": ("pinned", "sees 0 of the 4 pinned tokens"), "careless": ("cache-gradients", "returned 0"),
               "leak": ("cache-leaks", "handles to tensors were taken"),
               "mixed": ("sessions", "after reset() of session 4 tokens(5, 0) is 0"),
               "half": ("copies", "the copy of a copied session"),
               "lossy": ("saved", "a session after save(), reset() and restore() differs"),
               "writer": ("cache-read-only", "after a read-only forward tokens(0, 0) is 4"),
               "unaware": ("cache-needs", "attention() of its link with an unknown bit of `needs` returned")},
    "parallels": {"whole": ("strategy", "is 2 times one process'"),
                  "careless": ("parallel-needs", "step() of a run with an unknown bit of `needs` returned 0")},
    "engines": {"lost": ("pipeline", "the outcome of 'input-0001' is: none"),
                "again": ("pipeline", "'input-0002' has two outcomes"),
                "early": ("pipeline", "comes after that of 'input-0003'"),
                "leak": ("pipeline", "references to samples are left"),
                "deaf": ("engine-stops", "after done() returned"),
                "careless": ("engine-needs", "run() with an unknown bit of `needs` returned 0"),
                "idle": ("pipeline", "KINORA_ERROR_UNSUPPORTED: it does not run yet")},
    "collectives": {"careless": ("collective-needs", "with an unknown bit of `needs` returned 0"),
                    "twice": ("alone", "ALL_REDUCE of dtype 7"),
                    "deaf": ("together", "ALL_REDUCE of dtype 7 on rank 0 of 2: number 0 is")}}


def manifest(plugin, head=HEAD):
    modes = ["none", *DEFECTS[plugin]]
    kind = "loss" if plugin == "losses" else plugin.removesuffix("s")
    return head.format(plugin) + "".join(
        f'\n[[component]]\nid = "{kind}/broken.{mode}"\nhelp = "of a test"\n{BITS[plugin]}' for mode in modes)


def built(folder, plugin, source=None, *flags):
    """lib<plugin>.so in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if source is not None:
        (folder / "source.c").write_text(source)
    library = folder / f"lib{plugin}.so"
    done = subprocess.run(["gcc", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{ROOT / 'sdk/include'}",
                           f"-I{SOURCES}",
                           SOURCES / f"{plugin}.c" if source is None else folder / "source.c", "-o", library, *flags],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return library


def validate(path, *more, code=1):
    done = subprocess.run([KINORA, "plugins", "validate", str(path), "--json", "--timeout", "30", *more],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (path, more, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)


def failed(told):
    return {(c["check"], c.get("component", "")): c["message"] for c in told["checks"] if not c["ok"]}


def check_components():
    for plugin in DEFECTS:
        built(SCRATCH / "all" / plugin, plugin)
        (SCRATCH / "all" / plugin / "plugin.toml").write_text(manifest(plugin))
    data = SCRATCH / "data.bin"  # of the sources, whose samples do not depend on it
    data.write_bytes(b"data")
    told_of = {}
    for told in validate(SCRATCH / "all", "--at", "here", "--input", str(data), "--reproduce", "--seed", "7"):
        plugin = pathlib.Path(told["library"]).parent.name
        told_of[plugin] = told
        found = failed(told)
        for mode, (checks, words) in DEFECTS[plugin].items():
            mine = {key[0]: text for key, text in found.items() if key[1].endswith(f"/broken.{mode}")}
            assert sorted(mine) == sorted(checks.split()) and all(words in text for text in mine.values()), (
                plugin, mode, mine)
            print(f"ok    {plugin} {mode}: {checks}")
        assert not any(id.endswith(".none") or not id for _, id in found), found
        assert told["seed"] == 7 and all(c["skipped"] in (True, False) for c in told["checks"]), told
    order = next(c for c in told_of["storages"]["checks"] if c["check"] == "read-back" and not c["ok"])
    again = shlex.split(order["reproduce"])
    assert again[:3] == ["kinora", "plugins",
                         "validate"] and again[-8:] == ["--include", "read-back", "--seed", "7", "--input", str(data),
                                                        "--at", "here"], again
    done = subprocess.run([KINORA, *again[1:]], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout.count("FAILED  read-back of storage/broken.curt: ") == 1, done


def check_libraries():
    """One defect of the library itself each; no check after it has a meaning."""
    include = f'#include "{SOURCES}/stages.c"\n'
    toml = manifest("stages")
    describe = (include.replace("stages.c", "broken.h") + '#include "kinora/abi/stage.h"\n'
                'static void* create(const kinora_host* h, const kinora_options* o) { (void)o; return make(h, 0); }\n'
                "static int32_t resources(void* s, kinora_resources* out) { const kinora_resources one = {.struct_size "
                "= sizeof one}; (void)s; KINORA_FILL(out, &one); return 0; }\n"
                "static int32_t process(void* s, kinora_sample* in, const kinora_emit* e, const kinora_run* r) { "
                "(void)s, (void)in, (void)e, (void)r; return 0; }\n"
                "static const kinora_stage table = {.struct_size = sizeof table, .create = create, .destroy = destroy, "
                ".resources = resources, .process = process};\n"
                'static int32_t describe(const kinora_sink* out) { static const char text[] = "[[component]]\\nid = '
                '\\"stage/a.b\\"\\nhelp = \\"new\\"\\n"; out->write(out->self, text, sizeof text - 1); return 0; }\n'
                'BROKEN_PLUGIN("stages", {sizeof(kinora_component), 0, "stage/a.b", KINORA_INTERFACE_STAGE, &table, '
                'describe, NULL})\n')
    cases = {"exports": (include + "KINORA_EXPORT int mine(void);\nint mine(void) { return 1; }\n", toml,
                         "it also exports 1 more (mine)"),
             "manifest": (include, toml.replace("help =", "hepl =", 1), "unknown key 'hepl'"),
             "host": (include, toml.replace('abi = "1.0"', 'abi = "1.9"'), "abi"),
             "opens": (
                 include + "void nowhere(void);\n__attribute__((constructor)) static void at_once(void) { nowhere(); "
                           "}\n", toml, "undefined symbol: nowhere"),
             "tables": (include, toml.replace("stage/broken.none", "stage/broken.other"), "found stage/broken.none"),
             "current": (describe, HEAD.format("stages") + '\n[[component]]\nid = "stage/a.b"\nhelp = "old"\n',
                         'expected `help = "new"`'),
             "owner": (include, toml, "chmod o-w"), "elf": (include, toml, "libstages.so"),
             "needs": (include, toml, "requires libgone.so")}
    for check, (source, text, words) in cases.items():
        folder = SCRATCH / "libraries" / check
        flags = []
        if check == "needs":
            flags = ["-Wl,--no-as-needed",
                     built(folder, "gone", "int gone(void);\nint gone(void) { return 1; }\n", "-Wl,-soname,libgone.so")]
        library = built(folder, "stages", source, *flags)
        if check == "needs":
            (folder / "libgone.so").unlink()
        (folder / "plugin.toml").write_text(text)
        if check == "owner":
            library.chmod(0o777)
        if check == "elf":
            library.write_text("no library")
        names = "owner,elf,exports,manifest,host,needs,libtorch,opens,tables,current"
        found = failed(validate(library, "--include", names))
        assert list(found) == [(check, "")] and words in found[check, ""], (check, found)
        if check in ("exports", "owner", "current"):
            validate(library, "--include", names, "--exclude", check, code=0)
        print(f"ok    library: {check}")
    library = built(SCRATCH / "libraries/names", "stages", include)
    for id, code in (("stage/video.mine", 1), ("stage/video.read", 0), ("stage/acme.video", 0)):
        library.with_name("plugin.toml").write_text(
            HEAD.format("stages") + f'\n[[component]]\nid = "{id}"\nhelp = "a name"\n')
        found = failed(validate(library, "--include", "manifest", code=code))
        assert not code or "Kinora reserves the first word 'video' of a stage's name" in found["manifest", ""], found


def check_states():
    """An optimizer whose states this host does not store is unproven, and the verdict says why."""
    library = built(SCRATCH / "states", "optimizers")
    library.with_name("plugin.toml").write_text(manifest("optimizers").replace('dtype = "float"', 'dtype = "uint8"'))
    checks = "cuts averages descends factor optimizer-leaks".split()
    told = validate(library, "--include", ",".join(checks))
    assert "optimizer/broken.none" in told["unproven"] and {one["check"] for one in told["checks"]} == set(checks), told
    assert all(one["skipped"] and "its state 'velocity' is of dtype uint8, which this host does not store"
               in one["message"] for one in told["checks"]), told


def check_words():
    wrong = subprocess.run([KINORA, "plugins", "validate", SCRATCH, "--include", "outcome"], capture_output=True,
                           text=True)
    assert wrong.returncode == 2 and "no check has this name, did you mean 'outcomes'?" in wrong.stderr, wrong
    said = subprocess.run([KINORA, "plugins", "validate", "--help"], capture_output=True, text=True).stdout
    for check in {check for defects in DEFECTS.values() for checks, _ in defects.values() for check in checks.split()}:
        assert f"\n  {check} " in said, said


def check_own():
    """Kinora's own storage and source pass, and leave nothing behind; command_line.py validates every plugin of the
    build."""
    own = pathlib.Path(KINORA).resolve().parents[1] / "lib/kinora/plugins"
    told = validate(own / "storage-file/libstorage-file.so", "--at", str(SCRATCH / "own"), code=0)
    of_storages = ("read-back", "missing", "reads-at-once", "conditions")
    assert not any(c["skipped"] for c in told["checks"] if c["check"] in of_storages), told
    assert not list((SCRATCH / "own").iterdir()), "a check left an object behind"
    (SCRATCH / "shards").mkdir()
    for shard in range(3):
        with tarfile.open(SCRATCH / f"shards/shard-{shard:06d}.tar", "w") as tar:
            for i in range(7):
                line = tarfile.TarInfo(f"sample-{shard}{i}.txt")
                line.size = 4
                tar.addfile(line, io.BytesIO(b"line"))
    told = validate(own / "source-webdataset/libsource-webdataset.so", "--input", str(SCRATCH / "shards"), code=0)
    assert {c["check"]: c["message"] for c in told["checks"]}["parts"] == "21 samples", told
    for more in ([], ["--set", "window=8"]):  # the trial's model describes its rotation, which these positions need
        told = validate(own / "caches-kv/libcaches-kv.so", "--set", "positions=relative", *more, code=0)
        assert not any(c["skipped"] for c in told["checks"]
                       if c["check"] in ("storage", "pinned", "sessions", "copies", "saved")), told
    said = subprocess.run([KINORA, "plugins", "validate", own / "dedup/libdedup.so", "--include", "outcomes", "--input",
                           ROOT / "tests/data/bbb_A.mp4"], capture_output=True, text=True, timeout=60).stdout
    assert "try it in a run file" in said and "give a video" not in said, said


os.umask(0o022)
shutil.rmtree(SCRATCH, ignore_errors=True)
check_components()
check_libraries()
check_states()
check_words()
check_own()
