// A condition on the facts of a sample, written as text:
//
//   scores.filter.blur >= 20 and duration_s > 2
//   not has(caption) or tags contains 'sea' or key in ["a-1", "a-2"]
//
//   FACT == VALUE        also != < <= > >=; a value is a number, a text in single or double quotes, true or false
//   FACT in [VALUE, ...]
//   FACT contains VALUE  a text contains another, a list contains an element
//   has(FACT)
//   not, and, or, ( )    `not` binds closest, then `and`
//
// Dots in the name of a fact lead into objects, and `key` is the key of the sample. A name that no fact has
// is looked up in `scores.filter`, then in `scores`, then in `user`: `blur` is `scores.filter.blur`. A name
// that is not one word, or a word of this language, is written whole in backquotes: `quality score`,
// `user.2nd`, `has`. A comparison is false if the fact is missing, null or of another type than the value,
// also with !=. The types are those of each sample's own value: compared with a number, a text that is a
// number counts as one, as those of a CSV, and any other text is of another type. In quotes and backquotes, a
// backslash takes the next character as it is.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

class Expression {
 public:
  // Throws Error(KINORA_ERROR_INVALID): "column 7: expected a number, ..., found 'x'".
  static Expression parse(std::string_view text);
  // [any-thread] facts: of one sample; a value that is not an object has none. Throws nothing.
  bool holds(const nlohmann::json& facts, std::string_view key) const;
  // Names of the facts that it reads, without `key`.
  const std::vector<std::string>& facts() const { return facts_; }
  // The facts that it compares with a value: without the ones that are only in has().
  const std::vector<std::string>& compared_facts() const { return compared_; }
  // FACT == VALUE and the like, where it is written and with what.
  struct Compared {
    std::string fact;
    size_t column = 0;  // of the fact's name, from 1
    bool is_contains = false;
    std::vector<nlohmann::json> values;
    // Whether it holds for any value of the type that this one has; no other fact of it satisfies it.
    bool may_hold(const nlohmann::json& fact) const;
  };
  // All its comparisons, without those of `key`.
  const std::vector<Compared>& comparisons() const { return comparisons_; }
  // The texts that a top-level `and` joins; the whole expression if there is none.
  const std::vector<std::string>& conditions() const { return conditions_; }
  // [any-thread] Place of the first of conditions() that does not hold; their number if all hold.
  size_t first_false(const nlohmann::json& facts, std::string_view key) const;

  struct Node;

 private:
  std::shared_ptr<const Node> root_;
  std::vector<std::string> facts_, compared_, conditions_;
  std::vector<Compared> comparisons_;
};

// Where a short name is looked up, in this order.
inline constexpr std::array kFactPlaces{"scores.filter.", "scores.", "user."};

// The fact with this name, which may be a short one (above); null if there is none. Names of members may contain dots
// themselves: "scores.filter.blur" is the member "filter.blur" of "scores".
const nlohmann::json* find_fact(const nlohmann::json& facts, std::string_view name);

// The name of a fact as an expression writes it: blur, `quality score`.
std::string fact_in_expression(std::string_view name);

// Names by which find_fact() finds values that are not objects, for messages: the first few.
std::vector<std::string> fact_names(const nlohmann::json& facts, size_t at_most = 32);

}  // namespace kinora::core
