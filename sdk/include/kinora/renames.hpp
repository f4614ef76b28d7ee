// Names of parameters in published weights: a table of patterns that renames them, and the naming schemes
// that a component described (Describe::layout) in the form of abi/layout.h.
#pragma once
#include <algorithm>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinora/abi/layout.h"
#include "kinora/options.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// A row says how two naming schemes spell the beginning of a dotted name, in whole words:
// "blocks.*.self_attn.q" and "blocks.*.attn1.to_q". A star stands for a number, the same ones in both. The
// first row that fits a name renames it; what follows the pattern is kept, and a name that no row fits is
// returned unchanged.
class Renames {
 public:
  struct Row {
    std::string theirs, ours;
  };
  Renames() = default;
  Renames(std::initializer_list<Row> rows) : rows_(rows) {}

  // Rows for names below another: `inside` with theirs and ours in front. The row {"", ""} fits every name
  // below.
  Renames& under(const std::string& theirs, const std::string& ours, const Renames& inside) {
    for (const auto& row : inside.rows_)
      rows_.push_back({joined(theirs, row.theirs), joined(ours, row.ours)});
    return *this;
  }
  Renames& add(const std::string& theirs, const std::string& ours) { return under(theirs, ours, {{"", ""}}); }

  std::string ours(std::string_view theirs) const { return renamed(theirs, &Row::theirs, &Row::ours); }
  std::string theirs(std::string_view ours) const { return renamed(ours, &Row::ours, &Row::theirs); }

 private:
  static std::string joined(const std::string& first, const std::string& rest) {
    return first + (first.empty() || rest.empty() ? "" : ".") + rest;
  }
  // Removes the pattern from the front of `name`, and returns the numbers at its stars in `numbers`.
  static bool take(std::string_view& name, std::string_view pattern, std::vector<std::string_view>& numbers) {
    for (const char c : pattern) {
      const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
      if (c == '*' ? digits == 0 : !name.starts_with(c)) return false;
      if (c == '*') numbers.push_back(name.substr(0, digits));
      name.remove_prefix(c == '*' ? digits : 1);
    }
    return name.empty() || name[0] == '.';
  }
  std::string renamed(std::string_view name, std::string Row::*from, std::string Row::*to) const {
    for (const auto& row : rows_) {
      std::vector<std::string_view> numbers;
      std::string_view rest = name;
      if (!take(rest, row.*from, numbers)) continue;
      std::string out;
      size_t next = 0;
      for (const char c : row.*to)
        if (c == '*')
          out += numbers.at(next++);
        else
          out += c;
      return out.append(rest);
    }
    return std::string(name);
  }
  std::vector<Row> rows_;
};

}  // namespace kinora

namespace kinora::detail {

struct LayoutEntry {
  Layout layout;
  kinora_layout abi{};

  explicit LayoutEntry(Layout l) : layout(std::move(l)) {
    abi.struct_size = sizeof abi;
    abi.self = this;
    abi.name = layout.name.c_str();
    if (layout.ours) abi.ours = renamed<&Layout::ours>;
    if (layout.theirs) abi.theirs = renamed<&Layout::theirs>;
  }
  LayoutEntry(const LayoutEntry&) = delete;
  LayoutEntry& operator=(const LayoutEntry&) = delete;

 private:
  template <auto Member>
  static int32_t renamed(const void* self, const char* name, const kinora_sink* out) {
    return guard([&] {
      const std::string to = (static_cast<const LayoutEntry*>(self)->layout.*Member)(name);
      if (!to.empty()) out->write(out->self, to.data(), to.size());
    });
  }
};

// Layout number i of the component; null past the last, and if describe() fails.
template <class M>
const kinora_layout* layout_of(uint64_t i) {
  const kinora_layout* out = nullptr;
  guard([&] {
    static const std::deque<LayoutEntry> all = [] {
      const auto description = described<M>();
      std::deque<LayoutEntry> made;
      for (const auto& l : description.layouts()) made.emplace_back(l);
      return made;
    }();
    if (i < all.size()) out = &all[i].abi;
  });
  return out;
}

}  // namespace kinora::detail

KINORA_SDK_END
