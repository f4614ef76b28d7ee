#include "preference.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
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

// 0 also if the larger number exceeds the other by this share at most.
int nearly_compared(double a, double b, double share) {
  const double more = std::max(a, b), less = std::min(a, b);
  return more > (1 + share) * less || less == Quality::kMissing ? compared(a, b) : 0;
}

// A re-encoding adds or drops frames (length), pads to whole blocks (1088 lines for 1080) and rounds the rate (24000 /
// 1001, 23.98, 24): such a difference says nothing of the picture.
constexpr double kNearLength = 0.05, kNearPixels = 0.05, kNearRate = 0.02, kNearBits = 0.05,
                 kNearSharpness = 0.05;

bool is_letter(std::string_view text, size_t at) {
  return at < text.size() && std::isalpha(static_cast<unsigned char>(text[at])) != 0;
}

// Whether a program or a person has named it as a copy: "sea (1)", "Copy of sea"; also with a clip's number behind.
bool is_named_copy(std::string_view key) {
  for (size_t at = 0; at + 4 <= key.size(); ++at) {
    const std::string_view word = key.substr(at, 4);
    const bool is_word = word == "copy" || word == "Copy" || word == "COPY";
    if (is_word && !is_letter(key, at - 1) && !is_letter(key, at + 4)) return true;
  }
  for (size_t at = key.find(" ("); at != key.npos; at = key.find(" (", at + 1)) {
    const size_t end = key.find_first_not_of("0123456789", at + 2);
    if (end == key.npos || end == at + 2 || key[end] != ')') continue;
    if (end + 1 == key.size() || key[end + 1] == '-') return true;
  }
  return false;
}

int by_name(const Quality& a, const Quality& b) {
  const bool is_a = is_named_copy(a.key), is_b = is_named_copy(b.key);
  return is_a != is_b ? (is_b ? 1 : -1) : -a.key.compare(b.key);
}

int by_quality(const Quality& a, const Quality& b) {
  if (const int order = compared(a.whole, b.whole)) return order;
  if (const int order = nearly_compared(a.rate, b.rate, kNearRate)) return order;
  if (const int order = nearly_compared(a.bits, b.bits, kNearBits)) return order;
  if (const int order = nearly_compared(a.sharpness, b.sharpness, kNearSharpness)) return order;
  if (const int order = compared(a.seconds, b.seconds)) return order;
  return by_name(a, b);
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
  const int length = nearly_compared(a.seconds, b.seconds, kNearLength),
            size = nearly_compared(a.pixels, b.pixels, kNearPixels);
  if (keep == Keep::longest && length) return length > 0;
  if (size) return size > 0;
  return (length ? length : by_quality(a, b)) > 0;
}

bool comes_before(const Quality& a, const Quality& b, Keep keep) {
  if (const int order = by_rule(a, b, keep)) return order > 0;
  const auto numbers = [keep](const Quality& of) {
    return std::tuple(keep == Keep::longest ? of.seconds : 0, of.pixels, of.whole, of.rate, of.bits,
                      of.sharpness, of.seconds);
  };
  const auto of_a = numbers(a), of_b = numbers(b);
  return of_a == of_b ? by_name(a, b) > 0 : of_a > of_b;
}

Quality together(const std::vector<const Quality*>& clips, std::string key) {
  Quality out;
  out.key = std::move(key);
  const auto n = static_cast<double>(clips.size());
  for (const auto number : {&Quality::score, &Quality::pixels, &Quality::rate, &Quality::bits,
                            &Quality::sharpness, &Quality::seconds, &Quality::whole}) {
    out.*number = 0;
    for (const Quality* clip : clips) out.*number += clip->*number / (number == &Quality::seconds ? 1 : n);
  }
  return out;
}

}  // namespace kinora::dedup
