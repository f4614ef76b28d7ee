#include "core/torch/weights/latent_cache.hpp"

#include <optional>
#include <set>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "core/base/digest.hpp"
#include "core/io/atomic_file.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/exchange.hpp"
#include "core/torch/weights/hdf5.hpp"

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
  H5Tset_size(type.get(), std::max<size_t>(text.size(), 1));
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  const hdf5::Handle attribute(H5Acreate2(file, name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
                               H5Aclose);
  hdf5::need(attribute && H5Awrite(attribute.get(), type.get(), text.c_str()) >= 0, KINORA_ERROR_IO,
             path + ": writing failed");
}

std::string read_text(hid_t file, const char* name, const std::string& path) {
  const hdf5::Handle attribute(H5Aopen(file, name, H5P_DEFAULT), H5Aclose);
  hdf5::need(static_cast<bool>(attribute), KINORA_ERROR_DATA, path + ": not a cache of latents");
  const hdf5::Handle type(H5Aget_type(attribute.get()), H5Tclose);
  const bool is_text = H5Tget_class(type.get()) == H5T_STRING && H5Tis_variable_str(type.get()) == 0;
  std::string text(is_text ? H5Tget_size(type.get()) : 0, '\0');
  hdf5::need(is_text && H5Aread(attribute.get(), type.get(), text.data()) >= 0, KINORA_ERROR_DATA,
             path + ": damaged attribute " + name);
  return text;
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

struct LatentCache::State {
  std::string path, about, digest;
  hdf5::Handle file, samples;
  std::vector<std::string> keys;
  std::set<std::string> known;
};

LatentCache::LatentCache(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  const auto held = hdf5::lock();
  auto& s = *state_;
  s.path = path.string();
  s.file = hdf5::open_file(path);
  s.about = read_text(s.file.get(), kAbout, s.path);
  if (H5Aexists(s.file.get(), kDigest) > 0) s.digest = read_text(s.file.get(), kDigest, s.path);
  const auto keys = json::parse(text_of(hdf5::read_dataset(s.file.get(), "keys", s.path + ": dataset keys")),
                                nullptr, false);
  const bool strings =
      keys.is_array() && std::all_of(keys.begin(), keys.end(), [](const json& k) { return k.is_string(); });
  if (!strings)
    raise(KINORA_ERROR_DATA,
          "{}: dataset keys is not a list of names; remove the file and run the job that makes it again",
          s.path);
  s.keys = keys.get<std::vector<std::string>>();
  s.known.insert(s.keys.begin(), s.keys.end());
  s.samples =
      hdf5::Handle(H5Gopen2(s.file.get(), "samples", hdf5::within_file(H5P_GROUP_ACCESS).get()), H5Gclose);
  hdf5::need(static_cast<bool>(s.samples), KINORA_ERROR_DATA, s.path + ": group samples");
}

LatentCache::~LatentCache() {
  const auto held = hdf5::lock();
  state_->samples.close();
  state_->file.close();
}

const std::vector<std::string>& LatentCache::keys() const { return state_->keys; }
const std::string& LatentCache::about() const { return state_->about; }
const std::string& LatentCache::digest() const { return state_->digest; }
bool LatentCache::has(const std::string& key) const { return state_->known.count(key) != 0; }

NamedTensors LatentCache::read(const std::string& key) const {
  const auto& s = *state_;
  if (!has(key)) raise(KINORA_ERROR_NOT_FOUND, "{}: it has no sample '{}'", s.path, key);
  const auto held = hdf5::lock();
  const auto what = s.path + ": dataset samples/" + escaped(key);
  const hdf5::Handle group(
      H5Gopen2(s.samples.get(), escaped(key).c_str(), hdf5::within_file(H5P_GROUP_ACCESS).get()), H5Gclose);
  hdf5::need(static_cast<bool>(group), KINORA_ERROR_DATA, what,
             "remove the file and run the job that makes it again");
  std::vector<std::string> names;
  const auto note = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  hdf5::need(H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, note, &names) >= 0,
             KINORA_ERROR_DATA, what);
  NamedTensors out;
  for (const auto& n : names) out.emplace(unescaped(n), hdf5::read_dataset(group.get(), n, what + "/" + n));
  return out;
}

}  // namespace kinora::core
