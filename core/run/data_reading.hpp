// How a job reads its data: keys at the top of the table `input`. They change no sample, so they are not part of
// the identity of a result.
//
//   input = { path = "s3://bucket/shards", shuffle = 1000, memory = "256 MB", readers = 4, cache = "cache/",
//             cache_limit = "100 GB", max_failed = 100, max_failed_share = 0.1, trusted = true }
#pragma once
#include <string>
#include <vector>

#include "core/config/document.hpp"

namespace kinora::core {

struct DataReading {
  uint64_t memory = 256'000'000;  // bytes of samples that are read ahead
  int64_t readers = -1;           // threads that read ahead; -1: 4 for data on a storage, none for files
  std::string cache;              // local folder that keeps samples of storages; empty: none
  uint64_t cache_limit = 100'000'000'000;
  int64_t max_failed = -1;        // samples that may be unusable; -1: any number
  double max_failed_share = 0.1;  // the same as a share of those taken, from the 1,000th on
  bool trusted = false;           // media are decoded in this process
};

// The names of the keys.
std::vector<std::string> data_reading_keys();
// Reads them from the table at `pointer`. Problems are added with the places of the values at fault.
DataReading read_data_reading(const Document& doc, const std::string& pointer, const nlohmann::json& table,
                              std::vector<Diagnostic>& problems);

}  // namespace kinora::core
