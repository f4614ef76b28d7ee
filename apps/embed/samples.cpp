// The part of the C API for embedding that needs no open host: samples, and their tensors as DLPack.
#include <fmt/format.h>

#include "core/sample/sample.hpp"
#include "kinora/embed.h"
#include "kinora/sample.hpp"

namespace kinora::core::embed {
namespace {

// A tensor that shares the memory of a sample's. It keeps a clone, which has that tensor when the sample has another.
struct SharedTensor {
  kinora_dl_managed managed{};
  std::vector<int64_t> shape, strides;
  Sample sample;
};

}  // namespace

extern "C" {

const kinora_samples_api* kinora_embed_samples(void) { return &samples_table(); }

int32_t kinora_embed_share_tensor(const kinora_sample* sample, const char* name, kinora_dl_managed** out) {
  return guard([&] {
    const Sample given = Sample::borrow(const_cast<kinora_sample*>(sample));
    Sample kept = given.clone(given.key());
    const kinora_dl_tensor* tensor = kept.tensor(name);
    if (!tensor)
      throw Error(KINORA_ERROR_NOT_FOUND, fmt::format("sample '{}' has no tensor '{}'", kept.key(), name));
    const auto n = static_cast<size_t>(tensor->ndim);
    auto* shared = new SharedTensor{{}, {tensor->shape, tensor->shape + n}, {}, std::move(kept)};
    if (tensor->strides) {
      shared->strides.assign(tensor->strides, tensor->strides + n);
    } else {
      const auto both = kinora::shape_and_strides(shared->shape);
      shared->strides.assign(both.begin() + tensor->ndim, both.end());
    }
    shared->managed = {1,
                       0,
                       shared,
                       [](kinora_dl_managed* m) { delete static_cast<SharedTensor*>(m->manager); },
                       KINORA_DL_READ_ONLY,
                       *tensor};
    shared->managed.tensor.shape = shared->shape.data();
    shared->managed.tensor.strides = shared->strides.data();
    *out = &shared->managed;
  });
}

}  // extern "C"

}  // namespace kinora::core::embed
