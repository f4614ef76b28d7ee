// What the ranks of a run tell each other about weights: small tables and texts that all need to know, and
// numbers that one rank needs. [owner-thread]; but for rank() and size(), every call is a meeting of all
// ranks.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/abi/strategy.h"

namespace kinora::core {

class Exchange {
 public:
  // One process: nothing is transferred.
  Exchange() = default;
  // Among the ranks of a group, which outlives it. device: where its transfers want tensors (nccl: the GPU).
  explicit Exchange(const kinora_group& group, at::Device device = at::kCPU);
  int64_t rank() const { return group_ ? group_->rank : 0; }
  int64_t size() const { return group_ ? group_->size : 1; }

  // The rows of all ranks, by rank: of one dtype, of any lengths.
  std::vector<at::Tensor> gather(const at::Tensor& row) const;
  std::vector<std::string> gather(const std::string& text) const;
  // That rank's tensor. The others give one of its shape and dtype.
  at::Tensor from(int64_t rank, const at::Tensor& tensor) const;
  // Sends all of `out`, and fills all of `in`, which have the sizes that their peers send; both in the order
  // of peers, at most one each.
  struct Message {
    int64_t peer = 0;
    at::Tensor bytes;  // uint8 [n], n > 0, on the CPU
  };
  void swap(const std::vector<Message>& out, std::vector<Message>& in) const;
  // Where ranks learn whether all of them came through. If one brings a failure, all throw it, with its rank.
  void agree(const std::exception_ptr& failure) const;
  // What every rank does by itself, and what rank 0 does for all: all throw what one throws.
  void together(const std::function<void()>& f) const;
  void on_first(const std::function<void()>& f) const;

 private:
  at::Tensor transfer(uint32_t op, const at::Tensor& in, int64_t peer = 0) const;
  const kinora_group* group_ = nullptr;
  at::Device device_ = at::kCPU;
};

}  // namespace kinora::core
