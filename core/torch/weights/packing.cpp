#include "core/torch/weights/packing.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "core/base/suggest.hpp"
#include "core/io/wildcard.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/lora.hpp"
#include "host/weights/choices.hpp"
#include "host/weights/packed_matrix.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

// Modules that LongLive leaves alone (utils/quant.py), and their counterparts in other video models and text
// encoders.
const std::vector<std::string> kHigh{"*emb*",
                                     "*norm*",
                                     "*modulation*",
                                     "*adaln*",
                                     "*time*",
                                     "*head",
                                     "proj_out",
                                     "*final_layer*",
                                     "output",
                                     "shared",
                                     "*relative_attention_bias"};

std::string choice(const json& request, const char* key, const std::vector<std::string>& choices) {
  const std::string given = request.value(key, std::string());
  if (given.empty()) return choices[0];
  std::string name = key;
  std::replace(name.begin(), name.end(), '_', ' ');
  if (std::find(choices.begin(), choices.end(), given) == choices.end())
    raise(KINORA_ERROR_INVALID, "unknown {} '{}'{}", name, given,
          did_you_mean_or_list(given, choices, name + "s"));
  return given;
}

int64_t rounded_up(int64_t n, int64_t to) { return fp4::divided_up(n, to) * to; }

}  // namespace

Packing::Packing(const json& request)
    : longlive_(choice(request, "format", kPackedFormats) == "longlive"),
      rule_(choice(request, "scale_rule", kScaleRules)),
      patterns_(request.value("high", std::vector<std::string>())),
      low_(request.value("low", std::set<std::string>())) {
  const std::array<std::string_view, 6> rules{"none", "mse", "mae", "abs_max", "static_6", "static_4"};
  options_.rule = static_cast<fp4::ScaleRule>(std::find(rules.begin(), rules.end(), rule_) - rules.begin());
  options_.square = choice(request, "block", kScaleBlocks) == "16x16";
  options_.swizzled = longlive_;
  unused_ = {patterns_.begin(), patterns_.end()};
  if (patterns_.empty()) patterns_ = kHigh;
}

bool Packing::takes(const SafeTensor& t, const std::string& trained) {
  const bool real = t.dtype == SafeDtype::f16 || t.dtype == SafeDtype::bf16 || t.dtype == SafeDtype::f32 ||
                    t.dtype == SafeDtype::f64;
  const std::string module = module_of(t.name);
  if (!real || t.shape.size() != 2 || t.shape[0] == 0 || t.shape[1] == 0 || module.empty()) return false;
  last_ = module;
  const auto names_it = [&](const std::string& pattern) {
    return matches(pattern, module) || matches(pattern, t.name);
  };
  std::erase_if(unused_, names_it);
  const bool is_named =
      low_.empty() ? std::any_of(patterns_.begin(), patterns_.end(), names_it) : !low_.contains(trained);
  const bool is_high = is_named || t.shape[1] % fp4::kBlock != 0;
  if (is_high)
    high_.push_back(module);
  else
    ++matrices_;
  return !is_high;
}

void Packing::require_use() const {
  if (!unused_.empty())
    raise(KINORA_ERROR_INVALID,
          "--high '{}' matches none of the matrices; the last is '{}', or '{}.weight'. Words such as "
          "embedding, head and first 2 are of a training's option high only",
          *unused_.begin(), last_, last_);
  if (matrices_ == 0)
    raise(KINORA_ERROR_INVALID, "no matrix would become four bits: {}",
          high_.empty() ? "none of the tensors is a matrix X.weight"
                        : fmt::format("all {} matrices, such as {}, are left alone: by --high, by default, "
                                      "or because 16 does not "
                                      "divide their columns",
                                      high_.size(), high_.back()));
}

std::vector<SafeTensor> Packing::parts(const SafeTensor& matrix) const {
  const std::string module = module_of(matrix.name);
  const int64_t rows = matrix.shape[0], cols = matrix.shape[1];
  if (!longlive_)
    return {{module + ".weight_packed", SafeDtype::u8, {rows, cols / 2}, {}},
            {module + ".weight_scale", SafeDtype::f8_e4m3, {rows, cols / fp4::kBlock}, {}},
            {module + ".weight_global_scale", SafeDtype::f32, {1}, {}}};
  const int64_t r = rounded_up(rows, 128), c = rounded_up(cols, 64);
  const std::string own = module + ".quantized_weight";
  return {{own + "_values", SafeDtype::u8, {r, c / 2}, {}},
          {own + "_scale_factors", SafeDtype::f8_e4m3, {r * c / fp4::kBlock}, {}},
          {own + "_amax", SafeDtype::f32, {1}, {}},
          {own + "_metadata", SafeDtype::i32, {4}, {}}};
}

at::Tensor Packing::padded(const at::Tensor& matrix) const {
  const at::Tensor x = matrix.to(at::kFloat).contiguous();
  if (!longlive_) return x;
  const int64_t rows = x.size(0), cols = x.size(1);
  return at::constant_pad_nd(x, {0, rounded_up(cols, 64) - cols, 0, rounded_up(rows, 128) - rows});
}

at::Tensor Packing::part(const std::string& name, const std::string& of, const at::Tensor& matrix) {
  const at::Tensor x = padded(matrix);
  if (name.ends_with("_metadata"))
    return at::tensor({matrix.size(0), matrix.size(1), x.size(0), x.size(1)}, at::kInt);
  const fp4::Shape n{x.size(0), x.size(1)};
  const auto amax = fp4::find_amax(n, x.const_data_ptr<float>(), false);
  if (amax.non_finite != 0)
    raise(KINORA_ERROR_DATA, "'{}': {} of {} values are infinite or NaN, which four bits do not hold", of,
          amax.non_finite, matrix.numel());
  if (name.ends_with("_amax")) return at::full({1}, amax.value, at::kFloat);
  if (name.ends_with("_global_scale"))
    return at::full({1}, fp4::tensor_scale(options_.rule, amax.value).global, at::kFloat);
  const at::Tensor codes = at::empty({fp4::code_bytes(n)}, at::kByte),
                   scales = at::empty({fp4::scale_bytes(n, options_.swizzled)}, at::kByte);
  const float global = fp4::quantize(n, x.const_data_ptr<float>(), options_, amax.value,
                                     codes.data_ptr<uint8_t>(), scales.data_ptr<uint8_t>());
  if (!name.ends_with("_packed") && !name.ends_with("_values")) return scales;
  add_error(n, x.const_data_ptr<float>(), codes, scales, global);
  return codes;
}

void Packing::add_error(const fp4::Shape& n, const float* x, const at::Tensor& codes,
                        const at::Tensor& scales, float global) {
  std::vector<float> back(static_cast<size_t>(n.rows * n.cols));
  fp4::dequantize(n, codes.const_data_ptr<uint8_t>(), scales.const_data_ptr<uint8_t>(), options_.swizzled,
                  global, back.data());
  for (size_t i = 0; i < back.size(); ++i) {
    const double value = x[i], error = back[i] - value;
    squared_ += value * value;
    squared_error_ += error * error;
  }
}

json Packing::rule() const { return {{"scale_rule", rule_}, {"block", options_.square ? "16x16" : "1x16"}}; }

double Packing::relative_error() const { return squared_ > 0 ? std::sqrt(squared_error_ / squared_) : 0; }

json Packing::config() const {
  if (longlive_)
    return {{"quant_method", "fouroversix"},
            {"dtype", "nvfp4"},
            {"scale_rule", rule_ == "none" ? "static_6" : rule_},  // both decode alike
            {"weight_scale_2d", options_.square},
            {"output_dtype", "bfloat16"},
            {"modules_to_not_convert", high_}};
  constexpr const char* kFormat = "nvfp4-pack-quantized";
  const json weights{{"num_bits", 4},
                     {"type", "float"},
                     {"strategy", "tensor_group"},
                     {"group_size", fp4::kBlock},
                     {"symmetric", true},
                     {"dynamic", false},
                     {"scale_dtype", "torch.float8_e4m3fn"}};
  const json group{{"targets", json::array({"Linear"})},
                   {"weights", weights},
                   {"input_activations", nullptr},
                   {"output_activations", nullptr},
                   {"format", kFormat}};
  return {{"quant_method", "compressed-tensors"},
          {"format", kFormat},
          {"quantization_status", "compressed"},
          {"config_groups", {{"group_0", group}}},
          {"ignore", high_}};
}

}  // namespace kinora::core
