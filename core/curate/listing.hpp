// The files of a folder or prefix on any storage.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/io.hpp"

namespace kinora::core {

struct FoundFile {
  std::string url;
  uint64_t size = 0;
  int64_t modified = 0;  // nanoseconds since 1970, as the storage says it
  std::string error;     // why a folder below cannot be listed; the url is the folder's
};

// What was passed over on purpose.
struct LeftOut {
  int64_t hidden = 0;  // files and folders that begin with a dot
  int64_t links = 0;   // to folders
};

bool is_remote(std::string_view url);

// Sorted by name, folder by folder; what begins with a dot is not there. recursive: also what is in folders
// below, but not behind links to folders, which may lead in circles; a folder below that cannot be listed
// stands there with its error. Adds to `out`. Throws kinora::Error if the folder itself cannot be listed.
std::vector<FoundFile> files_in(Io& io, const std::string& folder, bool recursive, LeftOut& out);

// Those that a pattern matches, on this machine or behind a URI, where an object of that very name goes
// first. Throws as files_in().
std::vector<FoundFile> files_matching(Io& io, const std::string& pattern, LeftOut& out);

// Those of these names that a remote folder directly holds. Throws kinora::Error if it cannot be listed.
std::vector<FoundFile> files_named(Io& io, const std::string& folder, const std::set<std::string>& names);

// Size and time of change of a file of this machine; zeros if it is not there or is remote.
FoundFile found_file(const std::string& url);

}  // namespace kinora::core
