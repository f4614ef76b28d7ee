#include "plugins/jobs/curation/bins.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "kinora/bins.hpp"

namespace kinora::core {
namespace {

// Of the fact, whose text becomes a folder's name; else what is measured.
std::string name_of(const nlohmann::json& bin, const char* what, const std::string& measured) {
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
  const auto& said = object_in(facts, "bin");
  const Bin bin = kinora::bin_of(width, height, seconds);
  return fmt::format("resolution_{}/aspect_ratio_{}/duration_{}", name_of(said, "resolution", bin.resolution),
                     name_of(said, "aspect", bin.aspect.value_or("other")),
                     name_of(said, "duration", bin.duration.value_or("0_5")));
}

}  // namespace kinora::core
