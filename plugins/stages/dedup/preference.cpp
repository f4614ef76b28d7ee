#include "preference.hpp"

#include <algorithm>
#include <tuple>

namespace kinora::dedup {
namespace {

double fact_number(const nlohmann::json& facts, const std::string& name) {
  const auto at = facts.find(name);
  return at != facts.end() && at->is_number() ? at->get<double>() : Quality::kMissing;
}

// 1: a is preferred; -1: b is; 0: neither.
int compared(double a, double b) { return a == b ? 0 : a > b ? 1 : -1; }

int by_rule(const Quality& a, const Quality& b, Keep keep) {
  return keep == Keep::best ? compared(a.score, b.score) : keep == Keep::first ? -a.key.compare(b.key) : 0;
}

int by_quality(const Quality& a, const Quality& b) {
  for (const auto number : {&Quality::rate, &Quality::bits, &Quality::sharpness, &Quality::seconds})
    if (const int order = compared(a.*number, b.*number)) return order;
  return -a.key.compare(b.key);
}

// The longer one, if they are not nearly equal: a re-encoding may add or drop some frames.
int by_length(const Quality& a, const Quality& b) {
  constexpr double kNearly = 1.05;
  const double longer = std::max(a.seconds, b.seconds), shorter = std::min(a.seconds, b.seconds);
  return longer > kNearly * shorter || shorter == Quality::kMissing ? compared(a.seconds, b.seconds) : 0;
}

}  // namespace

Keep keep_of(const std::string& name) {
  return name == "longest" ? Keep::longest
         : name == "best"  ? Keep::best
         : name == "first" ? Keep::first
                           : Keep::largest;
}

Quality quality_of(const nlohmann::json& facts, const std::string& score, double bytes, std::string key) {
  const auto scores = facts.value("scores", nlohmann::json::object());
  const double width = fact_number(facts, "width"), height = fact_number(facts, "height"),
               frames = fact_number(facts, "frames");
  Quality out;
  out.score = score.empty() ? Quality::kMissing : fact_number(scores, score);
  if (width > 0 && height > 0) out.pixels = width * height;
  out.rate = fact_number(facts, "fps");
  if (bytes > 0 && out.pixels > 0 && frames > 0) out.bits = 8 * bytes / (out.pixels * frames);
  out.sharpness = fact_number(scores, "filter.blur");
  out.seconds = fact_number(facts, "duration_s");
  out.key = std::move(key);
  return out;
}

bool is_much_longer(const Quality& a, const Quality& b) {
  constexpr double kMuch = 1.25;
  return b.seconds > 0 && a.seconds > kMuch * b.seconds;
}

bool is_preferred(const Quality& a, const Quality& b, Keep keep) {
  if (const int order = by_rule(a, b, keep)) return order > 0;
  const int length = by_length(a, b), size = compared(a.pixels, b.pixels);
  if (keep == Keep::longest && length) return length > 0;
  if (size) return size > 0;
  return (length ? length : by_quality(a, b)) > 0;
}

bool comes_before(const Quality& a, const Quality& b, Keep keep) {
  if (const int order = by_rule(a, b, keep)) return order > 0;
  if (keep == Keep::longest && a.seconds != b.seconds) return a.seconds > b.seconds;
  if (a.pixels != b.pixels) return a.pixels > b.pixels;
  return by_quality(a, b) > 0;
}

Quality together(const std::vector<const Quality*>& clips, std::string key) {
  Quality out;
  out.key = std::move(key);
  const auto n = static_cast<double>(clips.size());
  for (const auto number : {&Quality::score, &Quality::pixels, &Quality::rate, &Quality::bits,
                            &Quality::sharpness, &Quality::seconds}) {
    out.*number = 0;
    for (const Quality* clip : clips) out.*number += clip->*number / (number == &Quality::seconds ? 1 : n);
  }
  return out;
}

}  // namespace kinora::dedup
