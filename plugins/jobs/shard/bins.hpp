// Assigns a clip to a bin by its shape and length: the folders of Cosmos-Curate's shards,
// resolution_720/aspect_ratio_16_9/duration_5_10.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

namespace kinora::core {

// The bin from the fact `bin` (resolution, aspect, duration) that clip.transcode writes, or from width,
// height (as displayed) and duration_s: resolution by the shorter side lt_720, 720, 1080; aspect (width by
// height) 9_16, 3_4, 1_1, 4_3, 16_9 with edges 0.65, 0.88, 1.16 and 1.55, each edge in the lower bin;
// duration in seconds 5_10, 10_30, 30_inf. Cosmos drops clips shorter than 5 s: here their bin is
// duration_0_5. Empty if the facts are missing.
std::string bin_of(const nlohmann::json& facts);

}  // namespace kinora::core
