// edits.jsonl of one job on disk (format: plugins/jobs/curation/edits.hpp). Any number of studios may append
// to it at the same time, one whole flushed step each.
#pragma once
#include <filesystem>
#include <functional>

#include "plugins/jobs/curation/edits.hpp"

namespace kinora::studio {

using core::Change;
using core::Edit;
using core::EditHistory;

// One clip of a step. own: its values without any edit; of: its footage.
struct Target {
  std::string key;
  Change own;
  nlohmann::json of = {};
};

// A change that a person requests.
struct EditRequest {
  Change set;
  core::Tags tag = {}, untag = {};  // tags to add and to remove
  // Number of edits of the journal that the person has seen: a decision is not changed if another author made it
  // later. The same for a caption that is not `caption_seen` any more.
  size_t seen = SIZE_MAX;
  std::optional<std::string> caption_seen = {};
  std::string time = {};  // of the step; "": now
};

// The outcome of a step.
struct Saved {
  std::vector<std::string> keys;  // clips that it changed
  std::vector<Edit> conflicts;    // edits of other people, whose clips it left alone
};

// RFC 3339 in UTC, with milliseconds.
std::string time_now();

// The remedy for a file of a job's folder that cannot be written, by the system's error: "Free some space".
std::string remedy_of(int error);

// [owner-thread]
class EditJournal {
 public:
  // The file need not exist; the first edit creates it.
  EditJournal(std::filesystem::path file, std::string author, core::Footage clips = {});

  // Reads what other processes have written since; true if there was anything. A step whose end is missing
  // is still being written, or its writer died: it is ignored.
  core::Result<bool> refresh();
  // Reads everything again after the clips have changed, since edits follow footage.
  core::Result<bool> reread();

  // Appends a change of these clips as one step. Fields that already have that value are left out, and nothing
  // is written if no field remains. Failure KINORA_ERROR_IO: nothing was saved.
  core::Result<Saved> change(const std::vector<Target>& clips, const EditRequest& request);
  // Undoes the author's last step that is not undone yet, apart from clips whose fields another author has
  // changed since. `own` gives a clip's values without edits. KINORA_ERROR_NOT_FOUND: there is no such step.
  // KINORA_ERROR_INVALID: another author has changed all of its clips.
  using Own = std::function<Change(const std::string& key)>;
  core::Result<Saved> undo(const Own& own);
  core::Result<Saved> redo();

  // Why an edit cannot be saved now, with what to do; "" if permissions allow it.
  std::string refusal() const;
  const EditHistory& history() const { return history_; }
  const std::string& author() const { return author_; }
  // Message about the first line that cannot be read, because of which a shard job will fail; "" if there is
  // none.
  const std::string& wrong() const { return wrong_; }

 private:
  class Locked;
  void forget();
  core::Status read_new(int file);
  core::Status read_all(int file);
  const Edit* later_edit(const std::string& key, const Change& fields, size_t seen) const;
  const Edit* conflict(const std::string& key, const Change& set, const Change& now,
                       const EditRequest&) const;
  core::Status append(int file, std::vector<Edit> step, const std::string& time);
  core::Result<Saved> append_step(int file, std::vector<Edit> step, std::vector<Edit> conflicts,
                                  const std::string& time);
  core::Result<Saved> append_back(int file, const char* word, std::vector<Edit> step,
                                  std::vector<Edit> conflicts);
  const Edit& changed_since(const Edit& mine) const;

  std::filesystem::path path_;
  std::string author_, wrong_;
  core::Footage clips_;
  EditHistory history_;
  uint64_t read_ = 0;   // bytes of the file in history_
  uint64_t inode_ = 0;  // of that file
};

}  // namespace kinora::studio
