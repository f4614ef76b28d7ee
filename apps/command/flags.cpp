#include "apps/command/flags.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/ranges.h>

namespace kinora {
namespace {

constexpr size_t kColumns = 110, kIndent = sizeof "usage: " - 1;

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

std::string wrapped(std::string_view text, size_t column, size_t indent) {
  std::istringstream in{std::string(text)};
  std::string out, word;
  bool is_first = true;
  while (in >> word) {
    if (!is_first && column + 1 + word.size() > kColumns) {
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
  size_t column = kIndent + call.size();
  for (const auto& flag : flags_in(flags)) {
    if (flag.name == "--help") continue;
    const std::string text =
        "[" + flag.name + (flag.value.empty() ? "" : " " + flag.value) + "]" + (flag.repeats ? "..." : "");
    const bool fits = column + 1 + text.size() <= kColumns;
    out += (fits ? " " : "\n" + std::string(2 * kIndent, ' ')) + text;
    column = (fits ? column + 1 : 2 * kIndent) + text.size();
  }
  return out;
}

}  // namespace kinora
