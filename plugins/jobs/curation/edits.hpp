// The changes that people made to clips of a curate job: lines of edits.jsonl in the job's folder. The studio
// appends one line per change; shard and embed-text jobs, search and the studio read them.
//
//   {"key": "film-0003", "time": "2026-01-31T09:30:00.125Z", "author": "mia",
//    "of": {"sha256": "...", "first_frame": 120, "end_frame": 240},
//    "set": {"caption": "A boat at sea.", "keep": false, "reason": "watermark"}, "was": {"caption": "A
//    boat."}}
//
// Each line sets the fields of its "set". Of two lines about one field the later one counts. null resets the
// field to the clip's own value, and "keep" to no decision. "time", "author" and unknown members are
// optional. An undo is a line of its own: "undo": true, and in "set" the earlier values of the fields: the
// clip's own caption and reason if no one had changed them, null if nothing was decided. So a reader that
// only takes the last value of each field is right. "was" shows people the earlier values that were edits
// too. A redo ("redo": true) sets again what its edit had set. An author's undo reverts their last edit that
// is not reverted yet. "of" identifies the footage of the line as far as the clip's facts do (subject_of):
// another curation may give the key to other footage, and the line then applies to the clip that has its
// footage now, if there is one. A last line without a newline is ignored: its writer was killed.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/base/status.hpp"

namespace kinora::core {

struct Change {
  std::optional<std::string> caption, reason;
  std::optional<bool> keep;

  bool empty() const { return !caption && !reason && !keep; }
  bool operator==(const Change&) const = default;
};

nlohmann::json json_of(const Change&);
struct Edit;
// The "set" object of the edit's line.
nlohmann::json set_of(const Edit&);
// The change that a user requests. Throws Error(KINORA_INVALID), naming the member, if one has an unknown
// name or wrong type or its text is too long.
Change change_of(const nlohmann::json&);

// The fields set in both, with the values of `of`.
Change same_fields(const Change& of, const Change& fields);
// `base` overridden by the fields that `top` sets.
Change overlaid(Change base, const Change& top);
// Sets each field of `fields` in `now` to its value in `from`, also if that has none.
void put_back(Change& now, const Change& fields, const Change& from);

enum class EditKind : uint8_t { edit, undo, redo };

struct Edit {
  std::string key, time, author;
  Change set, was;  // was: filled by EditHistory, not by parse_edit
  EditKind kind = EditKind::edit;
  Change cleared;          // fields that null resets; their values have no meaning
  nlohmann::json of = {};  // subject_of the clip that the edit is about
};

// The facts that identify a sample's video and frames: `sha256`, or `url` if videos were not hashed, and `first_frame`
// and `end_frame`.
nlohmann::json subject_of(const nlohmann::json& facts);
// Whether both are about the same footage, as far as both say.
bool is_same_subject(const nlohmann::json& a, const nlohmann::json& b);

// One line with its newline. / Or what is wrong with the line.
std::string line_of(const Edit&);
Result<Edit> parse_edit(std::string_view line);

}  // namespace kinora::core
