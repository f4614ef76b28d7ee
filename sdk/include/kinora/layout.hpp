// The naming schemes of published weights that a component described (Describe::layout), in the form of abi/layout.h.
#pragma once
#include <deque>

#include "kinora/abi/layout.h"
#include "kinora/options.hpp"

namespace kinora::detail {

struct LayoutEntry {
  Layout layout;
  kinora_layout abi{};

  explicit LayoutEntry(Layout l) : layout(std::move(l)) {
    abi.struct_size = sizeof abi;
    abi.self = this;
    abi.name = layout.name.c_str();
    if (layout.ours) abi.ours = renamed<&Layout::ours>;
    if (layout.theirs) abi.theirs = renamed<&Layout::theirs>;
  }
  LayoutEntry(const LayoutEntry&) = delete;
  LayoutEntry& operator=(const LayoutEntry&) = delete;

 private:
  template <auto Member>
  static int32_t renamed(const void* self, const char* name, const kinora_sink* out) {
    return guard([&] {
      const std::string to = (static_cast<const LayoutEntry*>(self)->layout.*Member)(name);
      if (!to.empty()) out->write(out->self, to.data(), to.size());
    });
  }
};

// Layout number i of the component; null past the last, and if describe() fails.
template <class M>
const kinora_layout* layout_of(uint64_t i) {
  const kinora_layout* out = nullptr;
  guard([&] {
    static const std::deque<LayoutEntry> all = [] {
      const auto description = described<M>();
      std::deque<LayoutEntry> made;
      for (const auto& l : description.layouts()) made.emplace_back(l);
      return made;
    }();
    if (i < all.size()) out = &all[i].abi;
  });
  return out;
}

}  // namespace kinora::detail
