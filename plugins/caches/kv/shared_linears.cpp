#include "plugins/caches/kv/shared_linears.hpp"

#include <array>

#include "kinora/cache.hpp"

namespace kinora {
namespace {

bool has_same_data(const Tensor& a, const Tensor& b) {
  return a.data<char>() == b.data<char>() && a.dtype() == b.dtype() && a.sizes() == b.sizes();
}

bool has_same_numbers(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  const std::array<kinora_value, 2> both{Value(a), Value(b)};
  kinora_value out{};
  check(tensors_api().call_op("aten::equal", "", both.data(), both.size(), &out, 1));
  return out.i != 0;
}

}  // namespace

Tensor SharedLinears::find(kinora_param layer, const Tensor& x) {
  const auto made = made_.find(layer);
  if (made == made_.end()) return {};
  Tensor& input = *made->second.input;
  if (has_same_data(input, x)) return made->second.result;
  if (!has_same_numbers(input, x)) return {};
  input = x;
  return made->second.result;
}

void SharedLinears::put(kinora_param layer, const Tensor& x, Tensor result) {
  Input input;
  for (const auto& [other, made] : made_)
    if (has_same_data(*made.input, x)) input = made.input;
  if (!input) input = std::make_shared<Tensor>(x);
  made_[layer] = {std::move(input), std::move(result)};
}

int64_t SharedLinears::bytes() const {
  int64_t n = 0;
  for (const auto& [layer, made] : made_) n += bytes_of(made.result);
  return n;
}

}  // namespace kinora
