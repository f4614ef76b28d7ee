#include "plugins/models/t5/config.hpp"

namespace kinora::t5 {
namespace {

struct Preset {
  const char* name;
  int64_t vocab_size, d_model, d_kv, d_ff, num_layers, num_heads;
  const char* feed_forward_proj;
};
// google-t5/t5-*: Raffel et al. 2019 (arXiv 1910.10683), appendix; t5-11b is Cosmos 1's. google/t5-v1_1-* and
// google/mt5-*: Xue et al. 2020 (arXiv 2010.11934). google/umt5-*: Chung et al. 2023 (arXiv 2304.09151);
// umt5-xxl is Wan's.
constexpr Preset presets[] = {
    {"t5-small", 32128, 512, 64, 2048, 6, 8, "relu"},
    {"t5-base", 32128, 768, 64, 3072, 12, 12, "relu"},
    {"t5-large", 32128, 1024, 64, 4096, 24, 16, "relu"},
    {"t5-3b", 32128, 1024, 128, 16384, 24, 32, "relu"},
    {"t5-11b", 32128, 1024, 128, 65536, 24, 128, "relu"},
    {"t5-v1_1-small", 32128, 512, 64, 1024, 8, 6, "gated-gelu"},
    {"t5-v1_1-base", 32128, 768, 64, 2048, 12, 12, "gated-gelu"},
    {"t5-v1_1-large", 32128, 1024, 64, 2816, 24, 16, "gated-gelu"},
    {"t5-v1_1-xl", 32128, 2048, 64, 5120, 24, 32, "gated-gelu"},
    {"t5-v1_1-xxl", 32128, 4096, 64, 10240, 24, 64, "gated-gelu"},
    {"mt5-small", 250112, 512, 64, 1024, 8, 6, "gated-gelu"},
    {"mt5-base", 250112, 768, 64, 2048, 12, 12, "gated-gelu"},
    {"mt5-large", 250112, 1024, 64, 2816, 24, 16, "gated-gelu"},
    {"mt5-xl", 250112, 2048, 64, 5120, 24, 32, "gated-gelu"},
    {"mt5-xxl", 250112, 4096, 64, 10240, 24, 64, "gated-gelu"},
    {"umt5-small", 256384, 512, 64, 1024, 8, 6, "gated-gelu"},
    {"umt5-base", 256384, 768, 64, 2048, 12, 12, "gated-gelu"},
    {"umt5-xl", 256384, 2048, 64, 5120, 24, 32, "gated-gelu"},
    {"umt5-xxl", 256384, 4096, 64, 10240, 24, 64, "gated-gelu"},
};

bool is_umt5(const Preset& p) { return std::string_view(p.name).starts_with("umt5-"); }

template <class Options>
void describe_all(Describe<Options>& d, bool umt5) {
  d.input("input_ids", "[B, L]", "int64", "ids of the tokens");
  d.input("attention_mask", "[B, L]", "int64", "1 for a token, 0 for padding; left out: all are tokens");
  d.output("output", "[B, L, d_model]", "float", "one embedding per token, also for padding");
  std::vector<std::string> names{""};
  for (const auto& p : presets)
    if (is_umt5(p) == umt5) names.emplace_back(p.name);
  d.layout("tied", "with the embedding only under encoder.embed_tokens", [](const std::string& name) {
    return name == "encoder.embed_tokens.weight" ? std::string("shared.weight") : name;
  });
  d.option("size", &Options::size)
      .choices(names)
      .help(
          "a published model, which sets the vocabulary, all sizes and feed_forward_proj; empty: the other "
          "options");
  d.option("vocab_size", &Options::vocab_size).range(1, 1 << 24).help("rows of the embedding");
  d.option("d_model", &Options::d_model).range(1, 65536).help("channels");
  d.option("d_kv", &Options::d_kv).range(1, 4096).help("channels per head; heads * d_kv need not be d_model");
  d.option("d_ff", &Options::d_ff).range(1, 1 << 20).help("channels inside the MLP");
  d.option("num_layers", &Options::num_layers).range(1, 256).help("transformer layers of the encoder");
  d.option("num_heads", &Options::num_heads).range(1, 1024).help("number of attention heads");
  d.option("relative_attention_num_buckets", &Options::relative_attention_num_buckets)
      .range(4, 65536)
      .help("number of buckets of distances, half of them for each direction");
  d.option("relative_attention_max_distance", &Options::relative_attention_max_distance)
      .range(2, 1 << 20)
      .unit("tokens")
      .help("distance from which on all share the last bucket");
  d.option("layer_norm_epsilon", &Options::layer_norm_epsilon).above(0).help("epsilon of RMSNorm");
  d.option("feed_forward_proj", &Options::feed_forward_proj)
      .choices({"relu", "gated-gelu", "gated-silu"})
      .help("type of the MLP; gelu is the tanh approximation");
  d.option("model_type", &Options::model_type)
      .choices(umt5 ? std::vector<std::string>{"umt5"} : std::vector<std::string>{"t5", "mt5"})
      .help(
          "name of the network in a config.json; T5 and UMT5 have the same parameter names but compute "
          "different results");
}

}  // namespace

void describe(Describe<Config>& d) {
  d.name("t5").help("T5 text encoder, v1.0, v1.1 and multilingual (relative positions in the first layer)");
  describe_all(d, false);
}

void describe(Describe<Umt5Config>& d) {
  d.name("umt5").help("UMT5 text encoder of Wan (relative positions in every layer)");
  describe_all(d, true);
}

Config checked(Config c, const std::string& id) {
  for (const auto& p : presets) {
    if (c.size != p.name) continue;
    c.vocab_size = p.vocab_size;
    c.d_model = p.d_model, c.d_kv = p.d_kv, c.d_ff = p.d_ff;
    c.num_layers = p.num_layers, c.num_heads = p.num_heads;
    c.feed_forward_proj = p.feed_forward_proj;
  }
  const auto refuse = [&](const std::string& what) { throw Error(KINORA_INVALID, id + ": " + what); };
  if (c.relative_attention_num_buckets % 4) refuse("relative_attention_num_buckets must be a multiple of 4");
  if (c.relative_attention_max_distance <= c.relative_attention_num_buckets / 4)
    refuse("relative_attention_max_distance must be above a quarter of relative_attention_num_buckets");
  return c;
}

}  // namespace kinora::t5
