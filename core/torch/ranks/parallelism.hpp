// The strategies, the precision and the ranks of a job: the links behind a network's context, and the
// summation of its gradients.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/job.hpp"
#include "core/runtime/place.hpp"
#include "core/torch/ranks/meeting.hpp"
#include "core/torch/ranks/mesh.hpp"
#include "core/torch/tensors/parameter.hpp"
#include "core/torch/weights/weights.hpp"
#include "kinora/abi/parallel.h"
#include "kinora/abi/precision.h"

namespace kinora::core {

// How the ranks of a launch are to work together. A plain value.
struct LaunchPlan {
  std::string name;  // in messages
  std::vector<ComponentUse> strategies;
  std::optional<ComponentUse> precision;      // none: float32
  std::optional<ComponentUse> collective;     // none: one process, whatever the launch
  std::function<Facts(int64_t ranks)> facts;  // what ranks must have in common; asked if there are several
  std::filesystem::path out;                  // the run's folder
};
// From a job's slots parallel, precision and collective. The job must outlive the plan.
LaunchPlan launch_plan(const JobView&);

class Parallelism {
 public:
  // The ranks are the launch's (core/runtime/place.hpp).
  Parallelism(Runtime&, LaunchPlan);
  explicit Parallelism(const JobView& job) : Parallelism(job.runtime(), launch_plan(job)) {}
  Parallelism(const Parallelism&) = delete;
  Parallelism& operator=(const Parallelism&) = delete;
  // The size of every axis that strategies give for this many ranks: a strategy's option `size`, or the
  // remaining ranks if it has none. Throws Error(KINORA_ERROR_INVALID) if some ranks stay unused. world:
  // kAnyWorld if it is not known.
  static MeshOwner::Sizes axes(Runtime&, const std::vector<ComponentUse>& strategies, int64_t world);
  static MeshOwner::Sizes axes(const JobView& job, int64_t world) {
    return axes(job.runtime(), launch_plan(job).strategies, world);
  }
  // Number of ranks that hold different samples.
  static int64_t data_ranks(const MeshOwner::Sizes& axes);

  // The links of the first network.
  std::vector<const kinora_link*> links() const { return links_; }
  // New links for another network, since a link serves one chain. axis: only the link of the strategy that
  // splits along it. Every rank must make the same calls in the same order.
  std::vector<const kinora_link*> more_links(std::string_view axis = {});
  // A new link of the precision alone, for a network of one process; none if the precision has none.
  std::vector<const kinora_link*> precision_links();
  // The mesh in ChainOptions of a network with these links.
  const kinora_mesh* mesh() const { return mesh_->abi(); }
  // The token multiple there: a part of a one-process sequence has whole blocks of tokens of the precision, also
  // if it is cut in halves (a ring).
  int64_t token_multiple() const;
  int64_t rank() const { return mesh_->abi()->rank; }
  int64_t world() const { return mesh_->abi()->size; }
  // This rank's index among the ranks that hold different samples, and their number.
  int64_t data_rank() const {
    return mesh_->coordinate("dp") * mesh_->size("fsdp") + mesh_->coordinate("fsdp");
  }
  int64_t data_size() const { return mesh_->size("dp") * mesh_->size("fsdp"); }
  // The ranks that work on one sample; its results are written by rank 0 of them.
  const kinora_group& of_sample() const { return group("pp+cfg+cp+tp"); }
  // dtype of the residual stream.
  at::ScalarType dtype() const { return dtype_; }
  // dtype of the operands of matrix products, from the precision's manifest (`codes`); otherwise the
  // stream's.
  at::ScalarType product_dtype() const { return product_; }
  // dtype of parameters and targets: float64 for a float64 stream, else float32.
  at::ScalarType parameter_dtype() const { return dtype_ == at::kDouble ? at::kDouble : at::kFloat; }

  // The forwards and backwards of a step's microbatches: in the order of the strategy that has a schedule (a
  // pipeline), otherwise one microbatch after the other. forward returns whether a loss was computed here;
  // backward is called for those microbatches only.
  struct Microbatches {
    int64_t count = 1;
    std::function<bool(const kinora_pass&)> forward;
    std::function<void(const kinora_pass&)> backward;
    at::Device device = at::kCPU;
  };
  void step(const Microbatches&) const;

  // Axes along which ranks hold the same elements of a parameter, joined by '+': its gradient is summed along
  // them. in_shards: a link cut its leaf along fsdp.
  std::string copies(const Parameter&, bool in_shards) const;
  // 1 / number of ranks that hold the same elements as this one.
  double share(const Parameter&, bool in_shards) const;
  // Completes every gradient: sums it over all ranks except those that hold another piece of the parameter.
  void sum_gradients(const Parameters&, std::vector<Leaf>&) const;
  // Sums of values over the ranks that hold different samples, in one transfer. of_stages: also over the
  // stages of a pipeline, of which one knows a training's loss; the others contribute zeros.
  std::vector<double> sum(const std::vector<double>& values, bool of_stages) const;
  // Sum of a tensor over the ranks that hold different samples.
  at::Tensor sum_of_data(const at::Tensor& value) const;
  // Sum over all ranks, to which each contributes its own part.
  double sum_of_world(double value) const;
  const kinora_group& group(std::string_view axes) const { return *mesh_->group(axes); }
  const Traffic& traffic() const { return mesh_->traffic(); }
  // True on all ranks if it is true on any: they all react at the same step to what one rank received (a
  // signal).
  bool any(bool here) const;

 private:
  // A strategy or the precision.
  struct Use {
    Component component;
    const Options* options;
  };
  // Link of a new instance.
  const kinora_link* link_of(const Use&);
  void use_strategies(Runtime&);
  void use_precision(Runtime&);
  void join(Runtime&, const LaunchPlace&);
  void agree(const kinora_collective&, const LaunchPlace&);
  // The order matters for destruction: the mesh uses the collective, and strategies use the mesh, until they
  // are destroyed.
  LaunchPlan plan_;
  Instance collective_{nullptr, [](void*) {}};
  std::unique_ptr<MeshOwner> mesh_;
  std::vector<Use> uses_;
  std::vector<Instance> instances_;
  std::vector<const kinora_link*> links_;
  const kinora_parallel* schedule_ = nullptr;  // the strategy that has a schedule
  void* scheduler_ = nullptr;
  at::ScalarType dtype_ = at::kFloat, product_ = at::kFloat;
  int64_t token_block_ = 1;  // of the precision
};

// Implements Parallelism::step with this strategy's schedule; null: one microbatch after the other.
void run_step(const kinora_parallel* schedule, void* scheduler, const Parallelism::Microbatches&);

}  // namespace kinora::core
