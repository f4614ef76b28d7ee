#include "apps/command/flags.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <unistd.h>

#include <fmt/ranges.h>

#include "core/base/terminal.hpp"

namespace kinora {
namespace {

constexpr size_t kFewest = 40, kMost = 100, kIndent = sizeof "usage: " - 1;
constexpr size_t kMeaning = 28;  // the last column at which the meaning of a flag or entry begins beside it

}  // namespace

std::vector<Flag> flags_in(const Flags& flags) {
  std::vector<Flag> out;
  for (const auto& option : flags.options()) {
    std::string value = option->format_parameter();  // "N (=5)"
    value.resize(std::min(value.find(' '), value.size()));
    const std::string name = option->format_name();  // "-n [ --ranks ]" or "--ranks"
    out.push_back({"--" + option->long_name(), name.starts_with("--") ? "" : name.substr(0, 2),
                   std::move(value), option->semantic()->is_composing()});
  }
  return out;
}

std::string one_of(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, "|")); }

size_t help_columns() { return std::clamp(core::columns_of(STDOUT_FILENO, kMost), kFewest, kMost); }

std::string wrapped(std::string_view text, size_t column, size_t indent, size_t columns) {
  std::istringstream in{std::string(text)};
  std::string out, word;
  bool is_first = true;
  while (in >> word) {
    if (!is_first && column + 1 + word.size() > columns) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!is_first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    is_first = false;
  }
  return out;
}

std::string usage_of(const std::string& call, const Flags& flags) {
  std::string out = call;
  const size_t columns = help_columns();
  size_t column = kIndent + call.size();
  for (const auto& flag : flags_in(flags)) {
    if (flag.name == "--help") continue;
    const std::string text =
        "[" + flag.name + (flag.value.empty() ? "" : " " + flag.value) + "]" + (flag.repeats ? "..." : "");
    const bool fits = column + 1 + text.size() <= columns;
    out += (fits ? " " : "\n" + std::string(2 * kIndent, ' ')) + text;
    column = (fits ? column + 1 : 2 * kIndent) + text.size();
  }
  return out;
}

namespace {

// "N (=5)" -> "5", "S (=0.050000000000000003)" -> "0.05"; "" without a default, or with an empty one.
std::string default_in(const std::string& parameter) {
  const size_t at = parameter.find(" (=");
  if (at == std::string::npos) return "";
  std::string text = parameter.substr(at + 3, parameter.size() - at - 4);
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return text.find('.') != std::string::npos && *end == '\0' ? fmt::format("{}", number) : text;
}

// `head`, and what it means from `column` on, or below it where it is longer or the column leaves too little room.
std::string entry(const std::string& head, const std::string& meaning, size_t column, size_t columns) {
  constexpr size_t kRoom = 30, kBelow = 6;
  if (meaning.empty()) return head + "\n";
  if (head.size() + 2 > column || column + kRoom > columns)
    return head + "\n" + std::string(kBelow, ' ') + wrapped(meaning, kBelow, kBelow, columns) + "\n";
  return head + std::string(column - head.size(), ' ') + wrapped(meaning, column, column, columns) + "\n";
}

// An indented line of prose, with the lines that go on with its meaning.
struct Entry {
  std::string head, meaning;
  size_t column = 0;  // of the meaning

  explicit Entry(const std::string& line) : head(line) {
    const size_t begin = line.find_first_not_of(' '), gap = line.find("  ", begin);
    if (gap == std::string::npos) return;
    column = line.find_first_not_of(' ', gap);
    head = line.substr(0, gap);
    meaning = line.substr(column);
  }
  // Whether the line goes on with it: it is indented further. A command goes on as it is written.
  bool takes(const std::string& line) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos || begin <= head.find_first_not_of(' ') || head.ends_with('\\'))
      return false;
    if (column == 0) column = begin;
    meaning += (meaning.empty() ? "" : " ") + line.substr(begin);
    return true;
  }
};

}  // namespace

std::string flags_text(const Flags& flags, size_t columns) {
  std::vector<std::pair<std::string, std::string>> rows;
  size_t column = 0;
  for (const auto& flag : flags_in(flags)) {
    const auto& option = flags.find(flag.name.substr(2), false);
    std::string head = "  " + (flag.letter.empty() ? "" : flag.letter + ", ") + flag.name;
    if (!flag.value.empty()) head += " " + flag.value;
    const std::string usual = default_in(option.format_parameter());
    rows.emplace_back(std::move(head),
                      option.description() + (usual.empty() ? "" : " (default " + usual + ")"));
    if (rows.back().first.size() + 2 <= kMeaning) column = std::max(column, rows.back().first.size() + 2);
  }
  std::string out;
  for (const auto& [head, meaning] : rows) out += entry(head, meaning, column, columns);
  return out;
}

std::string wrapped_prose(std::string_view prose, size_t columns) {
  std::string out, paragraph;
  std::optional<Entry> last;
  const auto flush = [&] {
    if (!paragraph.empty()) out += wrapped(paragraph, 0, 0, columns) + "\n";
    if (last) out += entry(last->head, last->meaning, last->column, columns);
    paragraph.clear(), last.reset();
  };
  std::istringstream lines{std::string(prose)};
  for (std::string line; std::getline(lines, line);) {
    if (last && last->takes(line)) continue;
    if (line.empty() || line[0] == ' ' || line.starts_with("usage: ")) flush();
    if (line.empty())
      out += "\n";
    else if (line.starts_with("usage: "))
      out += "usage: " + wrapped(line.substr(kIndent), kIndent, 2 * kIndent, columns) + "\n";
    else if (line[0] == ' ')
      last.emplace(line);
    else {
      if (last) flush();
      paragraph += (paragraph.empty() ? "" : " ") + line;
    }
  }
  flush();
  return out;
}

std::string help_of(std::string_view prose, const Flags& flags, size_t columns) {
  return wrapped_prose(prose, columns) + "options:\n" + flags_text(flags, columns);
}

}  // namespace kinora
