#include "tests/conformance/models.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tests/support/worst.hpp"

namespace kinora::test {

namespace {

using at::Tensor;
using core::json;

const json kCosmos = {{"layers", 2},       {"heads", 2},     {"head_size", 12}, {"in_channels", 3},
                      {"out_channels", 3}, {"text_size", 7}, {"adaln_lora", 5}, {"max_size", {8, 8, 8}},
                      {"mlp_ratio", 2.0}};

const json kT5 = {{"num_layers", 2}, {"d_model", 12}, {"d_kv", 4},
                  {"num_heads", 3},  {"d_ff", 20},    {"vocab_size", 20}};
const json kClip = {{"num_hidden_layers", 2},  {"hidden_size", 12},  {"num_attention_heads", 3},
                    {"intermediate_size", 20}, {"projection", true}, {"projection_dim", 6}};
const json kDit = kCosmos;

const json kWan = {{"num_attention_heads", 2},
                   {"attention_head_dim", 12},
                   {"in_channels", 3},
                   {"out_channels", 3},
                   {"text_dim", 7},
                   {"freq_dim", 6},
                   {"ffn_dim", 16},
                   {"num_layers", 2}};

const json kAr = {{"vocab_size", 9},  {"n_layers", 2},         {"dim", 24},
                  {"n_heads", 4},     {"n_kv_heads", 4},       {"head_dim", 6},
                  {"context_dim", 7}, {"ffn_hidden_size", 16}, {"insert_cross_attn", true}};

json with(json base, const json& more) {
  base.update(more);
  return base;
}

// Names in shapes that are not options.
const std::map<std::string, int64_t> kSizes = {{"B", 2}, {"T", 4}, {"H", 4}, {"W", 4}, {"L", 5}, {"D", 8}};

int64_t number(const std::string& word, const core::Options& options) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (error == std::errc() && end == word.data() + word.size()) return n;
  if (options.values().contains(word) && options.values()[word].is_number_integer())
    return options.values()[word];
  if (const auto known = kSizes.find(word); known != kSizes.end()) return known->second;
  throw std::runtime_error("'" + word + "' is neither an option nor a known size");
}

// "T / patch_time" or "B or 1": the first alternative, from left to right.
int64_t dimension(const std::string& text, const core::Options& options) {
  std::istringstream words(text);
  std::string word, sign;
  words >> word;
  int64_t n = number(word, options);
  while (words >> sign >> word) {
    if (sign == "or") break;
    const int64_t by = number(word, options);
    n = sign == "/" ? n / by : sign == "*" ? n * by : sign == "+" ? n + by : n - by;
  }
  return n;
}

// Sizes of the first "[...]" in the manifest's text.
std::vector<int64_t> shape_of(const std::string& text, const core::Options& options) {
  const size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos)
    throw std::runtime_error("shape '" + text + "' has no brackets");
  std::istringstream parts(text.substr(open + 1, close - open - 1));
  std::vector<int64_t> out;
  for (std::string part; std::getline(parts, part, ',');) out.push_back(dimension(part, options));
  return out;
}

Tensor drawn(const std::string& dtype, const std::vector<int64_t>& shape, int64_t vocabulary) {
  if (dtype.rfind("int", 0) == 0) return at::randint(vocabulary, shape, at::kLong);
  if (dtype != "bool") return at::randn(shape, at::kDouble);
  Tensor mask = at::rand(shape) < 0.6;
  mask.select(-1, 0).fill_(true);
  return mask;
}

double size_of(const Tensor& t) { return t.numel() ? t.abs().max().item<double>() : 0; }

void move_parameters(core::Chain& chain) {
  const at::NoGradGuard off;
  for (auto& leaf : chain.leaves()) leaf.tensor.add_(0.1 * at::randn(leaf.tensor.sizes(), at::kDouble));
}

}  // namespace

const std::vector<SmallModel>& small_models() {
  static const std::vector<SmallModel> table = {
      {"model/cosmos", kCosmos, {"sizes", "condition_mask", "padding_mask", "fps", "camera", "image"}},
      {"model/cosmos",
       with(kCosmos, {{"learnable_pos_embed", true},
                      {"concat_padding_mask", true},
                      {"base_fps", 24.0},
                      {"logvar", true},
                      {"patch_time", 2},
                      {"signals", {"camera:3", "image:6:tokens"}}}),
       {"sizes", "condition_mask"},
       {{"timestep", {2, 2}},
        {"padding_mask", {1, 1, 4, 4}},
        {"fps", {1}},
        {"camera", {2, 2 * 2 * 2, 3}},
        {"image", {2, 3, 6}}}},
      {"model/dit", kDit, {"sizes", "condition_mask", "fps", "camera", "image"}},
      {"model/dit",
       with(kDit, {{"learnable_pos_embed", true},
                   {"base_fps", 24.0},
                   {"patch_time", 2},
                   {"heads", 4},
                   {"kv_heads", 2},
                   {"signals", {"camera:3", "image:6:tokens"}}}),
       {"sizes", "condition_mask"},
       {{"timestep", {2, 2}}, {"camera", {2, 2, 3}}, {"image", {2, 3, 6}}}},
      {"model/stdit", kDit, {"sizes", "condition_mask", "fps", "camera", "image"}, {{"timestep", {2, 4}}}},
      {"model/stdit",
       with(kDit, {{"full_attention", false}, {"adaln_lora", 0}, {"cross_attention", false}}),
       {"sizes", "condition_mask", "fps", "camera", "image", "text", "text_mask"}},
      {"model/minilm",
       {{"layers", 2},
        {"hidden", 12},
        {"heads", 3},
        {"intermediate", 20},
        {"vocab", 20},
        {"max_positions", 8}}},
      {"model/t5", kT5},
      {"model/umt5", with(kT5, {{"feed_forward_proj", "gated-gelu"}})},
      {"model/clip-text", with(kClip, {{"vocab_size", 20}, {"max_position_embeddings", 8}})},
      {"model/clip-vision", with(kClip, {{"image_size", 8}, {"patch_size", 4}})},
      {"model/ar", kAr, {"grid", "position"}, {{"codes", {2, 2, 2, 3}}}, 9},
      {"model/ar",
       with(kAr, {{"n_kv_heads", 2}, {"tied", true}, {"insert_cross_attn_every_k_layers", 2}}),
       {"grid", "position", "text_mask"},
       {{"codes", {2, 2, 2, 3}}},
       9},
      {"model/patch-discriminator", {{"channels", 4}, {"layers", 2}}, {}, {{"video", {2, 3, 5, 16, 16}}}},
      {"model/patch-discriminator",
       {{"channels", 4}, {"layers", 2}, {"norm", "group"}, {"groups", 2}, {"time_stride", 1}},
       {},
       {{"video", {1, 3, 4, 16, 16}}}},
      {"model/wan",
       with(kWan, {{"signals", {"camera:3"}}}),
       {"sizes", "image", "condition"},
       {{"timestep", {2, 4 * 2 * 2}}, {"camera", {2, 4, 3}}}},
      {"model/wan",
       with(kWan,
            {{"in_channels", 5}, {"image_dim", 6}, {"added_kv_proj_dim", 24}, {"pos_embed_seq_len", 3}}),
       {"sizes", "text_mask", "camera"},
       {{"timestep", {2}},
        {"latent", {2, 3, 4, 4, 4}},
        {"condition", {2, 2, 4, 4, 4}},
        {"image", {2, 3, 6}}}},
  };
  return table;
}

core::NamedTensors draw_inputs(const core::ComponentSpec& spec, const core::Options& options,
                               const SmallModel& small) {
  core::NamedTensors out;
  for (const auto& input : spec.inputs) {
    if (small.without.count(input.name)) continue;
    try {
      const auto given = small.shapes.find(input.name);
      out[input.name] =
          drawn(input.dtype, given != small.shapes.end() ? given->second : shape_of(input.shape, options),
                small.vocabulary);
      if (input.name == "attention_mask")
        out[input.name] = drawn("bool", out[input.name].sizes().vec(), 0).to(at::kLong);
    } catch (const std::exception& e) {
      throw std::runtime_error(spec.id + ": input " + input.name + ": " + e.what());
    }
  }
  return out;
}

Outcome run_model(const core::Component& model, const SmallModel& small,
                  const std::vector<const kinora_link*>& links, bool needs_gradient) {
  at::manual_seed(7);  // the same parameters, inputs and loss for every way of running
  const auto options = core::or_throw(core::Options::make(*model.spec, small.options));
  core::ChainOptions chain;
  chain.dtype = at::kDouble;
  core::Model network(model, options, chain, links);
  move_parameters(network.chain());
  auto inputs = draw_inputs(*model.spec, options, small);
  for (auto& [name, t] : inputs)
    if (t.is_floating_point()) t.set_requires_grad(needs_gradient);
  kinora_pass pass{};
  pass.struct_size = sizeof pass;
  pass.seed = 5;
  network.chain().begin(pass);
  const auto outputs = network.forward(inputs);

  Outcome out;
  Tensor loss = at::zeros({}, at::kDouble);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    out["output " + model.spec->outputs[i].name] = outputs[i].detach();
    if (outputs[i].requires_grad())
      loss = loss + (outputs[i] * at::randn(outputs[i].sizes(), at::kDouble)).sum();
  }
  loss.backward();
  network.chain().reduce();
  for (const auto& leaf : network.chain().leaves())
    if (leaf.tensor.grad().defined()) out["parameter " + leaf.name] = leaf.tensor.grad();
  for (const auto& [name, t] : inputs)
    if (t.grad().defined()) out["input " + name] = t.grad();
  return out;
}

Difference difference(const Outcome& found, const Outcome& wanted) {
  Difference out;
  const auto note = [&](double value, const std::string& where) {
    if (std::isnan(value)) value = std::numeric_limits<double>::infinity();
    if (value > out.value) out = {value, where};
  };
  for (const auto& [name, t] : found)
    if (!wanted.count(name)) note(std::numeric_limits<double>::infinity(), name + " (only here)");
  double largest = 0;
  for (const auto& [name, t] : wanted) largest = test::worse(largest, size_of(t));
  const double nought = 1e-13 * largest;
  for (const auto& [name, t] : wanted) {
    const auto other = found.find(name);
    if (other == found.end()) {
      note(std::numeric_limits<double>::infinity(), name + " (missing)");
    } else {
      // Relative to its own size. A gradient that is zero except for rounding, such as that of a key's bias,
      // has no such size and only has to stay zero.
      const double own = size_of(t), apart = size_of(other->second - t);
      note(apart == 0 ? 0 : own > nought ? apart / own : apart / largest, name);
    }
  }
  return out;
}

}  // namespace kinora::test
