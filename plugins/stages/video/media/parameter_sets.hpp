#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kinora::video {

// H.264 as stored in MP4 (ISO/IEC 14496-15): NAL units preceded by four-byte lengths, parameter sets in avcC.

// Splits a packet or header with four-byte lengths into units. False, with the units before the error, if the
// lengths are inconsistent.
bool split_units(std::span<const uint8_t> bytes, std::vector<std::span<const uint8_t>>& units);

// Type of a unit: 5 is a slice of an instantaneous decoder refresh, 7 and 8 are parameter sets.
inline int unit_type(std::span<const uint8_t> unit) { return unit.empty() ? 0 : unit[0] & 31; }

struct ParameterSets {
  std::vector<std::vector<uint8_t>> sequence, picture;  // units
};

// Reads an avcC record. False for anything else, such as start codes or lengths of fewer than four bytes.
bool read_avcc(std::span<const uint8_t> record, ParameterSets& sets);

// Returns an id from 1 to 31 that no sequence or picture set uses; 0 if there is none.
int free_id(const ParameterSets& sets);

// Returns the record of all sets, for 8-bit 4:2:0, with the first set's profile and compatibility and the
// highest level.
std::vector<uint8_t> write_avcc(const ParameterSets& sets);

}  // namespace kinora::video
