// Finds the inputs of a curate job: every video that its paths lead to, with the user's metadata.
//
//   film.mp4, s3://bucket/film.mp4     one video
//   films/, s3://bucket/films/         a folder or prefix: its videos, with `recursive` also of subfolders; with
//                                      `all_files` files of any ending
//   s3://bucket/films/**/*.mp4         a pattern (local ones are resolved with the run file)
//   films.txt                          a list: one path, URI, folder or pattern per line; "#" begins a comment
//   films.jsonl, films.csv             a manifest, see manifest_reader.hpp
//
// Paths in lists and manifests are relative to the file that contains them.
#pragma once
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/jobs/curation/listing.hpp"

namespace kinora::core {

using nlohmann::json;

struct Input {
  std::string key;     // of its sample, see name_inputs()
  std::string url;     // path or URI
  std::string wanted;  // the key that its manifest gives it; empty: none
  std::optional<std::string> caption;
  json user = json::object();  // other columns of its manifest
  uint64_t size = 0;           // bytes, from its folder's listing
  int64_t modified = 0;
  std::string error;  // why it cannot be read: it ends as failed with this reason
  std::string key_before;  // its key in the job's record

  // Equal as long as nothing shows that the video or its metadata changed. Begins with named().
  std::string identity() const;
  // The part that does not depend on the video's file.
  std::string named() const;
  // The file is unavailable now (a missing disk, a bucket that denies access), but nothing shows that it changed.
  bool is_unseen() const { return error.empty() && size == 0 && modified == 0; }
  // Its listing says that it has no bytes.
  bool is_empty() const { return error.empty() && size == 0 && modified != 0; }
};

// The inputs in the order of the paths; in folders by name. An entry of a list or manifest that is missing or unusable stays
// an input whose `error` is the reason. Throws kinora::Error if a list, manifest, folder or prefix cannot be read at all, or
// the network fails; a subfolder that cannot be read is an input with an error. left_out: receives what was skipped, unless
// null.
// Their keys are empty.
std::vector<Input> find_inputs(Io& io, const std::vector<std::string>& paths, Look look, LeftOut* left_out = nullptr);

// Whether the ending is that of a list or a manifest.
bool is_listing(const std::string& path);

// The same without any request to a remote storage: each URI counts as one input.
std::vector<Input> glance_at_inputs(Io& io, const std::vector<std::string>& paths, Look look,
                                    LeftOut* left_out = nullptr);

// Gives every input a key: the one from its manifest, else its name without the ending. Dots (in WebDataset the field
// starts at the first dot), slashes and control characters are replaced; equal keys get a number, and a key that equals a
// clip of another video gets "-film". Manifest keys are assigned first, then earlier keys (key_before). taken: keys that no input
// may have.
void name_inputs(std::vector<Input>& inputs, std::unordered_set<std::string> taken = {});
// A line for each manifest whose keys had to change to be unique and valid.
std::vector<std::string> changed_keys(const std::vector<Input>& inputs, const LeftOut& left_out);

// One digest of all inputs in their order, whatever their keys are.
std::string identity_of(const std::vector<Input>& inputs);

}  // namespace kinora::core
