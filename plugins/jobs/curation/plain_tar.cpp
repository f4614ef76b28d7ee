#include "plugins/jobs/curation/plain_tar.hpp"

#include <algorithm>
#include <numeric>

namespace kinora::core {
namespace {

// POSIX.1-1988 (ustar): offsets and sizes of a header's fields.
constexpr size_t kBlock = 512, kName = 100, kSize = 124, kChecksum = 148, kType = 156, kMagic = 257,
                 kPrefix = 345, kPrefixSize = 155;

// Octal digits and then spaces or zero bytes; nothing for other texts.
std::optional<uint64_t> octal(std::span<const uint8_t> text) {
  const auto is_digit = [](uint8_t c) { return c >= '0' && c <= '7'; };
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  if (end == text.begin() || !std::all_of(end, text.end(), [](uint8_t c) { return c == ' ' || c == 0; }))
    return std::nullopt;
  return std::accumulate(text.begin(), end, uint64_t{0},
                         [](uint64_t sum, uint8_t c) { return sum << 3 | static_cast<uint64_t>(c - '0'); });
}

// Up to a zero byte; nothing if it is not ASCII.
std::optional<std::string_view> text(std::span<const uint8_t> field) {
  const auto end = std::find(field.begin(), field.end(), uint8_t{0});
  if (std::any_of(field.begin(), end, [](uint8_t c) { return c >= 0x80; })) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(field.data()),
                          static_cast<size_t>(end - field.begin()));
}

bool has_right_checksum(std::span<const uint8_t> header) {
  constexpr size_t kDigits = 8;
  const uint64_t all = std::accumulate(header.begin(), header.end(), uint64_t{0});
  const auto own = header.subspan(kChecksum, kDigits);
  return octal(own) == all - std::accumulate(own.begin(), own.end(), uint64_t{0}) + kDigits * ' ';
}

// The name of a plain file.
std::optional<std::string> name_of(std::span<const uint8_t> header) {
  constexpr std::string_view kUstar("ustar\0", 6);
  const std::string_view magic(reinterpret_cast<const char*>(header.data() + kMagic), kUstar.size());
  if (magic != kUstar || (header[kType] != '0' && header[kType] != 0) || !has_right_checksum(header))
    return std::nullopt;
  const auto name = text(header.first(kName)), prefix = text(header.subspan(kPrefix, kPrefixSize));
  if (!name || !prefix || name->empty()) return std::nullopt;
  return prefix->empty() ? std::string(*name) : std::string(*prefix) + "/" + std::string(*name);
}

}  // namespace

std::optional<WebDatasetSample> plain_sample(std::span<const uint8_t> bytes, bool contents) {
  WebDatasetSample out;
  while (!bytes.empty()) {
    if (bytes.size() < kBlock) return std::nullopt;
    const auto header = bytes.first(kBlock);
    const auto name = name_of(header);
    const auto size = octal(header.subspan(kSize, 12));
    bytes = bytes.subspan(kBlock);
    if (!name || name->ends_with('/') || !size || *size > bytes.size()) return std::nullopt;
    const auto content = bytes.first(*size);
    bytes = bytes.subspan(std::min<size_t>(bytes.size(), (*size + kBlock - 1) / kBlock * kBlock));
    const auto parts = split_member_name(*name);
    if (!parts) continue;
    if (out.fields.empty()) out.where.key = parts->key;
    if (parts->key != out.key() || out.find(parts->field)) return std::nullopt;
    out.fields.push_back({std::string(parts->field), {}});
    if (contents) out.fields.back().bytes.assign(content.begin(), content.end());
  }
  return out.fields.empty() ? std::nullopt : std::optional(std::move(out));
}

}  // namespace kinora::core
