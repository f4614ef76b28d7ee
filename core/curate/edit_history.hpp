// The lines of edits.jsonl in their order, and where that leaves each clip and each author.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <vector>

#include "core/curate/edits.hpp"

namespace kinora::core {

// What is edited of a clip by now; a field that nobody changed, or whose change was undone, has no value.
struct Edited : Change {
  std::string author;  // of the caption
};

class EditHistory {
 public:
  // subject: of what has the key now, null if nothing has.
  using Subject = std::function<nlohmann::json(const std::string& key)>;
  EditHistory() = default;
  explicit EditHistory(Subject subject) : subject_(std::move(subject)) {}

  void add(Edit);
  // Takes in every line of `text` that has its end, and returns how many bytes that was; a line that cannot
  // be read is told to `wrong`, by its number in the file. A line about other footage than its key's is only
  // counted.
  using Wrong = std::function<void(size_t line, const std::string& why)>;
  size_t add_lines(std::string_view text, const Wrong& wrong);

  Edited now(const std::string& key) const;
  // Every clip of which something is edited, by key.
  const std::map<std::string, Edited>& edited() const { return now_; }
  std::vector<const Edit*> of(const std::string& key) const;
  const std::vector<Edit>& all() const { return all_; }
  int64_t of_others() const { return of_others_; }
  // The edit that the author's next undo takes back, and the one that redo brings back; null: none.
  const Edit* undoable(const std::string& author) const;
  const Edit* redoable(const std::string& author) const;

 private:
  struct Steps {
    std::vector<size_t> done, undone;  // places in all_
  };
  const Steps* steps_of(const std::string& author) const;
  void step(const Edit&, size_t place, Edited& now);
  bool fits(const Edit&);

  std::vector<Edit> all_;
  std::vector<std::string> authors_before_;  // of the caption, one an edit
  std::map<std::string, Edited> now_;
  std::map<std::string, std::vector<size_t>> of_key_;
  std::map<std::string, Steps> steps_;
  size_t lines_ = 0;
  int64_t of_others_ = 0;
  Subject subject_;
  std::map<std::string, nlohmann::json> subjects_;
};

constexpr const char* kEditsFile = "edits.jsonl";

// Empty if there is no such file. Throws Error(KINORA_DATA) that names the line that cannot be read and why,
// KINORA_IO.
EditHistory read_edits(const std::filesystem::path& file, EditHistory::Subject subject = {});

// What the clips are that the job in `folder` has kept.
EditHistory::Subject kept_in(const std::filesystem::path& folder);

}  // namespace kinora::core
