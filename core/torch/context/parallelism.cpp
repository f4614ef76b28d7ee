#include "core/torch/context/parallelism.hpp"

#include <ATen/ATen.h>

#include "core/paths.hpp"
#include "core/plugin/host.hpp"
#include "core/run/place.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

// The sum over a group, in place of the tensor.
at::Tensor summed(const kinora_group& group, const at::Tensor& x) {
  if (group.size == 1) return x;
  kinora_transfer transfer{};
  transfer.struct_size = sizeof transfer;
  transfer.op = KINORA_SUM;
  const at::Tensor whole = x.contiguous();
  transfer.in = handle(whole);
  void* work = nullptr;
  kinora_tensor out = nullptr;
  check(group.start(group.self, &transfer, &work));
  check(group.finish(work, &out));
  return adopt<at::Tensor>(out);
}

// What a precision calls the dtype of the residual stream.
at::ScalarType stream_dtype(int32_t given, const std::string& id) {
  const auto type = static_cast<at::ScalarType>(given);
  for (const auto known : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    if (type == known) return type;
  throw Error(KINORA_INVALID,
              id + ": dtype " + std::to_string(given) + " is no floating-point type that a model can run in");
}

}  // namespace

Parallelism::Parallelism(JobContext& context) {
  const Place place = here();
  if (!place.alone() && context.spec().component("collective")) {
    join(context, axes(context, place.world), place);
  } else {
    mesh_ = std::make_unique<MeshOwner>();
  }
  for (const auto* use : context.spec().list("parallel")) {
    const Component component = context.open(*use);
    const auto& api = component.table<kinora_strategy>();
    instances_.emplace_back(made(api.create(host(), use->options.abi(), mesh_->abi()), component.spec->id),
                            api.destroy);
    if (api.step)
      throw Error(
          KINORA_UNSUPPORTED,
          component.spec->id + " brings a schedule of its own (step), which no trainer here runs yet");
    const kinora_link* link = nullptr;
    called(api.link(instances_.back().get(), &link), component.spec->id);
    if (link) links_.push_back(link);
  }
  if (const auto* use = context.spec().component("precision")) {
    const Component component = context.open(*use);
    const auto& api = component.table<kinora_precision>();
    instances_.emplace_back(made(api.create(host(), use->options.abi()), component.spec->id), api.destroy);
    const kinora_link* link = nullptr;
    called(api.link(instances_.back().get(), &link), component.spec->id);
    if (link) links_.push_back(link);
    product_ = dtype_ = stream_dtype(api.dtype(instances_.back().get()), component.spec->id);
    for (const auto& output : component.spec->outputs)
      if (output.name == "codes" && output.dtype == "bfloat16") product_ = at::kBFloat16;
  }
}

int64_t Parallelism::ranks() { return or_throw(ranks_of(environment)); }

int64_t Parallelism::data_ranks(const MeshOwner::Sizes& axes) {
  int64_t out = 1;
  for (const char* axis : {"dp", "fsdp"})
    if (const auto it = axes.find(axis); it != axes.end()) out *= it->second;
  return out;
}

MeshOwner::Sizes Parallelism::axes(const JobView& context, int64_t world) {
  const MeshOwner alone;
  MeshOwner::Sizes sizes;
  std::string open_axis;
  int64_t product = 1;
  for (const auto* use : context.spec().list("parallel")) {
    const Component component = context.open(*use);
    const auto& api = component.table<kinora_strategy>();
    const Instance probe(made(api.create(host(), use->options.abi(), alone.abi()), component.spec->id),
                         api.destroy);
    const char* named = api.axis(probe.get());
    const std::string axis = named ? named : "";
    if (axis.empty()) continue;
    const int64_t size = use->options.values().value("size", int64_t{0});
    if (size == 0) open_axis = axis;
    if (size > 0) product *= sizes[axis] = size;
  }
  if (!open_axis.empty()) sizes[open_axis] = world / product;
  if (product * (open_axis.empty() ? 1 : world / product) != world)
    throw Error(KINORA_INVALID,
                "parallel: its strategies are for " + std::to_string(product) + " of the " +
                    std::to_string(world) +
                    " ranks of this launch (WORLD_SIZE); add ddp, which takes what is left, or start fewer");
  return sizes;
}

void Parallelism::join(JobContext& context, const MeshOwner::Sizes& axes, const Place& place) {
  const auto* use = context.spec().component("collective");
  const Component component = context.open(*use);
  const auto& api = component.table<kinora_collective>();
  collective_ = Instance(made(api.create(host(), use->options.abi()), component.spec->id), api.destroy);
  kinora_world about{};
  about.struct_size = sizeof about;
  about.timeout_ms = static_cast<int32_t>(place.timeout_ms);
  about.rank = place.rank;
  about.size = place.world;
  about.rendezvous = place.rendezvous.c_str();
  check(api.join(collective_.get(), &about));
  mesh_ = std::make_unique<MeshOwner>(api, collective_.get(), place.rank, axes);
}

void Parallelism::sum_gradients(const Parameters& parameters, std::vector<Leaf>& leaves) const {
  if (world() == 1) return;
  for (auto& leaf : leaves) {
    if (leaf.frozen || leaf.reduced_by_link) continue;
    const bool cut = parameters[static_cast<size_t>(leaf.pieces.at(0).param - 1)].shards > 1;
    at::Tensor& gradient = leaf.tensor.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(leaf.tensor);
    gradient = summed(*mesh_->group(cut ? "pp+dp+fsdp+cp" : "world"), gradient);
  }
}

std::vector<double> Parallelism::sum(const std::vector<double>& values) const {
  if (data_size() == 1 || values.empty()) return values;
  const at::Tensor all = summed(*mesh_->group("dp+fsdp"), at::tensor(values, at::kDouble)).contiguous();
  return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
}

bool Parallelism::any(bool here) const {
  if (world() == 1) return here;
  return summed(*mesh_->group("world"), at::full({1}, here ? 1.0 : 0.0, at::kDouble)).item<double>() > 0;
}

}  // namespace kinora::core
