#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kinora::video {

// H.264 as MP4 holds it (ISO/IEC 14496-15): NAL units behind four-byte lengths, parameter sets in avcC.

// The units of a packet or header of four-byte lengths. False, and what came before, when the lengths do not
// add up.
bool split_units(std::span<const uint8_t> bytes, std::vector<std::span<const uint8_t>>& units);

// The type of a unit: 5 is a slice of an instantaneous decoder refresh, 7 and 8 are parameter sets.
inline int unit_type(std::span<const uint8_t> unit) { return unit.empty() ? 0 : unit[0] & 31; }

struct ParameterSets {
  std::vector<std::vector<uint8_t>> sequence, picture;  // units
};

// What an avcC record holds. False for anything else, such as start codes or lengths of fewer than four
// bytes.
bool read_avcc(std::span<const uint8_t> record, ParameterSets& sets);

// An id from 1 to 31 that none of the sets has, as a sequence's and as a picture's; 0 if there is none.
int free_id(const ParameterSets& sets);

// The record of all sets, of 8 bit 4:2:0; profile and compatibility are the first one's, the level the
// highest.
std::vector<uint8_t> write_avcc(const ParameterSets& sets);

}  // namespace kinora::video
