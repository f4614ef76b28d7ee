// What ranks tell each other beside a computation: small tensors and texts of every rank, on every rank.
#pragma once
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/abi/strategy.h"

namespace kinora::core {

// [owner-thread] One transfer, done. Throws kinora::Error.
at::Tensor transferred(const kinora_group&, uint32_t op, const at::Tensor&);

// [owner-thread] The rows of all ranks, [ranks, columns].
at::Tensor gather_rows(const kinora_group&, const std::vector<double>& mine);

// [owner-thread] The text of every rank, in group order; they may differ in length.
std::vector<std::string> gather_texts(const kinora_group&, const std::string& mine);

}  // namespace kinora::core
