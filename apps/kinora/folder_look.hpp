// Finds out for `kinora init` what a folder holds: videos, shards, a published model, or a run.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/runtime/runtime.hpp"

namespace kinora {

struct FolderLook {
  enum class Holds { videos, shards, model, run };
  Holds holds = Holds::videos;
  std::filesystem::path folder;  // of a run: that of its shards
  int64_t files = 0;             // videos, or shards
  uint64_t bytes = 0;            // of them
  // How many videos were opened, and their facts. seconds: of all videos, by the bytes of the opened ones.
  int64_t opened = 0, unreadable = 0;
  double seconds = 0;
  double megapixel_seconds = 0;     // the same of seconds times millions of pixels of a frame
  int64_t height = 0, width = 0;    // of the middle one by pixels
  double slowest = 0, fastest = 0;  // frames per second of those opened, of shards of the first clips
  std::string caption = {};         // of shards: the most frequent one of the first clips; may be empty

  // "23 videos, 1.2 GiB, 48 minutes"
  std::string text() const;
  bool has_many_rates() const { return fastest > 1.01 * slowest; }  // 29.97 is 30
};

// Opens each of up to 200 videos, or 12 of more. Throws Error(KINORA_ERROR_INVALID) if there is no such folder, and
// Error(KINORA_ERROR_NOT_FOUND) if the folder holds nothing of the kind.
FolderLook look_at(core::Runtime&, const std::filesystem::path& folder);

}  // namespace kinora
