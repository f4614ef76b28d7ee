#include <algorithm>
#include <array>

#include "tokenizer_json.hpp"
#include "unicode.hpp"

namespace kinora::text {
namespace {

struct Part {
  Span span;
  bool match;
};

std::vector<Part> parts_of(size_t size, const std::vector<Span>& matches, bool invert) {
  std::vector<Part> out;
  size_t from = 0;
  for (const Span& m : matches) {
    if (from < m.begin) out.push_back({{from, m.begin}, invert});
    out.push_back({m, !invert});
    from = m.end;
  }
  if (from < size) out.push_back({{from, size}, invert});
  return out;
}

std::vector<Span> matches_of(std::string_view text, bool (*is)(char32_t)) {
  std::vector<Span> out;
  for (auto rest = text; !rest.empty();) {
    const size_t begin = text.size() - rest.size();
    if (is(take(rest))) out.push_back({begin, text.size() - rest.size()});
  }
  return out;
}

std::vector<Span> matches_of(std::string_view text, std::string_view what) {
  std::vector<Span> out;
  for (size_t at = 0; !what.empty() && (at = text.find(what, at)) != text.npos; at += what.size())
    out.push_back({at, at + what.size()});
  return out;
}

void add_pieces(const Word& word, const std::vector<Span>& spans, Words& out) {
  for (const Span& s : spans)
    if (s.begin < s.end)
      out.push_back({word.text.substr(s.begin, s.end - s.begin), word.first && s.begin == 0});
}

template <class Find>
PreTokenizer splitting(Find find, Delimiter how, bool invert = false) {
  return [find, how, invert](const Words& words) {
    Words out;
    for (const Word& w : words) add_pieces(w, split(w.text, find(w.text), how, invert), out);
    return out;
  };
}

auto characters(bool (*is)(char32_t)) {
  return [is](const std::string& t) { return matches_of(t, is); };
}
auto regex_matches(const std::string& pattern) {
  return [regex = Regex(pattern)](const std::string& t) { return regex.find_all(t); };
}

Delimiter read_behaviour(Fields& f, const char* otherwise) {
  const auto name = f.get<std::string>("behavior", otherwise);
  const std::array<const char*, 5> names{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                         "Contiguous"};
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) f.refuse("the behavior '" + name + "' is not known");
  return static_cast<Delimiter>(at - names.begin());
}

// GPT-2's words (Radford et al. 2019): contractions, letters, numbers and the rest, each with the preceding
// blank.
constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Joiners belong to words here, unlike in patterns given by the file.
constexpr const char* kWordsAndMarks = R"([\w\x{200C}\x{200D}]+|[^\w\s\x{200C}\x{200D}]+)";

PreTokenizer read_byte_level(Fields& f) {
  const bool blank = f.get("add_prefix_space", true), cut = f.get("use_regex", true);
  f.skip({"trim_offsets"});
  const auto find = regex_matches(kGpt2);
  return [blank, cut, find](const Words& words) {
    Words out;
    for (Word w : words) {
      if (blank && !w.text.empty() && w.text[0] != ' ') w.text.insert(0, " ");
      Words pieces;
      if (cut) {
        add_pieces(w, split(w.text, find(w.text), Delimiter::isolated), pieces);
      } else {
        pieces.push_back(w);
      }
      for (Word& p : pieces) {
        std::string letters;
        for (const char c : p.text) letters += byte_letters()[static_cast<unsigned char>(c)];
        out.push_back({std::move(letters), p.first});
      }
    }
    return out;
  };
}

PreTokenizer read_metaspace(Fields& f) {
  const auto mark = f.get<std::string>("replacement", "\u2581");
  const bool old = f.get("add_prefix_space", true);
  const auto scheme = f.get<std::string>("prepend_scheme", old ? "always" : "never");
  const bool cut = f.get("split", true);
  f.skip({"str_rep"});
  if (scheme != "always" && scheme != "first" && scheme != "never")
    f.refuse("the prepend_scheme '" + scheme + "' is not known");
  if (mark.empty()) f.refuse("'replacement' is empty");
  return [=](const Words& words) {
    Words out;
    for (Word w : words) {
      w.text = replaced(w.text, " ", mark);
      const bool wanted = scheme == "always" || (scheme == "first" && w.first);
      if (wanted && !w.text.empty() && !w.text.starts_with(mark)) w.text.insert(0, mark);
      if (cut) {
        add_pieces(w, split(w.text, matches_of(w.text, mark), Delimiter::merged_with_next), out);
      } else {
        out.push_back(w);
      }
    }
    return out;
  };
}

PreTokenizer read_split(Fields& f) {
  const auto how = read_behaviour(f, "");
  const bool invert = f.get("invert", false);
  Fields pattern(f.need("pattern"), f.where() + ": pattern");
  if (pattern.find("Regex")) return splitting(regex_matches(pattern.get<std::string>("Regex")), how, invert);
  const auto what = pattern.get<std::string>("String");
  pattern.done();
  return splitting([what](const std::string& t) { return matches_of(t, what); }, how, invert);
}

PreTokenizer read_words(const std::string& type, Fields& f) {
  if (type == "ByteLevel") return read_byte_level(f);
  if (type == "Metaspace") return read_metaspace(f);
  if (type == "Split") return read_split(f);
  if (type == "Whitespace") return splitting(regex_matches(kWordsAndMarks), Delimiter::removed, true);
  if (type == "WhitespaceSplit") return splitting(characters(is_white_space), Delimiter::removed);
  if (type == "Punctuation") return splitting(characters(is_punctuation), read_behaviour(f, "Isolated"));
  if (type == "Digits")
    return splitting(characters(is_numeric),
                     f.get("individual_digits", false) ? Delimiter::isolated : Delimiter::contiguous);
  if (type == "CharDelimiterSplit")
    return splitting(
        [by = f.get<std::string>("delimiter")](const std::string& t) { return matches_of(t, by); },
        Delimiter::removed);
  if (type == "BertPreTokenizer") {
    const auto words = splitting(characters(is_white_space), Delimiter::removed),
               marks = splitting(characters(is_punctuation), Delimiter::isolated);
    return [words, marks](const Words& in) { return marks(words(in)); };
  }
  f.refuse("the pre-tokenizer '" + type + "' is not known");
}

std::vector<Span> contiguous(const std::vector<Part>& parts) {
  std::vector<Span> out;
  bool last = false;
  for (const Part& p : parts) {
    if (p.match == last && !out.empty()) {
      out.back().end = p.span.end;
    } else {
      out.push_back(p.span);
    }
    last = p.match;
  }
  return out;
}

// Joins each match to the part before it, or after it, unless that part is a match too.
std::vector<Span> merged(std::vector<Part> parts, bool with_next) {
  if (with_next) std::reverse(parts.begin(), parts.end());
  std::vector<Span> out;
  bool last = false;
  for (const Part& p : parts) {
    if (p.match && !last && !out.empty()) {
      out.back() = {std::min(out.back().begin, p.span.begin), std::max(out.back().end, p.span.end)};
    } else {
      out.push_back(p.span);
    }
    last = p.match;
  }
  if (with_next) std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

const std::array<std::string, 256>& byte_letters() {
  static const auto table = [] {
    std::array<std::string, 256> out;
    char32_t next = 256;
    for (char32_t b = 0; b < 256; ++b)
      append(out[b], (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174 ? b : next++);
    return out;
  }();
  return table;
}

std::vector<Span> split(std::string_view text, const std::vector<Span>& matches, Delimiter how, bool invert) {
  const auto parts = parts_of(text.size(), matches, invert);
  if (how == Delimiter::contiguous) return contiguous(parts);
  if (how == Delimiter::merged_with_previous || how == Delimiter::merged_with_next)
    return merged(parts, how == Delimiter::merged_with_next);
  std::vector<Span> out;
  for (const Part& p : parts)
    if (how == Delimiter::isolated || !p.match) out.push_back(p.span);
  return out;
}

PreTokenizer read_pre_tokenizer(const Json& json, const std::string& where, int depth) {
  Fields f(json, where);
  const auto type = f.get<std::string>("type");
  if (depth > kDeepest) f.refuse("sequences are nested too deeply");
  if (type != "Sequence") {
    auto one = read_words(type, f);
    f.done();
    return one;
  }
  std::vector<PreTokenizer> steps;
  for (const auto& step : f.need("pretokenizers"))
    steps.push_back(read_pre_tokenizer(step, where, depth + 1));
  f.done();
  return [steps](const Words& words) {
    Words out = words;
    for (const auto& step : steps) out = step(out);
    return out;
  };
}

}  // namespace kinora::text
