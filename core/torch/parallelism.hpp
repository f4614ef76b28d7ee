// The strategies, the precision and the ranks of a job: what stands behind a network's context, and who sums its gradients.
#pragma once
#include <memory>
#include <vector>

#include "core/run/job.hpp"
#include "core/torch/mesh.hpp"
#include "core/torch/parameter.hpp"
#include "core/torch/weights.hpp"
#include "kinora/abi/precision.h"
#include "kinora/abi/strategy.h"

namespace kinora::core {

class Parallelism {
 public:
  // From the job's slots parallel, precision and collective. The ranks come from RANK and WORLD_SIZE (torchrun's names),
  // which are 0 and 1 when they are not set.
  explicit Parallelism(JobContext&);
  ~Parallelism();

  std::vector<const kinora_link*> links() const { return links_; }
  int64_t rank() const { return mesh_->abi()->rank; }
  int64_t world() const { return mesh_->abi()->size; }
  // This rank's place among the ranks that hold different samples, and their number.
  int64_t data_rank() const;
  int64_t data_size() const;
  // dtype of the residual stream.
  at::ScalarType dtype() const { return dtype_; }

  // Completes every gradient: the sum over all ranks that do not hold another piece of the parameter.
  void sum_gradients(const Parameters&, std::vector<Leaf>&) const;
  // The sum of a number over the ranks that hold different samples.
  double sum(double value) const;

 private:
  const kinora_group* group(const char* axes) const;
  struct Instance {
    void* self;
    void (*destroy)(void*);
  };
  std::unique_ptr<MeshOwner> mesh_;
  std::vector<Instance> instances_;
  std::vector<const kinora_link*> links_;
  at::ScalarType dtype_ = at::kFloat;
};

}  // namespace kinora::core
