#include "plugins/jobs/loading/failed_samples.hpp"

#include <fmt/format.h>

#include "core/base/log.hpp"
#include "kinora/error.hpp"

namespace kinora::core {

void FailedSamples::add(const std::string& which, const std::string& why) {
  if (!seen_.insert(which).second) return;
  const int64_t failed = ++count_, taken = used_ + failed;
  log_warn("{}: {} is left out: {}", name_, which, why);
  const bool counts = taken >= kFew || most_share_ == 0,
             is_share = counts && static_cast<double>(failed) > most_share_ * static_cast<double>(taken);
  if (!is_share && (most_ < 0 || failed <= most_)) return;
  const std::string limit =
      is_share ? fmt::format("max_failed_share = {}", most_share_) : fmt::format("max_failed = {}", most_);
  throw Error(
      KINORA_ERROR_DATA,
      fmt::format("{}: {} of {} samples cannot be used, more than {} allows; the last is {}: {}; look "
                  "at the data with kinora data verify, or raise the limit in the table of data",
                  name_, failed, taken, limit, which, why));
}

void FailedSamples::add_short(const std::string& which, const std::string& why, int64_t needed) {
  if (!short_.insert(which).second || ++short_count_ > 1) return;
  log_warn(
      "{}: {} is too short and left out: {}; further ones are only counted; where = \"frames >= {}\" in the "
      "table "
      "of data leaves such clips out from the beginning",
      name_, which, why, needed);
}

}  // namespace kinora::core
