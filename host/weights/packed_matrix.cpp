#include "host/weights/packed_matrix.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/base/facts.hpp"
#include "host/weights/safetensors_header.hpp"

namespace kinora::core {
namespace {

constexpr int64_t kBlock = 16, kTileRows = 128, kTileCols = 4 * kBlock;
constexpr std::string_view kPacked = ".weight_packed", kValues = ".quantized_weight_values";

int64_t numel(const SafeTensor& t) {
  int64_t n = 1;
  for (const int64_t d : t.shape) n *= d;  // cannot overflow: the bytes are there
  return n;
}

// The parts of one file by name, and which of them matrices have taken.
class Parts {
 public:
  Parts(const std::vector<SafeTensor>& all, std::string_view origin) : all_(all), origin_(origin) {}

  const SafeTensor* find(const std::string& name) const {
    const auto it = std::lower_bound(all_.begin(), all_.end(), name,
                                     [](const SafeTensor& t, const std::string& n) { return t.name < n; });
    return it != all_.end() && it->name == name ? &*it : nullptr;
  }
  // A part that is there, or need not be, and is not read any more.
  const SafeTensor* take(const std::string& name) {
    const auto* t = find(name);
    if (t) taken_.insert(t);
    return t;
  }
  bool has_taken(const SafeTensor& t) const { return taken_.contains(&t); }

  // of: what the part must be, such as "F8_E4M3 [4, 2]".
  Failure wrong(const std::string& name, const std::string& of) const {
    const auto* t = find(name);
    return fail(KINORA_ERROR_DATA, "{}: '{}' of a matrix in four bits {}; expected {}; is the file whole?",
                origin_, name,
                t ? fmt::format("is {} {}", name_of(t->dtype), text_of(t->shape)) : "is missing", of);
  }
  // The value of a tensor of one float32.
  Result<float> number(const std::string& name) {
    const auto* t = take(name);
    if (!t || t->dtype != SafeDtype::f32 || numel(*t) != 1) return wrong(name, "F32 [1]");
    float value = 0;
    std::memcpy(&value, t->bytes.data(), sizeof value);
    if (std::isfinite(value) && value >= 0) return value;
    return fail(KINORA_ERROR_DATA, "{}: '{}' is {}; a scale is finite and not negative", origin_, name,
                value);
  }
  std::string_view origin() const { return origin_; }

 private:
  const std::vector<SafeTensor>& all_;
  std::string_view origin_;
  std::set<const SafeTensor*> taken_;
};

SafeTensor matrix(const std::string& module, int64_t rows, int64_t cols, PackedMatrix packed) {
  return {module + ".weight", SafeDtype::f32, {rows, cols}, {}, std::make_shared<const PackedMatrix>(packed)};
}

Result<SafeTensor> from_compressed_tensors(const std::string& module, const SafeTensor& codes, Parts& parts) {
  const int64_t rows = codes.shape.size() == 2 ? codes.shape[0] : 0;
  const int64_t cols = rows > 0 ? codes.shape[1] * 2 : 0;  // of rows that have bytes: cannot overflow
  if (codes.dtype != SafeDtype::u8 || rows < 1 || cols < 1 || cols % kBlock != 0)
    return parts.wrong(codes.name,
                       "U8 [rows, 8 blocks] of nvfp4-pack-quantized, the only format that is read");
  const std::string scale = module + ".weight_scale", zero = module + ".weight_zero_point";
  const std::vector<int64_t> shape{rows, cols / kBlock};
  const auto* scales = parts.take(scale);
  if (!scales || scales->dtype != SafeDtype::f8_e4m3 || scales->shape != shape)
    return parts.wrong(scale, "F8_E4M3 " + text_of(shape));
  if (parts.find(zero)) return parts.wrong(zero, "none, since only symmetric matrices are read");
  parts.take(module + ".input_global_scale");
  const auto global = parts.number(module + ".weight_global_scale");
  if (!global) return global.failure();
  if (*global == 0)
    return fail(KINORA_ERROR_DATA, "{}: '{}.weight_global_scale' is 0; it divides the scales", parts.origin(),
                module);
  return matrix(module, rows, cols, {codes.bytes, scales->bytes, rows, cols, false, *global, 1, 1});
}

struct Sizes {
  int64_t rows, cols, padded_rows, padded_cols;
};

Result<Sizes> sizes_in(const std::string& name, const SafeTensor& codes, Parts& parts) {
  const auto* t = parts.take(name);
  const bool wide = t && t->dtype == SafeDtype::i64;
  if (!t || (!wide && t->dtype != SafeDtype::i32) || (numel(*t) != 4 && numel(*t) != 6))
    return parts.wrong(name, "I32 or I64, [4] or [6]");
  int64_t n[6] = {0, 0, 0, 0, 1, 1};
  for (int64_t i = 0; i < numel(*t); ++i) {
    int32_t narrow = 0;
    const auto* at = t->bytes.data() + i * (wide ? 8 : 4);
    std::memcpy(wide ? static_cast<void*>(&n[i]) : &narrow, at, wide ? 8 : 4);
    if (!wide) n[i] = narrow;
  }
  const Sizes s{n[0], n[1], n[2], n[3]};
  if (s.rows >= 1 && s.cols >= 1 && s.rows <= s.padded_rows && s.cols <= s.padded_cols &&
      s.padded_rows % kTileRows == 0 && s.padded_cols % kTileCols == 0 &&
      codes.shape == std::vector<int64_t>{s.padded_rows, s.padded_cols / 2} && n[5] == 1)
    return s;
  return fail(
      KINORA_ERROR_DATA,
      "{}: '{}' says a matrix [{}, {}], padded to [{}, {}], with scales of layout {}, and '{}' is {}; "
      "expected padding to multiples of {} and {}, half a byte a number, and layout 1",
      parts.origin(), name, n[0], n[1], n[2], n[3], n[5], codes.name, text_of(codes.shape), kTileRows,
      kTileCols);
}

Result<SafeTensor> from_fouroversix(const std::string& module, const SafeTensor& codes, Parts& parts,
                                    float most) {
  const std::string own = module + ".quantized_weight";
  if (codes.dtype != SafeDtype::u8 || codes.shape.size() != 2)
    return parts.wrong(codes.name, "U8 [rows, cols / 2]");
  const auto sizes = sizes_in(own + "_metadata", codes, parts);
  if (!sizes) return sizes.failure();
  const int64_t blocks = numel(codes) * 2 / kBlock;
  const auto* scales = parts.take(own + "_scale_factors");
  if (!scales || scales->dtype != SafeDtype::f8_e4m3 || numel(*scales) != blocks)
    return parts.wrong(own + "_scale_factors", fmt::format("F8_E4M3 [{}]", blocks));
  const auto amax = parts.number(own + "_amax");
  if (!amax) return amax.failure();
  for (const char* part : {"values", "scale_factors", "amax", "metadata"})
    parts.take(own + "_transposed_" + part);
  return matrix(module, sizes->rows, sizes->cols,
                {codes.bytes, scales->bytes, sizes->padded_rows, sizes->padded_cols, true, 1, *amax, most});
}

// The file's own in its metadata, else that of the folder's config.json.
nlohmann::json quantization_config(const SafeMetadata& metadata, const std::filesystem::path& folder) {
  const auto own = metadata.find("quantization_config");
  return own != metadata.end() ? parse_facts(own->second)
                               : object_in(object_in_file(folder / "config.json"), "quantization_config");
}

// "mse"; "" if the configuration is not Four Over Six'.
std::string rule_in(const nlohmann::json& config) {
  const std::string rule = text_in(config, "weight_scale_rule");
  return rule.empty() ? text_in(config, "scale_rule") : rule;
}

// The number of most_of_rule. LongLive notes "format": "nvfp4", and as dtype that of the other weights.
Result<float> most_of_file(const SafeMetadata& metadata, const std::filesystem::path& folder,
                           std::string_view origin) {
  const auto config = quantization_config(metadata, folder);
  const std::string rule = rule_in(config);
  const std::string dtype = text_in(config, "format") == "nvfp4" ? "" : text_in(config, "dtype");
  if (const float most = most_of_rule(rule); most > 0 && (dtype.empty() || dtype == "nvfp4")) return most;
  return fail(
      KINORA_ERROR_DATA,
      "{}: Four Over Six' matrices in four bits {}; put {{\"quantization_config\": {{\"quant_method\": "
      "\"fouroversix\", \"scale_rule\": \"mse\"}}}} with the rule that they were made by (mse, mae, abs_max, "
      "static_6, static_4) into config.json next to the file",
      origin,
      rule.empty()                        ? "with an unknown rule of scales"
      : dtype == "nvfp4" || dtype.empty() ? "with the unknown rule '" + rule.substr(0, 32) + "'"
                                          : "with the unknown dtype '" + dtype.substr(0, 32) + "'");
}

// X, if the tensor is X and one of these endings; else "".
std::string module_of(const SafeTensor& t, std::initializer_list<std::string_view> endings) {
  for (const auto ending : endings)
    if (t.name.size() > ending.size() && t.name.ends_with(ending))
      return t.name.substr(0, t.name.size() - ending.size());
  return "";
}

// A part that no matrix has taken, since that matrix has no codes.
Status check_left_over(const std::vector<SafeTensor>& tensors, const Parts& parts) {
  for (const auto& t : tensors) {
    if (parts.has_taken(t)) continue;
    if (const auto module = module_of(t, {".weight_global_scale"}); !module.empty())
      return parts.wrong(module + std::string(kPacked), "U8, the codes of '" + t.name + "'");
    const auto module = module_of(
        t, {".quantized_weight_scale_factors", ".quantized_weight_amax", ".quantized_weight_metadata"});
    if (!module.empty())
      return parts.wrong(module + std::string(kValues), "U8, the codes of '" + t.name + "'");
  }
  return {};
}

}  // namespace

float most_of_rule(std::string_view rule) {
  if (rule == "static_6") return 6 * 448;
  if (rule == "static_4") return 4 * 448;
  return rule == "mse" || rule == "mae" || rule == "abs_max" ? 6 * 256 : 0;
}

Status join_packed(std::vector<SafeTensor>& tensors, const SafeMetadata& metadata,
                   const std::filesystem::path& folder, std::string_view origin) {
  Parts parts(tensors, origin);
  std::vector<SafeTensor> made;
  float most = 0;
  for (const auto& t : tensors) {
    const std::string module = module_of(t, {kPacked, kValues});
    if (module.empty()) continue;
    const bool ours = t.name.ends_with(kPacked);
    if (!ours && most == 0) {
      const auto found = most_of_file(metadata, folder, origin);
      if (!found) return found.failure();
      most = *found;
    }
    parts.take(t.name);
    auto one = ours ? from_compressed_tensors(module, t, parts) : from_fouroversix(module, t, parts, most);
    if (!one) return one.failure();
    if (parts.find(one->name))
      return fail(KINORA_ERROR_DATA, "{}: '{}' is there whole and in four bits ('{}'); leave one of them",
                  origin, one->name, t.name);
    made.push_back(*std::move(one));
  }
  if (const auto status = check_left_over(tensors, parts); !status) return status;
  if (made.empty()) return {};
  for (auto& t : tensors)
    if (!parts.has_taken(t)) made.push_back(std::move(t));
  std::sort(made.begin(), made.end(), [](auto& a, auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(made.begin(), made.end(), [](auto& a, auto& b) { return a.name == b.name; });
  if (twice != made.end())
    return fail(KINORA_ERROR_DATA, "{}: '{}' is there in two layouts of four bits; leave one of them", origin,
                twice->name);
  tensors = std::move(made);
  return {};
}

Result<LowWeights> low_weights_of(const Safetensors& file) {
  const auto noted = [&](const char* key) {
    const auto at = file.metadata().find(key);
    return at == file.metadata().end() ? nlohmann::json() : parse_facts(at->second);
  };
  LowWeights out;
  const auto names = noted("low_weights"), rule = noted("low_rule");
  const std::string origin = file.files()[0].string();
  if (!names.is_null() && !names.is_array())
    return fail(KINORA_ERROR_DATA, "{}: its metadata low_weights is not a list of names", origin);
  for (const auto& name : names) {
    if (!name.is_string())
      return fail(KINORA_ERROR_DATA, "{}: its metadata low_weights is not a list of names", origin);
    out.names.insert(name.get<std::string>());
  }
  for (const auto& t : file.tensors())
    if (names.is_null() && t.packed) out.names.insert(t.name);
  out.scale_rule = text_in(rule, "scale_rule"), out.block = text_in(rule, "block");
  if (!out.scale_rule.empty() || out.names.empty()) return out;
  const auto config = quantization_config(file.metadata(), file.files()[0].parent_path());
  out.scale_rule = rule_in(config);
  if (!out.scale_rule.empty()) out.block = flag_in(config, "weight_scale_2d") ? "16x16" : "1x16";
  return out;
}

}  // namespace kinora::core
