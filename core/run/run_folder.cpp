#include "core/run/run_folder.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <thread>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sys/file.h>

#include "core/base/cancel.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/file_locks.hpp"
#include "core/run/description.hpp"
#include "core/run/identity.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Longest time that a killed process holds its locks: it ends once its memory and that of its ranks is freed.
constexpr auto kToEnd = 2s;
// Longest time that rank 0 needs between taking the folder and writing the record.
constexpr auto kToWrite = 5s;

}  // namespace

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder) {
  const auto file = folder / ".lock";
  FolderLock lock(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock.fd_ < 0)
    return fail(KINORA_ERROR_IO, "{}: {}; make the folder writable or choose another with --out",
                file.string(), std::strerror(errno));
  for (const auto end = Clock::now() + kToEnd; flock(lock.fd_, LOCK_EX | LOCK_NB) != 0;
       std::this_thread::sleep_for(10ms)) {
    const int error = errno;
    if (means_no_locks(error)) say_without_locks(folder);
    if (error != EWOULDBLOCK) break;
    if (Clock::now() > end)
      return fail(KINORA_ERROR_FAILED,
                  "another kinora run is writing to {}; wait for it or choose another folder with --out",
                  folder.string());
  }
  return lock;
}

bool FolderLock::is_held(const std::filesystem::path& folder) {
  const FolderLock mine(open((folder / ".lock").c_str(), O_RDONLY | O_CLOEXEC));
  return mine.fd_ >= 0 && flock(mine.fd_, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool FolderLock::is_supported(const std::filesystem::path& folder) {
  const FolderLock mine(open((folder / ".lock").c_str(), O_RDONLY | O_CLOEXEC));
  return mine.fd_ < 0 || flock(mine.fd_, LOCK_SH | LOCK_NB) == 0 || !means_no_locks(errno);
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

namespace {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

fs::path file_in(const fs::path& out) { return out / ".launch.json"; }

json read_launch_record(const fs::path& out) { return object_in_file(file_in(out)); }

json record_of(JobIdentities& identities, const std::vector<bool>& jobs) {
  const RunFile& run = identities.run();
  json out{{"seed", run.seed}, {"jobs", json::array()}};
  for (size_t i = 0; i < run.jobs.size(); ++i)
    if (jobs[i])
      out["jobs"].push_back(
          {{"spec", spec_json(run.jobs[i])}, {"digest", identities.digest_of_today(run.jobs[i])}});
  return out;
}

json names_in(const json& record) {
  json out = json::array();
  for (const auto& job : record.value("jobs", json::array()))
    out.push_back(text_in(object_in(job, "spec"), "name"));
  return out;
}

// Differences between rank 0's record and this rank's, in words; empty: none.
std::string differences(const json& first, const json& mine) {
  if (first.value("seed", json()) != mine.at("seed"))
    return fmt::format("run.seed is {} there and {} here", first.value("seed", json()).dump(),
                       mine.at("seed").dump());
  if (names_in(first) != names_in(mine))
    return fmt::format("its jobs are {} there and {} here", names_in(first).dump(), names_in(mine).dump());
  for (size_t i = 0; i < mine.at("jobs").size(); ++i) {
    const json &a = first.at("jobs").at(i), &b = mine.at("jobs").at(i);
    if (a.at("digest") == b.at("digest")) continue;
    const std::string what = difference(a.at("spec"), b.at("spec"), "is {} there and {} here");
    return fmt::format("job '{}': {}", b.at("spec").at("name").get<std::string>(),
                       what.empty() ? "it reads other files" : what);
  }
  return "";
}

}  // namespace

void write_launch_record(JobIdentities& identities, const std::vector<bool>& jobs) {
  std::random_device device;
  json record = record_of(identities, jobs);
  record["host"] = host_name();
  record["number"] = fmt::format("{:08x}{:08x}", device(), device());
  or_throw(write_file_atomically(file_in(identities.run().out),
                                 record.dump(2, ' ', false, json::error_handler_t::replace) + "\n"));
}

void await_launch_record(JobIdentities& identities, const std::vector<bool>& jobs, const LaunchPlace& place) {
  const json mine = record_of(identities, jobs);
  const RunFile& run = identities.run();
  const auto begin = Clock::now(), end = begin + std::chrono::milliseconds(place.timeout_ms);
  auto held_since = Clock::time_point::max();  // by rank 0 of this launch, as far as is known
  std::string what, said;
  while (!cancelled()) {
    const auto now = Clock::now();
    const json record = read_launch_record(run.out);
    what = record.empty() ? "no run has begun there" : differences(record, mine);
    if (what.empty()) return;
    if (!FolderLock::is_held(run.out))
      held_since = Clock::time_point::max();
    else
      held_since = std::min(held_since, now);
    if (held_since < now && now - held_since > kToWrite && !record.empty())
      throw Error(KINORA_ERROR_INVALID,
                  fmt::format("rank {} does not agree with rank 0, which is at work in {}: {}; start "
                              "all ranks with the same run file, files, --out and --set",
                              place.rank, run.out.string(), what));
    if (now > end)
      throw Error(
          KINORA_ERROR_TIMEOUT,
          fmt::format("rank 0 did not begin in {} within {} s ({}); all ranks need the same run file, --set "
                      "and --out, on a disk that they share; KINORA_TIMEOUT_MS sets the limit",
                      run.out.string(), place.timeout_ms / 1000, what));
    if (now - begin > 10s && said != what)
      log_warn("rank {} waits for rank 0 to begin in {}: {}", place.rank, run.out.string(), said = what);
    std::this_thread::sleep_for(100ms);
  }
}

std::string launch_number(const fs::path& out) { return text_in(read_launch_record(out), "number"); }

bool FirstRank::is_there() {
  const auto now = Clock::now();
  const bool held = FolderLock::is_held(out_);
  // On rank 0's machine the lock is reliable, if the disk has any. On another machine it counts only once seen:
  // not every disk shows locks.
  seen_ = seen_ || held ||
          (text_in(read_launch_record(out_), "host") == host_name() && FolderLock::is_supported(out_));
  if (held) last_ = now;
  return !seen_ || now - last_ < limit_;
}

}  // namespace kinora::core
