#include "core/plugin/toml_reader.hpp"

#include <algorithm>
#include <tuple>

#include "core/base/suggest.hpp"

namespace kinora::core {

void TomlErrors::add_text(const toml::source_position& place, std::string_view message) {
  const uint32_t line = std::max<uint32_t>(place.line, 1), column = std::max<uint32_t>(place.column, 1);
  lines_.push_back({line, column, fmt::format("{}:{}:{}: {}", file_, line, column, message)});
}

std::string TomlErrors::text() {
  std::stable_sort(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  std::string out;
  for (const auto& line : lines_) out += (out.empty() ? "" : "\n") + line.text;
  return out;
}

std::vector<TomlEntry> in_file_order(const toml::table& table) {
  std::vector<TomlEntry> out;
  for (const auto& [key, node] : table) out.push_back({&key, &node});
  std::stable_sort(out.begin(), out.end(), [](const TomlEntry& a, const TomlEntry& b) {
    const auto p = a.key->source().begin, q = b.key->source().begin;
    return std::tie(p.line, p.column) < std::tie(q.line, q.column);
  });
  return out;
}

const toml::node* TomlTable::node(const char* key) {
  known_.emplace_back(key);
  return table_.get(key);
}

const toml::source_region& TomlTable::place(const char* key) const {
  const auto* n = table_.get(key);
  return n ? n->source() : table_.source();
}

void TomlTable::missing(const char* key) { errors_.add(table_.source(), "{} has no '{}'", what_, key); }

std::string TomlTable::text(const char* key, bool required) {
  const auto* n = node(key);
  if (!n) {
    if (required) missing(key);
    return "";
  }
  if (const auto* s = n->as_string()) return s->get();
  errors_.add(n->source(), "'{}' of {} must be a string", key, what_);
  return "";
}

bool TomlTable::truth(const char* key) {
  const auto* n = node(key);
  if (!n) return false;
  if (const auto* b = n->as_boolean()) return b->get();
  errors_.add(n->source(), "'{}' of {} must be true or false", key, what_);
  return false;
}

std::vector<std::string> TomlTable::texts(const char* key) {
  std::vector<std::string> out;
  const auto* n = node(key);
  if (!n) return out;
  const auto* list = n->as_array();
  if (!list) errors_.add(n->source(), "'{}' of {} must be a list of strings", key, what_);
  for (size_t i = 0; list && i < list->size(); ++i) {
    if (const auto* s = list->get(i)->as_string()) {
      out.push_back(s->get());
    } else {
      errors_.add(list->get(i)->source(), "'{}' of {} must be a list of strings", key, what_);
    }
  }
  return out;
}

const toml::table* TomlTable::table(const char* key) {
  const auto* n = node(key);
  if (n && !n->as_table()) errors_.add(n->source(), "'{}' of {} must be a table", key, what_);
  return n ? n->as_table() : nullptr;
}

void TomlTable::finish() {
  for (const auto& [key, node] : in_file_order(table_)) {
    const std::string name(key->str());
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    errors_.add(key->source(), "unknown key '{}' in {}{}", name, what_,
                did_you_mean_or_list(name, known_, "keys"));
  }
}

}  // namespace kinora::core
