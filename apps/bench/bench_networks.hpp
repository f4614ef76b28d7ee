// `kinora bench train|sample|vae`: measures networks of this process and of a peer in turns.
#pragma once
#include "core/runtime/runtime.hpp"

namespace kinora::core {

// request: {"what": "train", "sample" or "vae", "threads", "repeat", "peer": a command, or "", "quick": small
// inputs, by default false}. The peer is run as `COMMAND WHAT THREADS` once per round and prints {NAME:
// {"seconds", "cpu_seconds"}, ..., "peak_rss": bytes} last, where NAME may be "eager" or "compiled" or, for
// vae, the measured operation. Returns the measurements by name. Throws kinora::Error.
json bench_networks(Runtime& runtime, const json& request);

}  // namespace kinora::core
