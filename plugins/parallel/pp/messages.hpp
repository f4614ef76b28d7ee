// What the stages of a pipeline send each other. A transfer is told apart by its boundary, microbatch and
// direction, so none is waited for in the order in which it was sent.
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

  // Between stage `boundary` and the next, which is the next rank's. number: 0 to kTensors - 1.
  Transfer send(const at::Tensor& x, int64_t boundary, int64_t micro, Way way, int64_t number) const;
  Transfer receive(const at::Tensor& like, int64_t boundary, int64_t micro, Way way, int64_t number) const;
  static constexpr int64_t kTensors = 32;

  // The same on every rank: what a pass was given. Both sides of a boundary agree once a key on what passes
  // there.
  using Key = std::vector<int64_t>;
  void tell(const std::vector<at::Tensor>& flow, int64_t boundary, const Key& key);
  Geometry ask(int64_t boundary, const Key& key, at::Device device);
  // The tensors of rank `from`, on every rank. boundary: a number that no other place uses.
  std::vector<at::Tensor> broadcast(std::vector<at::Tensor> tensors, int64_t from, int64_t boundary,
                                    const Key& key, at::Device device);
  // Waits for what tell() has sent.
  void settle() { told_.clear(); }

 private:
  int64_t tag(int64_t boundary, int64_t micro, Way way, int64_t number) const;
  Group<at::Tensor> group_;
  std::map<std::pair<int64_t, Key>, Geometry> known_;
  std::vector<Transfer> told_;
};

}  // namespace kinora::pp
