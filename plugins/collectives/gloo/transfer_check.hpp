// Option `check` of collective/gloo: ranks announce the transfers that they are about to start, and a rank
// whose transfer differs from another rank's gets an error. Gloo itself ends the process: a message of an
// unexpected size is an exception in a thread of Gloo, where it cannot be caught.
//
// Nothing waits: each rank announces what it starts, then reads the announcements of the others, before it
// starts. If two ranks differ, the later one sees it, and does not start.
#pragma once
#include <map>
#include <string>
#include <tuple>

#include <ATen/core/Tensor.h>

#include "kinora/aten.hpp"
#include "kinora/collective.hpp"
#include "plugins/collectives/c10d/peers.hpp"

namespace kinora {

// A transfer as announced by this rank, and the keys of the others' announcements, by rank within the group.
struct Announced {
  std::string mine, text;
  std::map<int64_t, std::string> others;
  // The first difference among the announcements so far, as a sentence; empty: none.
  std::string difference(const Peers&) const;
};

// The announcements of one group.
class TransferCheck {
 public:
  // what: its name, "sum #17". Throws Peers::failure() with both transfers; the group cannot be used
  // afterwards. A transfer that has started and fails asks again for the difference: the other rank has
  // announced by then.
  Announced before(const Peers&, const Transfer<at::Tensor>&, const std::string& what);

 private:
  int64_t collectives_ = 0;
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> messages_;  // by sender, receiver and tag
};

}  // namespace kinora
