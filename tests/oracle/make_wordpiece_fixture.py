#!/usr/bin/env python3
"""Writes tests/data/oracle/wordpiece.json: texts and the ids that the `tokenizers` library gives them.

The vocabulary in the file is the part of the published one that the texts need, so that the test needs no download;
ids are checked to be the same, renumbered, as those of the published tokenizer.json next to the vocabulary.
Usage: make_wordpiece_fixture.py VOCAB.txt. Needs tokenizers 0.23.3.
"""
import json
import pathlib
import sys

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = [
    "", " ", "\t\r\n", "a", "A man rides a horse along the beach at sunset.", "Hello, World! How's it going?",
    "don't stop — it’s “quoted” text…", "state-of-the-art text-to-video (T2V) models: v2.5",
    "$100 + 50% = a^b ~ `code` <tag> {x} [y] |z| \\ _under_score_", "e.g. 3.14159, 1,000,000 and 10⁻³",
    "Café crème brûlée à la carte", "ÀÉÎÕÜ àéîõü ñ ç ß Ø ø Æ æ Œ œ Ł ł Đ đ", "naïve façade — Zoë’s résumé",
    "Z̷͈̿a̶̢l̵g̴o̸ text", "e\u0301 versus \u00e9; A\u030a versus \u00c5 versus \u212b", "İstanbul ıssız IĞDIR", "ΑΒΓ ΣΊΣΥΦΟΣ ἀρχή ΐ",
    "Привет, как дела? Ёлка и йод", "Việt Nam: Tiếng Việt có dấu", "ﬁre ﬂow ﬀ ﬃ ﬄ ſt", "Ｆｕｌｌｗｉｄｔｈ ＡＢＣ １２３！？",
    "人工智能生成视频", "一个人在海边骑马。", "日本語のテキスト、カタカナとひらがな", "ガギグゲゴ パピプペポ", "한국어 텍스트를 처리합니다", "각난",
    "mixed中文and英文text混排", "\U00020000\U0002a6df\u3400\u4dbf\uf900\ufa2d\U0002f800", "〇〆々ヶ 「引用」『二重』・…",
    "emoji 🙂 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ end", "🙂🙂🙂", "a\u200bb\u200cc\u200dd\ufeffe", "soft\u00adhyphen and no\u00a0break\u2003em\u2028line\u2029para",
    "null\u0000char bell\u0007 esc\u001b[31m del\u007f c1\u0085\u009f", "repl\ufffdacement", "private \ue000\uf8ff use", "un\u0378assigned",
    "العربية نص من اليمين", "עברית עם נִקּוּד", "हिन्दी में पाठ", "ภาษาไทย ไม่มีช่องว่าง", "தமிழ் எழுத்து", "ქართული ᲥᲐᲠᲗᲣᲚᲘ",
    "unbelievably antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis", "x" * 100, "x" * 101, "ü" * 100, "ü" * 101,
    "a" * 99 + "é", "word " * 300, "," * 200, "中" * 200, "qzxjkvbw QZXJKVBW 0xDEADBEEF", "http://example.com/a?b=c&d=e#f user@host.org",
    "A [MASK] of [SEP] and [CLS]", "[UNK][PAD]x[SEP]y", "[mask] [Mask] [MASK", "[[MASK]]", "## ##ing a##b ##", "½ ⅓ ² ³ № ™ © ® ∑ ∞ ≠ ≤ √ π",
    "“a”‘b’«c»‹d›„e‟ –—―‐‑ ¿¡ §¶†‡•‰′″", "\u0300\u0301 leading marks", "ǅ ǆ Ǆ ǳ ǲ", "ᾈ ᾳ ῼ Ὥ", "ⅧⅨ ⓐⒷ", "tab\tseparated\nlines\r\nend",
    "𝕳𝖊𝖑𝖑𝖔 𝓌𝑜𝓇𝓁𝒹", "ａ\u3000ｂ", "l\u0332i\u0332n\u0332e", "Ǆungla ǅ", "A" * 20 + "1" * 20, "ÅÅÅ", "ō̄", "q̃ ẛ̣",
]


def tokenizer(vocab):
    t = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100, continuing_subword_prefix="##"))
    t.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.add_special_tokens(SPECIAL)
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])])
    t.enable_truncation(max_length=128)
    return t


def main():
    path = pathlib.Path(sys.argv[1])
    lines = path.read_text(encoding="utf-8").split("\n")
    whole = {piece: i for i, piece in enumerate(lines) if piece}
    full = Tokenizer.from_file(str(path.with_name("tokenizer.json")))
    full.no_padding()
    # A longer match must not vanish with the omitted pieces: keep every piece that a text's words contain.
    used = set(SPECIAL)
    for text in TEXTS:
        for word, _ in full.pre_tokenizer.pre_tokenize_str(full.normalizer.normalize_str(text)):
            word = word[:100]
            used.update(p for i in range(len(word)) for j in range(i + 1, len(word) + 1)
                        for p in ("##" * (i > 0) + word[i:j],) if p in whole)
    small = {piece: i for i, piece in enumerate(p for p in lines if p in used)}
    part = tokenizer(small)
    names = {i: p for p, i in small.items()}
    cases = []
    for text in TEXTS:
        ids = part.encode(text).ids
        assert [whole[names[i]] for i in ids] == full.encode(text).ids, text
        cases.append({"text": text, "ids": ids})
    out = pathlib.Path(__file__).parent.parent / "data" / "oracle" / "wordpiece.json"
    out.parent.mkdir(exist_ok=True)
    body = ",\n".join("  " + json.dumps(c) for c in cases)
    vocab = json.dumps(list(small), ensure_ascii=True)
    out.write_text(f'{{"max_length": 128,\n "vocab": {vocab},\n "cases": [\n{body}\n]}}\n')
    print(f"{out}: {len(cases)} texts, {len(small)} of {len(whole)} pieces, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
