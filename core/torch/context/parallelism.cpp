#include "core/torch/context/parallelism.hpp"

#include <numeric>

#include <ATen/ATen.h>

#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/plugin/host.hpp"
#include "core/run/place.hpp"
#include "core/torch/context/meeting.hpp"
#include "core/torch/context/mesh.hpp"
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
void tell_of_sizes(const JobView& context) {
  for (const auto* use : context.spec().list("parallel"))
    if (const auto size = use->options.values().value("size", int64_t{0}); size > 1)
      log_info("{}: one process computes what {} of size {} would; start several with kinora launch -n N",
               context.spec().name, use->id, size);
}

// "dp=2 x tp=4", outermost axis first.
std::string text_of(const MeshOwner& mesh) {
  std::string out;
  for (const auto axis : MeshOwner::kAxes)
    if (mesh.size(axis) > 1) out += fmt::format("{}{}={}", out.empty() ? "" : " x ", axis, mesh.size(axis));
  return out;
}

}  // namespace

Parallelism::Parallelism(JobContext& context) {
  const LaunchPlace place = here();
  if (!place.alone() && context.spec().component("collective")) {
    join(context, axes(context, place.world), place);
  } else {
    mesh_ = std::make_unique<MeshOwner>();
    tell_of_sizes(context);
  }
  for (const auto* use : context.spec().list("parallel")) {
    const Component component = context.open(*use);
    const auto& api = component.table<kinora_parallel>();
    uses_.push_back({component, &use->options});
    if (const auto* link = link_of(uses_.back())) links_.push_back(link);
    if (api.step && schedule_)
      throw Error(KINORA_ERROR_INVALID,
                  "parallel: " + component.spec->id + " is the second strategy with a schedule; use one");
    if (api.step) {
      schedule_ = &api;
      scheduler_ = instances_.back().get();
    }
  }
  // Every rank meets the others here, not at the step that first needs a group.
  for (const char* axes : {"world", "pp+cfg+cp+tp", "cfg", "pp+dp+fsdp", "dp+fsdp+cp", "dp+fsdp+cp+tp",
                           "dp+fsdp+cp+pp", "dp+cp", "dp+cp+tp", "dp+cp+pp", "dp+cp+tp+pp"})
    mesh_->group(axes);
  if (const auto* use = context.spec().component("precision")) {
    const Component component = context.open(*use);
    const auto& api = component.table<kinora_precision>();
    uses_.push_back({component, &use->options});
    if (const auto* link = link_of(uses_.back())) links_.push_back(link);
    if (KINORA_HAS(&api, token_block) && api.token_block)
      token_block_ = std::max<int64_t>(1, api.token_block(instances_.back().get()));
    product_ = dtype_ = stream_dtype(api.dtype(instances_.back().get()), component.spec->id);
    for (const auto& output : component.spec->outputs)
      if (output.name == "codes" && output.dtype == "bfloat16") product_ = at::kBFloat16;
  }
}

const kinora_link* Parallelism::link_of(const Use& use) {
  const auto make = [&](const auto& api, auto&&... more) {
    instances_.emplace_back(
        made([&] { return api.create(host(), use.options->abi(), more...); }, use.component.spec->id),
        api.destroy);
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

MeshOwner::Sizes Parallelism::axes(const JobView& context, int64_t world) {
  const MeshOwner alone;
  std::vector<AxisUse> uses;
  for (const auto* use : context.spec().list("parallel")) {
    const Component component = context.open(*use);
    const auto& api = component.table<kinora_parallel>();
    const Instance probe(
        made([&] { return api.create(host(), use->options.abi(), alone.abi()); }, component.spec->id),
        api.destroy);
    const char* axis = api.axis(probe.get());
    if (axis && *axis)
      uses.push_back({component.spec->name, axis, use->options.values().value("size", int64_t{0}),
                      component.spec->option("size") != nullptr});
  }
  return sizes_of(uses, world);
}

void Parallelism::join(JobContext& context, const MeshOwner::Sizes& axes, const LaunchPlace& place) {
  const auto* use = context.spec().component("collective");
  const Component component = context.open(*use);
  const auto& api = component.table<kinora_collective>();
  const kinora_run run = context.call();
  collective_ = joined(component, use->options, place, &run);
  agree(api, facts_of(context, place.world), context.run().out, place);
  mesh_ = std::make_unique<MeshOwner>(api, collective_.get(), place.rank, axes);
  log_info("{}: {} ranks, mesh {}, by {}", context.spec().name, place.world, text_of(*mesh_), use->id);
}

// Uses a group that the mesh does not know: ranks that disagree about strategies have no mesh in common.
void Parallelism::agree(const kinora_collective& api, Facts facts, const std::filesystem::path& out,
                        const LaunchPlace& place) {
  std::vector<int64_t> all(static_cast<size_t>(place.world));
  std::iota(all.begin(), all.end(), 0);
  void* made = nullptr;
  check(api.group(collective_.get(), "agreement", all.data(), all.size(), &made));
  const Instance group(made, api.release);
  const kinora_group world{sizeof world, 0, place.rank, place.world, all.data(), made, api.start, api.finish};
  add_folder(facts, world, out);
  require_agreement(world, facts);
}

void Parallelism::step(const Microbatches& micro, const kinora_run* run) const {
  run_step(schedule_, scheduler_, micro, run);
}

void run_step(const kinora_parallel* schedule, void* scheduler, const Parallelism::Microbatches& micro,
              const kinora_run* run) {
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
  check(schedule->step(scheduler, &step, run));
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
  const kinora_group& group = *mesh_->group("dp+fsdp");
  return group.size == 1 ? value : transferred(group, KINORA_OP_ALL_REDUCE, value);
}

double Parallelism::sum_of_world(double value) const {
  return transferred(*mesh_->group("world"), KINORA_OP_ALL_REDUCE, at::full({1}, value, at::kDouble))
      .item<double>();
}

bool Parallelism::any(bool here) const {
  if (world() == 1) return here;
  return transferred(*mesh_->group("world"), KINORA_OP_ALL_REDUCE,
                     at::full({1}, here ? 1.0 : 0.0, at::kDouble))
             .item<double>() > 0;
}

}  // namespace kinora::core
