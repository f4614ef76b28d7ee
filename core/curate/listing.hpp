// The files of a folder or prefix on any storage.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/io.hpp"

namespace kinora::core {

struct FoundFile {
  std::string url;
  uint64_t size = 0;
  int64_t modified = 0;  // nanoseconds since 1970, as the storage says it
};

bool is_remote(std::string_view url);

// Sorted by name, folder by folder; what begins with a dot is not there. recursive: also what is in folders below, but not
// behind links to folders, which may lead in circles. Throws kinora::Error if the folder cannot be listed.
std::vector<FoundFile> files_in(Io& io, const std::string& folder, bool recursive);

// Those that a pattern matches, on this machine or behind a URI. Throws as files_in().
std::vector<FoundFile> files_matching(Io& io, const std::string& pattern);

// Size and time of change of a file of this machine; zeros if it is not there or is remote.
FoundFile found_file(const std::string& url);

}  // namespace kinora::core
