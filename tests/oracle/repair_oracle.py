#!/usr/bin/env python3
"""The repair of prompts and captions (text.tokenizer with `clean`) against ftfy and html of Python on 10,000 made
strings: none differs.
It needs ftfy, of this Python or of the one that KINORA_ORACLE_PYTHON names, if it is set.
usage: repair_oracle.py REPAIR_CASES"""
import json, os, pathlib, subprocess, sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
from skips import skip

if python := os.environ.pop("KINORA_ORACLE_PYTHON", None):
    os.execv(python, [python, *sys.argv])
try:
    import make_repair_tables as made
except ImportError as error:
    skip("repair_oracle", f"ftfy is not installed ({error}); packaging/dev.sh setup installs it")
    sys.exit(0)

COUNT, SEED = 10_000, 7
pairs = made.pairs(COUNT, SEED)
lines = "".join(json.dumps(text) + "\n" for text, _ in pairs)
got = [json.loads(line)
       for line in subprocess.run([sys.argv[1]], input=lines, capture_output=True, text=True,
                                  check=True).stdout.splitlines()]
assert len(got) == COUNT, f"{len(got)} lines of {COUNT}"
changed = sum(text.strip() != want for text, want in pairs)
assert changed > COUNT // 2, f"only {changed} strings need a repair"
wrong = [(text, want, was) for (text, want), was in zip(pairs, got, strict=True) if was != want]
for text, want, was in wrong[:5]:
    print(f"of {text!a}\n  expected {want!a}\n  got      {was!a}")
print(f"{COUNT - len(wrong)} of {COUNT} strings, {changed} of which need a repair, are as ftfy repairs them")
sys.exit(bool(wrong))
