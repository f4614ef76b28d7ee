"""Run files with one change, and what `kinora check` answers about them. For check.py and its parts."""
import os, pathlib, re, subprocess, sys

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
OUT = SCRATCH / "out"
os.environ.pop("KINORA_PLUGIN_PATH", None)  # another program, of check_other_helps(), shall have no plugins of this one
Q, A = "quickstart", "autoregressive"
WEIGHTS = f'weights = "{OUT}/latents/weights.safetensors"'  # as if an earlier job made it


def after(job, *lines):
    """Returns the recipe with these lines added to a job; the error is in the first one."""
    return lambda text: text.replace(f'name = "{job}"\n', f'name = "{job}"\n' + "\n".join(lines) + "\n"), lines[0]


def instead(old, new):
    assert "\n" not in new
    return lambda text: text.replace(old, new), new


def changed(job, key, value):
    """Changes the value of a key that the job has."""
    def change(text):
        head, rest = text.split(f'name = "{job}"\n', 1)
        return f'{head}name = "{job}"\n' + re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", rest, count=1)
    return change, f"{key} = {value}"


def written(name, recipe, *changes):
    text = (ROOT / f"configs/{recipe}.toml").read_text().replace('"../tests', f'"{ROOT}/tests').replace(
        "[run]\n", f'[run]\nout = "{OUT}"\n')
    for change in changes:
        new = change(text)
        assert new != text, f"{name}: nothing is changed"
        text = new
    file = SCRATCH / f"{name}.toml"
    file.write_text(text)
    return file


def check(*arguments, **environment):
    return subprocess.run([KINORA, "check", *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})


# every file that is checked as it stands: its text, its exit code and what is said of it, see check_other_helps()
CHECKED = {}


def answers(files, *arguments, program=None, **environment):
    """What `check` answers about each file: exit code and lines, as if it were checked alone. One process checks them
    all. After each file it is given one that does not exist, and the message about that one is where the answer
    ends."""
    absent = SCRATCH / "absent.toml"
    done = subprocess.run([program or KINORA, "check", *(str(name) for file in files for name in (file, absent)),
                           *arguments], capture_output=True, text=True, timeout=600,
                          env={**os.environ, **environment})
    parts = done.stderr.split(f"{absent}: no such file, or it cannot be read\n")
    assert done.returncode == 2 and len(parts) == len(files) + 1 and not parts.pop(), done
    good, out = iter(done.stdout.splitlines()), []
    for file, part in zip(files, parts):
        lines = [line for line in part.splitlines() if not is_of_a_busy_machine(line)]
        code = 2 if lines and re.fullmatch(rf"{re.escape(str(file))}: \d+ errors?", lines[-1]) else 0
        jobs = pathlib.Path(file).read_text().count("\n[[job]]\n")
        assert code or next(good) == f"{file}: {jobs} job{'s' * (jobs != 1)}, no errors", done
        out.append((code, lines))
    assert not list(good), done
    return out


def checked(files):
    out = answers(files)
    for file, (code, lines) in zip(files, out):
        assert file not in CHECKED, file
        CHECKED[file] = pathlib.Path(file).read_text(), code, lines
    return out


def curations(texts):
    """What `check` answers about files of one curate job and what follows it: exit code and lines, without the file's
    name."""
    files = [SCRATCH / f"curation{len(CHECKED) + n}.toml" for n in range(len(texts))]
    for file, text in zip(files, texts):
        file.write_text(f'[run]\nout = "{OUT}"\n[[job]]\nname = "clips"\nkind = "curate"\n{text}\n')
    return [(code, [line.removeprefix(f"{file}:") for line in lines])
            for file, (code, lines) in zip(files, checked(files))]


def is_of_a_busy_machine(line):
    return "still making its instance" in line or "waiting for plugin" in line
