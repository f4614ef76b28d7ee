// Common parts of the tests of samplers: a run on the exact denoiser of a mixture of Gaussians, the exact
// result of its flow, and the requirements for every sampler. For tests.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/apply/mixture.hpp"
#include "core/torch/network/instances.hpp"
#include "kinora/aten.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/plugins.hpp"

namespace kinora::test {

using core::json;

// A run that counts steps, may cancel, and provides noise: numbers("draw0", shape), numbers("draw1", shape),
// ...
struct RunOfTest {
  kinora_run abi{};
  int64_t steps = 0, of = 0, draws = 0, cancel_at = -1;
  at::Tensor preview;
  RunOfTest() {
    abi.struct_size = sizeof abi;
    abi.self = this;
    abi.progress = [](void* self, int64_t done, int64_t all, kinora_tensor shown) -> int32_t {
      auto& r = *static_cast<RunOfTest*>(self);
      r.steps = done;
      r.of = all;
      if (done == r.cancel_at) return KINORA_ERROR_CANCELLED;
      r.preview = borrow<at::Tensor>(shown);
      return KINORA_OK;
    };
    abi.noise = [](void* self, const char*, kinora_tensor like, kinora_tensor* out) -> int32_t {
      auto& r = *static_cast<RunOfTest*>(self);
      *out = give(numbers("draw" + std::to_string(r.draws++), borrow<at::Tensor>(like).sizes()));
      return KINORA_OK;
    };
  }
};

inline std::vector<double> levels_of(const Instance<kinora_sampler>& sampler) {
  kinora_tensor out = nullptr;
  check(sampler->levels(sampler.self(), &out));
  const at::Tensor t = adopt<at::Tensor>(out).contiguous();
  return {t.data_ptr<double>(), t.data_ptr<double>() + t.numel()};
}

struct Sampled {
  at::Tensor x, preview;
  int64_t calls = 0, steps = 0, of = 0;
  std::vector<double> visited, levels;
};

inline Sampled sampled(const std::string& id, const json& options, core::Mixture m, const at::Tensor& noise) {
  const Instance<kinora_sampler> sampler(id, options);
  RunOfTest run;
  const kinora_denoiser d = m.abi(sampler->mix);
  kinora_tensor out = nullptr;
  check(sampler->sample(sampler.self(), &d, handle(noise), &run.abi, &out));
  return {adopt<at::Tensor>(out), run.preview, m.calls(), run.steps, run.of, m.sigmas(), levels_of(sampler)};
}

// Three components on a line.
inline constexpr std::array kMean = {-1.5, 1.0, 0.3}, kStd = {0.4, 0.7, 0.3}, kWeight = {0.3, 0.5, 0.2};
inline core::Mixture line() {
  return {at::tensor(kMean, at::kDouble).unsqueeze(1), at::tensor(kStd, at::kDouble),
          at::tensor(kWeight, at::kDouble)};
}

// In one dimension the probability flow preserves the cumulative distribution, which gives its state at `end`
// without integration. x and the levels are in KINORA_MIX_VARIANCE_EXPLODING.
inline double exact_flow(double x, double sigma, double end) {
  const auto cdf = [](double v, double s) {
    double f = 0;
    for (size_t k = 0; k < kMean.size(); ++k)
      f += kWeight[k] * 0.5 * std::erfc(-(v - kMean[k]) / std::sqrt(2 * (kStd[k] * kStd[k] + s * s)));
    return f;
  };
  const double target = cdf(x, sigma);
  double low = -20 * (1 + end), high = 20 * (1 + end);
  for (int i = 0; i < 200; ++i) {
    const double mid = 0.5 * (low + high);
    (cdf(mid, end) < target ? low : high) = mid;
  }
  return 0.5 * (low + high);
}

// Sum of errors at the flow's end over starts between -1.5 and 1.6.
inline double error_of(const std::string& id, const json& options) {
  const at::Tensor noise = at::arange(-1.5, 1.6, 0.2, at::kDouble).unsqueeze(1);
  const Sampled made = sampled(id, options, line(), noise);
  const uint32_t mix = Instance<kinora_sampler>(id, options)->mix;
  const auto added = [&](const at::Tensor& x, double level) {
    return core::remixed({x, at::full({x.size(0)}, level, at::kDouble)}, mix, KINORA_MIX_VARIANCE_EXPLODING);
  };
  const double first = made.levels.front();
  const auto start = added(mix == KINORA_MIX_VARIANCE_EXPLODING ? noise * first : noise, first);
  const auto end = added(made.x, made.levels.back());
  double sum = 0;
  for (int64_t i = 0; i < noise.size(0); ++i)
    sum += std::abs(end.x[i].item<double>() - exact_flow(start.x[i].item<double>(),
                                                         start.sigma[i].item<double>(),
                                                         end.sigma[i].item<double>()));
  return sum;
}

// log2 of the factor by which the error falls when the steps double.
inline double measured_order(const std::string& id, int64_t steps, json options = json::object()) {
  options["steps"] = steps;
  const double coarse = error_of(id, options);
  options["steps"] = 2 * steps;
  const double order = std::log2(coarse / error_of(id, options));
  testing::Test::RecordProperty(options.value("solver", id), std::to_string(order));
  return order;
}

// A denoiser that records its inputs without keeping them alive, and may fail at its third call.
struct Watching {
  core::Mixture m = line();
  kinora_denoiser inner;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> seen;
  int64_t calls = 0;
  int32_t fail_with = KINORA_OK;
  explicit Watching(uint32_t mix) : inner(m.abi(mix)) {}
  Watching(const Watching&) = delete;
  kinora_denoiser abi() {
    return {sizeof(kinora_denoiser), 0, this,
            [](void* self, kinora_tensor x, kinora_tensor sigma, kinora_tensor* out) -> int32_t {
              auto& w = *static_cast<Watching*>(self);
              if (++w.calls == 3 && w.fail_with) return set_error(w.fail_with, "the model's own words");
              w.seen.emplace_back(borrow<at::Tensor>(x).getIntrusivePtr());
              const int32_t status = w.inner.denoise(w.inner.self, x, sigma, out);
              w.seen.emplace_back(borrow<at::Tensor>(*out).getIntrusivePtr());
              return status;
            }};
  }
  bool alive() const {
    return std::any_of(seen.begin(), seen.end(), [](const auto& t) { return !t.expired(); });
  }
};

// The sampler must be set to at least eight steps.
inline void expect_cancellation_leaves_nothing(const std::string& id, const json& options) {
  SCOPED_TRACE(id + options.dump());
  const Instance<kinora_sampler> s(id, options);
  at::Tensor noise = at::ones({2, 1}, at::kDouble);
  Watching w(s->mix);
  RunOfTest r;
  r.cancel_at = 2;
  const kinora_denoiser d = w.abi();
  kinora_tensor out = nullptr;
  EXPECT_EQ(s->sample(s.self(), &d, handle(noise), &r.abi, &out), KINORA_ERROR_CANCELLED);
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(r.steps, 2);
  r.preview = noise = at::Tensor();
  EXPECT_FALSE(w.seen.empty());
  EXPECT_FALSE(w.alive());
}

inline void expect_error_passes(const std::string& id, const json& options) {
  SCOPED_TRACE(id + options.dump());
  const Instance<kinora_sampler> s(id, options);
  const at::Tensor noise = at::ones({2, 1}, at::kDouble);
  Watching w(s->mix);
  w.fail_with = KINORA_ERROR_DATA;
  RunOfTest r;
  kinora_denoiser d = w.abi();
  kinora_tensor out = nullptr;
  EXPECT_EQ(s->sample(s.self(), &d, handle(noise), &r.abi, &out), KINORA_ERROR_DATA);
  EXPECT_EQ(last_error(), "the model's own words");
  EXPECT_EQ(out, nullptr);
  d.needs = 7;  // what only a newer sampler can know
  EXPECT_EQ(s->sample(s.self(), &d, handle(noise), &r.abi, &out), KINORA_ERROR_UNSUPPORTED);
  EXPECT_NE(last_error().find("needs of the denoiser is 7"), std::string::npos) << last_error();
  EXPECT_EQ(out, nullptr);
}

// The same instance twice, and another one: the same bits, and the last preview is the last answer.
inline void expect_deterministic(const std::string& id, const json& options) {
  SCOPED_TRACE(id + options.dump());
  const Instance<kinora_sampler> s(id, options);
  const at::Tensor noise = numbers("noise", {3, 1});
  core::Mixture m = line();
  const kinora_denoiser d = m.abi(s->mix);
  std::vector<at::Tensor> made;
  for (int i = 0; i < 2; ++i) {
    RunOfTest r;
    kinora_tensor out = nullptr;
    check(s->sample(s.self(), &d, handle(noise), &r.abi, &out));
    made.push_back(adopt<at::Tensor>(out));
    EXPECT_EQ(r.steps, r.of);
    EXPECT_EQ(r.preview.sizes(), noise.sizes());
  }
  EXPECT_TRUE(at::equal(made[0], made[1]));
  EXPECT_TRUE(at::equal(made[0], sampled(id, options, line(), noise).x));
}

// A sampler without a history, started in the middle with x of that level, continues like an uninterrupted
// run.
inline void expect_goes_on_from_the_middle(const std::string& id, const json& options) {
  SCOPED_TRACE(id + options.dump());
  const Instance<kinora_sampler> s(id, options);
  const auto levels = levels_of(s);
  struct Seen {
    core::Mixture m = line();
    kinora_denoiser inner{};
    std::vector<std::pair<double, at::Tensor>> asked;
  } seen;
  seen.inner = seen.m.abi(s->mix);
  kinora_denoiser d{sizeof(kinora_denoiser), 0, &seen,
                    [](void* self, kinora_tensor x, kinora_tensor sigma, kinora_tensor* out) -> int32_t {
                      auto& w = *static_cast<Seen*>(self);
                      w.asked.emplace_back(borrow<at::Tensor>(sigma)[0].item<double>(),
                                           borrow<at::Tensor>(x).clone());
                      return w.inner.denoise(w.inner.self, x, sigma, out);
                    },
                    0};
  const auto sample = [&](const at::Tensor& noise) {
    RunOfTest r;
    kinora_tensor out = nullptr;
    check(s->sample(s.self(), &d, handle(noise), &r.abi, &out));
    return adopt<at::Tensor>(out);
  };
  const at::Tensor whole = sample(numbers("noise", {3, 1}));
  d.first = static_cast<int64_t>(levels.size()) / 2;
  const double level = levels[static_cast<size_t>(d.first)];
  // The last call at a level belongs to the step that begins there; a corrector may have called before.
  at::Tensor there;
  for (const auto& [sigma, x] : seen.asked)
    if (sigma == level) there = x;
  ASSERT_TRUE(there.defined());
  const size_t all = seen.asked.size();
  seen.asked.clear();
  EXPECT_LT((sample(there) - whole).abs().max().item<double>(), 1e-12);
  EXPECT_LT(seen.asked.size(), all);
}

inline std::string refusal(const std::string& id, const json& options) {
  try {
    const Instance<kinora_sampler> made(id, options);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// A case of samplers.safetensors: x against the sample of the independent implementation. Returns the
// largest difference over max(1, |x|).
inline double oracle_difference(const std::string& id, const Oracle& o,
                                const std::string& expected = "sample") {
  const Oracle all("samplers.safetensors", "");
  const Sampled made =
      sampled(id, o.options, {all.exact("mean"), all.exact("std"), all.exact("weight")}, all.exact("noise"));
  EXPECT_EQ(static_cast<size_t>(o.exact("visited").numel()), made.visited.size());
  const at::Tensor want = o.exact(expected);
  return ((made.x - want).abs() / want.abs().clamp_min(1)).max().item<double>();
}

// The cases of samplers.safetensors whose names begin with the prefix.
inline std::vector<std::string> cases(const std::string& prefix) {
  std::vector<std::string> out;
  for (const auto& [name, t] : Oracle("samplers.safetensors", "").under(prefix))
    if (name.ends_with(".sample")) out.push_back(prefix + name.substr(0, name.size() - 7));
  EXPECT_FALSE(out.empty()) << prefix;
  return out;
}

}  // namespace kinora::test
