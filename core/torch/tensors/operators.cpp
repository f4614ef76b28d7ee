#include "core/torch/tensors/operators.hpp"

#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

#include "core/torch/tensors/op_values.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

struct Hash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
};

// Cache of looked-up operators, never evicted: the dispatcher's own table takes a lock and builds names at
// every lookup.
class Operators {
 public:
  const Operator& find(const char* name, const char* overload) {
    char key[256];
    const size_t n = std::strlen(name), m = overload ? std::strlen(overload) : 0;
    if (n + m + 1 > sizeof key) raise(KINORA_NOT_FOUND, "no operator has a name as long as '{}'", name);
    std::memcpy(key, name, n);
    key[n] = '.';
    if (m) std::memcpy(key + n + 1, overload, m);
    const std::string_view view(key, n + 1 + m);
    {
      const std::shared_lock lock(mutex_);
      if (const auto it = known_.find(view); it != known_.end()) return *it->second;
    }
    const auto handle = c10::Dispatcher::singleton().findSchema({name, overload ? overload : ""});
    if (!handle)
      raise(KINORA_NOT_FOUND, "libtorch has no operator '{}' with overload '{}'", name,
            overload ? overload : "");
    const std::unique_lock lock(mutex_);
    auto& at = known_[std::string(view)];
    if (!at) at = std::make_unique<Operator>(*handle);
    return *at;
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<Operator>, Hash, std::equal_to<>> known_;
};

}  // namespace

void call_operator(const char* name, const char* overload, const kinora_value* args, uint64_t n_args,
                   kinora_value* out, uint64_t n_out) {
  static Operators operators;
  const Operator& op = operators.find(name, overload);
  const size_t n = op.arguments.size(), returns = op.handle.schema().returns().size();
  if (n_args > n) raise(KINORA_INVALID, "{}: {} arguments given, it has {}", op.name, n_args, n);
  if (n_out > returns) raise(KINORA_INVALID, "{}: {} results asked for, it has {}", op.name, n_out, returns);
  torch::jit::Stack stack;
  stack.reserve(std::max(n, returns));
  for (size_t i = 0; i < n; ++i) stack.push_back(i < n_args ? op.argument(i, args[i]) : op.missing(i));
  op.handle.callBoxed(stack);
  uint64_t done = 0;
  try {
    for (; done < n_out; ++done) out[done] = result_of(stack[done]);
  } catch (...) {
    while (done > 0) release_value(&out[--done]);
    throw;
  }
}

void release_value(kinora_value* v) {
  if (v->kind == KINORA_TENSOR) adopt<at::Tensor>(v->t);
  if (v->kind == KINORA_LIST) {
    const auto* list = static_cast<const kinora_tensor*>(v->list);
    for (uint64_t i = 0; i < v->n; ++i) adopt<at::Tensor>(list[i]);
    delete[] list;
  }
  if (v->kind == KINORA_INTS) delete[] static_cast<const int64_t*>(v->list);
  *v = kinora_value{};
}

}  // namespace kinora::core
