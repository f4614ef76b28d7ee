#include "plugins/jobs/curation/peak_memory.hpp"

#include <cstdio>
#include <memory>
#include <unistd.h>

#include <sys/resource.h>

namespace kinora::core {
namespace {

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
