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

// A transfer as this rank has written it down, and where that of the others is, by rank within the group.
struct Announced {
  std::string mine, text;
  std::map<int64_t, std::string> others;
  // The first of those that have come so far which differs, as a sentence; empty: none.
  std::string difference(const Peers&) const;
};

// Of one group.
class TransferCheck {
 public:
  // what: its name, "sum #17". Throws Peers::failure() with both transfers; the group is of no use
  // afterwards. One that has started and fails asks the result again: the rank that differs has come by then.
  Announced before(const Peers&, const Transfer<at::Tensor>&, const std::string& what);

 private:
  int64_t collectives_ = 0;
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> messages_;  // by sender, receiver and tag
};

}  // namespace kinora
