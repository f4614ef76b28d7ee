#include "apps/command/lease.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <unistd.h>
#include <vector>

#include "core/base/cancel.hpp"
#include "core/base/clock.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/base/regular_file.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;
using milliseconds = std::chrono::milliseconds;

constexpr std::string_view kPrefix = ".lease-";
constexpr int kBeatsInLease = 10;
constexpr uint64_t kLongest = 4096;  // bytes, more than a lease has
// In place of the beat, of the same length, since readers may meet it half written.
constexpr std::string_view kEnded = "ended       ";

milliseconds length_of_lease() {
  const std::string text = environment("KINORA_LEASE_SECONDS");
  if (text.empty()) return milliseconds(20'000);
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds >= 1 && seconds <= 3600))
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("KINORA_LEASE_SECONDS={} must be a number of seconds in [1, 3600]", text));
  return milliseconds(static_cast<int64_t>(seconds * 1e3));
}

// "" if it cannot be read.
std::string text_of(const fs::path& file) {
  auto text = read_regular_file(file, kLongest);
  return text ? *std::move(text) : "";
}

// When a process began, in clock ticks since the machine did; "" if it has ended (proc(5): stat, fields 3 and 22).
std::string start_of(int64_t pid) {
  const std::string stat = text_of(fmt::format("/proc/{}/stat", pid));
  size_t at = stat.rfind(')');  // the name before it may contain anything
  if (at == stat.npos || at + 2 >= stat.size() || stat[at + 2] == 'Z') return "";
  for (int field = 2; field < 22 && at != stat.npos; ++field) at = stat.find(' ', at + 1);
  return at == stat.npos ? "" : stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
}

// The identity of this process, by which another can tell whether it still runs: a boot of a kernel, a space
// of process numbers, a process. Empty where /proc does not say.
json identity() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::string boot = text_of("/proc/sys/kernel/random/boot_id");
  boot.erase(std::remove(boot.begin(), boot.end(), '\n'), boot.end());
  std::error_code ignored;
  return {{"host", host},
          {"boot", boot},
          {"pids", fs::read_symlink("/proc/self/ns/pid", ignored).string()},
          {"pid", static_cast<int64_t>(getpid())},
          {"start", start_of(getpid())}};
}

struct Record {
  int64_t epoch = 0;
  fs::path file;
  std::string text;
  json facts = json::object();  // empty while its owner writes it

  bool has_ended() const { return text.starts_with(kEnded); }
  int64_t number(const char* name) const { return static_cast<int64_t>(number_in(facts, name)); }
  std::string who() const {
    if (facts.empty()) return "a process that has just begun";
    return fmt::format("process {} on {}, since {}", number("pid"), text_in(facts, "host"),
                       text_in(facts, "since"));
  }
  // Whether it is of the same Slurm job, which was requeued since (or before: later).
  bool is_earlier_attempt(const LaunchPlace& place) const {
    return !place.job.empty() && text_in(facts, "job") == place.job && number("requeues") < place.requeues;
  }
  bool is_later_attempt(const LaunchPlace& place) const {
    return !place.job.empty() && text_in(facts, "job") == place.job && number("requeues") > place.requeues;
  }
};

fs::path file_of(const fs::path& out, int64_t epoch) { return out / fmt::format("{}{:06}", kPrefix, epoch); }

// 0 if these are not the digits of an epoch that another may follow.
int64_t epoch_in(std::string_view digits) {
  constexpr size_t kMostDigits = 12;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (digits.size() > kMostDigits || !std::ranges::all_of(digits, is_digit)) return 0;
  int64_t epoch = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), epoch);
  return epoch < 999'999'999'999 ? epoch : 0;
}

// All leases of a folder, the newest last.
std::vector<Record> records_in(const fs::path& out) {
  std::vector<Record> all;
  std::error_code error;
  for (fs::directory_iterator it(out, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    Record one{.file = it->path()};
    if (!name.starts_with(kPrefix)) continue;
    one.epoch = epoch_in(std::string_view(name).substr(kPrefix.size()));
    if (one.epoch == 0) continue;
    one.text = text_of(one.file);
    if (const size_t line = one.text.find('\n'); line != std::string::npos)
      one.facts = parse_facts(std::string_view(one.text).substr(line + 1));
    if (!one.facts.is_object()) one.facts = json::object();
    all.push_back(std::move(one));
  }
  std::ranges::sort(all, {}, &Record::epoch);
  return all;
}

// holds_lock: this process has the folder's lock, which no process of the same kernel can hold too.
bool has_died(const Record& record, bool holds_lock) {
  const json me = identity();
  const auto same = [&](const char* name) {
    return !text_in(me, name).empty() && text_in(me, name) == text_in(record.facts, name);
  };
  if (!same("boot")) return false;
  return holds_lock || (same("pids") && start_of(record.number("pid")) != text_in(record.facts, "start"));
}

// Opens the file anew, so that a network's file system asks its server. Returns 0 or errno.
int read_from(const fs::path& file, std::string& text) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);  // it may be a pipe by now
  if (fd < 0) return errno;
  text.resize(kLongest);
  const ssize_t n = read(fd, text.data(), text.size());
  const int error = n < 0 ? errno : 0;
  close(fd);
  text.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  return error;
}

// Waits for as long as a lease lasts and returns whether the owner gave no sign of life.
bool is_silent(const Record& record, const fs::path& out) {
  const auto length = length_of_lease();
  log_info("{}: the run of {} has not ended; waiting {} s to see whether it still writes there", out.string(),
           record.who(), std::chrono::ceil<std::chrono::seconds>(length).count());
  for (const auto end = Clock::now() + length; Clock::now() < end && !cancelled();) {
    std::this_thread::sleep_for(length / (4 * kBeatsInLease));
    std::string now;
    if (read_from(record.file, now) == ENOENT || now.starts_with(kEnded)) return true;
    if (now != record.text) return false;
  }
  return !cancelled();
}

Failure refusal(const fs::path& out, const Record& record) {
  return fail(
      KINORA_ERROR_FAILED,
      "another kinora run is writing to {} ({}); wait for it, end it there or choose another folder with "
      "--out; where it cannot be reached, remove {}: it ends when it sees that",
      out.string(), record.who(), record.file.string());
}

// Why this process must not begin, as an attempt of a job whose later attempt has.
Status is_latest(const fs::path& out, const std::vector<Record>& all, const LaunchPlace& place) {
  for (const Record& r : all)
    if (r.is_later_attempt(place))
      return fail(
          KINORA_ERROR_INVALID,
          "{}: attempt {} of Slurm job {} has taken this run over ({}); attempt {} of it begins nothing "
          "(if these are two jobs, remove {})",
          out.string(), r.number("requeues"), place.job, r.who(), place.requeues, r.file.string());
  return {};
}

// Earlier attempts of this job that may still run; a failure if others write there, or may.
Result<std::vector<Record>> to_replace(const fs::path& out, const std::vector<Record>& all,
                                       const LaunchPlace& place, const Result<FolderLock>& lock) {
  const bool holds_lock = lock && FolderLock::is_supported(out);
  std::vector<Record> earlier;
  for (const Record& r : all) {
    if (r.has_ended() || has_died(r, holds_lock)) continue;
    if (r.is_earlier_attempt(place)) {
      earlier.push_back(r);
      continue;
    }
    if (!lock || !is_silent(r, out))
      return cancelled() ? fail(KINORA_ERROR_CANCELLED, "cancelled") : refusal(out, r);
    log_warn("{}: the run of {} has not ended and shows no life; this one takes over", out.string(), r.who());
  }
  if (!lock && earlier.empty()) return lock.failure();
  return earlier;
}

// The text of a new lease: a line with the beat, a line with the facts.
std::string new_record(const LaunchPlace& place, const std::string& token, bool shares) {
  json facts = identity();
  facts.update({{"token", token},
                {"job", place.job},
                {"requeues", place.requeues},
                {"since", now_utc()},
                {"shares", shares}});
  return fmt::format("{:012}\n{}\n", 0, facts.dump(-1, ' ', false, json::error_handler_t::replace));
}

// Writes over the first bytes of an existing file; with O_CREAT | O_EXCL, makes a whole one or none. Returns 0 or
// errno.
int write_into(const fs::path& file, std::string_view text, int flags = 0) {
  const int fd = open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags, 0644);
  if (fd < 0) return errno;
  const ssize_t n = pwrite(fd, text.data(), text.size(), 0);
  int error = n < 0 ? errno : static_cast<size_t>(n) < text.size() ? ENOSPC : 0;
  if (!error && flags && fsync(fd) != 0 && errno != EINVAL) error = errno;
  if (close(fd) != 0 && !error) error = errno;  // on a network's file system it is written now
  if (error && (flags & O_EXCL)) unlink(file.c_str());
  return error;
}

Failure not_written(const fs::path& file, int error) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return fail(KINORA_ERROR_NO_MEMORY, "{}: {}; free some space and run again", file.string(),
                std::strerror(error));
  return fail(KINORA_ERROR_IO, "{}: {}; make the folder writable or choose another with --out", file.string(),
              std::strerror(error));
}

std::string taken_over(const Record& by) {
  return fmt::format(
      "another copy of this run has taken over (epoch {} on {}, since {}); this one stops and writes nothing "
      "more",
      by.epoch, text_in(by.facts, "host"), text_in(by.facts, "since"));
}

// Removes what the earlier owners have not given its final name: an owner that was stopped right before that finds
// nothing to rename when it continues.
void remove_temporaries(const fs::path& out, const std::vector<Record>& owners) {
  std::vector<std::string> marks;
  for (const Record& r : owners)
    if (!r.has_ended())
      marks.push_back(fmt::format(".tmp-{}-{}-", text_in(r.facts, "host"), r.number("pid")));
  if (marks.empty()) return;
  constexpr int kDeepest = 2;  // OUT/JOB/checkpoints/.step-000100.tmp-...
  std::vector<fs::path> found;
  std::error_code error;
  const auto skip = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator it(out, skip, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool is_one = name.starts_with('.') && std::ranges::any_of(marks, [&](const std::string& mark) {
                          return name.find(mark) != name.npos;
                        });
    if (is_one) found.push_back(it->path());
    if (is_one || it.depth() >= kDeepest) it.disable_recursion_pending();
  }
  for (const auto& path : found) fs::remove_all(path, error);
}

}  // namespace

Status Lease::may_take(const fs::path& out, const LaunchPlace& place) {
  const auto all = records_in(out);
  if (auto status = is_latest(out, all, place); !status) return status;
  const auto lock = FolderLock::take(out);
  const bool has_earlier = std::ranges::any_of(
      all, [&](const Record& r) { return !r.has_ended() && r.is_earlier_attempt(place); });
  if (lock || has_earlier) return {};
  return lock.failure().code == KINORA_ERROR_FAILED && !all.empty() && !all.back().has_ended()
             ? refusal(out, all.back())
             : lock.failure();
}

Status Lease::may_share(const fs::path& out) {
  const auto all = records_in(out);
  if (all.empty() || all.back().has_ended() || flag_in(all.back().facts, "shares")) return {};
  if (all.back().facts.empty() || has_died(all.back(), false) || !FolderLock::is_held(out)) return {};
  return refusal(out, all.back());
}

Result<std::unique_ptr<Lease>> Lease::take(const fs::path& out, const LaunchPlace& place, bool shares) {
  const auto length = length_of_lease();
  auto lock = FolderLock::take(out);
  if (!lock && lock.failure().code != KINORA_ERROR_FAILED) return lock.failure();
  std::random_device device;
  const std::string token = fmt::format("{:08x}{:08x}", device(), device());
  while (true) {
    const auto all = records_in(out);
    if (auto status = is_latest(out, all, place); !status) return status.failure();
    const auto earlier = to_replace(out, all, place, lock);
    if (!earlier) return earlier.failure();
    Mine mine{.epoch = all.empty() ? 1 : all.back().epoch + 1,
              .record = new_record(place, token, shares),
              .token = token};
    const fs::path file = file_of(out, mine.epoch);
    const int error = write_into(file, mine.record, O_CREAT | O_EXCL);
    if (error == EEXIST) continue;  // another process was faster: it is looked at next
    if (error) return not_written(file, error);
    for (const Record& r : all)
      if (unlink(r.file.c_str()) != 0 && errno != ENOENT)
        return fail(KINORA_ERROR_IO, "{}: {}; remove it, so that its run ends", r.file.string(),
                    std::strerror(errno));
    std::optional<FolderLock> held;
    if (lock) held.emplace(std::move(*lock));
    std::unique_ptr<Lease> made(new Lease(out, place, std::move(mine), std::move(held)));
    for (const Record& r : *earlier)
      log_warn("{}: attempt {} of Slurm job {} takes over from attempt {} ({}), which has {} s to see that",
               out.string(), place.requeues, place.job, r.number("requeues"), r.who(),
               std::chrono::ceil<std::chrono::seconds>(length).count());
    for (const auto end = Clock::now() + length; !earlier->empty() && Clock::now() < end && !cancelled();)
      std::this_thread::sleep_for(milliseconds(20));
    remove_temporaries(out, all);
    return made;
  }
}

std::unique_ptr<Lease> Lease::follow(const fs::path& out, const LaunchPlace& place) {
  if (place.job.empty()) return nullptr;
  return std::unique_ptr<Lease>(new Lease(out, place, {}, std::nullopt));
}

Lease::Lease(fs::path out, const LaunchPlace& place, Mine mine, std::optional<FolderLock> lock)
    : out_(std::move(out)),
      place_(place),
      mine_(std::move(mine)),
      beat_(length_of_lease() / kBeatsInLease),
      lock_(std::move(lock)) {
  fence_.emplace(out_, [this] { return check(); });
  watch_ = std::thread([this] { watch(); });
}

Lease::~Lease() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  over_.notify_all();
  watch_.join();
  if (mine_.epoch > 0 && check()) write_into(file_of(out_, mine_.epoch), kEnded);
  fence_.reset();
}

void Lease::watch() {
  std::unique_lock lock(mutex_);
  for (int64_t n = 1; !over_.wait_for(lock, beat_, [&] { return is_over_; }); ++n) {
    lock.unlock();
    if (!check() && is_lost()) return;
    if (mine_.epoch > 0) write_into(file_of(out_, mine_.epoch), fmt::format("{:012}", n));
    if (mine_.epoch > 0 && !lock_ && !FolderLock::is_held(out_))
      if (auto now = FolderLock::take(out_)) lock_.emplace(std::move(*now));
    lock.lock();
  }
}

Status Lease::check() {
  if (mine_.epoch == 0) {
    const auto all = records_in(out_);
    const auto later = std::ranges::find_if(all, [&](const Record& r) { return r.is_later_attempt(place_); });
    if (later == all.end()) return {};
    mark_lost(taken_over(*later));
  } else if (!lost_) {
    const fs::path file = file_of(out_, mine_.epoch);
    std::string text;
    const int error = read_from(file, text);
    if (!error && text.find(mine_.token) != text.npos) return {};
    if (error && error != ENOENT && error != ESTALE)
      return fail(KINORA_ERROR_IO, "{}: {}; it says whether this run may write", file.string(),
                  std::strerror(error));
    const auto all = records_in(out_);
    mark_lost(all.empty() || all.back().epoch <= mine_.epoch
                  ? file.string() + " was removed; this run stops and writes nothing more"
                  : taken_over(all.back()));
  }
  const std::scoped_lock lock(mutex_);
  return Failure{KINORA_ERROR_CANCELLED, message_};
}

void Lease::mark_lost(const std::string& message) {
  {
    const std::scoped_lock lock(mutex_);
    if (lost_.exchange(true)) return;
    message_ = message;
  }
  end_log_files();  // they are the other copy's
  log_error("{}: {}", out_.string(), message);
  cancel();
}

}  // namespace kinora::core
