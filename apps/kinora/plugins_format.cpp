#include "apps/kinora/plugins_format.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/ranges.h>

#include "core/plugin/kinds.hpp"
#include "core/plugin/options.hpp"

namespace kinora {
namespace {

using core::json;

std::string abi_of(const core::PluginSpec& p) { return fmt::format("{}.{}", p.abi_major, p.abi_minor); }
const char* tier_of(const core::PluginSpec& p) { return core::tier_name(p.tier); }
std::string id_of(const Row& row) { return row.component ? row.component->id : "(cannot be read)"; }

// Characters as a terminal counts them: bytes that do not continue a UTF-8 sequence.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string cut(const std::string& line, size_t width) {
  if (width < 20 || width_of(line) <= width) return line;
  size_t end = 0;
  for (size_t seen = 0; end < line.size() && seen < width - 3; ++seen) do
      ++end;
    while (end < line.size() && (line[end] & 0xc0) == 0x80);
  return line.substr(0, end) + "...";
}

std::string cut_lines(const std::string& text, size_t width) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += cut(text.substr(begin, end - begin), width) + "\n";
    begin = end + 1;
  }
  return out;
}

std::string indented(const std::string& text) {
  std::string out = "  ";
  for (const char c : text) out += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return out + "\n";
}

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& lines, const std::string& indent) {
  std::vector<size_t> widths;
  for (const auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
  }
  std::string out;
  for (const auto& line : lines) {
    std::string text = indent;
    for (size_t i = 0; i < line.size(); ++i)
      text += line[i] + std::string(widths[i] - width_of(line[i]) + 2, ' ');
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
  return out;
}

std::vector<Row> rows(const std::vector<core::PluginInfo>& plugins, const std::string& kind) {
  std::vector<Row> out;
  for (const auto& plugin : plugins) {
    for (const auto& c : plugin.spec.components)
      if (kind.empty() || c.kind == kind) out.push_back({plugin, &c});
    if (plugin.spec.components.empty() && kind.empty()) out.push_back({plugin, nullptr});
  }
  std::stable_sort(out.begin(), out.end(), [](const Row& a, const Row& b) { return id_of(a) < id_of(b); });
  return out;
}

std::string state_of(const Row& row) {
  using core::PluginState;
  PluginState state = row.plugin.state;
  const bool is_open = state == PluginState::ready || state == PluginState::loaded;
  if (row.component && row.plugin.shadowed.contains(row.component->id))
    state = PluginState::shadowed;
  else if (is_open && row.component && !row.component->unusable.empty())
    state = PluginState::disabled;
  return core::state_name(state);
}

std::string reason_of(const Row& row) {
  if (!row.component) return row.plugin.reason;
  const auto it = row.plugin.shadowed.find(row.component->id);
  if (it != row.plugin.shadowed.end()) return "by plugin '" + it->second + "'";
  return row.plugin.reason.empty() ? row.component->unusable : row.plugin.reason;
}

bool is_draft(const Row& row) {
  const auto* kind = row.component ? core::find_kind(row.component->kind) : nullptr;
  return kind && core::is_draft(kind->interface);
}

std::string list_text(const std::vector<Row>& list, const std::vector<std::string>& notices, size_t width) {
  std::vector<std::vector<std::string>> lines = {
      {"COMPONENT", "PLUGIN", "VERSION", "ABI", "TIER", "STATE", "WHAT IT IS"}};
  std::set<std::string> plugins;
  std::map<std::pair<std::string, std::string>, std::set<std::string>> reasons;  // reason, state: whose
  for (const auto& row : list) {
    const auto& p = row.plugin.spec;
    if (row.component) {
      lines.push_back({id_of(row), p.name, p.version, is_draft(row) ? "draft" : abi_of(p), tier_of(p),
                       state_of(row), row.component->help});
    } else {
      lines.push_back({id_of(row), p.name, p.version, "", "", state_of(row)});
    }
    plugins.insert(p.name);
    const std::string reason = reason_of(row);
    const bool is_alone = row.component && reason == row.component->unusable;
    if (!reason.empty()) reasons[{reason, state_of(row)}].insert(is_alone ? id_of(row) : p.name);
  }
  std::string out = cut_lines(aligned(lines), width);
  out += fmt::format("{} components of {} plugins; kinora plugins inspect ID says more about one\n",
                     list.size(), plugins.size());
  for (const auto& [reason, names] : reasons)
    out += fmt::format("\n{} {} {}:\n{}", fmt::join(names, ", "), names.size() == 1 ? "is" : "are",
                       reason.second, indented(reason.first));
  for (const auto& notice : notices) out += "\nnot searched: " + notice + "\n";
  return out;
}

json list_json(const std::vector<Row>& list) {
  json out = json::array();
  for (const auto& row : list) {
    const auto& p = row.plugin.spec;
    out.push_back({{"id", row.component ? json(row.component->id) : json()},
                   {"kind", row.component ? json(row.component->kind) : json()},
                   {"name", row.component ? json(row.component->name) : json()},
                   {"help", row.component ? json(row.component->help) : json()},
                   {"plugin", p.name},
                   {"version", p.version},
                   {"abi", abi_of(p)},
                   {"draft", is_draft(row)},
                   {"tier", tier_of(p)},
                   {"state", state_of(row)},
                   {"reason", reason_of(row)},
                   {"library", row.plugin.library.string()}});
  }
  return out;
}

std::string list_markdown(const std::vector<Row>& list) {
  std::string out = "| component | plugin | tier | what it is |\n|---|---|---|---|\n";
  for (const auto& row : list)
    out +=
        fmt::format("| `{}` | {} {} | {} | {} |\n", id_of(row), row.plugin.spec.name, row.plugin.spec.version,
                    tier_of(row.plugin.spec), row.component ? row.component->help : "");
  return out;
}

}  // namespace kinora
