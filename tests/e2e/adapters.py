#!/usr/bin/env python3
"""LoRA files in and out. In: what diffusers, PEFT, ComfyUI and musubi-tuner wrote, against what diffusers and PEFT
merged (tests/oracle/make_adapter_fixtures.py), and every naming of the field against W + scale B A in NumPy. Out: every
form changes the weights as the adapter that it was written from. A file that is not a LoRA, or not clearly one, is one
error that says what to do. usage: adapters.py KINORA CONVERSIONS ROOT SCRATCH"""
import json, pathlib, shutil, subprocess, sys

import numpy as np
import safetensors.numpy

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
CONVERSIONS = subprocess.Popen([sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
DATA = ROOT / "tests/data/oracle"
BASE = DATA / "wan_t2v/transformer"
WEIGHTS = safetensors.numpy.load_file(BASE / "diffusion_pytorch_model.safetensors")
WAN = ["--component", "model/wan"]
# diffusers' modules by the authors' names.
MODULES = {"blocks.0.self_attn.q": "blocks.0.attn1.to_q", "blocks.1.cross_attn.o": "blocks.1.attn2.to_out.0",
           "blocks.1.ffn.0": "blocks.1.ffn.net.0.proj", "text_embedding.2": "condition_embedder.text_embedder.linear_2"}


def convert(*arguments):
    """`kinora convert` in a process that has done it before: exit code and text."""
    CONVERSIONS.stdin.write(json.dumps([*map(str, arguments)]) + "\n")
    CONVERSIONS.stdin.flush()
    answer = json.loads(CONVERSIONS.stdout.readline() or '{"code": "it has ended", "said": ""}')
    return answer["code"], answer["said"]


def by_program(*arguments):
    done = subprocess.run([KINORA, "convert", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    return done.returncode, (done.stdout + done.stderr).replace("see kinora convert --help", "see --help")


def kinora(command, *arguments, code=0):
    assert command == "convert", command
    returned, said = convert(*arguments)
    assert returned in ((1, 2) if code else (0,)), f"{arguments}: exit {returned}, expected {code}\n{said}"
    return said


def check_program():
    """The program itself gives the same file, exit code and text, for a conversion and for a refusal."""
    lora = save("fine.safetensors", named(".lora_A.weight", ".lora_B.weight", lambda m: "transformer." + MODULES[m]))
    for arguments in ([BASE, SCRATCH / "same.safetensors", "--merge", lora, *WAN],
                      [lora, SCRATCH / "no", "--to", "comfyiu"], [lora, SCRATCH / "no", "--too", "peft"]):
        results = []
        for way in (convert, by_program):
            results.append((*way(*arguments), arguments[1].read_bytes() if arguments[1].exists() else None))
            arguments[1].unlink(missing_ok=True)
        assert results[0] == results[1] and (results[0][0] == 0) == (results[0][2] is not None), results


def save(name, tensors, metadata=None):
    path = SCRATCH / name
    path.parent.mkdir(parents=True, exist_ok=True)
    safetensors.numpy.save_file({k: np.ascontiguousarray(v, np.float32) for k, v in tensors.items()}, path, metadata)
    return path


def merged(adapter, *more, base=BASE):
    out = SCRATCH / "merged.safetensors"
    out.unlink(missing_ok=True)
    said = kinora("convert", base, out, "--merge", adapter, *(more or WAN))
    return safetensors.numpy.load_file(out), said


def worst(got, want):
    """The largest difference; the weights that `want` does not have are the base's, to the bit."""
    assert set(got) == set(WEIGHTS) and set(want) <= set(got), set(want) - set(got)
    for name in set(got) - set(want):
        assert np.array_equal(got[name], WEIGHTS[name]), name
    differences = [np.abs(got[k].astype(np.float64) - want[k]).max() for k in want]
    assert np.isfinite(differences).all()
    assert all(np.abs(WEIGHTS[k] - want[k]).max() > 1e-3 for k in want), "the adapter changes nothing"
    return max(differences)


def check_oracle():
    """What diffusers and PEFT merge: alpha in the header, in adapter_config.json with patterns and rslora, in
    tensors."""
    want = safetensors.numpy.load_file(DATA / "adapters/merged.safetensors")
    for case, path in (("diffusers", "diffusers.safetensors"), ("peft", "peft"), ("comfyui", "comfyui.safetensors"),
                       ("musubi", "musubi.safetensors")):
        expected = {k.removeprefix(case + "."): v for k, v in want.items() if k.startswith(case + ".")}
        assert len(expected) >= 10, (case, len(expected))
        got, _ = merged(DATA / "adapters" / path)
        assert worst(got, expected) < 1e-5, (case, worst(got, expected))
        for form in ("diffusers", "comfyui", "peft"):
            out = SCRATCH / f"out {case} {form}"
            kinora("convert", DATA / "adapters" / path, out, "--to", form)
            got, _ = merged(out)
            assert worst(got, expected) < 1e-5, (case, form, worst(got, expected))


def check_dtype():
    """--dtype is that of the written matrices; alphas stay exact."""
    lora = save("half.safetensors", named(".lora_down.weight", ".lora_up.weight", lambda m: "diffusion_model." + m, 3))
    for form, file in (("diffusers", "pytorch_lora_weights"), ("comfyui", "lora"), ("peft", "adapter_model")):
        out = SCRATCH / f"half {form}"
        kinora("convert", lora, out, "--to", form, "--dtype", "fp16")
        assert {str(v.dtype)
                for k, v in safetensors.numpy.load_file(out / f"{file}.safetensors").items()
                if "lora" in k} == {"float16"}, form
        assert worst(merged(out)[0], expected(1.5)) < 5e-2, form
    assert "unknown dtype 'fp61'" in kinora("convert", lora, SCRATCH / "no", "--to", "comfyui", "--dtype", "fp61",
                                            code=1)
    assert "--expert is of an adapter" in kinora("convert", BASE, SCRATCH / "no", "--expert", "low", code=1)


def pairs(rank=2, modules=MODULES):
    random = np.random.default_rng(3)
    return {theirs: (random.standard_normal((rank, WEIGHTS[ours + ".weight"].shape[1])).astype(np.float32),
                     random.standard_normal((WEIGHTS[ours + ".weight"].shape[0], rank)).astype(np.float32))
            for theirs, ours in modules.items()}


def expected(scale=1.0, modules=MODULES):
    return {modules[m] + ".weight": WEIGHTS[modules[m] + ".weight"] + scale * (b.astype(np.float64) @ a)
            for m, (a, b) in pairs(modules=modules).items()}


def named(down, up, name=lambda m: m, alpha=None):
    """Tensors of all pairs; alpha: of each module's tensor MODULE.alpha."""
    out = {}
    for m, (a, b) in pairs().items():
        out |= {name(m) + down: a, name(m) + up: b} | ({name(m) + ".alpha": np.float32(alpha)} if alpha else {})
    return out


def flat(prefix):
    return lambda m: prefix + m.replace(".", "_")


def check_names():
    A, B, DOWN, UP = ".lora_A.weight", ".lora_B.weight", ".lora_down.weight", ".lora_up.weight"
    ours = lambda prefix: lambda m: prefix + MODULES[m]
    theirs = lambda prefix: lambda m: prefix + m
    cases = {
        "ai-toolkit, diffusion-pipe": named(A, B, theirs("diffusion_model.")),
        "ComfyUI": named(DOWN, UP, theirs("diffusion_model."), 3),
        "ComfyUI, whole checkpoint": named(A, B, theirs("model.diffusion_model.")),
        "ComfyUI, diffusers' modules": named(A, B, ours("diffusion_model.")),
        "diffusers": named(A, B, ours("transformer.")),
        "diffusers, older": named(".lora.down.weight", ".lora.up.weight", ours("transformer.")),
        "diffusers, processors": named("_lora.down.weight", "_lora.up.weight",
                                       lambda m: "transformer." + MODULES[m].replace(".to_", ".processor.to_")),
        "PEFT": named(A, B, ours("base_model.model.")),
        "PEFT on the authors' names": named(A, B, theirs("base_model.model.")),
        "PEFT in memory": named(".lora_A.default.weight", ".lora_B.default.weight", ours("base_model.model.")),
        "DiffSynth": named(".lora_A.default.weight", ".lora_B.default.weight"),
        "DiffSynth, pipe": named(".lora_A.default.weight", ".lora_B.default.weight", theirs("pipe.dit.")),
        "bare": named(A, B, theirs("")),
        "kohya, musubi-tuner": named(DOWN, UP, flat("lora_unet_"), 1),
        "kohya, two underscores": named(DOWN, UP, flat("lora_unet__"), 1),
        "OneTrainer": named(DOWN, UP, lambda m: "lora_transformer_" + MODULES[m].replace(".", "_"), 4),
        "SimpleTuner": named(DOWN, UP, flat("lycoris_"), 2),
        "one expert of two": named(A, B, ours("transformer_2.")),
    }
    for case, tensors in cases.items():
        alpha = next((float(v) for k, v in tensors.items() if k.endswith(".alpha")), 2)
        got, _ = merged(save("lora.safetensors", tensors))
        assert worst(got, expected(alpha / 2)) < 1e-5, case
    # The base may have the authors' names too.
    original = SCRATCH / "original.safetensors"
    kinora("convert", BASE, original, *WAN, "--set", f"config={BASE}/config.json", "--to", "original")
    out = SCRATCH / "merged original.safetensors"
    kinora("convert", original, out, *WAN, "--set", f"config={BASE}/config.json", "--to", "kinora", "--merge",
           save("lora.safetensors", cases["kohya, musubi-tuner"]))
    assert worst(safetensors.numpy.load_file(out), expected(0.5)) < 1e-5
    # Without a component the names must be those of the weights.
    got, _ = merged(save("lora.safetensors", cases["diffusers"]), "--json")
    assert worst(got, expected()) < 1e-5
    assert "give --component ID" in kinora("convert", BASE, SCRATCH / "no.safetensors", "--merge",
                                           save("lora.safetensors", cases["bare"]), code=1)


def check_alpha():
    """Header before configuration, tensors before both."""
    tensors = named(".lora_A.weight", ".lora_B.weight", lambda m: "transformer." + MODULES[m])
    header = {"transformer.r": 2, "transformer.lora_alpha": 8, "transformer.alpha_pattern": {"attn1.to_q": 3},
              "transformer.use_rslora": False}
    want = expected(4) | {"blocks.0.attn1.to_q.weight": expected(1.5)["blocks.0.attn1.to_q.weight"]}
    path = save("header/lora.safetensors", tensors, {"lora_adapter_metadata": json.dumps(header)})
    assert worst(merged(path)[0], want) < 1e-5
    (path.parent / "adapter_config.json").write_text(json.dumps({"r": 2, "lora_alpha": 100}))
    assert worst(merged(path)[0], want) < 1e-5
    save("header/lora.safetensors", tensors)
    assert worst(merged(path)[0], expected(50)) < 1e-4
    (path.parent / "adapter_config.json").unlink()
    assert worst(merged(path)[0], expected()) < 1e-5
    header["transformer.use_rslora"] = True
    save("header/lora.safetensors", tensors | {"transformer.blocks.0.attn1.to_q.alpha": np.float32(1)},
         {"lora_adapter_metadata": json.dumps(header | {"transformer.alpha_pattern": {}})})
    want = expected(8 / 2**0.5) | {"blocks.0.attn1.to_q.weight": expected(1 / 2**0.5)["blocks.0.attn1.to_q.weight"]}
    assert worst(merged(path)[0], want) < 1e-4
    save("header/lora.safetensors", tensors, {"lora_adapter_metadata": "{"})
    assert "lora_adapter_metadata is not a JSON object" in kinora(
        "convert", BASE, SCRATCH / "no.safetensors", *WAN, "--merge", path, code=1)


def check_differences():
    """Whole differences, biases of B, and a convolution; the authors and diffusers swap the numbers of a block's
    norms."""
    random = np.random.default_rng(5)
    changes = {"diffusion_model.blocks.0.norm3.diff": "blocks.0.norm2.weight",
               "diffusion_model.blocks.0.norm3.diff_b": "blocks.0.norm2.bias",
               "diffusion_model.blocks.1.self_attn.k.diff_b": "blocks.1.attn1.to_k.bias",
               "diffusion_model.head.head.diff": "proj_out.weight",
               "diffusion_model.blocks.1.diff_m": "blocks.1.scale_shift_table"}
    tensors = {k: random.standard_normal(WEIGHTS[v].shape).astype(np.float32) for k, v in changes.items()}
    want = {v: WEIGHTS[v] + tensors[k].astype(np.float64) for k, v in changes.items()}
    patches = WEIGHTS["patch_embedding.weight"]
    a, b = random.standard_normal((2, *patches.shape[1:])).astype(np.float32), random.standard_normal(
        (len(patches), 2, 1, 1, 1)).astype(np.float32)
    tensors |= {"diffusion_model.patch_embedding.lora_down.weight": a,
                "diffusion_model.patch_embedding.lora_up.weight": b,
                "diffusion_model.patch_embedding.alpha": np.float32(6)}
    want["patch_embedding.weight"] = patches + 3 * np.einsum("or,rcthw->octhw", b[:, :, 0, 0, 0].astype(np.float64), a)
    tensors |= {k: v for k, v in named(".lora_A.weight", ".lora_B.weight", lambda m: "diffusion_model." + m, 1).items()}
    want |= expected(0.5)
    bias = random.standard_normal(len(WEIGHTS["blocks.0.attn1.to_q.bias"])).astype(np.float32)
    tensors["diffusion_model.blocks.0.self_attn.q.lora_B.bias"] = bias
    want["blocks.0.attn1.to_q.bias"] = WEIGHTS["blocks.0.attn1.to_q.bias"] + bias.astype(np.float64) / 2
    path = save("differences.safetensors", tensors)
    got, _ = merged(path)
    assert worst(got, want) < 1e-5
    again = SCRATCH / "again.safetensors"
    kinora("convert", path, again, "--to", "comfyui")
    assert worst(merged(again)[0], want) < 1e-5
    back = SCRATCH / "back.safetensors"
    kinora("convert", SCRATCH / "merged.safetensors", back, *WAN, "--set", f"config={BASE}/config.json", "--unmerge",
           path)
    assert np.max([np.abs(v - WEIGHTS[k]).max() for k, v in safetensors.numpy.load_file(back).items()]) < 1e-5
    for form in ("diffusers", "peft"):
        assert "write it for ComfyUI" in kinora("convert", path, SCRATCH / "no", "--to", form, code=1)


def check_several():
    """Files with the adapters of both experts, or of a text encoder."""
    first, second = named(".lora_A.weight", ".lora_B.weight", lambda m: "transformer." + m,
                          2), named(".lora_A.weight", ".lora_B.weight", lambda m: "transformer_2." + m, 6)
    both = save("both.safetensors", first | second)
    said = kinora("convert", BASE, SCRATCH / "no.safetensors", *WAN, "--merge", both, code=1)
    assert "both experts" in said and "--expert high" in said, said
    for expert, scale in (("high", 1), ("low", 3)):
        assert worst(merged(both, *WAN, "--expert", expert)[0], expected(scale)) < 1e-5, expert
        kinora("convert", both, SCRATCH / expert, "--to", "peft", "--expert", expert)
        assert worst(merged(SCRATCH / expert)[0], expected(scale)) < 1e-5, expert
    for part, scale in (("transformer", 1), ("transformer_2", 3)):  # the folder says which one it is
        shutil.copytree(BASE, SCRATCH / "experts" / part)
    for part, scale in (("transformer", 1), ("transformer_2", 3)):
        assert worst(merged(both, *WAN, base=SCRATCH / "experts" / part)[0], expected(scale)) < 1e-5, part
    text = {"lora_te_encoder_block_0_layer_0_SelfAttention_q.lora_down.weight": np.ones((2, 12)),
            "lora_te_encoder_block_0_layer_0_SelfAttention_q.lora_up.weight": np.ones((12, 2))}
    got, said = merged(save("with text.safetensors",
                            named(".lora_down.weight", ".lora_up.weight", flat("lora_unet_"), 2) | text))
    assert worst(got, expected()) < 1e-5 and "its 2 tensors for a text encoder are left out" in said, said


def check_refused():
    fine = named(".lora_A.weight", ".lora_B.weight", lambda m: "transformer." + MODULES[m])
    for tensor, words in (("transformer.blocks.0.attn1.to_q.lora_magnitude_vector", "DoRA, as PEFT"),
                          ("lora_unet_blocks_0_self_attn_q.dora_scale", "DoRA, as kohya"),
                          ("lora_unet_blocks_0_self_attn_q.hada_w1_a", "LoHa, as LyCORIS"),
                          ("diffusion_model.blocks.0.self_attn.q.lokr_w1", "LoKr, as LyCORIS, ai-toolkit"),
                          ("transformer.blocks.0.attn1.to_q.weight", "is neither MODULE.lora_A.weight")):
        said = kinora("convert", BASE, SCRATCH / "no.safetensors", *WAN, "--merge",
                      save("other.safetensors", fine | {tensor: np.ones(3)}), code=1)
        assert words in said and said.count("\n") == 1, said
    unknown = {k.replace("blocks.0.", "blocks.7."): v for k, v in fine.items()}
    said = kinora("convert", BASE, SCRATCH / "no.safetensors", *WAN, "--merge", save("other.safetensors", unknown),
                  code=1)
    assert "blocks.7.attn1.to_q.weight" in said, said
    lora = save("fine.safetensors", fine)
    assert "say who is to read it" in kinora("convert", lora, SCRATCH / "no", code=1)
    assert "unknown form 'comfyiu' of an adapter, did you mean 'comfyui'?" in kinora(
        "convert", lora, SCRATCH / "no", "--to", "comfyiu", code=1)
    assert "kinora convert WEIGHTS OUT --merge" in kinora("convert", lora, SCRATCH / "no", "--to", "peft", "--merge",
                                                          lora, code=1)
    cosmos = {f"transformer.transformer_blocks.3.attn1.to_q.lora_{h}.weight": np.ones((2, 2)) for h in "AB"}
    said = kinora("convert", save("cosmos.safetensors", cosmos), SCRATCH / "no", "--to", "comfyui", code=1)
    assert "--to predict1 or predict2" in said, said
    kinora("convert", SCRATCH / "cosmos.safetensors", SCRATCH / "predict2", "--to", "predict2")
    assert "diffusion_model.blocks.3.self_attn.q_proj.lora_A.weight" in safetensors.numpy.load_file(
        SCRATCH / "predict2/lora.safetensors")


def check_not_finite():
    """NaN and Inf spread over what they are added to: refused by name. Weights that nothing is added to stay, and one
    line says so."""
    fine, out = named(".lora_A.weight", ".lora_B.weight",
                      lambda m: "transformer." + MODULES[m]), SCRATCH / "no.safetensors"
    adapted, other, file = "blocks.0.attn1.to_q.weight", "blocks.1.attn1.to_k.weight", [
        *WAN, "--set", f"config={BASE}/config.json"]

    def spoiled(tensors, name, value):
        return {k: np.where(np.arange(v.size).reshape(v.shape) == 1, np.float32(value), v) if k == name else v
                for k, v in tensors.items()}

    for value in (np.nan, np.inf):
        for half in "AB":
            bad = save("bad.safetensors", spoiled(fine, f"transformer.blocks.0.attn1.to_q.lora_{half}.weight", value))
            for command in (["convert", BASE, out, *WAN, "--merge", bad],
                            ["convert", bad, SCRATCH / "no", "--to", "peft"]):
                said = kinora(*command, code=1)
                assert ("bad.safetensors: the adapter of 'blocks.0.attn1.to_q' has values that are not finite" in said
                        and said.count("\n") == 1), said
        lora = save("fine.safetensors", fine)
        said = kinora("convert", save("base.safetensors", spoiled(WEIGHTS, adapted, value)), out, *file, "--merge",
                      lora, code=1)
        assert f"base.safetensors: tensor '{adapted}' has values that are not finite" in said and not out.exists(), said
        got, said = merged(lora, *file, base=save("base.safetensors", spoiled(WEIGHTS, other, value)))
        assert ("1 of the written tensors have values that are not finite (NaN or Inf), "
                f"the first of them '{other}'") in said, said
        assert np.array_equal(got.pop(other), spoiled(WEIGHTS, other, value)[other], equal_nan=True)
    whole = save("whole.safetensors",
                 {"diffusion_model." + adapted.replace("attn1.to_q",
                                                       "self_attn.q").replace(".weight", ".diff"): np.full_like(
                                                           WEIGHTS[adapted], np.nan)})
    assert "the adapter of 'blocks.0.self_attn.q" in kinora("convert", BASE, out, *WAN, "--merge", whole, code=1)
    large = save("large.safetensors", WEIGHTS | {adapted: np.full_like(WEIGHTS[adapted], 6e4)})
    more = save("more.safetensors",
                fine | {
                    f"transformer.blocks.0.attn1.to_q.lora_{half}.weight": np.full_like(
                        fine[f"transformer.blocks.0.attn1.to_q.lora_{half}.weight"], 1e2) for half in "AB"})
    said = kinora("convert", large, out, *file, "--merge", more, "--dtype", "fp16", code=1)
    assert (
        f"tensor '{adapted}' plus the adapter is beyond the largest number of F16; give another --dtype" in said), said


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    for check in (check_program, check_oracle, check_names, check_alpha, check_differences, check_several, check_dtype,
                  check_refused, check_not_finite):
        check()
    CONVERSIONS.stdin.close()
    assert CONVERSIONS.wait(60) == 0
    print("ok")


main()
