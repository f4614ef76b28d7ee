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
  // Whether it names this fact, in has() too.
  bool reads(const std::string& fact) const;

 private:
  std::optional<Expression> expression_;
  std::vector<std::string> rules_;
};

// Finds out which of the facts that an option names are there: a name that no clip has is misspelt.
class FactsSeen {
 public:
  FactsSeen(std::string option, std::vector<std::string> names)
      : option_(std::move(option)), names_(std::move(names)), has_(names_.size()) {}

  void add(const nlohmann::json& facts);
  void add(const FactsSeen& other);
  // Throws Error(KINORA_ERROR_INVALID) if clips were seen and none has one of the names: "where: no clip has the fact
  // 'blurr', did you mean 'blur'?".
  void require() const;

 private:
  std::string option_;
  std::vector<std::string> names_;
  std::vector<bool> has_;
  std::set<std::string> others_;  // facts of clips that lack one, for the message
  size_t clips_ = 0;
};

}  // namespace kinora::core
