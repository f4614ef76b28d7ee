#!/usr/bin/env python3
"""JSON files of a stranger's folder that are nested so deeply that copying them would overflow the stack, or that hold
what a terminal obeys: each costs one plain message. usage: hostile_json.py KINORA ROOT SCRATCH"""
import pathlib, shutil, subprocess, sys

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
ORACLE = ROOT / "tests/data/oracle"
DEEP = "[" * 200_000 + "]" * 200_000


def refused(what, *arguments):
    done = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, timeout=60)
    said = done.stderr.decode(errors="replace")
    assert done.returncode in (1, 2), f"{what}: exit {done.returncode}\n{said[:400]}"
    assert said.strip() and len(said) < 4000, f"{what}: {len(said)} letters"
    assert not set(done.stderr) & {0x07, 0x1b}, f"{what}: the terminal would obey {said[:200]!r}"
    print(f"{what}: {said.strip().splitlines()[-1][:150]}")


def folder(name, file, text):
    out = SCRATCH / name
    out.mkdir(parents=True)
    (out / file).write_text(text)
    return out


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    bert = folder("bert", "config.json", '{"architectures": ["BertModel"], "hidden_size": %s}' % DEEP)
    refused("a network's configuration", "inspect", bert)
    refused("an option's file", "inspect", "model/minilm", "--set", f"config={bert}/config.json")
    refused("the name of its class", "inspect", folder("class", "config.json", '{"architectures": %s}' % DEEP))
    for member in ("_class_name", "transformer"):
        pipe = folder(member, "model_index.json", '{"%s": %s}' % (member, DEEP))
        refused(f"a pipeline's {member}", "inspect", pipe)
        refused(f"a pipeline's {member} to generate", "generate", "--pipeline", pipe, "--prompt", "x")
    (SCRATCH / "run.toml").write_text(f'''[[job]]
name = "film"
kind = "generate"
weights = "{bert}"
model = "cosmos"
text = "minilm"
text_weights = "{bert}"
words = "text.wordpiece"
sampler = "flow-euler"
prompts = ["x"]
''')
    refused("check", "check", SCRATCH / "run.toml")
    refused("a class that a terminal obeys", "inspect",
            folder("bell", "config.json", '{"_class_name": "\\u001b]0;pwn\\u0007"}'))


main()
