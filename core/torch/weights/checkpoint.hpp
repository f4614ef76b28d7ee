// Checkpoints of a training run: ROOT/step-000100/ with
//   weights.safetensors     parameters by name, whole, in their dtype
//   optimizer.safetensors   first.NAME and second.NAME: AdamW's moments
//   ema-0.99.safetensors    averages by name, a file for each decay that the run keeps
//   more.safetensors        what the job keeps beside the network, if anything
//   state.json              TrainState
// each of the tensors' files as shards with an index if it is large (sharded_files.hpp). Written by all ranks
// under one temporary name, flushed, then renamed: a folder named step-* is complete.
#pragma once
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "core/io/atomic_file.hpp"
#include "core/torch/weights/sigma_losses.hpp"
#include "core/torch/weights/sharded_files.hpp"
#include "core/torch/weights/weights.hpp"

namespace kinora::core {

struct TrainState {
  int64_t step = 0;          // optimizer steps done
  int64_t samples_seen = 0;  // global number of the next sample
  int64_t optimizer_steps = 0, ema_updates = 0;
  int64_t skipped = 0;                      // steps that were not finite
  double loss = 0;                          // of the last finite step
  SigmaLosses by_sigma;                     // of the latest steps
  std::map<std::string, uint64_t> offsets;  // of random streams and data sources, by name
  std::string config_hash;                  // of what must not change between a run and its continuation
};

struct Checkpoint {
  TrainState state;
  NamedTensors weights, optimizer;
  std::map<std::string, NamedTensors> ema;  // by decay_name()
  NamedTensors more;                        // of the job itself: a critic
};

// What a checkpoint keeps of a network, as the ranks hold it: the files "weights", "optimizer", "ema-0.99",
// "more".
std::vector<TensorFile> checkpoint_files(Holding weights, Holding first, Holding second);
TensorFile checkpoint_file(const std::string& stem, Holding holding);

// A checkpoint that all ranks write. Until commit() it has no name that a reader looks at; without one, it
// goes.
class NewCheckpoint {
 public:
  // [owner-thread] A meeting of all ranks; rank 0's root counts. Throws on all ranks what fails on one:
  // kinora::Error(KINORA_NO_MEMORY) for a full disk, KINORA_IO for the rest.
  NewCheckpoint(const std::filesystem::path& root, TrainState state, std::vector<TensorFile> files,
                const Exchange& exchange, uint64_t shard_size);
  // See ShardedFiles: stream(), or keep() and write().
  void stream() { files_.stream(folder_); }
  void keep() { files_.keep(); }
  void write() { files_.write(folder_); }
  // [owner-thread] A meeting of all ranks, which bring what their write() threw. Throws it on all; else there
  // is a checkpoint then. One of this step that exists already is replaced.
  std::filesystem::path commit(std::exception_ptr failure = nullptr);

 private:
  Exchange exchange_;
  TrainState state_;
  std::filesystem::path name_, folder_;
  std::optional<AtomicFolder> own_;  // of rank 0
  ShardedFiles files_;
};

// One process' checkpoint at once.
std::filesystem::path save_checkpoint(const std::filesystem::path& root, const Checkpoint& checkpoint,
                                      uint64_t shard_size = kShardSize);

// The complete checkpoint with the most steps, if there is one.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& root);

// Tensors borrow from the files' mappings. Throws Error(KINORA_DATA) that names what is damaged, and
// Error(KINORA_INVALID) if config_hash is not empty and differs from the checkpoint's.
Checkpoint load_checkpoint(const std::filesystem::path& folder, const std::string& config_hash = "");

// Removes all but the last `keep` complete checkpoints and those whose step is a multiple of keep_every (0:
// none), and temporaries of processes that died. keep <= 0: keeps all.
void prune_checkpoints(const std::filesystem::path& root, int64_t keep, int64_t keep_every = 0);

// How file names say an average's decay: the shortest text that reads back as it, "0.99".
std::string decay_name(double decay);

// A tensor of `from`, which then has it no more: its pages go with it.
Find taking_from(NamedTensors& from);

// AdamW's moments as one map of names, and apart again.
NamedTensors join_moments(const NamedTensors& first, const NamedTensors& second);
void split_moments(const NamedTensors& both, NamedTensors& first, NamedTensors& second);

}  // namespace kinora::core
