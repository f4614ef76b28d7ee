#include "core/base/expression.hpp"

#include <array>
#include <functional>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const json kFacts = json::parse(R"({
  "duration_s": 2.5, "width": 640, "damaged": false, "caption": "a 'sea' at dusk", "größe": 1, "nothing": null,
  "empty": " ", "infinite": "-inf", "id": 9007199254740993, "huge": 18446744073709551615,
  "tags": ["sea", 7, true], "user": {"rating": "4", "padded": " -5e-1\t"},
  "scores": {"filter.blur": 20, "filter.flow": 0.5, "filter.flow.p10": 0.1, "filter": {"deep": 3}}})");

TEST(Expression, HoldsOrNot) {
  const std::vector<std::pair<const char*, bool>> cases = {
      {"duration_s > 2", true},
      {"duration_s>2.5", false},
      {"duration_s >= 2.5", true},
      {"duration_s<=2.4999", false},
      {"width == 640.0", true},
      {"width != 640", false},
      {"width > -1e3 and width < 1", false},
      {"scores.filter.blur >= 20", true},
      {"scores.filter.flow == 0.5", true},
      {"scores.filter.flow.p10 == 0.1", true},
      {"scores.filter.deep == 3", true},
      {"größe == 1", true},
      {"id == 9007199254740993", true},
      {"id == 9007199254740992", false},
      {"huge == 18446744073709551615", true},
      {"huge > 18446744073709551614", true},
      {"huge < 0", false},
      {"damaged == false", true},
      {"damaged != true", true},
      {"caption contains \"sea\"", true},
      {"caption contains '\\'sea\\' at'", true},
      {"caption contains 'Sea'", false},
      {"tags contains 'sea'", true},
      {"tags contains 7", true},
      {"tags contains 'se'", false},
      {"user.rating == '4'", true},
      {"user.rating == ' 4'", false},
      {"user.rating >= 4", true},
      {"user.rating < 3.5", false},
      {"user.rating != 4", false},
      {"user.rating in [5, 4.0]", true},
      {"user.padded == -0.5", true},
      {"width == '640'", false},
      {"user.rating < '5'", true},
      {"key == 'a-1'", true},
      {"key in ['b', 'a-1']", true},
      {"key contains 'a-'", true},
      {"has(key)", true},
      {"width in [1, 640]", true},
      {"width in ['640', true]", false},
      {"has(scores)", true},
      {"has(scores.filter.blur)", true},
      {"has(scores.filter)", true},
      {"has(scores.blur)", false},
      // short names: scores.filter, then scores, then user; a fact of that very name comes first
      {"blur >= 20 and flow == 0.5", true},
      {"flow.p10 == 0.1", true},
      {"filter.flow.p10 == 0.1", true},
      {"rating >= 4", true},
      {"deep == 3", true},
      {"blur > 20", false},
      {"has(nothing)", false},
      // not binds closest, then and, then or
      {"width == 640 or width == 1 and width == 2", true},
      {"(width == 640 or width == 1) and width == 2", false},
      {"not width == 1 and width == 640", true},
      {"not (width == 1 or width == 640)", false},
      {"not not width == 640", true}};
  for (const auto& [text, holds] : cases)
    EXPECT_EQ(Expression::parse(text).holds(kFacts, "a-1"), holds) << text;
}

TEST(Expression, AComparisonWithAMissingFactOrAnotherTypeIsFalse) {
  for (const char* by : {"==", "!=", "<", "<=", ">", ">="})
    for (const char* what :
         {"missing {} 1", "missing {} 'x'", "missing.deep {} 1", "nothing {} 1", "width {} '640'",
          "caption {} 1", "damaged {} 0", "tags {} 7", "scores {} 1", "width.deep {} 1"})
      EXPECT_FALSE(Expression::parse(fmt::format(fmt::runtime(what), by)).holds(kFacts, "k")) << what << by;
  for (const char* text : {"missing contains 'x'", "missing in ['x']", "has(missing)", "width contains 6",
                           "caption contains 1", "damaged != 'x'", "caption == true"})
    EXPECT_FALSE(Expression::parse(text).holds(kFacts, "k")) << text;
  for (const json& none : {json(), json::array({1}), json("text"), json(3)}) {
    EXPECT_FALSE(Expression::parse("width != 1").holds(none, "k"));
    EXPECT_TRUE(Expression::parse("key == 'k' and not has(width)").holds(none, "k"));
  }
}

TEST(Expression, AShortNameIsLookedUpInScoresOfFiltersThenScoresThenUser) {
  json facts = json::parse(R"({"x": 1, "scores": {"filter.x": 2, "x": 3}, "user": {"x": 4}})");
  const auto x = [&] { return find_fact(facts, "x") ? find_fact(facts, "x")->get<int>() : 0; };
  EXPECT_EQ(x(), 1);
  facts.erase("x");
  EXPECT_EQ(x(), 2);
  facts["scores"].erase("filter.x");
  EXPECT_EQ(x(), 3);
  facts["scores"].erase("x");
  EXPECT_EQ(x(), 4);
  facts["user"].erase("x");
  EXPECT_EQ(x(), 0);
}

TEST(Expression, NamesAnyFactInBackquotes) {
  const json facts = {{"has", 1},
                      {"true", 2},
                      {"2024", 3},
                      {"scores", {{"filter.a/b", 4}}},
                      {"user", {{"quality score", "5"}, {"a (v2)", 6}, {"a`b\\c", 7}, {"x > 1 and y", 8}}}};
  for (const char* text :
       {"`has` == 1 and has(`has`)", "`true` in [2]", "`2024` == 3", "`a/b` == 4", "`scores.filter.a/b` == 4",
        "`quality score` >= 5", "`user.quality score` == '5'", "has( `a (v2)` ) and not `a (v2)` != 6",
        "`a\\`b\\\\c` == 7", "`x > 1 and y` == 8", "`key` == 'k'"})
    EXPECT_TRUE(Expression::parse(text).holds(facts, "k")) << text;
  EXPECT_THAT(Expression::parse("`b c` > 1 and has(`a.b`)").facts(), ElementsAre("b c", "a.b"));
  EXPECT_THAT(Expression::parse("`b and c` > 1 and d > 2").conditions(),
              ElementsAre("`b and c` > 1", "d > 2"));
}

TEST(Expression, FindsEachNameThatIsWrittenForIt) {
  for (const char* word : {"blur", "scores.filter.flow.p10", "größe", "_x-1", "key"})
    EXPECT_EQ(fact_in_expression(word), word);
  for (const char* other : {"quality score", "2nd", "a (v2)", "and", "has", "true", "-x", ".x", "a`b", "a\\b",
                            "a\\", "x'y\"", " ", "a\nb", "%"}) {
    const json facts = {{"user", {{other, 1}}}};
    const auto expression = Expression::parse(fact_in_expression(other) + " == 1");
    EXPECT_TRUE(expression.holds(facts, "")) << other;
    EXPECT_THAT(expression.facts(), ElementsAre(other));
  }
}

// The column `rating` of a CSV in some clips, and of a JSONL in others.
TEST(Expression, ComparesTheValueThatEachSampleHas) {
  const std::vector<json> ratings{1, "2", 4, "4", " 5.0 ", "high", true, {4}, nullptr};
  const auto chosen = [&](const char* where) {
    std::vector<size_t> out;
    for (size_t i = 0; i < ratings.size(); ++i)
      if (Expression::parse(where).holds({{"user", {{"rating", ratings[i]}}}}, "")) out.push_back(i);
    return out;
  };
  EXPECT_THAT(chosen("rating >= 4"), ElementsAre(2, 3, 4));
  EXPECT_THAT(chosen("rating != 4"), ElementsAre(0, 1, 4));
  EXPECT_THAT(chosen("rating in [4, 2]"), ElementsAre(1, 2, 3));
  EXPECT_THAT(chosen("rating == '4'"), ElementsAre(3));
  EXPECT_THAT(chosen("rating != '4'"), ElementsAre(1, 4, 5));
}

TEST(Expression, NamesTheConditionsThatATopLevelAndJoins) {
  const auto conditions = [](const char* text) { return Expression::parse(text).conditions(); };
  EXPECT_THAT(conditions(" a > 1  and (b == 'x and y' or c < 2) and\tnot has(d) "),
              ElementsAre("a > 1", "(b == 'x and y' or c < 2)", "not has(d)"));
  EXPECT_THAT(conditions(" a > 1 or b > 2 and c > 3 "), ElementsAre("a > 1 or b > 2 and c > 3"));
  EXPECT_THAT(conditions("(a > 1 and b in [1, 2])"), ElementsAre("a > 1", "b in [1, 2]"));
  EXPECT_THAT(conditions("(a > 1 and b > 2) and c > 3"), ElementsAre("(a > 1 and b > 2)", "c > 3"));
  EXPECT_THAT(conditions("not (a > 1 and b > 2)"), ElementsAre("not (a > 1 and b > 2)"));
  EXPECT_THAT(Expression::parse("has(a) and b > 1 and (has(c) or c > 2 or key == 'k')").compared_facts(),
              ElementsAre("b", "c"));
}

TEST(Expression, FindsTheFirstConditionThatIsFalse) {
  const auto first = [](const char* text) { return Expression::parse(text).first_false(kFacts, "a-1"); };
  EXPECT_EQ(first("width == 640 and duration_s > 3 and width == 1"), 1u);
  EXPECT_EQ(first("width == 640 and duration_s > 2"), 2u);
  EXPECT_EQ(first("width == 640 or width == 1"), 1u);
  EXPECT_EQ(first("width == 641 or width == 1"), 0u);
}

TEST(Expression, NamesTheFactsThatItReads) {
  EXPECT_THAT(Expression::parse("b > 1 and not (has(a.x) or key == 'k' or b in [2])").facts(),
              ElementsAre("b", "a.x"));
  EXPECT_EQ(fact_names(json::parse(R"({"a": {"b.c": 1, "d": {}}, "e": []})")),
            (std::vector<std::string>{"a.b.c", "e"}));
  EXPECT_TRUE(fact_names(json::array({1})).empty());
}

TEST(Expression, KnowsWhichTypesAComparisonMayHoldFor) {
  const std::vector<std::tuple<const char*, json, bool>> cases = {
      {"x > 1", 0, true},
      {"x != 1", "1.5", true},
      {"x > 1", "high", false},
      {"x > 1", true, false},
      {"x == '1'", "high", true},
      {"x == '1'", 1, false},
      {"x == '1'", json::object({{"y", "1"}}), false},
      {"x == true", false, true},
      {"x == true", 1, false},
      {"x in [1, 'a']", "b", true},
      {"x in [1, 2]", "b", false},
      {"x in [1, 2]", json::array({1}), false},
      {"x contains 'a'", "b", true},
      {"x contains 'a'", json::array({1}), true},
      {"x contains 'a'", 1, false},
      {"x contains 1", "a", false},
      {"x == 1", nullptr, false}};
  for (const auto& [text, fact, may] : cases) {
    const auto all = Expression::parse(text).comparisons();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].may_hold(fact), may) << text << " of " << fact;
  }
}

TEST(Expression, NamesItsComparisonsAndTheirColumns) {
  std::vector<std::pair<std::string, size_t>> found;
  const auto parsed =
      Expression::parse("größe > 1 and (not `a b` == 'x' or has(c) or key == 'k') and d in [2, 3]");
  for (const auto& one : parsed.comparisons()) found.emplace_back(one.fact, one.column);
  EXPECT_THAT(found,
              ElementsAre(testing::Pair("größe", 1), testing::Pair("a b", 20), testing::Pair("d", 62)));
}

TEST(Expression, SaysWhatIsWrongAndWhere) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "column 1: expected the name of a fact, has(...), 'not' or '(', found the end"},
      {"blur", "column 5: expected ==, !=, <, <=, >, >=, 'in' or 'contains', found the end"},
      {"blur = 3", "column 6: expected ==, !=, <, <=, >, >=, 'in' or 'contains', found '='; write =="},
      {"blur > 3 adn x > 1", "column 10: expected 'and', 'or' or the end, found 'adn', did you mean 'and'?"},
      {"blur > 3 && x > 1", "found '&&'; write and"},
      {"größe > 3 || x > 1", "column 11: expected 'and', 'or' or the end, found '||'; write or"},
      {"!blur > 3", "found '!'; write not"},
      {"caption contans 'x'", "found 'contans', did you mean 'contains'?"},
      {"caption == dog", "expected a number, a text in quotes, true or false, found 'dog'"},
      {"damaged == True", "found 'True', did you mean 'true'?"},
      {"damaged < true", "column 11: true and false are compared by == and !="},
      {"3 < blur", "column 1: expected the name of a fact"},
      {"1 < blur < 3", "column 1"},
      {"film not in ['a']",
       "column 6: expected ==, !=, <, <=, >, >=, 'in' or 'contains', found 'not'; 'not' comes first: not "
       "film in "
       "[...]"},
      {"0.1 < blur < 30",
       "column 1: expected the name of a fact, has(...), 'not' or '(', found '0.1'; the fact comes first: "
       "blur > 0.1 and blur < 30"},
      {"x > 1 and 20 >= blur", "found '20'; the fact comes first: blur <= 20"},
      {"blur > 1 < 3", "column 10: expected 'and', 'or' or the end, found '<'"},
      {"blur > 1e999", "found '1e999'"},
      {"blur > -inf", "found '-inf'"},
      {"blur > 20px", "found '20px'"},
      {"blur > 0x10", "found '0x10'"},
      {"caption == 'x", "column 12: the text that begins here has no closing quote"},
      {"key in 'a'", "expected a list such as [\"a\", \"b\"], found the text 'a'"},
      {"key in []", "expected a number, a text in quotes"},
      {"key in ['a' 'b']", "expected ',' or ']', found the text 'b'"},
      {"has blur", "column 5: expected '(' and the name of a fact, found 'blur'"},
      {"has('blur')", "column 5: expected the name of a fact"},
      {"(blur > 1", "expected 'and', 'or' or ')', found the end"},
      {"blur > 1)", "expected 'and', 'or' or the end, found ')'"},
      {"and > 1", "found 'and'; a fact called 'and' is written `and`"},
      {"has > 1",
       "column 5: expected '(' and the name of a fact, found '>'; a fact called 'has' is written `has`"},
      {"not > 1", "column 5: expected a condition, found '>'; a fact called 'not' is written `not`"},
      {"blur > 1 and quality score >= 3",
       "column 22: expected ==, !=, <, <=, >, >=, 'in' or 'contains', found 'score'; a fact called 'quality "
       "score' is written `quality score`"},
      {"2nd >= 3",
       "column 1: expected the name of a fact, has(...), 'not' or '(', found '2nd'; a fact called "
       "'2nd' is written `2nd`"},
      {"not a (v2) in [1]", "found '('; a fact called 'a (v2)' is written `a (v2)`"},
      {"a/b contains 'x'", "found '/'; a fact called 'a/b' is written `a/b`"},
      {"user.`quality score` > 1",
       "found `quality score`; a fact called 'user.quality score' is written `user."},
      {"'quality score' > 1",
       "expected the name of a fact, found the text 'quality score'; a name is written without quotes: "
       "`quality score`"},
      {"has(quality score) and x > 1", "column 13: expected ')', found 'score'; a name that is not one word"},
      {"has(2nd) and x > 1", "found '2nd'; a name that is not one word is written in backquotes"},
      {"`blur > 1", "column 1: the name that begins here has no closing backquote"},
      {"x > 1 and `` > 1", "column 11: the backquotes have no name in them"},
      {"x == `blur`", "column 6: expected a number, a text in quotes, true or false, found `blur`"},
      {"blur > 1 and", "column 13: expected the name of a fact"}};
  for (const auto& [text, words] : cases)
    EXPECT_THAT(test::refusal([&] { Expression::parse(text); }), HasSubstr(words)) << text;
}

TEST(Expression, IsBounded) {
  const auto nested = [](size_t levels) {
    return std::string(levels, '(') + "a > 1" + std::string(levels, ')');
  };
  EXPECT_TRUE(Expression::parse(nested(60)).holds({{"a", 2}}, ""));
  EXPECT_THAT(test::refusal([&] { Expression::parse(nested(20'000)); }), HasSubstr("levels deep"));
  std::string many = "a > 1";
  for (int i = 0; i < 6000; ++i) many += " or a>1";
  EXPECT_TRUE(Expression::parse(many).holds({{"a", 2}}, ""));
  EXPECT_THAT(test::refusal([&] { Expression::parse(many + many); }), HasSubstr("at most 65536"));
  std::string nots;
  for (int i = 0; i < 10'000; ++i) nots += "not ";
  EXPECT_THAT(test::refusal([&] { Expression::parse(nots + "a > 1"); }), HasSubstr("levels deep"));
}

// A random expression as text, and what it means, as C++.
struct Made {
  std::string text;
  std::function<bool(const json& facts)> holds;
};

class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed) {}

  uint32_t below(uint32_t n) { return random_() % n; }

  // binds: 0 where any expression may come, 1 below `and`, 2 below `not`.
  Made make(int depth, int binds = 0) {
    const uint32_t kind = depth == 0 ? 3 : below(5);
    if (kind < 2) return inner(depth, kind == 0, binds);
    if (kind == 2) {
      Made of = make(depth - 1, 2);
      return {"not" + space() + of.text, [f = of.holds](const json& facts) { return !f(facts); }};
    }
    return leaf();
  }

  // A value for each fact, or none.
  json facts() {
    json out = json::object();
    for (const char* name : {"n", "m"})
      if (below(4) > 0) out[name] = number();
    if (below(4) > 0) out["o"]["n"] = below(3);
    if (below(4) > 0) out["t"] = text();
    if (below(4) > 0) out["l"] = {text(), number()};
    return out;
  }

 private:
  Made inner(int depth, bool is_or, int binds) {
    std::vector<Made> of;
    for (uint32_t i = 2 + below(2); i > 0; --i) of.push_back(make(depth - 1, is_or ? 0 : 1));
    Made out;
    for (const auto& one : of)
      out.text += (out.text.empty() ? "" : space() + (is_or ? "or" : "and") + space()) + one.text;
    if (binds > (is_or ? 0 : 1) || below(4) == 0) out.text = "(" + out.text + ")";
    out.holds = [of, is_or](const json& facts) {
      size_t count = 0;
      for (const auto& one : of) count += one.holds(facts) ? 1 : 0;
      return is_or ? count > 0 : count == of.size();
    };
    return out;
  }

  Made leaf() {
    const uint32_t kind = below(4);
    const std::string name = std::vector<std::string>{"n", "m", "o.n", "t"}[below(4)];
    // Pointers of JSON find the facts here.
    const auto of = [at = "/" + std::string(name == "o.n" ? "o/n" : name)](const json& facts) {
      const json::json_pointer pointer(at);
      return facts.contains(pointer) ? facts.at(pointer) : json();
    };
    if (kind == 0) return {"has(" + name + ")", [of](const json& facts) { return !of(facts).is_null(); }};
    if (kind == 1) return part();
    if (kind == 2) {
      const json a = value(), b = value();
      return {name + " in [" + written(a) + ", " + written(b) + "]",
              [of, a, b](const json& facts) { return of(facts) == a || of(facts) == b; }};
    }
    const json value = this->value();
    const uint32_t by = below(6);
    return {name + space() + std::vector<std::string>{"==", "!=", "<", "<=", ">", ">="}[by] + " " +
                written(value),
            [of, value, by](const json& facts) {
              const json found = of(facts);
              if (found.is_number() != value.is_number() || found.is_string() != value.is_string())
                return false;
              const int order = found < value ? -1 : value < found ? 1 : 0;
              return std::array{order == 0, order != 0, order<0, order <= 0, order> 0, order >= 0}[by];
            }};
  }

  Made part() {
    const json wanted = value();
    return {"l contains " + written(wanted), [wanted](const json& facts) {
              if (!facts.contains("l")) return false;
              return facts["l"][0] == wanted || facts["l"][1] == wanted;
            }};
  }

  std::string space() { return std::string(1 + below(2), ' '); }
  json number() { return below(2) ? json(below(3)) : json(below(5) * 0.5); }
  std::string text() { return std::string(1, static_cast<char>('a' + below(3))); }
  json value() { return below(2) ? number() : json(text()); }
  std::string written(const json& value) {
    return value.is_string() && below(2) ? "'" + value.get<std::string>() + "'" : value.dump();
  }

  std::mt19937 random_;
};

TEST(Expression, MeansWhatAnIndependentEvaluatorSays) {
  size_t holds = 0, all = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Maker maker(seed);
    const Made made = maker.make(4);
    const auto expression = Expression::parse(made.text);
    for (int i = 0; i < 10; ++i, ++all) {
      const json facts = maker.facts();
      ASSERT_EQ(expression.holds(facts, "k"), made.holds(facts)) << made.text << " of " << facts.dump();
      holds += made.holds(facts) ? 1 : 0;
    }
  }
  EXPECT_GT(holds, all / 5);
  EXPECT_LT(holds, all - all / 5);
}

// Pieces of expressions in any order: an expression, or an error that names a column.
TEST(Expression, SurvivesHostileText) {
  const std::vector<std::string> pieces{"a",  "key", "and", "or",   "not", "has",  "in",   "contains", "(",
                                        ")",  "[",   "]",   ",",    "==",  "=",    "<",    "!",        "'x'",
                                        "\"", "'",   "1",   "-",    "1.",  "e9",   "true", "\\",       "#",
                                        "é",  ".",   "a.b", "\xff", "`",   "`a b`"};
  std::mt19937 random(1);
  size_t sound = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string text;
    for (uint32_t n = random() % 12; n > 0; --n)
      text += pieces[random() % pieces.size()] + (random() % 3 ? " " : "");
    try {
      Expression::parse(text).holds(kFacts, "k");
      ++sound;
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), KINORA_ERROR_INVALID);
      ASSERT_THAT(e.what(), HasSubstr("column ")) << text;
    }
  }
  EXPECT_GT(sound, 10u);
}

}  // namespace
}  // namespace kinora::core
