// Maps each finished sample to its source video.
//
// A sample belongs to the video that its facts name, or to the video of the clip that they name. The outcome
// of such a clip comes after the outcomes of the samples made from it, so these wait until then.
#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/jobs/curation/journal.hpp"

namespace kinora::core {

struct End {
  std::string key;
  Journal::Place place;  // of its journal entry
  bool made = false;     // made by a stage: not an input
  bool failed = false;
  bool earlier = false;     // from an earlier run
  bool of_made = false;     // made from a sample that a stage had made; only its facts can name that one
  json files = {};          // files of a kept sample, by name with their sizes
  std::string parent = {};  // source that its facts name
};

// [owner-thread]
class Ends {
 public:
  struct Film {
    std::string identity;      // Input::identity
    std::string content;       // SHA-256 of its bytes; empty: unknown
    std::string duplicate_of;  // key of the input that it is a copy of
    bool ended = false;
    bool unseen = false;  // it ended because it was unavailable
    std::vector<End> ends;  // of the samples made from it, and its own
  };

  // Null: there is none.
  Film* film(const std::string& key);
  const Film* film(const std::string& key) const;
  std::unordered_map<std::string, Film>& films() { return films_; }
  // A video with another identity replaces what was known.
  Film& begin(const std::string& key, const std::string& identity);
  void forget(const std::string& key);

  // parent: the source that its facts name, empty if none. Throws kinora::Error if its video has ended already, unless
  // it failed.
  void add(End end, const std::string& parent);
  // The key of a made sample's video if that has ended already: the sample comes too late to be relied on.
  // Else empty.
  std::string ended_before(const std::string& key, const std::string& parent) const;
  // Null: the outcome of a sample with this key is unknown, or waits.
  const End* made(const std::string& key) const;
  // Outcomes that name no video.
  const std::vector<End>& nameless() const { return nameless_; }

  // Marks the point where a run was interrupted. For videos that have not ended, the failures (with `all`: all
  // outcomes) are void, with those of the clips they were made from. So are waiting outcomes: the clip they
  // name had not ended, so its video had not.
  void break_off(bool all);
  // Reopens videos of which something failed, as if a run had been interrupted over them. Returns how many
  // failures that voids.
  size_t retry_failed(bool all);
  // Reopens the video, as if a run had been interrupted over it.
  void open_again(const std::string& key, bool all);
  // No more outcomes will come: those that still wait have no video.
  void stop_waiting();

 private:
  struct Made {
    std::string film;
    size_t at;  // index into its ends
  };
  std::string owner(std::string name) const;
  bool names_nobody(const std::string& key, const std::string& parent, const std::string& whose) const;
  void put(const std::string& film, End end);
  void reopen(const std::string& key, Film& film, bool all);
  void index(const std::string& key);
  std::unordered_map<std::string, Film> films_;
  std::unordered_map<std::string, Made> made_;
  std::multimap<std::string, End> waiting_;  // by the source that they name
  std::vector<End> nameless_;
};

}  // namespace kinora::core
