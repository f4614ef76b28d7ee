#include "clip.hpp"

#include <cmath>
#include <limits>

#include "kinora/curation.hpp"

namespace kinora::dedup {
namespace {

constexpr double kMissing = -std::numeric_limits<double>::infinity();

double number(const nlohmann::json& facts, const std::string& name) {
  const auto at = facts.find(name);
  return at != facts.end() && at->is_number() ? at->get<double>() : kMissing;
}

}  // namespace

Clip clip_of(Sample sample, const std::string& keep, const std::string& score) {
  const auto facts = json_field(sample, "json");
  const double width = number(facts, "width"), height = number(facts, "height"),
               length = number(facts, "duration_s"),
               size = width > 0 && height > 0 ? width * height : kMissing;
  Clip clip{std::move(sample), {}, {}};
  if (const auto content = clip.sample.text("sha256")) clip.content = *content;
  if (keep == "best")
    clip.worth = {number(facts.value("scores", nlohmann::json::object()), score), size, length};
  else if (keep == "longest")
    clip.worth = {length, size};
  else if (keep == "largest")
    clip.worth = {size, length};
  return clip;
}

bool before(const Clip& a, const Clip& b) {
  if (a.worth != b.worth) return a.worth > b.worth;
  return a.sample.key() < b.sample.key();
}

std::vector<float> unit_embedding(const Sample& sample, const std::string& name, int64_t size) {
  const std::string field = name + ".npy", file = std::string(sample.key()) + "." + field;
  const auto bytes = sample.text(field.c_str());
  if (!bytes) throw Error(KINORA_NOT_FOUND, file + " is missing; add a stage embed.* with this name before dedup.semantic");
  FloatArray read = read_npy(*bytes, file);
  if (read.shape.size() != 1) throw Error(KINORA_DATA, file + ": it must have one dimension");
  if (size && read.columns() != size)
    throw Error(KINORA_DATA, file + ": it has " + std::to_string(read.columns()) +
                                 " numbers, the earlier clips " + std::to_string(size) +
                                 "; embed all with the same model");
  double square = 0;
  for (const float v : read.values) square += double{v} * v;
  if (!std::isfinite(square) || square <= 0)
    throw Error(KINORA_DATA, file + ": the vector must be finite and not all zeros; embed the clip again");
  for (float& v : read.values) v = static_cast<float>(v / std::sqrt(square));
  return std::move(read.values);
}

}  // namespace kinora::dedup
