// What a curate job reads: every film that its inputs lead to, with what the user says of it.
//
//   film.mp4, s3://bucket/film.mp4     one film
//   films/, s3://bucket/films/         a folder or prefix: its films, with `recursive` also those below; with
//                                      `all_files` whatever their endings
//   s3://bucket/films/**/*.mp4         a pattern (those of this machine are resolved with the run file)
//   films.txt                          a list: a path, URI, folder or pattern a line; "#" begins a comment
//   films.jsonl, films.csv             a manifest, see manifest_reader.hpp
//
// Paths in lists and manifests are relative to the file that they stand in.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/jobs/curation/known.hpp"
#include "plugins/jobs/curation/listing.hpp"

namespace kinora::core {

using nlohmann::json;

struct Input {
  std::string key;  // of its sample, see name_inputs()
  std::string url;  // path or URI
  std::optional<std::string> caption;
  json user = json::object();  // further columns of its manifest
  uint64_t size = 0;           // bytes, as its folder's listing says
  int64_t modified = 0;
  std::string error;  // why there is nothing to read: it ends as failed, with this
  std::string key_before;  // what the job's journal calls it
  // Of a film that cannot be looked at now, its identity in the job's journal, and whether all of it is done.
  std::string identity_before;
  bool done_before = false;

  // Equal as long as nothing says that the film or what the user says of it has changed. It begins with named().
  std::string identity() const;
  // The part that is not about the film's file.
  std::string named() const;
  // The file cannot be looked at now: a disk that is not there, a bucket that denies it. Nothing says that it has changed.
  bool is_unseen() const { return error.empty() && size == 0 && modified == 0; }
  // As its listing says: there is no byte in it.
  bool is_empty() const { return error.empty() && size == 0 && modified != 0; }
};

// In the order of the paths; in folders by name. What a list or manifest names and is not there stays an
// input, and so does a line that cannot be used: its error says which. Throws kinora::Error if a list,
// manifest, folder or prefix cannot be read at all, or the network fails; a folder below one is an input with
// an error. left_out: what was passed over, unless null.
// known: of the job's journal. Films keep the keys that they have there, whatever is added. What is done of films that
// cannot be looked at now, since a disk or folder is not there, empty or unreadable (unseen.hpp), stays: they are inputs too,
// in their old place, and what stands for their folder in vain is none. drop_unseen: they are not.
std::vector<Input> find_inputs(Io& io, const std::vector<std::string>& paths, Look look,
                               LeftOut* left_out = nullptr, const std::vector<KnownFilm>& known = {},
                               bool drop_unseen = false);

// Whether it is a list or a manifest by its ending.
bool is_listing(const std::string& path);

// The same without any request to a remote storage: what stands behind URIs counts as one input each.
std::vector<Input> glance_at_inputs(Io& io, const std::vector<std::string>& paths, Look look,
                                    LeftOut* left_out = nullptr);

// Gives every input a key: the one that its manifest says, these first, else its name without the ending; without dots
// (WebDataset: what follows the first dot is the field), slashes and control characters, told apart by a
// number where two are the same, and by "-film" from the clips of another. Names that manifests say come first, then those
// of before (key_before).
void name_inputs(const std::vector<Input*>& inputs);

// One number for all inputs in their order.
std::string identity_of(const std::vector<Input>& inputs);

}  // namespace kinora::core
