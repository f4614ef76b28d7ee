"""Writes tests/data/oracle/{dit,stdit}.safetensors: what a plain PyTorch transcription of the formulas gives.

Needs torch and safetensors:

    python tests/oracle/make_dit_fixtures.py

The models are written here from the papers (DiT, arXiv 2212.09748; AdaLN-LoRA, arXiv 2312.06662; the 3D RoPE of Cosmos, arXiv
2501.03575, section 5.1.2; NeMo's video framework, arXiv 2503.12964), one process, masks instead of grouped attention, one loop
a frame, a head or an axis where that is plainest. Weights and inputs are those of oracle_numbers.py, all in float64; files hold
results only, and options a case in their metadata.
"""
import json
import math
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
import torch
import torch.nn.functional as F
from provenance import save_file

import oracle_numbers as oracle
B, L = 2, 5


class Weights(dict):
    """Parameters by Kinora's name, made when they are first asked for."""

    def __call__(self, name, *shape):
        if name not in self:
            self[name] = oracle.weight(name, shape).requires_grad_()
        assert self[name].shape == shape, (name, self[name].shape, shape)
        return self[name]


def patches(video, pt, p):
    """[B, C, T, H, W] -> list of tokens, each the numbers of a patch in the order row, column, frame, channel."""
    _, _, T, H, W = video.shape
    return torch.stack([video[:, :, t:t + pt, y:y + p, x:x + p].permute(0, 3, 4, 2, 1).flatten(1)
                        for t in range(0, T, pt) for y in range(0, H, p) for x in range(0, W, p)], 1)


def assembled(tokens, C, T, H, W, pt, p):
    out = torch.zeros(B, C, T, H, W, dtype=torch.float64)
    places = [(t, y, x) for t in range(0, T, pt) for y in range(0, H, p) for x in range(0, W, p)]
    for n, (t, y, x) in enumerate(places):
        out[:, :, t:t + pt, y:y + p, x:x + p] = tokens[:, n].view(B, p, p, pt, C).permute(0, 4, 3, 1, 2)
    return out


def angles(places, d, scale, rate):
    """[B, N, d / 2] of tokens at places [N, 3]: the pairs of time, then of rows, then of columns."""
    space = d // 6 * 2
    out = []
    for axis, n in enumerate((d - 2 * space, space, space)):
        theta = 10000 * scale[axis] ** (n / (n - 2))
        position = places[:, axis].double()[None] * (rate[:, None] if axis == 0 else torch.ones(B, 1))
        out += [position * theta ** (-2 * j / n) for j in range(n // 2)]
    return torch.stack(out, -1)


def turned(x, angle):
    """x [B, N, d]: pair (i, i + d / 2) as a complex number times exp(i angle)."""
    a, b = x.chunk(2, -1)
    z = torch.complex(a, b) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([z.real, z.imag], -1)


class Model:
    def __init__(self, o, spatial_temporal):
        self.o, self.st, self.w = o, spatial_temporal, Weights()
        self.D, self.d, self.heads = o["heads"] * o["head_size"], o["head_size"], o["heads"]
        self.groups = o.get("kv_heads") or o["heads"]

    def linear(self, x, name, out, bias=False):
        y = x @ self.w(name + ".weight", out, x.shape[-1]).T
        return y + self.w(name + ".bias", out) if bias else y

    def rms(self, x, name):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.o["qk_norm_eps"]) * self.w(name + ".weight", self.d)

    def attend(self, queries, keys, values, name, mask):
        """Lists of heads [B, N, d]; a group's key and value serve its queries. mask: [.., N, L], true: seen."""
        share, out = self.heads // self.groups, []
        for h, q in enumerate(queries):
            q, k = self.rms(q, name + ".q_layernorm"), self.rms(keys[h // share], name + ".k_layernorm")
            if self.angle is not None and name.endswith("self_attention"):
                q, k = turned(q, self.angle), turned(k, self.angle)
            scores = (q @ k.transpose(1, 2) / math.sqrt(self.d)).masked_fill(~mask, -torch.inf)
            out.append(scores.softmax(-1) @ values[h // share])
        return self.linear(torch.cat(out, -1), name + ".linear_proj", self.D)

    def self_attend(self, x, name, mask):
        share = self.heads // self.groups
        heads = self.linear(x, name + ".linear_qkv", self.groups * (share + 2) * self.d).split(self.d, -1)
        group = [heads[g * (share + 2):(g + 1) * (share + 2)] for g in range(self.groups)]
        return self.attend([q for g in group for q in g[:share]], [g[share] for g in group], [g[share + 1] for g in group], name, mask)

    def cross_attend(self, x, name, text, mask):
        queries = self.linear(x, name + ".linear_q", self.D).split(self.d, -1)
        pairs = self.linear(text, name + ".linear_kv", self.groups * 2 * self.d).split(self.d, -1)
        return self.attend(queries, pairs[0::2], pairs[1::2], name, mask[:, None, :])

    def modulation(self, active, name, parts):
        """-> `parts` tensors [B, N, D], each token with its own or its frame's numbers."""
        name += ".adaLN_modulation."
        if self.o["adaln_lora"]:
            y = self.linear(self.linear(active, name + "1", self.o["adaln_lora"]), name + "2", parts * self.D)
        else:
            y = self.linear(active, name + "1", parts * self.D)
        return self.of_tokens(y).chunk(parts, -1)

    def of_tokens(self, y):
        """One number a token, from one a sample, a frame or a token."""
        return y[:, self.frame] if y.shape[1] == self.frame.max() + 1 else y

    def norm(self, x, shift, scale):
        mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-6) * (1 + scale) + shift

    def mlp(self, x, name):
        hidden = self.linear(x, name + ".linear_fc1", round(self.D * self.o["mlp_ratio"]))
        return self.linear(hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2))), name + ".linear_fc2", self.D)

    def layer(self, x, i, active, text, mask):
        name = f"decoder.layers.{i}"
        place = self.places[:, 1] * 1000 + self.places[:, 2]
        everyone = torch.ones(len(place), len(place), dtype=torch.bool)
        same_frame, same_place = self.frame[:, None] == self.frame[None], place[:, None] == place[None]
        steps = [("full_self_attention", lambda y, n: self.self_attend(y, n, everyone))]
        if self.st:
            steps = [("spatial_self_attention", lambda y, n: self.self_attend(y, n, same_frame))] + steps * self.o["full_attention"]
        if self.o["cross_attention"]:
            steps.append(("cross_attention", lambda y, n: self.cross_attend(y, n, text, mask)))
        if self.st:
            steps.append(("temporal_self_attention", lambda y, n: self.self_attend(y, n, same_place)))
        steps.append(("mlp", self.mlp))
        m = self.modulation(active, name + ".adaLN", 3 if self.st else 3 * len(steps))
        for s, (part, f) in enumerate(steps):
            shift, scale, gate = m if self.st else m[3 * s:3 * s + 3]
            x = x + gate * f(self.norm(x, shift, scale), f"{name}.{part}")
        return x

    def two_layers(self, x, name):
        return self.linear(F.silu(self.linear(x, name + "linear_1", self.D, True)), name + "linear_2", self.D, True)

    def conditions(self, given):
        t = given["timestep"][:, None] if given["timestep"].dim() == 1 else given["timestep"]
        wave = t[..., None] * torch.tensor([10000 ** (-2 * i / self.D) for i in range(self.D // 2)], dtype=torch.float64)
        embedded = self.two_layers(torch.cat([wave.sin(), wave.cos()], -1), "t_embedder.1.")
        text, mask = given.get("text"), given.get("text_mask")
        for signal in self.o.get("signals", []):
            name, channels, *tokens = signal.split(":")
            v = given[name].reshape(B, -1, int(channels))
            if not tokens:
                embedded = self.of_tokens(embedded) + self.of_tokens(self.two_layers(v, f"signals.{name}."))
                continue
            text = torch.cat([text, self.linear(v, f"signals.{name}.linear_1", text.shape[-1], True)], 1)
            if mask is not None:
                mask = torch.cat([mask, torch.ones(B, v.shape[1], dtype=torch.bool)], 1)
        if text is not None and mask is None:
            mask = torch.ones(text.shape[:2], dtype=torch.bool)
        return F.silu(embedded), text, mask

    def __call__(self, given):
        o = self.o
        pt, p = o["patch_time"], o["patch_space"]
        video = torch.cat([given["latent"]] + [given[k] for k in ("condition_mask",) if k in given], 1)
        T, H, W = video.shape[2:]
        self.places = torch.tensor([(t, y, x) for t in range(T // pt) for y in range(H // p) for x in range(W // p)])
        self.frame = self.places[:, 0]
        rate = o["base_fps"] / given["fps"].flatten() if o.get("base_fps") else torch.ones(B, dtype=torch.float64)
        self.angle = angles(self.places, self.d, o["rope_scale"], rate)
        active, text, mask = self.conditions(given)
        x = self.linear(patches(video, pt, p), "x_embedder", self.D, True)
        if o["learnable_pos_embed"]:
            for axis, (a, size) in enumerate(zip("thw", (o["max_size"][0] // pt, o["max_size"][1] // p, o["max_size"][2] // p))):
                x = x + self.w(f"pos_embedder.emb_{a}.weight", size, self.D)[self.places[:, axis]]
        for i in range(o["layers"]):
            x = self.layer(x, i, active, text, mask)
        shift, scale = self.modulation(active, "final_layer", 2)
        tokens = self.linear(self.norm(x, shift, scale), "final_layer_linear", p * p * pt * o["out_channels"], True)
        return assembled(tokens, o["out_channels"], T, H, W, pt, p)


COMMON = dict(in_channels=3, out_channels=2, layers=2, heads=2, head_size=12, mlp_ratio=1.5, text_size=7, cross_attention=True, adaln_lora=5,
              patch_time=1, patch_space=2, rope_scale=[1.0, 1.0, 1.0], qk_norm_eps=1e-6, learnable_pos_embed=False, max_size=[8, 8, 12])
# Options, and what is given beside latent [2, ..., 4, 4, 6], timestep and text.
DIT = {
    "plain": (dict(), []),
    # Two queries a key, timesteps and a camera frame by frame, a text mask.
    "grouped": (dict(heads=4, kv_heads=2, signals=["camera:3"]), ["frames", "text_mask"]),
    # No text, the plain AdaLN, learnt positions, tokens of two frames and one pixel, a mask channel.
    "unconditional": (dict(cross_attention=False, adaln_lora=0, learnable_pos_embed=True, patch_time=2, patch_space=1, layers=1), ["condition_mask"]),
    # Every kind of signal, and a mask that the signal's tokens are added to.
    "signals": (dict(signals=["fps:1", "image:6:tokens", "pose:4"]), ["text_mask"]),
    # Times by frames a second, stretched RoPE, heads of 16 and another epsilon.
    # A level a token, a camera a frame, a pose a token.
    "levels": (dict(signals=["camera:3", "pose:4"], layers=1), ["tokens"]),
    "paced": (dict(base_fps=24.0, rope_scale=[2.0, 1.5, 0.8], head_size=16, qk_norm_eps=1e-5, layers=1), ["frames"]),
}
STDIT = {
    "plain": (dict(full_attention=True), []),
    "levels": (dict(full_attention=True, signals=["camera:3"], layers=1), ["tokens"]),
    "light": (dict(full_attention=False, mlp_ratio=2.0), ["frames", "text_mask"]),
    "grouped": (dict(full_attention=True, heads=4, kv_heads=1, adaln_lora=0, layers=1), ["frames"]),
    "unconditional": (dict(full_attention=True, cross_attention=False, patch_time=2, patch_space=1, learnable_pos_embed=True, layers=1), []),
    "signals": (dict(full_attention=False, signals=["camera:3", "image:6:tokens"], base_fps=24.0, rope_scale=[2.0, 1.0, 1.0], layers=3), ["condition_mask"]),
}


def inputs(name, o, extra):
    number = lambda what, *shape: oracle.numbers(f"{name}.{what}", shape)
    frames = 4 // o["patch_time"]
    given = {"latent": number("latent", B, o["in_channels"] - ("condition_mask" in extra), 4, 4, 6),
             "timestep": number("timestep", B, *([frames] if "frames" in extra else [24] if "tokens" in extra else []))}
    if o["cross_attention"]:
        given["text"] = number("text", B, L, o["text_size"])
    if "text_mask" in extra:
        given["text_mask"] = number("text_mask", B, L) > -0.5
    if "condition_mask" in extra:
        given["condition_mask"] = (number("condition_mask", B, 1, 4, 4, 6) > 0).double()
    shapes = {"camera": (B, frames, 3), "pose": (B, 24, 4) if "tokens" in extra else (B, 4), "image": (B, 3, 6)}
    for signal in o.get("signals", []):
        if signal.split(":")[0] in shapes:
            given[signal.split(":")[0]] = number(signal, *shapes[signal.split(":")[0]])
    if o.get("base_fps") or "fps:1" in o.get("signals", []):
        given["fps"] = torch.tensor([16.0, 30.0], dtype=torch.float64)
    return given


# Whose gradients are kept; sizes say which of a family stay small.
KEPT = ("x_embedder.bias", "t_embedder.1.linear_1.bias", "pos_embedder.emb_h", "signals.camera.linear_1", "signals.image", "signals.fps.linear_1",
        "signals.pose.linear_1", "decoder.layers.0.adaLN.adaLN_modulation.1", "q_layernorm", "k_layernorm",
        "decoder.layers.0.cross_attention.linear_kv", "decoder.layers.0.mlp.linear_fc1", "final_layer_linear")


def run(model_options, name, spatial_temporal, extra):
    o = COMMON | model_options
    model, given = Model(o, spatial_temporal), inputs(name, COMMON | model_options, extra)
    floating = {k: v.requires_grad_() for k, v in given.items() if v.is_floating_point() and k not in ("timestep", "condition_mask", "fps")}
    output = model(given)
    output.backward(oracle.numbers(f"{name}.grad_output", output.shape))
    tensors = {f"{name}.output": output.detach()} | {f"{name}.grad.{k}": v.grad for k, v in floating.items()}
    for key, p in model.w.items():
        if any(k in key for k in KEPT):
            tensors[f"{name}.grad.param.{key}"] = p.grad
    return tensors, json.dumps({"options": o, "given": sorted(extra), "parameters": {k: p.numel() for k, p in model.w.items()}})


def write(file, cases, spatial_temporal):
    tensors, metadata = {}, {}
    for name, (model_options, extra) in cases.items():
        made, metadata[name] = run(model_options, name, spatial_temporal, extra)
        tensors |= made
    if not spatial_temporal:
        metadata["counts"] = json.dumps(counts())
    path = HERE.parent / "data" / "oracle" / file
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata)
    print(path, path.stat().st_size, "bytes")


def counts():
    """Parameters of the sizes, by the shapes above: 16 channels, text of 1024, patches of 1 x 2 x 2."""
    sizes = {"S": (12, 384, 6, 256), "B": (12, 768, 12, 256), "L": (24, 1024, 16, 256), "XL": (28, 1152, 16, 256), "1B": (16, 2048, 16, 256),
             "5B": (32, 3072, 24, 256), "7B": (32, 3072, 24, 0), "7B-wide": (28, 4096, 32, 256), "28B": (48, 6144, 48, 256),
             "MovieGen-30B": (48, 6144, 48, 256)}
    out = {}
    for name, (layers, D, heads, rank) in sizes.items():
        d, kv, hidden = D // heads, D, 4 * D
        if name == "MovieGen-30B":
            kv, hidden = 8 * d, 16384
        adaln = lambda parts: rank * D + parts * D * rank if rank else parts * D * D
        layer = adaln(9) + (D + 2 * kv) * D + D * D + D * D + 2 * kv * 1024 + D * D + 4 * d + 2 * D * hidden
        out[name] = layers * layer + 2 * (64 * D) + D + 64 + 2 * (D * D + D) + adaln(2)
    return out


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("dit.safetensors", DIT, False)
    write("stdit.safetensors", STDIT, True)
