// Messages between the stages of a pipeline. A transfer is identified by its boundary, microbatch and
// direction, so messages can be awaited in any order.
#pragma once
#include <map>
#include <vector>

#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"
#include "plugins/parallel/pp/geometry.hpp"

namespace kinora::pp {

enum class Way { forward, back };

class Messages {
 public:
  using Transfer = Started<at::Tensor>;
  explicit Messages(Group<at::Tensor> group) : group_(group) {}

  // Between stage `boundary` and the next one, which is on the next rank. number: 0 to kTensors - 1.
  Transfer send(const at::Tensor& x, int64_t boundary, int64_t micro, Way way, int64_t number) const;
  Transfer receive(const at::Tensor& like, int64_t boundary, int64_t micro, Way way, int64_t number) const;
  static constexpr int64_t kTensors = 32;

  // The same on every rank: the arguments of a pass. Both sides of a boundary agree once per key on the tensors that pass
  // it.
  using Key = std::vector<int64_t>;
  void tell(const std::vector<at::Tensor>& flow, int64_t boundary, const Key& key);
  Geometry ask(int64_t boundary, const Key& key, at::Device device);
  // The tensors of rank `from`, on every rank. boundary: a number that is not used elsewhere.
  std::vector<at::Tensor> broadcast(std::vector<at::Tensor> tensors, int64_t from, int64_t boundary,
                                    const Key& key, at::Device device);
  // Waits for the sends of tell().
  void settle() { told_.clear(); }

 private:
  int64_t tag(int64_t boundary, int64_t micro, Way way, int64_t number) const;
  Group<at::Tensor> group_;
  std::map<std::pair<int64_t, Key>, Geometry> known_;
  std::vector<Transfer> told_;
};

}  // namespace kinora::pp
