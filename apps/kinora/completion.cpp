#include "apps/kinora/completion.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "apps/kinora/command.hpp"
#include "apps/kinora/commands.hpp"
#include "apps/validate/check.hpp"
#include "core/base/paths.hpp"
#include "core/config/document.hpp"
#include "core/plugin/kinds.hpp"
#include "host/apply/apply.hpp"
#include "host/weights/choices.hpp"

namespace kinora {
namespace {

using Words = std::vector<std::string>;

// The words before the one to complete.
struct Line {
  core::Runtime& runtime;
  const Command* command = nullptr;
  const Subcommand* part = nullptr;
  Words words{};                                // after the command and its part
  std::map<std::string, std::string> values{};  // of flags
};

Words ids(const Line& line) { return line.runtime.registry().ids(); }

// The jobs of the run files on the line.
Words jobs(const Line& line) {
  Words out;
  for (const auto& word : line.words) {
    if (!word.ends_with(".toml")) continue;
    const bool is_home = word.starts_with("~/");  // the shell has not replaced it yet
    const auto file = core::Document::read(is_home ? core::environment("HOME") + word.substr(1) : word);
    if (!file || !file->root().contains("job") || !file->root()["job"].is_array()) continue;
    for (const auto& job : file->root()["job"])
      for (const char* key : {"name", "kind"})
        if (job.contains(key) && job[key].is_string()) {
          out.push_back(job[key]);
          break;
        }
  }
  return out;
}

Words kinds(const Line& line) {
  Words out;
  const bool is_new = line.part && line.part->name == std::string_view("new");
  for (const auto& kind : core::kinds())
    if (!is_new || kind.name != std::string_view("service")) out.emplace_back(kind.name);
  return out;
}

// Methods of the component on the line, else of every kind of component.
Words methods(const Line& line) {
  std::set<std::string> out;
  const auto add = [&](const core::ComponentSpec& spec) {
    for (const auto& method : core::apply_methods(spec)) out.insert(method.name);
  };
  const auto spec = line.runtime.registry().find(line.words.empty() ? "" : line.words.front());
  if (spec) add(**spec);
  for (const auto& kind : core::kinds()) {
    core::ComponentSpec any;
    any.kind = kind.name;
    if (!spec) add(any);
  }
  return {out.begin(), out.end()};
}

// The naming schemes of --component, else of all components.
Words schemes(const Line& line) {
  std::set<std::string> out{"kinora"};
  const auto component = line.values.find("--component");
  for (const auto& plugin : line.runtime.registry().plugins())
    for (const auto& one : plugin.spec.components)
      if (component == line.values.end() || component->second == one.id)
        for (const auto& layout : one.layouts) out.insert(layout.name);
  return {out.begin(), out.end()};
}

Words checks(const Line&) {
  Words out;
  for (const auto& check : all_checks()) out.emplace_back(check.name);
  return out;
}

Words parts(const Line& line) {
  Words out;
  for (const auto& part : line.command->parts()) out.emplace_back(part.name);
  return out;
}

Words these(const Words& words) { return words; }

Words known(const Line& line, std::string_view name) {
  using Rule = Words (*)(const Line&);
  static const std::map<std::string_view, Rule> rules{
      {"ID", ids},
      {"JOB", jobs},
      {"KIND", kinds},
      {"METHOD", methods},
      {"SCHEME", schemes},
      {"CHECK", checks},
      {"PART", parts},
      {"FORM", [](const Line&) { return these(core::kAdapterForms); }},
      {"FORMAT", [](const Line&) { return these(core::kPackedFormats); }},
      {"RULE", [](const Line&) { return these(core::kScaleRules); }},
      {"LEVEL", [](const Line&) { return these(kLogLevels); }},
      {"SHELL", [](const Line&) { return these(kShells); }},
      {"BENCHMARK", [](const Line&) { return bench_names(); }}};
  const auto rule = rules.find(name);
  return rule == rules.end() ? Words() : rule->second(line);
}

// name: a flag's value, or an argument in what a command takes, "[ID|FOLDER]".
Words words_for(const Line& line, std::string name) {
  static const std::set<std::string_view> files{"FILE",    "PATH", "VIDEO", "CLIP",
                                                "ADAPTER", "IN",   "OUT",   "INPUT"};
  std::erase_if(name, [](char c) { return c == '[' || c == ']' || c == ','; });
  if (const auto dots = name.find("..."); dots != name.npos) name.resize(dots);
  std::istringstream in(name);
  Words out;
  for (std::string one; std::getline(in, one, '|');) {
    if (one.ends_with(".toml"))
      out.emplace_back(kTomlOfShell);
    else if (files.contains(one) || one.starts_with("FILE."))
      out.emplace_back(kFilesOfShell);
    else if (one == "DIR" || one == "FOLDER")
      out.emplace_back(kFoldersOfShell);
    else if (std::ranges::none_of(one, [](char c) { return (c >= 'A' && c <= 'Z') || c == '='; }))
      out.push_back(one);
    else
      for (auto& word : known(line, one)) out.push_back(std::move(word));
  }
  return out;
}

Words names_of(const std::vector<Flag>& flags) {
  Words out;
  for (const auto& flag : flags) out.push_back(flag.name);
  return out;
}

// Removes the flags and their values from the words before `current`. Returns the name of the value that
// `current` holds, or "" if the word before it expects none.
std::string take_flags(Line& line, Words before, const std::vector<Flag>& flags) {
  for (size_t i = 0; i < before.size(); ++i) {
    const auto flag = std::ranges::find_if(flags, [&](const Flag& f) {
      return !f.value.empty() && (f.name == before[i] || f.letter == before[i]);
    });
    if (flag != flags.end() && i + 1 == before.size()) return flag->value;
    if (flag != flags.end())
      line.values[flag->name] = before[++i];
    else if (!before[i].starts_with("-"))
      line.words.push_back(before[i]);
  }
  return "";
}

// The words after a command, or after a part of one, that takes arguments and flags.
Words rest(Line& line, const char* takes, const std::vector<Flag>& flags, const Words& before,
           const std::string& current) {
  if (const auto value = take_flags(line, before, flags); !value.empty()) return words_for(line, value);
  if (current.starts_with("-")) return names_of(flags);
  std::istringstream in(takes);
  std::string argument, last;
  for (size_t i = 0; i <= line.words.size() && in >> argument; ++i)
    last = i == line.words.size() ? argument : "";
  if (last.empty() && argument.ends_with("...")) last = argument;
  return last.empty() ? names_of(flags) : words_for(line, last);
}

Words after_command(Line& line, Words before, const std::string& current) {
  const Command& command = *line.command;
  if (command.start == launch_command)  // the command of the ranks
    if (const auto split = std::ranges::find(before, "--"); split != before.end()) {
      Words words(split + 1, before.end());
      words.push_back(current);
      return completions(line.runtime, words);
    }
  if (!command.parts) {
    auto flags = flags_in(command.flags());
    if (command.start == launch_command) flags.push_back({.name = "--"});
    return rest(line, command.start == launch_command ? "" : command.takes, flags, before, current);
  }
  if (before.empty()) {
    Words out = parts(line);
    out.emplace_back("--help");
    return out;
  }
  for (const auto& part : command.parts())
    if (part.name == before.front()) line.part = &part;
  if (!line.part) return {};
  before.erase(before.begin());
  return rest(line, line.part->takes, flags_in(line.part->flags()), before, current);
}

// bash makes a word of the = in --out=DIR and in --set a.b=v.
Words joined(const Words& split) {
  Words out;
  for (size_t i = 0; i < split.size(); ++i) {
    if (split[i] != "=" || out.empty())
      out.push_back(split[i]);
    else if (!out.back().starts_with("--"))
      out.back() += "=" + (i + 1 < split.size() ? split[++i] : "");
    else if (i + 1 == split.size())
      out.emplace_back();
  }
  return out;
}

}  // namespace

std::vector<std::string> completions(core::Runtime& runtime, const Arguments& words) {
  Words before = joined(words);
  if (before.empty()) before.emplace_back();
  const std::string current = before.back();
  before.pop_back();
  Line line{runtime};
  const auto flags = program_flags();
  size_t at = 0;
  for (; at < before.size() && before[at].starts_with("-"); ++at)
    for (const auto& flag : flags)
      if (flag.name == before[at] && !flag.value.empty() && ++at == before.size())
        return words_for(line, flag.value);
  if (at < before.size()) {
    line.command = find_command(before[at]);
    before.erase(before.begin(), before.begin() + static_cast<ptrdiff_t>(at) + 1);
    return line.command ? after_command(line, std::move(before), current) : Words();
  }
  Words out = names_of(flags);
  for (const auto* command : commands())
    if (is_offered(*command)) out.emplace_back(command->name);
  return out;
}

}  // namespace kinora
