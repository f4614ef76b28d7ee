#include "apps/kinora/family_memory.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace kinora {
namespace {

namespace fs = std::filesystem;

// Lists a folder of /proc whose process may end at any moment.
template <class F>
void each_in(const fs::path& folder, F&& f) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) f(at->path());
}

std::vector<std::string> children(const std::string& process) {
  std::vector<std::string> out;
  each_in("/proc/" + process + "/task", [&](const fs::path& thread) {
    std::ifstream list(thread / "children");
    for (std::string child; list >> child;) out.push_back(child);
  });
  return out;
}

struct Shares {
  uint64_t all = 0, shared = 0;  // bytes: Pss, and its part Pss_Shmem
};

Shares shares(const std::string& process) {
  std::ifstream file("/proc/" + process + "/smaps_rollup");
  Shares out;
  for (std::string word; file >> word;)
    if (word == "Pss:" || word == "Pss_Shmem:") file >> (word == "Pss:" ? out.all : out.shared);
  return {out.all << 10, out.shared << 10};
}

void add_memory_files(const std::string& process, std::map<ino_t, uint64_t>& files) {
  each_in("/proc/" + process + "/fd", [&](const fs::path& link) {
    std::error_code ignored;
    struct stat s {};
    if (fs::read_symlink(link, ignored).string().starts_with("/memfd:") && ::stat(link.c_str(), &s) == 0)
      files[s.st_ino] = static_cast<uint64_t>(s.st_blocks) * 512;
  });
}

}  // namespace

uint64_t family_memory() {
  std::vector<std::string> family = children(std::to_string(::getpid()));
  uint64_t all = 0, shared = 0, in_files = 0;
  std::map<ino_t, uint64_t> files;
  for (size_t i = 0; i < family.size(); ++i) {
    const std::string process = family[i];
    const Shares held = shares(process);
    all += held.all;
    shared += held.shared;
    add_memory_files(process, files);
    for (auto& child : children(process)) family.push_back(std::move(child));
  }
  for (const auto& [inode, bytes] : files) in_files += bytes;
  return all - shared + std::max(shared, in_files);
}

WatchedMemory::WatchedMemory(uint64_t& most)
    : looking_([this, &most] {
        for (std::unique_lock lock(mutex_); !over_; end_.wait_for(lock, std::chrono::milliseconds(50)))
          most = std::max(most, family_memory());
      }) {}

WatchedMemory::~WatchedMemory() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  end_.notify_all();
  looking_.join();
}

}  // namespace kinora
