"""Writes tests/data/oracle/decoded.json: texts that the `tokenizers` library (0.23.3) and sentencepiece give for ids of the
tokenizers of text_*.json; and tests/data/oracle/chats.json: prompts that jinja2 makes of chats, their ids, and the labels by
the offsets of the library. The templates are written here, in the forms of published ones.

    python tests/oracle/make_decode_fixtures.py
"""
import base64
import json
import pathlib
import random

import jinja2
import sentencepiece
from tokenizers import Tokenizer

OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "oracle"
META, BYTES = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
BLANKS = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
WORDS = {"type": "WordPiece", "prefix": "##", "cleanup": True}


def sequence(*decoders):
    return {"type": "Sequence", "decoders": list(decoders)}


DECODERS = {
    "t5": META, "first": dict(META, prepend_scheme="first"), "nmt": dict(META, prepend_scheme="never"),
    "whole": sequence(BLANKS, {"type": "Fuse"}, STRIP), "gpt2": BYTES,
    "roberta": BYTES, "clip": BYTES, "llama3": sequence(BYTES),
    "llama2": sequence(BLANKS, {"type": "ByteFallback"}, {"type": "Fuse"}, STRIP), "fused": dict(WORDS, prefix="@@", cleanup=False),
    "unfused": None, "bert": WORDS,
    "cased": sequence(dict(WORDS, cleanup=False), dict(STRIP, content="a", start=0, stop=1), dict(STRIP, content="e", start=2)),
}
PIECES = ["spm.t5", "spm.user", "spm.fallback", "spm.bpe", "spm.llama", "spm.suffix"]


def read(name):
    return json.loads((OUT / f"text_{name}.json").read_text())


def drawn(ids, seed):
    draw = random.Random(seed)
    return [draw.choices(ids, k=draw.randint(1, 12)) for _ in range(40)]


def decoded():
    out = {}
    for number, (name, decoder) in enumerate(DECODERS.items()):
        f = read(name)
        t = Tokenizer.from_str(json.dumps(dict(f["tokenizer"], decoder=decoder)))
        # The library marks a whole run of bytes that is not UTF-8, this one only its broken characters.
        ids = [i for i in range(t.get_vocab_size()) if name != "llama2" or not t.id_to_token(i).startswith("<0x")]
        cases = f["ids"][number % 8::8] + drawn(ids, number)
        out[name] = {"decoder": decoder, "ids": cases, "texts": [t.decode(c, skip_special_tokens=True) for c in cases],
                     "all": [t.decode(c, skip_special_tokens=False) for c in cases]}
    for number, name in enumerate(PIECES):
        f = read(name)
        t = sentencepiece.SentencePieceProcessor(model_proto=base64.b64decode(f["model"]))
        cases = f["ids"][number % 8::8] + drawn(range(t.get_piece_size()), number)
        out[name] = {"ids": cases, "texts": [t.decode(c) for c in cases]}
    body = ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in out.items())
    (OUT / "decoded.json").write_text("{" + body + "}\n")
    print(sum(len(c["ids"]) for c in out.values()), "decoded")


# Around what an assistant's turn trains; removed before the prompt is tokenized.
BEGIN, END = "⟦", "⟧"
PARTS = ("{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}"
         "{% set image_count.value = image_count.value + 1 %}{% if add_vision_id %}Picture {{ image_count.value }}: {% endif %}"
         "<|vision_start|><|image_pad|><|vision_end|>{% elif content['type'] == 'video' or 'video' in content %}"
         "{% set video_count.value = video_count.value + 1 %}{% if add_vision_id %}Video {{ video_count.value }}: {% endif %}"
         "<|vision_start|><|video_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}")
LOOP, TURN = "{% for message in messages %}", "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"


def chatml(system):
    """In the form of Qwen2-VL."""
    first = f"{{% if loop.first and message['role'] != 'system' %}}<|im_start|>system\n{system}<|im_end|>\n{{% endif %}}" if system else ""
    return ("{% set image_count = namespace(value=0) %}{% set video_count = namespace(value=0) %}" + LOOP + first + "<|im_start|>{{ message['role'] }}\n"
            "{% if message['content'] is string %}⟦{{ message['content'] }}<|im_end|>⟧\n{% else %}⟦" + PARTS + "<|im_end|>⟧\n{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def otherwise(condition, system):
    return "{% if " + condition + " %}{{ '<|im_start|>system\\n" + system + "<|im_end|>\\n' }}{% endif %}"


TEMPLATES = {
    "chatml": chatml(None), "qwen2": chatml("You are a helpful assistant."), "vila": chatml("You are a helpful assistant"),
    "qwen2.5": chatml("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    "llama3": "{% set loop_messages = messages %}{% for message in loop_messages %}"
              "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n⟦'+ message['content'] | trim + '<|eot_id|>⟧' %}"
              "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    "vicuna": "{{ '<s>' }}{% if messages[0]['role'] != 'system' %}{{ \"A chat between a curious user and an artificial intelligence assistant. The assistant "
              "gives helpful, detailed, and polite answers to the user's questions. \" }}{% endif %}{% for m in messages %}{% if m['role'] == 'system' %}"
              "{{ m['content'] + ' ' }}{% elif m['role'] == 'user' %}{{ 'USER: ' + m['content'] + ' ' }}{% else %}{{ 'ASSISTANT:⟦ ' + m['content'] + '</s>⟧' }}"
              "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}",
}
# Other spellings of a template for texts: [name in TEMPLATES, template].
SPELLINGS = [
    ["chatml", LOOP + TURN + "{% endfor %}" + PROMPT],
    ["chatml", "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}" + LOOP + TURN + "{% endfor %}" + PROMPT],
    ["chatml", "{%- for message in messages -%}\n  {{- \"<|im_start|>\" + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}\n{%- endfor -%}\n"
               "{%- if add_generation_prompt -%}\n  {{- '<|im_start|>assistant\\n' -}}\n{%- endif -%}\n"],
    ["qwen2", LOOP + otherwise("loop.first and messages[0]['role'] != 'system'", "You are a helpful assistant.") + TURN + "{% endfor %}" + PROMPT],
    ["vila", otherwise("messages[0]['role'] != 'system'", "You are a helpful assistant").replace("\\n", "\n")
             + "{% for message in messages if message['content'] is not none %}" + TURN.replace("\\n", "\n") + "{% endfor %}" + PROMPT],
    # Qwen2.5's, with fewer words about tools
    ["qwen2.5", """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- for tool in tools %}
        {{- "\\n" + tool | tojson }}
    {%- endfor %}
    {{- '{\\"name\\": <name>}<|im_end|>\\n' }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.last %}
            {{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""],
]
# Templates near ChatML whose prompts are not those of any layout, for some chat.
OTHERS = {
    "begin": "{{ bos_token }}" + LOOP + TURN + "{% endfor %}" + PROMPT,
    "replace": LOOP + TURN.replace("message['content']", "message['content'] | replace('<b>', '')") + "{% endfor %}" + PROMPT,
    "trim": LOOP + TURN.replace("message['content']", "message['content'] | trim") + "{% endfor %}" + PROMPT,
    "end": LOOP + TURN + "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% else %}{{ eos_token }}{% endif %}",
    "always": "{{ '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}" + LOOP + TURN + "{% endfor %}" + PROMPT,
    "no system": LOOP + "{% if message['role'] != 'system' %}" + TURN + "{% endif %}{% endfor %}" + PROMPT,
    "own system": LOOP + otherwise("loop.first", "Be kind.") + "{% if message['role'] != 'system' %}" + TURN + "{% endif %}{% endfor %}" + PROMPT,
    "roles": LOOP + otherwise("loop.first and messages[0]['role'] != 'system'", "Be kind.") + "{% if message['role'] == 'user' %}" + TURN
             + "{% elif message['role'] == 'assistant' %}" + TURN + "{% endif %}{% endfor %}" + PROMPT,
    "indented": "{% for message in messages %}\n    " + TURN + "\n{% endfor %}\n" + PROMPT,
    "last": LOOP + TURN.replace(" + '<|im_end|>' + '\\n'", "") + "{% if not loop.last or add_generation_prompt %}{{ '<|im_end|>\\n' }}{% endif %}{% endfor %}" + PROMPT,
    "numbered": TEMPLATES["qwen2"].replace("{% if add_vision_id %}Video {{ video_count.value }}: {% endif %}", "Video {{ video_count.value }}: "),
}
ASKS = {"role": "user", "content": "What happens in the video? <b>Café</b> 人工智能 🙂"}
SAYS = {"role": "assistant", "content": "A tram crosses the square; two children chase a red ball."}
SYSTEM = {"role": "system", "content": "Answer in one word."}
CHATS = [
    [ASKS], [ASKS, SAYS], [SYSTEM, ASKS], [SYSTEM, ASKS, SAYS, {"role": "user", "content": "And then?"}, {"role": "assistant", "content": "Nothing."}],
    [ASKS, {"role": "assistant", "content": ""}], [{"role": "user", "content": " \n two blanks  "}, {"role": "assistant", "content": "  yes \n"}],
    [ASKS, {"role": "assistant", "content": "\nA line feed first."}], [ASKS, SAYS, ASKS], [SAYS], [ASKS, {"role": "assistant", "content": "a" * 50 + " 🙂🙂"}],
]
MEDIA = [
    [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": "What happens?"}]}, SAYS],
    [{"role": "user", "content": [{"type": "text", "text": "One "}, {"type": "image"}, {"type": "text", "text": " and "}, {"type": "image"}, {"type": "video"}]}],
]
TOKENS = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<|begin_of_text|>", "<|start_header_id|>",
          "<|end_header_id|>", "<|eot_id|>"]


def with_tokens(tokenizer, tokens):
    """The tokenizer with these special tokens at the end of its vocabulary."""
    size = Tokenizer.from_str(json.dumps(tokenizer)).get_vocab_size()
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    added = tokenizer["added_tokens"] + [dict(id=size + i, content=token, **flags) for i, token in enumerate(tokens)]
    return Tokenizer.from_str(json.dumps(dict(tokenizer, added_tokens=added)))


def spans_of(marked):
    """The text without marks, and the spans that were marked."""
    text, spans = "", []
    for c in marked:
        if c == BEGIN:
            spans.append([len(text), None])
        elif c == END:
            spans[-1][1] = len(text)
        else:
            text += c
    return text, spans


def render(template, chat):
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(messages=chat, bos_token="<|begin_of_text|>", eos_token="<|eot_id|>",
                                                    add_generation_prompt=chat[-1]["role"] != "assistant")


def clean(marked):
    return marked.replace(BEGIN, "").replace(END, "")


def differs(template, known, chats):
    """For some of these chats, the prompt is not that of the known template."""
    return any(render(template, chat) != render(clean(known), chat) for chat in chats)


def case(name, template, chat, t):
    text, spans = spans_of(render(template, chat))
    if name != "vicuna":  # which marks answers alone
        assert len(spans) == len(chat)
        spans = [s for s, m in zip(spans, chat) if m["role"] == "assistant"]
    e = t.encode(text, add_special_tokens=False)
    labels, crosses = [], False
    for i, (a, b) in zip(e.ids, e.offsets):
        inside = any(s <= a and b <= z for s, z in spans)
        crosses |= not inside and any(max(s, a) < min(z, b) for s, z in spans)
        labels.append(i if inside else -100)
    return {"template": name, "chat": chat, "text": text, "ids": e.ids, "labels": labels if spans and not crosses else None}


def chats():
    llama3, llama2 = read("llama3")["tokenizer"], read("llama2")["tokenizer"]
    words, pieces = with_tokens(llama3, TOKENS), Tokenizer.from_str(json.dumps(llama2))
    cases = []
    for name, template in TEMPLATES.items():
        for chat in CHATS + (MEDIA if "im_start" in template else []):
            cases.append(case(name, template, chat, pieces if name == "vicuna" else words))
    for name, template in SPELLINGS:
        assert not differs(template, TEMPLATES[name], CHATS), template
    others = {key: clean(template) for key, template in OTHERS.items()}
    for key, template in others.items():
        some = CHATS + (MEDIA if "is string" in template else [])
        assert all(differs(template, known, some) for known in [*TEMPLATES.values(), chatml("Be kind.")]), key
    templates = {"templates": {name: clean(template) for name, template in TEMPLATES.items()}, "spellings": SPELLINGS, "others": others}
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    (OUT / "chats.json").write_text(f'{{"tokens": {json.dumps(TOKENS)}, {json.dumps(templates)[1:-1]}, "cases": [\n{lines}]}}\n')
    print(len(cases), "chats,", sum(c["labels"] is None for c in cases), "without labels")


if __name__ == "__main__":
    decoded()
    chats()
