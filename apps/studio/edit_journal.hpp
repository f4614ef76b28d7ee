// edits.jsonl of one job on disk (plugins/jobs/curation/edits.hpp has its format): appended to by any number of studios
// at once, one whole flushed line at a time.
#pragma once
#include <filesystem>
#include <functional>

#include "plugins/jobs/curation/edit_history.hpp"

namespace kinora::studio {

using core::Change;
using core::Edit;
using core::EditHistory;

// [owner-thread]
class EditJournal {
 public:
  // The file need not be there; the first edit makes it.
  EditJournal(std::filesystem::path file, std::string author, core::Footage clips = {});

  // Takes in what others have written since; whether there was anything. A last line without its end is not
  // there yet, or its writer died: it is left out.
  core::Result<bool> refresh();
  // The clips are others now: what was read is read anew, since edits follow footage.
  core::Result<bool> reread();

  // Appends a change; fields that have that value already are left out, and nothing is written if none is
  // left. `own`: the clip's caption, keep and reason without any edit; `of`: its footage. Failure KINORA_IO:
  // nothing was saved.
  core::Status change(const std::string& key, const Change& set, const Change& own,
                      const nlohmann::json& of = {});
  // Takes back the author's last edit that is not taken back yet. `own` gives a clip's values without edits.
  // KINORA_NOT_FOUND: there is none. KINORA_INVALID: another author has changed the same field since.
  using Own = std::function<Change(const std::string& key)>;
  core::Result<std::string> undo(const Own& own);  // the key
  core::Result<std::string> redo();

  // Why an edit could not be saved now, with what to do; "": it could, as far as rights say.
  std::string refusal() const;
  const EditHistory& history() const { return history_; }
  const std::string& author() const { return author_; }
  // Of the first line that cannot be read, which a shard job will refuse; "": all can.
  const std::string& wrong() const { return wrong_; }

 private:
  class Locked;
  void forget();
  core::Status read_new(int file);
  core::Status read_all(int file);
  core::Status append(int file, Edit edit);

  std::filesystem::path path_;
  std::string author_, wrong_;
  core::Footage clips_;
  EditHistory history_;
  uint64_t read_ = 0;   // bytes that are in history_
  uint64_t inode_ = 0;  // of the file they are from
};

}  // namespace kinora::studio
