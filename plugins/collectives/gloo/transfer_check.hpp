// Option `check` of collective/gloo: ranks tell each other what they are about to transfer, and one that
// would do something else than another is told so. Gloo itself ends the process: a message of another size
// than is expected is an exception in a thread of its own, where nobody can catch it.
//
// Nothing waits: each rank writes down what it starts, then reads what others have written, before it starts.
// Of two that differ the later one sees it, and does not start.
#pragma once
#include <map>
#include <string>
#include <tuple>

#include <ATen/core/Tensor.h>

#include "kinora/aten.hpp"
#include "kinora/collective.hpp"
#include "plugins/collectives/c10d/peers.hpp"

namespace kinora {

// Of one group.
class TransferCheck {
 public:
  // what: its name, "sum #17". Throws Peers::failure() with both transfers; the group is of no use
  // afterwards.
  void before(const Peers&, const Transfer<at::Tensor>&, const std::string& what);

 private:
  int64_t collectives_ = 0;
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> messages_;  // by sender, receiver and tag
};

}  // namespace kinora
