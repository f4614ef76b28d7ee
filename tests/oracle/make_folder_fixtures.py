"""Writes tests/data/oracle/folders: tiny random models as transformers' save_pretrained writes them, and as earlier versions did;
and tests/data/oracle/folders.safetensors: results of transformers and diffusers with them, and with the parts of the pipelines of make_wan_pipeline_fixtures.py,
make_cosmos_pipeline_fixtures.py and make_pipeline_noise_fixtures.py, loaded by from_pretrained.

Needs torch, transformers 5.23, diffusers 0.42.1 and safetensors:

    python tests/oracle/make_folder_fixtures.py

Weights are oracle_numbers.py's in float32. Outputs are computed in float64 from them; metadata CASE, as JSON: the component, the folder
and the options in addition to the folder's own configuration.
"""
import json
import pathlib
import shutil
import types

import diffusers
import diffusers.models.embeddings
import diffusers.models.normalization
import diffusers.models.transformers.transformer_cosmos as transformer_cosmos
import diffusers.models.transformers.transformer_wan as transformer_wan
import torch
import transformers
from diffusers import AutoencoderKLCosmos, AutoencoderKLWan, CosmosTransformer3DModel, WanTransformer3DModel
from safetensors.torch import load_file, save_file

import oracle_numbers
from oracle_float64 import in_float64

ORACLE = pathlib.Path(__file__).resolve().parents[1] / "data" / "oracle"
OUT = ORACLE / "folders"
TEXT = dict(vocab_size=20, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=9,
            projection_dim=6, bos_token_id=18, eos_token_id=19)
VISION = dict(hidden_size=12, intermediate_size=14, num_hidden_layers=2, num_attention_heads=3, image_size=8, patch_size=4,
              projection_dim=6)
BERT = dict(vocab_size=20, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=9,
            type_vocab_size=3, layer_norm_eps=1e-5)
T5 = dict(vocab_size=20, d_model=10, d_kv=4, d_ff=12, num_layers=2, num_heads=2, relative_attention_num_buckets=8,
          relative_attention_max_distance=20)
CASTS = (diffusers.models.embeddings, diffusers.models.normalization, transformer_wan, transformer_cosmos)
IDS = torch.tensor([[18, 4, 7, 11, 19, 0], [18, 9, 2, 19, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0]])

tensors, metadata = {}, {}


def case(name, component, folder, inputs, outputs, **options):
    metadata[name] = json.dumps({"component": component, "folder": folder, "options": options})
    for sort, values in (("in", inputs), ("out", outputs)):
        for key, value in values.items():
            value = value.detach().clone().contiguous()
            tensors[f"{name}.{sort}.{key}"] = value.float() if value.is_floating_point() else value


def saved(name, model, **how):
    """The model in float32 with oracle numbers, saved; then in float64."""
    torch.manual_seed(0)
    model = oracle_numbers.fill(model).float()
    model.save_pretrained(OUT / name, **how)
    return model.double().eval()


def config_without(name, *keys, **more):
    file = OUT / name / "config.json"
    config = {k: v for k, v in json.loads(file.read_text()).items() if k not in keys}
    file.write_text(json.dumps({**config, **more}, indent=2) + "\n")


def renamed(name, rename, **more):
    file = OUT / name / "model.safetensors"
    save_file({**{rename(k): v for k, v in load_file(file).items()}, **more}, file, metadata={"format": "pt"})


def text_inputs():
    return {"input_ids": IDS, "attention_mask": MASK}


def bert():
    model = saved("bert", transformers.BertModel(transformers.BertConfig(**BERT)))
    out = model(input_ids=IDS, attention_mask=MASK).last_hidden_state
    case("bert", "model/minilm", "folders/bert", text_inputs(), {"output": out})
    head = saved("bert_mlm", transformers.BertForMaskedLM(transformers.BertConfig(**BERT)))
    out = head.bert(input_ids=IDS, attention_mask=MASK).last_hidden_state
    case("bert_mlm", "model/minilm", "folders/bert_mlm", text_inputs(), {"output": out})
    # google-bert/bert-base-uncased: converted from TensorFlow.
    shutil.copytree(OUT / "bert_mlm", OUT / "bert_tf")
    renamed("bert_tf", lambda k: k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"),
            **{"bert.embeddings.position_ids": torch.arange(9).unsqueeze(0)})
    config_without("bert_tf", "dtype", "add_cross_attention", "bos_token_id", "eos_token_id", "is_decoder", "tie_word_embeddings",
                   position_embedding_type="absolute", transformers_version="4.6.0.dev0", gradient_checkpointing=False)
    case("bert_tf", "model/minilm", "folders/bert_tf", text_inputs(), {"output": out})


def clip():
    text, vision = transformers.CLIPTextConfig(**TEXT), transformers.CLIPVisionConfig(**VISION)
    image = oracle_numbers.numbers("image", (2, 3, 8, 8))
    # Trailing tokens that are not text change nothing: attention is causal.
    plain = saved("clip_text", transformers.CLIPTextModel(text))
    out = plain(input_ids=IDS, attention_mask=MASK)
    outputs = {"output": out.last_hidden_state, "pooled": out.pooler_output}
    case("clip_text", "model/clip-text", "folders/clip_text", text_inputs(), outputs)
    shutil.copytree(OUT / "clip_text", OUT / "clip_text_4")
    renamed("clip_text_4", lambda k: "text_model." + k, **{"text_model.embeddings.position_ids": torch.arange(9).unsqueeze(0)})
    config_without("clip_text_4", "dtype", torch_dtype="float32", transformers_version="4.25.1", dropout=0.0)
    case("clip_text_4", "model/clip-text", "folders/clip_text_4", text_inputs(), outputs)
    model = saved("clip_text_projected", transformers.CLIPTextModelWithProjection(text))
    out = model(input_ids=IDS, attention_mask=MASK)
    case("clip_text_projected", "model/clip-text", "folders/clip_text_projected", text_inputs(),
         {"output": out.last_hidden_state, "embed": out.text_embeds})
    for name, kind in (("clip_vision", transformers.CLIPVisionModel), ("clip_vision_projected", transformers.CLIPVisionModelWithProjection)):
        model = saved(name, kind(vision))
        out = model(pixel_values=image, output_hidden_states=True)
        outputs = {"output": out.hidden_states[-2]}
        if kind is transformers.CLIPVisionModel:
            outputs["pooled"] = out.pooler_output
        else:
            outputs["embed"] = out.image_embeds
        case(name, "model/clip-vision", "folders/" + name, {"image": image}, outputs)
    both = saved("clip", transformers.CLIPModel(transformers.CLIPConfig(
        text_config={**TEXT, "num_hidden_layers": 1}, vision_config={**VISION, "num_attention_heads": 12, "num_hidden_layers": 1},
        projection_dim=6)))
    # transformers 4 omitted the class's defaults from a nested configuration.
    config = json.loads((OUT / "clip" / "config.json").read_text())
    for side, cls in (("text_config", transformers.CLIPTextConfig), ("vision_config", transformers.CLIPVisionConfig)):
        default = cls().to_dict()
        config[side] = {k: v for k, v in config[side].items() if k == "model_type" or default.get(k) != v}
    (OUT / "clip" / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    out = both(input_ids=IDS, attention_mask=MASK, pixel_values=image)
    lengths = {"text": both.text_model(input_ids=IDS, attention_mask=MASK), "image": both.vision_model(pixel_values=image)}
    case("clip_as_text", "model/clip-text", "folders/clip", text_inputs(),
         {"output": lengths["text"].last_hidden_state, "embed": both.text_projection(lengths["text"].pooler_output)})
    case("clip_as_vision", "model/clip-vision", "folders/clip", {"image": image},
         {"embed": both.visual_projection(lengths["image"].pooler_output)})


def t5():
    for name, kind, config, component in (
            ("t5", transformers.T5EncoderModel, transformers.T5Config(**T5), "model/t5"),
            ("t5_whole", transformers.T5ForConditionalGeneration, transformers.T5Config(**T5, feed_forward_proj="gated-gelu"), "model/t5"),
            ("umt5", transformers.UMT5EncoderModel, transformers.UMT5Config(**T5), "model/umt5")):
        model = saved(name, kind(config), max_shard_size="3KB" if name == "t5" else "1GB")
        with in_float64(transformers.models.t5.modeling_t5, transformers.models.umt5.modeling_umt5):
            out = model.get_encoder()(input_ids=IDS, attention_mask=MASK).last_hidden_state
        case(name, component, "folders/" + name, text_inputs(), {"output": out})


def pipelines():
    def loaded(cls, folder):
        return cls.from_pretrained(ORACLE / folder).double().eval()

    def wan(name, folder, tokens, **more):
        model = loaded(WanTransformer3DModel, folder)
        c = model.config
        inputs = {"latent": oracle_numbers.numbers("latent", (1, c.in_channels, 3, 4, 6)), "timestep": torch.tensor([437.0]),
                  "text": oracle_numbers.numbers("text", (1, tokens, c.text_dim)), **more}
        with in_float64(*CASTS):
            out = model(hidden_states=inputs["latent"], timestep=inputs["timestep"], encoder_hidden_states=inputs["text"],
                        encoder_hidden_states_image=more.get("image"), return_dict=False)[0]
        case(name, "model/wan", folder, inputs, {"output": out})

    wan("wan_t2v", "wan_t2v/transformer", 5)
    # diffusers takes the last 512 tokens after a picture's for the text, however many there are.
    wan("wan_i2v", "wan_i2v/transformer", 512, image=oracle_numbers.numbers("image", (1, 5, 8)))

    def cosmos(name, folder, **more):
        model = loaded(CosmosTransformer3DModel, folder)
        c = model.config
        # Zeros of any size are zeros; the real function is torchvision's.
        transformer_cosmos.transforms = types.SimpleNamespace(
            InterpolationMode=types.SimpleNamespace(NEAREST=0),
            functional=types.SimpleNamespace(resize=lambda x, size, **how: x.new_zeros(*x.shape[:-2], *size)))
        mask = {"condition_mask": oracle_numbers.numbers("mask", (1, 1, 3, 4, 6)).gt(0).double()} if more.get("mask") else {}
        channels = c.in_channels - len(mask)
        inputs = {"latent": oracle_numbers.numbers("latent", (1, channels, 3, 4, 6)), "timestep": torch.tensor([0.437]),
                  "text": oracle_numbers.numbers("text", (1, 5, c.text_embed_dim)), "fps": torch.tensor([16.0]), **mask}
        with in_float64(*CASTS):
            out = model(hidden_states=inputs["latent"], timestep=inputs["timestep"], encoder_hidden_states=inputs["text"], fps=16,
                        condition_mask=mask.get("condition_mask"), padding_mask=torch.zeros(1, 1, 32, 48).double(),
                        return_dict=False)[0]
        case(name, "model/cosmos", folder, inputs, {"output": out})

    cosmos("cosmos_t2w", "cosmos_t2w/transformer")
    cosmos("cosmos2_v2w", "cosmos2_v2w/transformer", mask=True)
    for name, cls, component, folder in (("wan_vae", AutoencoderKLWan, "tokenizer/wan", "wan_t2v/vae"),
                                         ("wan22_vae", AutoencoderKLWan, "tokenizer/wan", "wan_ti2v/vae"),
                                         ("cosmos_vae", AutoencoderKLCosmos, "tokenizer/cosmos", "cosmos_t2w/vae")):
        video = oracle_numbers.numbers("video", (1, 3, 9, 16, 32 if name == "wan22_vae" else 24)) / 2
        vae = loaded(cls, folder)
        latent = vae.encode(video).latent_dist.mode()
        frames = latent.shape[2]
        mean, std = torch.tensor(vae.config.latents_mean).double(), torch.tensor(vae.config.latents_std).double()
        mean, std = (x.reshape(1, latent.shape[1], -1, 1, 1)[:, :, :frames] for x in (mean, std))
        case(name, component, folder, {"video": video}, {"latent": (latent - mean) / std, "video": vae.decode(latent).sample})


if __name__ == "__main__":
    shutil.rmtree(OUT, ignore_errors=True)
    with torch.no_grad():
        bert()
        clip()
        t5()
        pipelines()
    metadata["made_with"] = f"torch {torch.__version__}, transformers {transformers.__version__}, diffusers {diffusers.__version__}"
    save_file(tensors, ORACLE / "folders.safetensors", metadata=metadata)
