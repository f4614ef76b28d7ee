#include "plugins/jobs/latents/latent_cache.hpp"

#include <map>
#include <optional>
#include <set>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "core/base/digest.hpp"
#include "core/io/atomic_file.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/exchange.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/jobs/latents/hdf5/hdf5_file.hpp"
#include "plugins/jobs/latents/hdf5_writing.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;
constexpr const char *kAbout = "kinora.latents", *kDigest = "kinora.digest";

// HDF5 splits names at '/' and reads '.' as the group itself.
std::string escaped(const std::string& key) {
  if (key == ".") return "%2E";
  std::string out;
  for (const char c : key) {
    if (c == '/' || c == '%') {
      out += c == '/' ? "%2F" : "%25";
    } else {
      out += c;
    }
  }
  return out;
}

std::string unescaped(const std::string& name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    const auto code = name.substr(i, 3);
    if (code == "%2F" || code == "%25" || code == "%2E") {
      out += code == "%2F" ? '/' : code == "%25" ? '%' : '.';
      i += 2;
    } else {
      out += name[i];
    }
  }
  return out;
}

std::string text_of(const at::Tensor& t) {
  return {static_cast<const char*>(t.const_data_ptr()), static_cast<size_t>(t.numel())};
}

// Digest of the previous samples and one more.
std::string digest_with(const std::string& before, const std::string& key, const NamedTensors& tensors) {
  json sample{before, key};
  for (const auto& [name, t] : tensors) {
    const at::Tensor here = t.detach().to(at::kCPU).contiguous();
    const std::string_view bytes(static_cast<const char*>(here.const_data_ptr()), here.nbytes());
    sample.push_back({name, c10::toString(here.scalar_type()), here.sizes().vec(), sha256(bytes)});
  }
  return sha256(sample.dump());
}

void write_text(hid_t file, const char* name, const std::string& text, const std::string& path) {
  const hdf5::Handle type(H5Tcopy(H5T_C_S1), H5Tclose), space(H5Screate(H5S_SCALAR), H5Sclose);
  constexpr size_t kMost = 60'000;  // a header's message has at most 64 KiB
  if (text.size() > kMost)
    raise(KINORA_ERROR_INVALID, "{}: attribute {} has {} bytes; expected at most {}", path, name, text.size(),
          kMost);
  H5Tset_size(type.get(), std::max<size_t>(text.size(), 1));
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  const hdf5::Handle attribute(H5Acreate2(file, name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
                               H5Aclose);
  hdf5::need(attribute && H5Awrite(attribute.get(), type.get(), text.c_str()) >= 0, KINORA_ERROR_IO,
             path + ": writing failed");
}

hdf5::Handle group_in(hid_t parent, const std::string& name, const std::string& what) {
  const hdf5::Handle p(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  H5Pset_obj_track_times(p.get(), false);
  hdf5::Handle g(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, p.get(), H5P_DEFAULT), H5Gclose);
  hdf5::need(static_cast<bool>(g), KINORA_ERROR_IO, what);
  return g;
}

}  // namespace

struct LatentCacheWriter::State {
  std::string path;
  std::optional<AtomicFile> target;
  hdf5::Handle file, samples;
  json keys = json::array();
  std::set<std::string> seen;
  std::string digest;
};

LatentCacheWriter::LatentCacheWriter(const std::filesystem::path& path, const std::string& about)
    : state_(std::make_unique<State>()) {
  auto& s = *state_;
  s.path = path.string();
  s.target = or_throw(AtomicFile::create(path));
  const auto held = hdf5::lock();
  s.file = hdf5::create_file(s.target->temporary());
  write_text(s.file.get(), kAbout, about, s.path);
  s.samples = group_in(s.file.get(), "samples", s.path);
}

LatentCacheWriter::~LatentCacheWriter() {
  const auto held = hdf5::lock();
  state_->samples.close();
  state_->file.close();
}

void LatentCacheWriter::add(const std::string& key, const NamedTensors& tensors) {
  const auto held = hdf5::lock();
  auto& s = *state_;
  if (key.empty() || key.find('\0') != std::string::npos || !s.seen.insert(key).second)
    raise(KINORA_ERROR_INVALID, "{}: key '{}' is empty or was added before", s.path, key);
  constexpr size_t kLongest = 4000;  // bytes; the heap of a group stores longer names in another way
  if (escaped(key).size() > kLongest)
    raise(KINORA_ERROR_INVALID, "{}: key '{}...' has {} bytes; expected at most {}", s.path,
          key.substr(0, 40), key.size(), kLongest);
  const auto what = s.path + ": sample '" + key + "'";
  const auto group = group_in(s.samples.get(), escaped(key), what);
  for (const auto& [name, t] : tensors)
    hdf5::write_dataset(group.get(), escaped(name), t, what + ", " + name);
  s.keys.push_back(key);
  s.digest = digest_with(s.digest, key, tensors);
}

void LatentCacheWriter::commit() {
  auto& s = *state_;
  {
    const auto held = hdf5::lock();
    hdf5::write_dataset(s.file.get(), "keys", tensor_of_text(s.keys.dump()), s.path + ": keys");
    write_text(s.file.get(), kDigest, s.digest, s.path);
    s.samples.close();
    hdf5::need(H5Fflush(s.file.get(), H5F_SCOPE_GLOBAL) >= 0, KINORA_ERROR_NO_MEMORY,
               s.path + ": writing failed", "free some space and run again");
    s.file.close();
  }
  or_throw(s.target->commit());
}

namespace {

// Calls f() and adds the place in the file, and what to do, to its errors.
template <class F>
auto named(const std::string& what, F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    throw Error(e.code(), what + ": " + e.what() + "; remove the file and run the job that makes it again");
  }
}

}  // namespace

struct LatentCache::State {
  explicit State(const std::filesystem::path& file)
      : path(file.string()),
        source(or_throw(open_bytes(path))),
        reader(named(path, [&] { return hdf5::File(source); })) {}

  std::string text(const char* attribute) const {
    return named(path, [&] { return reader.text_of_root(attribute).value_or(""); });
  }
  hdf5::Members members(uint64_t group, const std::string& what) const {
    return named(what, [&] { return reader.members(group); });
  }
  // budget: bytes that the sample's further tensors may have; those of a sample are parts of the file.
  at::Tensor tensor(uint64_t dataset, const std::string& what, uint64_t& budget) const {
    return named(what, [&] {
      at::Tensor out;
      reader.read(dataset, [&](const hdf5::Dataset& d) -> std::span<std::byte> {
        if (d.bytes > budget) throw Error(KINORA_ERROR_DATA, "shape and stored bytes disagree");
        budget -= d.bytes;
        out = at::empty(d.shape, at::TensorOptions().dtype(torch_dtype(d.dtype)));
        return {static_cast<std::byte*>(out.data_ptr()), d.bytes};
      });
      return out;
    });
  }

  std::string path, about, digest;
  std::shared_ptr<const ByteSource> source;
  hdf5::File reader;
  std::vector<std::string> keys;
  std::map<std::string, uint64_t> samples;  // addresses of their groups, by key
};

LatentCache::LatentCache(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {
  auto& s = *state_;
  s.about = s.text(kAbout);
  s.digest = s.text(kDigest);
  const auto top = s.members(s.reader.root(), s.path);
  const auto samples = top.find("samples"), list = top.find("keys");
  if (s.about.empty() || samples == top.end() || list == top.end())
    raise(KINORA_ERROR_DATA, "{}: not a cache of latents, which an encode job makes", s.path);
  auto budget = s.source->size();
  const auto text = s.tensor(list->second, s.path + ": dataset keys", budget);
  const auto keys = text.scalar_type() == at::kByte ? json::parse(text_of(text), nullptr, false) : json();
  const bool strings =
      keys.is_array() && std::all_of(keys.begin(), keys.end(), [](const json& k) { return k.is_string(); });
  if (!strings)
    raise(KINORA_ERROR_DATA,
          "{}: dataset keys is not a list of names; remove the file and run the job that makes it again",
          s.path);
  s.keys = keys.get<std::vector<std::string>>();
  const auto groups = s.members(samples->second, s.path + ": group samples");
  for (const auto& key : s.keys) {
    const auto group = groups.find(escaped(key));
    s.samples.emplace(key, group == groups.end() ? hdf5::kNowhere : group->second);
  }
}

LatentCache::~LatentCache() = default;

const std::vector<std::string>& LatentCache::keys() const { return state_->keys; }
const std::string& LatentCache::about() const { return state_->about; }
const std::string& LatentCache::digest() const { return state_->digest; }
bool LatentCache::has(const std::string& key) const { return state_->samples.contains(key); }

NamedTensors LatentCache::read(const std::string& key) const {
  const auto& s = *state_;
  const auto group = s.samples.find(key);
  if (group == s.samples.end()) raise(KINORA_ERROR_NOT_FOUND, "{}: it has no sample '{}'", s.path, key);
  const auto what = s.path + ": dataset samples/" + escaped(key);
  auto budget = s.source->size();
  NamedTensors out;
  for (const auto& [name, dataset] : s.members(group->second, what))
    out.emplace(unescaped(name), s.tensor(dataset, what + "/" + name, budget));
  return out;
}

}  // namespace kinora::core
