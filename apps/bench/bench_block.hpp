// `kinora bench block`: the share of a device's matrix product rate that a large model's block reaches.
#pragma once
#include "core/runtime/runtime.hpp"

namespace kinora::core {

// Measures forward and backward of model/dit of size 7B with one block (24 heads of 128, text of 512 tokens
// of 1024 channels), in bfloat16 on a GPU and float32 on the CPU. request: {"tokens": approximate number in a
// video, "device", "threads", "repeat"}. Returns the time of a step, its operations per second (attention
// included, a backward counted as two forwards), and their share of a large product's rate in the same run,
// which is the MFU if that product reaches the device's peak. Throws kinora::Error.
json bench_block(Runtime& runtime, const json& request);

}  // namespace kinora::core
