// What a folder holds, for `kinora init`: videos, shards, a published model, or a run.
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
  // Of videos: how many were opened, and what those say. seconds: of all videos, by the bytes of the opened ones.
  int64_t opened = 0, unreadable = 0;
  double seconds = 0, shortest = 0, longest = 0;
  int64_t height = 0, width = 0;  // of the middle one by pixels

  // "23 videos, 1.2 GiB, about 48 minutes"
  std::string text() const;
};

// Opens at most 12 videos. Throws Error(KINORA_ERROR_NOT_FOUND) if the folder holds nothing of the kind.
FolderLook look_at(core::Runtime&, const std::filesystem::path& folder);

}  // namespace kinora
