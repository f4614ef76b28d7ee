// Applies the lines of edits.jsonl in order and keeps the resulting state of each clip and each author.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <vector>

#include "plugins/jobs/curation/edits.hpp"

namespace kinora::core {

// The current edits of a clip; a field that was never changed, or whose change was undone, has no value.
struct Edited : Change {
  std::string author;  // of the caption
};

// The clips that edits can refer to.
struct Footage {
  // Footage of the clip with this key (subject_of), null if there is none.
  std::function<nlohmann::json(const std::string& key)> of_key = {};
  // The keys of all clips by text_of_subject, empty where several have the same footage, since the edit's clip is
  // then unknown. Called once, if an edit's key has other footage than the edit.
  std::function<std::map<std::string, std::string>()> keys = {};
};

// The subject as a map key; empty if it does not name its video.
std::string text_of_subject(const nlohmann::json& subject);

class EditHistory {
 public:
  using Subject = decltype(Footage::of_key);
  EditHistory() = default;
  explicit EditHistory(Footage clips) : clips_(std::move(clips)) {}

  void add(Edit);
  // Applies every complete line of `text` and returns how many bytes they were. Reports a line that cannot be
  // read to `wrong` with its line number. A line about other footage than its key's clip goes to the clip with
  // that footage, under that clip's key; if there is none, the line is only stored.
  using Wrong = std::function<void(size_t line, const std::string& why)>;
  size_t add_lines(std::string_view text, const Wrong& wrong);

  Edited now(const std::string& key) const;
  // Every edited clip, by key.
  const std::map<std::string, Edited>& edited() const { return now_; }
  std::vector<const Edit*> of(const std::string& key) const;
  const std::vector<Edit>& all() const { return all_; }
  // Edits of footage that no clip has.
  const std::vector<Edit>& of_others() const { return of_others_; }
  // The edit that the author's next undo reverts, and the one that redo restores; null: none.
  const Edit* undoable(const std::string& author) const;
  const Edit* redoable(const std::string& author) const;

 private:
  struct Steps {
    std::vector<size_t> done, undone;  // places in all_
  };
  const Steps* steps_of(const std::string& author) const;
  void step(const Edit&, size_t place, Edited& now);
  bool find_clip(Edit&);

  std::vector<Edit> all_;
  std::vector<std::string> authors_before_;  // of the caption, one per edit
  std::map<std::string, Edited> now_;
  std::map<std::string, std::vector<size_t>> of_key_;
  std::map<std::string, Steps> steps_;
  size_t lines_ = 0;
  std::vector<Edit> of_others_;
  Footage clips_;
  std::map<std::string, nlohmann::json> subjects_;
  std::optional<std::map<std::string, std::string>> keys_;
};

constexpr const char* kEditsFile = "edits.jsonl";

// Empty if there is no such file. Throws Error(KINORA_DATA) with the line that cannot be read and the reason,
// or KINORA_IO.
EditHistory read_edits(const std::filesystem::path& file, Footage clips = {});

// The clips that the job in `folder` has kept.
Footage kept_in(const std::filesystem::path& folder);

}  // namespace kinora::core
