// What people changed of the clips of a curate job: lines of edits.jsonl in the job's folder. The studio
// appends them, one a change; shard and embed-text jobs, search and the studio read them.
//
//   {"key": "film-0003", "time": "2026-01-31T09:30:00.125Z", "author": "mia",
//    "of": {"sha256": "...", "first_frame": 120, "end_frame": 240},
//    "set": {"caption": "A boat at sea.", "keep": false, "reason": "watermark"}, "was": {"caption": "A
//    boat."}}
//
// Each line sets what its "set" has; of two about one field the later one counts, and null takes the field
// back to the clip's own, of "keep": to no decision. "time", "author" and members of other names may be
// missing or there. An undo is a line of its own: "undo": true, and in "set" what the fields were before: the
// clip's own caption and reason where nobody had changed them, null where nothing had been decided; so a
// reader that takes the last value of each field and knows nothing else is right. "was" tells people the
// earlier values that were edits too. A redo ("redo": true) sets again what its edit had set. An author's
// undo takes back their last edit that is not taken back yet. "of" says which footage the line is about, as
// far as the clip's facts do (subject_of): another curation may give the key to other footage, and then the
// line is about the clip that has its footage now, if there is one. A last line without its end was being
// written when its writer was killed: it does not count.
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
// What its line has in "set".
nlohmann::json set_of(const Edit&);
// What a user asks for. Throws Error(KINORA_INVALID), naming the member: one of another name or type, or a
// text that is too long.
Change change_of(const nlohmann::json&);

// The fields that both have, as `of` has them.
Change same_fields(const Change& of, const Change& fields);
// Over `base`, what `top` has.
Change overlaid(Change base, const Change& top);
// The fields of `fields` become what `from` has of them, nothing included.
void put_back(Change& now, const Change& fields, const Change& from);

enum class EditKind : uint8_t { edit, undo, redo };

struct Edit {
  std::string key, time, author;
  Change set, was;  // was: filled by EditHistory, not by parse_edit
  EditKind kind = EditKind::edit;
  Change cleared;          // the fields that null takes back; their values mean nothing
  nlohmann::json of = {};  // subject_of what it is about
};

// What the facts say of which film and which of its frames a sample is: its `sha256`, or its `url` where films were not
// hashed, `first_frame` and `end_frame`.
nlohmann::json subject_of(const nlohmann::json& facts);
// Whether both are about the same footage as far as both say.
bool is_same_subject(const nlohmann::json& a, const nlohmann::json& b);

// One line with its newline. / Or what is wrong with the line.
std::string line_of(const Edit&);
Result<Edit> parse_edit(std::string_view line);

}  // namespace kinora::core
