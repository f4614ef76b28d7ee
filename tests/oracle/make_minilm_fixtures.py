"""Writes tests/data/oracle/minilm.safetensors: three texts through transformers' BertModel with the real weights.

Needs torch, transformers 5.23, tokenizers, safetensors and all-MiniLM-L6-v2 in .deps/assets/minilm:

    python tests/oracle/make_minilm_fixtures.py

`pooled` is sentence-transformers' recipe: the mean over tokens that are not padding, scaled to length 1. Outputs are computed
in float64 from the float32 weights; of the token embeddings only every eighth channel is kept, to keep the file small.
"""
import pathlib

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from provenance import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / ".deps" / "assets" / "minilm"
OUT = ROOT / "tests" / "data" / "oracle" / "minilm.safetensors"
TEXTS = [
    "A tram crosses the square while two children chase a red ball.",
    "Fog.",
    "Slow aerial shot over a café terrace at dawn; the camera tilts up towards the snow-covered mountains, 24 fps.",
]

if __name__ == "__main__":
    config = BertConfig.from_pretrained(MODEL, attn_implementation="eager")
    model = BertModel(config, add_pooling_layer=False)
    weights = {k: v for k, v in load_file(MODEL / "model.safetensors").items() if not k.startswith("pooler.") and v.is_floating_point()}
    model.load_state_dict(weights, strict=False)
    assert set(weights) == {k for k, _ in model.named_parameters()}
    model = model.double().eval()

    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding(pad_id=0)
    encoded = tokenizer.encode_batch(TEXTS)
    ids = torch.tensor([e.ids for e in encoded])
    mask = torch.tensor([e.attention_mask for e in encoded])
    with torch.no_grad():
        output = model(input_ids=ids, attention_mask=mask).last_hidden_state
    weight = mask.unsqueeze(-1).double()
    pooled = torch.nn.functional.normalize((output * weight).sum(1) / weight.sum(1), dim=1)

    OUT.parent.mkdir(parents=True, exist_ok=True)
    tensors = {"input_ids": ids, "attention_mask": mask, "output_every_8th": output[..., ::8].contiguous(), "pooled": pooled}
    save_file(tensors, OUT, {f"text{i}": t for i, t in enumerate(TEXTS)})
    print(OUT, OUT.stat().st_size, "bytes", tuple(ids.shape))
