// The checkpoints of a run, one on its way at a time. Numbers are collected, and ranks agree, on the owner's
// thread; a thread of each rank writes its files meanwhile. A checkpoint of several ranks is complete when
// the owner's threads have met after all of that: at the next check() or finish().
#pragma once
#include <memory>

#include "core/torch/weights/checkpoint.hpp"
#include "core/torch/weights/writer.hpp"

namespace kinora::core {

class CheckpointWriter {
 public:
  struct Options {
    bool background = true;  // false: start() writes, a tensor at a time in memory
    uint64_t shard_size = kShardSize;
    int64_t keep = 2, keep_every = 0;  // see prune_checkpoints
  };
  CheckpointWriter(std::filesystem::path root, const Exchange& exchange, const Options& options);

  // [owner-thread] Each a meeting of all ranks, which throws on all what failed on one, once.
  // Waits for the checkpoint before, then takes what the ranks hold now.
  void start(TrainState state, std::vector<TensorFile> files);
  // Does not wait.
  void check();
  void finish();

 private:
  bool all_written() const;
  void commit();
  void prune() const;

  std::filesystem::path root_;
  Exchange exchange_;
  Options options_;
  std::unique_ptr<NewCheckpoint> current_;
  BackgroundWriter writer_;  // ends first: it uses the rest
};

}  // namespace kinora::core
