#include "apps/studio/edits.hpp"

#include "core/status.hpp"

namespace kinora::studio {
namespace {

using nlohmann::json;

constexpr size_t kLongest = 65536;  // bytes of a text

std::string text(const json& value, const std::string& name) {
  if (!value.is_string()) throw Error(KINORA_INVALID, "set." + name + ": expected a text");
  auto out = value.get<std::string>();
  if (out.size() > kLongest)
    throw Error(KINORA_INVALID, "set." + name + ": " + std::to_string(out.size()) + " bytes; at most " +
                                    std::to_string(kLongest) + " fit");
  return out;
}

// The fields of `fields` become what `from` has of them, nothing included.
void put_back(Change& now, const Change& fields, const Change& from) {
  if (fields.caption) now.caption = from.caption;
  if (fields.reason) now.reason = from.reason;
  if (fields.keep) now.keep = from.keep;
}

}  // namespace

json json_of(const Change& change) {
  json out = json::object();
  if (change.caption) out["caption"] = *change.caption;
  if (change.keep) out["keep"] = *change.keep;
  if (change.reason) out["reason"] = *change.reason;
  return out;
}

Change change_of(const json& value) {
  if (!value.is_object()) throw Error(KINORA_INVALID, "set: expected an object of caption, keep and reason");
  Change out;
  for (const auto& [name, member] : value.items()) {
    if (name == "caption") {
      out.caption = text(member, name);
    } else if (name == "reason") {
      out.reason = text(member, name);
    } else if (name == "keep" && member.is_boolean()) {
      out.keep = member.get<bool>();
    } else if (name == "keep") {
      throw Error(KINORA_INVALID, "set.keep: expected true or false");
    } else {
      throw Error(KINORA_INVALID, "set." + name + ": only caption, keep and reason can be changed");
    }
  }
  return out;
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
  json line{{"key", edit.key}, {"time", edit.time}, {"author", edit.author}, {"set", json_of(edit.set)}};
  if (!edit.of.empty()) line["of"] = edit.of;
  if (edit.kind == EditKind::edit) line["was"] = json_of(edit.was);
  if (edit.kind == EditKind::undo) line["undo"] = true;
  if (edit.kind == EditKind::redo) line["redo"] = true;
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<Edit> parse_edit(std::string_view line) {
  const json value = json::parse(line, nullptr, false);
  if (!value.is_object() || !value.contains("key") || !value["key"].is_string() || !value.contains("set"))
    return std::nullopt;
  Edit out;
  out.key = value["key"].get<std::string>();
  for (auto& [name, target] : {std::pair{"time", &out.time}, std::pair{"author", &out.author}})
    if (const auto at = value.find(name); at != value.end() && at->is_string())
      *target = at->get<std::string>();
  out.of = value.value("of", json());
  try {
    out.set = change_of(value["set"]);
    if (value.contains("was")) out.was = change_of(value["was"]);
  } catch (const Error&) {
    return std::nullopt;
  }
  if (value.contains("undo") && value["undo"] == true) out.kind = EditKind::undo;
  if (value.contains("redo") && value["redo"] == true) out.kind = EditKind::redo;
  return out;
}

void EditHistory::add(Edit edit) {
  const size_t place = all_.size();
  Steps& steps = steps_[edit.author];
  Change& now = now_[edit.key];
  now = overlaid(std::move(now), edit.set);
  if (edit.kind == EditKind::edit) {
    steps.done.push_back(place);
    steps.undone.clear();
  } else if (edit.kind == EditKind::undo && !steps.done.empty()) {
    const Edit& target = all_[steps.done.back()];
    if (target.key == edit.key) put_back(now, target.set, target.was);
    steps.undone.push_back(steps.done.back());
    steps.done.pop_back();
  } else if (edit.kind == EditKind::redo && !steps.undone.empty()) {
    steps.done.push_back(steps.undone.back());
    steps.undone.pop_back();
  }
  of_key_[edit.key].push_back(place);
  all_.push_back(std::move(edit));
}

Change EditHistory::now(const std::string& key) const {
  const auto at = now_.find(key);
  return at == now_.end() ? Change() : at->second;
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

}  // namespace kinora::studio
