#include "core/torch/context/parallelism.hpp"

#include <ATen/ATen.h>

#include "core/paths.hpp"
#include "core/plugin/host.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

int64_t number_from(const char* name, int64_t fallback) {
  const std::string text = environment(name);
  if (text.empty()) return fallback;
  try {
    return std::stoll(text);
  } catch (const std::exception&) {
    throw Error(KINORA_INVALID,
                std::string(name) + "=" + text + " is not a number; unset it or let the launcher set it");
  }
}

// A sum over a group that is under way.
class Sum {
 public:
  Sum(const kinora_group& group, const at::Tensor& x) : group_(group), whole_(x.contiguous()) {
    if (group.size == 1) return;
    kinora_transfer transfer{};
    transfer.struct_size = sizeof transfer;
    transfer.op = KINORA_SUM;
    transfer.in = handle(whole_);
    check(group.start(group.self, &transfer, &work_));
  }
  at::Tensor finish() {
    if (group_.size == 1) return whole_;
    kinora_tensor out = nullptr;
    check(group_.finish(work_, &out));
    return adopt<at::Tensor>(out);
  }

 private:
  const kinora_group& group_;
  at::Tensor whole_;
  void* work_ = nullptr;
};

at::Tensor summed(const kinora_group& group, const at::Tensor& x) { return Sum(group, x).finish(); }

// Gradients of leaves as few long vectors, each summed while the next is made.
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
    Sum sum;
    std::vector<at::Tensor*> gradients;
  };
  void start() {
    std::vector<at::Tensor> flat;
    for (const auto* g : open_) flat.push_back(g->reshape({-1}));
    started_.push_back({Sum(*group_, at::cat(flat)), std::move(open_)});
    open_.clear();
    bytes_ = 0;
  }
  const kinora_group* group_ = nullptr;
  std::vector<at::Tensor*> open_;
  size_t bytes_ = 0;
  std::vector<Bucket> started_;
};

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
  const int64_t rank = number_from("RANK", 0), world = ranks();
  if (world > 1 && context.spec().component("collective")) {
    join(context, axes(context, world), rank);
  } else {
    mesh_ = std::make_unique<MeshOwner>();
  }
  for (const auto* use : context.spec().list("parallel")) {
    const Component component = context.open(*use);
    const auto& api = component.table<kinora_strategy>();
    instances_.emplace_back(made(api.create(host(), use->options.abi(), mesh_->abi()), component.spec->id),
                            api.destroy);
    if (api.step && schedule_)
      throw Error(KINORA_INVALID,
                  "parallel: " + component.spec->id + " is the second strategy with a schedule; use one");
    if (api.step) {
      schedule_ = &api;
      scheduler_ = instances_.back().get();
    }
    const kinora_link* link = nullptr;
    called(api.link(instances_.back().get(), &link), component.spec->id);
    if (link) links_.push_back(link);
  }
  // Every rank meets the others here, not where a step happens to need a group first.
  for (const char* axes : {"world", "pp+cfg+cp+tp", "cfg", "pp+dp+fsdp", "dp+fsdp+cp", "dp+fsdp+cp+tp", "dp+fsdp+cp+pp", "dp+cp",
                           "dp+cp+tp", "dp+cp+pp", "dp+cp+tp+pp"})
    mesh_->group(axes);
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

int64_t Parallelism::ranks() { return number_from("WORLD_SIZE", 1); }

int64_t Parallelism::data_ranks(const MeshOwner::Sizes& axes) {
  int64_t out = 1;
  for (const char* axis : {"dp", "fsdp"})
    if (const auto it = axes.find(axis); it != axes.end()) out *= it->second;
  return out;
}

MeshOwner::Sizes Parallelism::axes(const JobView& context, int64_t world) {
  const MeshOwner alone;
  MeshOwner::Sizes sizes;
  std::map<std::string, std::string> by_axis;  // which strategy cuts it
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
    if (const auto [it, first] = by_axis.emplace(axis, component.spec->id); !first)
      throw Error(KINORA_INVALID, "parallel: " + it->second + " and " + component.spec->id +
                                      " both cut along axis " + axis + "; leave one of them out" +
                                      (axis == "cp" ? " (cp-2d is Ulysses and ring in one)" : ""));
    const int64_t size = use->options.values().value("size", int64_t{0});
    if (size == 0) open_axis = axis;
    if (size > 0) product *= sizes[axis] = size;
  }
  if (!open_axis.empty()) sizes[open_axis] = world / product;
  if (product * (open_axis.empty() ? 1 : world / product) != world)
    throw Error(KINORA_INVALID,
                "parallel: its strategies are for " + std::to_string(product) + " of the " +
                    std::to_string(world) +
                    " ranks of this launch (WORLD_SIZE); add ddp, which takes what is left, or start " +
                    std::to_string(std::max<int64_t>(world / product, 1) * product));
  return sizes;
}

void Parallelism::join(JobContext& context, const MeshOwner::Sizes& axes, int64_t rank) {
  const auto* use = context.spec().component("collective");
  const Component component = context.open(*use);
  const auto& api = component.table<kinora_collective>();
  collective_ = Instance(made(api.create(host(), use->options.abi()), component.spec->id), api.destroy);
  const std::string address = environment("MASTER_ADDR"), port = environment("MASTER_PORT");
  const std::string rendezvous =
      environment("KINORA_RENDEZVOUS").empty()
          ? "tcp://" + (address.empty() ? "127.0.0.1" : address) + ":" + (port.empty() ? "29500" : port)
          : environment("KINORA_RENDEZVOUS");
  int64_t world = 1;
  for (const auto& [axis, size] : axes) world *= size;
  kinora_world about{};
  about.struct_size = sizeof about;
  about.timeout_ms = static_cast<int32_t>(number_from("KINORA_TIMEOUT_MS", 600000));
  about.rank = rank;
  about.size = world;
  about.rendezvous = rendezvous.c_str();
  check(api.join(collective_.get(), &about));
  mesh_ = std::make_unique<MeshOwner>(api, collective_.get(), rank, axes);
}

void Parallelism::step(const Microbatches& micro, const kinora_run* run) const {
  if (!schedule_) {
    for (int64_t i = 0; i < micro.count; ++i) {
      kinora_pass pass{};
      pass.struct_size = sizeof pass;
      pass.micro = i;
      if (micro.forward(pass)) micro.backward(pass);
    }
    return;
  }
  kinora_step step{};
  step.struct_size = sizeof step;
  step.n_micro = micro.count;
  step.self = const_cast<Microbatches*>(&micro);
  step.forward = [](void* self, const kinora_pass* pass) {
    return guard([&] {
      if (!static_cast<const Microbatches*>(self)->forward(*pass)) throw Stop{};
    });
  };
  step.backward = [](void* self, const kinora_pass* pass) {
    return guard([&] { static_cast<const Microbatches*>(self)->backward(*pass); });
  };
  check(schedule_->step(scheduler_, &step, run));
}

std::string Parallelism::copies(const Parameter& p, bool in_shards) const {
  std::string out = "dp+cp";
  if (!in_shards) out += "+fsdp";
  if (p.shards == 1) out += "+tp";
  if (p.block < 0) out += "+pp";  // the others are on one stage
  return out;
}

double Parallelism::share(const Parameter& p, bool in_shards) const {
  return 1 / static_cast<double>(mesh_->group(copies(p, in_shards))->size);
}

Exchange Parallelism::exchange(const Parameters& parameters) const {
  if (world() == 1) return {};
  Exchange out;
  out.mine = [this, &parameters](const Leaf& leaf, const Piece& piece) {
    return mesh_->group(copies(parameters[static_cast<size_t>(piece.param - 1)], leaf.reduced_by_link))
               ->rank == 0;
  };
  // As bytes: a sum with zeros then keeps every bit, -0.0 and NaN among them.
  out.sum = [this](at::Tensor& x) {
    const at::Tensor bytes = x.contiguous().view({-1}).view(at::kByte);
    x = summed(*mesh_->group("world"), bytes).view(x.scalar_type()).view(x.sizes());
  };
  return out;
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

std::vector<double> Parallelism::sum(const std::vector<double>& values) const {
  const kinora_group& group = *mesh_->group("pp+dp+fsdp");
  if (group.size == 1 || values.empty()) return values;
  const at::Tensor all = summed(group, at::tensor(values, at::kDouble)).contiguous();
  return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
}

double Parallelism::sum_of_world(double value) const {
  return summed(*mesh_->group("world"), at::full({1}, value, at::kDouble)).item<double>();
}

bool Parallelism::any(bool here) const {
  if (world() == 1) return here;
  return summed(*mesh_->group("world"), at::full({1}, here ? 1.0 : 0.0, at::kDouble)).item<double>() > 0;
}

}  // namespace kinora::core
