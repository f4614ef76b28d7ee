#include "media/extent.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace kinora::video {
namespace {

constexpr int64_t kMaxSize = std::numeric_limits<int64_t>::max() / 4;
constexpr int kMaxBoxes = 100'000;

uint64_t big_endian(const uint8_t* bytes, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) value = value << 8 | bytes[i];
  return value;
}

uint64_t little_endian32(const uint8_t* bytes) {
  return bytes[0] | uint64_t{bytes[1]} << 8 | uint64_t{bytes[2]} << 16 | uint64_t{bytes[3]} << 24;
}

bool is_box_type(const uint8_t* type) {
  return std::all_of(type, type + 4, [](uint8_t c) { return c >= 0x20 && c <= 0x7E; });
}

// Walks the outermost boxes. A box of size 0 extends to the end of the file; bytes that form no box are padding.
int64_t iso_extent(ByteSource& source) {
  std::array<uint8_t, 16> head;
  int64_t offset = 0;
  for (int box = 0; offset < source.size(); ++box) {
    const int64_t got = source.read_at(offset, head.data(), 16);
    if (got < 8 || !is_box_type(head.data() + 4)) return offset;
    if (box == kMaxBoxes) return 0;
    uint64_t size = big_endian(head.data(), 4);
    if (size == 1 && got == 16) size = big_endian(head.data() + 8, 8);
    if (size == 0) return source.size();
    if (size < 8 || size > static_cast<uint64_t>(kMaxSize - offset)) return 0;
    offset += static_cast<int64_t>(size);
  }
  return offset;
}

struct Vint {
  uint64_t value = 0;
  int length = 0;  // bytes; 0 if malformed
  bool unknown = false;
};

Vint read_vint(ByteSource& source, int64_t offset) {
  std::array<uint8_t, 8> bytes{};
  if (source.read_at(offset, bytes.data(), 8) < 1 || bytes[0] == 0) return {};
  const int length = __builtin_clz(bytes[0]) - 24 + 1;
  const uint64_t mask = (uint64_t{1} << (7 * length)) - 1;
  const uint64_t value = big_endian(bytes.data(), length) & mask;
  return {value, length, value == mask};
}

// EBML header, then one Segment: its four-byte id, its size, its body.
int64_t matroska_extent(ByteSource& source) {
  const Vint header = read_vint(source, 4);
  if (header.length == 0 || header.unknown || header.value > 4096) return 0;
  const int64_t segment = 4 + header.length + static_cast<int64_t>(header.value);
  const Vint body = read_vint(source, segment + 4);
  if (body.length == 0 || body.unknown || body.value > static_cast<uint64_t>(kMaxSize)) return 0;
  return segment + 4 + body.length + static_cast<int64_t>(body.value);
}

// RIFF chunks follow each other (OpenDML); any other bytes after them do not belong to the container.
int64_t riff_extent(ByteSource& source) {
  std::array<uint8_t, 8> head;
  int64_t offset = 0;
  while (source.read_at(offset, head.data(), 8) == 8 && std::memcmp(head.data(), "RIFF", 4) == 0) {
    const uint64_t size = little_endian32(head.data() + 4);
    if (size == 0) return 0;
    offset += 8 + static_cast<int64_t>(size + size % 2);
  }
  return offset;
}

}  // namespace

int64_t declared_size(ByteSource& source) {
  std::array<uint8_t, 12> head{};
  if (source.read_at(0, head.data(), 12) < 12) return 0;
  static constexpr uint8_t kEbml[4] = {0x1A, 0x45, 0xDF, 0xA3};
  if (std::memcmp(head.data(), kEbml, 4) == 0) return matroska_extent(source);
  if (std::memcmp(head.data(), "RIFF", 4) == 0) return riff_extent(source);
  for (const char* box : {"ftyp", "moov", "mdat", "free", "skip", "wide", "styp", "pnot"}) {
    if (std::memcmp(head.data() + 4, box, 4) == 0) return iso_extent(source);
  }
  return 0;
}

}  // namespace kinora::video
