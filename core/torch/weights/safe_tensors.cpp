#include "core/torch/weights/safe_tensors.hpp"

#include <array>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/eight_bits.hpp"
#include "core/torch/weights/four_bits.hpp"
#include "host/weights/safetensors.hpp"
#include "host/weights/scaled_weight.hpp"

namespace kinora::core {
namespace {

// Dtypes in the order of SafeDtype.
constexpr std::array kTypes{at::kBool,           at::kByte,   at::kChar, at::kFloat8_e5m2, at::kFloat8_e4m3fn,
                            at::kFloat8_e8m0fnu, at::kShort,  at::kHalf, at::kBFloat16,    at::kInt,
                            at::kFloat,          at::kDouble, at::kLong};

}  // namespace

SafeDtype safe_dtype(const std::string& name, at::ScalarType dtype) {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i] == dtype) return static_cast<SafeDtype>(i);
  raise(KINORA_ERROR_UNSUPPORTED, "tensor '{}' is of dtype {}, which safetensors files do not hold", name,
        c10::toString(dtype));
}

at::ScalarType torch_dtype(SafeDtype dtype) { return kTypes[static_cast<size_t>(dtype)]; }

at::Tensor as_tensor(const Safetensors& file, const SafeTensor& t) {
  or_throw(check_whole(file));  // accessing a truncated mapping kills the process
  if (t.packed) {
    at::Tensor out = decoded(t);
    forget_pages(t.packed->codes);
    forget_pages(t.packed->scales);
    return out;
  }
  if (t.scaled) {
    at::Tensor out = decoded_scaled(t);
    forget_pages(t.scaled->codes.bytes);
    return out;
  }
  const auto options = at::TensorOptions().dtype(torch_dtype(t.dtype));
  if (t.bytes.empty()) return at::empty(t.shape, options);
  auto* data = const_cast<std::byte*>(t.bytes.data());
  const bool aligned = reinterpret_cast<uintptr_t>(data) % size_of(t.dtype) == 0;
  if (!aligned) {  // a hostile or foreign header may place a tensor at any offset
    auto copy = at::empty(t.shape, options);
    std::memcpy(copy.data_ptr(), data, t.bytes.size());
    return copy;
  }
  return at::from_blob(
      data, t.shape, [keep = file.keep(), bytes = t.bytes](void*) { forget_pages(bytes); }, options);
}

NamedTensors tensors_of(const Safetensors& file) {
  NamedTensors out;
  for (const auto& t : file.tensors()) out.emplace(t.name, as_tensor(file, t));
  return out;
}

NamedTensors read_tensors(const std::filesystem::path& path) {
  return tensors_of(or_throw(Safetensors::open(path)));
}

void write_tensors(const std::filesystem::path& path, const NamedTensors& tensors,
                   const SafeMetadata& metadata) {
  std::vector<at::Tensor> kept;
  std::vector<SafeTensor> out;
  for (const auto& [name, t] : tensors) {
    kept.push_back(t.detach().to(at::kCPU).contiguous());
    const auto& c = kept.back();
    out.push_back({name,
                   safe_dtype(name, c.scalar_type()),
                   c.sizes().vec(),
                   {static_cast<const std::byte*>(c.data_ptr()), c.nbytes()}});
  }
  or_throw(write_safetensors(path, std::move(out), metadata));
}

}  // namespace kinora::core
