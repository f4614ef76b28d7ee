// How the ranks of a launch meet: their rendezvous, the small tensors and texts that they exchange outside of
// a computation (every rank gets those of all ranks), and the check that they agree before they compute
// together.
//
// They must agree on the run file's values, the initial weights and the data: a rank that differs would train
// something unintended, or wait for a transfer that never comes. (Rank 0's checkpoint is the one that a run
// resumes from: others may see it later, on a network disk.)
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/plugin/opening.hpp"
#include "core/run/job.hpp"
#include "core/runtime/place.hpp"
#include "kinora/abi/parallel.h"

namespace kinora::core {

// [owner-thread] A collective instance that has joined the ranks of the launch that `here` belongs to.
// Returns when all of them have joined. run: its stop ends the wait; null: the wait cannot be stopped. Throws
// kinora::Error.
Instance joined(const Component& collective, const Options&, const LaunchPlace& here, const kinora_run* run);

// [owner-thread] Runs one transfer and waits for it. Throws kinora::Error.
at::Tensor transferred(const kinora_group&, uint32_t op, const at::Tensor&);

// [owner-thread] The rows of all ranks, [ranks, columns].
at::Tensor gather_rows(const kinora_group&, const std::vector<double>& mine);

// Items with their values, in a fixed order: "option batch", "8".
using Facts = std::vector<std::pair<std::string, std::string>>;

// Facts of a job that is about to start: Kinora's version, seed, options, components, SHA-256 of the files
// that options name (weights) and of the data of its inputs (JobType::data_digest). Paths are not included, nor
// are settings of the machine (threads, device).
Facts facts_of(const JobView&, int64_t ranks);

// Digest of the shards in a job's folder: their names, sizes and indices, but not their bytes, so a frame replaced by
// one of the same size is not detected. "none" without such files.
std::string shards_digest(const std::filesystem::path& folder);

// [owner-thread] Collective over the whole group. Throws Error(KINORA_ERROR_INVALID), the same on every rank,
// with disagreements() if there are any.
void require_agreement(const kinora_group& world, const Facts& mine);

// [owner-thread] Collective over the whole group. Adds to `mine` the folder that rank 0 recorded, so that
// ranks of different runs that met by chance do not agree. Waits for a disk that shows files late.
void add_folder(Facts& mine, const kinora_group& world, const std::filesystem::path& out);

// The items that differ, at most the first five, with their values and the ranks that have them, smallest
// group of ranks first; empty if all agree. If the ranks run different jobs, only the jobs are listed.
std::string disagreements(const std::vector<Facts>& of_ranks);

}  // namespace kinora::core
