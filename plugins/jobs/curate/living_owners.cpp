#include "plugins/jobs/curate/living_owners.hpp"

#include <charconv>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/base/regular_file.hpp"
#include "core/io/atomic_file.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curate/range_leases.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kBetweenLooks(100);
constexpr uint64_t kLongestLease = 1 << 20;  // bytes

using OwnersOfLate = std::map<std::string, std::string>;  // owner: the range and the beat

// The lease in a file of this name; nothing: it is none, or another process has just removed it.
std::optional<RangeLease> lease_in(const fs::path& file) {
  const std::string name = file.filename().string();
  uint64_t first = 0;
  std::from_chars(name.data(), name.data() + name.size(), first);
  if (name != RangeLeases::name_of(first)) return std::nullopt;
  const auto text = read_regular_file(file, kLongestLease);
  if (!text) return std::nullopt;
  const auto lease = catching([&] { return RangeLease::read(*text, name, first, UINT64_MAX); });
  return lease ? std::optional(*lease) : std::nullopt;
}

// The time by the clock of the folder's disk, which may be another machine's.
fs::file_time_type now_on_disk(const fs::path& folder) {
  const fs::path file = folder / fmt::format(".now-{}", ::getpid());
  or_throw(write_file_atomically(file, "now"));
  const auto now = fs::last_write_time(file);
  fs::remove(file);
  return now;
}

// The owners of held leases in all IDENTITY/leases/ below the folder, except those that are stale by now.
OwnersOfLate owners_of_late(const fs::path& folder) {
  OwnersOfLate out;
  std::optional<fs::file_time_type> now;
  std::error_code error;
  for (fs::directory_iterator identity(folder, error), end; !error && identity != end;
       identity.increment(error)) {
    std::error_code none;  // the identity of processes that have leases elsewhere
    for (fs::directory_iterator file(identity->path() / "leases", none); !none && file != end;
         file.increment(none)) {
      const auto lease = lease_in(file->path());
      if (!lease || lease->state != RangeLease::State::held) continue;
      std::error_code gone;
      const auto written = fs::last_write_time(file->path(), gone);
      if (gone) continue;
      if (!now) now = now_on_disk(folder);
      if (*now - written <= kTermsUntilStale * lease->term)
        out[lease->owner] = fmt::format("{} {}", lease->first, lease->sign());
    }
  }
  return out;
}

}  // namespace

Status has_no_living_owner(const std::string& job, const fs::path& folder) {
  const auto waits = [&](const OwnersOfLate& owners) {
    log_info("{}: {} had inputs of it a moment ago; waiting to see whether it still works", job,
             owners.begin()->first);
  };
  return catching([&] {
    OwnersOfLate before;
    while (!cancelled()) {
      const OwnersOfLate now = owners_of_late(folder);
      if (now.empty()) return;
      for (const auto& [owner, sign] : now)
        if (const auto seen = before.find(owner); seen != before.end() && seen->second != sign)
          throw Error(KINORA_ERROR_FAILED,
                      fmt::format("job '{}': process {} shares its inputs by leases in {}; end the "
                                  "processes that share them, or run this one with `lease` too",
                                  job, owner, folder.string()));
      if (before.empty()) waits(now);
      before = now;
      std::this_thread::sleep_for(kBetweenLooks);
    }
    throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  });
}

}  // namespace kinora::core
