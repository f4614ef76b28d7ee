// The position of a training in its data: the number of slots that its ranks have taken together. It fits any
// number of ranks and of loading threads.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace kinora::core {

struct DataState {
  uint64_t slots = 0;
  std::string data;  // DataOrder::digest()
};

// {"kinora": "data-state/1", "slots": 4816, "data": "9f..."}, written as a whole or not at all. Throws Error.
void write_data_state(const std::filesystem::path& file, const DataState& state);
// Throws Error(KINORA_ERROR_INVALID) for a file that is not a state, or is of other data than `data`.
DataState read_data_state(const std::filesystem::path& file, const std::string& data);

}  // namespace kinora::core
