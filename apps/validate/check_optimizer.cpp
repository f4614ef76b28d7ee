// Checks of optimizers, on a matrix, a table and a vector in float64.
#include <cmath>

#include "apps/validate/trial_tensors.hpp"
#include "kinora/abi/optimizer.h"

namespace kinora {
namespace optimizer_checks_of {
namespace {

using Numbers = std::vector<double>;

constexpr double kRate = 0.05, kDecay = 0.1, kShare = 0.25;

struct Shape {
  const char* name;
  uint32_t role;
  std::vector<int64_t> sizes;
  int64_t numel() const { return sizes.size() == 2 ? sizes[0] * sizes[1] : sizes[0]; }
};
const Shape kShapes[] = {{"a matrix [6, 4]", KINORA_ROLE_COLUMN, {6, 4}},
                         {"a table [6, 4]", KINORA_ROLE_TABLE, {6, 4}},
                         {"a vector [24]", KINORA_ROLE_WHOLE, {24}}};

// One parameter with its states and one average, updated as the trainer does it.
class Stepped {
 public:
  Stepped(const PluginTrial& t, const Shape& shape)
      : shape_(shape),
        options_(t.options()),
        made_(t, options_),
        weight(normal(t.subject.seed, {shape.numel()})) {
    spec_.struct_size = sizeof spec_;
    spec_.role = shape.role;
    spec_.name = "blocks.0.weight";
    spec_.shape = shape.sizes.data();
    spec_.ndim = static_cast<uint32_t>(shape.sizes.size());
    spec_.quantum = spec_.shards = 1;
    require_ok([&] { return made_.api.plan(made_.self, &spec_, &plan_); },
               std::string("plan() of ") + shape.name);
    if (plan_.n_states > t.spec.outputs.size())
      throw Error(
          KINORA_ERROR_FAILED,
          fmt::format("plan() of {} gives {} states and the manifest {} outputs; each state is an output",
                      shape.name, plan_.n_states, t.spec.outputs.size()));
    if (plan_.whole && !made_.api.direction)
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("plan() of {} says whole, and direction() is null", shape.name));
    for (const auto& state : t.spec.outputs)
      if (state.dtype != "float")
        throw Skipped{fmt::format("its state '{}' is of dtype {}, which this host does not store", state.name,
                                  state.dtype)};
    for (uint32_t i = 0; i < plan_.n_states; ++i) states.push_back(full_like(weight, 0.0));
    average = weight + 0.0;
  }

  // cuts: where ranges end, ascending; the last is the number of numbers.
  void step(const Tensor& gradient, double factor, const std::vector<int64_t>& cuts) {
    Tensor g = gradient + 0.0;
    ++steps_;
    int64_t from = 0;
    for (const int64_t to : cuts) {
      update(g, from, to - from, factor);
      from = to;
    }
    if (!plan_.whole) return;
    kinora_tensor out = nullptr;
    const Tensor direction = g.reshape(shape_.sizes);
    require_ok([&] { return made_.api.direction(made_.self, &spec_, direction.get(), &out); },
               std::string("direction() of ") + shape_.name);
    const Tensor change = Tensor::adopt(out);
    if (!change.defined() || change.sizes() != shape_.sizes)
      throw Error(KINORA_ERROR_FAILED, "direction() did not return a tensor of the direction's shape");
    weight = weight * (1 - kRate * kDecay) - change.reshape({shape_.numel()}) * kRate;
    average = average + (weight - average) * kShare;
  }
  void step(const Tensor& gradient) { step(gradient, 1, {shape_.numel()}); }

  // Everything that a step changes.
  Numbers all() const {
    Numbers out = numbers(weight);
    std::vector<Tensor> more = states;
    more.push_back(average);
    for (const auto& t : more)
      for (const double v : numbers(t)) out.push_back(v);
    return out;
  }

 private:
  void update(const Tensor& g, int64_t from, int64_t count, double factor) {
    const auto range = [&](const Tensor& t) { return t.narrow(0, from, count); };
    const Tensor w = range(weight), of_g = range(g), a = range(average);
    std::vector<Tensor> kept;
    std::vector<kinora_tensor> handles;
    for (const auto& s : states) kept.push_back(range(s));
    for (const auto& s : kept) handles.push_back(s.get());
    const kinora_average moving{a.get(), kShare};
    kinora_update u{};
    u.struct_size = sizeof u;
    u.n_states = plan_.n_states;
    u.step = steps_;
    u.learning_rate = kRate;
    u.weight_decay = kDecay;
    u.gradient_factor = factor;
    u.weight = w.get();
    u.gradient = of_g.get();
    u.states = handles.data();
    u.averages = plan_.whole ? nullptr : &moving;
    u.n_averages = plan_.whole ? 0 : 1;
    require_ok([&] { return made_.api.update(made_.self, &u); }, std::string("update() of ") + shape_.name);
  }
  const Shape& shape_;
  core::Options options_;
  TrialInstance<kinora_optimizer> made_;
  kinora_param_spec spec_{};
  kinora_update_plan plan_{sizeof(kinora_update_plan), 0, 0, 0};
  int64_t steps_ = 0;

 public:
  Tensor weight, average;
  std::vector<Tensor> states;
};

// Two steps in each of two ways; the results must have the same bits.
template <class One, class Other>
void same_bits(PluginTrial& t, const std::string& why, One one, Other other) {
  for (const auto& shape : kShapes) {
    Stepped a(t, shape), b(t, shape);
    for (uint64_t i = 1; i < 3; ++i) {
      const Tensor g = normal(t.subject.seed + i, {shape.numel()});
      one(a, g);
      other(b, g);
    }
    if (a.all() != b.all()) throw Error(KINORA_ERROR_FAILED, fmt::format("{}: {}", shape.name, why));
  }
}

std::string check_cuts(PluginTrial& t) {
  same_bits(
      t, "a step in ranges of 7, 12 and 5 numbers differs from one step of all; update each number by itself",
      [](Stepped& s, const Tensor& g) { s.step(g); },
      [](Stepped& s, const Tensor& g) {
        s.step(g, 1, {7, 19, 24});
      });
  return "";
}

std::string check_factor(PluginTrial& t) {
  same_bits(
      t, "the gradient times 4 with gradient_factor 1/4 gives another step; multiply the gradient first",
      [](Stepped& s, const Tensor& g) { s.step(g); },
      [](Stepped& s, const Tensor& g) { s.step(g * 4.0, 0.25, {24}); });
  return "";
}

std::string check_averages(PluginTrial& t) {
  for (const auto& shape : kShapes) {
    Stepped s(t, shape);
    const Numbers before = numbers(s.average);
    s.step(normal(t.subject.seed + 1, {shape.numel()}));
    const Numbers w = numbers(s.weight), a = numbers(s.average);
    for (size_t i = 0; i < a.size(); ++i)
      if (const double want = before[i] + kShare * (w[i] - before[i]); !(std::abs(a[i] - want) <= 1e-12))
        throw Error(KINORA_ERROR_FAILED,
                    fmt::format("{}: the average of number {} is {:.9g}, and {:.9g} by its definition; add "
                                "share * (weight - average) with the new weight",
                                shape.name, i, a[i], want));
  }
  return "";
}

// On half the square of each weight, whose gradient is the weight.
std::string check_descends(PluginTrial& t) {
  std::string said;
  for (const auto& shape : kShapes) {
    Stepped s(t, shape);
    const auto loss = [&] { return square(s.weight).sum().item(); };
    const double before = loss();
    for (int i = 0; i < 100; ++i) s.step(s.weight);
    const double after = loss();
    if (!(after < before / 2))
      throw Error(
          KINORA_ERROR_FAILED,
          fmt::format("{}: 100 steps at a learning rate of {} took the sum of squares, whose gradient they "
                      "were given, from {:.3g} to {:.3g}; check the sign of the change",
                      shape.name, kRate, before, after));
    said += fmt::format("{}{:.1g}", said.empty() ? "sums of squares fell to " : ", ", after / before);
  }
  return said;
}

std::string check_handles(PluginTrial& t) {
  require_no_handles(t.subject.plugin->tier, [&] {
    for (const auto& shape : kShapes) {
      Stepped s(t, shape);
      for (uint64_t i = 1; i < 3; ++i) s.step(normal(t.subject.seed + i, {shape.numel()}));
    }
  });
  return "";
}

constexpr Check kChecks[] = {
    {"cuts", "optimizer", "a step in ranges has the bits of a step of all", false, nullptr, check_cuts},
    {"factor", "optimizer", "gradient_factor multiplies the gradient", false, nullptr, check_factor},
    {"averages", "optimizer", "averages move towards the new weights", false, nullptr, check_averages},
    {"descends", "optimizer", "100 steps on a sum of squares make it smaller", false, nullptr,
     check_descends},
    {"optimizer-leaks", "optimizer", "every handle to a tensor is released", false, nullptr, check_handles}};

}  // namespace
}  // namespace optimizer_checks_of

std::span<const Check> optimizer_checks() { return optimizer_checks_of::kChecks; }

}  // namespace kinora
