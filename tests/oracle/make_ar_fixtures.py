"""Writes tests/data/oracle/ar.safetensors: logits and gradients of tiny next-token video transformers.

Needs torch, transformers 5.23 and safetensors:

    python tests/oracle/make_ar_fixtures.py

`reference` states the formulas with explicit masks and loops, in float64; where positions are 1D it must agree with
transformers' LlamaForCausalLM, whose numbers are then stored. Weights and inputs are oracle_numbers.py's. Metadata: CASE, as JSON,
options of model/ar and the inputs' shapes.
"""
import json
import math
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
import torch
import transformers.models.llama.modeling_llama as llama
from provenance import save_file

import oracle_numbers
from oracle_float64 import in_float64

COMMON = dict(vocab_size=11, n_layers=2, dim=24, n_heads=4, n_kv_heads=0, head_dim=0, ffn_hidden_size=20, norm_eps=1e-5,
              use_qk_normalization=False, rope_dim="3D", rope_theta=10000.0, insert_cross_attn=False,
              insert_cross_attn_every_k_layers=1, context_dim=5, tied=False)
TEXT = dict(insert_cross_attn=True)
# name: options, grid t h w, batch, tokens of text (a negative number: with a mask)
CASES = {
    "plain": (COMMON | dict(head_dim=12), (2, 2, 3), 2, 0),
    "grouped": (COMMON | dict(n_kv_heads=2, use_qk_normalization=True, rope_theta=500.0, norm_eps=1e-3), (3, 2, 2), 2, 0),
    "text": (COMMON | TEXT | dict(use_qk_normalization=True), (2, 2, 2), 2, 4),
    "masked_text": (COMMON | TEXT | dict(n_kv_heads=1, n_heads=2, head_dim=14, n_layers=3, insert_cross_attn_every_k_layers=2,
                                         tied=True), (2, 1, 3), 3, -5),
    "tied": (COMMON | dict(tied=True, use_qk_normalization=True), (1, 3, 2), 1, 0),
    "llama": (COMMON | dict(rope_dim="1D", n_kv_heads=2, head_dim=8), (2, 2, 2), 2, 0),
    "llama_tied": (COMMON | dict(rope_dim="1D", n_heads=2, tied=True, rope_theta=500.0), (3, 2, 2), 2, 0),
}
GRADIENTS = ("tok_embeddings", "bov_embedding", "layers.0.attention.wk", "layers.0.attention.q_norm", "layers.1.attention.k_norm",
             "layers.0.cross_attention.wv", "layers.0.cross_attention.k_norm", "layers.0.cross_attention_norm",
             "layers.1.feed_forward.w3", "layers.1.attention_norm", "layers.0.ffn_norm", "norm", "output")


def shapes(c):
    """Every parameter."""
    D, V, F = c["dim"], c["vocab_size"], c["ffn_hidden_size"]
    d = c["head_dim"] or D // c["n_heads"]
    q, kv = c["n_heads"] * d, (c["n_kv_heads"] or c["n_heads"]) * d
    out = {"tok_embeddings": (V, D), "bov_embedding": (1, D), "norm": (D,)}
    if not c["tied"]:
        out["output"] = (V, D)
    for i in range(c["n_layers"]):
        kinds = {"attention": D}
        if c["insert_cross_attn"] and i % c["insert_cross_attn_every_k_layers"] == 0:
            kinds["cross_attention"] = c["context_dim"]
        for kind, of in kinds.items():
            each = {"wq": (q, D), "wk": (kv, of), "wv": (kv, of), "wo": (D, q)}
            if c["use_qk_normalization"]:
                each |= {"q_norm": (d,), "k_norm": (d,)}
            out |= {f"layers.{i}.{kind}.{k}": s for k, s in each.items()}
            out[f"layers.{i}.{kind}_norm"] = (D,)
        out |= {f"layers.{i}.ffn_norm": (D,), f"layers.{i}.feed_forward.w1": (F, D), f"layers.{i}.feed_forward.w2": (D, F),
                f"layers.{i}.feed_forward.w3": (F, D)}
    return {f"{k}.weight": s for k, s in out.items()}


def rms(x, weight, eps):
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight


def rotated(x, c, grid):
    """x [B, N, H, d]; place 0 is the beginning, place i holds code i - 1."""
    d, N = x.shape[-1], x.shape[1]
    t, h, w = grid
    if c["rope_dim"] == "1D":
        sizes, places = [d], [[i] for i in range(N)]
    else:
        sizes = [d - 4 * (d // 6), 2 * (d // 6), 2 * (d // 6)]
        places = [[0, 0, 0]] + [[f, r, k] for f in range(t) for r in range(h) for k in range(w)]
    out = torch.empty_like(x)
    for i in range(N):
        angles = [p * c["rope_theta"] ** (-2 * j / n) for p, n in zip(places[i], sizes) for j in range(n // 2)]
        for j, angle in enumerate(angles):
            a, b = x[:, i, :, j], x[:, i, :, j + d // 2]
            out[:, i, :, j] = a * math.cos(angle) - b * math.sin(angle)
            out[:, i, :, j + d // 2] = b * math.cos(angle) + a * math.sin(angle)
    return out


def attend(x, of, w, name, c, mask, turn):
    """mask: bool [B, N, L]."""
    heads = c["n_heads"], c["n_kv_heads"] or c["n_heads"]
    q, k, v = ((y @ w[f"{name}.w{n}.weight"].T).unflatten(2, (h, -1))
               for n, y, h in (("q", x, heads[0]), ("k", of, heads[1]), ("v", of, heads[1])))
    if c["use_qk_normalization"]:
        q, k = rms(q, w[f"{name}.q_norm.weight"], c["norm_eps"]), rms(k, w[f"{name}.k_norm.weight"], c["norm_eps"])
    q, k = turn(q), turn(k)
    out = []
    for i in range(heads[0]):
        j = i * heads[1] // heads[0]
        score = q[:, :, i] @ k[:, :, j].transpose(1, 2) / math.sqrt(q.shape[-1])
        out.append(torch.softmax(score.masked_fill(~mask, -math.inf), -1) @ v[:, :, j])
    return torch.cat(out, -1) @ w[f"{name}.wo.weight"].T


def embedded(c, w, codes):
    B = codes.shape[0]
    return torch.cat([w["bov_embedding.weight"].expand(B, 1, -1), w["tok_embeddings.weight"][codes.flatten(1)[:, :-1]]], 1)


def reference(c, w, codes, text, text_mask):
    x = embedded(c, w, codes)
    B, N, _ = x.shape
    causal = torch.ones(N, N, dtype=torch.bool).tril().expand(B, N, N)
    for i in range(c["n_layers"]):
        at = f"layers.{i}."
        norm = lambda name: rms(x, w[f"{at}{name}.weight"], c["norm_eps"])
        y = norm("attention_norm")
        x = x + attend(y, y, w, at + "attention", c, causal, lambda z: rotated(z, c, codes.shape[1:]))
        if f"{at}cross_attention.wq.weight" in w:
            shown = text_mask.unsqueeze(1).expand(B, N, -1)
            x = x + attend(norm("cross_attention_norm"), text, w, at + "cross_attention", c, shown, lambda z: z)
        y = norm("ffn_norm")
        gate, up = (y @ w[f"{at}feed_forward.{n}.weight"].T for n in ("w1", "w3"))
        x = x + (gate * torch.sigmoid(gate) * up) @ w[f"{at}feed_forward.w2.weight"].T
    return rms(x, w["norm.weight"], c["norm_eps"]) @ w["tok_embeddings.weight" if c["tied"] else "output.weight"].T


def by_transformers(c, w, codes):
    d = c["head_dim"] or c["dim"] // c["n_heads"]
    config = llama.LlamaConfig(vocab_size=c["vocab_size"], hidden_size=c["dim"], intermediate_size=c["ffn_hidden_size"], head_dim=d,
                               num_hidden_layers=c["n_layers"], num_attention_heads=c["n_heads"],
                               num_key_value_heads=c["n_kv_heads"] or c["n_heads"], rms_norm_eps=c["norm_eps"],
                               rope_parameters={"rope_type": "default", "rope_theta": c["rope_theta"]},
                               tie_word_embeddings=c["tied"], attn_implementation="eager")
    model = llama.LlamaForCausalLM(config).double().eval()
    names = {"tok_embeddings": "model.embed_tokens", "norm": "model.norm", "output": "lm_head"}
    for i in range(c["n_layers"]):
        of, to = f"layers.{i}.", f"model.layers.{i}."
        names |= {f"{of}attention.w{n}": f"{to}self_attn.{n}_proj" for n in "qkvo"}
        names |= {f"{of}feed_forward.w{n}": f"{to}mlp.{p}_proj" for n, p in ((1, "gate"), (2, "down"), (3, "up"))}
        names |= {f"{of}attention_norm": f"{to}input_layernorm", f"{of}ffn_norm": f"{to}post_attention_layernorm"}
    state = {f"{names[k[:-7]]}.weight": v for k, v in w.items() if k != "bov_embedding.weight"}
    if c["tied"]:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    model.model.rotary_emb.inv_freq = c["rope_theta"] ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    with in_float64(llama), torch.no_grad():
        return model(inputs_embeds=embedded(c, w, codes)).logits


def run(name, c, grid, B, L):
    w = {k: oracle_numbers.weight(k, s).requires_grad_() for k, s in shapes(c).items()}
    codes = ((oracle_numbers.numbers(f"{name}.codes", (B, *grid)) + 2) * 1000).long() % c["vocab_size"]
    tensors, inputs = {f"{name}.codes": codes}, {"codes": codes.shape}
    text = mask = None
    if L:
        text = oracle_numbers.numbers(f"{name}.text", (B, abs(L), c["context_dim"])).requires_grad_()
        inputs["text"] = text.shape
        mask = torch.ones(B, abs(L), dtype=torch.bool)
        if L < 0:
            mask[0, 2:] = mask[-1, :1] = False
            tensors[f"{name}.text_mask"] = mask
    output = reference(c, w, codes, text, mask)
    if c["rope_dim"] == "1D":
        theirs = by_transformers(c, w, codes)
        assert (theirs - output).abs().max() < 1e-13, (theirs - output).abs().max()
        tensors[f"{name}.output"] = theirs
    else:
        tensors[f"{name}.output"] = output.detach()
    output.backward(oracle_numbers.numbers(f"{name}.grad_output", tuple(output.shape)))
    if L:
        tensors[f"{name}.grad.text"] = text.grad
    tensors |= {f"{name}.grad.param.{k}": v.grad for k, v in w.items() if k[:-7] in GRADIENTS}
    return tensors, json.dumps({"options": c, "shapes": inputs})


if __name__ == "__main__":
    torch.set_num_threads(1)
    tensors, metadata = {}, {}
    for name, case in CASES.items():
        made, metadata[name] = run(name, *case)
        tensors |= made
    path = HERE.parent / "data" / "oracle" / "ar.safetensors"
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata)
    print(path, path.stat().st_size, "bytes")
