#include "core/torch/ranks/parallelism.hpp"

#include <numeric>

#include <ATen/ATen.h>

#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/opening.hpp"
#include "core/runtime/call.hpp"
#include "core/runtime/place.hpp"
#include "core/torch/chain/run_on.hpp"
#include "core/torch/ranks/meeting.hpp"
#include "core/torch/ranks/mesh.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"

namespace kinora::core {
namespace {

// Gradients of leaves joined into few long vectors, each summed while the next is filled.
class GradientSums {
 public:
  void add(const kinora_group& group, at::Tensor& gradient) {
    if (!open_.empty() &&
        (group_ != &group || open_[0]->scalar_type() != gradient.scalar_type() || bytes_ > kBytes))
      start();
    group_ = &group;
    open_.push_back(&gradient);
    bytes_ += gradient.nbytes();
  }
  void finish() {
    if (!open_.empty()) start();
    for (auto& bucket : started_) {
      const at::Tensor all = bucket.sum.finish();
      int64_t offset = 0;
      for (auto* g : bucket.gradients) {
        g->copy_(all.narrow(0, offset, g->numel()).view_as(*g));
        offset += g->numel();
      }
    }
  }

 private:
  static constexpr size_t kBytes = size_t{32} << 20;
  struct Bucket {
    at::Tensor whole;
    Started<at::Tensor> sum;
    std::vector<at::Tensor*> gradients;
  };
  void start() {
    std::vector<at::Tensor> flat;
    for (const auto* g : open_) flat.push_back(g->reshape({-1}));
    const at::Tensor whole = at::cat(flat);
    started_.push_back({whole, Group<at::Tensor>(group_).start_sum(whole), std::move(open_)});
    open_.clear();
    bytes_ = 0;
  }
  const kinora_group* group_ = nullptr;
  std::vector<at::Tensor*> open_;
  size_t bytes_ = 0;
  std::vector<Bucket> started_;
};

// dtype of the residual stream from a precision's code.
at::ScalarType stream_dtype(int32_t given, const std::string& id) {
  const auto type = static_cast<at::ScalarType>(given);
  for (const auto known : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    if (type == known) return type;
  throw Error(KINORA_ERROR_INVALID, id + ": dtype " + std::to_string(given) +
                                        " is not a floating-point type that a model can run in");
}

// A configuration for many ranks may run on one; logs that it did, so that it is not mistaken for many.
void tell_of_sizes(const LaunchPlan& plan) {
  for (const auto& use : plan.strategies)
    if (const auto size = use.options.values().value("size", int64_t{0}); size > 1)
      log_info("{}: one process computes what {} of size {} would; start several with kinora launch -n N",
               plan.name, use.id, size);
}

Component opened(Runtime& runtime, const ComponentUse& use) {
  return open_component(runtime.registry(), {}, use.id);
}

// "dp=2 x tp=4", outermost axis first.
std::string text_of(const MeshOwner& mesh) {
  std::string out;
  for (const auto axis : MeshOwner::kAxes)
    if (mesh.size(axis) > 1) out += fmt::format("{}{}={}", out.empty() ? "" : " x ", axis, mesh.size(axis));
  return out;
}

}  // namespace

LaunchPlan launch_plan(const JobView& job) {
  LaunchPlan out;
  out.name = job.spec().name;
  for (const auto* use : job.spec().list("parallel")) out.strategies.push_back(*use);
  if (const auto* use = job.spec().component("precision")) out.precision = *use;
  if (const auto* use = job.spec().component("collective")) out.collective = *use;
  out.facts = [&job](int64_t ranks) { return facts_of(job, ranks); };
  out.out = job.run().out;
  return out;
}

Parallelism::Parallelism(Runtime& runtime, LaunchPlan plan) : plan_(std::move(plan)) {
  const LaunchPlace place = here();
  if (!place.alone() && plan_.collective) {
    join(runtime, place);
  } else {
    mesh_ = std::make_unique<MeshOwner>();
    tell_of_sizes(plan_);
  }
  use_strategies(runtime);
  // Every rank meets the others here, not at the step that first needs a group.
  for (const char* axes : {"world", "pp+cfg+cp+tp", "cfg", "pp+dp+fsdp", "dp+fsdp+cp", "dp+fsdp+cp+tp",
                           "dp+fsdp+cp+pp", "dp+cp", "dp+cp+tp", "dp+cp+pp", "dp+cp+tp+pp"})
    mesh_->group(axes);
  if (plan_.precision) use_precision(runtime);
}

void Parallelism::use_strategies(Runtime& runtime) {
  for (const auto& use : plan_.strategies) {
    const Component component = opened(runtime, use);
    const auto& api = component.table<kinora_parallel>();
    uses_.push_back({component, &use.options});
    if (const auto* link = link_of(uses_.back())) links_.push_back(link);
    if (api.step && schedule_)
      throw Error(KINORA_ERROR_INVALID,
                  "parallel: " + component.spec->id + " is the second strategy with a schedule; use one");
    if (api.step) {
      schedule_ = &api;
      scheduler_ = instances_.back().get();
    }
  }
}

void Parallelism::use_precision(Runtime& runtime) {
  const Component component = opened(runtime, *plan_.precision);
  const auto& api = component.table<kinora_precision>();
  uses_.push_back({component, &plan_.precision->options});
  if (const auto* link = link_of(uses_.back())) links_.push_back(link);
  if (KINORA_HAS(&api, token_block) && api.token_block)
    token_block_ = std::max<int64_t>(1, api.token_block(instances_.back().get()));
  product_ = dtype_ = stream_dtype(api.dtype(instances_.back().get()), component.spec->id);
  for (const auto& output : component.spec->outputs)
    if (output.name == "codes" && output.dtype == "bfloat16") product_ = at::kBFloat16;
}

const kinora_link* Parallelism::link_of(const Use& use) {
  const auto make = [&](const auto& api, auto&&... more) {
    instances_.push_back(instance_of<std::decay_t<decltype(api)>>(use.component, *use.options, more...));
    const kinora_link* link = nullptr;
    called(api.link(instances_.back().get(), &link), use.component.spec->id);
    return link;
  };
  return use.component.spec->kind == "precision" ? make(use.component.table<kinora_precision>())
                                                 : make(use.component.table<kinora_parallel>(), mesh_->abi());
}

std::vector<const kinora_link*> Parallelism::more_links(std::string_view axis) {
  std::vector<const kinora_link*> out;
  for (const auto& use : uses_) {
    if (!axis.empty() && use.component.spec->kind == "precision") continue;
    const auto* link = link_of(use);
    const bool wanted =
        axis.empty() || axis == use.component.table<kinora_parallel>().axis(instances_.back().get());
    if (link && wanted) out.push_back(link);
  }
  return out;
}

int64_t Parallelism::token_multiple() const {
  const int64_t parts = mesh_->size("cp") * mesh_->size("tp");
  return parts == 1 || token_block_ == 1 ? 1 : 2 * parts * token_block_;
}

std::vector<const kinora_link*> Parallelism::precision_links() {
  std::vector<const kinora_link*> out;
  for (const auto& use : uses_)
    if (use.component.spec->kind == "precision")
      if (const auto* link = link_of(use)) out.push_back(link);
  return out;
}

int64_t Parallelism::data_ranks(const MeshOwner::Sizes& axes) {
  int64_t out = 1;
  for (const char* axis : {"dp", "fsdp"})
    if (const auto it = axes.find(axis); it != axes.end()) out *= it->second;
  return out;
}

MeshOwner::Sizes Parallelism::axes(Runtime& runtime, const std::vector<ComponentUse>& strategies,
                                   int64_t world) {
  const MeshOwner alone;
  std::vector<AxisUse> uses;
  for (const auto& use : strategies) {
    const Component component = opened(runtime, use);
    const auto& api = component.table<kinora_parallel>();
    const auto probe = instance_of<kinora_parallel>(component, use.options, alone.abi());
    const char* axis = api.axis(probe.get());
    if (axis && *axis)
      uses.push_back({component.spec->name, axis, use.options.values().value("size", int64_t{0}),
                      component.spec->option("size") != nullptr});
  }
  return sizes_of(uses, world);
}

void Parallelism::join(Runtime& runtime, const LaunchPlace& place) {
  const auto sizes = axes(runtime, plan_.strategies, place.world);
  const Component component = opened(runtime, *plan_.collective);
  const auto& api = component.table<kinora_collective>();
  Call call;
  const kinora_run run = run_of(call);
  collective_ = joined(component, plan_.collective->options, place, &run);
  agree(api, place);
  mesh_ = std::make_unique<MeshOwner>(api, collective_.get(), place.rank, sizes);
  log_info("{}: {} ranks, mesh {}, by {}", plan_.name, place.world, text_of(*mesh_), plan_.collective->id);
}

// Uses a group that the mesh does not know: ranks that disagree about strategies have no mesh in common.
void Parallelism::agree(const kinora_collective& api, const LaunchPlace& place) {
  Facts facts = plan_.facts ? plan_.facts(place.world) : Facts();
  std::vector<int64_t> all(static_cast<size_t>(place.world));
  std::iota(all.begin(), all.end(), 0);
  void* made = nullptr;
  check(api.group(collective_.get(), "agreement", all.data(), all.size(), &made));
  const Instance group(made, api.release);
  const kinora_group world{sizeof world, 0, place.rank, place.world, all.data(), made, api.start, api.finish};
  add_folder(facts, world, plan_.out);
  require_agreement(world, facts);
}

void Parallelism::step(const Microbatches& micro) const { run_step(schedule_, scheduler_, micro); }

void run_step(const kinora_parallel* schedule, void* scheduler, const Parallelism::Microbatches& micro) {
  using Microbatches = Parallelism::Microbatches;
  if (!schedule) {
    for (int64_t i = 0; i < micro.count; ++i) {
      kinora_pass pass{};
      pass.struct_size = sizeof pass;
      pass.microbatch = i;
      if (micro.forward(pass)) micro.backward(pass);
    }
    return;
  }
  kinora_step step{};
  step.struct_size = sizeof step;
  step.n_microbatches = micro.count;
  step.self = const_cast<Microbatches*>(&micro);
  step.forward = [](void* self, const kinora_pass* pass) {
    return guard([&] {
      if (!static_cast<const Microbatches*>(self)->forward(*pass)) throw Stop{};
    });
  };
  step.backward = [](void* self, const kinora_pass* pass) {
    return guard([&] { static_cast<const Microbatches*>(self)->backward(*pass); });
  };
  const kinora_run run = run_on(micro.device, nullptr);  // all ranks end a step, whoever was asked to stop
  check(schedule->step(scheduler, &step, &run));
}

std::string Parallelism::copies(const Parameter& p, bool in_shards) const {
  std::string out = "dp+cp";
  if (!in_shards) out += "+fsdp";
  if (p.shards == 1) out += "+tp";
  if (p.block < 0) out += "+pp";  // the others are on one stage only
  return out;
}

double Parallelism::share(const Parameter& p, bool in_shards) const {
  return 1 / static_cast<double>(mesh_->group(copies(p, in_shards))->size);
}

void Parallelism::sum_gradients(const Parameters& parameters, std::vector<Leaf>& leaves) const {
  if (world() == 1) return;
  GradientSums sums;
  for (auto& leaf : leaves) {
    if (leaf.frozen || leaf.reduced_by_link) continue;
    const auto& p = parameters[static_cast<size_t>(leaf.pieces.at(0).param - 1)];
    at::Tensor& gradient = leaf.tensor.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(leaf.tensor);
    const kinora_group& group = *mesh_->group(copies(p, false));
    if (group.size > 1) sums.add(group, gradient);
  }
  sums.finish();
}

std::vector<double> Parallelism::sum(const std::vector<double>& values, bool of_stages) const {
  const kinora_group& group = *mesh_->group(of_stages ? "pp+dp+fsdp" : "dp+fsdp");
  if (group.size == 1 || values.empty()) return values;
  const at::Tensor all =
      transferred(group, KINORA_OP_ALL_REDUCE, at::tensor(values, at::kDouble)).contiguous();
  return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
}

at::Tensor Parallelism::sum_of_data(const at::Tensor& value) const {
  return transferred(*mesh_->group("dp+fsdp"), KINORA_OP_ALL_REDUCE, value);
}

double Parallelism::sum_of_world(double value) const {
  return transferred(*mesh_->group("world"), KINORA_OP_ALL_REDUCE, at::full({1}, value, at::kDouble))
      .item<double>();
}

bool Parallelism::any(bool here) const { return sum_of_world(here ? 1 : 0) > 0; }

}  // namespace kinora::core
