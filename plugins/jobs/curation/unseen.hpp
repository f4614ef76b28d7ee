// Finds the videos of a job's journal that are unavailable now, so that their results are kept.
//
// A video that is no longer an input may have been deleted, or its disk may be missing. It counts as deleted only if
// its folder exists, can be read and has contents; a mount point without its disk is empty.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plugins/jobs/curation/inputs.hpp"

namespace kinora::core {

// Why a video that is no longer an input is unavailable: "/disk/films is empty", "... is not there", "... cannot be read";
// empty if it is not. Each folder is checked once.
class Unseen {
 public:
  // found: inputs with an error may represent folders and patterns that yielded nothing. Borrowed.
  explicit Unseen(const std::vector<Input>& found);
  std::string because(const std::string& url);
  // The inputs that represent folders for which because() gave a reason.
  const std::set<const Input*>& in_vain() const { return in_vain_; }

 private:
  std::string of_folder(const std::string& folder);
  std::string of_this_machine(const std::string& url, const std::set<const Input*>& in_error);
  std::set<const Input*> stand_for(const std::string& url);
  std::vector<const Input*> in_error_, patterns_;
  std::map<std::string, std::string> folders_;             // why they cannot be used
  std::map<std::string, std::set<const Input*>> errors_;  // those of in_error_ that represent a folder
  std::set<const Input*> in_vain_;
};

struct Recalled {
  struct Film {
    Input input;
    std::optional<size_t> after;  // the input before it; none: it is the first
  };
  std::vector<Film> unseen;  // videos that are no longer inputs, in order
  std::vector<bool> in_vain;  // inputs that represent their folders
  std::map<std::string, int64_t> because;  // number of unavailable videos by reason, including named ones
  std::string first;                       // first unavailable video
};

// Adds the journal's knowledge to the inputs, and finds videos that only the journal knows.
Recalled recall(std::vector<Input>& inputs, const std::vector<KnownFilm>& known, bool drop_unseen);
// The inputs together with the recalled ones.
std::vector<Input> put_in(std::vector<Input> inputs, const Recalled&);

// "3 videos are unavailable now, /disk/a.mp4 the first; the results of them are kept (/disk is empty; ...)"
std::string unseen_line(const LeftOut&);

}  // namespace kinora::core
