#include "plugins/jobs/shard/bins.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/base/facts.hpp"

namespace kinora::core {
namespace {

const char* resolution_of(double shorter_side) {
  return shorter_side >= 1080 ? "1080" : shorter_side >= 720 ? "720" : "lt_720";
}

const char* aspect_of(double ratio) {
  constexpr std::array<double, 4> kEdges{0.65, 0.88, 1.16, 1.55};
  constexpr std::array<const char*, 5> kNames{"9_16", "3_4", "1_1", "4_3", "16_9"};
  return kNames[static_cast<size_t>(std::lower_bound(kEdges.begin(), kEdges.end(), ratio) - kEdges.begin())];
}

const char* duration_of(double seconds) {
  return seconds < 5 ? "0_5" : seconds <= 10 ? "5_10" : seconds <= 30 ? "10_30" : "30_inf";
}

// The name from the fact, whose text becomes a folder's name; else the measured value.
std::string name_of(const nlohmann::json& bin, const char* what, const char* measured) {
  const std::string said = text_in(bin, what);
  const bool is_name = std::all_of(said.begin(), said.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
  return said.empty() || !is_name ? measured : said;
}

}  // namespace

std::string bin_of(const nlohmann::json& facts) {
  const double width = number_in(facts, "width"), height = number_in(facts, "height"),
               seconds = number_in(facts, "duration_s");
  if (!(width > 0) || !(height > 0) || !(seconds > 0)) return "";
  const auto& bin = object_in(facts, "bin");
  return fmt::format("resolution_{}/aspect_ratio_{}/duration_{}",
                     name_of(bin, "resolution", resolution_of(std::min(width, height))),
                     name_of(bin, "aspect", aspect_of(width / height)),
                     name_of(bin, "duration", duration_of(seconds)));
}

}  // namespace kinora::core
