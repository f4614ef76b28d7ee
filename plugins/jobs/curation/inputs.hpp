// Finds the inputs of a curate job: every video that its paths lead to, with the user's metadata.
//
//   video.mp4, s3://bucket/video.mp4   one video
//   videos/, s3://bucket/videos/       a folder or prefix: its videos, with `recursive` also of subfolders; with
//                                      `all_files` files of any ending, with `pictures` also pictures
//   s3://bucket/videos/**/*.mp4        a pattern (local ones are resolved with the run file)
//   videos.txt                         a list: one path, URI, folder or pattern per line; "#" begins a comment
//   videos.jsonl, videos.csv           a manifest, see manifest.hpp
//
// Paths in lists and manifests are relative to the file that contains them.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/io/io.hpp"

namespace kinora::core {

using nlohmann::json;
class InputRows;  // input_rows.hpp

// A file of a folder or prefix on any storage.
struct FoundFile {
  std::string url;
  uint64_t size = 0;
  int64_t modified = 0;  // nanoseconds since 1970, as the storage reports it
  std::string error;     // why a subfolder cannot be listed; the url is the folder's
};

// Which files of a folder to read.
struct Look {
  bool recursive = false;  // subfolders too, except behind links to folders
  bool all_files = false;  // also files whose ending is not a video's
  bool pictures = false;   // also JPEG, PNG and WebP files, by their endings
};

// Counts of files that were skipped on purpose or changed.
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
  std::vector<std::string> columns;  // messages about misspelt columns of manifests

  // Files without a video's ending, all endings together.
  int64_t not_videos() const;
  // The skipped files that `pictures` would take.
  int64_t pictures() const;
};

// "2 folders below are not read; recursive = true reads them"
std::string folders_below(int64_t count);

// The ending of a file name in lower case, with its dot; empty if the name has none.
std::string ending_of(std::string_view name);

// Whether the ending is known not to be a video's: lists and manifests, captions and subtitles, pictures,
// logs, unfinished downloads. An unknown ending may be a video's.
bool is_not_video(std::string_view name);

// Whether the ending is that of a picture which stage/picture.read reads.
bool is_picture_file(std::string_view name);

// Whether the url has a scheme other than file.
bool is_remote(std::string_view url);

// Whether an error at this place comes from the network or the device: then the contents are unknown, and
// what an earlier run found must not be treated as gone.
bool is_unanswered(const std::string& url, int32_t code);

using TakeFile = std::function<void(const FoundFile&)>;

// Gives files sorted by name, folder by folder. Skips names that begin with a dot, and does not follow links to
// folders, which may form cycles. A subfolder that cannot be listed is an entry with its error. Adds the
// skipped counts to `out`. Throws kinora::Error if the folder itself cannot be listed, or if the network
// fails below it, since the contents are unknown then.
void files_in(Io& io, const std::string& folder, Look look, LeftOut& out, const TakeFile& take);

// Files of any ending that match a pattern, on this machine or behind a URI, and an object with exactly the
// pattern as its name. Throws as files_in().
void files_matching(Io& io, const std::string& pattern, LeftOut& out, const TakeFile& take);

// Files that a remote folder directly contains, until `take` returns false. Throws kinora::Error if it cannot
// be listed.
void files_directly_in(Io& io, const std::string& folder, const std::function<bool(const FoundFile&)>& take);

// Size and modification time of a local file; zeros if it is missing or remote.
FoundFile found_file(const std::string& url);

// A video and what the user says about it.
struct Input {
  std::string key;     // of its sample, see name_inputs()
  std::string url;     // path or URI
  std::string wanted;  // the key that its manifest gives it; empty: none
  std::optional<std::string> caption;
  json user = json::object();  // other columns of its manifest
  uint64_t size = 0;           // bytes, from its folder's listing
  int64_t modified = 0;
  std::string error;       // why it cannot be read: it ends as failed with this reason
  std::string key_before;  // its key in the job's record
  int64_t recorded = 0;    // its row there; 0: none

  // Equal as long as nothing shows that the video or its metadata changed: the file's name, size and
  // modification time, its caption and other metadata. Begins with named().
  std::string identity() const;
  // The part that does not depend on the file's bytes: of a local file its name and not its folder.
  std::string named() const;
  // The file is unavailable now (a missing disk, a bucket that denies access), but nothing shows that it
  // changed.
  bool is_unseen() const { return error.empty() && size == 0 && modified == 0; }
  // Its listing says that it has no bytes.
  bool is_empty() const { return error.empty() && size == 0 && modified != 0; }
};

// The inputs in the order of the paths; in folders by name. An entry of a list or manifest that is missing or
// unusable stays an input whose `error` is the reason. Throws kinora::Error if a list, manifest, folder or
// prefix cannot be read at all, or the network fails; a subfolder that cannot be read is an input with an
// error. left_out: receives what was skipped, unless null. Their keys are empty.
std::unique_ptr<InputRows> find_inputs(Io& io, const std::vector<std::string>& paths, Look look,
                                       LeftOut* left_out = nullptr);

// Whether the ending is that of a list or a manifest.
bool is_listing(const std::string& path);

// The same without any request to a remote storage: each URI counts as one input.
std::unique_ptr<InputRows> glance_at_inputs(Io& io, const std::vector<std::string>& paths, Look look,
                                            LeftOut* left_out = nullptr);

// Gives every input a key: the one from its manifest, else its name without the ending. Dots (in WebDataset
// the field starts at the first dot), slashes and control characters are replaced; equal keys get a number,
// and a key that equals a clip of another video gets "-film". Manifest keys are assigned first, then earlier
// keys (key_before).
void name_inputs(InputRows& inputs);
// A line for each manifest whose keys had to change to be unique and valid.
std::vector<std::string> changed_keys(const InputRows& inputs, const LeftOut& left_out);

// One digest of all inputs in their order, whatever their keys are.
std::string identity_of(const InputRows& inputs);

}  // namespace kinora::core
