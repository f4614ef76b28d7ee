"""Writes tests/data/oracle/text_encoders.safetensors: tiny T5, UMT5 and CLIP towers through transformers; and
tests/data/oracle/text_*.json: small tokenizers of every kind, hostile texts, and the ids that the `tokenizers` library
(0.23.3) and sentencepiece (0.2.3) give them; and plugins/stages/text/html_entities.inc, HTML's names from Python's own table.

Needs torch, transformers 5.23, tokenizers, sentencepiece and safetensors:

    python tests/oracle/make_text_fixtures.py [encoders] [tokenizers] [entities]

Weights are those of oracle_numbers.py under the names of published checkpoints, so the file holds results alone: outputs and gradients
of sum(output_i * numbers("grad_output_i")), in float64. transformers computes RMSNorm and softmax in float32; `in_float64` does not.
"""
import json
import pathlib
import sys

import oracle_numbers

OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "oracle"
T5 = dict(vocab_size=20, d_model=8, d_kv=4, d_ff=12, num_layers=2, num_heads=2, relative_attention_num_buckets=32,
          relative_attention_max_distance=128, layer_norm_epsilon=1e-6, feed_forward_proj="relu")
T5_CASES = {
    "t5.a": (dict(T5), 7),
    "t5.b": (dict(T5, num_heads=3, num_layers=3, feed_forward_proj="gated-gelu"), 9),
    "t5.c": (dict(T5, relative_attention_num_buckets=8, relative_attention_max_distance=6, feed_forward_proj="gated-silu"), 20),
    "t5.d": (dict(T5, d_model=6), 160),  # every bucket of the published ones
    "t5.e": (dict(T5, layer_norm_epsilon=1e-2, num_heads=1, num_layers=1, feed_forward_proj="gated-gelu"), 3),
}
UMT5_CASES = {
    "umt5.a": (dict(T5, feed_forward_proj="gated-gelu"), 7),
    "umt5.b": (dict(T5, num_heads=3, num_layers=3, feed_forward_proj="gated-gelu"), 9),
    "umt5.c": (dict(T5, relative_attention_num_buckets=8, relative_attention_max_distance=6), 20),
    "umt5.d": (dict(T5, d_model=6, feed_forward_proj="gated-silu"), 160),
    "umt5.e": (dict(T5, layer_norm_epsilon=1e-2, num_heads=1, num_layers=1), 3),
}
CLIP = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2, hidden_act="quick_gelu",
            layer_norm_eps=1e-5, projection_dim=6)
TEXT = dict(CLIP, vocab_size=20, max_position_embeddings=12, eos_token_id=19)
# The last entry: whether the case has the projection.
TEXT_CASES = {
    "clip-text.a": (dict(TEXT), False),
    "clip-text.b": (dict(TEXT, hidden_act="gelu", eos_token_id=7), True),
    "clip-text.c": (dict(TEXT, eos_token_id=2), True),
    "clip-text.d": (dict(TEXT, num_attention_heads=4, num_hidden_layers=3, layer_norm_eps=1e-2), False),
    "clip-text.e": (dict(TEXT, num_attention_heads=1, num_hidden_layers=1, intermediate_size=20), True),
}
VISION = dict(CLIP, image_size=8, patch_size=4, num_channels=3, hidden_act="gelu")
# (configuration, projection, layers that the output leaves out)
VISION_CASES = {
    "clip-vision.a": (dict(VISION, num_hidden_layers=3), False, 1),
    "clip-vision.b": (dict(VISION, hidden_act="quick_gelu"), True, 0),
    "clip-vision.c": (dict(VISION), True, 2),
    "clip-vision.d": (dict(VISION, image_size=10, num_channels=1, num_attention_heads=4), False, 1),  # rows left over
    "clip-vision.e": (dict(VISION, num_attention_heads=1, layer_norm_eps=1e-2, patch_size=2), True, 1),
}


def token_ids(config, batch, length):
    import torch

    ids = torch.arange(batch * length).reshape(batch, length) * 7 % (config["vocab_size"] - 1)
    mask = torch.ones(batch, length, dtype=torch.long)
    if batch > 1:
        mask[1, length - length // 3:] = 0
    return ids, mask


def results(case, model, outputs, name_of=lambda n: n):
    """Outputs and the gradients of all parameters."""
    weight = oracle_numbers.numbers
    loss = sum((o * weight(f"grad_output_{i}", tuple(o.shape))).sum() for i, o in enumerate(outputs))
    loss.backward()
    out = {f"{case}.output_{i}": o.detach() for i, o in enumerate(outputs)}
    out |= {f"{case}.grad.{name_of(k)}": p.grad for k, p in model.named_parameters() if p.grad is not None}
    return out


def encoders():
    import torch
    from oracle_float64 import in_float64
    import transformers.models.clip.modeling_clip as clip
    import transformers.models.t5.modeling_t5 as t5
    import transformers.models.umt5.modeling_umt5 as umt5
    from provenance import save_file
    from transformers import (CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPVisionConfig, CLIPVisionModel,
                              CLIPVisionModelWithProjection, T5Config, T5EncoderModel, UMT5Config, UMT5EncoderModel)

    torch.set_num_threads(1)
    fill = oracle_numbers.fill
    tensors, metadata = {}, {}
    for cases, config, model_of in ((T5_CASES, T5Config, T5EncoderModel), (UMT5_CASES, UMT5Config, UMT5EncoderModel)):
        for case, (options, length) in cases.items():
            model = fill(model_of(config(**options, attn_implementation="eager")))
            ids, mask = token_ids(options, 1 if length == 3 else 2, length)
            with in_float64(t5, umt5):
                out = model(input_ids=ids, attention_mask=mask).last_hidden_state
                tensors |= results(case, model, [out]) | {f"{case}.input_ids": ids, f"{case}.attention_mask": mask}
            metadata[case] = json.dumps(options)
    for case, (options, projects) in TEXT_CASES.items():
        config = CLIPTextConfig(**options, bos_token_id=0, pad_token_id=1, attn_implementation="eager")
        name_of = (lambda n: n) if projects else (lambda n: "text_model." + n)
        model = fill((CLIPTextModelWithProjection if projects else CLIPTextModel)(config), name_of=name_of)
        ids, mask = token_ids(options, 2, 9)
        ids[0, 5] = ids[1, 2] = ids[1, 4] = max(options["eos_token_id"], 7)  # the second text has two ends
        with in_float64(clip):
            body = model.text_model if projects else model
            out = body(input_ids=ids, attention_mask=mask)
            outputs = [out.last_hidden_state, out.pooler_output]
            if projects:
                outputs.append(model(input_ids=ids, attention_mask=mask).text_embeds)
            tensors |= results(case, model, outputs, name_of) | {f"{case}.input_ids": ids, f"{case}.attention_mask": mask}
        metadata[case] = json.dumps(dict(options, projection=projects))
    for case, (options, projects, skip) in VISION_CASES.items():
        config = CLIPVisionConfig(**options, attn_implementation="eager")
        name_of = (lambda n: n) if projects else (lambda n: "vision_model." + n)
        model = fill((CLIPVisionModelWithProjection if projects else CLIPVisionModel)(config), name_of=name_of)
        size = options["image_size"]
        image = oracle_numbers.numbers("image", (2, options["num_channels"], size, size)).requires_grad_()
        with in_float64(clip):
            body = model.vision_model if projects else model
            out = body(pixel_values=image, output_hidden_states=True)
            outputs = [out.hidden_states[-1 - skip], out.pooler_output]
            if projects:
                outputs.append(model(pixel_values=image).image_embeds)
            tensors |= results(case, model, outputs, name_of) | {f"{case}.grad.image": image.grad}
        metadata[case] = json.dumps(dict(options, projection=projects, skip_layers=skip))
    path = OUT / "text_encoders.safetensors"
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata)
    print(path, path.stat().st_size, "bytes")



# Sentences to train on: enough for a few hundred pieces.
CORPUS = """A tram crosses the square while two children chase a red ball. Slow aerial shot over a café terrace at dawn; the camera tilts up
towards the snow-covered mountains, 24 fps. She doesn't know that they've been waiting; he'll be there at 10:45, won't he? The quick brown fox
jumps over the lazy dog, again and again and again. In 1906 a streetcar rode down Market Street, San Francisco. Ein Zug fährt über die Brücke,
während es regnet. Une femme marche lentement dans la rue étroite. Человек идёт по берегу моря на закате. 一个人在海边骑马。 日本語のテキストです。
A close-up of hands kneading dough, flour dust in warm light, shallow depth of field, cinematic, 4k. An astronaut floats through a corridor;
lights flicker. Waves crash, gulls cry, the wind rises. <b>bold</b> &amp; "quoted" text, e-mail: user@host.org, http://example.com/a?b=c&d=e#f""".split(". ")

HOSTILE = [
    "", " ", "  ", "\t\r\n", "a", " a", "a ", "  two  blanks  ", "A man rides a horse along the beach at sunset.", "Hello, World! How's it going?",
    "don't stop — it’s “quoted” text…", "they've we'll I'd you're it's DON'T WE'LL", "state-of-the-art text-to-video (T2V) models: v2.5",
    "$100 + 50% = a^b ~ `code` <tag> {x} [y] |z| \\ _under_score_", "e.g. 3.14159, 1,000,000 and 10⁻³", "Café crème brûlée à la carte",
    "ÀÉÎÕÜ àéîõü ñ ç ß Ø ø Æ æ Œ œ Ł ł Đ đ", "naïve façade — Zoë’s résumé", "Z̷͈̿a̶̢l̵g̴o̸ text", "e\u0301 versus \u00e9; A\u030a versus \u00c5 versus \u212b",
    "İstanbul ıssız IĞDIR", "ΑΒΓ ΣΊΣΥΦΟΣ ἀρχή ΐ", "Привет, как дела? Ёлка и йод", "Việt Nam: Tiếng Việt có dấu", "ﬁre ﬂow ﬀ ﬃ ﬄ ſt", "Ｆｕｌｌｗｉｄｔｈ ＡＢＣ １２３！？",
    "人工智能生成视频", "一个人在海边骑马。", "日本語のテキスト、カタカナとひらがな", "ガギグゲゴ パピプペポ", "ｶﾞｷﾞｸﾞｹﾞｺﾞ ﾊﾟﾋﾟ", "한국어 텍스트를 처리합니다", "각난", "mixed中文and英文text混排",
    "\U00020000\U0002a6df\u3400\u4dbf\uf900\ufa2d\U0002f800", "〇〆々ヶ 「引用」『二重』・…", "emoji 🙂 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ end", "🙂🙂🙂", "🇩🇪🇫🇷🇯🇵", "a\u200bb\u200cc\u200dd\ufeffe",
    "soft\u00adhyphen and no\u00a0break\u2003em\u2028line\u2029para", "null\u0000char bell\u0007 esc\u001b[31m del\u007f c1\u0085\u009f", "repl\ufffdacement", "private \ue000\uf8ff use",
    "العربية نص من اليمين", "עברית עם נִקּוּד", "हिन्दी में पाठ", "ภาษาไทย ไม่มีช่องว่าง", "தமிழ் எழுத்து", "ქართული", "ქართული ᲥᲐᲠᲗᲣᲚᲘ",
    "unbelievably antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis", "x" * 100, "x" * 101, "ü" * 100, "a" * 600, "word " * 60,
    "," * 200, "中" * 120, "qzxjkvbw QZXJKVBW 0xDEADBEEF", "http://example.com/a?b=c&d=e#f user@host.org", "A [MASK] of [SEP] and [CLS]", "[UNK][PAD]x[SEP]y",
    "<s> </s> <pad> <unk> <mask> a<mask>b  <mask>  c", "<mask><mask>", "<MASK> <Mask", "x<s>y</s>", "<|endoftext|>a<|endoftext|> b", "## ##ing a##b ##", "½ ⅓ ² ³ № ™ © ® ∑ ∞ ≠ ≤ √ π ㎞ ㌔",
    "“a”‘b’«c»‹d›„e‟ –—―‐‑ ¿¡ §¶†‡•‰′″", "\u0300\u0301 leading marks", "ǅ ǆ Ǆ ǳ ǲ", "ᾈ ᾳ ῼ Ὥ", "ⅧⅨ ⓐⒷ", "tab\tseparated\nlines\r\nend", "𝕳𝖊𝖑𝖑𝖔 𝓌𝑜𝓇𝓁𝒹",
    "ａ\u3000ｂ", "l\u0332i\u0332n\u0332e", "A" * 20 + "1" * 20, "ÅÅÅ", "▁under▁ ▁▁ bar", "▁", "a▁b", "1234567890 12 3 4.5", "a1b2c3", "!?!?!?...", "\n\n\n", "a\n\nb\n", " \n x",
    "<b>bold</b> &amp; &lt;i&gt; &quot;q&quot; &#233;", "keyword keywords akeyword key word", "KeyWord keyword!", "<extra> <extra>x x<extra>", "ĠGĊ Ġ", "a\u0301\u0301\u0301\u0301\u0301b",
    "各国の\u3099か\u3099", "x\u200d\u200dy", "\u1100\u1161\u11a8", "ch\u00e9ri\u0301e", "\u00a0lead", "trail\u00a0", "T\u0308\u0323", "ŉ ĳ ǰ", "\u2126 \u212a", "…‥", "㈱㍿", "ﷺ", "\ufb1d", "x\u2044y", "ⁿ¹",
]


def texts():
    """The list above, and texts of its pieces drawn by a fixed rule."""
    import random

    draw = random.Random(5)
    words = sorted({w for t in HOSTILE + CORPUS for w in t.split(" ") if 0 < len(w) < 20})
    made = [draw.choice(["", " "]) + draw.choice([" ", "  ", ""]).join(draw.choices(words, k=draw.randint(1, 6))) for _ in range(60)]
    made += ["".join(draw.choices("aeé 中▁1.<>'!\n\u0301🙂ş-", k=draw.randint(1, 25))) for _ in range(60)]
    return HOSTILE + made


def spm(folder, name, **options):
    import sentencepiece

    (folder / "corpus.txt").write_text("\n".join(CORPUS), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(input=str(folder / "corpus.txt"), model_prefix=str(folder / name), minloglevel=2,
                                             hard_vocab_limit=False, **options)
    return (folder / f"{name}.model").read_bytes()


def rules(folder, fold):
    """A normalisation of our own, because a published one is 240 KB: NFKC, with or without case, of what the texts hold."""
    import unicodedata

    form = lambda t: unicodedata.normalize("NFKC", t.lower() if fold else t)  # noqa: E731
    every = "".join(texts())
    keys = set(every) | {every[i:i + n] for i in range(len(every)) for n in (2, 3) if all(map(unicodedata.combining, every[i + 1:i + n]))}
    lines = ["9\t20", "A\t20", "D\t20", "A0\t20", "3000\t20", "2003\t20", "2028\t20", "85\t20", "200B\t20", "D A\t20", "66 66 69\tFB03"]
    seen = {line.split("\t")[0] for line in lines}
    for key in sorted(keys):
        codes = " ".join(f"{ord(c):X}" for c in key)
        made = form(key).strip() or " "
        if "\0" not in key and codes not in seen and made != key and not key.isspace():
            lines.append(codes + "\t" + " ".join(f"{ord(c):X}" for c in made))
    path = folder / f"rules{int(fold)}.tsv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def charsmap(model):
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    return proto.normalizer_spec.precompiled_charsmap


def trained(model, trainer, normalizer=None, words=None, after=None, added=()):
    from tokenizers import Tokenizer

    t = Tokenizer(model)
    if normalizer:
        t.normalizer = normalizer
    if words:
        t.pre_tokenizer = words
    t.train_from_iterator(CORPUS, trainer)
    if after:
        t.post_processor = after(t)
    if added:
        t.add_tokens(list(added))
    return t


def library_tokenizers(maps):
    from tokenizers import AddedToken, Regex, models, normalizers as n, pre_tokenizers as p, processors, trainers

    special = ["<pad>", "</s>", "<unk>", "<s>", "<mask>"]

    def template(single, *names):
        return lambda t: processors.TemplateProcessing(single=single, special_tokens=[(x, t.token_to_id(x)) for x in names])

    def unigram(**options):
        return trainers.UnigramTrainer(vocab_size=260, special_tokens=special, unk_token="<unk>", show_progress=False, **options)

    def bpe(**options):
        return trainers.BpeTrainer(vocab_size=options.pop("vocab_size", 330), show_progress=False, **options)

    space = [n.Replace(Regex(r"\s+"), " "), n.Strip()]
    clip = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    yield "t5", trained(models.Unigram(), unigram(), n.Sequence([n.Precompiled(maps[0]), n.Replace(Regex(" {2,}"), " ")]), p.Metaspace(),
                        template("$A </s>", "</s>"), [AddedToken("<extra>", lstrip=True, rstrip=True), AddedToken("keyword", single_word=True)])
    yield "first", trained(models.Unigram(), unigram(), n.Precompiled(maps[1]), p.Metaspace(prepend_scheme="first"), template("<s> $A </s>", "<s>", "</s>"),
                           [AddedToken("<extra>", normalized=False, rstrip=True)])
    yield "whole", trained(models.Unigram(), unigram(), n.Sequence(space + [n.NFKD(), n.StripAccents(), n.Lowercase(), n.Replace(" ", "▁"), n.Prepend("▁")]))
    yield "gpt2", trained(models.BPE(), bpe(special_tokens=["<|endoftext|>"], initial_alphabet=p.ByteLevel.alphabet()), None, p.ByteLevel(add_prefix_space=False),
                          lambda t: processors.ByteLevel(trim_offsets=False))
    yield "roberta", trained(models.BPE(), bpe(special_tokens=special, initial_alphabet=p.ByteLevel.alphabet()), n.NFC(), p.ByteLevel(add_prefix_space=True),
                             lambda t: processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>"))), [AddedToken("<mask>", lstrip=True)])
    yield "clip", trained(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"),
                          bpe(special_tokens=["<|startoftext|>", "<|endoftext|>"], end_of_word_suffix="</w>", initial_alphabet=p.ByteLevel.alphabet(), vocab_size=620),
                          n.Sequence([n.NFC(), n.Replace(Regex(r"\s+"), " "), n.Lowercase()]),
                          p.Sequence([p.Split(Regex(clip), "removed", invert=True), p.ByteLevel(add_prefix_space=False)]),
                          lambda t: processors.RobertaProcessing(("<|endoftext|>", t.token_to_id("<|endoftext|>")), ("<|startoftext|>", t.token_to_id("<|startoftext|>")),
                                                                 trim_offsets=False, add_prefix_space=False))
    yield "llama3", trained(models.BPE(ignore_merges=True), bpe(special_tokens=["<s>"], initial_alphabet=p.ByteLevel.alphabet()), None,
                            p.Sequence([p.Split(Regex(llama3), "isolated"), p.ByteLevel(add_prefix_space=False, use_regex=False)]),
                            lambda t: processors.Sequence([processors.ByteLevel(), template("<s> $A", "<s>")(t)]))
    fallback = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    yield "llama2", trained(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True), bpe(special_tokens=fallback, limit_alphabet=60, vocab_size=420),
                            n.Sequence([n.Prepend("▁"), n.Replace(" ", "▁")]), None, template("<s> $A", "<s>"))
    yield "fused", trained(models.BPE(unk_token="<unk>", fuse_unk=True), bpe(special_tokens=["<unk>"], limit_alphabet=25, continuing_subword_prefix="@@"),
                           n.Lowercase(), p.Whitespace())
    yield "unfused", trained(models.BPE(unk_token="<unk>"), bpe(special_tokens=["<unk>"], limit_alphabet=25), n.NFD(),
                             p.Sequence([p.WhitespaceSplit(), p.Punctuation("merged_with_next"), p.Digits(individual_digits=True)]))
    yield "bert", trained(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(vocab_size=330, special_tokens=bert, show_progress=False), n.BertNormalizer(),
                          p.BertPreTokenizer(), lambda t: processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]"))))
    yield "cased", trained(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12), trainers.WordPieceTrainer(vocab_size=300, special_tokens=bert, show_progress=False),
                           n.BertNormalizer(lowercase=False, handle_chinese_chars=False, clean_text=False, strip_accents=True),
                           p.Sequence([p.Split(" ", "merged_with_previous"), p.Punctuation("contiguous"), p.Digits(), p.CharDelimiterSplit("-")]),
                           template("[CLS] $A [SEP]", "[CLS]", "[SEP]"))
    yield "nmt", trained(models.Unigram(byte_fallback=False), unigram(), n.Sequence([n.Nmt(), n.NFKC(), n.Strip(left=True, right=False)]),
                         p.Sequence([p.Split(Regex(r"\w+|\W"), "isolated"), p.Metaspace(prepend_scheme="never", split=False)]))


def piece_models(folder):
    common = dict(vocab_size=300, character_coverage=0.98)
    yield "spm.t5", spm(folder, "t5", model_type="unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, normalization_rule_tsv=rules(folder, False), **common)
    yield "spm.user", spm(folder, "user", model_type="unigram", user_defined_symbols=["<extra>", "▁key", "中"], normalization_rule_name="identity",
                          remove_extra_whitespaces=False, **common)
    yield "spm.fallback", spm(folder, "fallback", model_type="unigram", byte_fallback=True, normalization_rule_tsv=rules(folder, True), vocab_size=560, character_coverage=0.98)
    yield "spm.bpe", spm(folder, "bpe", model_type="bpe", user_defined_symbols=["<extra>", "word"], normalization_rule_tsv=rules(folder, True), **common)
    yield "spm.llama", spm(folder, "llama", model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                           vocab_size=560, character_coverage=0.98)
    yield "spm.suffix", spm(folder, "suffix", model_type="unigram", treat_whitespace_as_suffix=True, normalization_rule_tsv=rules(folder, False), **common)


def tokenizers():
    import base64
    import tempfile

    import sentencepiece

    cases, every = {}, texts()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        maps = [charsmap(spm(folder, f"map{fold}", model_type="unigram", vocab_size=300, normalization_rule_tsv=rules(folder, fold))) for fold in (False, True)]
        for name, model in piece_models(folder):
            t = sentencepiece.SentencePieceProcessor(model_proto=model)
            assert len(model) < 60000, (name, len(model))
            cases[name] = dict(model=base64.b64encode(model).decode(), ids=[t.encode(x) for x in every])
        for name, t in library_tokenizers(maps):
            cases[name] = dict(tokenizer=json.loads(t.to_str()), ids=[t.encode(x).ids for x in every])
    import html
    import re

    raw = [t for t in every if "&" in t] + ["&amp;amp;lt;", "&notit; &notin; &not", "&#x41;&#65;&#128;&#0;&#xD800;&#1;&#x110000;&#99999999999;", "&#;&#x;&;&& &a", "&AMP &amp", "&CounterClockwiseContourIntegral;",
                                            "&NotEqualTilde;", " a\u00a0\u2003b\u001c c\u200b ", "&ampx &copy2 &eacute", "&lt;br&gt;"]
    clean = [re.sub(r"\s+", " ", html.unescape(html.unescape(t))).strip() for t in raw]
    # Whole files, as the fuzz target starts from them.
    (OUT / "text_seed.model").write_bytes(base64.b64decode(cases["spm.t5"]["model"]))
    for name in ("t5", "clip"):
        (OUT / f"text_seed_{name}.json").write_text(json.dumps(cases[name]["tokenizer"], separators=(",", ":")))
    for name, case in cases.items():
        lines = ",\n".join(json.dumps(i, separators=(",", ":")) for i in case.pop("ids"))
        file = OUT / f"text_{name}.json"
        body = json.dumps(case, ensure_ascii=True, separators=(",", ":"))
        file.write_text(f'{body[:-1]},"ids":[\n{lines}]}}\n')
        print(file.name, file.stat().st_size)
    (OUT / "text_texts.json").write_text(json.dumps(dict(texts=every, raw=raw, clean=clean), ensure_ascii=True, indent=0) + "\n")
    print(len(every), "texts")


def entities():
    import html.entities

    def quoted(text):
        return '"' + "".join(f"\\x{b:02x}" if b > 126 or b in b'"\\' or b < 32 else chr(b) for b in text.encode()) + '"'

    table = sorted((k.encode(), v) for k, v in html.entities.html5.items())
    path = OUT.parents[2] / "plugins" / "stages" / "text" / "html_entities.inc"
    path.write_text("".join(f"{{{quoted(k.decode())}, {quoted(v)}}},\n" for k, v in table))
    print(path, len(table))


if __name__ == "__main__":
    for what in sys.argv[1:] or ["encoders", "tokenizers", "entities"]:
        {"encoders": encoders, "tokenizers": tokenizers, "entities": entities}[what]()
