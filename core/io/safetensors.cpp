#include "core/io/safetensors.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/io/atomic_file.hpp"
#include "core/io/safetensors_header.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and used in place");

struct Mapping {
  void* data = nullptr;
  size_t size = 0;
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data) munmap(data, size);
  }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data), size}; }
};

Result<std::shared_ptr<Mapping>> map_file(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(errno == ENOENT ? KINORA_NOT_FOUND : KINORA_IO, "{}: {}", path.string(), std::strerror(errno));
  struct stat info {};
  auto made = std::make_shared<Mapping>();
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
    void* at = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (at != MAP_FAILED) {
      made->data = at;
      made->size = static_cast<size_t>(info.st_size);
    }
  }
  const int error = errno;
  close(fd);
  if (S_ISREG(info.st_mode) && info.st_size == 0) return fail(KINORA_DATA, "{}: the file is empty", path.string());
  if (!made->data) return fail(KINORA_IO, "{}: cannot be mapped: {}", path.string(), std::strerror(error));
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

// name -> file name of an index; file names must stay in the index' folder.
Result<std::map<std::string, std::string>> read_index(const fs::path& path) {
  auto mapping = map_file(path);
  if (!mapping) return mapping.failure();
  const auto bytes = (*mapping)->bytes();
  if (bytes.size() > kSafeHeaderLimit) return fail(KINORA_DATA, "{}: {} bytes are too many for an index", path.string(), bytes.size());
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  try {
    // Depth 3 is a value within weight_map; a deeper one is hostile and would only cost memory.
    const auto shallow = [](int depth, auto, auto&) { return depth <= 3 ? true : throw std::runtime_error("nested too deep"); };
    const auto index = nlohmann::json::parse(text, text + bytes.size(), shallow);
    auto map = index.at("weight_map").get<std::map<std::string, std::string>>();
    for (const auto& [name, file] : map)
      if (file.empty() || file != fs::path(file).filename() || file == "." || file == "..")
        return fail(KINORA_DATA, "{}: tensor '{}' is said to be in '{}', which is not a file name", path.string(), name, file);
    return map;
  } catch (const std::exception& e) {
    return fail(KINORA_DATA, "{}: not an index of safetensors files (needs an object \"weight_map\" of names): {}", path.string(), e.what());
  }
}

Result<std::map<std::string, Shard>> open_shards(const fs::path& folder, const std::map<std::string, std::string>& index) {
  std::map<std::string, Shard> out;
  for (const auto& [name, file] : index) {
    if (out.count(file)) continue;
    auto shard = open_shard(folder / file);
    if (!shard) return shard.failure();
    out.emplace(file, *std::move(shard));
  }
  return out;
}

const SafeTensor* find_sorted(const std::vector<SafeTensor>& in, std::string_view name) {
  const auto it = std::lower_bound(in.begin(), in.end(), name, [](const SafeTensor& t, std::string_view n) { return t.name < n; });
  return it != in.end() && it->name == name ? &*it : nullptr;
}

// The one file that a folder stands for: an index if there is one, else the only *.safetensors.
Result<fs::path> in_folder(const fs::path& folder) {
  std::vector<fs::path> indices, files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".safetensors.index.json")) indices.push_back(it->path());
    if (name.ends_with(".safetensors") && name[0] != '.') files.push_back(it->path());
  }
  auto& found = indices.empty() ? files : indices;
  if (found.size() == 1) return found[0];
  return fail(found.empty() ? KINORA_NOT_FOUND : KINORA_INVALID, "{}: {} *.safetensors or *.safetensors.index.json in this folder; name the file",
              folder.string(), found.empty() ? "no" : "several");
}

}  // namespace

Result<SafeContents> parse_safetensors(std::span<const std::byte> file, std::string_view origin) {
  uint64_t length = 0;
  if (file.size() < sizeof length) return fail(KINORA_DATA, "{}: {} bytes are too few for a safetensors file", origin, file.size());
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kSafeHeaderLimit)
    return fail(KINORA_DATA, "{}: not a safetensors file: its header would have {} bytes, at most {} are allowed", origin, length, kSafeHeaderLimit);
  if (length > file.size() - sizeof length)
    return fail(KINORA_DATA, "{}: truncated: the header has {} bytes, the file {}", origin, length, file.size());
  auto header = parse_safe_header({reinterpret_cast<const char*>(file.data()) + sizeof length, length}, origin);
  if (!header) return header.failure();

  const auto data = file.subspan(sizeof length + length);
  std::vector<const SafeEntry*> by_offset;
  for (const auto& e : header->entries) by_offset.push_back(&e);
  std::sort(by_offset.begin(), by_offset.end(), [](auto* a, auto* b) { return std::tie(a->begin, a->end) < std::tie(b->begin, b->end); });
  uint64_t end = 0;
  for (const auto* e : by_offset) {
    if (e->begin != end)
      return fail(KINORA_DATA, "{}: tensor '{}' begins at byte {} of the data, {} expected (overlap or hole)", origin, e->tensor.name, e->begin, end);
    end = e->end;
  }
  if (end != data.size())
    return fail(KINORA_DATA, "{}: {}: the tensors have {} bytes, the file holds {}", origin, end > data.size() ? "truncated" : "trailing bytes", end, data.size());

  SafeContents out;
  out.metadata = std::move(header->metadata);
  for (auto& e : header->entries) {
    e.tensor.bytes = data.subspan(e.begin, e.end - e.begin);
    out.tensors.push_back(std::move(e.tensor));
  }
  return out;
}

Result<Safetensors> Safetensors::open(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    auto file = in_folder(path);
    return file ? open(*file) : Result<Safetensors>(file.failure());
  }
  Safetensors out;
  if (!path.string().ends_with(".index.json")) {
    auto shard = open_shard(path);
    if (!shard) return shard.failure();
    out.tensors_ = std::move(shard->contents.tensors);
    out.metadata_ = std::move(shard->contents.metadata);
    out.keep_ = shard->mapping;
    return out;
  }
  auto index = read_index(path);
  if (!index) return index.failure();
  auto shards = open_shards(path.parent_path(), *index);
  if (!shards) return shards.failure();
  for (const auto& [name, file] : *index) {
    const auto* t = find_sorted((*shards)[file].contents.tensors, name);
    if (!t) return fail(KINORA_DATA, "{}: tensor '{}' is not in {}", path.string(), name, file);
    out.tensors_.push_back(*t);
  }
  auto kept = std::make_shared<std::vector<std::shared_ptr<Mapping>>>();
  for (auto& [file, shard] : *shards) {
    kept->push_back(shard.mapping);
    out.metadata_.merge(shard.contents.metadata);
  }
  out.keep_ = kept;
  return out;
}

const SafeTensor* Safetensors::find(std::string_view name) const { return find_sorted(tensors_, name); }

std::vector<std::string> Safetensors::names() const {
  std::vector<std::string> out;
  for (const auto& t : tensors_) out.push_back(t.name);
  return out;
}

Status write_safetensors(const fs::path& path, std::vector<SafeTensor> tensors, const SafeMetadata& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](auto& a, auto& b) { return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name; });
  std::map<std::string_view, int> seen;
  for (const auto& t : tensors) {
    const auto size = byte_size(t.shape, t.dtype);
    if (!size || *size != t.bytes.size())
      return fail(KINORA_INVALID, "{}: tensor '{}' {} has {} bytes, {} given", path.string(), t.name, text_of(t.shape), size.value_or(0), t.bytes.size());
    if (t.name == "__metadata__" || seen[t.name]++) return fail(KINORA_INVALID, "{}: two tensors are called '{}'", path.string(), t.name);
  }
  std::string header;
  try {
    header = make_safe_header(tensors, metadata);
  } catch (const std::exception& e) {
    return fail(KINORA_INVALID, "{}: a name or metadata is not UTF-8: {}", path.string(), e.what());
  }
  auto file = AtomicFile::create(path);
  if (!file) return file.failure();
  const uint64_t length = header.size();
  if (auto s = file->write(&length, sizeof length); !s) return s;
  if (auto s = file->write(header); !s) return s;
  for (const auto& t : tensors)
    if (auto s = file->write(t.bytes.data(), t.bytes.size()); !s) return s;
  return file->commit();
}

}  // namespace kinora::core
