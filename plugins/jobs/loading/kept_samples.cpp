#include "plugins/jobs/loading/kept_samples.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/expression.hpp"
#include "plugins/jobs/loading/held_out.hpp"
#include "plugins/jobs/loading/scan_samples.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

class Selection {
 public:
  Selection(const ShardSet& set, const DataInput& input, const FactsOf& facts)
      : set_(set), input_(input), facts_(facts) {
    if (!input.where.empty()) where_ = Expression::parse(input.where);
  }

  std::vector<std::vector<uint32_t>> kept() {
    std::vector<std::vector<uint32_t>> out(set_.names().size());
    uint64_t of_part = 0, kept = 0;
    scan_samples<OfShard>(
        set_, "select", [&](const SampleShard& shard, uint64_t i, OfShard& of) { look(shard, i, of); },
        [&](size_t number, OfShard of) {
          of_part += of.of_part;
          kept += of.kept.size();
          if (unlike_.empty()) unlike_ = std::move(of.unlike);
          of.kept.shrink_to_fit();
          out[number] = std::move(of.kept);
        });
    if (kept == 0) refuse(of_part);
    return out;
  }

 private:
  struct OfShard {
    std::vector<uint32_t> kept;
    uint64_t of_part = 0;
    std::string unlike;  // which facts the first sample lacks that `where` does not hold for
  };

  void look(const SampleShard& shard, uint64_t i, OfShard& of) const {
    const std::string key = shard.key(i);
    const double share = hash_share(key);
    if (share < input_.part.first || share >= input_.part.second) return;
    ++of.of_part;
    if (where_) {
      const json facts = facts_(shard, i, key);
      const bool holds = where_->holds(facts, key);
      if (!holds && of.unlike.empty()) of.unlike = lacking(facts, key);
      if (!holds) return;
    }
    of.kept.push_back(static_cast<uint32_t>(i));
  }

  // "; the sample 'a' has no fact 'blur' (its facts: caption, scores.filter.blur)", or "" if it has all.
  std::string lacking(const json& facts, const std::string& key) const {
    for (const auto& name : where_->facts())
      if (!find_fact(facts, name))
        return fmt::format("; the sample '{}' has no fact '{}' (its facts: {})", key, name,
                           fmt::join(fact_names(facts), ", "));
    return "";
  }

  [[noreturn]] void refuse(uint64_t of_part) const {
    std::string left = fmt::format("{}: no sample is left of {}", set_.path(), set_.size());
    if (input_.part != std::pair<double, double>{0, 1})
      left += fmt::format("; part = [{}, {}] leaves {}", input_.part.first, input_.part.second, of_part);
    if (where_ && of_part > 0)
      left += fmt::format("; where = \"{}\" holds for none of {}{}", input_.where, of_part, unlike_);
    throw Error(KINORA_ERROR_INVALID, left + "; change the condition");
  }

  const ShardSet& set_;
  const DataInput& input_;
  const FactsOf& facts_;
  std::optional<Expression> where_;
  std::string unlike_;
};

}  // namespace

std::vector<std::vector<uint32_t>> kept_samples(const ShardSet& set, const DataInput& input,
                                                const FactsOf& facts) {
  return Selection(set, input, facts).kept();
}

}  // namespace kinora::core
