#!/usr/bin/env python3
"""The plugins of the target `demo` are sufficient and necessary for the quickstart.
usage: demo_plugins.py KINORA ROOT SCRATCH PLUGIN..."""
import os, pathlib, shutil, subprocess, sys

KINORA, ROOT, SCRATCH, PLUGINS = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[
    4:]


def errors(plugins):
    """The errors of `kinora check` for the quickstart in an installation with only these plugins."""
    shutil.rmtree(SCRATCH, ignore_errors=True)
    built, there = KINORA.parents[1] / "lib", SCRATCH / "lib"
    for folder in (SCRATCH / "bin", there / "kinora/plugins"):
        folder.mkdir(parents=True)
    shutil.copy(KINORA, SCRATCH / "bin")
    for library in (*built.glob("*.so*"), built / "torch"):  # the last: where the build tree finds libtorch
        (there / library.name).symlink_to(library)
    for plugin in plugins:
        (there / "kinora/plugins" / plugin).symlink_to(built / "kinora/plugins" / plugin)
    alone = {name: value for name, value in os.environ.items() if name != "KINORA_PLUGIN_PATH"}
    done = subprocess.run([SCRATCH / "bin/kinora", "check", f"{ROOT}/configs/quickstart.toml"], capture_output=True,
                          text=True, env=alone)
    assert (done.returncode == 0) == ("no errors" in done.stdout + done.stderr), done
    return "" if done.returncode == 0 else done.stderr


assert not errors(PLUGINS), errors(PLUGINS)
for plugin in PLUGINS:
    assert errors([other for other in PLUGINS if other != plugin]), f"{plugin} is built for the demo and not needed"
