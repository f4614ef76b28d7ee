#include "plugins/jobs/data/split_file.hpp"

#include <algorithm>
#include <set>

#include "kinora/webdataset_files.hpp"

namespace kinora::data {
namespace {

using Names = std::vector<std::string>;

// YAML that a split does not need, or that is none.
struct UnknownYaml {};

// One line, taken apart from its start. Functions throw UnknownYaml.
class YamlLine {
 public:
  explicit YamlLine(std::string_view text) : text_(text) {
    const size_t before = text_.size();
    skip_spaces();
    indent_ = before - text_.size();
  }
  size_t indent() const { return indent_; }
  // Whether nothing is left but a comment.
  bool at_end() {
    skip_spaces();
    return text_.empty() || text_.starts_with('#');
  }
  bool take(char c) {
    skip_spaces();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  // The dash of a list's item.
  bool take_dash() { return (text_ == "-" || text_.starts_with("- ")) && take('-'); }
  // A plain scalar ends at ": ", at a comment, or at one of `ends`.
  std::string scalar(std::string_view ends = "") {
    for (const char quote : {'\'', '"'})
      if (take(quote)) return quoted(quote);
    constexpr std::string_view kIndicators = "[]{}&*!|>%@`?,#-";
    if (text_.empty() || kIndicators.find(text_.front()) != text_.npos) throw UnknownYaml();
    size_t end = 0;
    while (end < text_.size() && ends.find(text_[end]) == ends.npos && !text_.substr(end).starts_with(" #") &&
           (text_[end] != ':' || (end + 1 < text_.size() && text_[end + 1] != ' ')))
      ++end;
    std::string out(text_.substr(0, end));
    text_.remove_prefix(end);
    return out.erase(out.find_last_not_of(' ') + 1);  // npos + 1 is 0
  }

 private:
  void skip_spaces() { text_.remove_prefix(std::min(text_.find_first_not_of(' '), text_.size())); }
  // After its opening quote. A single quote inside is doubled.
  std::string quoted(char quote) {
    std::string out;
    for (;;) {
      const size_t end = text_.find(quote);
      if (end == text_.npos) throw UnknownYaml();
      out += text_.substr(0, end);
      text_.remove_prefix(end + 1);
      if (quote == '"' || !text_.starts_with(quote)) break;
      out += quote;
      text_.remove_prefix(1);
    }
    if (quote == '"' && out.find('\\') != out.npos) throw UnknownYaml();
    return out;
  }
  std::string_view text_;
  size_t indent_ = 0;
};

class SplitReader {
 public:
  SplitFile read(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line != "---") add(YamlLine(line));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (!has_parts_) throw UnknownYaml();
    return std::move(split_);
  }

 private:
  void add(YamlLine line) {
    if (line.at_end()) return;
    if (line.take_dash()) {
      if (!list_) throw UnknownYaml();
      list_->push_back(line.scalar());
    } else {
      const std::string key = line.scalar();
      if (!line.take(':')) throw UnknownYaml();
      begin(key, line.indent() == 0);
      if (!line.at_end()) take_flow(line);
    }
    if (!line.at_end()) throw UnknownYaml();
  }

  void begin(const std::string& key, bool is_top) {
    if (!is_top && in_parts_) {
      list_ = &split_.parts.emplace_back(key, Names()).second;
      return;
    }
    if (!is_top || (key != "exclude" && key != "split_parts")) throw UnknownYaml();
    in_parts_ = key == "split_parts";
    has_parts_ |= in_parts_;
    list_ = in_parts_ ? nullptr : &split_.exclude;
  }

  // {} or a list in brackets.
  void take_flow(YamlLine& line) const {
    if (!list_) {
      if (!line.take('{') || !line.take('}')) throw UnknownYaml();
      return;
    }
    if (!line.take('[')) throw UnknownYaml();
    for (bool has_more = !line.take(']'); has_more;) {
      list_->push_back(line.scalar(",]"));
      has_more = line.take(',');
      if (!has_more && !line.take(']')) throw UnknownYaml();
    }
  }

  SplitFile split_;
  Names* list_ = nullptr;  // receives the items that follow
  bool in_parts_ = false, has_parts_ = false;
};

// Removes the names that do not stand for anything, and returns how many those are.
uint64_t remove_gone(Names& names, const std::function<bool(const std::string&)>& is_there) {
  uint64_t gone = 0;
  Names out;
  for (const auto& name : names) {
    const Names all = expand_braces(name);
    Names left;
    std::copy_if(all.begin(), all.end(), std::back_inserter(left), is_there);
    gone += all.size() - left.size();
    if (left.size() == all.size())
      out.push_back(name);
    else
      for (auto& text : energon::brace_list(left)) out.push_back(std::move(text));
  }
  names = std::move(out);
  return gone;
}

}  // namespace

std::optional<SplitFile> read_split(std::string_view text) {
  try {
    SplitFile out = SplitReader().read(text);
    for (const auto& [part, names] : out.parts)
      for (const auto& name : names) expand_braces(name);
    for (const auto& name : out.exclude) expand_braces(name);
    return out;
  } catch (const UnknownYaml&) {
    return std::nullopt;
  } catch (const Error& e) {  // of the braces
    if (e.code() != KINORA_ERROR_INVALID) throw;
    return std::nullopt;
  }
}

std::string split_text(const SplitFile& split) {
  std::string out = "split_parts:";
  const auto list = [&](const std::string& before, const Names& names) {
    out += names.empty() ? " []\n" : "\n";
    for (const auto& name : names) out += before + "- " + energon::detail::yaml_name(name) + "\n";
  };
  out += split.parts.empty() ? " {}\n" : "\n";
  for (const auto& [part, names] : split.parts) {
    out += "  " + energon::detail::yaml_name(part) + ":";
    list("  ", names);
  }
  out += "exclude:";
  list("", split.exclude);
  return out;
}

SplitChange adapt(SplitFile& split, const std::vector<energon::ShardInfo>& shards,
                  const std::function<bool(const std::string&)>& is_new) {
  SplitChange change;
  std::set<std::string, std::less<>> there, named;
  for (const auto& shard : shards) there.insert(shard.name);
  const auto is_shard = [&](const std::string& name) {
    if (!there.contains(name)) return false;
    named.insert(name);
    return true;
  };
  const auto is_sample = [&](const std::string& name) {  // SHARD/KEY
    for (size_t slash = name.rfind('/'); slash != name.npos && slash > 0; slash = name.rfind('/', slash - 1))
      if (there.contains(name.substr(0, slash))) return true;
    return false;
  };
  for (auto& [part, names] : split.parts) change.gone += remove_gone(names, is_shard);
  change.gone +=
      remove_gone(split.exclude, [&](const std::string& name) { return is_shard(name) || is_sample(name); });
  if (split.parts.empty()) split.parts.emplace_back("train", Names());
  const auto train = std::find_if(split.parts.begin(), split.parts.end(),
                                  [](const auto& part) { return part.first == "train"; });
  auto& [part, names] = train == split.parts.end() ? split.parts.front() : *train;
  Names added;
  for (const auto& shard : shards) {
    if (shard.samples == 0 || named.contains(shard.name)) continue;
    if (is_new(shard.name))
      added.push_back(shard.name);
    else
      ++change.unnamed;
  }
  change.part = part;
  change.added = added.size();
  for (auto& text : energon::brace_list(added)) names.push_back(std::move(text));
  return change;
}

}  // namespace kinora::data
