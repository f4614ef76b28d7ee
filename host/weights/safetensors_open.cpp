// Safetensors::open: one file, the shards of an index, or either of them in a folder.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <regex>
#include <set>
#include <unistd.h>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/io/byte_source.hpp"
#include "host/weights/packed_matrix.hpp"
#include "host/weights/safetensors.hpp"
#include "host/weights/safetensors_header.hpp"
#include "host/weights/scaled_weight.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

struct Mapping {
  fs::path path;
  int file = -1;  // keeps these bytes open, whatever file has the name now
  void* data = nullptr;
  size_t size = 0;
  Mapping(fs::path of, int descriptor) : path(std::move(of)), file(descriptor) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data) munmap(data, size);
    ::close(file);
  }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data), size}; }
};

// The owner behind Safetensors::keep().
using Mappings = std::vector<std::shared_ptr<const Mapping>>;

Result<std::shared_ptr<Mapping>> map_file(const fs::path& path) {
  // A pipe may never get a writer: opening it must not wait.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 && errno == ENXIO)
    if (const auto regular = check_regular_file(path.string()); !regular) return regular.failure();
  if (fd < 0)
    return fail(errno == ENOENT ? KINORA_ERROR_NOT_FOUND : KINORA_ERROR_IO, "{}: {}", path.string(),
                std::strerror(errno));
  struct stat info {};
  auto made = std::make_shared<Mapping>(path, fd);
  if (fstat(fd, &info) == 0 && !S_ISREG(info.st_mode))
    return fail(KINORA_ERROR_INVALID, "{}: not a regular file; give a safetensors file or its folder",
                path.string());
  if (info.st_size > 0) {
    void* at = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (at != MAP_FAILED) {
      made->data = at;
      made->size = static_cast<size_t>(info.st_size);
    }
  }
  const int error = errno;
  if (S_ISREG(info.st_mode) && info.st_size == 0)
    return fail(KINORA_ERROR_DATA, "{}: the file is empty; is the download complete?", path.string());
  if (!made->data)
    return fail(KINORA_ERROR_IO, "{}: cannot be mapped: {}", path.string(), std::strerror(error));
  return made;
}

struct Shard {
  SafeContents contents;
  std::shared_ptr<Mapping> mapping;
};

Result<Shard> open_shard(const fs::path& path) {
  auto mapping = map_file(path);
  if (!mapping) return mapping.failure();
  auto contents = parse_safetensors((*mapping)->bytes(), path.string());
  if (!contents) return contents.failure();
  return Shard{*std::move(contents), *mapping};
}

using Index = std::map<std::string, std::string>;  // tensor -> file

bool is_file_name(const std::string& s) {
  return !s.empty() && s == fs::path(s).filename() && s != "." && s != ".." && s.find('\0') == s.npos;
}

// Stricter than the library: rejects deep nesting (a value within weight_map is at depth 3; a deeper one is
// hostile and would only cost memory), and duplicate names, of which one would silently win.
nlohmann::json parse_index(std::string_view text) {
  using Event = nlohmann::json::parse_event_t;
  std::map<int, std::set<std::string>> seen;  // names of the open object at each depth
  const auto strict = [&](int depth, Event event, nlohmann::json& value) {
    if (depth > 3) throw std::runtime_error("nested too deep");
    if (event == Event::object_start) seen[depth + 1].clear();
    if (event == Event::key && !seen[depth].insert(value.get<std::string>()).second)
      throw std::runtime_error("it says '" + value.get<std::string>() + "' twice");
    return true;
  };
  return nlohmann::json::parse(text.begin(), text.end(), strict);
}

Result<Index> read_index(const fs::path& path) {
  auto mapping = map_file(path);
  if (!mapping) return mapping.failure();
  const auto bytes = (*mapping)->bytes();
  if (bytes.size() > kSafeHeaderLimit)
    return fail(KINORA_ERROR_DATA, "{}: {} bytes are too many for an index", path.string(), bytes.size());
  try {
    const auto index = parse_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    auto map = index.at("weight_map").get<Index>();
    for (const auto& [name, file] : map)
      if (!is_file_name(file))
        return fail(KINORA_ERROR_DATA, "{}: tensor '{}' is said to be in '{}', which is not a file name",
                    path.string(), name, file);
    return map;
  } catch (const std::exception& e) {
    return fail(KINORA_ERROR_DATA,
                "{}: not an index of safetensors files (needs an object \"weight_map\" of names): {}",
                path.string(), e.what());
  }
}

using Shards = std::map<std::string, Shard>;  // by file

Result<Shards> open_shards(const fs::path& index_file, const Index& index) {
  std::set<std::string> files, absent;
  for (const auto& [name, file] : index) files.insert(file);
  for (const auto& file : files)
    if (std::error_code ignored; !fs::exists(index_file.parent_path() / file, ignored)) absent.insert(file);
  if (!absent.empty())
    return fail(KINORA_ERROR_DATA, "{}: {} of {} shards are missing: {}; copy them next to the index",
                index_file.string(), absent.size(), files.size(), fmt::join(absent, ", "));
  Shards out;
  std::map<std::string_view, std::string_view> holder;
  for (const auto& file : files) {
    auto shard = open_shard(index_file.parent_path() / file);
    if (!shard) return shard.failure();
    const auto& kept = out.emplace(file, *std::move(shard)).first->second;
    for (const auto& t : kept.contents.tensors)
      if (const auto [it, fresh] = holder.emplace(t.name, file); !fresh)
        return fail(KINORA_ERROR_DATA, "{}: tensor '{}' is in {} and in {}", index_file.string(), t.name,
                    it->second, file);
  }
  return out;
}

bool is_index(const std::string& name) {
  return name.ends_with(".index.json") ||
         (name.ends_with(".json") && name.find(".safetensors.index.") != name.npos);  // of a variant
}

// A name such as model-00002-of-00003.safetensors.
struct ShardName {
  std::string stem;
  uint64_t number, of;
};
std::optional<ShardName> shard_name(const std::string& name) {
  static const std::regex form("(.+)-(\\d{1,9})-of-(\\d{1,9})\\.safetensors");
  std::smatch found;
  if (!std::regex_match(name, found, form)) return std::nullopt;
  return ShardName{found[1], std::stoull(found[2]), std::stoull(found[3])};
}

// The failure if these files are shards without their index; nothing if they are other files. A single shard
// of one needs no index.
std::optional<Failure> without_index(const fs::path& folder, const std::set<fs::path>& files) {
  std::set<uint64_t> there;
  std::optional<ShardName> first;
  for (const auto& file : files) {
    const auto shard = shard_name(file.filename().string());
    if (!shard || (first && (shard->stem != first->stem || shard->of != first->of))) return std::nullopt;
    first = first ? first : shard;
    there.insert(shard->number);
  }
  if (!first || first->of < 2) return std::nullopt;
  const uint64_t all = first->of, missing = all - std::min<uint64_t>(all, there.size());
  uint64_t number = 1;
  while (there.contains(number)) ++number;
  const std::string what =
      missing == 0   ? fmt::format("their index {}.safetensors.index.json is missing", first->stem)
      : missing == 1 ? fmt::format("shard {} of {} and the index are missing", number, all)
                     : fmt::format("{} of {} shards, the first of them shard {}, and the index are missing",
                                   missing, all, number);
  return fail(KINORA_ERROR_NOT_FOUND, "{}: weights in {} shards, but {}; is the download complete?",
              folder.string(), all, what);
}

// The failure for a folder without safetensors. A pickle (*.bin, *.ckpt, *.pt) in it is named.
Failure without_weights(const fs::path& folder) {
  std::error_code error;
  std::set<std::string> pickles, ggufs;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (const auto kind = it->path().extension();
        kind == ".bin" || kind == ".ckpt" || kind == ".pt" || kind == ".pth")
      pickles.insert(it->path().filename().string());
    else if (kind == ".gguf")
      ggufs.insert(it->path().filename().string());
  if (!ggufs.empty())
    return fail(KINORA_ERROR_NOT_FOUND,
                "{}: {} is GGUF, which is not read; take the safetensors of the same model", folder.string(),
                *ggufs.begin());
  if (pickles.empty())
    return fail(KINORA_ERROR_NOT_FOUND, "{}: no *.safetensors in this folder; is the download complete?",
                folder.string());
  return fail(
      KINORA_ERROR_NOT_FOUND,
      "{}: {} is a pickle, which is never read, and there is no *.safetensors; download the safetensors "
      "of this network, or convert it with safetensors.torch.save_file",
      folder.string(), *pickles.begin());
}

// The one file to open in a folder.
Result<fs::path> in_folder(const fs::path& folder) {
  std::set<fs::path> indices, files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name[0] == '.') continue;
    if (is_index(name) && name.find(".safetensors.index.") != name.npos) indices.insert(it->path());
    if (name.ends_with(".safetensors")) files.insert(it->path());
  }
  for (const char* ending :
       {".safetensors.index.json", ".safetensors", ".safetensors.index.fp16.json", ".fp16.safetensors"}) {
    std::vector<fs::path> found;
    for (const char* stem : {"diffusion_pytorch_model", "model", "weights"})
      if (const fs::path file = folder / (std::string(stem) + ending);
          indices.count(file) || files.count(file))
        found.push_back(file);
    if (found.size() == 1) return found[0];
    if (found.size() > 1) break;
  }
  const auto& found = indices.empty() ? files : indices;
  if (found.empty()) return without_weights(folder);
  if (indices.empty())
    if (auto failure = without_index(folder, files)) return *std::move(failure);
  if (found.size() == 1) return *found.begin();
  return fail(KINORA_ERROR_INVALID,
              "{}: several *.safetensors or *.safetensors.index.json in this folder; name the file in an "
              "option of weights, or leave one here",
              folder.string());
}

const SafeTensor* in_shard(const Shard& shard, const std::string& name) {
  const auto& all = shard.contents.tensors;
  const auto it = std::lower_bound(all.begin(), all.end(), name,
                                   [](const SafeTensor& t, const std::string& n) { return t.name < n; });
  return it != all.end() && it->name == name ? &*it : nullptr;
}

Status join_parts(std::vector<SafeTensor>& tensors, const SafeMetadata& metadata, const fs::path& file) {
  const auto joined = join_packed(tensors, metadata, file.parent_path(), file.string());
  return joined ? join_scaled(tensors, metadata, file.parent_path(), file.string()) : joined;
}

}  // namespace

fs::path file_or_index(const fs::path& path) {
  const fs::path index = path.string() + ".index.json";
  std::error_code ignored;
  return !fs::exists(path, ignored) && fs::exists(index, ignored) ? index : path;
}

Result<Safetensors> Safetensors::open(const fs::path& given) {
  std::error_code ignored;
  if (fs::is_directory(given, ignored)) {
    auto file = in_folder(given);
    return file ? open(*file) : Result<Safetensors>(file.failure());
  }
  const fs::path path = file_or_index(given);
  Safetensors out;
  if (!is_index(path.string())) {
    auto shard = open_shard(path);
    if (!shard) return shard.failure();
    out.tensors_ = std::move(shard->contents.tensors);
    out.metadata_ = std::move(shard->contents.metadata);
    out.keep_ = std::make_shared<Mappings>(1, shard->mapping);
    out.files_ = {path};
    const auto joined = join_parts(out.tensors_, out.metadata_, path);
    return joined ? Result<Safetensors>(std::move(out)) : joined.failure();
  }
  auto index = read_index(path);
  if (!index) return index.failure();
  auto shards = open_shards(path, *index);
  if (!shards) return shards.failure();
  for (const auto& [name, file] : *index) {
    const auto* t = in_shard(shards->at(file), name);
    if (!t) return fail(KINORA_ERROR_DATA, "{}: tensor '{}' is not in {}", path.string(), name, file);
    out.tensors_.push_back(*t);
  }
  auto kept = std::make_shared<Mappings>();
  for (auto& [file, shard] : *shards) {
    kept->push_back(shard.mapping);
    out.files_.push_back(path.parent_path() / file);
    out.metadata_.merge(shard.contents.metadata);
  }
  out.keep_ = kept;
  const auto joined = join_parts(out.tensors_, out.metadata_, path);
  return joined ? Result<Safetensors>(std::move(out)) : joined.failure();
}

Status check_whole(const Safetensors& file) {
  for (const auto& one : *static_cast<const Mappings*>(file.keep().get())) {
    struct stat now {};
    if (fstat(one->file, &now) == 0 && static_cast<size_t>(now.st_size) < one->size)
      return fail(
          KINORA_ERROR_DATA,
          "{}: the file shrank while it was in use ({} bytes, now {}); write new weights under another name "
          "and rename them",
          one->path.string(), one->size, now.st_size);
  }
  return {};
}

void forget_pages(std::span<const std::byte> mapped) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(mapped.data()) + page - 1) / page * page,
             end = reinterpret_cast<uintptr_t>(mapped.data() + mapped.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // a hint: may fail
}

}  // namespace kinora::core
