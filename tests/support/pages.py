"""What the blocks of code of a Markdown page hold: TOML, and commands for a shell."""
import re


def blocks(text):
    """Every block of code, fenced (with its language), or indented by four up to an empty line: [(line, language,
    text)]."""
    out, lines = [], text.split("\n")
    n = 0
    while n < len(lines):
        start = n
        if fence := re.match(r" *```(\w*)", lines[n]):
            n += 1
            while not lines[n].strip() == "```":
                n += 1
            out.append((start + 2, fence[1], "\n".join(lines[start + 1:n])))
        elif lines[n].startswith("    ") and not lines[n - 1].strip():
            while n < len(lines) and lines[n].startswith("    ") and lines[n].strip():
                n += 1
            out.append((start + 1, "", "\n".join(line[4:] for line in lines[start:n])))
        n += 1
    return out


def toml_of(language, code):
    """A whole document, or the elements of a list of stages made one; None if it is not TOML."""
    first = next(line for line in code.split("\n") if line.strip() and not line.lstrip().startswith("#"))
    if language == "toml" or (not language and re.match(r"""\[\[?[a-z.]+\]|[a-z_.]+ = (true|false|["'\[{\d-])""",
                                                        first)):
        return code
    if not language and re.match(r"\s*\{ ?use ?=", first):
        return f"stages = [\n{code}\n]"
    return None


def commands_of(text):
    """The lines of the blocks that are for a shell, without comments: [(line, command)]. A block without a language is
    one unless it is TOML."""
    out = []
    for line, language, code in blocks(text):
        if language in ("", "sh", "bash") and toml_of(language, code) is None:
            rows = [re.sub(r"(^|\s+)# .*$", "", row).strip() for row in code.split("\n")]
            out += [(line + n, row) for n, row in enumerate(rows) if row]
    return out
