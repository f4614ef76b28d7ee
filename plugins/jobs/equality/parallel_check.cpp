// `kinora plugins check-parallel`: compares a strategy with one process on trials, and names the rule that a
// difference probably breaks.
#include "plugins/jobs/equality/parallel_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "core/plugin/service.hpp"
#include "core/runtime/place.hpp"
#include "core/torch/ranks/meeting.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/plugin.hpp"
#include "plugins/jobs/equality/equality.hpp"

namespace kinora::core {
namespace {

using Kind = Compared::Kind;

struct NamedTrial {
  std::string name;
  Trial trial;
  bool shares_samples = false;  // for strategies whose ranks all work on one sample
};

// One case for each feature that strategies tend to get wrong.
std::vector<NamedTrial> trials_of(const std::string& use) {
  Trial first{.parallel = "[" + use + "]", .micro = 2, .steps = 2};
  Trial recomputed = first;
  recomputed.parallel = "[" + use + ", 'recompute']";
  Trial odd{.parallel = first.parallel, .frames = 3, .rows = 10, .cols = 14, .steps = 1};
  odd.rule.causal = true;
  Trial packed{.parallel = first.parallel, .steps = 1, .packed = {{3, 10, 14}, {1, 6, 8}, {2, 10, 4}}};
  return {{"4 frames of 2 x 3 tokens", first},
          {"blocks recomputed in backward", recomputed},
          {"3 frames of 5 x 7, causal", odd},
          {"a packed row of 3 videos", packed, true}};
}

const char* column_of(Kind kind) {
  switch (kind) {
    case Kind::output:
      return "output";
    case Kind::input:
      return "inputs";
    case Kind::gradient:
      return "gradients";
    case Kind::parameter:
      return "after AdamW";
    default:
      return "loss";
  }
}

// The order in which differences are reported: later ones usually follow from the first.
int place_of(Kind kind) {
  switch (kind) {
    case Kind::held:
      return 0;
    case Kind::output:
      return 1;
    case Kind::gradient:
      return 2;
    case Kind::input:
      return 3;
    default:
      return 4;
  }
}

// The rule of abi/context.h or link.h that is probably broken.
std::string rule_of(const Compared& c, int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  const auto is = [&](double times) { return std::abs(c.times - times) < 1e-6; };
  if (c.kind == Kind::held)
    return "every number of a parameter is held once along pp, tp and the axes that a link's piece() cuts, "
           "and by "
           "every rank along the others: does the link cut along the axis that axis() names?";
  if (c.kind == Kind::output)
    return "gather() gives every rank all tokens in the one-process order; q_table and k_table tell of the "
           "tokens "
           "that q and k hold, padding has INDEX -1";
  if (ranks > 1 && is(n))
    return fmt::format(
        "it is {} times one process'. Each rank's gradient of a shared value is a partial sum, of what this "
        "rank "
        "alone computed, and the host adds them up: here each computed the whole. Does the link cut the "
        "tokens "
        "in sequence(), and does gather() give back its own part (kinora::shared, not gathered)?",
        ranks);
  if (ranks > 1 && is(1 / n))
    return fmt::format(
        "it is 1/{} of one process'. Collectives sum and never average, and nothing is scaled by the size of "
        "a "
        "group: what divides?",
        ranks);
  if (c.times == 0)
    return "the backward of a transfer is its adjoint (kinora/transfers.hpp), of a partial sum: a gather's "
           "is "
           "a scatter-sum, an exchange's the way back; what is summed there is summed once";
  return fmt::format("it is {:.6g} times one process'", c.times);
}

struct Comparison {
  std::map<std::string, double> worst;
  std::optional<Compared> wrong;
};

// Not a number is worse than any number.
double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

Comparison compare(Equality& equality, double bound) {
  Comparison out;
  equality.run([&](const Compared& c) {
    double& worst = out.worst.try_emplace(column_of(c.kind), 0).first->second;
    worst = worse(c.off, worst);
    if (c.off <= bound) return;
    if (!out.wrong || (c.step == out.wrong->step && place_of(c.kind) < place_of(out.wrong->kind)))
      out.wrong = c;
  });
  return out;
}

// JSON has no infinity.
json number(double x) { return std::isfinite(x) ? json(x) : json(std::isnan(x) ? "nan" : "inf"); }
double number(const json& x) { return x.is_string() ? (x == "nan" ? NAN : INFINITY) : x.get<double>(); }

json told(const Comparison& found, int64_t rank, int64_t ranks) {
  json out{{"worst", json::object()}};
  for (const auto& [column, off] : found.worst) out["worst"][column] = number(off);
  if (const auto& w = found.wrong)
    out["wrong"] = {{"what", w->what()},          {"off", number(w->off)}, {"rule", rule_of(*w, ranks)},
                    {"place", place_of(w->kind)}, {"step", w->step},       {"rank", rank}};
  return out;
}

// Collects from all ranks.
json together(const std::vector<std::string>& texts) {
  json out{{"worst", json::object()}};
  for (const auto& text : texts) {
    const json of_rank = json::parse(text);
    for (const auto& [column, off] : of_rank["worst"].items())
      out["worst"][column] = number(worse(number(off), number(out["worst"].value(column, json(0)))));
    const auto order = [](const json& w) {
      return std::pair(w["step"].get<int64_t>(), w["place"].get<int>());
    };
    if (of_rank.contains("wrong") &&
        (!out.contains("wrong") || order(of_rank["wrong"]) < order(out["wrong"])))
      out["wrong"] = of_rank["wrong"];
  }
  return out;
}

json tried(Runtime& runtime, const NamedTrial& named, double bound, json& layout) {
  json out{{"name", named.name}};
  Equality equality(runtime, named.trial);
  const Parallelism& p = equality.parallel();
  for (const char* axis : {"pp", "dp", "fsdp", "cfg", "cp", "tp"})
    if (const int64_t size = p.group(axis).size; size > 1) layout[axis] = size;
  if (named.shares_samples && p.data_size() > 1) {
    out["skipped"] = "the ranks hold different samples";
    return out;
  }
  try {
    const Comparison found = compare(equality, bound);
    out.update(together(Exchange(p.group("world")).gather(told(found, p.rank(), p.world()).dump())));
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_UNSUPPORTED) throw;
    out["skipped"] = e.what();  // on every rank: a strategy rejects shapes, which all ranks share
  }
  return out;
}

json compared(Runtime& runtime, const std::string& strategy, double bound) {
  const LaunchPlace place = here();
  json out{{"ranks", place.world}, {"layout", json::object()}, {"trials", json::array()}};
  for (auto& trial : trials_of(strategy)) {
    // A rendezvous file serves one world only.
    const std::string meeting = place.rendezvous + "." + std::to_string(out["trials"].size());
    setenv("KINORA_RENDEZVOUS", meeting.c_str(), 1);
    trial.trial.collective = "{ use = 'gloo', check = true }";
    out["trials"].push_back(tried(runtime, trial, bound, out["layout"]));
  }
  return out;
}

}  // namespace

class ParallelCheckOnTrials final : public ParallelCheck {
 public:
  using Interface = ParallelCheck;
  static constexpr const char* kHelp = "Compares a parallel strategy with one process, on small trials";
  json compare(Runtime& runtime, const std::string& strategy, double bound) const override {
    return with_plain_errors([&] { return compared(runtime, strategy, bound); });
  }
};

}  // namespace kinora::core

KINORA_SERVICE(ParallelCheckOnTrials)
KINORA_PLUGIN(ParallelCheckOnTrials)
