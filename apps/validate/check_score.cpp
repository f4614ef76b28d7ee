// Checks of scores, on two groups of samples in float64.
#include <cmath>

#include "apps/validate/trial_tensors.hpp"
#include "core/runtime/call.hpp"
#include "kinora/abi/score.h"

namespace kinora {
namespace score_checks_of {
namespace {

constexpr int64_t kSamples = 6;

class Score {
 public:
  explicit Score(const PluginTrial& t) : t_(t), options_(t.options()), made_(t, options_) {}

  // Samples that depend on the seed and `group` only.
  TrialInputs samples(uint64_t group) const {
    TrialInputs out;
    uint64_t seed = t_.subject.seed + 100 * group;
    for (const auto& spec : t_.spec.inputs)
      if (spec.is_in_use(options_.values()))
        out[spec.name] =
            trial_input(spec, options_,
                        {{"B", kSamples}, {"N", kSamples}, {"C", 3}, {"D", 3}, {"H", 16}, {"W", 16}}, ++seed);
    return out;
  }
  int32_t update(const TrialInputs& in) const {
    const auto given = named(in);
    return made_.api.update(made_.self, &run_, given.data(), given.size());
  }
  void need_unknown() { run_.needs = kUnknownNeed; }
  // The numbers of n samples. Throws Skipped if a sample alone has none.
  std::vector<double> each(const TrialInputs& in, int64_t n) const {
    if (!made_.api.each) throw Skipped{"its table has no each()"};
    const auto given = named(in);
    std::vector<double> out(static_cast<size_t>(n), NAN);
    watch().now("each()");
    require_taken(made_.api.each(made_.self, &run_, given.data(), given.size(), out.data(), out.size()),
                  "each() of samples in plugin.toml's shapes");
    for (const double number : out)
      if (!std::isfinite(number))
        throw Error(KINORA_ERROR_FAILED,
                    fmt::format("each() gives {} as the number of an ordinary sample", number));
    return out;
  }
  // Throws Skipped if samples in the manifest's shapes are none of this score.
  void add(uint64_t group) const {
    int32_t status = KINORA_OK;
    answer("update()", [&] { return status = update(samples(group)); });
    require_taken(status, "update() of samples in plugin.toml's shapes");
  }
  Tensor state() const {
    kinora_tensor out = nullptr;
    require_ok([&] { return made_.api.state(made_.self, &out); }, "state()");
    const Tensor made = Tensor::adopt(out);
    if (!made.defined() || made.dim() != 1 || made.dtype() != KINORA_DTYPE_FLOAT64)
      throw Error(KINORA_ERROR_FAILED, "state() gave no float64 [S]");
    return made;
  }
  int32_t merge(const Tensor& state) const { return made_.api.merge(made_.self, state.get()); }
  // Merges the state of another instance.
  void take(const Score& other) const {
    const Tensor state = other.state();
    require_ok([&] { return merge(state); }, "merge()");
  }
  // The manifest's outputs.
  std::vector<double> compute() const {
    std::vector<double> out(t_.spec.outputs.size());
    require_ok([&] { return made_.api.compute(made_.self, out.data(), out.size()); }, "compute()");
    return out;
  }

 private:
  const PluginTrial& t_;
  core::Options options_;
  core::Call call_;
  kinora_run run_ = core::run_of(call_);
  TrialInstance<kinora_score> made_;
};

void require_same(const PluginTrial& t, const std::vector<double>& found, const std::vector<double>& expected,
                  const std::string& why) {
  for (size_t i = 0; i < expected.size(); ++i)
    if (!(std::abs(found[i] - expected[i]) <= 1e-9 * std::max(1.0, std::abs(expected[i]))))
      throw Error(KINORA_ERROR_FAILED, fmt::format("{} is {:.12g}, expected {:.12g}: {}",
                                                   t.spec.outputs[i].name, found[i], expected[i], why));
}

std::string check_merged(PluginTrial& t) {
  const Score all(t), first(t), second(t), merged(t);
  all.add(0);
  all.add(1);
  first.add(0);
  second.add(1);
  const auto expected = all.compute();
  for (const double v : expected)
    if (!std::isfinite(v))
      throw Error(KINORA_ERROR_FAILED, fmt::format("compute() of ordinary samples is {}", v));
  for (const auto* one : {&first, &second}) merged.take(*one);
  require_same(t, merged.compute(), expected,
               "the merged states of two instances give the numbers of one that saw all samples");
  first.take(second);
  require_same(t, first.compute(), expected,
               "an instance that merges the later samples of another gives the numbers of one that saw all");
  return "";
}

std::string check_compute(PluginTrial& t) {
  const Score one(t), other(t), unasked(t);
  for (const auto* score : {&one, &other, &unasked}) score->add(0);
  const auto before = one.compute();
  if (one.compute() != before || other.compute() != before)
    throw Error(
        KINORA_ERROR_FAILED,
        "compute() of the same samples gives other numbers the second time or by another instance; it "
        "reads the statistics and changes nothing");
  one.add(1);
  unasked.add(1);
  require_same(t, one.compute(), unasked.compute(),
               "compute() changes nothing, and more samples may follow it");
  return "";
}

// Throws Error if a call that failed has changed the numbers.
void require_unchanged(const PluginTrial& t, const Score& score, const std::vector<double>& before,
                       const std::string& why, const std::string& what) {
  if (!why.empty())
    require_same(t, score.compute(), before,
                 what + " returned an error, which leaves the statistics unchanged");
}

std::string check_inputs(PluginTrial& t) {
  const Score usual(t);
  usual.add(0);
  with_hostile_inputs(usual.samples(1), [&](const std::string& what, const TrialInputs& in) {
    const Score score(t);
    score.add(0);
    const auto before = score.compute();
    const auto why = answer("update() " + what, [&] { return score.update(in); });
    require_unchanged(t, score, before, why, "update() " + what);
  });
  const auto before = usual.compute();
  for (const auto& [what, state] : hostile_tensors(usual.state())) {
    const Score score(t);
    score.add(0);
    const auto why = answer("merge() of a state " + what, [&] { return score.merge(state); });
    require_unchanged(t, score, before, why, "merge() of a state " + what);
    if (why.empty() && (what == "of no dimension" || what == "of int64" || what == "of shape [7, 3]"))
      throw Error(KINORA_ERROR_FAILED,
                  "merge() takes a state " + what +
                      "; return KINORA_ERROR_INVALID unless it is a float64 [S] of state()");
  }
  return "";
}

// A difference that rounding in float32 explains is none.
void require_alike(double found, double expected, const std::string& what) {
  if (!(std::abs(found - expected) <= 1e-5 * std::max(1.0, std::abs(expected))))
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format("each() gives {:.9g}, {} is {:.9g}; a sample's number depends on this sample alone",
                    found, what, expected));
}

std::string check_each(PluginTrial& t) {
  const Score score(t), first(t);
  const TrialInputs all = score.samples(1);
  for (const auto& [name, x] : all)
    if (x.dim() == 0 || x.sizes()[0] != kSamples)
      throw Skipped{fmt::format("dimension 0 of {} does not count samples", name)};
  const auto part = [&](int64_t i) {
    TrialInputs out;
    for (const auto& [name, x] : all) out[name] = x.narrow(0, i, 1);
    return out;
  };
  score.add(0);
  const auto before = score.compute(), together = score.each(all, kSamples);
  require_same(t, score.compute(), before, "each() leaves the statistics as they are");
  for (int64_t i = 0; i < kSamples; ++i)
    require_alike(together[static_cast<size_t>(i)], score.each(part(i), 1)[0],
                  fmt::format("that of sample {} without the others", i));
  require_ok([&] { return first.update(part(0)); }, "update() of one sample");
  require_alike(together[0], first.compute()[0], "compute() after this sample");
  return "";
}

std::string check_unknown_needs(PluginTrial& t) {
  Score score(t);
  score.add(0);
  score.need_unknown();
  require_refused([&] { return score.update(score.samples(1)); },
                  "update() of a run with an unknown bit of `needs`");
  return "";
}

std::string check_handles(PluginTrial& t) {
  require_no_handles(t.subject.plugin->tier, [&] {
    const Score score(t), other(t);
    score.add(0);
    other.add(1);
    score.take(other);
    score.compute();
    for (const auto& [name, x] : score.samples(2)) {
      TrialInputs wrong = score.samples(2);
      wrong[name] = x.to(KINORA_DTYPE_INT64);
      answer("update() of int64 numbers as " + name, [&] { return score.update(wrong); });
      answer("merge() of a state of int64", [&] { return score.merge(wrong[name]); });
    }
  });
  return "";
}

constexpr Check kChecks[] = {
    {"merged", "score", "numbers of merged states are those of one instance that saw all samples in order",
     false, nullptr, check_merged},
    {"same-score", "score",
     "compute() gives the same numbers again, by another instance, and changes nothing", false, nullptr,
     check_compute},
    {"each", "score", "each() gives a finite number of every sample: that of the sample alone", false,
     nullptr, check_each},
    {"score-needs", "score", "it refuses a run that needs what it does not know", false, nullptr,
     check_unknown_needs},
    {"score-inputs", "score",
     "inputs and states that are missing or strange get an answer; an error changes nothing", false, nullptr,
     check_inputs},
    {"score-leaks", "score", "every handle to a tensor is released, also after an error", false, nullptr,
     check_handles}};

}  // namespace
}  // namespace score_checks_of

std::span<const Check> score_checks() { return score_checks_of::kChecks; }

}  // namespace kinora
