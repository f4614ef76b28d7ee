#include "plugins/jobs/loading/mds_columns.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "core/base/facts.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;
using Bytes = std::vector<uint8_t>;

static_assert(std::endian::native == std::endian::little);

template <class N>
N number(const Bytes& bytes) {
  N out;
  std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

struct Number {
  uint64_t size;
  std::string (*text)(const Bytes& bytes);
  json (*fact)(const Bytes& bytes);
};

template <class N>
constexpr Number number_of() {
  return {sizeof(N), [](const Bytes& bytes) { return fmt::format("{}", number<N>(bytes)); },
          [](const Bytes& bytes) {
            const N value = number<N>(bytes);
            return std::isfinite(static_cast<double>(value)) ? json(value) : json();
          }};
}

const Number* number_type(const std::string& encoding) {
  static const std::map<std::string, Number> all{
      {"int", number_of<int64_t>()},     {"int8", number_of<int8_t>()},     {"int16", number_of<int16_t>()},
      {"int32", number_of<int32_t>()},   {"int64", number_of<int64_t>()},   {"uint8", number_of<uint8_t>()},
      {"uint16", number_of<uint16_t>()}, {"uint32", number_of<uint32_t>()}, {"uint64", number_of<uint64_t>()},
      {"float32", number_of<float>()},   {"float64", number_of<double>()}};
  const auto found = all.find(encoding);
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace

bool is_mds_encoding(const std::string& encoding, uint64_t& fixed) {
  const Number* type = number_type(encoding);
  fixed = type ? type->size : 0;
  return type || encoding == "bytes" || encoding == "str" || encoding == "json" || encoding == "jpeg" ||
         encoding == "png";
}

Bytes mds_field(const MdsColumn& column, Bytes bytes) {
  const Number* type = number_type(column.encoding);
  if (!type) return bytes;
  const std::string text = type->text(bytes);
  return {text.begin(), text.end()};
}

bool has_mds_facts(const MdsColumn& column) {
  return column.encoding == "str" || column.encoding == "json" || number_type(column.encoding);
}

json mds_fact(const MdsColumn& column, const Bytes& bytes) {
  if (const Number* type = number_type(column.encoding)) return type->fact(bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (column.encoding == "str") return valid_utf8(text);
  json value = parse_facts(text);
  return value.is_discarded() ? json() : value;
}

}  // namespace kinora::core
