#include "plugins/models/ar/config.hpp"

#include "kinora/options.hpp"

namespace kinora::ar {
namespace {

struct Preset {
  const char* name;
  int64_t layers, dim;
  bool qk_norm;
};
// Cosmos-Predict1 (arXiv 2501.03575, section 5.2): 4B and 12B; both have 32 heads of 128, 8 of keys.
constexpr Preset presets[] = {{"4B", 16, 4096, true}, {"12B", 40, 5120, true}};

void describe_tensors(Describe<Config>& d) {
  d.input("codes", "[B, t, h, w]", "int",
          "codes of a discrete tokenizer, below vocab_size; or [B, N] with `grid`");
  d.input("grid", "[3]", "int64", "t, h, w of the video that contains codes [B, N]");
  d.input("position", "[1]", "int64",
          "position of the first output; left out: 0. From 1 on, codes are those directly before each output "
          "(decoding with a KV cache)");
  d.input("text", "[B, L, context_dim]", "float", "if insert_cross_attn; left out: no text");
  d.input("text_mask", "[B, L]", "bool", "true for tokens that may be seen; left out: all");
  d.output("output", "[B, N, vocab_size]", "float", "logits of code i, from the codes before it");
}

}  // namespace

void describe(Describe<Config>& d) {
  d.name("ar").help("Next-token transformer over discrete video codes, as Cosmos-Predict1's");
  describe_tensors(d);
  std::vector<std::string> names{""};
  for (const auto& p : presets) names.emplace_back(p.name);
  d.option("size", &Config::size)
      .choices(names)
      .help("preset of the published layers and width, for those that have their defaults");
  d.option("vocab_size", &Config::vocab_size).range(1, 1 << 24).help("codes of the tokenizer");
  d.option("n_layers", &Config::n_layers).range(1, 1024).help("transformer layers");
  d.option("dim", &Config::dim).range(1, 1 << 20).help("width of the residual stream");
  d.option("n_heads", &Config::n_heads).range(1, 1024).help("number of heads of queries");
  d.option("n_kv_heads", &Config::n_kv_heads)
      .range(0, 1024)
      .help("number of heads of keys and values, a divisor of n_heads; 0: as many as n_heads");
  d.option("head_dim", &Config::head_dim).range(0, 1024).help("channels per head, even; 0: dim / n_heads");
  d.option("ffn_hidden_size", &Config::ffn_hidden_size)
      .range(1, 1 << 20)
      .help("hidden channels of the SwiGLU MLP");
  d.option("norm_eps", &Config::norm_eps).above(0).help("epsilon of the RMS norms");
  d.option("use_qk_normalization", &Config::use_qk_normalization)
      .help("RMS norm of each head's queries and keys");
  d.option("rope_dim", &Config::rope_dim)
      .choices({"3D", "1D"})
      .help("positions by frame, row and column, or by index in the sequence");
  d.option("rope_theta", &Config::rope_theta).above(1).help("base of RoPE's wavelengths");
  d.option("insert_cross_attn", &Config::insert_cross_attn).help("attention to text in the layers");
  d.option("insert_cross_attn_every_k_layers", &Config::insert_cross_attn_every_k_layers)
      .range(1, 1024)
      .help("distance between layers that attend to text, starting with the first");
  d.option("context_dim", &Config::context_dim).range(1, 65536).help("channels of the text embeddings");
  d.option("tied", &Config::tied).help("the head shares the embedding's weights");
}

Config checked(Config c) {
  for (const auto& p : presets)
    if (c.size == p.name) {
      preset(c, &Config::n_layers, p.layers), preset(c, &Config::dim, p.dim);
      preset(c, &Config::use_qk_normalization, p.qk_norm);
    }
  const auto refuse = [](const std::string& what) { throw Error(KINORA_ERROR_INVALID, "model/ar: " + what); };
  if (c.n_kv_heads == 0) c.n_kv_heads = c.n_heads;
  if (c.n_heads % c.n_kv_heads)
    refuse("n_kv_heads = " + std::to_string(c.n_kv_heads) +
           " does not divide n_heads = " + std::to_string(c.n_heads));
  if (c.head_dim == 0 && c.dim % c.n_heads)
    refuse("dim = " + std::to_string(c.dim) + " does not divide into " + std::to_string(c.n_heads) +
           " heads; set head_dim");
  if (c.head_dim == 0) c.head_dim = c.dim / c.n_heads;
  const int64_t smallest = c.rope_dim == "3D" ? 6 : 2;
  if (c.head_dim % 2 || c.head_dim < smallest)
    refuse("head_dim = " + std::to_string(c.head_dim) + " is not an even number of at least " +
           std::to_string(smallest) + "; RoPE turns pairs of channels");
  return c;
}

}  // namespace kinora::ar
