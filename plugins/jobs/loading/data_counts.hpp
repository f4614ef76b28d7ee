// The counts of the loading of data so far.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

namespace kinora::core {

struct DataCounts {
  uint64_t samples = 0;                      // read for the caller, those in place of others included
  uint64_t ready = 0;                        // read ahead, and not yet asked for
  uint64_t ahead_peak = 0;                   // most bytes of samples that were read ahead at once
  uint64_t cache_hits = 0, cache_bytes = 0;  // reads that the cache answered
  double waited = 0;                         // seconds for which the caller waited for samples
  std::map<std::string, uint64_t> bytes;     // read from each set, by its path
  std::map<std::string, uint64_t> left_out;  // samples of the sets that `part` and `where` leave out

  nlohmann::json to_json() const {
    return {{"samples", samples},
            {"ready", ready},
            {"ahead_peak", ahead_peak},
            {"cache_hits", cache_hits},
            {"cache_bytes", cache_bytes},
            {"waited", waited},
            {"bytes", bytes},
            {"left_out", left_out}};
  }
};

}  // namespace kinora::core
