// x264's presets, fastest first.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace kinora::video {

inline constexpr std::array<std::string_view, 10> kPresets = {"ultrafast", "superfast", "veryfast", "faster",
                                                              "fast",      "medium",    "slow",     "slower",
                                                              "veryslow",  "placebo"};

// The same as choices of an option.
inline std::vector<std::string> preset_names() { return {kPresets.begin(), kPresets.end()}; }

}  // namespace kinora::video
