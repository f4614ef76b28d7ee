// One item of a curate job as the studio lists it.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>

namespace kinora::studio {

enum class End : uint8_t { kept, filtered, failed };

constexpr const char* name_of(End end) {
  return end == End::kept ? "kept" : end == End::filtered ? "filtered" : "failed";
}

struct Clip {
  std::string id;  // "JOB/KEY"
  std::string key;
  std::string film;  // key of the film it was cut from; "" for a film
  std::string stage, reason, caption, url;
  End end = End::kept;
  bool consumed = false;  // a film of which clips were made: it is shown as its clips
  double score = std::nan("");
  size_t job = 0;
  uint64_t line_at = 0, line_size = 0;  // its line of items.jsonl; size 0: there is no such file yet
};

}  // namespace kinora::studio
