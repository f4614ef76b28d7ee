// The transfers of a group over c10d: their names in errors, checks that keep one from hanging or crashing
// another rank, and the call of each.
#pragma once
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "kinora/aten.hpp"
#include "kinora/collective.hpp"
#include "plugins/collectives/c10d/peers.hpp"

namespace kinora {

// Names the transfers of a group in the order in which they are started.
class TransferNames {
 public:
  struct Name {
    std::string what;   // "sum #17", "recv #2 from rank 5 with tag 7" by world rank
    int64_t peer = -1;  // other end of a message, within the group
  };
  Name next(const Peers&, const Transfer<at::Tensor>&);

 private:
  int64_t collectives_ = 0, messages_ = 0;  // started so far; the first number is the same on every rank
};

[[noreturn]] void invalid_transfer(const Peers&, const std::string& what, const std::string& why);

// The transfer with its dimensions wrapped and its tensor without gradient. Throws
// Error(KINORA_ERROR_INVALID).
Transfer<at::Tensor> checked(const Peers&, Transfer<at::Tensor>, const std::string& what);

// A transfer that was started: a call of c10d, its buffers, and the function that makes the result.
struct Started {
  std::function<at::Tensor()> result;   // once the work is done; holds the tensors that the work uses
  c10::intrusive_ptr<c10d::Work> work;  // null: nothing to wait for
};

// t: checked, and without gradient. The group has more than one rank. c10d's exceptions pass through.
Started start_transfer(const Peers& peers, const Transfer<at::Tensor>& t);

}  // namespace kinora
