// Tensors by the interface's argument names.
#pragma once
#include <map>
#include <string>

#include "kinora/tensor.hpp"

namespace kinora {

template <class T>
class Named {
 public:
  Named(const kinora_named* in, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i)
      if (in[i].tensor) tensors_.emplace(in[i].name, borrow<T>(in[i].tensor));
  }
  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  // A required tensor.
  const T& operator[](const std::string& name) const {
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) throw Error(KINORA_INVALID, "input '" + name + "' is missing" + listed());
    return it->second;
  }
  T get(const std::string& name) const { return has(name) ? tensors_.at(name) : T(); }

 private:
  std::string listed() const {
    std::string out = "; given:";
    for (const auto& [n, t] : tensors_) out += " " + n;
    return tensors_.empty() ? "; no inputs were given" : out;
  }
  std::map<std::string, T> tensors_;
};

namespace detail {
template <class T>
void give_all(std::vector<T> from, kinora_tensor* out, uint64_t n_out) {
  for (uint64_t i = 0; i < n_out; ++i) out[i] = i < from.size() ? give(std::move(from[i])) : nullptr;
}
}  // namespace detail

}  // namespace kinora
