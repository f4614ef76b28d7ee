// Which clips of a collection nobody wants to find: copies that dedup jobs leave out, and what people
// rejected.
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
  // Of what is both a person's word counts. Throws Error(KINORA_DATA) if edits.jsonl cannot be read.
  Standing of(const ClipRef&);

 private:
  struct Folder {
    std::set<std::string> copies, rejected;  // keys
  };
  std::map<std::filesystem::path, Folder> folders_;
};

// The rows that are wanted.
Embedded those(Embedded all, const std::function<bool(const ClipRef&)>& is_wanted);

}  // namespace kinora::core
