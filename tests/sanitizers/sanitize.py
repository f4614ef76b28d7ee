#!/usr/bin/env python3
"""Builds test programs with the sanitizers of a preset, in build/PRESET, and runs them; any report fails, also of a
child process.
Undefined behaviour gives no report but ends its process. A program of known defects runs first: each of them must be
detected. usage: sanitize.py PRESET ROOT PROGRAM..."""
import json, os, pathlib, re, shutil, subprocess, sys

PRESET, ROOT, PROGRAMS = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
BUILD = ROOT / "build" / PRESET
REPORTS = BUILD / "reports"
# words in the report
DEFECTS = {"asan": {"address": "heap-buffer-overflow", "undefined": "", "float-cast": ""},
           "tsan": {"thread": "data race"}}


def environment():
    """The environment of the test preset. Reports go into files, because the output and exit of a worker belong to its
    job. (Together with the address sanitizer, GCC's undefined-behaviour sanitizer ignores log_path.)"""
    preset = next(p for p in json.loads((ROOT / "CMakePresets.json").read_text())["testPresets"] if p["name"] == PRESET)
    options = {name: f"{value.replace('${sourceDir}', str(ROOT))}:log_path={REPORTS}/report"
               for name, value in preset["environment"].items()}
    return {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", **options}


def call(*command):
    return subprocess.run([str(c) for c in command], cwd=ROOT, env=environment()).returncode


def reports():
    """Reports since the last call."""
    files = sorted(REPORTS.iterdir())
    said = [text for file in files if (text := file.read_text(errors="replace")).strip()]
    for file in files:
        file.unlink()
    return said


def build():
    """Uses half of the processors, because CTest runs two tests at once, or KINORA_COMPILERS."""
    if not (BUILD / "build.ninja").exists() and call("cmake", "--preset", PRESET):
        sys.exit(f"sanitize: preset {PRESET} cannot be configured")
    if call("cmake", "--build", "--preset", PRESET, "--parallel",
            os.environ.get("KINORA_COMPILERS") or max(1, (os.cpu_count() or 1) // 2), "--target", "defects", *PROGRAMS):
        sys.exit(f"sanitize: preset {PRESET} does not build")


def test_of(program):
    """Not NAME.alone, which measures time."""
    return rf"fuzz\.{program[:-5]}" if program.endswith("_fuzz") else program


shutil.rmtree(REPORTS, ignore_errors=True)
build()
REPORTS.mkdir()
for defect, words in DEFECTS[PRESET].items():
    ended, said = call(BUILD / "tests/defects", defect), "\n".join(reports())
    if ended == 0 or words not in said:
        sys.exit(f"sanitize: the defect '{defect}' is not seen:\n{said}")
code = call("ctest", "--test-dir", BUILD, "--output-on-failure", "--no-tests=error", "-R",
            f"^({'|'.join(map(test_of, PROGRAMS))})$")
found = reports()
print(*found, f"{len(found)} reports", sep="\n")
sys.exit(bool(code or found))
