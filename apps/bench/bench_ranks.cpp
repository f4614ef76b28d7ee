#include "apps/bench/bench_ranks.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "core/base/clock.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/options.hpp"
#include "core/runtime/call.hpp"
#include "core/torch/ranks/meeting.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"

namespace kinora::core {
namespace {

using Clock = std::chrono::steady_clock;

// Bytes of live tensors, as the allocator reports them.
class Alive final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    live_ += bytes;
    most_ = std::max(most_, live_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t most() const { return most_; }

 private:
  int64_t live_ = 0, most_ = 0;
};

int64_t most_of(const std::function<void()>& work) {
  const auto alive = std::make_shared<Alive>();
  const c10::DebugInfoGuard on(c10::DebugInfoKind::PROFILER_STATE, alive);
  work();
  return alive->most();
}

// Measures one run.
void take(const BenchRanks& ranks, Measured& m) {
  const TrafficRow before = ranks.traffic();
  const auto start = Clock::now();
  if (!m.alone || ranks.rank() == 0) m.work();
  const TrafficRow after = ranks.traffic();
  m.bytes = after.sent - before.sent;
  const double worked = seconds_since(start) - (after.waited - before.waited);
  ranks.meet();
  m.seconds.push_back(seconds_since(start));
  m.idle.push_back(m.seconds.back() / worked - 1);
}

}  // namespace

BenchRanks::BenchRanks(Runtime& runtime) : place_(here()) {
  if (place_.alone()) return;
  const Component component = or_throw(runtime.registry().open("collective/gloo"));
  api_ = &component.table<kinora_collective>();
  collective_ = joined(component, or_throw(Options::make(*component.spec, json::object())), place_, nullptr);
  group();
}

MeshOwner& BenchRanks::mesh(const std::string& axis) const {
  auto& made = meshes_[axis];
  if (!made)
    made = place_.alone() ? std::make_unique<MeshOwner>()
                          : std::make_unique<MeshOwner>(*api_, collective_.get(), place_.rank,
                                                        MeshOwner::Sizes{{axis, place_.world}});
  return *made;
}

void BenchRanks::meet() const {
  if (size() > 1) Group<at::Tensor>(&group()).barrier();
}

TrafficRow BenchRanks::traffic() const {
  TrafficRow out;
  for (const auto& [axis, mesh] : meshes_) out += mesh->traffic().total();
  return out;
}

std::vector<double> BenchRanks::of_all(double mine) const {
  const at::Tensor all = gather_rows(group(), {mine});
  return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
}

BenchStrategy::BenchStrategy(Runtime& runtime, const std::string& id, const json& options,
                             const BenchRanks& ranks) {
  const Component component = or_throw(runtime.registry().open("parallel/" + id));
  api_ = &component.table<kinora_parallel>();
  const Options complete = or_throw(Options::make(*component.spec, options));
  const auto make = [&](const kinora_mesh* mesh) {
    return std::unique_ptr<void, void (*)(void*)>(
        made([&] { return api_->create(host(), complete.abi(), mesh); }, component.spec->id), api_->destroy);
  };
  const MeshOwner nobody;
  self_ = make(ranks.along(api_->axis(make(nobody.abi()).get())));
  const kinora_link* link = nullptr;
  called(api_->link(self_.get(), &link), component.spec->id);
  if (link) links_.push_back(link);
}

void BenchStrategy::step(const Parallelism::Microbatches& micro) const {
  run_step(api_->step ? api_ : nullptr, self_.get(), micro);
}

void measure(const BenchRanks& ranks, std::vector<Measured>& all, int repeat) {
  for (int round = -1; round < repeat; ++round)
    for (auto& m : all) {
      at::set_num_threads(m.threads);
      ranks.meet();
      take(ranks, m);
      if (round >= 0) continue;
      m.seconds.clear();
      m.idle.clear();
      if (m.metered) m.most = most_of(m.work);  // persistent tensors exist by now
    }
}

double ratio(const Measured& a, const Measured& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.seconds.size(); ++i) ratios.push_back(a.seconds[i] / b.seconds[i]);
  return median(ratios);
}

using at::Tensor;

BenchStep::BenchStep(Runtime& runtime, const std::string& model, const json& options, const Frames& rule,
                     const BenchStrategy& strategy, Tensor text)
    : strategy_(strategy),
      component_(or_throw(runtime.registry().open("model/" + model))),
      network_(component_, or_throw(Options::make(*component_.spec, options)), ChainOptions{.frames = rule},
               strategy.links()),
      text_(std::move(text)) {}

void BenchStep::operator()(const Tensor& latent, int64_t from, int64_t micro) {
  for (auto& leaf : network_.chain().leaves())
    if (auto& gradient = leaf.tensor.mutable_grad(); gradient.defined()) gradient.zero_();
  std::map<int64_t, Tensor> losses;
  const auto forward = [&](kinora_pass pass) {
    pass.struct_size = sizeof pass;
    network_.chain().begin(pass);
    try {
      const Tensor out =
          network_.forward({{"latent", latent}, {"timestep", at::full({1}, 0.5)}, {"text", text_}}).at(0);
      losses[pass.microbatch] = out.narrow(2, from, out.size(2) - from).square().mean();
      return true;
    } catch (const Stop&) {
      return false;
    }
  };
  strategy_.step({micro, forward,
                  [&](const kinora_pass& pass) { losses.extract(pass.microbatch).mapped().backward(); }});
  network_.chain().reduce();
}

}  // namespace kinora::core
