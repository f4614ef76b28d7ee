#!/usr/bin/env python3
"""Runs the tests labelled gpu of a build with CUDA, alone and under compute-sanitizer, and prints a report in Markdown
to send back. usage: gpu_test.py BUILD [--without-sanitizer]

The exit code is 1 if a test failed, and 2 if none ran or there is no GPU."""
import json, os, pathlib, re, shutil, subprocess, sys, time

LIMIT = 900  # seconds a program


def output_of(*command, env=None):
    """(exit code, output); -1 for a program that is not there or takes too long."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              env=env, timeout=LIMIT)
        return done.returncode, done.stdout
    except FileNotFoundError:
        return -1, f"{command[0]}: not found"
    except subprocess.TimeoutExpired as error:
        return -1, f"{(error.stdout or b'').decode(errors='replace')}\nstopped after {LIMIT} s"


def programs(build):
    """{name: (command, environment)} of the tests labelled gpu."""
    code, text = output_of("ctest", "--test-dir", str(build), "-L", "gpu", "--show-only=json-v1")
    if code:
        sys.exit(f"{build}: {text.strip()}; build it first: KINORA_PRESET=cuda packaging/dev.sh gpu-test")
    out = {}
    for test in json.loads(text)["tests"]:
        given = {p["name"]: p["value"] for p in test["properties"]}
        out[test["name"]] = test["command"], dict(line.split("=", 1) for line in given.get("ENVIRONMENT", []) if line)
    return out


def counted(text):
    """(passed, failed, skipped, first reason for a skip) of GoogleTest's output."""
    number = lambda what: int((re.findall(rf"\[ +{what} +\] (\d+) test", text) or ["0"])[-1])  # noqa: E731
    reason = re.search(r"Skipped\n(.+)", text)
    return number("PASSED"), number("FAILED"), number("SKIPPED"), reason[1] if reason else ""


def main():
    build, sanitized = pathlib.Path(sys.argv[1]), "--without-sanitizer" not in sys.argv
    code, gpu = output_of("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    if code:  # cases that need no GPU would pass
        print(f"no GPU: {gpu.strip()}")
        sys.exit(2)
    _, version = output_of(str(build / "bin/kinora"), "--version")
    print("## GPU report\n", "", gpu.strip(), "", version.strip(), sep="\n")
    print("\n| test | passed | failed | skipped | seconds |\n|---|---|---|---|---|")
    ran, bad, logs = 0, 0, []
    ways = [("", [])] + ([(", compute-sanitizer", ["compute-sanitizer", "--error-exitcode", "9"])]
                         if sanitized and shutil.which("compute-sanitizer") else [])
    for name, (command, environment) in programs(build).items():
        for words, before in ways:
            start = time.monotonic()
            code, text = output_of(*before, *command, env={**os.environ, **environment})
            passed, failed, skipped, reason = counted(text)
            ran, bad = ran + passed, bad + bool(code)
            wrong = str(failed) if failed or not code else f"exit code {code}"
            print(f"| {name}{words} | {passed} | {wrong} | {skipped} {reason} | {time.monotonic() - start:.1f} |",
                  flush=True)
            measured = [line for line in text.splitlines() if line.startswith("[measured]")]
            logs += [f"{name}: {line.removeprefix('[measured] ')}" for line in measured if not words]
            if code:
                logs += [f"### {name}{words}", *text.splitlines()[-80:]]
    if sanitized and len(ways) == 1:
        print("\ncompute-sanitizer is not on PATH: memory errors were not looked for")
    print("", *logs, sep="\n")
    sys.exit(1 if bad else 0 if ran else 2)


main()
