#include "plugins/jobs/curate/remote_parts.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/cancel.hpp"
#include "core/base/status.hpp"
#include "kinora/error.hpp"
#include "kinora/io.hpp"
#include "plugins/jobs/curation/clip_files.hpp"
#include "plugins/jobs/curation/record.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kPiece = uint64_t{1} << 20;  // bytes
constexpr size_t kFilesAtOnce = 16;             // most of them are small, and each waits for the server
constexpr uint64_t kLarge = uint64_t{8} << 20;  // bytes of a file of which a storage holds many in memory

struct PartFile {
  std::string name;
  uint64_t size;
};

void copy_file(const std::string& from, const std::string& to) {
  const Reader in(from);
  Writer out(to);
  const auto size = static_cast<uint64_t>(in.size());
  std::vector<char> piece(std::min(size, kPiece));
  for (uint64_t at = 0; at < size;) {
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    const uint64_t got = in.read(at, piece.data(), piece.size());
    if (got == 0) throw Error(KINORA_ERROR_DATA, from + ": the file shrank while it was read; run again");
    out.write(piece.data(), got);
    at += got;
  }
  out.commit();
}

// Calls `f` for each file, for several small ones at the same time. Throws what one of them throws, when all have
// ended.
void for_all(std::vector<PartFile> files, const std::function<void(const std::string&)>& f) {
  const auto is_large = [](const PartFile& file) { return file.size >= kLarge; };
  for (const PartFile& file : files)
    if (is_large(file)) f(file.name);
  std::erase_if(files, is_large);
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      for (size_t at = next++; at < files.size(); at = next++) f(files[at].name);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      next = files.size();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (size_t i = 0; i < std::min(kFilesAtOnce, files.size()); ++i) workers.emplace_back(work);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace

void upload_part(const fs::path& folder, const std::string& at, const RangeLease& lease) {
  const fs::path part = folder / "parts" / lease.part();
  const std::string to = at + "/parts/" + lease.part() + "/";
  std::vector<PartFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(part / "data"))
    if (entry.is_regular_file())
      files.push_back({entry.path().lexically_relative(part).string(), entry.file_size()});
  for_all(std::move(files), [&](const std::string& name) { copy_file((part / name).string(), to + name); });
  copy_file((part / kRecordFile).string(), to + kRecordFile);
  fs::remove_all(part);
}

void fetch_part(const std::string& at, const fs::path& folder, const RangeLease& lease) {
  const fs::path part = folder / "parts" / lease.part();
  const std::string from = at + "/parts/" + lease.part() + "/";
  fs::create_directories(part / "data");
  copy_file(from + kRecordFile, (part / kRecordFile).string());
  std::vector<PartFile> files;
  {
    Database record(part / kRecordFile, Database::Access::read);
    Query rows(record, "SELECT name, size FROM file");
    while (rows.next())
      if (is_inside(rows.text(0)) && !is_stored(part / "data", rows.text(0), rows.number(1)))
        files.push_back({rows.text(0), static_cast<uint64_t>(rows.number(1))});
  }
  for_all(std::move(files), [&](const std::string& name) {
    fs::create_directories((part / "data" / name).parent_path());
    copy_file(from + "data/" + name, (part / "data" / name).string());
  });
}

}  // namespace kinora::core
