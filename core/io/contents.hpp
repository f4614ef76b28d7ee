// Digests of what files and folders contain, wherever they are: what a job reads counts for its identity by
// its bytes and not by its path.
#pragma once
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/digest.hpp"

namespace kinora::core {

// The file in a run's output folder that keeps them, so that a start does not read the same weights again.
inline std::filesystem::path kept_digests(const std::filesystem::path& out) { return out / ".weights.json"; }

// Remembers digests by each file's number on its disk (inode), size and times of change, so that a file is
// read once, also after a folder above it was renamed. [any-thread]
class Contents {
 public:
  // kept: the JSON file with the digests of earlier runs; it may be missing. It is read on first use.
  explicit Contents(std::filesystem::path kept) : kept_(std::move(kept)) {}

  // SHA-256 of a file's bytes. Not read for it: a file that its writer lists (listing_of), and a link into
  // Hugging Face's cache, whose blobs are named by their SHA-256. Throws as sha256_of_file.
  std::string of_file(const std::filesystem::path&);
  // The same of a file's bytes whatever lists and names say.
  std::string of_bytes(const std::filesystem::path&);
  // The digest of a file, of_file(), or of a folder: over the names below it and their digests. Names that begin with a
  // dot do not count, and links to folders count as what they name.
  std::string of(const std::filesystem::path&);
  // The digest of data: over names and digests if all is at most 1 GiB, else over names, sizes and modification
  // times, since more would take long to read.
  std::string of_data(const std::filesystem::path&);

  // Writes what was learnt; a failure is logged.
  void save();

 private:
  void load();

  const std::filesystem::path kept_;
  std::mutex mutex_;
  bool is_loaded_ = false;
  std::map<std::string, std::string> known_, learnt_;
};

// Writers of weights leave a list next to them: the size and SHA-256 of each file, as member "files" of a checkpoint's
// state.json and of a finished job's summary.json, {NAME: {"bytes", "sha256"}}.
nlohmann::json list_json(const std::vector<ListedFile>&);
// Throws nlohmann::json::exception.
std::vector<ListedFile> list_from(const nlohmann::json&);

// A file's entry in the list of its writer.
struct Listing {
  std::filesystem::path folder;  // of the checkpoint or the job
  ListedFile file;               // by its name in that folder
  std::string job;               // the finished job that wrote it; empty: it is a checkpoint's
};
// nullopt: no list has the file. A list that cannot be read counts as missing.
std::optional<Listing> listing_of(const std::filesystem::path& file);

}  // namespace kinora::core
