// Films of a job's journal that cannot be looked at now: what is done of them stays.
//
// A film that is no input any more may have been deleted, or its disk is not there. It counts as deleted only where its
// folder is there, can be read and holds something; a mount point without its disk is empty.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plugins/jobs/curation/inputs.hpp"

namespace kinora::core {

// What is in the way of a film that is no input now: "/disk/films is empty", "... is not there", "... cannot be read"; empty
// if nothing is. Folders are looked at once.
class Unseen {
 public:
  // found: those with an error may stand for folders and patterns that gave nothing. Borrowed.
  explicit Unseen(const std::vector<Input>& found);
  std::string because(const std::string& url);
  // Those that stand for what because() gave a reason for.
  const std::set<const Input*>& in_vain() const { return in_vain_; }

 private:
  std::string of_folder(const std::string& folder);
  std::string of_this_machine(const std::string& url, const std::set<const Input*>& in_error);
  std::set<const Input*> stand_for(const std::string& url);
  std::vector<const Input*> in_error_, patterns_;
  std::map<std::string, std::string> folders_;             // what is in the way of them
  std::map<std::string, std::set<const Input*>> errors_;  // of in_error_, those that stand for a folder
  std::set<const Input*> in_vain_;
};

struct Recalled {
  struct Film {
    Input input;
    std::optional<size_t> after;  // the input that it follows; none: it is the first
  };
  std::vector<Film> unseen;  // films that are no inputs, in their order
  std::vector<bool> in_vain;  // inputs that stand for their folders
  std::map<std::string, int64_t> because;  // how many films cannot be looked at, named ones too
  std::string first;                       // of these
};

// Tells the inputs what the journal knows of them, and finds those that it alone knows.
Recalled recall(std::vector<Input>& inputs, const std::vector<KnownFilm>& known, bool drop_unseen);
// The inputs with those that were recalled.
std::vector<Input> put_in(std::vector<Input> inputs, const Recalled&);

// "3 films cannot be looked at now, /disk/a.mp4 the first; what is done of them stays (/disk is empty; ...)"
std::string unseen_line(const LeftOut&);

}  // namespace kinora::core
