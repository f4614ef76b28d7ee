#include "media/parameter_sets.hpp"

#include <algorithm>
#include <set>

namespace kinora::video {
namespace {

constexpr size_t kSequenceIdAt = 4;  // bytes: header, profile, compatibility, level
constexpr size_t kPictureIdAt = 1;

// Reads the unsigned exp-Golomb number at byte `at`; -1 past the end. Ids are small, so no emulation
// prevention byte can precede them.
int golomb(const std::vector<uint8_t>& unit, size_t at) {
  const auto bit = [&](size_t i) { return i / 8 < unit.size() ? unit[i / 8] >> (7 - i % 8) & 1 : -1; };
  size_t position = at * 8;
  int zeros = 0;
  while (bit(position) == 0 && zeros < 16) ++position, ++zeros;
  int value = 0;
  for (int i = 0; i <= zeros; ++i) {
    const int next = bit(position++);
    if (next < 0) return -1;
    value = value << 1 | next;
  }
  return value - 1;
}

bool read_sets(std::span<const uint8_t> record, size_t& at, size_t count,
               std::vector<std::vector<uint8_t>>& sets) {
  for (size_t i = 0; i < count; ++i) {
    if (at + 2 > record.size()) return false;
    const size_t size = static_cast<size_t>(record[at]) << 8 | record[at + 1];
    at += 2;
    if (size == 0 || at + size > record.size()) return false;
    sets.emplace_back(record.begin() + static_cast<ptrdiff_t>(at),
                      record.begin() + static_cast<ptrdiff_t>(at + size));
    at += size;
  }
  return true;
}

void write_sets(const std::vector<std::vector<uint8_t>>& sets, std::vector<uint8_t>& record) {
  for (const auto& set : sets) {
    record.push_back(static_cast<uint8_t>(set.size() >> 8));
    record.push_back(static_cast<uint8_t>(set.size()));
    record.insert(record.end(), set.begin(), set.end());
  }
}

}  // namespace

bool split_units(std::span<const uint8_t> bytes, std::vector<std::span<const uint8_t>>& units) {
  units.clear();
  while (bytes.size() >= 4) {
    const size_t size = static_cast<size_t>(bytes[0]) << 24 | static_cast<size_t>(bytes[1]) << 16 |
                        static_cast<size_t>(bytes[2]) << 8 | bytes[3];
    if (size == 0 || size > bytes.size() - 4) return false;
    units.push_back(bytes.subspan(4, size));
    bytes = bytes.subspan(4 + size);
  }
  return bytes.empty();
}

bool read_avcc(std::span<const uint8_t> record, ParameterSets& sets) {
  if (record.size() < 7 || record[0] != 1 || (record[4] & 3) != 3) return false;
  size_t at = 6;
  if (!read_sets(record, at, record[5] & 31, sets.sequence) || at >= record.size()) return false;
  const size_t pictures = record[at++];
  if (!read_sets(record, at, pictures, sets.picture)) return false;
  const auto whole = [](const std::vector<uint8_t>& set) { return set.size() > kSequenceIdAt; };
  return !sets.sequence.empty() && std::all_of(sets.sequence.begin(), sets.sequence.end(), whole);
}

int free_id(const ParameterSets& sets) {
  std::set<int> used;
  for (const auto& set : sets.sequence) used.insert(golomb(set, kSequenceIdAt));
  for (const auto& set : sets.picture) used.insert(golomb(set, kPictureIdAt));
  if (used.count(-1)) return 0;
  for (int id = 1; id < 32; ++id)
    if (!used.count(id)) return id;
  return 0;
}

std::vector<uint8_t> write_avcc(const ParameterSets& sets) {
  const auto& first = sets.sequence.front();
  uint8_t level = 0;
  for (const auto& set : sets.sequence) level = std::max(level, set[3]);
  std::vector<uint8_t> record{1,     first[1], first[2],
                              level, 0xFF,     static_cast<uint8_t>(0xE0 | sets.sequence.size())};
  write_sets(sets.sequence, record);
  record.push_back(static_cast<uint8_t>(sets.picture.size()));
  write_sets(sets.picture, record);
  const uint8_t profile = first[1];
  // Chroma format 1, depths of 8, no extended sets; the baseline, main and extended profiles have no such
  // fields.
  if (profile != 66 && profile != 77 && profile != 88) record.insert(record.end(), {0xFD, 0xF8, 0xF8, 0});
  return record;
}

}  // namespace kinora::video
