#include "plugins/jobs/curation/plain_tar.hpp"

#include <algorithm>
#include <array>
#include <cstring>
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

// Adds eight bytes at a time, in four lanes of 16 bits, which the 128 bytes of each cannot fill.
uint64_t sum_of(std::span<const uint8_t> header) {
  constexpr uint64_t kEven = 0x00ff00ff00ff00ff;
  uint64_t lanes = 0;
  for (size_t at = 0; at < kBlock; at += 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, header.data() + at, sizeof eight);
    lanes += (eight & kEven) + (eight >> 8 & kEven);
  }
  return (lanes & 0xffff) + (lanes >> 16 & 0xffff) + (lanes >> 32 & 0xffff) + (lanes >> 48);
}

bool has_right_checksum(std::span<const uint8_t> header) {
  constexpr size_t kDigits = 8;
  const auto own = header.subspan(kChecksum, kDigits);
  return octal(own) == sum_of(header) - std::accumulate(own.begin(), own.end(), uint64_t{0}) + kDigits * ' ';
}

// The name of a plain file; `joined` has its memory if it consists of two parts.
std::optional<std::string_view> name_of(std::span<const uint8_t> header, std::string& joined) {
  constexpr std::string_view kUstar("ustar\0", 6);
  const std::string_view magic(reinterpret_cast<const char*>(header.data() + kMagic), kUstar.size());
  if (magic != kUstar || (header[kType] != '0' && header[kType] != 0) || !has_right_checksum(header))
    return std::nullopt;
  const auto name = text(header.first(kName)), prefix = text(header.subspan(kPrefix, kPrefixSize));
  if (!name || !prefix || name->empty()) return std::nullopt;
  if (prefix->empty()) return name;
  joined = std::string(*prefix) + "/" + std::string(*name);
  return joined;
}

// A sample of `size` bytes. header_at(offset) is a header, empty at the end of the bytes; take(field, offset, size)
// returns false if the content is cut off.
template <class HeaderAt, class Take>
std::optional<WebDatasetSample> walk(uint64_t size, const HeaderAt& header_at, const Take& take) {
  constexpr size_t kUsual = 4;  // fields
  WebDatasetSample out;
  out.fields.reserve(kUsual);
  std::string joined;
  for (uint64_t at = 0; at < size;) {
    const std::span<const uint8_t> header = header_at(at);
    if (header.size() < kBlock) return std::nullopt;
    at += kBlock;
    const auto name = name_of(header, joined);
    const auto content = octal(header.subspan(kSize, 12));
    if (!name || name->ends_with('/') || !content || *content > size - at) return std::nullopt;
    const uint64_t begin = at;
    at += std::min(size - at, (*content + kBlock - 1) / kBlock * kBlock);
    const auto parts = split_member_name(*name);
    if (!parts) continue;
    if (out.fields.empty()) out.where.key = parts->key;
    std::string field = field_name(parts->field);
    if (parts->key != out.key() || out.find(field)) return std::nullopt;
    out.fields.push_back({std::move(field), {}});
    if (!take(out.fields.back(), begin, *content)) return std::nullopt;
  }
  return out.fields.empty() ? std::nullopt : std::optional(std::move(out));
}

}  // namespace

std::optional<WebDatasetSample> plain_sample(std::span<const uint8_t> bytes) {
  const auto header_at = [&](uint64_t at) { return bytes.subspan(at, std::min(kBlock, bytes.size() - at)); };
  return walk(bytes.size(), header_at, [&](WebDatasetSample::Field& field, uint64_t at, uint64_t size) {
    const auto content = bytes.subspan(at, size);
    field.bytes.assign(content.begin(), content.end());
    return true;
  });
}

std::optional<WebDatasetSample> plain_sample(const ReadBytes& read, uint64_t size, std::string_view wanted) {
  std::array<uint8_t, kBlock> header;
  const auto header_at = [&](uint64_t at) {
    return std::span<const uint8_t>(header).first(size - at < kBlock ? 0 : read(at, header.data(), kBlock));
  };
  return walk(size, header_at, [&](WebDatasetSample::Field& field, uint64_t at, uint64_t n) {
    if (field.name != wanted) return true;
    field.bytes.resize(n);
    return read(at, field.bytes.data(), n) == n;
  });
}

}  // namespace kinora::core
