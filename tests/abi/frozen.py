#!/usr/bin/env python3
"""Plugins that are built with the frozen headers of ABI 1.0 alone (tests/abi/v1) do in this program all that `kinora
plugins validate` asks of their kinds: a stage, a storage, a sampler and a loss in C, those of
tests/faults/broken_plugins that have no defect. usage: frozen.py KINORA ROOT SCRATCH"""
import json, pathlib, shutil, subprocess, sys

from build import ABI, compiled

KINORA, ROOT, SCRATCH = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
SOURCES = ROOT / "tests/faults/broken_plugins"
HEAD = (
    '[plugin]\nmanifest = 1\nname = "{0}"\nversion = "0.1.0"\nabi = "1.0"\ntier = "stable"\n\n[[component]]\nid = '
    '"{1}/broken.none"\nhelp = "without a defect"\n')
TENSOR = '{}.{} = {{ shape = "{}", dtype = "float", help = "numbers" }}\n'
# plugin: (kind, the rest of its manifest, checks of its kind that must be made)
PLUGINS = {
    "stages": ("stage", 'option.level = { type = "float", default = 0.5, min = 0.0, max = 1.0, help = "a level" }\n',
               {"resources", "samples", "outcomes", "same-outcomes", "sample-leaks", "threads"}),
    "storages": ("storage", "", {"read-back", "missing", "reads-at-once", "conditions"}),
    "samplers": ("sampler",
                 'option.steps = { type = "int", default = 20, min = 2, max = 1000, help = "number of steps" }\n',
                 {"levels", "order", "same-samples", "stops", "sampler-leaks", "noise-tensors"}),
    "losses": ("loss", "".join(TENSOR.format(*t)
                               for t in (("input", "prediction", "[B, N]"), ("input", "target", "[B, N]"),
                                         ("output", "loss", "[B]"))),
               {"gradients", "values", "same-loss", "loss-leaks", "loss-tensors"})}


def validated(plugin):
    """{check: verdict} of the plugin, built with the frozen headers and the SDK's no others."""
    kind, rest, _ = PLUGINS[plugin]
    library = compiled(["gcc"], SOURCES / f"{plugin}.c", SCRATCH / f"plugins/{plugin}/lib{plugin}.so", "-std=gnu11",
                       "-fvisibility=hidden",
                       "-DBROKEN_PLUGIN(NAME,FIRST,...)=PLUGIN_OF(NAME,FIRST)", include=[ABI / "v1", SOURCES])
    (library.parent / "plugin.toml").write_text(HEAD.format(plugin, kind) + rest)
    done = subprocess.run([KINORA, "plugins", "validate", library, "--json", "--at", "here", "--timeout", "30"],
                          capture_output=True, text=True, timeout=120)
    return {c["check"]: c for c in json.loads(done.stdout)["checks"]}


shutil.rmtree(SCRATCH, ignore_errors=True)
for plugin, (kind, _, checks) in PLUGINS.items():
    told = validated(plugin)
    assert not (failed := [c for c in told.values() if not c["ok"]]), (plugin, failed)
    assert not (left := [name for name in checks | {"tables", "options",
                                                    "newer-host"} if told[name]["skipped"]]), (plugin, left)
    print(f"ok    {kind}: {len(told)} checks")
