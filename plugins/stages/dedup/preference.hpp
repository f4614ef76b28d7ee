// Which of two copies stays.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::dedup {

enum class Keep { largest, longest, best, first };
Keep keep_of(const std::string& name);

// The numbers by which two clips are compared, or the clips of one video that are copies of those of another; a number
// that no fact gives is kMissing.
struct Quality {
  static constexpr double kMissing = -std::numeric_limits<double>::infinity();
  double score = kMissing;      // of the rule `best`
  double pixels = kMissing;     // of a frame
  double rate = kMissing;       // frames a second
  double bits = kMissing;       // of the file a pixel
  double sharpness = kMissing;  // filter.blur
  double seconds = kMissing;
  double whole = 1;  // 0: its video is damaged
  std::string key;
};

// bytes: of the clip's file; 0: unknown.
Quality quality_of(const nlohmann::json& facts, const std::string& score, double bytes, std::string key);

// Whether a is so much longer than b that b cannot stand for it, whatever the rule: b is an excerpt.
bool is_much_longer(const Quality& a, const Quality& b);

// Whether a is kept rather than b. The rule's own number comes first, then more pixels, the longer one, the one whose
// video is whole, the higher rate, more bits, the sharper one, and last, of any difference, the longer one, the one
// whose name is not that of a copy ("sea (1)", "sea copy"), and the lower key.
// Numbers that differ by 5 % at most, rates by 2 %, are equal. The relation is not transitive: a may be
// preferred to b, b to c and c to a.
bool is_preferred(const Quality& a, const Quality& b, Keep keep);

// The order in which clips are compared: the same with every difference, since sorting needs a transitive relation.
bool comes_before(const Quality& a, const Quality& b, Keep keep);

// Clips together, as one: sums of the lengths, means of the other numbers.
Quality together(const std::vector<const Quality*>& clips, std::string key);

}  // namespace kinora::dedup
