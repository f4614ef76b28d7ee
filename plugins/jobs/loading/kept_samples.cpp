#include "plugins/jobs/loading/kept_samples.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/expression.hpp"
#include "core/base/quantity.hpp"
#include "plugins/jobs/loading/held_out.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

class Selection {
 public:
  Selection(const ShardSet& set, const DataInput& input, const FactsOf& facts)
      : set_(set), input_(input), facts_(facts) {
    if (!input.where.empty()) where_ = Expression::parse(input.where);
  }

  KeptSamples kept() {
    KeptSamples out;
    out.numbers.resize(set_.names().size());
    uint64_t kept = 0;
    out.damaged = scan_samples<OfShard>(
        set_, "select", [&](const SampleShard& shard, uint64_t i, OfShard& of) { look(shard, i, of); },
        [&](size_t number, OfShard of) {
          out.without_part += of.without_part;
          out.without_where += of.without_where;
          kept += of.kept.size();
          if (unlike_.empty()) unlike_ = std::move(of.unlike);
          of.kept.shrink_to_fit();
          out.numbers[number] = std::move(of.kept);
        });
    if (kept == 0) refuse(out);
    return out;
  }

 private:
  struct OfShard {
    std::vector<uint32_t> kept;
    uint64_t without_part = 0, without_where = 0;
    std::string unlike;  // which facts the first sample lacks that `where` does not hold for
  };

  void look(const SampleShard& shard, uint64_t i, OfShard& of) const {
    const std::string key = shard.key(i);
    const double share = hash_share(key);
    if (share < input_.part.first || share >= input_.part.second) {
      ++of.without_part;
      return;
    }
    if (where_) {
      const json facts = facts_(shard, i, key);
      const bool holds = where_->holds(facts, key);
      if (!holds && of.unlike.empty()) of.unlike = lacking(facts, key);
      of.without_where += holds ? 0 : 1;
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

  [[noreturn]] void refuse(const KeptSamples& of) const {
    std::string left = fmt::format("{}: no sample is left of {}", set_.path(), set_.size());
    if (input_.part != std::pair<double, double>{0, 1})
      left += fmt::format("; part = [{}, {}] leaves {}", input_.part.first, input_.part.second,
                          set_.size() - of.damaged.size() - of.without_part);
    if (of.without_where > 0)
      left += fmt::format("; where = \"{}\" holds for none of {}{}", input_.where, of.without_where, unlike_);
    if (!of.damaged.empty())
      left += fmt::format("; {} damaged, the first: {}",
                          counted(static_cast<int64_t>(of.damaged.size()), "is", "are"), of.damaged[0].why);
    throw Error(KINORA_ERROR_INVALID, left + "; change the condition");
  }

  const ShardSet& set_;
  const DataInput& input_;
  const FactsOf& facts_;
  std::optional<Expression> where_;
  std::string unlike_;
};

}  // namespace

KeptSamples kept_samples(const ShardSet& set, const DataInput& input, const FactsOf& facts) {
  return Selection(set, input, facts).kept();
}

}  // namespace kinora::core
