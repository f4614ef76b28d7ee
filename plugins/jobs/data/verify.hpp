// kinora data verify: reads all bytes of a folder of shards and reports every problem.
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "plugins/jobs/data/check_shard.hpp"

namespace kinora::data {

struct VerifyOptions {
  uint64_t threads = 0;                   // 0: one a core
  std::function<DecodeMedium()> decoder;  // makes one for each thread; empty: media are not decoded
  std::set<std::string> optional;         // fields that samples may miss
};

struct VerifyReport {
  uint64_t shards = 0, samples = 0, bytes = 0;
  uint64_t problems = 0;
  uint64_t passed = 0;  // shards without a problem
  std::vector<std::string> notes;
};

// Writes .nv-meta/kinora.verified.json (record.hpp) with the shards that passed; not for one file. Throws Error,
// KINORA_ERROR_CANCELLED if the program is stopped.
VerifyReport verify_folder(const DataFolder& folder, const VerifyOptions& options, const OnProblem& problem);

}  // namespace kinora::data
