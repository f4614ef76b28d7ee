#include "core/run/job_folder.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>

#include <sys/file.h>

#include "core/build_info.hpp"
#include "core/io/atomic_file.hpp"
#include "core/log.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read_json(const fs::path& file) {
  std::ifstream in(file);
  auto value = json::parse(in, nullptr, false);
  return value.is_object() ? value : json::object();
}

std::string digest_in(const fs::path& file) {
  const json value = read_json(file);
  const auto it = value.find("digest");
  return it != value.end() && it->is_string() ? it->get<std::string>() : "";
}

json size_of_entry(const fs::directory_entry& entry) {
  if (!entry.is_directory()) return entry.file_size();
  return static_cast<uint64_t>(std::distance(fs::directory_iterator(entry.path()), fs::directory_iterator()));
}

// Temporaries whose process was killed.
void sweep(const fs::path& folder) {
  std::vector<fs::path> dead;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (is_abandoned(entry.path().filename().string())) dead.push_back(entry.path());
  for (const auto& path : dead) fs::remove_all(path);
}

}  // namespace

bool finished(const fs::path& folder, const std::string& digest, std::string* why) {
  const json summary = read_json(folder / "summary.json");
  if (digest_in(folder / "summary.json") != digest || summary.value("status", json()) != "done") return false;
  const json there = results_in(folder), results = summary.value("results", json::object());
  for (const auto& [name, size] : results.items()) {
    if (there.value(name, json()) == size) continue;
    if (why)
      *why = fmt::format("'{}' is {}", name, there.contains(name) ? "not what the job had made" : "gone");
    return false;
  }
  return true;
}

void prepare_folder(const fs::path& folder, const std::string& name, const json& spec,
                    const std::string& digest) {
  std::error_code error;
  const bool is_mine = fs::exists(folder / "job.json", error),
             is_empty = !fs::exists(folder, error) || fs::is_empty(folder, error);
  if (!is_mine && !is_empty)
    throw Error(KINORA_INVALID,
                folder.string() +
                    " holds files that no job made (it has no job.json); choose another output folder "
                    "with --out, another name for job '" +
                    name + "', or move them away");
  if (is_mine && digest_in(folder / "job.json") != digest) {
    log_info("{}: its options or inputs are not those of the results in {}; it starts again", name,
             folder.string());
    fs::remove_all(folder);
  }
  fs::create_directories(folder);
  sweep(folder);
  fs::remove(folder / "failed.json", error);
  fs::remove(folder / "summary.json", error);  // until the job is done again
  json written = spec;
  written["digest"] = digest;
  written["kinora"] = KINORA_VERSION;
  or_throw(write_file_atomically(folder / "job.json", written.dump(2) + "\n"));
}

json results_in(const fs::path& folder) {
  json out = json::object();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_own = name == "job.json" || name == "summary.json" || name == "failed.json" ||
                        name == "metrics.jsonl" || name == "checkpoints" || name.starts_with(".");
    if (!is_own) out[name] = size_of_entry(entry);
  }
  return out;
}

void leave_failure(const fs::path& folder, const std::string& digest, const std::string& message) {
  // If this cannot be written either, the others wait until they are stopped, with a line a minute.
  const auto status = write_file_atomically(folder / "failed.json",
                                            json{{"digest", digest}, {"message", message}}.dump() + "\n");
  if (!status) log_warn("{}", status.failure().message);
}

std::optional<std::string> failure_left(const fs::path& folder, const std::string& digest,
                                        fs::file_time_type since) {
  std::error_code error;
  const auto time = fs::last_write_time(folder / "failed.json", error);
  if (error || time < since || digest_in(folder / "failed.json") != digest) return std::nullopt;
  return read_json(folder / "failed.json").value("message", "no message");
}

Result<FolderLock> FolderLock::take(const fs::path& folder) {
  const fs::path file = folder / ".lock";
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0)
    return fail(KINORA_IO, "{}: {}; make the folder writable or choose another with --out", file.string(),
                std::strerror(errno));
  FolderLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK)
    return fail(KINORA_FAILED,
                "another kinora run is writing to {}; wait for it or choose another folder with --out",
                folder.string());
  return lock;  // a file system without locks
}

void FolderLock::Close::operator()(int* fd) const {
  close(*fd);
  delete fd;
}

}  // namespace kinora::core
