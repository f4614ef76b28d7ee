// Exchanges weights among the ranks of a run: small tables and texts that all of them need, and values that
// one rank needs. [owner-thread]; every call except rank() and size() is collective over all ranks.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/abi/parallel.h"

namespace kinora::core {

// The text's bytes, uint8 [n] on the CPU.
at::Tensor tensor_of_text(const std::string& text);

class Exchange {
 public:
  // A single process: nothing is transferred.
  Exchange() = default;
  // Exchange among the ranks of a group, which must outlive it. device: device of the tensors in its
  // transfers (nccl: the GPU).
  explicit Exchange(const kinora_group& group, at::Device device = at::kCPU);
  int64_t rank() const { return group_ ? group_->rank : 0; }
  int64_t size() const { return group_ ? group_->size : 1; }

  // The rows of all ranks, by rank: of one dtype, lengths may differ.
  std::vector<at::Tensor> gather(const at::Tensor& row) const;
  std::vector<std::string> gather(const std::string& text) const;
  // The tensor of `rank`. The others pass one of the same shape and dtype.
  at::Tensor from(int64_t rank, const at::Tensor& tensor) const;
  // Sends all of `out` and fills all of `in`, whose sizes equal those that their peers send. Both are ordered
  // by peer, with at most one message per peer.
  struct Message {
    int64_t peer = 0;
    at::Tensor bytes;  // uint8 [n], n > 0, on the CPU
  };
  void swap(const std::vector<Message>& out, std::vector<Message>& in) const;
  // Tells every rank whether all of them succeeded. If any passes a failure, all throw it, with its rank.
  void agree(const std::exception_ptr& failure) const;
  // Runs f on every rank (together) or on rank 0 (on_first); an error on one is thrown on all.
  void together(const std::function<void()>& f) const;
  void on_first(const std::function<void()>& f) const;

 private:
  at::Tensor transfer(uint32_t op, const at::Tensor& in, int64_t peer = 0) const;
  const kinora_group* group_ = nullptr;
  at::Device device_ = at::kCPU;
};

}  // namespace kinora::core
