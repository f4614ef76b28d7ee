#include "plugins/jobs/curation/edits.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/regular_file.hpp"
#include "core/run/run_file.hpp"
#include "plugins/jobs/curation/clip_files.hpp"
#include "plugins/jobs/curation/clip_source.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

constexpr size_t kLongest = 65536;  // bytes of a text that a user may set

// Calls f(name, what its value is, the field of each of the changes).
template <class F, class... Changes>
void each_field(const F& f, Changes&... of) {
  f("caption", "text", of.caption...), f("keep", "true or false", of.keep...),
      f("reason", "text", of.reason...);
  f("tags", "a list of texts", of.tags...), f("trim", "[first frame, frame after the last]", of.trim...);
}

bool is_text(const json& value) { return value.is_string(); }

// Whether the value is of the field's type, which is then in it.
bool take(const json& value, std::string& to) {
  return is_text(value) && (to = value.get<std::string>(), true);
}
bool take(const json& value, bool& to) { return value.is_boolean() && (to = value.get<bool>(), true); }
bool take(const json& value, Tags& to) {
  return value.is_array() && std::ranges::all_of(value, is_text) && (to = value.get<Tags>(), true);
}
bool take(const json& value, Trim& to) {
  const auto is_frame = [](const json& one) { return one.is_number_integer() && one >= 0 && one < INT32_MAX; };
  if (!value.is_array() || value.size() != 2 || !std::ranges::all_of(value, is_frame)) return false;
  to = {value[0].get<int64_t>(), value[1].get<int64_t>()};
  return to.first < to.end;
}

// Reads a line's "set" into the edit. Returns what is wrong with it; empty: nothing.
std::string fill(const json& set, Edit& edit) {
  std::string wrong;
  const auto read = [&](const char* name, const char* what, auto& field, auto& cleared) {
    const auto at = set.find(name);
    if (at == set.end()) return;
    auto& to = (at->is_null() ? cleared : field).emplace();
    if (!at->is_null() && !take(*at, to)) wrong = fmt::format("\"{}\" must be {}", name, what);
  };
  each_field(read, edit.set, edit.cleared);
  return wrong;
}

}  // namespace

void to_json(json& out, const Trim& trim) { out = json::array({trim.first, trim.end}); }

json json_of(const Change& change) {
  json out = json::object();
  const auto add = [&](const char* name, const char*, const auto& field) {
    if (field) out[name] = *field;
  };
  each_field(add, change);
  return out;
}

json set_of(const Edit& edit) {
  json out = json_of(edit.set);
  const auto add = [&](const char* name, const char*, const auto& field) {
    if (field) out[name] = nullptr;
  };
  each_field(add, edit.cleared);
  return out;
}

Tags tags_of(const json& value, const std::string& what) {
  constexpr size_t kMost = 100, kLongestTag = 200;
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_text) || value.size() > kMost)
    throw Error(KINORA_ERROR_INVALID, fmt::format("{}: expected a list of at most {} texts", what, kMost));
  Tags out;
  for (const json& one : value) {
    const std::string tag = trimmed(one.get<std::string>());
    if (tag.empty() || tag.size() > kLongestTag)
      throw Error(KINORA_ERROR_INVALID, fmt::format("{}: a tag has 1 to {} bytes", what, kLongestTag));
    if (std::find(out.begin(), out.end(), tag) == out.end()) out.push_back(tag);
  }
  return out;
}

Tags tags_in(const json& facts) {
  if (!facts.is_object() || !facts.contains("tags")) return {};
  auto tags = catching([&] { return tags_of(facts["tags"], "tags"); });
  return tags ? *std::move(tags) : Tags();
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

Change change_of(const json& value) {
  const std::string fields = "caption, keep, reason and trim";
  if (!value.is_object()) throw Error(KINORA_ERROR_INVALID, "set: expected an object of " + fields);
  Change out;
  const auto read = [&](const std::string& name, const json& member) {
    bool is_known = false;
    const auto into = [&](const char* field, const char* what, auto& to) {
      if (name != field || name == "tags") return;
      is_known = true;
      if (!take(member, to.emplace()))
        throw Error(KINORA_ERROR_INVALID, fmt::format("set.{}: expected {}", name, what));
    };
    each_field(into, out);
    if (!is_known)
      throw Error(KINORA_ERROR_INVALID, fmt::format("set.{}: only {} can be changed", name, fields));
    if (const size_t size = is_text(member) ? member.get_ref<const std::string&>().size() : 0;
        size > kLongest)
      throw Error(KINORA_ERROR_INVALID,
                  fmt::format("set.{}: the text has {} bytes; the maximum is {}", name, size, kLongest));
  };
  for (const auto& [name, member] : value.items()) read(name, member);
  return out;
}

void put_back(Change& now, const Change& fields, const Change& from) {
  const auto put = [](const char*, const char*, auto& to, const auto& is_set, const auto& value) {
    if (is_set) to = value;
  };
  each_field(put, now, fields, from);
}

Change same_fields(const Change& of, const Change& fields) {
  Change out;
  put_back(out, fields, of);
  return out;
}

Change overlaid(Change base, const Change& top) {
  put_back(base, top, top);
  return base;
}

std::string line_of(const Edit& edit) {
  json line{{"key", edit.key}, {"time", edit.time}, {"author", edit.author}, {"set", set_of(edit)}};
  if (!edit.of.empty()) line["of"] = edit.of;
  if (edit.kind == EditKind::edit) line["was"] = json_of(edit.was);
  if (edit.kind == EditKind::undo) line["undo"] = true;
  if (edit.kind == EditKind::redo) line["redo"] = true;
  if (edit.more) line["more"] = true;
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Edit> parse_edit(std::string_view line) {
  const json value = parse_facts(line);
  if (!value.is_object()) return fail(KINORA_ERROR_DATA, "it is not a JSON object");
  Edit out;
  out.key = text_in(value, "key");
  out.time = text_in(value, "time");
  out.author = text_in(value, "author");
  if (out.key.empty()) return fail(KINORA_ERROR_DATA, "it has no \"key\"");
  const auto set = value.find("set");
  if (set == value.end() || !set->is_object()) return fail(KINORA_ERROR_DATA, "it has no object \"set\"");
  if (const std::string wrong = fill(*set, out); !wrong.empty()) return fail(KINORA_ERROR_DATA, "{}", wrong);
  out.of = value.value("of", json());
  const auto is = [&](const char* name) { return value.contains(name) && value[name] == true; };
  out.kind = is("undo") ? EditKind::undo : is("redo") ? EditKind::redo : EditKind::edit;
  out.more = is("more");
  return out;
}

json subject_of(const json& facts) {
  json out = json::object();
  if (!facts.is_object()) return out;
  for (const char* name : {facts.contains("sha256") ? "sha256" : "url", "first_frame", "end_frame"})
    if (facts.contains(name)) out[name] = facts[name];
  return out;
}

bool is_same_subject(const json& a, const json& b) {
  if (!a.is_object() || !b.is_object()) return true;
  for (const auto& [name, value] : a.items())
    if (const auto at = b.find(name); at != b.end() && *at != value) return false;
  return true;
}

// undone: places of the edits that an undo reverts, by key; empty for other edits.
void EditHistory::apply(Edit edit, const std::map<std::string, size_t>& undone) {
  Edited& now = now_[edit.key];
  edit.was = same_fields(now, edit.set);
  authors_before_.push_back(now.author);
  static_cast<Change&>(now) = overlaid(now, edit.set);
  if (edit.set.caption) now.author = edit.author;
  put_back(now, edit.cleared, {});
  if (const auto at = undone.find(edit.key); at != undone.end()) {
    const Edit& target = all_[at->second];
    put_back(now, target.set, target.was);
    if (target.set.caption) now.author = authors_before_[at->second];
  }
  if (!now.caption) now.author.clear();
  if (now.empty()) now_.erase(edit.key);
  of_key_[edit.key].push_back(all_.size());
  all_.push_back(std::move(edit));
}

// Lines that only reset fields are not a step: only earlier lines know what an undo of them would restore.
void EditHistory::add(std::vector<Edit> step) {
  if (step.empty()) return;
  lines_ += step.size();
  const EditKind kind = step.front().kind;
  Steps& steps = steps_[step.front().author];
  std::map<std::string, size_t> undone;
  if (kind == EditKind::undo && !steps.done.empty())
    for (const size_t place : steps.done.back()) undone[all_[place].key] = place;
  Step places;
  for (Edit& edit : step) {
    if (!edit.set.empty()) places.push_back(all_.size());
    apply(std::move(edit), undone);
  }
  if (kind == EditKind::edit && !places.empty()) {
    steps.done.push_back(std::move(places));
    steps.undone.clear();
  } else if (kind == EditKind::undo && !steps.done.empty()) {
    steps.undone.push_back(std::move(steps.done.back()));
    steps.done.pop_back();
  } else if (kind == EditKind::redo && !steps.undone.empty()) {
    steps.done.push_back(std::move(steps.undone.back()));
    steps.undone.pop_back();
  }
}

// Gives the edit the key of the clip that it is about. False: that key's clip has other footage, and no other
// clip has the edit's footage. An edit whose key no clip has keeps it unless its footage is found.
bool EditHistory::find_clip(Edit& edit) {
  if (!clips_.of_key || edit.of.empty()) return true;
  auto known = subjects_.find(edit.key);
  if (known == subjects_.end()) known = subjects_.emplace(edit.key, clips_.of_key(edit.key)).first;
  const bool is_gone = known->second.is_null();
  if (!is_gone && is_same_subject(edit.of, known->second)) return true;
  const std::string footage = text_of_subject(edit.of);
  if (footage.empty() || !clips_.keys) return is_gone;
  if (!keys_) keys_ = clips_.keys();
  const auto now = keys_->find(footage);
  if (now == keys_->end() || now->second.empty()) return is_gone;
  edit.key = now->second;
  return true;
}

size_t EditHistory::add_lines(std::string_view text, const Wrong& wrong) {
  size_t taken = 0, lines = lines_;
  std::vector<Edit> step, others;
  for (size_t from = 0, end = text.find('\n'); end != text.npos;
       from = end + 1, end = text.find('\n', from)) {
    const auto line = text.substr(from, end - from);
    ++lines;
    auto edit = parse_edit(line);
    const bool more = edit && edit->more;
    if (!edit) {
      if (line.find_first_not_of(" \t\r") != line.npos) wrong(lines, edit.failure().message);
    } else if (find_clip(*edit)) {
      step.push_back(std::move(*edit));
    } else {
      others.push_back(std::move(*edit));
    }
    if (more) continue;
    add(std::exchange(step, {}));
    std::move(others.begin(), others.end(), std::back_inserter(of_others_));
    others.clear();
    taken = end + 1;
    lines_ = lines;
  }
  return taken;
}

Edited EditHistory::now(const std::string& key) const {
  const auto at = now_.find(key);
  return at == now_.end() ? Edited() : at->second;
}

std::vector<const Edit*> EditHistory::of(const std::string& key) const {
  std::vector<const Edit*> out;
  if (const auto at = of_key_.find(key); at != of_key_.end())
    for (const size_t place : at->second) out.push_back(&all_[place]);
  return out;
}

std::vector<const Edit*> EditHistory::edits_of(const std::vector<Step> Steps::*stack,
                                               const std::string& author) const {
  std::vector<const Edit*> out;
  const auto at = steps_.find(author);
  if (at != steps_.end() && !(at->second.*stack).empty())
    for (const size_t place : (at->second.*stack).back()) out.push_back(&all_[place]);
  return out;
}

std::vector<const Edit*> EditHistory::undoable(const std::string& author) const {
  return edits_of(&Steps::done, author);
}

std::vector<const Edit*> EditHistory::redoable(const std::string& author) const {
  return edits_of(&Steps::undone, author);
}

std::string text_of_subject(const nlohmann::json& subject) {
  const bool names_video = !text_in(subject, "sha256").empty() || !text_in(subject, "url").empty();
  return names_video ? subject_of(subject).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                     : "";
}

Footage kept_in(const std::filesystem::path& folder) {
  const auto data = folder / "data";
  const auto subject = [data](const std::string& key) {
    const auto text = read_regular_file(data / (key + ".json"));
    const auto facts = text ? parse_facts(*text) : nlohmann::json();
    return facts.is_object() ? subject_of(facts) : nlohmann::json();
  };
  const auto keys = [data, subject] {
    std::map<std::string, std::string> out;
    if (!std::filesystem::is_directory(data)) return out;
    for (const auto& [key, fields] : clips_in(data)) {
      const auto footage = text_of_subject(subject(key));
      if (!footage.empty() && !out.try_emplace(footage, key).second) out[footage].clear();
    }
    return out;
  };
  return {subject, keys};
}

EditHistory read_edits(const std::filesystem::path& file, Footage clips) {
  EditHistory out(std::move(clips));
  constexpr uint64_t kMost = uint64_t{1} << 32;  // bytes
  auto read = read_regular_file(file, kMost);
  std::error_code error;
  if (!read && std::filesystem::exists(file, error)) throw Error(KINORA_ERROR_IO, read.failure().message);
  std::string text = read ? *std::move(read) : "";
  // Leaves out the last line of a writer that died; a line typed by hand is complete without its newline.
  if (parse_edit(std::string_view(text).substr(text.rfind('\n') + 1))) text += '\n';
  out.add_lines(text, [&](size_t line, const std::string& why) {
    throw Error(KINORA_ERROR_DATA,
                fmt::format("{}: line {}: {}; fix or remove the line", file.string(), line, why));
  });
  return out;
}

std::string edits_identity(const RunFile& run, const JobSpec& job,
                           const std::function<json(const Edited&)>& followed) {
  const auto source = catching([&] { return clip_source(run, job); });
  if (!source) return "";  // the job itself reports what is wrong
  const auto edits = catching([&] { return read_edits(source->curated / kEditsFile); });
  if (!edits) return sha256(edits.failure().message);
  EditHistory by_footage;  // under whatever key the footage has by then
  for (Edit edit : edits->all()) {
    if (!edit.of.empty()) edit.key += " " + edit.of.dump(-1, ' ', false, json::error_handler_t::replace);
    by_footage.add(std::move(edit));
  }
  json all = json::object();
  for (const auto& [key, edit] : by_footage.edited()) {
    if (json of_clip = followed(edit); !of_clip.is_null()) all[key] = std::move(of_clip);
  }
  return all.empty() ? "" : sha256(all.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace kinora::core
