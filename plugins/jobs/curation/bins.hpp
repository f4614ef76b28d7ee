// Where a clip belongs by its shape and length: the folders of Cosmos-Curate's shards,
// resolution_720/aspect_ratio_16_9/duration_5_10.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

namespace kinora::core {

// From the fact `bin` (resolution, aspect, duration) that clip.transcode leaves, or from width, height (as shown) and
// duration_s by kinora/bins.hpp. Cosmos drops what has no bin: here a clip below 5 s is duration_0_5, one wider than 10 to 1
// aspect_ratio_other. Empty if the facts do not say.
std::string bin_of(const nlohmann::json& facts);

}  // namespace kinora::core
