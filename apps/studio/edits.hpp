// What users changed of clips: lines of edits.jsonl, and what they come to.
//
//   {"key": "film-0003", "time": "2026-01-31T09:30:00.125Z", "author": "mia",
//    "of": {"sha256": "...", "first_frame": 120, "end_frame": 240},
//    "set": {"caption": "...", "keep": false, "reason": "shaky"}, "was": {...}}
//
// The last value of a field wins. An undo is a line of its own: "undo": true, and in "set" what the fields
// were before, the clip's own caption and outcome where nobody had changed them; so a reader that takes the
// last value of each field and knows nothing else is right. "was" has the earlier values that were edits too;
// a field that is not in it had not been changed. A redo ("redo": true) sets again what its edit had set.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::studio {

struct Change {
  std::optional<std::string> caption, reason;
  std::optional<bool> keep;

  bool empty() const { return !caption && !reason && !keep; }
  bool operator==(const Change&) const = default;
};

nlohmann::json json_of(const Change&);
// Throws Error KINORA_INVALID, naming the member: one of another name or type, or a text that is too long.
Change change_of(const nlohmann::json&);

// The fields that both have, as `of` has them.
Change same_fields(const Change& of, const Change& fields);
// Over `base`, what `top` has.
Change overlaid(Change base, const Change& top);

enum class EditKind : uint8_t { edit, undo, redo };

struct Edit {
  std::string key, time, author;
  Change set, was;
  EditKind kind = EditKind::edit;
  nlohmann::json of = {};  // which footage it is about: core::subject_of()
};

// One line with its newline. / Nothing if the line is none of these.
std::string line_of(const Edit&);
std::optional<Edit> parse_edit(std::string_view line);

// The lines in their order, and where that leaves each clip and each author.
class EditHistory {
 public:
  void add(Edit);
  // The values that are edits now; a field that nobody changed, or whose change was undone, has none.
  Change now(const std::string& key) const;
  std::vector<const Edit*> of(const std::string& key) const;
  const std::vector<Edit>& all() const { return all_; }
  // The edit that the author's next undo takes back, and the one that redo brings back; null: none.
  const Edit* undoable(const std::string& author) const;
  const Edit* redoable(const std::string& author) const;

 private:
  struct Steps {
    std::vector<size_t> done, undone;  // places in all_
  };
  const Steps* steps_of(const std::string& author) const;

  std::vector<Edit> all_;
  std::map<std::string, Change> now_;
  std::map<std::string, std::vector<size_t>> of_key_;
  std::map<std::string, Steps> steps_;
};

}  // namespace kinora::studio
