#include "plugins/jobs/latents/hdf5_writing.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core::hdf5 {
namespace {

constexpr uint64_t kMostChunk = 1 << 20;  // bytes

Handle small_float(size_t exponent, size_t mantissa) {
  Handle t(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  H5Tset_fields(t.get(), 15, mantissa, exponent, 0, mantissa);
  H5Tset_size(t.get(), 2);
  H5Tset_ebias(t.get(), (size_t{1} << (exponent - 1)) - 1);
  return t;
}

// A boolean as h5py writes and reads it.
Handle truth() {
  Handle t(H5Tenum_create(H5T_NATIVE_INT8), H5Tclose);
  for (int8_t v = 0; v < 2; ++v) H5Tenum_insert(t.get(), v ? "TRUE" : "FALSE", &v);
  return t;
}

Handle type_of(at::ScalarType t) {
  switch (t) {
    case at::kFloat:
      return {H5Tcopy(H5T_IEEE_F32LE), H5Tclose};
    case at::kDouble:
      return {H5Tcopy(H5T_IEEE_F64LE), H5Tclose};
    case at::kHalf:
      return small_float(5, 10);
    case at::kBFloat16:
      return small_float(8, 7);
    case at::kLong:
      return {H5Tcopy(H5T_STD_I64LE), H5Tclose};
    case at::kInt:
      return {H5Tcopy(H5T_STD_I32LE), H5Tclose};
    case at::kShort:
      return {H5Tcopy(H5T_STD_I16LE), H5Tclose};
    case at::kChar:
      return {H5Tcopy(H5T_STD_I8LE), H5Tclose};
    case at::kByte:
      return {H5Tcopy(H5T_STD_U8LE), H5Tclose};
    case at::kBool:
      return truth();
    default:
      raise(KINORA_ERROR_UNSUPPORTED, "a tensor of dtype {} cannot be stored in a cache", c10::toString(t));
  }
}

// Chunk of whole rows of the last dimensions, at most kMostChunk bytes.
std::vector<hsize_t> chunk_of(std::vector<hsize_t> dims, uint64_t bytes) {
  for (auto& d : dims) {
    if (bytes <= kMostChunk) break;
    const hsize_t fewer = std::max<hsize_t>(
        1, static_cast<hsize_t>(static_cast<double>(d) * kMostChunk / static_cast<double>(bytes)));
    bytes = bytes / d * fewer;
    d = fewer;
  }
  return dims;
}

Handle creation_of(const std::vector<hsize_t>& dims, uint64_t bytes) {
  Handle p(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(p.get(), false);  // equal contents, equal bytes
  if (dims.empty() || bytes == 0) return p;
  const auto chunk = chunk_of(dims, bytes);
  H5Pset_chunk(p.get(), static_cast<int>(chunk.size()), chunk.data());
  H5Pset_fletcher32(p.get());
  return p;
}

Handle access() {
  Handle p(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_libver_bounds(p.get(), H5F_LIBVER_V18, H5F_LIBVER_V18);  // metadata with checksums
  H5Pset_file_locking(p.get(), false, true);                      // some shared file systems cannot lock
  return p;
}

}  // namespace

std::unique_lock<std::mutex> lock() {
  static std::mutex mutex;
  std::unique_lock held(mutex);
  // A file that could not be flushed (a full disk) must not be flushed again at exit: HDF5 1.10 crashes
  // there.
  static const herr_t at_exit = H5dont_atexit();
  static_cast<void>(at_exit);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // our errors contain the messages; none go to stderr
  return held;
}

std::string last_message() {
  std::string text;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned n, const H5E_error2_t* e, void* to) -> herr_t {
        if (n == 0 && e->desc) *static_cast<std::string*>(to) = e->desc;
        return 0;
      },
      &text);
  // For a failed system call the message lists every argument; the system's own message is enough.
  constexpr std::string_view kSaid = "error message = '";
  if (const auto at = text.find(kSaid); at != std::string::npos) {
    text.erase(0, at + kSaid.size());
    text.resize(std::min(text.find('\''), text.size()));
  }
  return text.empty() ? "unknown error" : text;
}

void need(bool ok, int32_t code, const std::string& what, const std::string& remedy) {
  if (!ok) raise(code, "{}: {}{}", what, last_message(), remedy.empty() ? "" : "; " + remedy);
}

Handle create_file(const std::filesystem::path& path) {
  Handle p(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_obj_track_times(p.get(), false);
  Handle f(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, p.get(), access().get()), H5Fclose);
  need(static_cast<bool>(f), KINORA_ERROR_IO, path.string() + ": cannot be created");
  return f;
}

void write_dataset(hid_t group, const std::string& name, const at::Tensor& tensor, const std::string& what) {
  const auto t = tensor.detach().to(at::kCPU).contiguous();
  const std::vector<hsize_t> dims(t.sizes().begin(), t.sizes().end());
  const Handle type = type_of(t.scalar_type()),
               space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose);
  const Handle creation = creation_of(dims, t.nbytes());
  const Handle set(
      H5Dcreate2(group, name.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      H5Dclose);
  need(static_cast<bool>(set), KINORA_ERROR_IO, what);
  const bool written = t.numel() == 0 || H5Dwrite(set.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                                                  t.const_data_ptr()) >= 0;
  need(written, KINORA_ERROR_NO_MEMORY, what + ": writing failed", "free some space and run again");
}

}  // namespace kinora::core::hdf5
