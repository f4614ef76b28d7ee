"""Writes plugins/stages/text/repair_tables.inc from the tables of ftfy 6.3.1 (Apache-2.0, see NOTICE), and tests/data/oracle/repaired_texts.json: strings and
what Wan's code and diffusers make of them, ftfy.fix_text, html.unescape twice and white space collapsed.

repair_oracle.py compares more of such strings.

Needs ftfy 6.3.1 with wcwidth.
"""
import html
import json
import pathlib
import random
import re
import textwrap

import ftfy
from ftfy import badness, chardata

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES, FIXTURE = ROOT / "plugins/stages/text/repair_tables.inc", ROOT / "tests/data/oracle/repaired_texts.json"
SPACES = "".join(chr(c) for c in range(0x3001) if chr(c).isspace())


def escaped(char):
    return char if char.isascii() and (char.isalnum() or char in "-^.?*+()[]{}|\\:<!$,=") else f"\\x{{{ord(char):x}}}"


def compact(pattern):
    """A verbose pattern of Python's re as one of PCRE2 in ASCII, with Python's \\s and \\w."""
    classes = {"s": "".join(map(escaped, SPACES)), "w": "\\p{L}\\p{N}_"}
    out, inside, i = "", False, 0
    while i < len(pattern):
        char = pattern[i]
        if char == "\\":
            name = pattern[i + 1]
            out += f"[{classes[name]}]" if name in classes and not inside else char + name
            i += 2
            continue
        if not inside and char == "#":
            i = pattern.index("\n", i)
        elif not inside and char.isspace():
            pass
        else:
            inside = inside + (char == "[") - (char == "]")
            out += escaped(char)
        i += 1
    return out


def literal(text, width=110):
    return "\n".join(f'    R"({text[i:i + width]})"' for i in range(0, len(text), width))


def tables():
    def codes(name):
        numbers = ", ".join(f"0x{ord(bytes([b]).decode(name)):X}" for b in range(128, 256))
        row = f"{{{int(name.startswith('sloppy'))}, {int(name == 'macroman')}, {{{numbers}}}}},"
        return f"    // {name}\n" + textwrap.fill(row, 118, initial_indent=" " * 4, subsequent_indent=" " * 12) + "\n"

    encodings = "".join(codes(name) for name in chardata.CHARMAP_ENCODINGS)
    own = {name: char for name, char in chardata.HTML_ENTITIES.items() if name[1:] not in html.entities.html5}
    entities = "".join(f"    {{{json.dumps(name[1:])}, {json.dumps(own[name], ensure_ascii=False)}}},\n" for name in sorted(own))
    ligatures = "".join(f"    {{0x{c:X}, {json.dumps(text, ensure_ascii=False)}}},\n" for c, text in sorted(chardata.LIGATURES.items()))
    TABLES.write_text(f"""// Written by tests/oracle/make_repair_tables.py from ftfy 6.3.1 (Copyright 2023 Robyn Speer, Apache-2.0; see NOTICE).

// Sequences of characters that are mojibake: ftfy's BADNESS_RE.
constexpr const char* kBad =
{literal(compact(badness.BADNESS_RE.pattern))};

// Sequences that look like UTF-8 read in another encoding: UTF8_DETECTOR_RE.
constexpr const char* kLooksLikeUtf8 =
{literal(compact(chardata.UTF8_DETECTOR_RE.pattern))};

// Encodings in the order in which they are tried, and what their bytes from 0x80 on are.
constexpr Encoding kEncodings[] = {{
{encodings}}};

// HTML's names in capitals, besides HTML's own. Sorted by name.
constexpr Entity kCapitals[] = {{
{entities}}};

constexpr Ligature kLigatures[] = {{
{ligatures}}};
""")


def repaired(text):
    text = html.unescape(html.unescape(ftfy.fix_text(text)))
    return re.sub(r"\s+", " ", text.strip()).strip()


WORDS = ("a cat", "the sea at dusk", "naïve café", "Größe — 25 °C", "“quoted”", "‘single’ isn’t", "El Niño…", "日本語のテキスト", "привет мир", "Ελλάδα", "żółć gęślą", "₂ €5 £3 ¥9",
         "emoji 😀🎬", "ﬁne ﬂow ﬀ", "ＦＵＬＬ　ｗｉｄｔｈ ｶﾀｶﾅ", "à la mode", "voilà", "Ångström", "e\u0301 o\u0308", "ñandú", "über", "façade", "№ 5", "™ © ®", "½ ¾ ×", "مرحبا", "שלום", "हिन्दी", "Şişli",
         "ľúbivá", "crème brûlée", "æther œuvre", "→ ← ✓", "«guillemets»", "¿qué?", "¡hola!")
ENCODINGS = ("latin-1", "windows-1252", "windows-1251", "windows-1250", "windows-1253", "windows-1254", "windows-1257", "iso-8859-2", "macroman", "cp437", "sloppy-windows-1252")
NOISE = ("&amp;", "&eacute;", "&EACUTE;", "&#233;", "&#x2019;", "&lt;b&gt;", "&notit;", "&amp;amp;", "&#xD800;", "&#59;", "<br>", "\x1b[31m", "\x00", "\x07", "\x1f", "\u200b", "\ufeff", "\u2028", "\x85", "\r\n", "\r",
         "\n", "\t", "  ", "\xa0", "\u3000", "\ufffc", "\ufffd", "\x1a", "\x80", "\x93", "\x9d", "Ã ", "â€œ", "â€", "Â", "Ã", "ðŸ˜", "&", ";", "?", "’", "\u206a", "\x7f", "&SZLIG;", "Ã¡ ", "é\x1a", "\x0c")


def made(rng):
    text = "".join(rng.choice(WORDS) + rng.choice((" ", ", ", "", ". ")) for _ in range(rng.randint(1, 4)))
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        try:
            text = text.encode("utf-8").decode(rng.choice(ENCODINGS), rng.choice(("strict", "replace", "ignore")))
        except UnicodeDecodeError:
            pass
        if rng.random() < 0.1:
            text = text.replace("\xa0", " ")
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice(NOISE) + text[at:]
    if rng.random() < 0.15:  # anything from the ranges that matter
        at = rng.randint(0, len(text))
        text = text[:at] + "".join(chr(rng.choice((rng.randint(0, 255), rng.randint(0x80, 0x17F), rng.randint(0x2010, 0x2040), rng.randint(0x390, 0x460), rng.randint(0xFF01, 0xFFEF))))
                                   for _ in range(rng.randint(1, 6))) + text[at:]
    return text


def pairs(count, seed):
    rng = random.Random(seed)
    return [[text, repaired(text)] for text in (made(rng) for _ in range(count))]


if __name__ == "__main__":
    tables()
    FIXTURE.write_text("[\n" + ",\n".join(json.dumps(pair) for pair in pairs(800, 1)) + "\n]\n")
