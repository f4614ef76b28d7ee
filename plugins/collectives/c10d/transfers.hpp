// Maps each transfer to c10d: the call, its buffer, and the function that makes the result.
#pragma once
#include <functional>

#include <ATen/core/Tensor.h>

#include "kinora/aten.hpp"
#include "kinora/collective.hpp"
#include "plugins/collectives/c10d/peers.hpp"

namespace kinora {

// A started transfer.
struct Started {
  std::function<at::Tensor()> result;   // once the work is done; holds the tensors that the work uses
  c10::intrusive_ptr<c10d::Work> work;  // null: nothing to wait for
};

// t: checked, and without gradient. The group has more than one rank. c10d's exceptions pass through.
Started start_transfer(const Peers& peers, const Transfer<at::Tensor>& t);

}  // namespace kinora
