// The changes that people made to clips of a curate job: lines of edits.jsonl in the job's folder. The studio
// appends one line per change; shard and embed-text jobs, search and the studio read them.
//
//   {"key": "video-0003", "time": "2026-01-31T09:30:00.125Z", "author": "mia",
//    "of": {"sha256": "...", "first_frame": 120, "end_frame": 240},
//    "set": {"caption": "A boat at sea.", "keep": false, "reason": "watermark", "tags": ["sea"]}, "was":
//    {"caption": "A boat."}}
//
// Each line sets the fields of its "set": also "trim": [12, 80], frames of the stored clip, from 0: shards contain the
// first and those before the second. The later of two lines about one field counts. null resets the
// field to the clip's own value, and "keep" to no decision. "time", "author" and unknown members are
// optional. An undo is a line of its own: "undo": true, and in "set" the earlier values of the fields: the
// clip's own caption and reason if no one had changed them, null if nothing was decided. So a reader that
// only takes the last value of each field is right. "was" shows people the earlier values that were edits
// too. A redo ("redo": true) sets again what its edit had set. An author's undo reverts their last edit that
// is not reverted yet. "of" identifies the footage of the line as far as the clip's facts do (subject_of):
// another curation may give the key to other footage, and the line then applies to the clip that has its
// footage now, if there is one. A last line without a newline is ignored: its writer was killed.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/status.hpp"

namespace kinora::core {

struct JobSpec;
struct RunFile;

using Tags = std::vector<std::string>;

// Frames [first, end) of a stored clip.
struct Trim {
  int64_t first = 0, end = 0;
  bool operator==(const Trim&) const = default;
};
void to_json(nlohmann::json&, const Trim&);  // [first, end]

struct Change {
  std::optional<std::string> caption, reason;
  std::optional<bool> keep;
  std::optional<Tags> tags = {};
  std::optional<Trim> trim = {};

  bool empty() const { return *this == Change(); }
  bool operator==(const Change&) const = default;
};

nlohmann::json json_of(const Change&);
struct Edit;
// The "set" object of the edit's line.
nlohmann::json set_of(const Edit&);
// The change that a user requests. Throws Error(KINORA_ERROR_INVALID), naming the member, if one has an
// unknown name or wrong type or its text is too long.
Change change_of(const nlohmann::json&);
// The text without blanks and newlines at its ends.
std::string trimmed(const std::string& text);
// A list of tags without blanks at their ends, each once. Throws Error(KINORA_ERROR_INVALID), naming `what`, if it
// is not a list of texts, or one is empty or too long.
Tags tags_of(const nlohmann::json&, const std::string& what);
// The tags of a fact "tags", a list of texts; empty if it is not one.
Tags tags_in(const nlohmann::json& facts);

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
  bool more = false;       // the next line belongs to the same step
};

// The facts that identify a sample's video and frames: `sha256`, or `url` if videos were not hashed, and
// `first_frame` and `end_frame`.
nlohmann::json subject_of(const nlohmann::json& facts);
// Whether both are about the same footage, as far as both say.
bool is_same_subject(const nlohmann::json& a, const nlohmann::json& b);

// One line with its newline.
std::string line_of(const Edit&);
// Or what is wrong with the line.
Result<Edit> parse_edit(std::string_view line);

// The current edits of a clip; a field that was never changed, or whose change was undone, has no value.
struct Edited : Change {
  std::string author;  // of the caption
};

// The clips that edits can refer to.
struct Footage {
  // Footage of the clip with this key (subject_of), null if there is none.
  std::function<nlohmann::json(const std::string& key)> of_key = {};
  // The keys of all clips by text_of_subject, empty where several have the same footage, since the edit's
  // clip is then unknown. Called once, if an edit's key has other footage than the edit.
  std::function<std::map<std::string, std::string>()> keys = {};
};

// The subject as a map key; empty if it does not name its video.
std::string text_of_subject(const nlohmann::json& subject);

// Applies the lines of edits.jsonl in order and keeps the resulting state of each clip and each author.
// Pointers to edits are valid until the next edit is added.
class EditHistory {
 public:
  using Subject = decltype(Footage::of_key);
  EditHistory() = default;
  explicit EditHistory(Footage clips) : clips_(std::move(clips)) {}

  // Applies the lines of one step, which follow the earlier ones and are under the keys of their clips.
  void add(std::vector<Edit> step);
  void add(Edit edit) { add(std::vector<Edit>{std::move(edit)}); }
  // Applies every complete step of `text` and returns how many bytes they were. Reports a line that cannot be
  // read to `wrong` with its line number. A line about other footage than its key's clip goes to the clip
  // with that footage, under that clip's key; if there is none, the line is only stored.
  using Wrong = std::function<void(size_t line, const std::string& why)>;
  size_t add_lines(std::string_view text, const Wrong& wrong);

  Edited now(const std::string& key) const;
  // Every edited clip, by key.
  const std::map<std::string, Edited>& edited() const { return now_; }
  std::vector<const Edit*> of(const std::string& key) const;
  const std::vector<Edit>& all() const { return all_; }
  // Edits of footage that no clip has.
  const std::vector<Edit>& of_others() const { return of_others_; }
  // The edits of the step that the author's next undo reverts, and of the one that redo restores; empty: none.
  std::vector<const Edit*> undoable(const std::string& author) const;
  std::vector<const Edit*> redoable(const std::string& author) const;

 private:
  using Step = std::vector<size_t>;  // places in all_
  struct Steps {
    std::vector<Step> done, undone;
  };
  std::vector<const Edit*> edits_of(const std::vector<Step> Steps::*, const std::string& author) const;
  void apply(Edit, const std::map<std::string, size_t>& undone);
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
constexpr const char* kViewsFile = "views.jsonl";  // the studio's saved views, in the same folder

// Empty if there is no such file. Throws Error(KINORA_ERROR_DATA) with the line that cannot be read and the
// reason, or KINORA_ERROR_IO.
EditHistory read_edits(const std::filesystem::path& file, Footage clips = {});

// The clips that the job in `folder` has kept.
Footage kept_in(const std::filesystem::path& folder);

// Makes people's changes an input of the jobs that depend on them: identity of the edits of the curate job
// that `job` reads. followed: the part of a clip's edit that the job depends on; null: nothing. "" if there
// are no such edits; equal whenever the edits have the same effect.
std::string edits_identity(const RunFile&, const JobSpec& job,
                           const std::function<nlohmann::json(const Edited&)>& followed);

}  // namespace kinora::core
