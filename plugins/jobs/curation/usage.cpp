#include "plugins/jobs/curation/usage.hpp"

#include <cmath>
#include <cstdio>
#include <memory>
#include <unistd.h>

#include <sys/resource.h>

#include "core/base/facts.hpp"

namespace kinora::core {
namespace {

// Floating-point sums depend on the order of their terms in the last bits.
double rounded(double cost) { return std::round(cost * 1e12) / 1e12; }

int64_t most_ever() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

int64_t held_now() {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/statm", "re"), std::fclose);
  long long all = 0, resident = 0;
  if (!file || std::fscanf(file.get(), "%lld %lld", &all, &resident) != 2) return 0;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

void Usage::add(const nlohmann::json& facts) {
  for (const auto& [stage, used] : object_in(facts, "usage").items())
    for (const char* what : {"requests", "prompt_tokens", "completion_tokens", "cost"})
      if (used.is_object() && used.contains(what)) by_stage_[stage][what] += number_in(used, what);
}

nlohmann::json Usage::sums() const {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [stage, used] : by_stage_)
    for (const auto& [what, sum] : used)
      out[stage][what] =
          what == "cost" ? nlohmann::json(rounded(sum)) : nlohmann::json(static_cast<int64_t>(sum));
  return out;
}

PeakMemory::PeakMemory() : before_(most_ever()) { look(); }

void PeakMemory::look() {
  const int64_t now = held_now();
  for (int64_t before = seen_; now > before && !seen_.compare_exchange_weak(before, now);) {
  }
}

int64_t PeakMemory::most() {
  look();
  const int64_t ever = most_ever();
  return ever > before_ ? ever : seen_.load();
}

}  // namespace kinora::core
