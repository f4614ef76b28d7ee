#include "host/weights/scaled_weight.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "core/base/facts.hpp"
#include "host/weights/packed_matrix.hpp"
#include "host/weights/safetensors_header.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

bool is_eight_bits(SafeDtype d) {
  return d == SafeDtype::f8_e4m3 || d == SafeDtype::f8_e5m2 || d == SafeDtype::i8;
}
bool is_real(SafeDtype d) {
  return d == SafeDtype::f32 || d == SafeDtype::f16 || d == SafeDtype::bf16 || d == SafeDtype::f64;
}
int64_t count_in(const SafeTensor& t) {
  int64_t n = 1;
  for (const int64_t d : t.shape) n *= d;  // cannot overflow: the bytes are there
  return n;
}
std::string said_of(const SafeTensor& t) {
  return fmt::format("'{}' {} {}", t.name, name_of(t.dtype), text_of(t.shape));
}

// `name` without the ending and with `instead`; "" if it has another ending.
std::string with_ending(const std::string& name, std::string_view ending, std::string_view instead) {
  if (name.size() <= ending.size() || !name.ends_with(ending)) return "";
  return name.substr(0, name.size() - ending.size()) + std::string(instead);
}

// Name of the codes that a scale of this name belongs to; "" if it is not the name of a scale.
std::string codes_of(const std::string& scale) {
  for (const auto& [ending, codes] : {std::pair{".scale_weight", ".weight"},
                                      {".SCB", ".weight"},
                                      {".weight._scale", ".weight._data"},
                                      {"_scale_inv", ""},
                                      {"_scale", ""}})
    if (auto name = with_ending(scale, ending, codes); !name.empty()) return name;
  return "";
}

// Formats and members of ComfyUI's description of a layer; any other says something about the numbers that is not
// known here, such as a rotation.
std::string unread_format(const json& layer) {
  const std::string format = text_in(layer, "format");
  if (!format.starts_with("float8_e4m3fn") && !format.starts_with("float8_e5m2") &&
      !format.starts_with("int8_"))
    return format.empty() ? "no format" : "format '" + format.substr(0, 40) + "'";
  for (const auto& [name, value] : layer.items()) {
    static const std::set<std::string> known{"format", "group_size", "full_precision_matrix_mult",
                                             "orig_dtype", "orig_shape"};
    if (!known.contains(name) && !(value.is_boolean() && !value.get<bool>()))
      return "'" + name.substr(0, 40) + "'";
  }
  return "";
}

class ScaleJoining {
 public:
  ScaleJoining(std::vector<SafeTensor>& all, std::string_view origin) : all_(all), origin_(origin) {
    for (const auto& t : all) by_name_[t.name] = &t;
  }

  Status run(const SafeMetadata& metadata, const std::filesystem::path& folder) {
    const bool has_codes =
        std::any_of(all_.begin(), all_.end(), [](auto& t) { return is_eight_bits(t.dtype); });
    const json of_folder = has_codes ? object_in_file(folder / "config.json") : json::object();
    const json quantized = object_in(of_folder, "quantization_config");
    if (const auto block = quantized.find("weight_block_size");
        block != quantized.end() && block->is_array() && block->size() == 2 &&
        (*block)[0].is_number_integer() && (*block)[1].is_number_integer())
      rows_ = (*block)[0].get<int64_t>(), cols_ = (*block)[1].get<int64_t>();
    if (const auto s = read_marks(metadata); !s) return s;
    for (const auto& t : all_)
      if (const auto s = join(t); !s) return s;
    for (const auto& [module, where] : marked_)
      if (const auto* codes = find(module + ".weight");
          codes && is_eight_bits(codes->dtype) && !taken_.contains(codes))
        return fail(KINORA_ERROR_DATA,
                    "{}: {} says that {} has a scale, and there is none; is the file whole?", origin_, where,
                    said_of(*codes));
    drop_activations();
    replace();
    return {};
  }

 private:
  const SafeTensor* find(const std::string& name) const {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : at->second;
  }

  // The marks of ComfyUI: scaled_fp8, whose dtype repeats the weights'; X.comfy_quant, a JSON text in bytes; the
  // metadata's _quantization_metadata with the same objects by layer.
  Status read_marks(const SafeMetadata& metadata) {
    for (const auto& t : all_) {
      const std::string module = with_ending(t.name, ".comfy_quant", "");
      if (!module.empty() && t.dtype == SafeDtype::u8) {
        const json layer = parse_facts({reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()});
        if (const auto s = mark(module, layer, "'" + t.name + "'"); !s) return s;
        taken_.insert(&t);
      } else if (t.name == "scaled_fp8" || t.name.ends_with(".scaled_fp8")) {
        taken_.insert(&t);
      }
    }
    const auto described = metadata.find("_quantization_metadata");
    if (described == metadata.end()) return {};
    const json text = parse_facts(described->second);
    for (const auto& [module, layer] : object_in(text, "layers").items())
      if (const auto s = mark(module, layer, "the header's _quantization_metadata"); !s) return s;
    return {};
  }

  Status mark(const std::string& module, const json& layer, const std::string& where) {
    const std::string unread = layer.is_object() ? unread_format(layer) : "not an object";
    if (!unread.empty())
      return fail(KINORA_ERROR_UNSUPPORTED,
                  "{}: {}: '{}' is quantised by ComfyUI with {}, which is not read; take the file of this "
                  "model in bf16, fp16 or fp8_scaled",
                  origin_, where, module, unread);
    if (const auto group = number_in(layer, "group_size"); group >= 1 && group < 1e9)
      groups_[module + ".weight"] = static_cast<int64_t>(group);
    marked_[module] = where;
    return {};
  }

  Status join(const SafeTensor& scale) {
    const std::string name = codes_of(scale.name);
    const SafeTensor* codes = name.empty() || name == scale.name ? nullptr : find(name);
    if (!codes || codes->packed) return {};
    const bool of_weight = name.ends_with(".weight") || name.ends_with("._data");
    if (!is_eight_bits(codes->dtype) && !of_weight)
      return {};  // two parameters, of which one is called X_scale
    if (!is_eight_bits(codes->dtype))
      return fail(
          KINORA_ERROR_DATA,
          "{}: {} is the scale of {}, and scales belong to F8_E4M3, F8_E5M2 or I8; formats with fewer bits "
          "are read of compressed-tensors and LongLive only: take the file of this model in bf16 or fp8",
          origin_, said_of(scale), said_of(*codes));
    if (!is_real(scale.dtype) && scale.dtype != SafeDtype::f8_e8m0)
      return fail(KINORA_ERROR_DATA, "{}: {} is the scale of {}; expected F32, F16, BF16 or F8_E8M0", origin_,
                  said_of(scale), said_of(*codes));
    const std::string module = with_ending(name, ".weight", "");
    if (!module.empty() && (find(module + ".weight_zero_point") || find(module + ".pre_quant_scale")))
      return fail(KINORA_ERROR_UNSUPPORTED,
                  "{}: {} has a zero point or scales of its input channels next to its scale, which are not "
                  "read; take the file of this model in bf16",
                  origin_, said_of(*codes));
    ScaledWeight out{*codes, scale, std::nullopt, 1, 1, 1};
    if (const auto s = with_bitsandbytes(module, out); !s) return s;
    if (const auto s = with_blocks(out); !s) return s;
    if (const auto* second = find(module + ".scale_weight_tensor"); second && !module.empty()) {
      if (count_in(*second) != 1 || !is_real(second->dtype))
        return fail(KINORA_ERROR_DATA, "{}: {} is a second factor; expected one number", origin_,
                    said_of(*second));
      out.second = *second;
      taken_.insert(second);
    }
    const std::string weight = name.ends_with("._data") ? with_ending(name, "._data", "") : name;
    if (made_.contains(weight) || (weight != name && find(weight)))
      return fail(KINORA_ERROR_DATA, "{}: '{}' has two scales, of which one is {}; leave one of them",
                  origin_, weight, said_of(scale));
    taken_.insert(codes), taken_.insert(&scale);
    const auto shape = codes->shape;
    made_[weight] = {weight, SafeDtype::f32, shape,
                     {},     nullptr,        std::make_shared<const ScaledWeight>(std::move(out))};
    return {};
  }

  Status with_bitsandbytes(const std::string& module, ScaledWeight& out) {
    if (!out.scale.name.ends_with(".SCB")) return {};
    const auto* format = find(module + ".weight_format");
    if (out.codes.dtype != SafeDtype::i8 || out.scale.dtype != SafeDtype::f32 ||
        (format && (format->bytes.empty() || format->bytes[0] != std::byte{0})))
      return fail(KINORA_ERROR_DATA,
                  "{}: {} is not a matrix I8 of bitsandbytes by rows; save it again with bitsandbytes",
                  origin_, said_of(out.codes));
    if (format) taken_.insert(format);
    out.factor = 7.874015718698502e-3F;  // 1 / 127, in bitsandbytes' digits
    return {};
  }

  Status with_blocks(ScaledWeight& out) const {
    const auto& shape = out.codes.shape;
    const int64_t all = count_in(out.codes), rows = shape.empty() ? 1 : shape[0],
                  cols = rows ? all / rows : 0;
    auto grid = out.scale.shape;
    while (grid.size() > 1 && grid.back() == 1) grid.pop_back();
    const int64_t down = grid.empty() ? 1 : grid[0], across = grid.size() < 2 ? 1 : grid[1];
    const auto group = groups_.find(out.codes.name);
    const int64_t r = group == groups_.end() ? rows_ : group->second,
                  c = group == groups_.end() ? cols_ : group->second;
    out.block_rows = side(rows, down, r), out.block_cols = side(cols, across, c);
    if (all > 0 && grid.size() <= 2 && out.block_rows > 0 && out.block_cols > 0) return {};
    return fail(KINORA_ERROR_DATA,
                "{}: {} does not fit {}: expected one scale for all, for a row or for a block; where the "
                "size of blocks is "
                "not clear, put {{\"quantization_config\": {{\"weight_block_size\": [ROWS, COLUMNS]}}}} into "
                "config.json next to the file",
                origin_, said_of(out.scale), said_of(out.codes));
  }

  // How many of n numbers share one of `count` scales; 0 if that is not clear. 128 is the usual side of a block,
  // of which the last may be cut.
  static int64_t side(int64_t n, int64_t count, int64_t configured) {
    const auto fits = [&](int64_t size) { return size > 0 && count > 0 && (n - 1) / size + 1 == count; };
    if (count < 1 || n < 1) return 0;
    if (count == 1) return n;
    if (count == n) return 1;
    if (fits(configured)) return configured;
    const int64_t exact = n % count == 0 ? n / count : 0, usual = fits(128) ? 128 : 0;
    if (exact && usual && exact != usual) return 0;
    return exact ? exact : usual;
  }

  void drop_activations() {
    for (const auto& t : all_)
      for (const char* ending : {".scale_input", ".input_scale", ".activation_scale", ".output_scale"})
        if (const auto weight = with_ending(t.name, ending, ".weight"); made_.contains(weight))
          taken_.insert(&t);
  }

  void replace() {
    if (taken_.empty()) return;
    std::vector<SafeTensor> out;
    for (auto& t : all_)
      if (!taken_.contains(&t)) out.push_back(std::move(t));
    for (auto& [name, t] : made_) out.push_back(std::move(t));
    std::sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.name < b.name; });
    all_ = std::move(out);
  }

  std::vector<SafeTensor>& all_;
  std::string_view origin_;
  std::map<std::string_view, const SafeTensor*> by_name_;
  std::set<const SafeTensor*> taken_;
  std::map<std::string, SafeTensor> made_;
  std::map<std::string, std::string> marked_;  // by module: what says so
  std::map<std::string, int64_t> groups_;      // by weight: side of its blocks
  int64_t rows_ = 0, cols_ = 0;                // of config.json; 0: not said
};

}  // namespace

uint64_t stored_bytes(const SafeTensor& t) {
  if (t.packed) return t.packed->codes.size() + t.packed->scales.size();
  if (t.scaled) return t.scaled->codes.bytes.size() + t.scaled->scale.bytes.size();
  return t.bytes.size();
}

Status join_scaled(std::vector<SafeTensor>& tensors, const SafeMetadata& metadata,
                   const std::filesystem::path& folder, std::string_view origin) {
  return ScaleJoining(tensors, origin).run(metadata, folder);
}

}  // namespace kinora::core
