#!/usr/bin/env python3
"""Four-bit weights in files against NumPy (fp4_oracle.py) and against what compressed-tensors, LongLive and Four Over
Six wrote and decoded: `kinora convert --precision nvfp4` gives the codes and scales of the formulas, both layouts are
read to the bit, and a damaged file is one clear error. Where the package compressed_tensors can be imported, it decodes
what Kinora wrote. usage: packed_oracle.py KINORA ROOT SCRATCH"""
import json, math, pathlib, shutil, struct, subprocess, sys

import numpy as np

import fp4_oracle

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
F = np.float32
E4M3 = np.append(fp4_oracle.E4M3, np.nan)
NUMBERS = {"F32": F, "F64": np.float64, "U8": np.uint8, "F8_E4M3": np.uint8, "I32": np.int32, "I64": np.int64,
           "BF16": np.uint16}
MOST = {"none": 6 * 448, "static_6": 6 * 448, "static_4": 4 * 448, "mse": 6 * 256, "mae": 6 * 256, "abs_max": 6 * 256}


def read(path):
    """Tensors by name, those of 8 and 16 bits as their bits; dtypes; metadata. NumPy has no E4M3, so the library cannot
    read these files."""
    data = pathlib.Path(path).read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {k: np.frombuffer(data[8 + size:][slice(*v["data_offsets"])], NUMBERS[v["dtype"]]).reshape(v["shape"])
               for k, v in header.items()}
    return tensors, {k: v["dtype"] for k, v in header.items()}, metadata


def write(path, tensors, metadata=None, dtypes={}):
    names = {np.dtype(v): k for k, v in NUMBERS.items() if k not in ("F8_E4M3", "BF16")}
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": dtypes.get(name) or names[t.dtype], "shape": list(t.shape),
                        "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t.tobytes() for t in tensors.values()))
    return path


def kinora(*arguments, code=0):
    done = subprocess.run([KINORA, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{arguments}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def refused(*arguments):
    said = kinora(*arguments, code=1)
    assert said.count("\n") == 1, said
    return said


def numbers(codes, scales):
    """q and the scale of each number [rows, cols], scales row by row."""
    nibbles = np.stack([codes & 15, codes >> 4], -1).reshape(len(codes), -1)
    q = np.where(nibbles & 8, -fp4_oracle.E2M1[nibbles & 7], fp4_oracle.E2M1[nibbles & 7]).astype(F)
    return q, np.repeat(E4M3[scales].astype(F), 16, 1)


def unswizzled(scales, rows, blocks):
    return scales.reshape(rows // 128, blocks // 4, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(rows, blocks)


def model():
    """Two layers of which one has values of several magnitudes, and what is left alone: by its name, by 24 columns, by
    its form."""
    rng = np.random.default_rng(3)
    q = (rng.standard_normal((40, 96)) * 10.0 ** rng.uniform(-3, 0, (40, 1))).astype(F)
    q[7, 16:32] = 0
    return {"blocks.0.attn.q.weight": q, "blocks.0.attn.q.bias": np.ones(40, F),
            "blocks.0.ffn.weight": rng.standard_normal((130, 64)).astype(F),
            "blocks.0.norm.weight": np.ones(40, F), "blocks.1.odd.weight": rng.standard_normal((16, 24)).astype(F),
            "patch_embed.weight": rng.standard_normal((16, 32)).astype(F),
            "head.head.weight": rng.standard_normal((16, 32)).astype(F)}


QUANTISED, HIGH = ("blocks.0.attn.q", "blocks.0.ffn"), ["blocks.1.odd", "head.head", "patch_embed"]


def padded(x):
    return np.pad(x, [(0, -x.shape[0] % 128), (0, -x.shape[1] % 64)])


def check_written():
    """Codes, scales and global scales of every rule, in either block and layout; the decoded numbers; the relative
    error in the result."""
    tensors = model()
    whole = write(SCRATCH / "whole.safetensors", tensors, {"note": "kept"})
    cases = [(rule, n % 4 in (1, 2), n % 2 == 1) for n, rule in enumerate(fp4_oracle.RULES)]
    for n, (rule, square, longlive) in enumerate(cases):
        packed, back = SCRATCH / f"packed{n}.safetensors", SCRATCH / f"back{n}.safetensors"
        done = json.loads(kinora("convert", whole, packed, "--precision", "nvfp4", "--scale-rule", rule, "--block",
                                 "16x16" if square else "1x16",
                                 "--format", "longlive" if longlive else "compressed-tensors", "--json"))
        assert done["packed"]["matrices"] == 2 and done["packed"]["high"] == HIGH, done
        got, dtypes, metadata = read(packed)
        assert metadata["note"] == "kept", metadata
        config, error, total = json.loads(metadata["quantization_config"]), 0.0, 0.0
        kinora("convert", packed, back)
        decoded, _, metadata = read(back)
        assert metadata.pop("note") == "kept" and {k: json.loads(v) for k, v in metadata.items()} == {
            "low_weights": [f"{m}.weight" for m in QUANTISED],
            "low_rule": {"scale_rule": rule, "block": "16x16" if square else "1x16"}}, metadata
        for module in QUANTISED:
            x = tensors[module + ".weight"]
            scale, codes, scales, want = fp4_oracle.quantised(padded(x) if longlive else x, rule, square, False, False,
                                                              longlive, None)
            if longlive:
                own, amax = module + ".quantized_weight", np.abs(x).max()
                parts = {"_values": codes, "_scale_factors": scales.reshape(-1), "_amax": amax[None],
                         "_metadata": np.array([*x.shape, *padded(x).shape], np.int32)}
                q, s = numbers(codes, unswizzled(scales, *np.multiply(scales.shape[:2], (128, 4))))
                want = (q * s * amax / F(MOST[rule]))[:x.shape[0], :x.shape[1]]
                assert dtypes[own + "_scale_factors"] == "F8_E4M3" and config["scale_rule"] == (
                    "static_6" if rule == "none" else rule), config
            else:
                own, parts = module, {".weight_packed": codes, ".weight_scale": scales,
                                      ".weight_global_scale": np.array([scale], F)}
                assert dtypes[own + ".weight_scale"] == "F8_E4M3" and config["format"] == "nvfp4-pack-quantized", config
            for part, expected in parts.items():
                found = got.pop(own + part)
                assert (found.shape == expected.shape and found.dtype == expected.dtype
                        and found.tobytes() == expected.tobytes()), (rule, square, longlive, part)
            assert decoded[module + ".weight"].tobytes() == want.tobytes(), (rule, square, longlive)
            error, total = error + np.square(want.astype(np.float64)
                                             - x).sum(), total + np.square(x.astype(np.float64)).sum()
        told = done["packed"]["relative_error"]
        assert abs(told - math.sqrt(error / total)) < 1e-6 * told and 0.05 < told < 0.15, (
            told, math.sqrt(error / total))
        for name, t in got.items():
            assert name in tensors and t.tobytes() == tensors[name].tobytes() == decoded[name].tobytes(), name
        assert len(got) == len(tensors) - 2 and len(decoded) == len(tensors), (sorted(got), sorted(decoded))
        decode_with_their_code(config, packed, decoded)


def decode_with_their_code(config, packed, decoded):
    """compressed-tensors decodes to bfloat16; both come from the same float32."""
    try:
        import torch
        from compressed_tensors.compressors.nvfp4 import NVFP4PackedCompressor
        from compressed_tensors.quantization import QuantizationConfig
        from safetensors.torch import load_file
    except ImportError as missing:
        if not hasattr(decode_with_their_code, "told"):
            print(f"      compressed-tensors' own decoder is skipped: {missing}")
        decode_with_their_code.told = True
        return
    if config["quant_method"] != "compressed-tensors":
        return
    scheme = QuantizationConfig.model_validate(config).config_groups["group_0"]
    theirs = load_file(packed)
    for module in QUANTISED:
        state = {k.rsplit(".", 1)[1]: v for k, v in theirs.items() if k.startswith(module + ".weight_")}
        weight = NVFP4PackedCompressor.decompress(state, scheme)["weight"]
        ours = torch.from_numpy(decoded[module + ".weight"].copy()).to(weight.dtype)
        assert weight.dtype == torch.bfloat16 and torch.equal(ours, weight) and ours.count_nonzero() > 1000, module
    decode_with_their_code.count = getattr(decode_with_their_code, "count", 0) + 1


def check_read():
    """What the authors of both layouts wrote is decoded as they decode it, in float32 and in bfloat16."""
    for file in ("compressed_tensors", "longlive", "longlive_2d", "fouroversix"):
        path = ROOT / f"tests/data/oracle/nvfp4_{file}.safetensors"
        theirs, _, _ = read(path)
        for dtype, want in (("fp32", "want."), ("bf16", "want16.")):
            out = SCRATCH / f"{file}.{dtype}.safetensors"
            kinora("convert", path, out, "--dtype", dtype)
            ours, dtypes, _ = read(out)
            for module in ("blocks.0.q", "blocks.1.ffn.0"):
                expected = theirs[want + module]
                assert ours[module + ".weight"].tobytes() == expected.tobytes() and np.count_nonzero(expected) > 500, (
                    file, dtype, module)
                assert dtypes[module + ".weight"] == {"fp32": "F32", "bf16": "BF16"}[dtype]


def check_equals_theirs():
    """Kinora writes from the same matrices the bytes that the authors' code wrote; compressed-tensors gives a block of
    zeros another scale."""
    whole, _, _ = read(ROOT / "tests/data/oracle/nvfp4_compressed_tensors.safetensors")
    given = write(SCRATCH / "theirs.safetensors",
                  {f"{m}.weight": whole[f"whole.{m}"] for m in ("blocks.0.q", "blocks.1.ffn.0")})
    for file, rule, block in (("longlive", "mse", "1x16"), ("longlive_2d", "static_6", "16x16"),
                              ("fouroversix", "static_4", "1x16"),
                              ("compressed_tensors", "static_6", "1x16")):
        theirs, their_dtypes, _ = read(ROOT / f"tests/data/oracle/nvfp4_{file}.safetensors")
        out = SCRATCH / f"as_{file}.safetensors"
        kinora("convert", given, out, "--precision", "nvfp4", "--scale-rule", rule, "--block", block,
               "--format", "compressed-tensors" if file == "compressed_tensors" else "longlive")
        ours, dtypes, _ = read(out)
        assert len(ours) == (6 if file == "compressed_tensors" else 8), sorted(ours)
        for name, t in ours.items():
            if name.endswith("_metadata"):
                assert t.tolist() == theirs[name].tolist()[:4], (file, name)
                continue
            differ = np.count_nonzero(t.reshape(-1) != theirs[name].reshape(-1))
            assert dtypes[name] == their_dtypes[name] and differ == name.endswith(".weight_scale"), (file, name, differ)


def check_folder():
    """The folder's config.json says how the matrices are packed; dense weights lose that; shards, dtypes and patterns
    of names."""
    folder, dense = SCRATCH / "in", SCRATCH / "dense"
    folder.mkdir()
    write(folder / "diffusion_pytorch_model.safetensors", model())
    (folder / "config.json").write_text(json.dumps({"_class_name": "X", "layers": 3}))
    text = kinora("convert", folder, SCRATCH / "small", "--precision", "nvfp4", "--format", "longlive", "--dtype",
                  "bf16", "--max-shard", "5 kB",
                  "--high", "*.ffn", "--high", "head*")
    assert ("NVFP4: 2 matrices, relative error 8.62 %" in text
            and "left alone: blocks.0.ffn, blocks.1.odd, head.head\n" in text), text
    config = json.loads((SCRATCH / "small/config.json").read_text())
    assert config["layers"] == 3 and config["quantization_config"] == {
        "quant_method": "fouroversix", "dtype": "nvfp4", "scale_rule": "mse", "weight_scale_2d": False,
        "output_dtype": "bfloat16",
        "modules_to_not_convert": ["blocks.0.ffn", "blocks.1.odd", "head.head"]}, config
    assert len(list((SCRATCH / "small").glob("*.safetensors"))) > 2
    kinora("convert", SCRATCH / "small", dense, "--dtype", "bf16")
    assert json.loads((dense / "config.json").read_text()) == {"_class_name": "X", "layers": 3}
    tensors, dtypes, _ = read(dense / "diffusion_pytorch_model.safetensors")
    assert set(dtypes.values()) == {"BF16"} and sorted(tensors) == sorted(model()), dtypes


def check_packed_again():
    """What was in four bits becomes so again, in either layout, with the same codes and scales; no other matrix does,
    and by no other rule."""
    whole, square = SCRATCH / "whole.safetensors", ["--scale-rule", "static_6", "--block", "16x16"]
    layouts = {}
    # not the default choice of matrices, named as modules and as weights
    for layout in ("compressed-tensors", "longlive"):
        layouts[layout] = SCRATCH / f"once_{layout}"
        kinora("convert", whole, f"{layouts[layout]}/", "--precision", "nvfp4", "--format", layout, *square, "--high",
               "blocks.0.ffn.weight", "--high", "head*")
    dense = SCRATCH / "decoded_once.safetensors"
    kinora("convert", layouts["longlive"], dense)
    low = "by static_6 in 16x16:\n  blocks.0.attn.q.weight\n  patch_embed.weight\n"
    for given, said in ((layouts["longlive"], f"F32 NVFP4\n2 matrices in four bits, {low}"),
                        (dense, f" F32\n2 matrices that were rounded to few bits, {low}")):
        assert kinora("inspect", given).endswith(said), kinora("inspect", given)
    assert kinora("inspect",
                  whole).endswith(" F32\n") and "is weights" in kinora("inspect", whole, "--set", "layers=3", code=2)
    facts = json.loads(kinora("inspect", whole, "--json"))
    assert (facts["low_weights"], facts["parameters"],
            facts["packed"]) == ([], sum(t.size for t in model().values()), False), facts
    for given, layout in ((layouts["compressed-tensors"], "longlive"), (layouts["longlive"], "compressed-tensors"),
                          (dense, "compressed-tensors")):
        out = SCRATCH / f"again_{given.name.split('.')[0]}.safetensors"
        done = json.loads(kinora("convert", given, out, "--precision", "nvfp4", "--format", layout, "--json"))
        assert done["packed"]["matrices"] == 2 and done["packed"]["relative_error"] < 1e-6, done
        same_codes(out, layouts[layout] / "diffusion_pytorch_model.safetensors")
    for file, layout, rule in (("longlive_2d", "longlive", []), ("fouroversix", "longlive", []),
                               ("compressed_tensors", "compressed-tensors", ["--scale-rule", "static_6"])):
        theirs, out = ROOT / f"tests/data/oracle/nvfp4_{file}.safetensors", SCRATCH / f"again_{file}.safetensors"
        if rule:
            said = kinora("convert", theirs, out, "--precision", "nvfp4", code=2)
            assert ("is in four bits already and does not say by which rule" in said and "--scale-rule" in said
                    and not out.exists()), said
        done = json.loads(kinora("convert", theirs, out, "--precision", "nvfp4", "--format", layout, *rule, "--json"))
        assert done["packed"]["matrices"] == 2 and done["packed"]["relative_error"] < 1e-6, done
    said = kinora("convert", whole, out := SCRATCH / "never.safetensors", "--precision", "nvfp4", "--high", "head",
                  code=2)
    assert ("matches none" in said and "or 'patch_embed.weight'" in said and "a training's option high" in said
            and not out.exists()), said
    said = refused("convert", write(SCRATCH / "list.safetensors", model(), {"low_weights": "{}"}), out, "--precision",
                   "nvfp4")
    assert "its metadata low_weights is not a list of names" in said and not out.exists(), said


def same_codes(ours, theirs):
    """Codes and scales are the same bytes; the global scale, computed from decoded numbers, may differ in its last
    place."""
    (got, dtypes, _), (want, _, _) = read(ours), read(theirs)
    assert sorted(got) == sorted(want), (sorted(got), sorted(want))
    for name, t in got.items():
        if dtypes[name] in ("U8", "F8_E4M3"):
            assert t.tobytes() == want[name].tobytes(), (ours, name)
        elif name.endswith(("_amax", "_global_scale")):
            assert abs(t / want[name] - 1).max() < 1e-6, (ours, name)


def check_refused():
    whole, packed, out = SCRATCH / "whole.safetensors", SCRATCH / "packed0.safetensors", SCRATCH / "never.safetensors"
    bad = model()
    bad["blocks.0.ffn.weight"][3, 4], bad["blocks.0.ffn.weight"][5, 6] = np.inf, np.nan
    said = refused("convert", write(SCRATCH / "bad.safetensors", bad), out, "--precision", "nvfp4")
    assert "'blocks.0.ffn.weight': 2 of 8320 values are infinite or NaN" in said and not out.exists(), said
    for arguments, why in ((["--precision", "nvpf4"], "unknown precision"),
                           (["--high", "x"], "--high needs --precision"),
                           (["--format", "longlive"], "--format needs --precision")):
        assert why in kinora("convert", whole, out, *arguments, code=2)
    for arguments, why in ((["--scale-rule", "mes"], "did you mean 'mse'?"), (["--block", "8x8"], "1x16"),
                           (["--format", "gguf"], "longlive")):
        assert why in kinora("convert", whole, out, "--precision", "nvfp4", *arguments, code=2)
    tensors, dtypes, metadata = read(packed)
    theirs, their_dtypes, their_metadata = read(ROOT / "tests/data/oracle/nvfp4_longlive.safetensors")
    own, values = "blocks.0.attn.q.weight", "blocks.0.q.quantized_weight"
    nan = tensors[own + "_scale"].copy()
    nan[2, 3], nan[4, 5] = 0x7F, 0x81
    sizes = lambda *n: {values + "_metadata": np.array(n, np.int32)}
    cases = [(tensors, {own + "_scale": None}, "_scale' of a matrix in four bits is missing; expected F8_E4M3 [40, 6]"),
             (tensors, {own + "_scale": tensors[own + "_scale"][:39]},
              "_scale' of a matrix in four bits is F8_E4M3 [39, 6]; expected F8_E4M3 [40, 6]"),
             (tensors, {own + "_scale": nan}, "2 of 240 scales of its four-bit blocks are NaN or negative"),
             (tensors, {own + "_packed": tensors[own + "_packed"][:, :47]},
              "_packed' of a matrix in four bits is U8 [40, 47]; expected U8 [rows, 8 blocks]"),
             (tensors, {own + "_global_scale": np.array([0], F)}, "_global_scale' is 0"),
             (tensors, {own + "_global_scale": np.array([np.nan], F)}, "_global_scale' is nan; a scale is finite"),
             (tensors, {own: np.zeros((40, 96), F)}, f"'{own}' is there whole and in four bits"),
             (tensors, {own + "_zero_point": np.zeros(1, F)}, "only symmetric matrices are read"),
             (theirs, {values + "_amax": None}, "_amax' of a matrix in four bits is missing"),
             (theirs, {values + "_amax": np.array([-1], F)}, "_amax' is -1"),
             (theirs, sizes(24, 48, 128), "_metadata' of a matrix in four bits is I32 [3]; expected I32 or I64"),
             (theirs, sizes(2 ** 31 - 1, 48, 128, 64), "says a matrix [2147483647, 48], padded to [128, 64]"),
             (theirs, sizes(24, -48, 128, 64), "says a matrix [24, -48]"),
             (theirs, sizes(24, 48, 64, 128), "padded to [64, 128]"),
             (theirs, sizes(24, 48, 128, 64, 1, 0), "with scales of layout 0"),
             (theirs, {values + "_scale_factors": theirs[values + "_scale_factors"][:-1]}, "expected F8_E4M3 [512]")]
    for n, (of, change, why) in enumerate(cases):
        all_dtypes = dtypes if of is tensors else their_dtypes
        given = {k: v for k, v in {**of, **change}.items() if v is not None}
        path = write(SCRATCH / f"hostile{n}.safetensors", given, metadata if of is tensors else their_metadata,
                     all_dtypes)
        said = refused("convert", path, out)
        assert why in said and "Traceback" not in said and not out.exists(), (why, said)
    for rule, why in ((None, "an unknown rule of scales"), ({"scale_rule": "best"}, "unknown rule 'best'"),
                      ({"scale_rule": "mse", "dtype": "if4"}, "dtype 'if4'")):
        path = write(SCRATCH / "rule.safetensors", theirs, {"quantization_config": json.dumps(rule)} if rule else None,
                     their_dtypes)
        said = refused("convert", path, out)
        assert why in said and "into config.json next to the file" in said, said
    (SCRATCH / "config.json").write_text(
        '{"quantization_config": {"quant_method": "fouroversix", "scale_rule": "mse"}}')
    write(SCRATCH / "rule.safetensors", theirs, None, their_dtypes)
    kinora("convert", SCRATCH / "rule.safetensors", out)
    (SCRATCH / "config.json").unlink()
    assert read(out)[0]["blocks.0.q.weight"].tobytes() == theirs["want.blocks.0.q"].tobytes()


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    for check in (check_written, check_read, check_equals_theirs, check_folder, check_packed_again, check_refused):
        check()
        print(f"ok    {check.__name__}")
    if hasattr(decode_with_their_code, "count"):
        print(f"      compressed-tensors decoded {decode_with_their_code.count} files to the bit")


if __name__ == "__main__":
    main()
