#include "host/weights/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include <nlohmann/json.hpp>

#include "core/io/atomic_file.hpp"
#include "host/weights/safetensors_header.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little,
              "safetensors data is little-endian and used in place");

const SafeTensor* find_sorted(const std::vector<SafeTensor>& in, std::string_view name) {
  const auto it = std::lower_bound(in.begin(), in.end(), name,
                                   [](const SafeTensor& t, std::string_view n) { return t.name < n; });
  return it != in.end() && it->name == name ? &*it : nullptr;
}

// Recognises by its first bytes what a file that is not safetensors is, with the remedy; "" if unknown.
std::string known_as(std::span<const std::byte> file) {
  const std::string_view begin(reinterpret_cast<const char*>(file.data()), std::min<size_t>(file.size(), 64));
  if (begin.starts_with("version https://git-lfs"))
    return "a Git LFS pointer; fetch the file itself: git lfs pull";
  if (begin.starts_with("PK") || begin.starts_with("\x80"))
    return "a file of torch.save or torch.jit.save; save its tensors with safetensors.torch.save_file";
  if (begin.starts_with("GGUF"))
    return "GGUF (llama.cpp, ComfyUI-GGUF), which is not read; take the safetensors of the same model, in "
           "bf16, or in eight bits as ComfyUI's *_fp8_scaled.safetensors";
  if (begin.starts_with("<")) return "a page of HTML; download the file again";
  if (begin.starts_with("{")) return "JSON; give the weights file next to it, *.safetensors";
  return "";
}

}  // namespace

Result<SafeContents> parse_safetensors(std::span<const std::byte> file, std::string_view origin) {
  uint64_t length = 0;
  if (file.size() < sizeof length)
    return fail(KINORA_ERROR_DATA,
                "{}: {} bytes are too few for a safetensors file; is the download complete?", origin,
                file.size());
  std::memcpy(&length, file.data(), sizeof length);
  const std::string known = length > kSafeHeaderLimit ? known_as(file) : "";
  if (!known.empty()) return fail(KINORA_ERROR_DATA, "{}: not a safetensors file but {}", origin, known);
  if (length > kSafeHeaderLimit)
    return fail(KINORA_ERROR_DATA,
                "{}: not a safetensors file: its header would have {} bytes, at most {} are allowed", origin,
                length, kSafeHeaderLimit);
  if (length > file.size() - sizeof length)
    return fail(KINORA_ERROR_DATA,
                "{}: truncated: the header has {} bytes, the file {}; is the download complete?", origin,
                length, file.size());
  auto header =
      parse_safe_header({reinterpret_cast<const char*>(file.data()) + sizeof length, length}, origin);
  if (!header) return header.failure();

  const auto data = file.subspan(sizeof length + length);
  std::vector<const SafeEntry*> by_offset;
  for (const auto& e : header->entries) by_offset.push_back(&e);
  std::sort(by_offset.begin(), by_offset.end(),
            [](auto* a, auto* b) { return std::tie(a->begin, a->end) < std::tie(b->begin, b->end); });
  uint64_t end = 0;
  for (const auto* e : by_offset) {
    if (e->begin != end)
      return fail(KINORA_ERROR_DATA,
                  "{}: tensor '{}' begins at byte {} of the data, {} expected (overlap or hole)", origin,
                  e->tensor.name, e->begin, end);
    end = e->end;
  }
  if (end != data.size())
    return fail(KINORA_ERROR_DATA, "{}: {}: the tensors have {} bytes, the file holds {}; {}", origin,
                end > data.size() ? "truncated" : "trailing bytes", end, data.size(),
                end > data.size() ? "is the download complete?" : "download or write it again");

  SafeContents out;
  out.metadata = std::move(header->metadata);
  for (auto& e : header->entries) {
    e.tensor.bytes = data.subspan(e.begin, e.end - e.begin);
    out.tensors.push_back(std::move(e.tensor));
  }
  return out;
}

const SafeTensor* Safetensors::find(std::string_view name) const { return find_sorted(tensors_, name); }

std::vector<std::string> Safetensors::names() const {
  std::vector<std::string> out;
  for (const auto& t : tensors_) out.push_back(t.name);
  return out;
}

void sort_as_written(std::vector<SafeTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](auto& a, auto& b) { return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name; });
}

Status write_safetensors(const fs::path& path, std::vector<SafeTensor> tensors, const SafeMetadata& metadata,
                         const BytesOf& bytes_of) {
  sort_as_written(tensors);
  std::map<std::string_view, int> seen;
  for (const auto& t : tensors) {
    const auto size = byte_size(t.shape, t.dtype);
    if (!size || (!bytes_of && *size != t.bytes.size()))
      return fail(KINORA_ERROR_INVALID, "{}: tensor '{}' {} has {} bytes, {} given", path.string(), t.name,
                  text_of(t.shape), size.value_or(0), t.bytes.size());
    if (t.name == "__metadata__" || seen[t.name]++)
      return fail(KINORA_ERROR_INVALID, "{}: two tensors are called '{}'", path.string(), t.name);
  }
  std::string header;
  try {
    header = make_safe_header(tensors, metadata);
  } catch (const std::exception& e) {
    return fail(KINORA_ERROR_INVALID, "{}: a name or metadata is not UTF-8: {}", path.string(), e.what());
  }
  auto file = AtomicFile::create(path);
  if (!file) return file.failure();
  const uint64_t length = header.size();
  if (auto s = file->write(&length, sizeof length); !s) return s;
  if (auto s = file->write(header); !s) return s;
  for (const auto& t : tensors) {
    const auto bytes = bytes_of ? bytes_of(t) : t.bytes;
    if (bytes.size() != *byte_size(t.shape, t.dtype))
      return fail(KINORA_ERROR_FAILED, "{}: tensor '{}' became {} bytes", path.string(), t.name,
                  bytes.size());
    if (auto s = file->write(bytes.data(), bytes.size()); !s) return s;
  }
  return file->commit();
}

Result<std::vector<SafeShard>> cut_into_shards(const fs::path& path, const std::vector<SafeTensor>& tensors,
                                               uint64_t most) {
  std::vector<SafeShard> out(1);
  std::set<std::string_view> seen;
  for (const auto& t : tensors) {
    if (!seen.insert(t.name).second)
      return fail(KINORA_ERROR_INVALID, "{}: two tensors are called '{}'", path.string(), t.name);
    const uint64_t own = byte_size(t.shape, t.dtype).value_or(0);
    if (!out.back().tensors.empty() && out.back().bytes + own > most) out.emplace_back();
    out.back().tensors.push_back(t);
    out.back().bytes += own;
  }
  std::string stem = path.string();
  if (stem.ends_with(".safetensors")) stem.resize(stem.size() - std::string_view(".safetensors").size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].path = out.size() == 1
                      ? path
                      : fs::path(fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, out.size()));
    sort_as_written(out[i].tensors);
  }
  return out;
}

Result<fs::path> write_index(const fs::path& path, const std::vector<SafeShard>& shards) {
  if (shards.size() == 1) return path;
  uint64_t total = 0;
  nlohmann::json map = nlohmann::json::object();
  for (const auto& shard : shards) {
    for (const auto& t : shard.tensors) map[t.name] = shard.path.filename().string();
    total += shard.bytes;
  }
  const fs::path index =
      path.string() + (path.extension() == ".safetensors" ? "" : ".safetensors") + ".index.json";
  const nlohmann::json text = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  if (auto s = write_file_atomically(index, text.dump(2) + "\n"); !s) return s.failure();
  return index;
}

Result<fs::path> write_safetensors_sharded(const fs::path& path, const std::vector<SafeTensor>& tensors,
                                           const SafeMetadata& metadata, uint64_t most,
                                           const BytesOf& bytes_of) {
  const auto shards = cut_into_shards(path, tensors, most);
  if (!shards) return shards.failure();
  for (const auto& shard : *shards)
    if (auto s = write_safetensors(shard.path, shard.tensors, metadata, bytes_of); !s) return s.failure();
  return write_index(path, *shards);
}

}  // namespace kinora::core
