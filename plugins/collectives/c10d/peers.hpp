// The ranks of one group, and who of them is missing when a transfer fails.
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
  std::string name;              // of the group
  std::vector<int64_t> members;  // world ranks
  int64_t rank = 0;              // of this process, within the group
  std::chrono::milliseconds timeout{};
  at::Device device = at::kCPU;               // on which tensors travel
  c10::intrusive_ptr<c10d::Store> store;      // the group's own part of it
  c10::intrusive_ptr<c10d::Backend> backend;  // null: a group of one
  std::function<void()> leave;                // ends its connections at once, and so the waits of the others
  std::shared_ptr<RollCall> roll;             // of the world

  int64_t size() const { return static_cast<int64_t>(members.size()); }
  // Where this rank stands in a transfer ("sum #17"). peer: of a SEND or RECV, whose other end is the only
  // one that it waits for; else -1.
  RollCall::Place place(const std::string& what, int64_t peer) const;
  // The error of a transfer that failed with `text`; the group is of no use afterwards. Libraries know
  // addresses, not ranks; so all ranks are asked where they stand, which ends their waits too, and those that
  // do not say, or are in no transfer, are the missing ones. KINORA_TIMEOUT if the first that failed did for
  // its time was over, KINORA_IO if a connection broke.
  Error failure(const std::string& what, const std::string& text, int64_t peer = -1) const;
};

}  // namespace kinora
