// Computes the seconds of one block of the model on one rank, forward and backward, by simulating its kernels
// and messages: a compute stream, a stream of tensor parallelism and one of context parallelism.
#pragma once
#include <map>
#include <string>

#include "apps/planner/communication.hpp"
#include "apps/planner/kernels.hpp"

namespace kinora::core::plan {

struct BlockTime {
  double forward = 0, backward = 0;     // seconds
  std::map<std::string, double> spent;  // of both: by work of the compute stream, and by what it waited for
};
BlockTime block_time(const Layout&, const Problem&);

// Seconds of embedding and head of one microbatch, forward.
double outer_time(const Layout&, const Problem&);

}  // namespace kinora::core::plan
