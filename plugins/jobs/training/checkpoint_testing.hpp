// A whole checkpoint in memory, saved as one process saves it.
#pragma once
#include <filesystem>
#include <utility>
#include <vector>

#include "plugins/jobs/training/checkpoint.hpp"

namespace kinora::test {

// Returns the checkpoint's folder below root.
inline std::filesystem::path save_checkpoint(const std::filesystem::path& root, const core::Checkpoint& c,
                                             uint64_t shard_size = core::kShardSize) {
  core::CheckpointFiles files{{"weights", {core::held(c.weights)}},
                              {"optimizer", {core::held(c.optimizer)}},
                              {"more", {core::held(c.more)}}};
  for (const auto& [decay, tensors] : c.ema) files["ema-" + decay] = {core::held(tensors)};
  core::NewCheckpoint made(root, c.state, core::checkpoint_files(std::move(files)), {}, shard_size);
  made.stream();
  return made.commit();
}

}  // namespace kinora::test
