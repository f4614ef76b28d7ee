#!/usr/bin/env python3
"""Weights in eight bits with scales, wherever weights are read: of a text encoder, an image encoder, a transformer and
a tokenizer, the results are those of the weights that NumPy decodes, to the bit, and one log line says so. Tensors that
a network does not have are refused, but for those that published files of its family carry besides; GGUF and Wan-AI's
own layout are refused with what to take. usage: eight_bits.py KINORA ROOT SCRATCH"""
import json, pathlib, shutil, struct, subprocess, sys

import numpy as np
import safetensors.numpy

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
DATA = ROOT / "tests/data/oracle"
F = np.float32
# The 127 numbers of E4M3 that are not negative: 4 bits of exponent with bias 7, 3 of mantissa; 0x7f is NaN.
E4M3 = np.array([(c & 7) / 8 * 2**-6 if c < 8 else (1 + (c & 7) / 8) * 2.0 ** ((c >> 3) - 7) for c in range(127)], F)


def kinora(*arguments, code=0):
    done = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode in ((1, 2) if code
                               else (0,)), f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stderr


def write(path, tensors, metadata=None):
    """tensors: name -> (dtype of safetensors, array); NumPy has no E4M3, so the library cannot write it."""
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, (dtype, t) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text
                     + b"".join(np.ascontiguousarray(t).tobytes() for _, t in tensors.values()))


def encoded(weight):
    """Codes, a scale for a row, and what they decode to."""
    rows = weight.reshape(len(weight), -1)
    scale = (np.abs(rows).max(1, keepdims=True) / F(448)).astype(F)
    scale[scale == 0] = 1
    q = rows / scale
    codes = np.abs(np.abs(q)[..., None] - E4M3).argmin(-1).astype(np.uint8)
    decoded = np.where(q < 0, -E4M3[codes], E4M3[codes]).astype(F) * scale
    return np.where(q < 0, codes | 128,
                    codes).astype(np.uint8).reshape(weight.shape), scale, decoded.reshape(weight.shape)


def encoded_mx(weight):
    """The same by OCP Microscaling 1.0, section 6.3: a power of two for 32 columns of a row, E8M0, here of a row where
    32 do not divide it."""
    rows = weight.reshape(len(weight), -1)
    blocks = rows.reshape(len(rows), -1, 32 if rows.shape[1] % 32 == 0 else rows.shape[1])
    most = np.abs(blocks).max(2)
    power = np.where(most > 0, np.floor(np.log2(np.where(most > 0, most, 1))) - 8, 0).astype(int)
    scale = (F(2) ** power.astype(F))[..., None]
    codes = np.abs(np.abs(blocks / scale)[..., None] - E4M3).argmin(-1).astype(np.uint8)
    decoded = np.where(blocks < 0, -E4M3[codes], E4M3[codes]).astype(F) * scale
    return np.where(blocks < 0, codes | 128,
                    codes).astype(np.uint8).reshape(weight.shape), (power + 127).astype(np.uint8), decoded.reshape(
                        weight.shape)


def folders(part, spelling, encode=encoded):
    """Two copies of a published part: its matrices in eight bits, and as float32 decoded by NumPy."""
    source = next(part.glob("*.safetensors"))
    low, plain = {}, {}
    for name, t in safetensors.numpy.load_file(source).items():
        if t.dtype == F and t.ndim >= 2 and name.endswith(".weight"):
            codes, scale, decoded = encode(t)
            module = name.removesuffix(".weight")
            low |= {name: ("F8_E4M3", codes),
                    module + spelling: ("F8_E8M0" if scale.dtype == np.uint8 else "F32", scale),
                    module + ".input_scale": ("F32", np.ones((), F))}
            plain[name] = ("F32", decoded)
        else:
            low[name] = plain[name] = ("F32", t)
    assert len(low) > len(plain)
    if spelling == ".scale_weight":
        low["scaled_fp8"] = ("F8_E4M3", np.zeros(0, np.uint8))
    out = []
    for kind, tensors in (("low", low), ("plain", plain)):
        folder = SCRATCH / f"{part.parent.name} {part.name} {encode.__name__} {kind}"
        shutil.copytree(part, folder)
        write(folder / source.name, tensors)
        out.append(folder)
    return out


def check_everywhere():
    random = np.random.default_rng(1)
    draw = lambda *shape: random.standard_normal(shape).astype(F)
    config = json.loads((DATA / "wan_i2v/image_encoder/config.json").read_text())
    side = config["image_size"]
    ids = {"input_ids": np.array([[5, 3, 9, 1]])}
    cases = [("model/umt5", DATA / "wan_t2v/text_encoder", ".scale_weight", ids, []),
             ("model/umt5", DATA / "wan_t2v/text_encoder", ".weight_scale", ids, [], encoded_mx),
             ("model/clip-vision", DATA / "wan_i2v/image_encoder", ".weight_scale_inv",
              {"image": draw(1, 3, side, side)}, []),
             ("model/wan", DATA / "wan_t2v/transformer", ".weight_scale",
              {"latent": draw(1, 2, 2, 4, 4), "timestep": np.array([500], F), "text": draw(1, 4, 10)}, []),
             ("tokenizer/wan", DATA / "wan_t2v/vae", ".weight_scale", {"video": draw(1, 3, 5, 16, 16)},
              ["--method", "encode"])]
    for component, part, spelling, inputs, more, *encode in cases:
        given = SCRATCH / "in.safetensors"
        safetensors.numpy.save_file(inputs, given)
        results, said = [], []
        for folder in (*folders(part, spelling, *encode), part):
            out = SCRATCH / "out.safetensors"
            said.append(kinora("apply", component, *more, "--set", f"weights={folder}", "--inputs", given, "--out",
                               out))
            results.append(safetensors.numpy.load_file(out))
        assert "weights in eight bits with scales" in said[0] and "eight bits" not in said[1], (component, said)
        assert results[0].keys() == results[1].keys() and results[0], component
        for name, t in results[0].items():
            assert np.isfinite(t).all() and np.array_equal(t, results[1][name]), (component, name)
        assert any(not np.array_equal(t, results[2][name])
                   for name, t in results[0].items()), f"{component}: eight bits change nothing"


def check_scale_without_number():
    """Code 255 of E8M0 is NaN; 0 is 2^-127, below float32's normal numbers, and exact."""
    codes, given = np.full((2, 64), 0x38, np.uint8), SCRATCH / "mx.safetensors"  # 1.0
    for scale, fine in ((0, True), (254, True), (255, False)):
        scales = np.full((2, 2), 127, np.uint8)
        scales[1, 1] = scale
        write(given, {"a.weight": ("F8_E4M3", codes), "a.weight_scale": ("F8_E8M0", scales)})
        out = SCRATCH / f"decoded {scale}.safetensors"
        said = kinora("convert", given, out, code=0 if fine else 1)
        if not fine:
            assert "'a.weight_scale' holds scales that are negative or not finite" in said, said
            continue
        got = safetensors.numpy.load_file(out)["a.weight"]
        assert np.array_equal(got[1, 32:],
                              np.full(32, np.ldexp(F(1), scale - 127), F)) and (got[0] == 1).all(), (scale, got)


def check_unexpected():
    """Only what an encoder's family carries besides is left out."""
    part = DATA / "wan_t2v/text_encoder"
    tensors = {k: ("F32", v) for k, v in safetensors.numpy.load_file(part / "model.safetensors").items()}
    given = SCRATCH / "ids.safetensors"
    safetensors.numpy.save_file({"input_ids": np.array([[5, 3, 9, 1]])}, given)
    folder = SCRATCH / "more"
    shutil.copytree(part, folder)
    for name, fine in (("decoder.block.0.layer.0.SelfAttention.q.weight", True), ("lm_head.weight", True),
                       ("spiece_model", True),
                       ("encoder.block.0.layer.0.SelfAttention.q.scale_of_another_program", False),
                       ("encoder.block.7.layer.0.layer_norm.weight", False)):
        write(folder / "model.safetensors", tensors | {name: ("F32", np.ones((2, 2), F))})
        said = kinora("apply", "model/umt5", "--set", f"weights={folder}", "--inputs", given, "--out",
                      SCRATCH / "out.safetensors", code=0 if fine else 1)
        assert fine or (f"unexpected: '{name}'" in said and said.count("\n") == 1), said


def check_other_layouts():
    wan = SCRATCH / "Wan2.1-T2V-1.3B"
    wan.mkdir()
    (wan / "config.json").write_text(json.dumps({"_class_name": "WanModel", "dim": 1536, "num_layers": 30}))
    shutil.copy(DATA / "wan_t2v/transformer/diffusion_pytorch_model.safetensors", wan)
    (wan / "Wan2.1_VAE.pth").write_bytes(b"PK")
    (wan / "models_t5_umt5-xxl-enc-bf16.pth").write_bytes(b"PK")
    for command in (["generate", "--pipeline", wan, "--prompt", "x"], ["inspect", wan],
                    ["apply", "model/wan", "--set", f"weights={wan}", "--inputs", SCRATCH / "ids.safetensors", "--out",
                     SCRATCH / "no.safetensors"],
                    ["apply", "model/umt5", "--set", f"weights={wan}", "--inputs", SCRATCH / "ids.safetensors", "--out",
                     SCRATCH / "no.safetensors"]):
        said = kinora(*command, code=1)
        assert "Wan-AI's own layout" in said and "take the folder Wan2.1-T2V-1.3B-Diffusers" in said, (command, said)
    two = SCRATCH / "Wan2.2-T2V-A14B"
    (two / "high_noise_model").mkdir(parents=True)
    assert "take the folder Wan2.2-T2V-A14B-Diffusers" in kinora("generate", "--pipeline", two, "--prompt", "x", code=1)
    latent = SCRATCH / "latent.safetensors"
    safetensors.numpy.save_file({"latent": np.zeros((1, 2, 2, 4, 4), F)}, latent)
    quantised = SCRATCH / "quantised/wan2.1-t2v-1.3b-Q8_0.gguf"
    quantised.parent.mkdir()
    quantised.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 800, 20) + bytes(64))
    for given in (quantised, quantised.parent):
        said = kinora("apply", "model/wan", "--set", f"weights={given}", "--inputs", latent, "--out",
                      SCRATCH / "no.safetensors", code=1)
        assert "GGUF" in said and "take the safetensors of the same model" in said, said
    assert "GGUF" in kinora("generate", "--pipeline", quantised.parent, "--prompt", "x", code=1)


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    check_everywhere()
    check_scale_without_number()
    check_unexpected()
    check_other_layouts()
    print("ok")


main()
