// Token ids as tensors of a sample, int64.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "kinora/sample.hpp"

namespace kinora::text {

// Sets tensor `name`, int64 [L], or [L / columns, columns].
inline void set_ids(Sample& sample, const char* name, const std::vector<int64_t>& values,
                    int64_t columns = 0) {
  std::vector<uint8_t> bytes(values.size() * sizeof(int64_t));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  std::vector<int64_t> shape{static_cast<int64_t>(values.size())};
  if (columns > 0) shape = {shape[0] / columns, columns};
  sample.set_tensor(name, std::move(bytes), std::move(shape), KINORA_DL_INT, 64);
}

// Returns tensor `name`, int64 [L]. Throws Error if it is absent or another one.
inline std::vector<int64_t> need_ids(const Sample& sample, const std::string& name) {
  const kinora_dl_tensor* t = sample.tensor(name.c_str());
  const std::string of = "sample '" + std::string(sample.key()) + "'";
  if (!t)
    throw Error(KINORA_ERROR_NOT_FOUND, of + " has no tensor '" + name + "'; an earlier stage must set it");
  if (t->ndim != 1 || t->code != KINORA_DL_INT || t->bits != 64 || t->lanes != 1 || !is_row_major(*t))
    throw Error(KINORA_ERROR_INVALID,
                of + ": tensor '" + name + "' must be int64 [L]; name a tensor of token ids");
  std::vector<int64_t> out(static_cast<size_t>(t->shape[0]));
  if (!out.empty())
    std::memcpy(out.data(), static_cast<const uint8_t*>(t->data) + t->byte_offset,
                out.size() * sizeof(int64_t));
  return out;
}

}  // namespace kinora::text
