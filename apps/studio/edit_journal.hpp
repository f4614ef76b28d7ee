// edits.jsonl of one job on disk (format: plugins/jobs/curation/edits.hpp). Any number of studios may append
// to it at the same time, one whole flushed line each.
#pragma once
#include <filesystem>
#include <functional>

#include "plugins/jobs/curation/edits.hpp"

namespace kinora::studio {

using core::Change;
using core::Edit;
using core::EditHistory;

// [owner-thread]
class EditJournal {
 public:
  // The file need not exist; the first edit creates it.
  EditJournal(std::filesystem::path file, std::string author, core::Footage clips = {});

  // Reads what other processes have written since; true if there was anything. A last line without a newline
  // is still being written, or its writer died: it is ignored.
  core::Result<bool> refresh();
  // Reads everything again after the clips have changed, since edits follow footage.
  core::Result<bool> reread();

  // Appends a change. Fields that already have that value are left out, and nothing is written if no field
  // remains. `own`: the clip's caption, keep and reason without any edit; `of`: its footage. Failure
  // KINORA_ERROR_IO: nothing was saved.
  core::Status change(const std::string& key, const Change& set, const Change& own,
                      const nlohmann::json& of = {});
  // Undoes the author's last edit that is not undone yet. `own` gives a clip's values without edits.
  // KINORA_ERROR_NOT_FOUND: there is no such edit. KINORA_ERROR_INVALID: another author has changed the same
  // field since.
  using Own = std::function<Change(const std::string& key)>;
  core::Result<std::string> undo(const Own& own);  // returns the key
  core::Result<std::string> redo();

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
  core::Status append(int file, Edit edit);

  std::filesystem::path path_;
  std::string author_, wrong_;
  core::Footage clips_;
  EditHistory history_;
  uint64_t read_ = 0;   // bytes of the file in history_
  uint64_t inode_ = 0;  // of that file
};

}  // namespace kinora::studio
