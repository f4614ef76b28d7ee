// Components of the built plugins (KINORA_PLUGIN_PATH) for tests, through the registry and the C ABI like any
// run.
#pragma once
#include <string>
#include <utility>

#include <ATen/Parallel.h>

#include "core/plugin/host.hpp"
#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"
#include "core/torch/tensors/tensors_api.hpp"

namespace kinora::test {

// Created on first use; libtorch is already in the process.
inline core::Registry& plugins() {
  static core::Registry registry = [] {
    at::set_num_threads(1);  // test tensors are tiny, so threads would only wait for each other
    core::set_torch_loader([] { return core::Status(); });
    core::serve_tensors();
    return core::Registry::scan(core::search_folders({}));
  }();
  return registry;
}

inline std::string last_error() {
  return std::string(view(core::core_host().last_error(&core::core_host())));
}

// One instance of a component. `given`: its options by name; `more`: further arguments of create() (a
// mesh, a context). Throws kinora::Error where a run would fail.
template <class Table>
class Instance {
 public:
  template <class... More>
  explicit Instance(std::string_view id, const core::json& given = core::json::object(), More... more) {
    const auto component = core::or_throw(plugins().open(id));
    api_ = &component.table<Table>();
    options_ = core::or_throw(core::Options::make(*component.spec, given));
    self_ = core::made([&] { return api_->create(&core::core_host(), options_.abi(), more...); }, id);
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  ~Instance() {
    if (self_) api_->destroy(self_);
  }
  const Table* operator->() const { return api_; }
  void* self() const { return self_; }

 private:
  const Table* api_ = nullptr;
  core::Options options_;
  void* self_ = nullptr;
};

}  // namespace kinora::test
