#include "core/base/expression.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <variant>

#include <fmt/format.h>

#include "core/base/suggest.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

enum class NodeKind { any, all, no, has, compare, in, contains };
enum class Comparison { equal, unequal, less, at_most, more, at_least };

// A value that can be compared; long double represents every integer of 64 bits.
using Value = std::variant<std::monostate, long double, std::string_view, bool>;

Value value_of(const json& v) {
  if (v.is_number_unsigned()) return static_cast<long double>(v.get<uint64_t>());
  if (v.is_number_integer()) return static_cast<long double>(v.get<int64_t>());
  if (v.is_number_float()) return static_cast<long double>(v.get<double>());
  if (v.is_string()) return std::string_view(v.get_ref<const std::string&>());
  if (v.is_boolean()) return v.get<bool>();
  return {};
}

// The number that the whole text is.
std::optional<json> number_of(std::string_view text) {
  const auto read = [&](auto value) -> std::optional<json> {
    const auto done = std::from_chars(text.data(), text.data() + text.size(), value);
    return done.ec == std::errc() && done.ptr == text.data() + text.size() ? std::optional<json>(value)
                                                                           : std::nullopt;
  };
  if (auto whole = read(int64_t{})) return whole;
  if (auto whole = read(uint64_t{})) return whole;
  auto real = read(double{});
  return real && std::isfinite(real->get<double>()) ? real : std::nullopt;  // "-inf" can be read, too
}

// The fact, which is a number if it is a text that is one and is compared with one.
Value comparable(const Value& fact, const Value& with) {
  const auto* text = std::get_if<std::string_view>(&fact);
  if (!text || !std::holds_alternative<long double>(with)) return fact;
  const size_t first = text->find_first_not_of(" \t"), last = text->find_last_not_of(" \t");
  const auto number = first == text->npos ? std::nullopt : number_of(text->substr(first, last + 1 - first));
  return number ? value_of(*number) : Value();
}

bool compare(const Value& fact, Comparison by, const Value& b) {
  const Value a = comparable(fact, b);
  if (a.index() != b.index() || a.index() == 0) return false;
  switch (by) {
    case Comparison::equal:
      return a == b;
    case Comparison::unequal:
      return a != b;
    case Comparison::less:
      return a < b;
    case Comparison::at_most:
      return a <= b;
    case Comparison::more:
      return a > b;
    case Comparison::at_least:
      return a >= b;
  }
  return false;
}

}  // namespace

struct Expression::Node {
  NodeKind kind;
  std::vector<Node> of{};  // of any, all and no
  std::string fact{};      // of the others
  Comparison by = Comparison::equal;
  std::vector<json> values{};
  size_t begin = 0, end = 0;  // of its text, if it is joined with others
};

namespace {

using Node = Expression::Node;

bool holds_for(const Node& node, const json& facts, std::string_view key) {
  const auto inside = [&](const Node& one) { return holds_for(one, facts, key); };
  if (node.kind == NodeKind::any) return std::any_of(node.of.begin(), node.of.end(), inside);
  if (node.kind == NodeKind::all) return std::all_of(node.of.begin(), node.of.end(), inside);
  if (node.kind == NodeKind::no) return !inside(node.of.front());
  const bool is_key = node.fact == "key";
  const json* fact = is_key ? nullptr : find_fact(facts, node.fact);
  if (node.kind == NodeKind::has) return is_key || (fact && !fact->is_null());
  const Value found = is_key ? Value(key) : fact ? value_of(*fact) : Value();
  if (node.kind == NodeKind::in)
    return std::any_of(node.values.begin(), node.values.end(),
                       [&](const json& one) { return compare(found, Comparison::equal, value_of(one)); });
  const Value value = value_of(node.values.front());
  if (node.kind == NodeKind::compare) return compare(found, node.by, value);
  if (fact && fact->is_array())
    return std::any_of(fact->begin(), fact->end(),
                       [&](const json& one) { return compare(value_of(one), Comparison::equal, value); });
  const auto* text = std::get_if<std::string_view>(&found);
  const auto* part = std::get_if<std::string_view>(&value);
  return text && part && text->find(*part) != text->npos;
}

struct ExpressionToken {
  enum class Type { name, quoted_name, number, text, symbol, end };
  Type type = Type::end;
  std::string text;  // of a text or a quoted name, what is in its quotes
  size_t at = 0;     // offset of its first character
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Letters of every language: other bytes of UTF-8 count as letters.
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool is_of_word(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-'; }

// Words of the language, which are names of facts in backquotes alone.
bool is_reserved(std::string_view word) {
  constexpr std::array kReserved{"and", "or", "in", "contains", "true", "false", "not", "has"};
  return std::find(kReserved.begin(), kReserved.end(), word) != kReserved.end();
}

const std::map<std::string, Comparison>& comparisons() {
  static const std::map<std::string, Comparison> by_symbol{
      {"==", Comparison::equal},   {"!=", Comparison::unequal}, {"<", Comparison::less},
      {"<=", Comparison::at_most}, {">", Comparison::more},     {">=", Comparison::at_least}};
  return by_symbol;
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  return first == text.npos ? "" : std::string(text.substr(first, text.find_last_not_of(kSpace) + 1 - first));
}

constexpr const char* kOneWord =
    "; a name that is not one word is written in backquotes: has(`quality score`)";

class ExpressionLexer {
 public:
  explicit ExpressionLexer(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }

  ExpressionToken next() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
    const size_t begin = at_;
    if (begin == text_.size()) return {ExpressionToken::Type::end, "", begin};
    const char c = text_[at_];
    if (c == '"' || c == '\'') return quoted(ExpressionToken::Type::text, "text", c);
    if (c == '`') return quoted(ExpressionToken::Type::quoted_name, "name", c);
    const auto take = [&](ExpressionToken::Type type, const auto& belongs) {
      while (at_ < text_.size() && belongs(text_[at_])) ++at_;
      return ExpressionToken{type, std::string(text_.substr(begin, at_ - begin)), begin};
    };
    if (is_letter(c)) return take(ExpressionToken::Type::name, is_of_word);
    if (is_digit(c) || c == '-' || c == '.' || c == '+')
      return take(ExpressionToken::Type::number, [&](char d) { return is_of_word(d) || d == '+'; });
    const std::string_view two = text_.substr(at_, 2);
    for (const char* symbol : {"==", "!=", "<=", ">=", "&&", "||"})
      if (two == symbol) at_ += 1;
    ++at_;
    return {ExpressionToken::Type::symbol, std::string(text_.substr(begin, at_ - begin)), begin};
  }

  // "; a fact called 'a (v2)' is written `a (v2)`" if a comparison comes after such a name, which begins at
  // this offset.
  std::string name_hint(size_t begin) const {
    const size_t end = std::min(
        {text_.find_first_of("=!<>", begin), text_.find(" in [", begin), text_.find(" contains ", begin)});
    std::string name = end == text_.npos ? "" : trimmed(text_.substr(begin, end - begin));
    std::erase(name, '`');
    if (name.empty() || name.find_first_of("\"'") != name.npos) return "";
    return fmt::format("; a fact called '{}' is written {}", name, fact_in_expression(name));
  }

  // The column of the character at this offset, from 1.
  size_t column(size_t at) const {
    const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
    const auto before = text_.substr(0, at);
    return 1 + static_cast<size_t>(std::count_if(before.begin(), before.end(), begins));
  }

  [[noreturn]] void fail(size_t at, const std::string& what) const {
    throw Error(KINORA_ERROR_INVALID, fmt::format("column {}: {}", column(at), what));
  }

 private:
  ExpressionToken quoted(ExpressionToken::Type type, const char* what, char quote) {
    ExpressionToken out{type, "", at_++};
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      out.text += text_[at_];
    }
    if (at_ == text_.size())
      fail(out.at, fmt::format("the {} that begins here has no closing {}", what,
                               quote == '`' ? "backquote" : "quote"));
    if (quote == '`' && out.text.empty()) fail(out.at, "the backquotes have no name in them");
    ++at_;
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : lexer_(text) { advance(); }

  Node parse() {
    Node out = any();
    if (token_.type != ExpressionToken::Type::end) expected("'and', 'or' or the end", {"and", "or"});
    return out;
  }
  std::vector<std::string> take_facts() { return std::move(facts_); }
  std::vector<std::string> take_compared() { return std::move(compared_); }
  std::vector<Expression::Compared> take_comparisons() { return std::move(comparisons_); }

 private:
  void advance() {
    end_ = lexer_.at();
    token_ = lexer_.next();
  }
  bool is(ExpressionToken::Type type, std::string_view text) const {
    return token_.type == type && token_.text == text;
  }
  bool take(std::string_view text) {
    const bool found = is(ExpressionToken::Type::name, text) || is(ExpressionToken::Type::symbol, text);
    if (found) advance();
    return found;
  }

  // words: those that may come here, of which one was perhaps misspelt. hint: ends the message if none was.
  [[noreturn]] void expected(const std::string& what, const std::vector<std::string>& words = {},
                             const std::string& hint = "") const {
    static const std::map<std::string, std::string> of_other_languages{
        {"=", "=="}, {"&&", "and"}, {"&", "and"}, {"||", "or"}, {"|", "or"}, {"!", "not"}};
    std::string near;
    const auto known = of_other_languages.find(token_.text);
    if (token_.type == ExpressionToken::Type::symbol && known != of_other_languages.end())
      near = "; write " + known->second;
    else if (token_.type == ExpressionToken::Type::name)
      near = did_you_mean(token_.text, words);
    if (near.empty() && token_.type != ExpressionToken::Type::end) near = hint;
    const std::string found = token_.type == ExpressionToken::Type::end    ? "the end"
                              : token_.type == ExpressionToken::Type::text ? "the text '" + token_.text + "'"
                              : token_.type == ExpressionToken::Type::quoted_name ? "`" + token_.text + "`"
                                                                                  : "'" + token_.text + "'";
    lexer_.fail(token_.at, "expected " + what + ", found " + found + near);
  }
  void need(const char* symbol, const std::string& what, const std::vector<std::string>& words = {}) {
    if (!take(symbol)) expected(what, words);
  }

  Node joined(NodeKind kind, const char* word, Node (ExpressionParser::*next)()) {
    Node first = (this->*next)();
    if (!is(ExpressionToken::Type::name, word)) return first;
    Node out{kind};
    out.of.push_back(std::move(first));
    while (take(word)) out.of.push_back((this->*next)());
    return out;
  }
  Node any() { return joined(NodeKind::any, "or", &ExpressionParser::all); }
  Node all() { return joined(NodeKind::all, "and", &ExpressionParser::one); }

  Node one() {
    constexpr int kDeepest = 64;
    if (++depth_ > kDeepest) lexer_.fail(token_.at, fmt::format("nested more than {} levels deep", kDeepest));
    const size_t begin = token_.at;
    Node out = condition();
    out.begin = begin, out.end = end_;
    --depth_;
    return out;
  }

  Node condition() {
    const size_t begin = token_.at;
    if (take("not")) {
      if (token_.type == ExpressionToken::Type::symbol && comparisons().contains(token_.text))
        expected("a condition", {}, lexer_.name_hint(begin));
      Node out{NodeKind::no};
      out.of.push_back(one());
      return out;
    }
    if (take("(")) {
      Node out = any();
      need(")", "'and', 'or' or ')'", {"and", "or"});
      return out;
    }
    if (!take("has")) return comparison(fact(), begin);
    Node out{NodeKind::has};
    if (!take("(")) expected("'(' and the name of a fact", {}, lexer_.name_hint(begin));
    out.fact = fact(true);
    if (!take(")")) expected("')'", {}, kOneWord);
    return out;
  }

  std::string fact(bool is_in_has = false) {
    const bool is_name = token_.type == ExpressionToken::Type::name && !is_reserved(token_.text);
    if (token_.type == ExpressionToken::Type::text)
      expected("the name of a fact", {},
               "; a name is written without quotes: " + fact_in_expression(token_.text));
    if (!is_name && token_.type != ExpressionToken::Type::quoted_name)
      expected("the name of a fact, has(...), 'not' or '('", {},
               is_in_has                                      ? kOneWord
               : token_.type == ExpressionToken::Type::number ? turned_hint()
                                                              : lexer_.name_hint(token_.at));
    std::string out = std::move(token_.text);
    note(facts_, out);
    advance();
    return out;
  }

  static void note(std::vector<std::string>& names, const std::string& name) {
    if (name != "key" && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }

  // "; the fact comes first: blur > 0.1 and blur < 30" for `0.1 < blur < 30`.
  std::string turned_hint() const {
    static const std::map<std::string, std::string> turned{{"<", ">"},   {"<=", ">="}, {">", "<"},
                                                           {">=", "<="}, {"==", "=="}, {"!=", "!="}};
    ExpressionLexer rest = lexer_;
    const auto by = turned.find(rest.next().text);
    const ExpressionToken fact = rest.next();
    if (by == turned.end() || fact.type != ExpressionToken::Type::name) return lexer_.name_hint(token_.at);
    const ExpressionToken second = rest.next(), high = rest.next();
    std::string out = fmt::format("; the fact comes first: {} {} {}", fact.text, by->second, token_.text);
    if (comparisons().contains(second.text) && high.type == ExpressionToken::Type::number)
      out += fmt::format(" and {} {} {}", fact.text, second.text, high.text);
    return out;
  }

  // begin: offset of the fact's name.
  Node comparison(std::string fact, size_t begin) {
    Node out{NodeKind::compare};
    note(compared_, fact);
    out.fact = std::move(fact);
    const auto by = comparisons().find(token_.type == ExpressionToken::Type::symbol ? token_.text : "");
    if (by != comparisons().end()) {
      advance();
      out.by = by->second;
      const size_t at = token_.at;
      out.values.push_back(value());
      if (out.values[0].is_boolean() && out.by != Comparison::equal && out.by != Comparison::unequal)
        lexer_.fail(at, "true and false are compared by == and !=");
    } else if (take("in")) {
      out.kind = NodeKind::in;
      need("[", "a list such as [\"a\", \"b\"]");
      do out.values.push_back(value());
      while (take(","));
      need("]", "',' or ']'");
    } else if (take("contains")) {
      out.kind = NodeKind::contains;
      out.values.push_back(value());
    } else {
      expected("==, !=, <, <=, >, >=, 'in' or 'contains'", {"in", "contains"},
               is(ExpressionToken::Type::name, "not")
                   ? "; 'not' comes first: not " + fact_in_expression(out.fact) + " in [...]"
                   : lexer_.name_hint(begin));
    }
    if (out.fact != "key")
      comparisons_.push_back({out.fact, lexer_.column(begin), out.kind == NodeKind::contains, out.values});
    return out;
  }

  json value() {
    std::optional<json> out;
    if (token_.type == ExpressionToken::Type::text) out = token_.text;
    if (token_.type == ExpressionToken::Type::number) out = number_of(token_.text);
    if (is(ExpressionToken::Type::name, "true")) out = true;
    if (is(ExpressionToken::Type::name, "false")) out = false;
    if (!out) expected("a number, a text in quotes, true or false", {"true", "false"});
    advance();
    return *std::move(out);
  }

  ExpressionLexer lexer_;
  ExpressionToken token_;
  size_t end_ = 0;  // of the last token that was taken
  int depth_ = 0;
  std::vector<std::string> facts_, compared_;
  std::vector<Expression::Compared> comparisons_;
};

}  // namespace

Expression Expression::parse(std::string_view text) {
  constexpr size_t kLongest = 65536;
  if (text.size() > kLongest)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("the expression has {} bytes where at most {} are read", text.size(), kLongest));
  ExpressionParser parser(text);
  Expression out;
  out.root_ = std::make_shared<const Node>(parser.parse());
  out.facts_ = parser.take_facts();
  out.compared_ = parser.take_compared();
  out.comparisons_ = parser.take_comparisons();
  if (out.root_->kind != NodeKind::all) out.conditions_.push_back(trimmed(text));
  if (out.root_->kind == NodeKind::all)
    for (const Node& one : out.root_->of)
      out.conditions_.emplace_back(text.substr(one.begin, one.end - one.begin));
  return out;
}

bool Expression::holds(const json& facts, std::string_view key) const {
  return holds_for(*root_, facts, key);
}

bool Expression::Compared::may_hold(const json& fact) const {
  if (is_contains) return fact.is_array() || (fact.is_string() && values.front().is_string());
  return std::any_of(values.begin(), values.end(), [&](const json& one) {
    const Value value = value_of(one);
    return comparable(value_of(fact), value).index() == value.index();
  });
}

size_t Expression::first_false(const json& facts, std::string_view key) const {
  if (root_->kind != NodeKind::all) return holds(facts, key) ? 1 : 0;
  const auto found = std::find_if(root_->of.begin(), root_->of.end(),
                                  [&](const Node& one) { return !holds_for(one, facts, key); });
  return static_cast<size_t>(found - root_->of.begin());
}

namespace {

// The fact with exactly this name.
const json* find_whole(const json& facts, std::string_view name) {
  if (!facts.is_object()) return nullptr;
  if (const auto at = facts.find(name); at != facts.end()) return &*at;
  for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
    if (const auto inside = facts.find(name.substr(0, dot)); inside != facts.end())
      if (const json* found = find_whole(*inside, name.substr(dot + 1))) return found;
  return nullptr;
}

void add_names(const json& facts, const std::string& before, int depth, size_t at_most,
               std::vector<std::string>& out) {
  constexpr int kDeepest = 4;
  for (const auto& [name, value] : facts.items()) {
    if (out.size() == at_most) return;
    if (!value.is_object())
      out.push_back(before + name);
    else if (depth < kDeepest)
      add_names(value, before + name + ".", depth + 1, at_most, out);
  }
}

}  // namespace

const json* find_fact(const json& facts, std::string_view name) {
  if (const json* found = find_whole(facts, name)) return found;
  for (const char* place : kFactPlaces)
    if (const json* found = find_whole(facts, place + std::string(name))) return found;
  return nullptr;
}

std::string fact_in_expression(std::string_view name) {
  if (!name.empty() && is_letter(name.front()) && std::all_of(name.begin(), name.end(), is_of_word) &&
      !is_reserved(name))
    return std::string(name);
  std::string out = "`";
  for (const char c : name) {
    if (c == '`' || c == '\\') out += '\\';
    out += c;
  }
  return out + "`";
}

std::vector<std::string> fact_names(const json& facts, size_t at_most) {
  std::vector<std::string> out;
  if (facts.is_object()) add_names(facts, "", 1, at_most, out);
  return out;
}

}  // namespace kinora::core
