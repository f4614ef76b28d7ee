// The lines of edits.jsonl in their order, and where that leaves each clip and each author.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <vector>

#include "plugins/jobs/curation/edits.hpp"

namespace kinora::core {

// What is edited of a clip by now; a field that nobody changed, or whose change was undone, has no value.
struct Edited : Change {
  std::string author;  // of the caption
};

// The clips that edits can be about.
struct Footage {
  // What has the key now (subject_of), null if nothing has.
  std::function<nlohmann::json(const std::string& key)> of_key = {};
  // The keys of all of them by text_of_subject, empty where several have the same footage: nobody knows which of them
  // an edit is about. Asked once, if an edit's key has other footage than the edit.
  std::function<std::map<std::string, std::string>()> keys = {};
};

// As a key of a map; empty if it does not say which film's.
std::string text_of_subject(const nlohmann::json& subject);

class EditHistory {
 public:
  using Subject = decltype(Footage::of_key);
  EditHistory() = default;
  explicit EditHistory(Footage clips) : clips_(std::move(clips)) {}

  void add(Edit);
  // Takes in every line of `text` that has its end, and returns how many bytes that was; a line that cannot
  // be read is told to `wrong`, by its number in the file. A line about other footage than its key's goes to the
  // clip that has it, under that clip's key; without such a clip it is only put by.
  using Wrong = std::function<void(size_t line, const std::string& why)>;
  size_t add_lines(std::string_view text, const Wrong& wrong);

  Edited now(const std::string& key) const;
  // Every clip of which something is edited, by key.
  const std::map<std::string, Edited>& edited() const { return now_; }
  std::vector<const Edit*> of(const std::string& key) const;
  const std::vector<Edit>& all() const { return all_; }
  // Edits of footage that no clip has.
  const std::vector<Edit>& of_others() const { return of_others_; }
  // The edit that the author's next undo takes back, and the one that redo brings back; null: none.
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
  std::vector<std::string> authors_before_;  // of the caption, one an edit
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

// Empty if there is no such file. Throws Error(KINORA_DATA) that names the line that cannot be read and why,
// KINORA_IO.
EditHistory read_edits(const std::filesystem::path& file, Footage clips = {});

// The clips that the job in `folder` has kept.
Footage kept_in(const std::filesystem::path& folder);

}  // namespace kinora::core
