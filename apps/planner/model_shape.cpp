#include "apps/planner/model_shape.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace kinora::core::plan {
namespace {

using nlohmann::json;

// Copies of the models' named sizes, which are private to their plugins; test `plan` compares both.
struct Named {
  const char *model, *name;
  int64_t layers, heads, head_size, rank, kv_heads = 0;
  double mlp_ratio = 4;
};
constexpr Named kNamed[] = {{"dit", "XS", 6, 6, 32, 64},
                            {"dit", "S", 12, 6, 64, 256},
                            {"dit", "B", 12, 12, 64, 256},
                            {"dit", "L", 24, 16, 64, 256},
                            {"dit", "XL", 28, 16, 72, 256},
                            {"dit", "1B", 16, 16, 128, 256},
                            {"dit", "5B", 32, 24, 128, 256},
                            {"dit", "7B", 32, 24, 128, 0},
                            {"dit", "7B-wide", 28, 32, 128, 256},
                            {"dit", "28B", 48, 48, 128, 256},
                            {"dit", "MovieGen-30B", 48, 48, 128, 256, 8, 16384.0 / 6144},
                            {"cosmos", "predict1-7B", 28, 32, 128, 256},
                            {"cosmos", "predict1-14B", 36, 40, 128, 256},
                            {"cosmos", "predict2-2B", 28, 16, 128, 256},
                            {"cosmos", "predict2-14B", 36, 40, 128, 256},
                            {"wan", "1.3B", 30, 12, 128, 0, 0, 8960.0 / 1536},
                            {"wan", "5B", 30, 24, 128, 0, 0, 14336.0 / 3072},
                            {"wan", "14B", 40, 40, 128, 0, 0, 13824.0 / 5120},
                            {"wan", "I2V-14B", 40, 40, 128, 0, 0, 13824.0 / 5120}};

const Named* named(const std::string& model, const json& o) {
  for (const auto& n : kNamed)
    if (o.value("size", "") == n.name && model == n.model) return &n;
  return nullptr;
}

// An option that the named size sets if it has its default value.
template <class T>
T value(const json& o, const char* key, T plain, const Named* n, T by_name) {
  const T given = o.value(key, plain);
  return n && given == plain ? by_name : given;
}

void of_size(Shape& s, const json& o, const Named* n, int64_t& rank) {
  s.layers = value<int64_t>(o, "layers", 6, n, n ? n->layers : 0);
  s.heads = value<int64_t>(o, "heads", 6, n, n ? n->heads : 0);
  s.head_size = value<int64_t>(o, "head_size", 32, n, n ? n->head_size : 0);
  const auto kv = value<int64_t>(o, "kv_heads", 0, n, n ? n->kv_heads : 0);
  s.kv_heads = kv > 0 ? kv : s.heads;
  rank = value<int64_t>(o, "adaln_lora", 64, n, n ? n->rank : 0);
  s.mlp =
      std::llround(static_cast<double>(s.width()) * value(o, "mlp_ratio", 4.0, n, n ? n->mlp_ratio : 0.0));
}

int64_t low_rank(int64_t D, int64_t rank, int64_t parts) {
  return rank ? D * rank * (1 + parts) : parts * D * D;
}

void of_dit(Shape& s, const json& o, bool factorised) {
  int64_t rank = 0;
  of_size(s, o, named("dit", o), rank);
  const int64_t D = s.width();
  s.factorised = factorised, s.full = o.value("full_attention", true);
  s.cross = o.value("cross_attention", true);
  s.modulation = low_rank(D, rank, factorised ? 3 : s.cross ? 9 : 6);
  s.outer = 2 * D * D + 2 * D + low_rank(D, rank, 2) + D * (s.in_patch + s.out_patch) + D + s.out_patch;
  s.text_size = o.value("text_size", int64_t{384});
}

void of_cosmos(Shape& s, const json& o) {
  const Named* n = named("cosmos", o);
  int64_t rank = 0;
  of_size(s, o, n, rank);
  const int64_t D = s.width();
  s.modulation = 12 * D * rank;
  s.outer = 4 * D * D + low_rank(D, rank, 2) + D * (s.in_patch + s.out_patch);
  s.text_size = value<int64_t>(o, "text_size", 384, n, 1024);
}

// Text is projected to the width once, outside of the layers. Linear layers have biases; queries and keys
// each have one norm over all heads.
void of_wan(Shape& s, const json& o) {
  const Named* n = named("wan", o);
  s.layers = value<int64_t>(o, "num_layers", 40, n, n ? n->layers : 0);
  s.heads = s.kv_heads = value<int64_t>(o, "num_attention_heads", 40, n, n ? n->heads : 0);
  s.head_size = o.value("attention_head_dim", int64_t{128});
  const int64_t D = s.width();
  s.mlp = value<int64_t>(o, "ffn_dim", 13824, n, n ? std::llround(n->mlp_ratio * static_cast<double>(D)) : 0);
  s.modulation = 6 * D + 8 * D + 4 * D + 2 * D + D + s.mlp;
  const int64_t text = o.value("text_dim", int64_t{4096}), waves = o.value("freq_dim", int64_t{256});
  s.outer = D * (text + D + waves + D + 6 * D + s.in_patch + s.out_patch + 12);
  s.text_size = D;
}

struct Patch {
  int64_t time, rows, columns;
};
Patch patch_of(const std::string& id, const json& o) {
  if (id == "model/wan") {
    const auto p = o.value("patch_size", std::vector<int64_t>{1, 2, 2});
    return {p.at(0), p.at(1), p.at(2)};
  }
  const int64_t space = o.value("patch_space", int64_t{2});
  return {o.value("patch_time", int64_t{1}), space, space};
}

// The largest latent that the model accepts, if bounded: there are only so many learnt positions.
std::optional<LatentSize> largest_of(const std::string& id, const json& o) {
  const bool bounded = id == "model/cosmos" ||
                       ((id == "model/dit" || id == "model/stdit") && o.value("learnable_pos_embed", false));
  if (!bounded) return std::nullopt;
  const auto most = o.value("max_size", std::vector<int64_t>{128, 240, 240});
  return LatentSize{most.at(0), most.at(1), most.at(2)};
}

}  // namespace

Result<Shape> shape_of(const std::string& id, const json& o, const LatentSize& latent, int64_t text_tokens) {
  if (id != "model/dit" && id != "model/stdit" && id != "model/cosmos" && id != "model/wan")
    return fail(KINORA_INVALID,
                "plan: {} is not known to the planner; use model/dit, model/stdit, "
                "model/cosmos or model/wan",
                id);
  const Patch p = patch_of(id, o);
  if (latent[0] % p.time || latent[1] % p.rows || latent[2] % p.columns)
    return fail(KINORA_INVALID, "plan: a latent of {} x {} x {} does not divide into patches of {} x {} x {}",
                latent[0], latent[1], latent[2], p.time, p.rows, p.columns);
  if (const auto most = largest_of(id, o))
    if (latent[0] > (*most)[0] || latent[1] > (*most)[1] || latent[2] > (*most)[2])
      return fail(
          KINORA_INVALID,
          "plan: a latent of {} x {} x {} is larger than the max_size of {}, {} x {} x {}; raise max_size in "
          "the train job's model, or plan for a smaller --latent",
          latent[0], latent[1], latent[2], id, (*most)[0], (*most)[1], (*most)[2]);
  Shape s;
  s.model = id, s.text_tokens = text_tokens;
  s.frames = latent[0] / p.time, s.patches = latent[1] / p.rows * (latent[2] / p.columns);
  const int64_t volume = p.time * p.rows * p.columns;
  s.in_patch = o.value("in_channels", int64_t{16}) * volume,
  s.out_patch = o.value("out_channels", int64_t{16}) * volume;
  if (id == "model/wan")
    of_wan(s, o);
  else if (id == "model/cosmos")
    of_cosmos(s, o);
  else
    of_dit(s, o, id == "model/stdit");
  return s;
}

Result<LatentSize> parse_latent(std::string_view text) {
  LatentSize out{};
  const char *at = text.data(), *end = text.data() + text.size();
  for (size_t i = 0; i < 3; ++i) {
    const auto [next, error] = std::from_chars(at, end, out[i]);
    if (error != std::errc() || out[i] < 1 || (i < 2 ? next == end || *next != 'x' : next != end))
      return fail(KINORA_INVALID, "--latent {}: expected FRAMESxROWSxCOLUMNS, such as 21x90x160",
                  text);
    at = next + (i < 2 ? 1 : 0);
  }
  return out;
}

Result<LatentSize> latent_of(const std::string& tokenizer, const json& o, int64_t frames, int64_t height,
                             int64_t width) {
  int64_t time = 4, space = 8;
  if (tokenizer == "tokenizer/cosmos") {
    time = o.value("temporal_compression_ratio", int64_t{4});
    space = o.value("spatial_compression_ratio", int64_t{8});
  } else if (tokenizer == "tokenizer/wan") {
    const auto halved = o.value("temperal_downsample", std::vector<int64_t>{0, 1, 1});
    time = int64_t{1} << std::count(halved.begin(), halved.end(), 1);
    space = (int64_t{1} << halved.size()) * o.value("patch_size", int64_t{1});
  } else {
    return fail(KINORA_INVALID, "plan: the latents of {} are not known to the planner; give --latent TxHxW",
                tokenizer);
  }
  return LatentSize{1 + (frames - 1) / time, height / space, width / space};
}

}  // namespace kinora::core::plan
