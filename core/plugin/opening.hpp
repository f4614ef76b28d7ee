// Opens components and makes instances of them, and says in the log which plugin a command waits for.
#pragma once
#include <memory>
#include <string_view>

#include "core/plugin/host.hpp"
#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"

namespace kinora::core {

// Registry::open(), or its failure as an Error. A plugin's static constructors and entry may block for ever:
// after so many seconds the log names the plugin, once.
Component open_component(Registry&, std::string_view kind, std::string_view name, double seconds = 10);

// An instance that is destroyed with its owner. Throws the component's error about its options. more: what the table's
// create takes besides.
using Instance = std::unique_ptr<void, void (*)(void*)>;
template <class Table>
inline Instance instance_of(const Component& component, const Options& options, auto... more) {
  const auto& api = component.table<Table>();
  return {made([&] { return api.create(host(), options.abi(), more...); }, component.spec->id), api.destroy};
}

}  // namespace kinora::core
