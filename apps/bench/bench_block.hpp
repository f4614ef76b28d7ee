// `kinora bench block`: how much of a device's matrix products a large model's block reaches.
#pragma once
#include "core/runtime/runtime.hpp"

namespace kinora::core {

// Forward and backward of model/dit of size 7B with one block (24 heads of 128, text of 512 tokens of 1024
// channels), in bfloat16 on a GPU and float32 on the CPU. request: {"tokens": about how many a video
// has, "device", "threads", "repeat"}. Gives the time of a step, its operations (the attention's among them,
// a backward twice its forward) a second, and their share of a large product's in the same run, which is the
// MFU if that product reaches the device's peak. Throws kinora::Error.
json bench_block(Runtime& runtime, const json& request);

}  // namespace kinora::core
