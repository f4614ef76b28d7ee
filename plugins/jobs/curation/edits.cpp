#include "plugins/jobs/curation/edits.hpp"

#include <fstream>
#include <iterator>

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/run/run_file.hpp"
#include "plugins/jobs/curation/clip_files.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

constexpr size_t kLongest = 65536;  // bytes of a text that a user may set

std::string text(const json& value, const std::string& name) {
  if (!value.is_string()) throw Error(KINORA_ERROR_INVALID, "set." + name + ": expected text");
  auto out = value.get<std::string>();
  if (out.size() > kLongest)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("set.{}: the text has {} bytes; the maximum is {}", name, out.size(), kLongest));
  return out;
}

// Reads a line's "set" into the edit. Returns what is wrong with it; empty: nothing.
std::string fill(const json& set, Edit& edit) {
  for (const auto& [name, value] : set.items()) {
    if (name != "keep" && name != "caption" && name != "reason") continue;
    Change& to = value.is_null() ? edit.cleared : edit.set;
    if (name == "keep") {
      if (!value.is_null() && !value.is_boolean()) return "\"keep\" must be true or false";
      to.keep = value.is_boolean() && value.get<bool>();
    } else {
      if (!value.is_null() && !value.is_string()) return "\"" + name + "\" must be text";
      (name == "caption" ? to.caption : to.reason) = value.is_string() ? value.get<std::string>() : "";
    }
  }
  return "";
}

}  // namespace

json json_of(const Change& change) {
  json out = json::object();
  if (change.caption) out["caption"] = *change.caption;
  if (change.keep) out["keep"] = *change.keep;
  if (change.reason) out["reason"] = *change.reason;
  return out;
}

json set_of(const Edit& edit) {
  json out = json_of(edit.set);
  if (edit.cleared.caption) out["caption"] = nullptr;
  if (edit.cleared.keep) out["keep"] = nullptr;
  if (edit.cleared.reason) out["reason"] = nullptr;
  return out;
}

Change change_of(const json& value) {
  if (!value.is_object())
    throw Error(KINORA_ERROR_INVALID, "set: expected an object of caption, keep and reason");
  Change out;
  for (const auto& [name, member] : value.items()) {
    if (name == "caption") {
      out.caption = text(member, name);
    } else if (name == "reason") {
      out.reason = text(member, name);
    } else if (name == "keep" && member.is_boolean()) {
      out.keep = member.get<bool>();
    } else if (name == "keep") {
      throw Error(KINORA_ERROR_INVALID, "set.keep: expected true or false");
    } else {
      throw Error(KINORA_ERROR_INVALID, "set." + name + ": only caption, keep and reason can be changed");
    }
  }
  return out;
}

void put_back(Change& now, const Change& fields, const Change& from) {
  if (fields.caption) now.caption = from.caption;
  if (fields.reason) now.reason = from.reason;
  if (fields.keep) now.keep = from.keep;
}

Change same_fields(const Change& of, const Change& fields) {
  Change out;
  put_back(out, fields, of);
  return out;
}

Change overlaid(Change base, const Change& top) {
  if (top.caption) base.caption = top.caption;
  if (top.reason) base.reason = top.reason;
  if (top.keep) base.keep = top.keep;
  return base;
}

std::string line_of(const Edit& edit) {
  json line{{"key", edit.key}, {"time", edit.time}, {"author", edit.author}, {"set", set_of(edit)}};
  if (!edit.of.empty()) line["of"] = edit.of;
  if (edit.kind == EditKind::edit) line["was"] = json_of(edit.was);
  if (edit.kind == EditKind::undo) line["undo"] = true;
  if (edit.kind == EditKind::redo) line["redo"] = true;
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

void EditHistory::add(Edit edit) {
  const size_t place = all_.size();
  Edited& now = now_[edit.key];
  edit.was = same_fields(now, edit.set);
  authors_before_.push_back(now.author);
  static_cast<Change&>(now) = overlaid(now, edit.set);
  if (edit.set.caption) now.author = edit.author;
  put_back(now, edit.cleared, {});
  step(edit, place, now);
  if (!now.caption) now.author.clear();
  if (now.empty()) now_.erase(edit.key);
  of_key_[edit.key].push_back(place);
  all_.push_back(std::move(edit));
}

// Updates the author's undo and redo stacks. A line that only resets fields is not a step: only earlier lines
// know what an undo of it would restore.
void EditHistory::step(const Edit& edit, size_t place, Edited& now) {
  Steps& steps = steps_[edit.author];
  if (edit.kind == EditKind::edit && !edit.set.empty()) {
    steps.done.push_back(place);
    steps.undone.clear();
  } else if (edit.kind == EditKind::undo && !steps.done.empty()) {
    const size_t undone = steps.done.back();
    const Edit& target = all_[undone];
    if (target.key == edit.key) {
      put_back(now, target.set, target.was);
      if (target.set.caption) now.author = authors_before_[undone];
    }
    steps.undone.push_back(undone);
    steps.done.pop_back();
  } else if (edit.kind == EditKind::redo && !steps.undone.empty()) {
    steps.done.push_back(steps.undone.back());
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
  size_t from = 0;
  for (size_t end = text.find('\n'); end != text.npos; from = end + 1, end = text.find('\n', from)) {
    const auto line = text.substr(from, end - from);
    ++lines_;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    if (auto edit = parse_edit(line)) {
      if (find_clip(*edit)) {
        add(std::move(*edit));
      } else {
        of_others_.push_back(std::move(*edit));
      }
    } else {
      wrong(lines_, edit.failure().message);
    }
  }
  return from;
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

const EditHistory::Steps* EditHistory::steps_of(const std::string& author) const {
  const auto at = steps_.find(author);
  return at == steps_.end() ? nullptr : &at->second;
}

const Edit* EditHistory::undoable(const std::string& author) const {
  const Steps* steps = steps_of(author);
  return steps && !steps->done.empty() ? &all_[steps->done.back()] : nullptr;
}

const Edit* EditHistory::redoable(const std::string& author) const {
  const Steps* steps = steps_of(author);
  return steps && !steps->undone.empty() ? &all_[steps->undone.back()] : nullptr;
}

std::string text_of_subject(const nlohmann::json& subject) {
  const bool names_film = !text_in(subject, "sha256").empty() || !text_in(subject, "url").empty();
  return names_film ? subject_of(subject).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) : "";
}

Footage kept_in(const std::filesystem::path& folder) {
  const auto data = folder / "data";
  const auto subject = [data](const std::string& key) {
    std::ifstream in(data / (key + ".json"), std::ios::binary);
    if (!in) return nlohmann::json();
    const auto facts = parse_facts(std::string{std::istreambuf_iterator<char>(in), {}});
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
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::error_code error;
  if (in.bad() || (!in.is_open() && std::filesystem::exists(file, error)))
    throw Error(KINORA_ERROR_IO, file.string() + ": the file cannot be read");
  // Leaves out the last line of a writer that died; a line typed by hand is complete without its newline.
  if (parse_edit(std::string_view(text).substr(text.rfind('\n') + 1))) text += '\n';
  out.add_lines(text, [&](size_t line, const std::string& why) {
    throw Error(KINORA_ERROR_DATA,
                fmt::format("{}: line {}: {}; fix or remove the line", file.string(), line, why));
  });
  return out;
}

namespace {

const JobSpec* curate_of(const RunFile& run, const JobSpec& job) {
  for (size_t input : job.inputs) {
    const JobSpec& one = run.jobs[input];
    if (one.kind->name == "curate") return &one;
    if (const auto* above = curate_of(run, one)) return above;
  }
  return nullptr;
}

}  // namespace

std::string edits_identity(const RunFile& run, const JobSpec& job,
                           const std::function<json(const Edited&)>& followed) {
  const JobSpec* curate = curate_of(run, job);
  if (!curate) return "";
  const auto edits = catching([&] { return read_edits(run.out / curate->name / kEditsFile); });
  if (!edits) return sha256(edits.failure().message);  // the job itself reports what is wrong
  EditHistory by_footage;                              // under whatever key the footage has by then
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
