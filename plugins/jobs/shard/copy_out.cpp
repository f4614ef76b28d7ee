#include "plugins/jobs/shard/copy_out.hpp"

#include <algorithm>
#include <set>

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/base/regular_stream.hpp"
#include "core/run/inputs.hpp"
#include "core/run/job_folder.hpp"
#include "core/run/job_results.hpp"
#include "kinora/io.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInfo = ".nv-meta/.info.json";
constexpr const char* kJournal = ".copied";  // in the job's folder

struct LocalFile {
  std::string name;  // path relative to the folder
  uint64_t size = 0;
  int64_t changed = 0;
};

std::vector<LocalFile> results(const fs::path& folder) {
  std::vector<LocalFile> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path name = entry.path().lexically_relative(folder);
    const std::string top = name.begin()->string();
    if (!entry.is_regular_file() || (top != ".nv-meta" && is_record(top))) continue;
    out.push_back(
        {name.generic_string(), entry.file_size(), entry.last_write_time().time_since_epoch().count()});
  }
  std::sort(out.begin(), out.end(), [](const LocalFile& a, const LocalFile& b) {
    return std::pair(a.name == kInfo, a.name) < std::pair(b.name == kInfo, b.name);
  });
  return out;
}

// The files that were copied, one line each, stored in the job's folder.
class CopyJournal {
 public:
  explicit CopyJournal(const fs::path& file) {
    auto before = regular_stream(file);
    if (!before && before.failure().code != KINORA_ERROR_NOT_FOUND)
      throw Error(before.failure().code, before.failure().message);
    for (std::string line; before && std::getline(*before, line) && !before->eof();)
      lines_.insert(line);  // skips an incomplete last line
    out_.open(file, std::ios::app);
    out_ << "\n";  // ends an incomplete last line
  }
  bool has(const std::string& line) const { return lines_.contains(line); }
  void add(const std::string& line) { out_ << line << "\n" << std::flush; }

 private:
  std::set<std::string> lines_;
  std::ofstream out_;
};

std::map<std::string, uint64_t> sizes_at(Io& io, const std::string& uri) {
  const auto listed = io.list_all(uri + "/");
  if (!listed && listed.failure().code != KINORA_ERROR_NOT_FOUND)
    throw Error(listed.failure().code, listed.failure().message);
  std::map<std::string, uint64_t> out;
  if (listed)
    for (const auto& file : *listed) out[file.name] = file.size;
  return out;
}

// Whether the job in this folder has copied anything to `uri`.
bool has_copied(const fs::path& folder, const std::string& uri) {
  auto journal = regular_stream(folder / kJournal);
  for (std::string line; journal && std::getline(*journal, line);)
    if (line.find(" " + uri + "/") != std::string::npos) return true;
  return false;
}

// Without trailing slashes.
std::string bare(const std::string& uri) { return uri.substr(0, uri.find_last_not_of('/') + 1); }

void copy_file(const fs::path& from, const std::string& to) {
  std::ifstream in = or_throw(regular_stream(from));
  Writer out(to);
  std::vector<char> piece(size_t{1} << 20);
  while (in) {
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    out.write(piece.data(), static_cast<uint64_t>(in.gcount()));
  }
  if (!in.eof())
    throw Error(KINORA_ERROR_IO, from.string() + ": cannot be read to its end; is the disk in order?");
  out.commit();
}

}  // namespace

nlohmann::json copy_out(JobContext& context, const std::string& given) {
  const std::string uri = bare(given);
  Io& io = context.runtime().io();
  const auto files = results(context.folder());
  const auto line_of = [&](const LocalFile& f) {
    return fmt::format("{} {} {}/{}", f.size, f.changed, uri, f.name);
  };
  CopyJournal journal(context.folder() / kJournal);
  const auto there = sizes_at(io, uri);
  const auto is_there = [&](const LocalFile& f) {
    const auto it = there.find(f.name);
    return it != there.end() && it->second == f.size && journal.has(line_of(f));
  };
  // Removes the dataset's index while its shards are replaced, so that no reader takes the folder for a
  // dataset.
  if (there.contains(kInfo) && !std::all_of(files.begin(), files.end(), is_there))
    or_throw(io.remove(uri + "/" + kInfo));
  Progress progress{context.spec().name + ": copying", static_cast<int64_t>(files.size()), "files"};
  uint64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    bytes += files[i].size;
    if (!is_there(files[i])) copy_file(context.folder() / files[i].name, uri + "/" + files[i].name);
    journal.add(line_of(files[i]));
    progress.update(static_cast<int64_t>(i + 1));
  }
  const auto now = sizes_at(io, uri);
  for (const auto& f : files)
    if (const auto it = now.find(f.name); it == now.end() || it->second != f.size)
      throw Error(KINORA_ERROR_IO,
                  fmt::format("{}/{}: the file was written but is now {}; does another program write there?",
                              uri, f.name, it == now.end() ? "gone" : "of a different size"));
  if (now.size() > files.size())
    log_warn("{}: {} there that this job did not write", uri,
             counted(static_cast<int64_t>(now.size() - files.size()), "file is", "files are"));
  log_info("{}: {}, {} bytes copied to {}", context.spec().name,
           counted(static_cast<int64_t>(files.size()), "file", "files"), bytes, uri);
  return {{"uri", uri}, {"files", files.size()}, {"bytes", bytes}};
}

void refuse_others(JobContext& context, const std::string& given) {
  const std::string uri = bare(given);
  if (!sizes_at(context.runtime().io(), uri).contains(kInfo)) return;
  auto own = lying_aside(context.folder());
  own.push_back(context.folder());
  if (std::any_of(own.begin(), own.end(), [&](const fs::path& folder) { return has_copied(folder, uri); }))
    return;
  throw Error(KINORA_ERROR_INVALID,
              fmt::format("out: {} holds a dataset that job '{}' in {} did not copy there; choose another "
                          "out, or remove that dataset first",
                          uri, context.spec().name, context.run().out.string()));
}

void check_out(JobCheck& check, const std::string& uri) {
  if (uri.empty()) return;
  if (!is_uri(uri))
    return check.problem("out", "out: '" + uri +
                                    "' is not a URI; give one such as s3://bucket/shards (the job's own "
                                    "folder has the shards in any case)");
  if (const auto status = check_uri(check.runtime().registry(), uri); !status)
    check.problem("out", "out: " + status.failure().message);
}

}  // namespace kinora::core
