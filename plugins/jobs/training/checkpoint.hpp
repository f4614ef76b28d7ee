// Checkpoints of a training run: folders ROOT/step-000100/, whose files docs/formats/checkpoint.md describes.
// All ranks write under one temporary name, flush, then rename: a folder named step-* is complete.
#pragma once
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "core/io/atomic_file.hpp"
#include "core/torch/weights/weights.hpp"
#include "plugins/jobs/training/sharded_files.hpp"
#include "plugins/jobs/training/sigma_losses.hpp"

namespace kinora::core {

struct TrainState {
  int64_t step = 0;          // optimizer steps done
  int64_t steps = 0;         // of the whole training; 0: an earlier Kinora wrote it
  int64_t samples_seen = 0;  // global index of the next sample
  int64_t optimizer_steps = 0, ema_updates = 0;
  int64_t skipped = 0;                      // steps skipped because they were not finite
  int64_t skipped_in_a_row = 0;             // the latest of them
  double loss = 0;                          // loss of the last finite step
  SigmaLosses by_sigma;                     // over the latest steps
  nlohmann::json rounding;                  // RoundingMeter::state(); null: none
  nlohmann::json facts;                     // of the job, for its summary; null: none
  nlohmann::json lost;                      // samples that could not be used; null: none are read
  std::map<std::string, uint64_t> offsets;  // of random streams and data sources, keyed by name
  std::string config_hash;                  // hash of what must not change when a run resumes
  std::vector<ListedFile> files;            // of the checkpoint; empty: an earlier Kinora wrote it
};

struct Checkpoint {
  TrainState state;
  NamedTensors weights, optimizer;
  std::map<std::string, NamedTensors> ema;  // keyed by decay_name()
  NamedTensors more;                        // of other trained networks, such as a critic, and of the task
};

// This rank's part of a checkpoint's files, by their stems: "weights", "optimizer", "ema-0.99", "more".
using CheckpointFiles = std::map<std::string, std::vector<Holding>>;
std::vector<TensorFile> checkpoint_files(CheckpointFiles files);

// A checkpoint that all ranks write. Until commit() its temporary name is ignored by readers; without
// commit() it is removed.
class NewCheckpoint {
 public:
  // [owner-thread] Collective over all ranks; rank 0's root counts. An error on one rank is thrown on all:
  // kinora::Error(KINORA_ERROR_NO_MEMORY) for a full disk, KINORA_ERROR_IO for the rest.
  NewCheckpoint(const std::filesystem::path& root, TrainState state, std::vector<TensorFile> files,
                const Exchange& exchange, uint64_t shard_size);
  // See ShardedFiles: stream(), or keep() and write().
  void stream() { files_.stream(folder_); }
  void keep() { files_.keep(); }
  void write() { files_.write(folder_); }
  // [owner-thread] Collective over all ranks; each passes what its write() threw. Throws it on all; otherwise
  // the checkpoint is then complete. Replaces an existing checkpoint of this step.
  std::filesystem::path commit(std::exception_ptr failure = nullptr);

 private:
  Exchange exchange_;
  TrainState state_;
  std::filesystem::path name_, folder_;
  std::optional<AtomicFolder> own_;  // on rank 0
  ShardedFiles files_;
};

// The latest checkpoint whose files are as its state lists them, if any. Sizes are compared first; then the
// digests, for which each file is read once, by one of the ranks. Later checkpoints, which are not whole, are
// renamed to step-000100.damaged, with a log line each that says what is wrong; prune_checkpoints() removes
// them. Collective over all ranks; rank 0's root counts.
// Throws Error(KINORA_ERROR_DATA) if there are checkpoints and none is whole.
std::optional<std::filesystem::path> whole_checkpoint(const std::filesystem::path& root,
                                                      const Exchange& exchange);

// The complete checkpoint with the most steps, if any.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& root);

// Tensors borrow from the files' mappings. Throws Error(KINORA_ERROR_DATA) that names the damaged part, and
// Error(KINORA_ERROR_INVALID) if config_hash is not empty and differs from the checkpoint's.
Checkpoint load_checkpoint(const std::filesystem::path& folder, const std::string& config_hash = "");

// Removes all but the last `keep` complete checkpoints and those whose step is a multiple of keep_every (0:
// none), damaged ones of no later step than the last complete one, and temporaries of processes that died. keep <= 0:
// keeps all complete ones.
void prune_checkpoints(const std::filesystem::path& root, int64_t keep, int64_t keep_every = 0);

// A decay as in file names: the shortest text that reads back as the same value, "0.99".
std::string decay_name(double decay);

// Finds a tensor of `from` and removes it there, so that its pages are released with it.
Find taking_from(NamedTensors& from);

// Moves the tensors whose names begin with the prefix out of `from`, under the rest of their names.
NamedTensors taken(NamedTensors& from, const std::string& prefix);

}  // namespace kinora::core
