#include "plugins/jobs/curation/edits.hpp"

#include "core/base/facts.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

constexpr size_t kLongest = 65536;  // bytes of a text that a user may set

std::string text(const json& value, const std::string& name) {
  if (!value.is_string()) throw Error(KINORA_INVALID, "set." + name + ": expected text");
  auto out = value.get<std::string>();
  if (out.size() > kLongest)
    throw Error(KINORA_INVALID, fmt::format("set.{}: the text has {} bytes; the maximum is {}", name, out.size(), kLongest));
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
  if (!value.is_object()) return fail(KINORA_DATA, "it is not a JSON object");
  Edit out;
  out.key = text_in(value, "key");
  out.time = text_in(value, "time");
  out.author = text_in(value, "author");
  if (out.key.empty()) return fail(KINORA_DATA, "it has no \"key\"");
  const auto set = value.find("set");
  if (set == value.end() || !set->is_object()) return fail(KINORA_DATA, "it has no object \"set\"");
  if (const std::string wrong = fill(*set, out); !wrong.empty()) return fail(KINORA_DATA, "{}", wrong);
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

}  // namespace kinora::core
