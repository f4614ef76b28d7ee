#!/usr/bin/env python3
"""Plugins of the tier stable use nothing of libtorch but its stable surface, the C functions aoti_torch_* and torch_*;
so they work with any later libtorch. Ours use nothing of libtorch at all: tensors reach them through kinora.tensors/1.
Found by the undefined dynamic symbols, here and by torch-abi-audit (Quansight, MIT), which must agree. usage:
stable_surface.py KINORA

The audit calls a library that uses nothing of libtorch neither stable nor unstable, and one that it cannot read the
same; so the pinned plugins, and a library that calls the stable surface, must be recognized too."""
import pathlib, re, subprocess, sys, tempfile, tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from skips import skip

PLUGINS = pathlib.Path(sys.argv[1]).resolve().parents[1] / "lib/kinora/plugins"
STABLE = re.compile(r"(aoti_torch_|torch_)\w+$")
UNSTABLE = re.compile(r"(?<![\w:])(at|c10|caffe2|torch(?!::stable|::headeronly))::")


def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, **more).stdout


def undefined(library):
    return run("c++filt",
               input="\n".join(line.split()[-1]
                               for line in run("nm", "-D", "--undefined-only", library).splitlines())).splitlines()


def by_symbols(library):
    """What the library uses of libtorch: "nothing", "stable" or "unstable"."""
    names = undefined(library)
    if any(UNSTABLE.search(name) for name in names):
        return "unstable"
    return "stable" if any(STABLE.match(name) for name in names) else "nothing"


def by_audit(library):
    """The same as torch-abi-audit says it."""
    from torch_abi_audit import inspect_extension
    report = inspect_extension(library)
    assert not report.error, f"{library.name}: {report.error}"
    return "nothing" if not report.torch.uses_torch else "stable" if report.torch.stable else "unstable"


def on_the_stable_surface(folder):
    """A library that calls libtorch's C functions."""
    source, library = folder / "shim.c", folder / "libshim.so"
    source.write_text(
        "int aoti_torch_get_dim(void*, long*);\nint rank(void* tensor, long* out) { return aoti_torch_get_dim(tensor, "
        "out); }\n")
    run("gcc", "-shared", "-fPIC", source, "-o", library)
    return library


def plugins():
    """{library: tier} of the built plugins."""
    return {next(m.parent.glob("*.so")): tomllib.loads(m.read_text())["plugin"]["tier"]
            for m in sorted(PLUGINS.glob("*/plugin.toml"))}


def wrong(tier, found):
    return found == "unstable" if tier == "stable" else found != "unstable" if tier == "pinned" else False


assert wrong("stable", "unstable") and wrong("pinned",
                                             "nothing") and not wrong("stable", "stable") and not wrong(
                                                 "host", "unstable")
ways = {"symbols": by_symbols}
try:
    import torch_abi_audit
    ways["torch-abi-audit " + torch_abi_audit.__version__] = by_audit
except ImportError:
    skip("torch-abi-audit", "torch-abi-audit is not installed; packaging/dev.sh setup installs it")
tiers, failures = plugins(), []
for way, of in ways.items():
    with tempfile.TemporaryDirectory() as folder:
        assert of(on_the_stable_surface(pathlib.Path(folder))) == "stable", f"{way} does not know the stable surface"
    found = {library: of(library) for library in tiers}
    failures += [f"{way}: {library.name} is {tiers[library]} and uses of libtorch: {what}"
                 for library, what in found.items() if wrong(tiers[library], what)]
    stable = [library for library, tier in tiers.items() if tier == "stable"]
    assert len(stable) > 20 and len(tiers) > len(stable) + 20, f"only {len(stable)} stable plugins of {len(tiers)}"
    print(
        f"{way}: {len(stable)} stable plugins, {sum(found[library] == 'nothing' for library in stable)} of them use "
        f"nothing of libtorch")
print(*failures, sep="\n")
sys.exit(bool(failures))
