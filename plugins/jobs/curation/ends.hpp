// Whose ends are whose: which film each sample that a run told the end of was made of.
//
// A sample belongs to the film that its facts name, or to the film of the clip that they name. The end of
// such a clip is told after the ends of what was made of it, so until then they wait.
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
  Journal::Place place;  // of its entry
  bool made = false;     // by a stage: not an input
  bool failed = false;
  bool earlier = false;     // of a run before this one
  bool of_made = false;     // of what a stage had made: which of its film's it was, only its facts can say
  json files = {};          // those of a kept sample, by name with their sizes
  std::string parent = {};  // what its facts name
};

// [owner-thread]
class Ends {
 public:
  struct Film {
    std::string identity;      // Input::identity
    std::string content;       // SHA-256 of its bytes; empty: not known
    std::string duplicate_of;  // the input that it is a copy of
    bool ended = false;
    bool unseen = false;  // it ended since it could not be looked at
    std::vector<End> ends;  // of what was made of it, and its own
  };

  // Null: there is none.
  Film* film(const std::string& key);
  const Film* film(const std::string& key) const;
  std::unordered_map<std::string, Film>& films() { return films_; }
  // A film of another identity takes the place of what was known.
  Film& begin(const std::string& key, const std::string& identity);
  void forget(const std::string& key);

  // parent: what its facts name, empty if nothing. Throws kinora::Error if its film has ended already, unless it failed.
  void add(End end, const std::string& parent);
  // The film of a made sample, if that has ended already: it comes too late to be relied on. Else empty.
  std::string ended_before(const std::string& key, const std::string& parent) const;
  // Null: no end of a sample of this key is known, or it waits.
  const End* made(const std::string& key) const;
  // What names no film.
  const std::vector<End>& nameless() const { return nameless_; }

  // A run broke off here. Of films that have not ended, `all` or failed ends are void, with those of the clips
  // that these were made of; and so is what waits: the clip that it names had not ended, so its film had not.
  void break_off(bool all);
  // Films of which something failed are open again, as if a run had broken off over them. How many failed
  // ends that voids.
  size_t retry_failed(bool all);
  // The film is open again, as if a run had broken off over it.
  void open_again(const std::string& key, bool all);
  // No more ends will come: what still waits has no film.
  void stop_waiting();

 private:
  struct Made {
    std::string film;
    size_t at;  // among its ends
  };
  std::string owner(std::string name) const;
  bool names_nobody(const std::string& key, const std::string& parent, const std::string& whose) const;
  void put(const std::string& film, End end);
  void reopen(const std::string& key, Film& film, bool all);
  void index(const std::string& key);
  std::unordered_map<std::string, Film> films_;
  std::unordered_map<std::string, Made> made_;
  std::multimap<std::string, End> waiting_;  // by what they name
  std::vector<End> nameless_;
};

}  // namespace kinora::core
