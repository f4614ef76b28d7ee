// Checks of samplers on a mixture of three Gaussians on a line, whose denoiser and whose exact flow are known.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "apps/validate/trial_call.hpp"
#include "apps/validate/trial_mixture.hpp"
#include "apps/validate/trial_tensors.hpp"
#include "kinora/abi/sampler.h"
#include "kinora/tensor.hpp"

namespace kinora {
namespace sampler_checks_of {
namespace {

// A denoiser and a run. fail_at: the call of the denoiser that fails; cancel_at: the step that is the last.
struct Scene {
  uint32_t mix;
  uint64_t seed;
  int64_t calls = 0, draws = 0, fail_at = -1, cancel_at = -1;
  kinora_denoiser denoiser{};
  kinora_run run{};

  Scene(uint32_t m, uint64_t s) : mix(m), seed(s) {
    denoiser = {sizeof denoiser, 0, this,
                [](void* self, kinora_tensor x, kinora_tensor sigma, kinora_tensor* out) {
                  return guard([&] { static_cast<Scene*>(self)->denoise(x, sigma, out); });
                },
                0};
    run.struct_size = sizeof run;
    run.device_type = KINORA_DL_CPU;
    run.n_threads = 1;
    run.seed = seed;
    run.self = this;
    run.progress = [](void* self, int64_t done, int64_t, kinora_tensor) -> int32_t {
      return done == static_cast<Scene*>(self)->cancel_at
                 ? set_error(KINORA_ERROR_CANCELLED, "cancelled by the check")
                 : KINORA_OK;
    };
    run.cancelled = [](void*) { return KINORA_OK; };
    run.noise = [](void* self, const char* key, kinora_tensor like, kinora_tensor* out) {
      return guard([&] { static_cast<Scene*>(self)->noise(key, like, out); });
    };
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

 private:
  void denoise(kinora_tensor x, kinora_tensor sigma, kinora_tensor* out) {
    if (++calls == fail_at) throw Error(KINORA_ERROR_DATA, "the denoiser's own words");
    const Tensor in = Tensor::borrow(x).contiguous(), level = Tensor::borrow(sigma).contiguous();
    if (in.dtype() != KINORA_DTYPE_FLOAT64 || level.dtype() != KINORA_DTYPE_FLOAT64 || level.dim() < 1 ||
        in.dim() < 1 || level.size(0) != in.size(0))
      throw Error(KINORA_ERROR_INVALID,
                  "the sampler calls the denoiser with another x or sigma than float64 [B, ...] and [B]");
    const int64_t n = in.numel(), batch = in.size(0);
    std::vector<double> made;
    for (int64_t i = 0; i < n; ++i)
      made.push_back(mixture::exact_denoiser(
          mix, in.data<double>()[i], level.data<double>()[(i / (n / batch)) * (level.numel() / batch)]));
    *out = tensor(made, in.sizes()).release();
  }
  // A function of (seed, key, element).
  void noise(const char* key, kinora_tensor like, kinora_tensor* out) {
    ++draws;
    const Tensor l = Tensor::borrow(like);
    std::seed_seq words(key, key + std::strlen(key));
    std::mt19937_64 draw(words);
    draw.discard(seed % 1000);
    std::normal_distribution<double> normal;
    std::vector<double> made(static_cast<size_t>(l.numel()));
    for (auto& v : made) v = normal(draw);
    *out = tensor(made, l.sizes()).to(l.dtype()).release();
  }
};

class Sampler : public TrialInstance<kinora_sampler> {
 public:
  using TrialInstance::TrialInstance;

  std::vector<double> levels() const {
    kinora_tensor out = nullptr;
    require_ok([&] { return api.levels(self, &out); }, "levels()");
    const Tensor t = Tensor::adopt(out);
    if (t.dim() != 1 || t.dtype() != KINORA_DTYPE_FLOAT64 || t.numel() < 2)
      throw Error(KINORA_ERROR_INVALID, "levels() gave no float64 [N] with N of 2 or more");
    const Tensor c = t.contiguous();
    return {c.data<double>(), c.data<double>() + c.numel()};
  }
  std::vector<double> sample(Scene& s, const Tensor& noise) const {
    kinora_tensor out = nullptr;
    require_ok([&] { return api.sample(self, &s.denoiser, noise.get(), &s.run, &out); }, "sample()");
    const Tensor t = Tensor::adopt(out);
    if (t.sizes() != noise.sizes() || t.dtype() != KINORA_DTYPE_FLOAT64)
      throw Error(KINORA_ERROR_INVALID,
                  "sample() gave a tensor of another shape or type than the noise, float64");
    const Tensor c = t.contiguous();
    return {c.data<double>(), c.data<double>() + c.numel()};
  }
};

Tensor starts() {
  std::vector<double> v;
  for (int i = 0; i < 16; ++i) v.push_back(-1.5 + 0.2 * i);
  return tensor(v, {16, 1});
}

// Mean distance from the exact end of the flow.
double error_of(const PluginTrial& t, int64_t steps) {
  const core::Options options = t.options({{"steps", steps}});
  const Sampler s(t, options);
  Scene scene(s.api.mix, t.subject.seed);
  const Tensor noise = starts();
  const auto levels = s.levels(), made = s.sample(scene, noise);
  double sum = 0;
  for (size_t i = 0; i < made.size(); ++i) {
    // Noise of unit variance is x at a first level of 1 in rectified flow, and x / level otherwise.
    const double x = noise.data<double>()[i] * (s.api.mix == KINORA_MIX_RECTIFIED_FLOW ? 1 : levels.front());
    sum += std::abs(made[i] - mixture::exact_flow(s.api.mix, x, levels.front(), levels.back()));
  }
  return sum / static_cast<double>(made.size());
}

// Whether it draws noise while it samples, so that no flow leads to its samples.
bool is_stochastic(const PluginTrial& t) {
  const core::Options options = t.options();
  const Sampler s(t, options);
  Scene scene(s.api.mix, t.subject.seed);
  s.sample(scene, starts());
  return scene.draws > 0;
}

// A sampler that draws noise has the distribution of the mixture, which the largest distance between both cumulative
// distributions measures (Kolmogorov and Smirnov).
std::string check_distribution(PluginTrial& t, const core::Options& options) {
  constexpr size_t kSamples = 4000;
  const Sampler s(t, options);
  Scene scene(s.api.mix, t.subject.seed);
  std::mt19937_64 draw(t.subject.seed);
  std::normal_distribution<double> normal;
  std::vector<double> noise(kSamples);
  for (auto& v : noise) v = normal(draw);
  const double last = s.levels().back();
  auto made = s.sample(scene, tensor(noise, {static_cast<int64_t>(kSamples), 1}));
  std::sort(made.begin(), made.end());
  double most = 0;
  for (size_t i = 0; i < kSamples; ++i) {
    const double exact = mixture::share_below(s.api.mix, made[i], last);
    // Written so that a sample that is not a number is the largest distance.
    const double distance = std::max(std::abs(exact - static_cast<double>(i) / kSamples),
                                     std::abs(exact - static_cast<double>(i + 1) / kSamples));
    most = distance <= most ? most : std::isfinite(distance) ? distance : 1;
  }
  const std::string said = fmt::format(
      "it draws noise: the distributions of {} samples and of a mixture of Gaussians are at most {:.3f} "
      "apart",
      kSamples, most);
  if (!(most <
        0.06))  // 1.63 / sqrt(samples) is reached by chance once in a hundred times; the rest is for its steps
    throw Error(KINORA_ERROR_FAILED, said +
                                         ", expected less than 0.06; draw by another key at each step, and "
                                         "see levels, the update rule and "
                                         "the unit of its levels (mix)");
  return said;
}

std::string check_order(PluginTrial& t) {
  const auto* steps = t.spec.option("steps");
  if (!steps || steps->type != core::OptionType::integer)
    throw Skipped{"it has no option 'steps' of type int"};
  if (is_stochastic(t)) return check_distribution(t, t.options({{"steps", 160}}));
  const double coarse = error_of(t, 40), fine = error_of(t, 160);
  const double order = std::log2(coarse / fine) / 2;
  const std::string said =
      fmt::format("mean error {:.2g} with 40 steps and {:.2g} with 160: order {:.1f}", coarse, fine, order);
  if (!(fine < 1e-4) && !(order > 0.6 && fine < 0.1))
    throw Error(KINORA_ERROR_FAILED,
                said +
                    ", expected 1 or more towards the exact flow of a mixture of Gaussians; "
                    "see levels, the update rule and the unit of its levels (mix)");
  return said;
}

std::string check_levels(PluginTrial& t) {
  const core::Options options = t.options();
  const auto levels = Sampler(t, options).levels();
  for (size_t i = 0; i < levels.size(); ++i)
    if (!std::isfinite(levels[i]) || levels[i] < 0 || (i && levels[i] >= levels[i - 1]))
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("level {} is {:g} after {:g}; levels are finite, not below 0 and descending", i,
                              levels[i], i ? levels[i - 1] : INFINITY));
  return fmt::format("{} levels from {:g} to {:g}", levels.size(), levels.front(), levels.back());
}

std::string check_same_samples(PluginTrial& t) {
  const core::Options options = t.options();
  const Sampler one(t, options), other(t, options);
  std::vector<std::vector<double>> made;
  for (const Sampler* s : {&one, &one, &other}) {
    Scene scene(s->api.mix, t.subject.seed);
    made.push_back(s->sample(scene, starts()));
  }
  for (size_t k : {1, 2})
    for (size_t i = 0; i < made[0].size(); ++i)
      if (std::memcmp(&made[0][i], &made[k][i], sizeof(double)) != 0)
        throw Error(KINORA_ERROR_FAILED,
                    fmt::format("the same noise and seed gave sample {} as {:.17g} and, {}, as {:.17g}; "
                                "clear the history in sample(), and draw from run->noise only",
                                i, made[0][i], k == 1 ? "by the same instance again" : "by another instance",
                                made[k][i]));
  return "";
}

std::string check_unknown_needs(PluginTrial& t) {
  const core::Options options = t.options();
  const Sampler s(t, options);
  for (const bool is_of_run : {false, true}) {
    Scene scene(s.api.mix, t.subject.seed);
    (is_of_run ? scene.run.needs : scene.denoiser.needs) = kUnknownNeed;
    const Tensor noise = starts();
    kinora_tensor out = nullptr;
    require_refused(
        [&] { return s.api.sample(s.self, &scene.denoiser, noise.get(), &scene.run, &out); },
        std::string("sample() with an unknown bit of `needs` of the ") + (is_of_run ? "run" : "denoiser"));
  }
  return "";
}

std::string check_stops(PluginTrial& t) {
  const core::Options options = t.options();
  const Sampler s(t, options);
  for (const bool is_cancelled : {false, true}) {
    Scene scene(s.api.mix, t.subject.seed);
    (is_cancelled ? scene.cancel_at : scene.fail_at) = 1;
    const Tensor noise = starts();
    kinora_tensor out = nullptr;
    t.now(is_cancelled ? "sample() of a cancelled run" : "sample() whose denoiser fails");
    const int32_t expected = is_cancelled ? KINORA_ERROR_CANCELLED : KINORA_ERROR_DATA;
    const int32_t status = s.api.sample(s.self, &scene.denoiser, noise.get(), &scene.run, &out);
    if (status != expected || out)
      throw Error(
          KINORA_ERROR_FAILED,
          fmt::format(
              "sample() returned {}{} after {} returned {}; return that status unchanged, and no tensor",
              status, out ? " and a tensor" : "", is_cancelled ? "progress()" : "the denoiser", expected));
  }
  return "";
}

std::string check_handles(PluginTrial& t) {
  const core::Options options = t.options();
  require_no_handles(t.subject.plugin->tier, [&] {
    const Sampler s(t, options);
    for (const int64_t fail_at : {-1, 2}) {
      Scene scene(s.api.mix, t.subject.seed);
      scene.fail_at = fail_at;
      try {
        s.levels();
        s.sample(scene, starts());
      } catch (const Error&) {
        if (fail_at < 0) throw;
      }
    }
  });
  return "";
}

std::string check_tensors(PluginTrial& t) {
  const core::Options options = t.options();
  const Sampler s(t, options);
  for (const auto& [what, noise] : hostile_tensors(starts())) {
    Scene scene(s.api.mix, t.subject.seed);
    kinora_tensor out = nullptr;
    answer("sample() of noise " + what,
           [&] { return s.api.sample(s.self, &scene.denoiser, noise.get(), &scene.run, &out); });
    const Tensor made = Tensor::adopt(out);
  }
  return "";
}

constexpr Check kChecks[] = {
    {"levels", "sampler", "noise levels are finite and descend", false, nullptr, check_levels},
    {"order", "sampler",
     "it converges to the exact flow of a mixture of Gaussians, in double, and says its order; one that "
     "draws noise has "
     "their distribution",
     false, nullptr, check_order},
    {"same-samples", "sampler", "the same noise and seed give the same bits, again and by another instance",
     false, nullptr, check_same_samples},
    {"sampler-needs", "sampler", "it refuses a denoiser and a run that need what it does not know", false,
     nullptr, check_unknown_needs},
    {"stops", "sampler", "an error of the denoiser and a cancelled run end it unchanged", false, nullptr,
     check_stops},
    {"sampler-leaks", "sampler", "every handle to a tensor is released, also after an error", false, nullptr,
     check_handles},
    {"noise-tensors", "sampler",
     "noise that is empty, strided, zero-dimensional, bf16 or of another shape gets an answer", false,
     nullptr, check_tensors}};

}  // namespace
}  // namespace sampler_checks_of

std::span<const Check> sampler_checks() { return sampler_checks_of::kChecks; }

}  // namespace kinora
