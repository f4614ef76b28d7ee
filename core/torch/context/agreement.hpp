// What ranks must have alike before they compute together: the run file's values, the weights that they start
// from, the data. A rank with others would train something that nobody asked for, or wait for what never
// comes. (The checkpoint that they go on from is rank 0's: others may see it later, on a network's disk.)
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/run/job.hpp"
#include "kinora/abi/strategy.h"

namespace kinora::core {

// Item and value, in an order of their own: "option batch", "8".
using Facts = std::vector<std::pair<std::string, std::string>>;

// Of a job that is about to begin: Kinora's version, seed, options, components, SHA-256 of the files that
// options name (weights) and of the data's index. Paths are no part, nor what a machine decides (threads,
// device).
Facts facts_of(const JobView&, int64_t ranks);

// Of the data in the folder of an encode or shard job, by what these wrote beside the samples: a digest of
// all latents with the cache's keys and statistics; or of the shards names, sizes and indices, not their
// bytes, so that a frame exchanged for one of the same size passes. "none" without. No sample is read.
std::string data_digest(const std::filesystem::path& folder);

// [owner-thread] A meeting of the whole group. Throws Error(KINORA_INVALID), the same on every rank, with
// disagreements() if there are any.
void require_agreement(const kinora_group& world, const Facts& mine);

// [owner-thread] A meeting of the whole group: adds to `mine` which folder rank 0 said its record in, so that
// ranks of different runs that met by chance do not agree. A disk that shows files late is waited for.
void add_folder(Facts& mine, const kinora_group& world, const std::filesystem::path& out);

// Which items differ, the first five of them, with their values and the ranks that have them, those of the
// fewest ranks first; empty: none. Of ranks at different jobs only the jobs.
std::string disagreements(const std::vector<Facts>& of_ranks);

}  // namespace kinora::core
