// The files of a folder or prefix on any storage.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/io.hpp"

namespace kinora::core {

struct FoundFile {
  std::string url;
  uint64_t size = 0;
  int64_t modified = 0;  // nanoseconds since 1970, as the storage says it
  std::string error;     // why a folder below cannot be listed; the url is the folder's
};

// What a folder gives.
struct Look {
  bool recursive = false;  // also what is in folders below, but not behind links to folders
  bool all_files = false;  // also files that are no films by their endings
};

// What was passed over on purpose, and what was changed.
struct LeftOut {
  int64_t hidden = 0;                      // files and folders that begin with a dot
  int64_t links = 0;                       // to folders
  int64_t folders = 0;                     // below one whose own files alone are wanted
  std::map<std::string, int64_t> endings;  // files that are no films, by their endings
  std::vector<std::string> renamed;        // of every manifest whose keys had to change, what that was

  std::vector<std::string> columns;        // of every manifest that seem misspelt, which and what may be meant

  // Films of earlier runs that cannot be looked at now, by what is in the way; the first of them, and whether folders alone
  // would name one.
  std::map<std::string, int64_t> unseen;
  std::string first_unseen;
  bool is_any_unnamed = false;

  int64_t no_films() const;
};

// "2 folders below are not read; recursive = true reads them"
std::string folders_below(int64_t count);

// Of a file, in lower case, with its dot; empty if the name has none.
std::string ending_of(std::string_view name);

// Whether the ending says so: lists and manifests, captions and subtitles, pictures, logs, downloads that have
// not ended. What nobody knows may be a film.
bool is_no_film(std::string_view name);

bool is_remote(std::string_view url);

// Whether an error at this place is the network's or the device's: then nobody knows what is there, and what an earlier run
// found is not to be taken for gone.
bool is_unanswered(const std::string& url, int32_t code);

// Sorted by name, folder by folder; what begins with a dot is not there, and neither is what lies behind links to
// folders, which may lead in circles. A folder below that cannot be listed stands there with its error. Adds to
// `out`. Throws kinora::Error if the folder itself cannot be listed, or the network fails below it: that says
// nothing about what is there.
std::vector<FoundFile> files_in(Io& io, const std::string& folder, Look look, LeftOut& out);

// Those that a pattern matches, on this machine or behind a URI, where an object of that very name goes
// first; whatever their endings. Throws as files_in().
std::vector<FoundFile> files_matching(Io& io, const std::string& pattern, LeftOut& out);

// Those of these names that a remote folder directly holds. Throws kinora::Error if it cannot be listed.
std::vector<FoundFile> files_named(Io& io, const std::string& folder, const std::set<std::string>& names);

// Size and time of change of a file of this machine; zeros if it is not there or is remote.
FoundFile found_file(const std::string& url);

}  // namespace kinora::core
