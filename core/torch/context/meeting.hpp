// Rendezvous of a launch's ranks, and small tensors and texts that they exchange outside of a computation:
// every rank gets those of all ranks.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"
#include "core/run/place.hpp"
#include "kinora/abi/strategy.h"

namespace kinora::core {

// [owner-thread] A collective instance that has joined the ranks of the launch that `here` belongs to.
// Returns when all of them have joined. run: its stop ends the wait; null: the wait cannot be stopped. Throws
// kinora::Error.
std::unique_ptr<void, void (*)(void*)> joined(const Component& collective, const Options&, const LaunchPlace& here,
                                              const kinora_run* run);

// [owner-thread] Runs one transfer and waits for it. Throws kinora::Error.
at::Tensor transferred(const kinora_group&, uint32_t op, const at::Tensor&);

// [owner-thread] The rows of all ranks, [ranks, columns].
at::Tensor gather_rows(const kinora_group&, const std::vector<double>& mine);

// [owner-thread] The text of every rank, in group order; they may differ in length.
std::vector<std::string> gather_texts(const kinora_group&, const std::string& mine);

}  // namespace kinora::core
