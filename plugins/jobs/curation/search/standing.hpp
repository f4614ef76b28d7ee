// Finds the clips of a collection that a search should hide: copies that dedup jobs leave out, and clips that
// people rejected.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "plugins/jobs/curation/search/collection.hpp"

namespace kinora::core {

enum class Standing : uint8_t { used, copy, rejected };

// [owner-thread]
class Standings {
 public:
  // For a clip that is both, the person's decision counts. Throws Error(KINORA_DATA) if edits.jsonl cannot be
  // read.
  Standing of(const ClipRef&);

 private:
  struct Folder {
    std::set<std::string> copies, rejected;  // keys
  };
  std::map<std::filesystem::path, Folder> folders_;
};

// The rows of the clips for which `is_wanted` holds.
Embedded those(Embedded all, const std::function<bool(const ClipRef&)>& is_wanted);

}  // namespace kinora::core
