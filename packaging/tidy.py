"""Runs clang-tidy on the project's translation units.

usage: tidy.py BUILD_DIR [--all]    without --all: only units that changed since HEAD~ or are new
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

# Parts of GCC's command lines that clang does not know: its precompiled header, a flag of the plugins.
GCC_ONLY = re.compile(r" -(?:include \S*cmake_pch\.hxx|Winvalid-pch|fno-gnu-unique|fmodules-ts|fdeps-format=\S+)(?= )")


def git(*args):
    return subprocess.run(["git", *args], capture_output=True, text=True)


def changed(root):
    """Files that differ from HEAD~ (from the empty tree if there is only one commit), and new ones."""
    base = "HEAD~"
    if git("rev-parse", "--quiet", "--verify", base).returncode:
        base = git("hash-object", "-t", "tree", "/dev/null").stdout.strip()
    names = git("diff", "--name-only", "--diff-filter=d", base).stdout
    names += git("ls-files", "--others", "--exclude-standard").stdout
    return {root / name for name in names.splitlines()}


def main(build, everything):
    root = pathlib.Path.cwd().resolve()
    units = json.loads((build / "compile_commands.json").read_text())
    for unit in units:
        unit["command"] = GCC_ONLY.sub("", unit["command"])
    database = build / "tidy"
    database.mkdir(exist_ok=True)
    (database / "compile_commands.json").write_text(json.dumps(units))

    ours = {pathlib.Path(u["file"]).resolve() for u in units if not u["file"].endswith(".cu")}
    ours = sorted(p for p in ours if root in p.parents and build.resolve() not in p.parents)
    files = ours if everything else sorted(changed(root).intersection(ours))
    command = ["clang-tidy", "--quiet", "-p", database, "--extra-arg=-Wno-unknown-warning-option"]

    def check(path):
        return path, subprocess.run([*command, path], capture_output=True, text=True)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("KINORA_JOBS", os.cpu_count()))) as pool:
        for path, result in pool.map(check, files):
            print(f"{'ok  ' if result.returncode == 0 else 'FAIL'} {path.relative_to(root)}", flush=True)
            if result.returncode:
                failed += 1
                print(result.stdout, result.stderr if not result.stdout else "", flush=True)
    print(f"clang-tidy: {len(files)} files, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), "--all" in sys.argv[2:]))
