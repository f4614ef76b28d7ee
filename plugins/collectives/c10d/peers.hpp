// The ranks of one group, and which of them are missing when a transfer fails.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "kinora/error.hpp"
#include "plugins/collectives/c10d/roll_call.hpp"

namespace kinora {

struct Peers {
  std::string collective;        // "gloo": the first word of every error
  std::string name;              // the group's name
  std::vector<int64_t> members;  // world ranks
  int64_t rank = 0;              // this process's rank within the group
  std::chrono::milliseconds timeout{};
  at::Device device = at::kCPU;               // device of the transferred tensors
  c10::intrusive_ptr<c10d::Store> store;      // the group's own part of the store
  c10::intrusive_ptr<c10d::Backend> backend;  // null: a group of one
  std::function<void()> leave;                // closes its connections at once, and so ends the waits of the others
  std::shared_ptr<RollCall> roll;             // the world's

  int64_t size() const { return static_cast<int64_t>(members.size()); }
  // This rank's place in a transfer ("sum #17"). peer: the other end of a SEND or RECV, the only
  // rank that it waits for; else -1.
  RollCall::Place place(const std::string& what, int64_t peer) const;
  // The error of a transfer that failed with `text`; the group cannot be used afterwards. Libraries know
  // addresses, not ranks; so all ranks are asked for their place, which ends their waits too. Those that
  // do not answer, or are not in a transfer, are the missing ones. KINORA_TIMEOUT if the first failure was a
  // timeout, KINORA_IO if a connection broke.
  Error failure(const std::string& what, const std::string& text, int64_t peer = -1) const;
};

}  // namespace kinora
