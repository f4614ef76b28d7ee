// The kinds of component that this host knows, and the interface that a component of each kind must offer.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace kinora::core {

struct Kind {
  const char* name;       // "sampler": the part of an id before the slash
  const char* interface;  // "kinora.sampler/1"
  uint32_t table_size;    // bytes of the interface's table in ABI 1.0, the minimum for a plugin
  const char* slots;      // names of its functions, in order, from byte 8 on; "?" after one that may be null
};

std::span<const Kind> kinds();

// Null: unknown.
const Kind* find_kind(std::string_view name);

}  // namespace kinora::core
