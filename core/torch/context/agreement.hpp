// Checks that the ranks agree before they compute together: on the run file's values, the initial weights and
// the data. A rank that differs would train something unintended, or wait for a transfer that never comes.
// (Rank 0's checkpoint is the one that a run resumes from: others may see it later, on a network disk.)
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/run/job.hpp"
#include "kinora/abi/strategy.h"

namespace kinora::core {

// Items with their values, in a fixed order: "option batch", "8".
using Facts = std::vector<std::pair<std::string, std::string>>;

// Facts of a job that is about to start: Kinora's version, seed, options, components, SHA-256 of the files
// that options name (weights) and of the data's index. Paths are not included, nor are settings of the
// machine (threads, device).
Facts facts_of(const JobView&, int64_t ranks);

// Digest of the data in the folder of an encode or shard job, from the files that the job wrote with the
// samples. For encode: all latents with the cache's keys and statistics. For shards: their names, sizes and
// indices, but not their bytes, so a frame replaced by one of the same size is not detected. "none" without
// such files. No sample is read.
std::string data_digest(const std::filesystem::path& folder);

// [owner-thread] Collective over the whole group. Throws Error(KINORA_INVALID), the same on every rank, with
// disagreements() if there are any.
void require_agreement(const kinora_group& world, const Facts& mine);

// [owner-thread] Collective over the whole group. Adds to `mine` the folder that rank 0 recorded, so that
// ranks of different runs that met by chance do not agree. Waits for a disk that shows files late.
void add_folder(Facts& mine, const kinora_group& world, const std::filesystem::path& out);

// The items that differ, at most the first five, with their values and the ranks that have them, smallest
// group of ranks first; empty if all agree. If the ranks run different jobs, only the jobs are listed.
std::string disagreements(const std::vector<Facts>& of_ranks);

}  // namespace kinora::core
