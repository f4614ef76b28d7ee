// `kinora bench train|sample|vae`: networks of this process measured in turns with a peer's.
#pragma once
#include "core/runtime/runtime.hpp"

namespace kinora::core {

// request: {"what": "train", "sample" or "vae", "threads", "repeat", "peer": a command, or "", "quick": small inputs, by default false}. The peer is
// run as `COMMAND WHAT THREADS` once a round and prints {NAME: {"seconds", "cpu_seconds"}, ..., "peak_rss":
// bytes} last, where NAME may be "eager" or "compiled" and, of vae, what was measured. Gives what was
// measured by name. Throws kinora::Error.
json bench_networks(Runtime& runtime, const json& request);

}  // namespace kinora::core
