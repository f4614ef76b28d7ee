"""Writes tests/data/oracle/wan_chunks.safetensors: videos that diffusers' Wan makes chunk after chunk.

Needs torch, diffusers 0.42.1 and safetensors:

    python tests/oracle/make_wan_chunks_fixtures.py

Every step of a chunk runs the whole model over all frames so far: finished frames with timestep 0, the chunk's own with
its level (the timesteps of tokens are Wan 2.2 TI2V's), a mask of the self-attention by which a frame sees what its chunk
may see, a mask of the cross-attention by which it reads its chunk's prompt, and rotary positions that jump at a cut. So
nothing is kept from one call to the next. Weights, noise and texts are oracle_numbers.py's; computed in float64.
Metadata, as JSON:
    NUMBER    options of model/wan, the rule, options of the cache, shots, guidance, options of the sampler
"""
import itertools
import json
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
import diffusers.models.embeddings
import diffusers.models.normalization
import diffusers.models.transformers.transformer_wan as transformer_wan
import torch
from diffusers import WanTransformer3DModel
from provenance import save_file

from oracle_float64 import in_float64
from oracle_numbers import fill, numbers

OUT = HERE.parent / "data" / "oracle"
CASTS = (diffusers.models.embeddings, diffusers.models.normalization, transformer_wan)

MODEL = dict(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=2, out_channels=2, text_dim=12,
             freq_dim=8, ffn_dim=16, num_layers=2, cross_attn_norm=True, eps=1e-6)
FORMS = {"wan21": {}, "wan22_ti2v": dict(in_channels=4, out_channels=4, num_layers=3),
         "no_cross_norm": dict(cross_attn_norm=False)}
KINDS = ("window", "capacity", "own", "before", "capacity_cuts")
CASES = 20
AREA = 2  # tokens of a frame
VOCAB = {"[CLS]": 2, "[SEP]": 3, "red": 4, "blue": 5, "sea": 6}


def drawn(number):
    """(options of the model, case): of each kind in turn, the rest drawn."""
    draw = random.Random(number)
    kind, form = KINDS[number % len(KINDS)], list(FORMS)[number % len(FORMS)]
    cuts = kind not in ("window", "capacity")
    case = dict(chunk=draw.randint(1, 2 if cuts else 3), first_chunk=draw.choice((0, 1, 2, 3)), window=0, sink=0, cache={},
                pin=draw.choice(("own", "before")) if kind == "capacity_cuts" else kind if cuts else "none",
                jump=draw.choice((0, 3, 8, 8)), shots=[], prompt="red sea", negative=draw.choice(("", "blue")),
                scale=draw.choice((0.0, 1.0, 1.5, 2.5, 2.5)), batched=draw.random() < 0.5, steps=draw.randint(1, 4),
                shift=draw.choice((1.0, 3.0, 5.0)))
    if kind.startswith("capacity"):
        sink = draw.randint(0, 2)
        case["cache"] = {"capacity": sink + draw.randint(1, 5), "sink": sink}
    else:
        case["window"] = draw.randint(1 if cuts else 0, 3)
        case["sink"] = draw.randint(0, 2) if case["window"] else 0
    prompts = ("red sea", "blue", "sea") if draw.random() < 0.5 else ("red sea",)
    for i in range(draw.randint(3, 4) if cuts else 0):
        case["shots"].append({"prompt": prompts[i % len(prompts)], "chunks": draw.randint(1, 3),
                              "cut": i == 1 or draw.random() < 0.7})
    chunks = sum(shot["chunks"] for shot in case["shots"])
    first = case["first_chunk"] or case["chunk"]
    case["frames"] = first + (chunks - 1) * case["chunk"] if cuts else draw.randint(6, 10)
    return MODEL | FORMS[form], case


class Rule:
    """Which frames a chunk sees, where they are in time, and which prompt each chunk reads."""

    def __init__(self, case):
        self.case, frames, chunk = case, case["frames"], case["chunk"]
        self.begins = [0, *range(case["first_chunk"] or chunk, frames, chunk)]
        self.ends = [*self.begins[1:], frames]
        self.chunk_of = [c for c, (b, e) in enumerate(zip(self.begins, self.ends)) for _ in range(b, e)]
        shots = case["shots"] or [{"prompt": case["prompt"], "chunks": len(self.begins), "cut": False}]
        starts = list(itertools.accumulate([0] + [s["chunks"] for s in shots]))
        self.cuts = [start for start, shot in zip(starts, shots) if start and shot["cut"]]
        self.prompts = [shot["prompt"] for shot in shots for _ in range(shot["chunks"])]
        self.times = [f + case["jump"] * sum(cut <= c for cut in self.cuts) for f, c in enumerate(self.chunk_of)]
        self.seen = [self.frames_seen(c) for c in range(len(self.begins))]

    def pinned(self, chunk):
        """The first chunk of the shot, and at a cut with `before` also that of the shot before."""
        now = [cut for cut in self.cuts if cut <= chunk]
        if self.case["pin"] == "none" or not now:
            return set()
        return set(now[-2:] if self.case["pin"] == "before" and now[-1] == chunk else now[-1:])

    def frames_seen(self, chunk):
        own, pins = set(range(self.begins[chunk], self.ends[chunk])), self.pinned(chunk)
        if self.case["cache"]:  # capacity: frames, with the sink's
            capacity, sink = self.case["cache"]["capacity"], self.case["cache"]["sink"]
            kept = own | {f for f in range(self.ends[chunk]) if f < sink or self.chunk_of[f] in pins}
            return kept | latest(set(range(self.begins[chunk])) - kept, capacity - len(kept))
        if self.case["window"] == 0:
            return set(range(self.ends[chunk]))
        sinks = set(range(min(self.case["sink"], chunk + 1)))  # window: chunks, besides the sink's
        kept = {chunk} | pins | sinks
        kept |= latest(set(range(chunk)) - kept, self.case["window"] - len(kept - sinks))
        return {f for f in range(self.ends[chunk]) if self.chunk_of[f] in kept}


def latest(some, count):
    return set(sorted(some)[max(len(some) - count, 0):]) if count > 0 else set()


def embedded(text):
    """[1, tokens, text_dim] of wan_chunks_test.cpp's encoder: for each token signs, times the weight of the last norm."""
    size = MODEL["text_dim"]
    if not text:
        return torch.zeros(1, 4, size, dtype=torch.float64)
    ids = [VOCAB[word] for word in ("[CLS] " + text + " [SEP]").split()]
    return (numbers("text.words", (7, size)).sign() * numbers("text.norm", (size,)))[ids][None]


def by_token(of_frames):
    return torch.tensor(of_frames).repeat_interleave(AREA, 0)


class Branch:
    """The model with the prompt of each chunk; the empty one is zeros."""

    def __init__(self, model, rule, prompts):
        self.model, self.rule, self.prompts = model, rule, prompts
        texts = {text: embedded(text) for text in sorted(set(prompts))}
        self.text = torch.cat(list(texts.values()), 1)
        self.text_of = [text for text, tokens in texts.items() for _ in range(tokens.shape[1])]

    def __call__(self, latent, timestep):
        frames, rule = latent.shape[2], self.rule
        chunks = rule.chunk_of[:frames]
        sees = by_token([[k in rule.seen[c] for k in range(frames)] for c in chunks]).repeat_interleave(AREA, 1)
        reads = by_token([[t == self.prompts[c] for t in self.text_of] for c in chunks])
        masks = itertools.cycle((sees, reads))  # a layer has a self-attention and then a cross-attention
        attention, rope = transformer_wan.dispatch_attention_fn, type(self.model.rope).forward
        rows = by_token([t * AREA for t in rule.times[:frames]]) + torch.arange(AREA).repeat(frames)

        def masked(query, key, value, attn_mask=None, **others):
            return attention(query, key, value, attn_mask=next(masks), **others)

        def moved(x):
            whole = rope(self.model.rope, x.new_zeros(*x.shape[:2], rule.times[frames - 1] + 1, *x.shape[3:]))
            return tuple(t[:, rows] for t in whole)

        transformer_wan.dispatch_attention_fn, self.model.rope.forward = masked, moved
        try:
            with torch.no_grad(), in_float64(*CASTS):
                return self.model(latent, timestep, self.text, return_dict=False)[0]
        finally:
            transformer_wan.dispatch_attention_fn = attention
            del self.model.rope.forward


def video(number, options, case):
    with in_float64(*CASTS):
        model = fill(WanTransformer3DModel(**options))
    rule, scale, shift = Rule(case), case["scale"], case["shift"]
    asked = Branch(model, rule, rule.prompts)
    none = Branch(model, rule, [case["negative"]] * len(rule.begins))
    latent = numbers(f"{number}.noise", (1, options["in_channels"], case["frames"], 2, 4))
    levels = [1 - i / case["steps"] for i in range(case["steps"] + 1)]
    levels = [shift * u / (1 + (shift - 1) * u) for u in levels]
    for first, end in zip(rule.begins, rule.ends):
        for now, then in zip(levels, levels[1:]):
            timestep = torch.zeros(1, end * AREA, dtype=torch.float64)
            timestep[:, first * AREA:] = 1000 * now
            seen = latent[:, :, :end].clone()
            without = none(seen, timestep)
            velocity = without + scale * (asked(seen, timestep) - without)
            latent[:, :, first:end] += (then - now) * velocity[:, :, first:end]
    return latent


if __name__ == "__main__":
    torch.set_num_threads(1)
    tensors, metadata = {}, {}
    for number in range(CASES):
        options, case = drawn(number)
        tensors[f"{number}.latent"] = video(number, options, case)
        metadata[str(number)] = json.dumps(case | {"options": options})
    path = OUT / "wan_chunks.safetensors"
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata)
    print(path, path.stat().st_size, "bytes", {k: float(t.abs().max()) for k, t in tensors.items()})
