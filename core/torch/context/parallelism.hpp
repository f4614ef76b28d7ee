// The strategies, the precision and the ranks of a job: what stands behind a network's context, and who sums
// its gradients.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/job.hpp"
#include "core/run/place.hpp"
#include "core/torch/context/agreement.hpp"
#include "core/torch/context/mesh.hpp"
#include "core/torch/tensors/parameter.hpp"
#include "core/torch/weights/weights.hpp"
#include "kinora/abi/precision.h"
#include "kinora/abi/strategy.h"

namespace kinora::core {

class Parallelism {
 public:
  // From the job's slots parallel, precision and collective; a job without a slot runs alone. The ranks are
  // the launch's (core/run/place.hpp).
  explicit Parallelism(JobContext&);
  // The size of every axis that the job's strategies make of so many ranks: a strategy's option `size`, and
  // for one without it the ranks that are left. Throws Error(KINORA_INVALID) where that is not all of them.
  // world: kAnyWorld (layout.hpp) where it is not known.
  static MeshOwner::Sizes axes(const JobView&, int64_t world);
  // Of these axes: ranks that hold different samples.
  static int64_t data_ranks(const MeshOwner::Sizes& axes);

  // Of the first network.
  std::vector<const kinora_link*> links() const { return links_; }
  // New ones, of another network: a link serves one chain. axis: only of the strategy that cuts along it.
  // Every rank asks for the same in the same order.
  std::vector<const kinora_link*> more_links(std::string_view axis = {});
  int64_t rank() const { return mesh_->abi()->rank; }
  int64_t world() const { return mesh_->abi()->size; }
  // This rank's place among the ranks that hold different samples, and their number.
  int64_t data_rank() const {
    return mesh_->coordinate("dp") * mesh_->size("fsdp") + mesh_->coordinate("fsdp");
  }
  int64_t data_size() const { return mesh_->size("dp") * mesh_->size("fsdp"); }
  // The ranks that work on one sample, in rank 0 of which its results are written.
  const kinora_group& of_sample() const { return group("pp+cfg+cp+tp"); }
  // dtype of the residual stream.
  at::ScalarType dtype() const { return dtype_; }
  // dtype of the operands of matrix products, by the precision's manifest (`codes`); else the stream's.
  at::ScalarType product_dtype() const { return product_; }
  // dtype of parameters and targets: float64 for a float64 stream, else float32.
  at::ScalarType parameter_dtype() const { return dtype_ == at::kDouble ? at::kDouble : at::kFloat; }

  // The forwards and backwards of a step's microbatches: in the order of the strategy that has one (a
  // pipeline), else one microbatch after the other. forward says whether a loss was computed here; backward
  // is called for those microbatches only.
  struct Microbatches {
    int64_t count = 1;
    std::function<bool(const kinora_pass&)> forward;
    std::function<void(const kinora_pass&)> backward;
  };
  void step(const Microbatches&, const kinora_run* run) const;

  // Axes along which ranks hold the same numbers of a parameter, joined by '+': its gradient is summed along
  // them. in_shards: a link cut its leaf along fsdp.
  std::string copies(const Parameter&, bool in_shards) const;
  // 1 / ranks that hold the same numbers as this one.
  double share(const Parameter&, bool in_shards) const;
  // Completes every gradient: the sum over all ranks that do not hold another piece of the parameter.
  void sum_gradients(const Parameters&, std::vector<Leaf>&) const;
  // The sums of numbers over the ranks that hold different samples, in one transfer. of_stages: and over the
  // stages of a pipeline, of which one knows the loss of a training; the others give zeros.
  std::vector<double> sum(const std::vector<double>& values, bool of_stages) const;
  // Of a tensor, over the ranks that hold different samples.
  at::Tensor sum_of_data(const at::Tensor& value) const;
  // The sum over all ranks, of which each gives its own part.
  double sum_of_world(double value) const;
  const kinora_group& group(std::string_view axes) const { return *mesh_->group(axes); }
  const Traffic& traffic() const { return mesh_->traffic(); }
  // Whether any rank of the world says so: what one rank was told (a signal), all do at the same step.
  bool any(bool here) const;

 private:
  using Instance = std::unique_ptr<void, void (*)(void*)>;
  // A strategy or the precision.
  struct Use {
    Component component;
    const Options* options;
  };
  // Of a new instance.
  const kinora_link* link_of(const Use&);
  void join(JobContext&, const MeshOwner::Sizes& axes, const LaunchPlace&);
  void agree(const kinora_collective&, Facts, const std::filesystem::path& out, const LaunchPlace&);
  // In this order: the mesh uses the collective, and strategies the mesh, until they are destroyed.
  Instance collective_{nullptr, [](void*) {}};
  std::unique_ptr<MeshOwner> mesh_;
  std::vector<Use> uses_;
  std::vector<Instance> instances_;
  std::vector<const kinora_link*> links_;
  const kinora_strategy* schedule_ = nullptr;  // the one that has a schedule of its own
  void* scheduler_ = nullptr;
  at::ScalarType dtype_ = at::kFloat, product_ = at::kFloat;
};

// What Parallelism::step does, by the schedule of this strategy; null: one microbatch after the other.
void run_step(const kinora_strategy* schedule, void* scheduler, const Parallelism::Microbatches&,
              const kinora_run*);

}  // namespace kinora::core
