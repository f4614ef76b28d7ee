#!/usr/bin/env python3
"""HTML's character references: plugins/stages/text/html_entities.tsv and what the program resolves, against Python's
table html.entities.html5 and html.unescape: every name, alone, before a letter and without its last character.

    html_entities.py ROOT REPAIR_CASES    checks both
    html_entities.py --write ROOT         writes the file
"""
import html, html.entities, json, pathlib, subprocess, sys

HEAD = """# HTML's named character references (html.spec.whatwg.org, 13.5), from Python's html.entities.html5.
# tests/oracle/html_entities.py --write writes this file. A line: the name with its semicolon, if it has one; a tab;
# code points in hexadecimal. Sorted by the bytes of the names.
"""
root = pathlib.Path(sys.argv[2 if sys.argv[1] == "--write" else 1])
file = root / "plugins/stages/text/html_entities.tsv"
table = HEAD + "".join(f"{name}\t{' '.join(f'{ord(c):x}' for c in text)}\n"
                       for name, text in sorted(html.entities.html5.items()))
if sys.argv[1] == "--write":
    file.write_text(table)
    sys.exit()

assert file.read_text() == table, f"{file} is not Python's table: tests/oracle/html_entities.py --write {root}"
names = list(html.entities.html5)
assert len(names) == 2231, f"{len(names)} names: another version of HTML"
texts = [form for name in names for form in (f"&{name}", f"a &{name}b", f"&{name[:-1]} ", f"&amp;{name}")]
done = subprocess.run([sys.argv[2], "--unescape"], input="".join(json.dumps(text) + "\n" for text in texts),
                      capture_output=True, encoding="utf-8", check=True)
got = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
wrong = [(text, html.unescape(text), was) for text, was in zip(texts, got, strict=True) if was != html.unescape(text)]
for text, want, was in wrong[:5]:
    print(f"of {text!a}\n  expected {want!a}\n  got      {was!a}")
print(f"{len(texts) - len(wrong)} of {len(texts)} texts of {len(names)} names are as Python resolves them")
sys.exit(bool(wrong))
