#!/usr/bin/env python3
"""Plugins that end their process, crash, throw, never return or say a value that ABI 1.0 does not have: each costs what
it must and no more, and the program says which plugin did what.
usage: plugin_ends.py KINORA ROOT SCRATCH PLUGINS"""
import json, pathlib, shutil, signal, subprocess, sys, time

KINORA, ROOT, SCRATCH, PLUGINS = sys.argv[1], *map(pathlib.Path, sys.argv[2:5])
MANIFEST = (
    '[plugin]\nname = "ends"\nversion = "0.1.0"\nabi = "1.0"\ntier = "stable"\n\n[[component]]\nid = '
    '"stage/ends"\nhelp = "of a test"\n')
VIDEO = ROOT / "tests/data/bbb_A.mp4"


def plugin(variant):
    """A folder to search with the plugin `ends`, built as this variant."""
    folder = SCRATCH / variant
    if not folder.exists():
        (folder / "ends").mkdir(parents=True)
        shutil.copy(PLUGINS / f"lib{variant}.so", folder / "ends/libends.so")
        (folder / "ends/plugin.toml").write_text(MANIFEST)
    return folder


def kinora(variant, *arguments, code):
    done = subprocess.run([KINORA, "--plugins", plugin(variant), *map(str, arguments)], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == code, (variant, arguments, done.returncode, done.stdout, done.stderr)
    return done


def holds(name, text, *parts):
    for part in parts:
        assert part in text, f"{name}: expected {part!r} in:\n{text}"
    print(f"ok    {name}")


def validate():
    for variant, check, *said in (("exit_when_opened", "opens", "it ended its process by itself with code 0"),
                                  ("exit_in_entry", "opens", "it ended its process by itself with code 0"),
                                  ("abort_when_opened", "opens", "killed by signal 6 (SIGABRT)"),
                                  ("throw_when_opened", "opens", "killed by signal 6 (SIGABRT)", "instance of 'int'"),
                                  ("hang_when_opened", "opens", "it did not end within 0.5 s (--timeout)")):
        done = kinora(variant, "plugins", "validate", plugin(variant) / "ends/libends.so", "--timeout",
                      "0.5" if "hang" in variant else "30", "--json", code=1)
        told = json.loads(done.stdout)
        assert not told["ok"] and all(c.keys() - {"component"} == {"check", "ok", "skipped", "message"}
                                      for c in told["checks"]), told
        failed = [c for c in told["checks"] if not c["ok"]]
        assert [c["check"] for c in failed] == [check], told
        holds(f"validate {variant}", failed[0]["message"], *said)
    holds("validate exports",
          kinora("exports", "plugins", "validate", plugin("exports") / "ends/libends.so", code=1).stdout,
          "FAILED  exports: it also exports 4 more (own_a, own_b, own_c, ...); link it with "
          "-Wl,--version-script=plugin.map", "ok      opens")
    both = SCRATCH / "both"
    for variant in ("throw_in_process", "exit_in_entry"):
        shutil.copytree(plugin(variant), both / variant)
    told = json.loads(kinora("exports", "plugins", "validate", both, "--json", code=1).stdout)
    holds("validate a folder", str({pathlib.Path(one["library"]).parts[-3]: one["ok"] for one in told}),
          "'throw_in_process': False", "'exit_in_entry': False")
    threw = next(one for one in told if "throw_in_process" in one["library"])
    assert {c["check"]
            for c in threw["checks"]
            if not c["ok"]} >= {"samples"} and all("an exception left process()" in c["message"]
                                                   for c in threw["checks"] if not c["ok"]), threw
    holds("validate no folder of plugins", kinora("exports", "plugins", "validate", ROOT / "docs", code=2).stderr,
          "no plugin.toml in it or below it")
    nothing = kinora("exports", "plugins", "validate", SCRATCH / "nowhere", code=2)
    holds("validate no file", nothing.stderr, "nowhere: no such file or folder")
    assert "ok" not in nothing.stdout, nothing.stdout


def run(variant, code, isolate=None):
    """The run's messages, and the outcomes and stages of its curate job."""
    engine = f'engine = {{ use = "local", isolate = ["{isolate}"] }}\n' if isolate else ""
    out = SCRATCH / f"run-{variant}-{isolate}"
    (SCRATCH / "run.toml").write_text(
        f'[run]\nout = "{out}"\n[[job]]\nname = "look"\nkind = "curate"\ninput = "{VIDEO}"\n'
        f'stages = ["ends"]\n{engine}')
    done = kinora(variant, "run", SCRATCH / "run.toml", code=code)
    items, live = out / "look/items.jsonl", out / "look/live.json"
    return done.stderr, items.read_text() if items.exists() else "", json.loads(live.read_text())[
        "stages"] if live.exists() else []


def in_this_process():
    for variant, call in (("exit_in_process", "exit(0)"), ("exit_at_once_in_process", "_exit(0)")):
        holds(f"run {variant}", run(variant, 1, "none")[0],
              f"kinora: plugin {plugin(variant)}/ends/libends.so called {call}, which ended this program before its "
              f"work was done")
    for variant, which in (("crash_in_process", " (stage/ends)"), ("call_no_function", " (stage/ends)"),
                           ("crash_on_a_thread", ", in which component is not known")):
        holds(f"run {variant}", run(variant, -11, "none")[0],
              f"kinora: killed by signal 11 (SIGSEGV) in plugin {plugin(variant)}/ends/libends.so{which}; ",
              'isolate = ["all"]')
    # Code 1, since the only input failed; but the job ended as usual and recorded it.
    said, items, stages = run("throw_in_process", 1, "none")
    assert not stages[0]["isolated"], stages
    holds("run throw_in_process", items, '"process threw the decoder is confused"')
    for variant in ("exit_when_opened", "exit_in_entry"):
        holds(f"manifest {variant}",
              kinora(variant, "plugins", "manifest", plugin(variant) / "ends/libends.so", code=1).stderr,
              "/ends/libends.so called exit(0)")


def has_begun(live):
    """Whether the engine has ended its first samples: the job has listed its inputs before."""
    try:
        return json.loads(live.read_text())["stages"][0]["in"] >= 2
    except (OSError, ValueError, LookupError):
        return False


def without_another_maker():
    """A crash while Kinora's own plugins work: it blames none, and names the component that was called last."""
    videos, out = SCRATCH / "videos", SCRATCH / "run-own"
    videos.mkdir()
    for i in range(40):
        # A last box that nobody reads makes each content another one.
        (videos / f"{i}.mp4").write_bytes((ROOT / "tests/data/film.mp4").read_bytes()
                                          + (12).to_bytes(4, "big") + b"free" + i.to_bytes(4, "big"))
    file = SCRATCH / "own.toml"
    file.write_text(f'[run]\nout = "{out}"\n[[job]]\nname = "look"\nkind = "curate"\ninput = "{videos}"\n'
                    'stages = ["shots.content"]\nengine = { use = "local", isolate = ["none"] }\n')
    running = subprocess.Popen([KINORA, "run", file], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while running.poll() is None and not has_begun(out / "look/live.json"):
        time.sleep(0.01)
    time.sleep(0.2)  # its main thread is in the engine
    running.send_signal(signal.SIGSEGV)
    said = running.communicate(timeout=60)[1]
    assert running.returncode == -signal.SIGSEGV, (running.returncode, said)
    line = next(line for line in said.splitlines() if "killed by signal" in line)
    holds("run of Kinora's own plugins, killed", line, "kinora: killed by signal 11 (SIGSEGV), and no plugin of "
          "another maker was being called; nearest on the stack: plugin ", "/lib/kinora/plugins/",
          "report this as a bug")
    assert "/libengine-local.so (engine/local). If " in line, line


def in_a_process_of_its_own():
    """By default, since the plugin is not of the built-in folder."""
    for variant, how in (("exit_in_process", "its process ended by itself with code 0"),
                         ("crash_in_process", "killed by signal 11 (SIGSEGV)")):
        said, items, stages = run(variant, 1)
        assert stages[0]["isolated"], stages
        holds(f"run {variant}, isolated", items, how)
    for variant in ("exit_when_opened", "exit_in_create"):
        holds(f"check {variant}", kinora(variant, "check", SCRATCH / "run.toml", code=2).stderr,
              "its process ended by itself with code 0 while an instance was made")
        holds(f"apply {variant}", kinora(variant, "apply", "stage/ends", VIDEO, "--json", code=1).stderr,
              "its process ended by itself with code 0 while an instance was made")


def unknown_values():
    """Rule 11 of abi/base.h: refused by name, by the validator, in this process and in one of the stage's own."""
    for variant, check, said in (("unknown_in_component", "tables", "reserved of stage/ends's kinora_component is 7"),
                                 ("unknown_in_table", "tables", "reserved of stage/ends's kinora.stage/1 table is 7"),
                                 ("unknown_ordered", "resources", "ordered of its resources() is 77"),
                                 ("unknown_isolated", "resources", "isolated of its resources() is 9")):
        told = json.loads(kinora(variant, "plugins", "validate", plugin(variant) / "ends/libends.so", "--json",
                                 code=1).stdout)
        assert [c["check"] for c in told["checks"] if not c["ok"]] == [check], told
        holds(f"validate {variant}", next(c["message"] for c in told["checks"] if not c["ok"]), "stage/ends",
              said + ", which this Kinora does not know")
        for isolate in (None, "none"):
            holds(f"run {variant}, isolate {isolate}", run(variant, 2, isolate)[0], "stage/ends", said)
        holds(f"apply {variant}", kinora(variant, "apply", "stage/ends", VIDEO, "--json", code=1).stderr, "stage/ends",
              said)


shutil.rmtree(SCRATCH, ignore_errors=True)
validate()
in_this_process()
without_another_maker()
in_a_process_of_its_own()
unknown_values()
