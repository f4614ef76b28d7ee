// Samples as the host keeps them (kinora.samples/1, see the SDK's abi/sample.h). Core uses them through
// kinora::Sample.
#pragma once
#include <string>
#include <vector>

#include "kinora/abi/sample.h"

namespace kinora::core {

const kinora_samples_api& samples_table();

// [owner-thread] Which tensors a sample of that table has, in the order they were set.
std::vector<std::string> tensor_names(const kinora_sample*);

}  // namespace kinora::core
