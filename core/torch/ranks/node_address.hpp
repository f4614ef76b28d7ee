// The address at which the ranks of a launch meet, where Slurm's names of nodes are known to Slurm alone.
#pragma once
#include <string>

#include "core/runtime/place.hpp"

namespace kinora::core {

// The launch's rendezvous; if it has the name of a node that this machine cannot look up, with the address that
// `scontrol show node` says. Throws Error(KINORA_ERROR_INVALID) that names MASTER_ADDR if it does not.
std::string reachable_rendezvous(const LaunchPlace&);

}  // namespace kinora::core
