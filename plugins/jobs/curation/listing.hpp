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
  int64_t modified = 0;  // nanoseconds since 1970, as the storage reports it
  std::string error;     // why a subfolder cannot be listed; the url is the folder's
};

// What to read of a folder.
struct Look {
  bool recursive = false;  // subfolders too, except behind links to folders
  bool all_files = false;  // also files whose ending is not a video's
};

// What was skipped on purpose, and what was changed.
struct LeftOut {
  int64_t hidden = 0;                      // files and folders whose names begin with a dot
  int64_t links = 0;                       // links to folders
  int64_t folders = 0;                     // subfolders of folders read without `recursive`
  std::map<std::string, int64_t> endings;  // files without a video's ending, by ending
  struct Rows {
    std::string file;
    size_t first, end;  // range of inputs
  };
  std::vector<Rows> manifests;
  std::vector<std::string> columns;        // for every manifest with misspelt columns, which ones and the likely names

  int64_t no_films() const;
};

// "2 folders below are not read; recursive = true reads them"
std::string folders_below(int64_t count);

// The ending of a file name in lower case, with its dot; empty if the name has none.
std::string ending_of(std::string_view name);

// Whether the ending is known not to be a video's: lists and manifests, captions and subtitles, pictures,
// logs, unfinished downloads. An unknown ending may be a video's.
bool is_no_film(std::string_view name);

bool is_remote(std::string_view url);

// Whether an error at this place comes from the network or the device: then the contents are unknown, and what an earlier
// run found must not be treated as gone.
bool is_unanswered(const std::string& url, int32_t code);

// Files sorted by name, folder by folder. Skips names that begin with a dot, and does not follow links to
// folders, which may form cycles. A subfolder that cannot be listed is an entry with its error. Adds the skipped
// counts to `out`. Throws kinora::Error if the folder itself cannot be listed, or if the network fails below it,
// since the contents are unknown then.
std::vector<FoundFile> files_in(Io& io, const std::string& folder, Look look, LeftOut& out);

// Files of any ending that match a pattern, on this machine or behind a URI; an object with exactly the
// pattern as its name comes first. Throws as files_in().
std::vector<FoundFile> files_matching(Io& io, const std::string& pattern, LeftOut& out);

// Which of these names a remote folder directly contains. Throws kinora::Error if it cannot be listed.
std::vector<FoundFile> files_named(Io& io, const std::string& folder, const std::set<std::string>& names);

// Size and modification time of a local file; zeros if it is missing or remote.
FoundFile found_file(const std::string& url);

}  // namespace kinora::core
