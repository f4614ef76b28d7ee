// The columns of an MDS shard (mds.hpp) and their values.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

struct MdsColumn {
  std::string name, encoding;
  uint64_t fixed = 0;  // size of its values in bytes; 0: each sample says
};

struct MdsColumns {
  std::vector<MdsColumn> all;
  size_t key = 0;  // number of the column that has the keys; all.size(): none

  // Bytes at the start of a sample: the sizes of its columns.
  uint64_t head() const {
    return 4 * static_cast<uint64_t>(
                   std::count_if(all.begin(), all.end(), [](const auto& c) { return c.fixed == 0; }));
  }
};

// Whether this encoding is read. fixed: the size of its values; 0: it varies.
bool is_mds_encoding(const std::string& encoding, uint64_t& fixed);

// A value as a field of a sample: numbers as text, other encodings as they are.
std::vector<uint8_t> mds_field(const MdsColumn& column, std::vector<uint8_t> bytes);

// Whether values of the column are facts: text, numbers and JSON are.
bool has_mds_facts(const MdsColumn& column);
// Null if the value cannot be read.
nlohmann::json mds_fact(const MdsColumn& column, const std::vector<uint8_t>& bytes);

}  // namespace kinora::core
