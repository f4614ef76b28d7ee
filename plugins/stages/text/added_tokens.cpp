#include "added_tokens.hpp"

#include <algorithm>

#include "regex.hpp"
#include "unicode.hpp"

namespace kinora::text {
namespace {

bool ends_with_word(const std::string& text) {
  static const Regex regex(R"([\w\x{200C}\x{200D}]\z)");
  return !regex.find_all(text).empty();
}
bool starts_with_word(const std::string& text) {
  static const Regex regex(R"(\A[\w\x{200C}\x{200D}])");
  return !regex.find_all(text).empty();
}

size_t blanks_at_end(std::string_view text) {
  size_t blanks = 0;
  while (!text.empty()) {
    const size_t length = length_of_first(text);
    blanks = is_white_space(take(text)) ? blanks + length : 0;
  }
  return blanks;
}

size_t blanks_at_start(std::string_view text) {
  size_t blanks = 0;
  while (!text.empty()) {
    const size_t length = length_of_first(text);
    if (!is_white_space(take(text))) break;
    blanks += length;
  }
  return blanks;
}

}  // namespace

AddedTokens::AddedTokens(const Json& array, const Normalizer& normalizer, const std::string& where) {
  if (!array.is_array()) throw Error(KINORA_INVALID, where + ": expected an array");
  for (const auto& entry : array) {
    Fields f(entry, where);
    Token t{f.get<std::string>("content"), f.get<int64_t>("id"), f.get("single_word", false),
            f.get("lstrip", false), f.get("rstrip", false)};
    const bool normalized = f.get("normalized", true);
    f.skip({"special"});
    f.done();
    if (t.id < 0) f.refuse("the id of '" + t.content + "' is below 0");
    ids_.insert_or_assign(t.content, t.id);
    if (normalized) t.content = normalizer(t.content);
    if (t.content.empty()) continue;
    auto& those = (normalized ? normalized_ : raw_)[static_cast<unsigned char>(t.content[0])];
    those.insert(
        std::upper_bound(those.begin(), those.end(), t,
                         [](const Token& a, const Token& b) { return a.content.size() > b.content.size(); }),
        t);
  }
}

std::optional<int64_t> AddedTokens::id_of(std::string_view content) const {
  const auto it = ids_.find(content);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

std::vector<Section> AddedTokens::cut(const Section& whole, const Index& tokens) {
  const std::string& text = whole.text;
  std::vector<Section> out;
  size_t from = 0;  // everything before is already in `out`
  const auto add_text = [&](size_t end) {
    if (from < end) out.push_back({text.substr(from, end - from), -1, whole.first && from == 0});
  };
  for (size_t at = 0; at < text.size();) {
    const auto& those = tokens[static_cast<unsigned char>(text[at])];
    const auto t = std::find_if(those.begin(), those.end(), [&](const Token& token) {
      return text.compare(at, token.content.size(), token.content) == 0;
    });
    if (t == those.end()) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + t->content.size();
    at = end;
    if (t->single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end))))
      continue;
    if (t->left) begin = std::max(from, begin - blanks_at_end(std::string_view(text).substr(0, begin)));
    if (t->right) end += blanks_at_start(std::string_view(text).substr(end));
    begin = std::max(from, begin);
    add_text(begin);
    out.push_back({"", t->id, false});
    from = end;
  }
  add_text(text.size());
  return out;
}

std::vector<Section> AddedTokens::apart(const std::string& text, const Normalizer& normalizer) const {
  std::vector<Section> out;
  for (const Section& raw : cut({text, -1, true}, raw_)) {
    if (raw.id >= 0) {
      out.push_back(raw);
      continue;
    }
    auto pieces = cut({normalizer(raw.text), -1, raw.first}, normalized_);
    out.insert(out.end(), pieces.begin(), pieces.end());
  }
  return out;
}

}  // namespace kinora::text
