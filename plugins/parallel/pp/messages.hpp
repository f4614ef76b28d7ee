// Messages between the stages of a pipeline. A transfer is identified by its boundary, microbatch and
// direction, so messages can be awaited in any order.
#pragma once
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"

namespace kinora::pp {

// Shapes and dtypes of the tensors between two stages, as numbers that can be sent before
// them.
struct Geometry {
  struct One {
    at::ScalarType dtype;
    std::vector<int64_t> shape;
    bool operator==(const One&) const = default;
  };
  std::vector<One> tensors;
  bool operator==(const Geometry&) const = default;

  static Geometry of(const std::vector<at::Tensor>& tensors);
  // int64 [kNumbers]. Throws kinora::Error(KINORA_ERROR_UNSUPPORTED) for more tensors or dimensions than fit.
  static constexpr int64_t kTensors = 8, kDims = 8, kNumbers = 1 + kTensors * (2 + kDims);
  at::Tensor encoded(at::Device device) const;
  static Geometry decoded(const at::Tensor& numbers);
  std::vector<at::Tensor> made(at::Device device) const;  // uninitialised
};

enum class Direction { forward, back };

class Messages {
 public:
  using Transfer = Started<at::Tensor>;
  explicit Messages(Group<at::Tensor> group) : group_(group) {}

  // Between stage `boundary` and the next one, which is on the next rank. number: 0 to kTensors - 1.
  Transfer send(const at::Tensor& x, int64_t boundary, int64_t micro, Direction way, int64_t number) const;
  Transfer receive(const at::Tensor& like, int64_t boundary, int64_t micro, Direction way,
                   int64_t number) const;
  static constexpr int64_t kTensors = 32;

  // The same on every rank: the arguments of a pass. Both sides of a boundary agree once per key on the
  // tensors that pass it.
  using Key = std::vector<int64_t>;
  void tell(const std::vector<at::Tensor>& flow, int64_t boundary, const Key& key);
  Geometry ask(int64_t boundary, const Key& key, at::Device device);
  // The tensors of rank `from`, on every rank. boundary: a number that is not used elsewhere.
  std::vector<at::Tensor> broadcast(std::vector<at::Tensor> tensors, int64_t from, int64_t boundary,
                                    const Key& key, at::Device device);
  // Waits for the sends of tell().
  void settle() { told_.clear(); }

 private:
  int64_t tag(int64_t boundary, int64_t micro, Direction way, int64_t number) const;
  Group<at::Tensor> group_;
  std::map<std::pair<int64_t, Key>, Geometry> known_;
  std::vector<Transfer> told_;
};

}  // namespace kinora::pp
