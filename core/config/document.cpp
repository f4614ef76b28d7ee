#include "core/config/document.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include "core/base/facts.hpp"
#include "core/base/suggest.hpp"
#include "core/base/text_encoding.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

std::string child(const std::string& pointer, std::string_view key) {
  std::string out = pointer + "/";
  for (char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

json scalar(const toml::node& node) {
  if (const auto* v = node.as_integer()) return v->get();
  if (const auto* v = node.as_floating_point()) return v->get();
  if (const auto* v = node.as_boolean()) return v->get();
  if (const auto* v = node.as_string()) return v->get();
  std::ostringstream text;  // dates and times: stored as their text
  text << toml::node_view<const toml::node>(node);
  return text.str();
}

// Converts the TOML tree to JSON, reporting the position of each key and value to `place`.
template <class F>
json convert(const toml::node& node, const std::string& pointer, const F& place) {
  if (const auto* table = node.as_table()) {
    json out = json::object();
    for (const auto& [key, value] : *table) {
      const std::string at = child(pointer, key.str());
      place(at, key.source().begin, value.source().begin);
      out[std::string(key.str())] = convert(value, at, place);
    }
    return out;
  }
  if (const auto* array = node.as_array()) {
    json out = json::array();
    for (size_t i = 0; i < array->size(); ++i) {
      const std::string at = child(pointer, std::to_string(i));
      place(at, array->get(i)->source().begin, array->get(i)->source().begin);
      out.push_back(convert(*array->get(i), at, place));
    }
    return out;
  }
  return scalar(node);
}

// toml++ reports what it found, but not that an inline table must be on one line.
const char* syntax_remedy(std::string_view said) {
  if (said.find("inline table") == said.npos) return "";
  for (const char* met : {"saw '\\n'", "saw '\\r'", "saw '#'"})
    if (said.ends_with(met)) return "; write each { ... } on one line, without comments in it";
  return "";
}

// The place behind the text that begins at `i`; the end if it is not closed.
size_t after_text(std::string_view toml, size_t i) {
  const char mark = toml[i];
  const std::string end(toml.substr(i).starts_with(std::string(3, mark)) ? 3 : 1, mark);
  for (i += end.size(); i < toml.size() && !toml.substr(i).starts_with(end);)
    i += toml[i] == '\\' && mark == '"' ? 2 : 1;
  return i + end.size();
}

struct Bracket {
  char is;
  int line, column;
};

// The innermost bracket that is still open before this place; nothing: none is.
std::optional<Bracket> open_bracket(std::string_view toml, const toml::source_position& before) {
  std::vector<Bracket> open;
  int line = 1, column = 1;
  for (size_t i = 0; i < toml.size();) {
    const char c = toml[i];
    size_t next = i + 1;
    if (c == '"' || c == '\'') next = after_text(toml, i);
    if (c == '#') next = std::min(toml.find('\n', i), toml.size());
    if (std::pair(line, column) >= std::pair(static_cast<int>(before.line), static_cast<int>(before.column)))
      break;
    if (c == '[' || c == '{') open.push_back({c, line, column});
    if ((c == ']' || c == '}') && !open.empty()) open.pop_back();
    for (; i < std::min(next, toml.size()); ++i) {
      if ((static_cast<unsigned char>(toml[i]) & 0xc0) != 0x80) ++column;
      if (toml[i] == '\n') ++line, column = 1;
    }
  }
  return open.empty() ? std::nullopt : std::optional(open.back());
}

Failure syntax_error(const toml::parse_error& e, std::string_view text, const std::string& name) {
  Location at{name, static_cast<int>(e.source().begin.line), static_cast<int>(e.source().begin.column)};
  std::string said = std::string(e.description()) + syntax_remedy(e.description());
  const bool is_in_text = said.find("string") != said.npos;  // which is open itself
  if (const auto open = open_bracket(text, e.source().begin); open && !is_in_text) {
    if (said.find("end-of-file") != said.npos) {
      at = {name, open->line, open->column};
      said = fmt::format("this '{}' is not closed by a '{}'", open->is, open->is == '[' ? ']' : '}');
    } else if (open->line < at.line) {
      said += fmt::format("; the '{}' at {}:{} is still open", open->is, open->line, open->column);
    }
  }
  return {KINORA_ERROR_INVALID, format({at, said})};
}

json* job_by_name(json& root, const std::string& name) {
  if (!root.contains("job") || !root["job"].is_array()) return nullptr;
  for (auto& job : root["job"])
    if (job.is_object() && job.value("name", job.value("kind", "")) == name) return &job;
  return nullptr;
}

// The first keys, joined by dots.
std::string join(const std::vector<std::string>& parts, size_t count) {
  return fmt::format("{}", fmt::join(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count), "."));
}

// A value on one line, as --set reads it.
std::string inline_toml(const json& value) {
  if (!value.is_structured()) return value.dump();
  std::string out;
  for (const auto& [key, item] : value.items())
    out += (out.empty() ? "" : ", ") + (value.is_object() ? key + " = " : "") + inline_toml(item);
  return value.is_object() ? "{ " + out + " }" : "[" + out + "]";
}

std::vector<std::string> job_names(const json& root) {
  std::vector<std::string> out;
  for (const auto& job : root.value("job", json::array()))
    if (job.is_object()) out.push_back(job.value("name", job.value("kind", "")));
  return out;
}

}  // namespace

std::string format(const Diagnostic& d) {
  std::string out = d.at.file;
  if (d.at.line > 0) out += ":" + std::to_string(d.at.line) + ":" + std::to_string(d.at.column);
  return out + ": " + d.message;
}

Result<std::string> read_toml(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    return Failure{KINORA_ERROR_INVALID, file.string() + ": this is a folder; give the path of a file in it"};
  if (!in) return Failure{KINORA_ERROR_NOT_FOUND, file.string() + ": no such file, or it cannot be read"};
  std::ostringstream text;
  text << in.rdbuf();
  return utf8_text(text.str(), file.string());
}

Result<Document> Document::read(const std::filesystem::path& file) {
  const auto text = read_toml(file);
  return text ? parse(*text, file.string()) : text.failure();
}

Result<Document> Document::parse(std::string_view text, const std::string& name) {
  Document out;
  out.name_ = name;
  try {
    const toml::table table = toml::parse(text, name);
    const bool is_flag = name.starts_with("--");
    out.root_ =
        convert(table, "",
                [&](const std::string& at, const toml::source_position& k, const toml::source_position& v) {
                  if (is_flag) return;
                  out.places_[at] = {{name, static_cast<int>(k.line), static_cast<int>(k.column)},
                                     {name, static_cast<int>(v.line), static_cast<int>(v.column)}};
                });
  } catch (const toml::parse_error& e) {
    return syntax_error(e, text, name);
  }
  return out;
}

namespace {

// For --set PATH=VALUE whose first word is the name of no job.
Failure no_job(const json& root, const std::string& file, const std::string& path, const std::string& job) {
  const std::vector<std::string> jobs = job_names(root);
  std::vector<std::string> names = jobs;
  names.emplace_back("run");
  std::string rest = did_you_mean(job, names);
  if (rest.empty()) rest = did_you_mean_or_list(job, jobs, "there are") + "; run.KEY sets the run's own";
  return fail(KINORA_ERROR_INVALID, "--set {}: {} has no job '{}'{}", path, file, job, rest);
}

}  // namespace

Status Document::set(std::string_view assignment) {
  if (valid_utf8(assignment) != assignment)
    return Failure{KINORA_ERROR_INVALID,
                   "--set " + valid_utf8(assignment) +
                       ": this is not UTF-8; set the terminal to UTF-8, or write the value "
                       "into the run file"};
  const auto equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return Failure{KINORA_ERROR_INVALID,
                   "--set " + std::string(assignment) + ": expected NAME=VALUE, for example dit.steps=100"};
  const std::string path(assignment.substr(0, equals)), text(assignment.substr(equals + 1));
  const auto parsed = parse("v = " + text, "--set");
  const json list =
      json::parse(text, nullptr, false);  // objects stay texts, since options may be JSON in a text
  const json value = parsed ? parsed->root_.value("v", json(text)) : list.is_array() ? list : json(text);

  std::vector<std::string> parts;
  std::stringstream stream(path);
  for (std::string part; std::getline(stream, part, '.');) parts.push_back(part);
  json* at = job_by_name(root_, parts.front());
  std::string pointer;
  if (at) {
    pointer = "/job/" + std::to_string(at - &root_["job"][0]);
  } else {
    const std::string& table = parts.front();
    if ((table == "storage" || table == "run") && !root_.contains(table)) root_[table] = json::object();
    at = root_.contains(table) ? &root_[table] : nullptr;
    pointer = child("", table);
  }
  if (!at) return no_job(root_, name_, path, parts.front());
  if (parts.size() < 2)
    return fail(KINORA_ERROR_INVALID, "--set {}: expected an option; write {}.OPTION=VALUE", path, path);
  const Location here{"--set " + std::string(assignment), 0, 0};
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    pointer = child(pointer, parts[i]);
    // A component given by its name alone becomes a table when one of its options is set.
    if (at->contains(parts[i]) && (*at)[parts[i]].is_string())
      (*at)[parts[i]] = json{{"use", (*at)[parts[i]]}};
    at = &(*at)[parts[i]];
    if (at->is_null()) {
      *at = json::object();
      places_[pointer] = {here, here};
    }
    if (at->is_array())
      return fail(KINORA_ERROR_INVALID, "--set {}: '{}' is a list, which is set as a whole: --set '{}={}'",
                  path, parts[i], join(parts, i + 1), inline_toml(*at));
    if (!at->is_object())
      return Failure{KINORA_ERROR_INVALID, "--set " + path + ": '" + parts[i] + "' is not a table"};
  }
  (*at)[parts.back()] = value;
  const std::string inside = child(pointer, parts.back()) + "/";  // places inside the replaced value
  std::erase_if(places_, [&](const auto& place) { return place.first.starts_with(inside); });
  places_[child(pointer, parts.back())] = {here, here};
  return {};
}

Location Document::key(const std::string& pointer) const { return find(pointer, &Place::key); }
Location Document::value(const std::string& pointer) const { return find(pointer, &Place::value); }

// The nearest enclosing known place: a missing default is reported at its table.
Location Document::find(const std::string& pointer, Location Place::*which) const {
  for (std::string at = pointer;; at.resize(at.rfind('/'))) {
    const auto it = places_.find(at);
    if (it != places_.end() && (it->second.*which).line > 0) return it->second.*which;
    if (it != places_.end() && it->second.key.file != name_) return it->second.key;
    if (at.empty() || at.rfind('/') == std::string::npos) return {name_, 0, 0};
  }
}

}  // namespace kinora::core
