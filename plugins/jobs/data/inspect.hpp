// kinora data inspect: what a folder of shards contains.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plugins/jobs/data/shards.hpp"

namespace kinora::data {

// Smallest, middle and largest of some numbers.
struct Spread {
  uint64_t count = 0, min = 0, median = 0, max = 0;
};
// The numbers are reordered.
Spread spread_of(std::vector<uint64_t>& numbers);

struct Overview {
  uint64_t shards = 0, samples = 0, bytes = 0;
  std::map<std::string, Spread> fields;  // sizes in bytes
  std::vector<std::string> keys;         // of the first samples
  uint64_t looked_at = 0;                // samples whose json and txt were read
  // Members of the json fields by name, then by type, with how many samples have them: "fps", "number", 12.
  std::map<std::string, std::map<std::string, uint64_t>> facts;
  Spread captions;    // characters of the txt fields, or of the fact caption
  std::string index;  // "current", "out of date (...)", "none"
  // Damage of shards, and broken JSON of the samples that were looked at, as lines.
  std::vector<std::string> problems;
};

// Reads the headers of all shards on `threads` threads (0: one a core), and json and txt of up to 1000 samples.
// Throws Error.
Overview inspect_folder(const DataFolder& folder, uint64_t threads);

}  // namespace kinora::data
