#include "host/weights/safetensors_header.hpp"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace kinora::core {
namespace {

using nlohmann::json;

struct DtypeName {
  const char* name;
  uint64_t size;
};
constexpr std::array<DtypeName, 13> kDtypes{{{"BOOL", 1},
                                             {"U8", 1},
                                             {"I8", 1},
                                             {"F8_E5M2", 1},
                                             {"F8_E4M3", 1},
                                             {"F8_E8M0", 1},
                                             {"I16", 2},
                                             {"F16", 2},
                                             {"BF16", 2},
                                             {"I32", 4},
                                             {"F32", 4},
                                             {"F64", 8},
                                             {"I64", 8}}};

constexpr size_t kMostDims = 32;

// Position of the parser: {top, "name": {fields}, "__metadata__": {pairs}}.
enum class At { start, top, tensor, metadata, shape, offsets, finished };

class Reader final : public nlohmann::json_sax<json> {
 public:
  SafeHeader header;
  std::string why;

  bool key(string_t& k) override {
    if (at_ == At::top) return begin_entry(k);
    key_ = k;
    if (at_ == At::metadata) return true;
    if (k != "dtype" && k != "shape" && k != "data_offsets") return no("has the unknown field '" + k + "'");
    if (std::find(seen_.begin(), seen_.end(), k) != seen_.end()) return no("has '" + k + "' twice");
    seen_.push_back(k);
    return true;
  }
  bool string(string_t& s) override {
    if (at_ == At::metadata) return header.metadata.emplace(key_, s).second || no("has '" + key_ + "' twice");
    if (at_ != At::tensor || key_ != "dtype") return no("has a string where none belongs");
    for (size_t i = 0; i < kDtypes.size(); ++i) {
      if (s == kDtypes[i].name) {
        entry_.tensor.dtype = static_cast<SafeDtype>(i);
        return true;
      }
    }
    return no("has dtype '" + s.substr(0, 32) + "', which is not supported");
  }
  bool number_unsigned(number_unsigned_t n) override {
    if (at_ == At::shape) {
      if (n > INT64_MAX || entry_.tensor.shape.size() == kMostDims) return no("has an impossible shape");
      entry_.tensor.shape.push_back(static_cast<int64_t>(n));
      return true;
    }
    if (at_ != At::offsets || offsets_ == 2) return no("has a number where none belongs");
    (offsets_++ == 0 ? entry_.begin : entry_.end) = n;
    return true;
  }
  bool start_object(size_t) override {
    if (at_ == At::start) return to(At::top);
    if (at_ != At::top || !entered_) return no("has an object where none belongs");
    entered_ = false;
    return to(name_ == "__metadata__" ? At::metadata : At::tensor);
  }
  bool end_object() override {
    if (at_ == At::top) return to(At::finished);
    if (at_ == At::metadata) return to(At::top);
    return to(At::top) && end_entry();
  }
  bool start_array(size_t) override {
    if (at_ != At::tensor || (key_ != "shape" && key_ != "data_offsets"))
      return no("has a list where none belongs");
    return to(key_ == "shape" ? At::shape : At::offsets);
  }
  bool end_array() override {
    if (at_ == At::offsets && offsets_ != 2) return no("needs two data_offsets");
    return to(At::tensor);
  }
  bool null() override { return no("has a null where none belongs"); }
  bool boolean(bool) override { return no("has a truth value where none belongs"); }
  bool number_integer(number_integer_t) override { return no("has a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return no("has a fraction where none belongs");
  }
  bool binary(binary_t&) override { return no("has binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    if (why.empty()) why = "byte " + std::to_string(position) + " of the header is not JSON";
    return false;
  }

 private:
  bool no(const std::string& what) {
    why = (name_.empty() ? "the header" : "'" + name_.substr(0, 200) + "'") + ' ' + what;
    return false;
  }
  bool to(At at) {
    at_ = at;
    return true;
  }
  bool begin_entry(const std::string& k) {
    name_ = k;
    entered_ = true;
    entry_ = {};
    entry_.tensor.name = k;
    seen_.clear();
    offsets_ = 0;
    return true;
  }
  bool end_entry() {
    if (seen_.size() != 3) return no("lacks dtype, shape or data_offsets");
    const auto size = byte_size(entry_.tensor.shape, entry_.tensor.dtype);
    if (!size) return no("has an impossible shape");
    if (entry_.begin > entry_.end || entry_.end - entry_.begin != *size)
      return no("of " + text_of(entry_.tensor.shape) + " needs " + std::to_string(*size) +
                " bytes; its offsets are " + std::to_string(entry_.begin) + " and " +
                std::to_string(entry_.end));
    header.entries.push_back(entry_);
    return true;
  }

  At at_ = At::start;
  bool entered_ = false;  // a key of the top level waits for its object
  std::string name_, key_;
  SafeEntry entry_;
  std::vector<std::string> seen_;
  int offsets_ = 0;
};

}  // namespace

const char* name_of(SafeDtype d) { return kDtypes[static_cast<size_t>(d)].name; }
uint64_t size_of(SafeDtype d) { return kDtypes[static_cast<size_t>(d)].size; }

std::optional<uint64_t> byte_size(const std::vector<int64_t>& shape, SafeDtype dtype) {
  uint64_t n = size_of(dtype);
  for (const int64_t d : shape)
    if (d < 0 || __builtin_mul_overflow(n, static_cast<uint64_t>(d), &n) || n > INT64_MAX)
      return std::nullopt;
  return n;
}

std::string text_of(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Result<SafeHeader> parse_safe_header(std::string_view text, std::string_view origin) {
  Reader reader;
  if (!json::sax_parse(text, &reader))
    return fail(KINORA_ERROR_DATA, "{}: not a safetensors file: {}", origin, reader.why);
  auto& entries = reader.header.entries;
  std::sort(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.tensor.name < b.tensor.name; });
  const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                        [](auto& a, auto& b) { return a.tensor.name == b.tensor.name; });
  if (twice != entries.end())
    return fail(KINORA_ERROR_DATA, "{}: tensor '{}' appears twice", origin, twice->tensor.name);
  return std::move(reader.header);
}

std::string make_safe_header(const std::vector<SafeTensor>& tensors, const SafeMetadata& metadata) {
  std::string out = "{";
  if (!metadata.empty()) out += "\"__metadata__\":" + json(metadata).dump() + (tensors.empty() ? "" : ",");
  uint64_t offset = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& t = tensors[i];
    const uint64_t size = byte_size(t.shape, t.dtype).value_or(0);
    out += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", i ? "," : "",
                       json(t.name).dump(), name_of(t.dtype), fmt::join(t.shape, ","), offset, offset + size);
    offset += size;
  }
  out += '}';
  out.resize((out.size() + 7) / 8 * 8, ' ');
  return out;
}

}  // namespace kinora::core
