// Writes the checkpoints of a run, one at a time. The owner's thread collects the tensors and agrees with
// other ranks; meanwhile a thread on each rank writes its files. A checkpoint of several ranks is complete at
// the first check() or finish() after all of them have written.
#pragma once
#include <functional>
#include <future>
#include <memory>

#include "plugins/jobs/training/checkpoint.hpp"

namespace kinora::core {

// Runs one piece of work at a time in a thread of its own, while its owner continues. [owner-thread]
class BackgroundWriter {
 public:
  // background: false runs the work inside start().
  explicit BackgroundWriter(bool background) : background_(background) {}
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;
  // Waits for the work. An error that was not thrown yet is logged.
  ~BackgroundWriter();

  // Waits for the previous work, then starts this one. Throws the previous work's error.
  void start(std::function<void()> work);
  // Throws the error of finished work, once. Does not wait.
  void check();
  // Whether work is in progress.
  bool busy() const;
  // Waits, then does as check().
  void finish();

 private:
  bool background_;
  std::future<void> work_;
};

class CheckpointWriter {
 public:
  struct Options {
    bool background = true;  // false: start() writes, with one tensor at a time in memory
    uint64_t shard_size = kShardSize;
    int64_t keep = 2, keep_every = 0;  // see prune_checkpoints
  };
  CheckpointWriter(std::filesystem::path root, const Exchange& exchange, const Options& options);

  // [owner-thread] Each is collective over all ranks; an error on one is thrown on all, once. start() waits
  // for the previous checkpoint, then takes the ranks' current values.
  void start(TrainState state, std::vector<TensorFile> files);
  // Checks without waiting.
  void check();
  void finish();

 private:
  bool all_written() const;
  void commit();
  void write_behind(std::function<void()> work);
  void prune() const;

  std::filesystem::path root_;
  Exchange exchange_;
  Options options_;
  std::unique_ptr<NewCheckpoint> current_;
  BackgroundWriter writer_;  // destroyed first, since it uses the others
};

}  // namespace kinora::core
