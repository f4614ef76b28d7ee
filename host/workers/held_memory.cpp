#include "host/workers/held_memory.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <sys/stat.h>

#include "host/workers/channel.hpp"

namespace kinora::core {
namespace {

uint64_t private_memory(const char* process) {
  char name[64], text[128] = {};
  std::snprintf(name, sizeof name, "%s/statm", process);
  const Descriptor file(::open(name, O_RDONLY | O_CLOEXEC));
  unsigned long long all = 0, resident = 0, shared = 0;
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0 ||
      std::sscanf(text, "%llu %llu %llu", &all, &resident, &shared) != 3 || shared > resident)
    return 0;
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return (resident - shared) * page;
}

// Bytes written or mapped behind its memory descriptors (memfd_create), counting only memory that is not yet
// in `seen`; adds it there.
uint64_t shared_memory(const char* process, std::set<ino_t>& seen) {
  char name[64];
  std::snprintf(name, sizeof name, "%s/fd", process);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(name), ::closedir);
  uint64_t bytes = 0;
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    char target[32];
    const ssize_t n = ::readlinkat(::dirfd(folder.get()), entry->d_name, target, sizeof target);
    if (n <= 0 || !std::string_view(target, static_cast<size_t>(n)).starts_with("/memfd:")) continue;
    struct stat s {};
    if (::fstatat(::dirfd(folder.get()), entry->d_name, &s, 0) == 0 && seen.insert(s.st_ino).second)
      bytes += static_cast<uint64_t>(s.st_blocks) * 512;
  }
  return bytes;
}

std::string folder_of(pid_t pid) { return "/proc/" + std::to_string(pid); }

std::string contents(const std::string& name) {
  const Descriptor file(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  std::string out(4096, '\0');
  const ssize_t n = file ? ::read(file.get(), out.data(), out.size()) : 0;
  out.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return out;
}

// Like private_memory(), but a page that several processes share after fork() counts in part for each. The
// system walks all pages for it: 200 MiB take milliseconds.
uint64_t share_of_memory(const std::string& process) {
  constexpr std::string_view kLine = "\nPss_Anon:";
  const std::string text = contents(process + "/smaps_rollup");
  const size_t at = text.find(kLine);
  if (at == text.npos) return private_memory(process.c_str());
  return std::strtoull(text.c_str() + at + kLine.size(), nullptr, 10) << 10;
}

// The members of each process group: every process of the machine is examined, so the answer is shared by all
// workers for a while.
class Groups {
 public:
  std::vector<pid_t> members(pid_t group) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now - read_at_ >= std::chrono::milliseconds(100)) read(), read_at_ = now;
    std::vector<pid_t> out;
    const auto [first, last] = of_group_.equal_range(group);
    for (auto at = first; at != last; ++at) out.push_back(at->second);
    return out;
  }

 private:
  void read() {
    of_group_.clear();
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
    while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
      const auto pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
      if (pid <= 0) continue;
      if (const pid_t group = ::getpgid(pid); group > 0) of_group_.emplace(group, pid);
    }
  }
  std::mutex mutex_;
  std::multimap<pid_t, pid_t> of_group_;
  std::chrono::steady_clock::time_point read_at_{};
};

// Never destroyed: workers are watched until the very end of the process.
Groups& the_groups() {
  static auto* one = new Groups;
  return *one;
}

}  // namespace

uint64_t held_memory(pid_t pid, const std::set<ino_t>& given) {
  std::set<ino_t> seen = given;
  const std::string process = folder_of(pid);
  return private_memory(process.c_str()) + shared_memory(process.c_str(), seen);
}

uint64_t held_memory_of_group(pid_t leader, const std::set<ino_t>& given, uint64_t limit) {
  const std::vector<pid_t> members = the_groups().members(leader);
  if (members.empty() || (members.size() == 1 && members.front() == leader)) return 0;
  std::set<ino_t> seen = given;
  std::set<std::string> spaces;
  std::vector<std::string> counted;
  uint64_t own = 0, shared = 0;
  for (const pid_t member : members) {
    const std::string process = folder_of(member);
    // A child that was forked to execute another program at once (vfork) shares all memory of its parent until then.
    const std::string space = contents(process + "/statm");
    if (space.empty() || !spaces.insert(space).second) continue;
    counted.push_back(process);
    own += private_memory(process.c_str());
    shared += shared_memory(process.c_str(), seen);
  }
  if (limit == 0 || own + shared <= limit) return own + shared;
  own = 0;
  for (const auto& process : counted) own += share_of_memory(process);
  return own + shared;
}

namespace {

struct AllHeld {
  std::mutex mutex;  // guards the contents of the objects too
  std::set<const HeldByOne*> of;
};

// Never destroyed: workers are watched until the very end of the process.
AllHeld& all_held() {
  static auto* one = new AllHeld;
  return *one;
}

}  // namespace

HeldByOne::HeldByOne() {
  const std::lock_guard lock(all_held().mutex);
  all_held().of.insert(this);
}

HeldByOne::~HeldByOne() {
  const std::lock_guard lock(all_held().mutex);
  all_held().of.erase(this);
}

void HeldByOne::set(uint64_t bytes, pid_t process) {
  const std::lock_guard lock(all_held().mutex);
  bytes_ = bytes;
  process_ = process;
}

// A worker that waits for its next sample was last measured while it worked, and may have freed memory since:
// it is measured again.
uint64_t HeldByOne::sum_above(uint64_t limit) const {
  const std::lock_guard lock(all_held().mutex);
  uint64_t seen = 0, sum = 0;
  for (const HeldByOne* one : all_held().of) {
    seen += one->bytes_;
    if (one != this && one->at_work_ && std::pair(one->bytes_, one) > std::pair(bytes_, this)) return 0;
  }
  if (!at_work_ || seen <= limit) return 0;
  for (const HeldByOne* one : all_held().of)
    if (one->bytes_ > 0) sum += one->at_work_ ? one->bytes_ : held_memory(one->process_, {});
  return sum > limit ? sum : 0;
}

HeldByOne::AtWork::AtWork(HeldByOne& of, bool is_at_work) : of_(of) {
  const std::lock_guard lock(all_held().mutex);
  of_.at_work_ = is_at_work;
}

HeldByOne::AtWork::~AtWork() {
  const std::lock_guard lock(all_held().mutex);
  of_.at_work_ = false;
}

}  // namespace kinora::core
