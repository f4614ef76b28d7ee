#!/usr/bin/env python3
"""Every page of docs/ says what to do if it goes wrong: symptoms, causes and remedies. Each message that it quotes is
one of the sources: `...` in it stands for what the program fills in, and the rest is in one file.
usage: page_messages.py ROOT"""
import pathlib, re, sys

ROOT = pathlib.Path(sys.argv[1])
HEAD = "If it goes wrong"
# The reference is generated, and the other page is all about messages; the test `documents` compares it.
WHOLE = {"reference.md", "malformed-plugins.md"}
ENDINGS = {".cpp", ".hpp", ".h", ".cu", ".js", ".py", ".sh", ".sbatch"}


def literals(path):
    """All that a source file can say, as one text: adjacent literals are one, and braces and quotes are as printed."""
    code = path.read_text(errors="replace")
    if path.suffix in (".py", ".sh", ".sbatch"):
        return code
    code = re.sub(r"(?m)^\s*//.*|\s//\s.*$", "", code)
    text = re.sub(r'(?<!\\)"\s*\n?\s*"', "", code)
    return re.sub(r"\\(.)", r"\1", text).replace("{{", "{").replace("}}", "}")


def sources():
    """The text of each source file that is no test."""
    found = (path for top in ("apps", "core", "kernels", "packaging", "plugins", "sdk") for path in
             (ROOT / top).rglob("*") if path.suffix in ENDINGS and not re.search(r"_(test|fuzz|bench)\.", path.name))
    return [literals(path) for path in found]


def section(text):
    """What is below the heading, up to the next one."""
    found = re.search(rf"(?ms)^#+ {HEAD}$(.*?)(?=^#|\Z)", text)
    return found and found[1]


def messages(part):
    """The quoted messages: code with two words or more in the first column of the table."""
    cells = re.findall(r"(?m)^\| (.*?) (?<!\\)\|", part)
    return [quote for cell in cells for quote in re.findall(r"`([^`]+)`", cell) if re.search(r"\w\W* \W*\w", quote)]


def is_said(message, texts):
    pieces = [piece.strip() for piece in message.replace("\\|", "|").split("...") if len(piece.split()) > 1]
    return bool(pieces) and any(all(piece in text for piece in pieces) for text in texts)


# The check itself finds what it must.
assert messages("| `a ... b c` | `no` |\n| two: `d e`, `f` | |\n") == ["a ... b c", "d e"]
assert is_said("...: is full ... it", [": is full"]) and not is_said("is empty", ["is full"])

texts, failures, seen = sources(), [], 0
for page in sorted((ROOT / "docs").rglob("*.md")):
    name, part = page.relative_to(ROOT), section(page.read_text())
    if page.name in WHOLE:
        continue
    quoted = messages(part or "")
    seen += len(quoted)
    if not quoted:
        failures.append(f"{name} has no part '{HEAD}' with a message of the program; the page's reader needs it most")
    rows = re.findall(r"(?m)^\|(?! what you see)(?!-)(.*)\|$", part or "")
    failures.extend(f"{name}: a row has three cells, what is seen, why, and what to do: {row}"
                    for row in rows if len(re.split(r"(?<!\\)\|", row)) != 3 or not all(
                        cell.strip() for cell in re.split(r"(?<!\\)\|", row)))
    failures.extend(f"{name}: no source says `{message}`" for message in quoted if not is_said(message, texts))
assert failures or seen > 100, seen
print("\n".join(failures) or f"{seen} messages of the pages are those of the sources")
sys.exit(bool(failures))
