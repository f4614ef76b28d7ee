#include <array>
#include <memory>

#include "charsmap.hpp"
#include "regex.hpp"
#include "tokenizer_json.hpp"
#include "unicode.hpp"

namespace kinora::text {
namespace {

template <class Keep>
std::string kept(std::string_view text, Keep keep) {
  std::string out;
  while (!text.empty())
    if (const char32_t c = take(text); keep(c)) append(out, c);
  return out;
}

std::string stripped(std::string_view text, bool left, bool right) {
  size_t begin = 0, end = 0, at = 0;
  for (bool seen = !left; at < text.size();) {
    auto rest = text.substr(at);
    const bool space = is_white_space(take(rest));
    if (!seen && space) begin = text.size() - rest.size();
    seen = seen || !space;
    at = text.size() - rest.size();
    if (!space || !right) end = at;
  }
  return std::string(text.substr(begin, end > begin ? end - begin : 0));
}

// sentencepiece's old rules for translation: removes control characters and replaces other invisible ones by
// blanks.
std::string nmt(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const char32_t c = take(text);
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
      continue;
    const bool blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == 0xFFFD;
    append(out, blank ? U' ' : c);
  }
  return out;
}

std::string base64(const std::string& text, const Fields& f) {
  std::string out;
  uint32_t bits = 0;
  int n = 0;
  for (const char c : text) {
    if (c == '=') break;
    const int v = c >= 'A' && c <= 'Z'   ? c - 'A'
                  : c >= 'a' && c <= 'z' ? c - 'a' + 26
                  : c >= '0' && c <= '9' ? c - '0' + 52
                  : c == '+'             ? 62
                  : c == '/'             ? 63
                                         : -1;
    if (v < 0) f.refuse("'precompiled_charsmap' is not base64");
    bits = (bits << 6 | static_cast<uint32_t>(v)) & 0xFFFFFF;
    if (n++ % 4) out += static_cast<char>(bits >> (6 - 2 * ((n - 1) % 4)) & 0xFF);
  }
  return out;
}

Normalizer read_replace(Fields& f) {
  Fields pattern(f.need("pattern"), f.where() + ": pattern");
  const auto by = f.get<std::string>("content");
  if (pattern.find("Regex")) {
    const Regex regex(pattern.get<std::string>("Regex"));
    return [regex, by](const std::string& text) {
      std::string out;
      size_t from = 0;
      for (const Span& s : regex.find_all(text)) {
        out.append(text, from, s.begin - from).append(by);
        from = s.end;
      }
      return out.append(text, from);
    };
  }
  const auto what = pattern.get<std::string>("String");
  pattern.done();
  return [what, by](const std::string& text) { return replaced(text, what, by); };
}

Normalizer read_bert(Fields& f) {
  BertRules rules;
  rules.clean = f.get("clean_text", true);
  rules.ideographs = f.get("handle_chinese_chars", true);
  rules.lower = f.get("lowercase", true);
  rules.strip_accents = f.get("strip_accents", rules.lower);
  return [rules](const std::string& text) { return bert_normalised(text, rules); };
}

Normalizer read_one(const std::string& type, Fields& f) {
  const auto form = [](Form form) { return [form](const std::string& t) { return normal_form(t, form); }; };
  if (type == "NFC") return form(Form::nfc);
  if (type == "NFD") return form(Form::nfd);
  if (type == "NFKC") return form(Form::nfkc);
  if (type == "NFKD") return form(Form::nfkd);
  if (type == "Lowercase") return [](const std::string& t) { return lower_case(t); };
  if (type == "StripAccents")
    return [](const std::string& t) { return kept(t, [](char32_t c) { return !is_mark(c); }); };
  if (type == "Nmt") return [](const std::string& t) { return nmt(t); };
  if (type == "BertNormalizer") return read_bert(f);
  if (type == "Replace") return read_replace(f);
  if (type == "Prepend")
    return [by = f.get<std::string>("prepend")](const std::string& t) { return t.empty() ? t : by + t; };
  if (type == "Strip") {
    const bool left = f.get("strip_left", true), right = f.get("strip_right", true);
    return [left, right](const std::string& t) { return stripped(t, left, right); };
  }
  if (type == "Precompiled") {
    if (!f.find("precompiled_charsmap")) return [](std::string t) { return t; };
    const auto map =
        std::make_shared<const Charsmap>(base64(f.get<std::string>("precompiled_charsmap"), f), f.where());
    return [map](const std::string& t) { return map->apply(t); };
  }
  f.refuse("the normalizer '" + type + "' is not known");
}

}  // namespace

std::string replaced(const std::string& text, const std::string& what, const std::string& by) {
  if (what.empty()) return text;
  std::string out;
  size_t from = 0;
  for (size_t at; (at = text.find(what, from)) != text.npos; from = at + what.size())
    out.append(text, from, at - from).append(by);
  return out.append(text, from);
}

std::string bert_normalised(std::string_view text, const BertRules& rules) {
  std::string out;
  while (!text.empty()) {
    const char32_t c = take(text);
    if (rules.clean && (c == 0 || c == 0xFFFD || is_control(c))) continue;
    const bool apart = rules.ideographs && is_ideograph(c);
    if (apart) out += ' ';
    append(out, rules.clean && is_white_space(c) ? U' ' : c);
    if (apart) out += ' ';
  }
  if (rules.strip_accents)
    out = kept(normal_form(out, Form::nfd), [](char32_t c) { return !is_non_spacing_mark(c); });
  return rules.lower ? lower_case(out) : out;
}

Normalizer read_normalizer(const Json& json, const std::string& where, int depth) {
  Fields f(json, where);
  const auto type = f.get<std::string>("type");
  if (depth > kDeepest) f.refuse("sequences are nested too deeply");
  if (type != "Sequence") {
    auto one = read_one(type, f);
    f.done();
    return one;
  }
  std::vector<Normalizer> steps;
  for (const auto& step : f.need("normalizers")) steps.push_back(read_normalizer(step, where, depth + 1));
  f.done();
  return [steps](std::string text) {
    for (const auto& step : steps) text = step(std::move(text));
    return text;
  };
}

}  // namespace kinora::text
