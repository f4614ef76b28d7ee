// The ranks of one group, and who of them is missing when a transfer fails.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "kinora/error.hpp"

namespace kinora {

// c10d's group, which can be left at once: its connections end, and so do the waits of the other ranks.
class GlooConnections final : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;
  void close() {
    for (const auto& context : contexts_) context->closeConnections();
  }
};

struct Peers {
  std::string name;              // of the group
  std::vector<int64_t> members;  // world ranks
  int64_t rank = 0;              // of this process, within the group
  std::chrono::milliseconds timeout{};
  c10::intrusive_ptr<c10d::Store> store;     // the group's own part of it
  c10::intrusive_ptr<GlooConnections> gloo;  // null: a group of one

  int64_t size() const { return static_cast<int64_t>(members.size()); }

  // The error of a transfer ("sum #17") that failed with `text`; the group is of no use afterwards. Gloo
  // knows addresses, not ranks; so a rank whose transfer fails notes in the store where it stands and leaves,
  // which lets the others fail and note likewise: those that do not within a tenth of the time limit are the
  // missing ones. peer: of a SEND or RECV, whose other end is the only one that matters; else -1.
  // KINORA_TIMEOUT if any rank's time was over, KINORA_IO if a connection broke.
  Error failure(const std::string& what, const std::string& text, int64_t peer = -1) const;
};

}  // namespace kinora
