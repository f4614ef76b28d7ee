// The condition `where` of select and shard jobs and of `kinora search`: an expression over the facts of clips
// (core/base/expression.hpp), and the check that the facts which it names are there.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/expression.hpp"

namespace kinora::core {

class Where {
 public:
  // text: "" holds for every clip. Throws Error(KINORA_ERROR_INVALID): "where: column 7: expected ...".
  explicit Where(const std::string& text);

  // [any-thread] Place in rules() of the first condition that does not hold; nothing: all hold.
  std::optional<size_t> removed_by(const nlohmann::json& facts, std::string_view key) const;
  // The conditions that a top-level `and` joins, as the file writes them; long ones are cut.
  const std::vector<std::string>& rules() const { return rules_; }
  // Names of the facts that are compared, without those in has(), and without the tags, which people may still give.
  std::vector<std::string> facts() const;
  // All comparisons with facts, those with tags, too.
  std::vector<Expression::Compared> comparisons() const;
  // Whether it names this fact, in has() too.
  bool reads(const std::string& fact) const;

 private:
  std::optional<Expression> expression_;
  std::vector<std::string> rules_;
};

// Finds out which of the facts that an option names are there, since a name that no clip has is misspelt, and
// which comparisons of a condition no clip can satisfy, since the fact is of another type than the value.
class FactsSeen {
 public:
  FactsSeen(std::string option, std::vector<std::string> names)
      : option_(std::move(option)), names_(std::move(names)), has_(names_.size()) {}

  explicit FactsSeen(const Where& where);

  void add(const nlohmann::json& facts);
  // A value that some clip has under this name, which may be a short one.
  void add_value(const std::string& name, const nlohmann::json& value);
  void add(const FactsSeen& other);
  // Throws Error(KINORA_ERROR_INVALID) if clips were seen and none has one of the names: "where: no clip has
  // the fact 'blurr', did you mean 'blur'?", or none has a value that can be compared: "where: column 1: blur
  // is a number, such as 41.2, so it is never compared with '20'; write a number without quotes".
  void require() const;

 private:
  struct Typed {
    Expression::Compared comparison;
    bool may_hold = false;      // for a clip that was seen
    nlohmann::json other = {};  // the first value of another type; null: none
    void see(const nlohmann::json& value);
  };
  void require_types() const;

  std::string option_;
  std::vector<std::string> names_;
  std::vector<bool> has_;
  std::set<std::string> others_;  // facts of clips that lack one, for the message
  size_t clips_ = 0;
  std::vector<Typed> typed_;
};

}  // namespace kinora::core
