// A whole checkpoint in memory, saved as one process saves it.
#pragma once
#include <filesystem>
#include <utility>
#include <vector>

#include "core/torch/weights/checkpoint.hpp"

namespace kinora::test {

// Returns the checkpoint's folder below root.
inline std::filesystem::path save_checkpoint(const std::filesystem::path& root, const core::Checkpoint& c,
                                             uint64_t shard_size = core::kShardSize) {
  std::vector<core::TensorFile> files{core::checkpoint_file("weights", core::held(c.weights)),
                                      core::checkpoint_file("optimizer", core::held(c.optimizer)),
                                      core::checkpoint_file("more", core::held(c.more))};
  for (const auto& [decay, tensors] : c.ema)
    files.push_back(core::checkpoint_file("ema-" + decay, core::held(tensors)));
  core::NewCheckpoint made(root, c.state, std::move(files), {}, shard_size);
  made.stream();
  return made.commit();
}

}  // namespace kinora::test
