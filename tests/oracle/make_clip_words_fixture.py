"""Writes tests/data/oracle/text_clip_words.json: the files next to vocab.json and merges.txt in a folder of CLIP's tokenizer as
published before tokenizer.json existed, texts, and the ids that transformers' CLIPTokenizer gives them from that folder.

Vocabulary and merges are text_clip.json's, and the script checks that CLIPTokenizer gives the same ids from a folder with only these two files.
Needs transformers 5.23 and tokenizers.
"""
import json
import pathlib
import tempfile

from transformers import CLIPTokenizer

OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "oracle"
MORE = ["A<|EndOfText|>b", "<|startoftext|> x <|endoftext|>", "Hello!!  WORLD !", "a  !  b", "👩‍🚀 floats,  LOOKS Down", "<|STARTOFTEXT|>", "it'S THEY'RE I'Ll"]


def special(content):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": True}


# The values of openai/clip-vit-large-patch14, with the padding of stabilityai/stable-diffusion-2.
CONFIG = {"bos_token": {"__type": "AddedToken", **special("<|startoftext|>")}, "eos_token": {"__type": "AddedToken", **special("<|endoftext|>")},
          "unk_token": {"__type": "AddedToken", **special("<|endoftext|>")}, "pad_token": "!", "add_prefix_space": False, "errors": "replace",
          "do_lower_case": True, "model_max_length": 77, "tokenizer_class": "CLIPTokenizer"}

if __name__ == "__main__":
    clip = json.loads((OUT / "text_clip.json").read_text())
    model, texts = clip["tokenizer"]["model"], json.loads((OUT / "text_texts.json").read_text())["texts"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
        (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in model["merges"]))
        bare = CLIPTokenizer.from_pretrained(folder)
        assert [bare(x).input_ids for x in texts] == clip["ids"]
        (folder / "tokenizer_config.json").write_text(json.dumps(CONFIG))
        t = CLIPTokenizer.from_pretrained(folder)
    chosen = MORE + [x for x in texts if any(c in x for c in "!🙂A")]
    body = json.dumps({"tokenizer_config": CONFIG, "pad_id": t.pad_token_id, "texts": chosen})
    lines = ",\n".join(json.dumps(t(x).input_ids, separators=(",", ":")) for x in chosen)
    (OUT / "text_clip_words.json").write_text(f'{body[:-1]}, "ids": [\n{lines}]}}\n')
    print(len(chosen), "texts")
