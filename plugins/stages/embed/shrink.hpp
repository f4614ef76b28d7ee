// Averages a picture down to a small square, whatever its size and shape.
#pragma once
#include <cstdint>
#include <vector>

namespace kinora::embed {

// Area averages of RGB [height, width, 3]: [side, side, 3], 0..255.
std::vector<double> shrink(const uint8_t* rgb, int64_t height, int64_t width, int64_t side);

// Brightness of RGB pixels [n, 3] by the weights of BT.601: [n], 0..255.
std::vector<double> brightness(const std::vector<double>& rgb);

}  // namespace kinora::embed
