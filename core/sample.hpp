// Samples as the host keeps them (kinora.samples/1, see the SDK's abi/sample.h). Core uses them through
// kinora::Sample.
#pragma once
#include "kinora/abi/sample.h"

namespace kinora::core {

const kinora_samples_api& samples_table();

}  // namespace kinora::core
