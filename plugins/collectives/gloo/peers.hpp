// The ranks of one group, and who of them is missing when a transfer fails.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "kinora/error.hpp"

namespace kinora {

struct Peers {
  std::string name;              // of the group
  std::vector<int64_t> members;  // world ranks
  int64_t rank = 0;              // of this process, within the group
  std::chrono::milliseconds timeout{};
  c10::intrusive_ptr<c10d::Store> store;            // the group's own part of it
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;  // null: a group of one

  int64_t size() const { return static_cast<int64_t>(members.size()); }

  // The error of a transfer ("sum #17") that failed with `text`. Gloo knows addresses, not ranks; so every
  // rank whose transfer fails notes in the store where it stands, and those that note nothing within a tenth
  // of the time limit are the missing ones. peer: of a SEND or RECV, whose other end is the only one that
  // matters; else -1. KINORA_TIMEOUT if any rank's time was over, KINORA_IO if a connection broke.
  Error failure(const std::string& what, const std::string& text, int64_t peer = -1) const;
};

}  // namespace kinora
